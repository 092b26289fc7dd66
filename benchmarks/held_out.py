"""Labelled graphs that had no part in any choice, made of what Debian and PyPI ship.

    python benchmarks/held_out.py FOLDER

Writes FOLDER/held-out/NAME.npz for each graph of `rae.evaluation.tables.held_out`; with RAE_DATA=FOLDER they are read
by `rae reproduce roles --table held-out` and `rae reproduce node --table held-out-words`. Needs Debian with its package
lists (`apt-get update`), and pip. Files are read, nothing of a package is installed or run.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.storage.atomic import atomic_path

WHEELS = {"graspologic": "3.4.4", "cect": "0.3.5"}
PACKAGES = {
    "python3-graph-tool": "2.45",
    "wordnet-base": "3.0",
    "libboost1.74-dev": "1.74",
    "linux-headers-6.1.0-50-common": "6.1",
}
WORD = re.compile(r"[a-z][a-z0-9+-]+(?:::[a-z0-9:+-]+)?")  # tags such as role::program are one word
LEAST, MOST, WORDS = 5, 0.5, 6000  # nodes that have a word, the largest share of them, and words in all

Labels = Sequence[str | None]
Pairs = Sequence[tuple[int, int]] | np.ndarray[Any, Any]


def save(
    folder: Path, name: str, n: int, edges: Pairs, labels: Sequence[str | None], least: int, x: Any = None
) -> None:
    """Write a graph: pairs of rows, classes of at least so many nodes (-1 for the others), and words."""
    counts = Counter(label for label in labels if label is not None)
    numbers = {label: k for k, label in enumerate(sorted(c for c in counts if counts[c] >= least))}
    y = np.array([-1 if label is None else numbers.get(label, -1) for label in labels], np.int64)
    arrays = {"n_nodes": n, "edges": np.asarray(edges, np.int64).reshape(-1, 2), "labels": y}
    if x is not None:
        arrays |= {"words": x.indices, "starts": x.indptr, "n_words": x.shape[1]}
    with atomic_path(folder / f"{name}.npz") as part, part.open("wb") as file:
        np.savez_compressed(file, **arrays)
    print(f"{name}: {n:,} nodes, {len(arrays['edges']):,} edges as they are listed, {len(numbers)} classes", flush=True)


def words_of(texts: Sequence[str]) -> sp.csr_array:
    """Which words a text has: the commonest ones, each in at least five texts and at most half of them."""
    words_by_text = [set(WORD.findall(text.lower())) for text in texts]
    counts = Counter(word for words in words_by_text for word in words)
    vocabulary = [word for word, count in counts.most_common(WORDS) if LEAST <= count <= MOST * len(texts)]
    number = {word: k for k, word in enumerate(vocabulary)}
    rows = [sorted(number[word] for word in words if word in number) for words in words_by_text]
    starts = np.cumsum([0, *map(len, rows)])
    indices = np.array([k for row in rows for k in row], np.int32)
    return sp.csr_array((np.ones(len(indices), np.float32), indices, starts), shape=(len(texts), len(vocabulary)))


# ------------------------------------------------------------------------------------------------- packages


def wheel(name: str, folder: Path) -> Path:
    """The unpacked files of a wheel."""
    run = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(folder), f"{name}=={WHEELS[name]}"]
    subprocess.run(run, check=True)
    with zipfile.ZipFile(next(folder.glob(f"{name}-*.whl"))) as archive:
        archive.extractall(folder / name)
    return folder / name


def package(name: str, folder: Path) -> Path:
    """The unpacked files of a Debian package, whose version must be the one expected."""
    subprocess.run(["apt-get", "download", "-q", name], cwd=folder, check=True, capture_output=True)
    file = next(folder.glob(f"{name}_*.deb"))
    version = subprocess.run(["dpkg-deb", "-f", file, "Version"], check=True, capture_output=True, text=True).stdout
    if PACKAGES[name] not in version:
        print(f"{name} is {version.strip()}, the lines in results/ are of {PACKAGES[name]}")
    subprocess.run(["dpkg-deb", "-x", file, folder / name], check=True)
    return folder / name


# --------------------------------------------------------------------------------------------------- nerves


def drosophila(files: Path, folder: Path) -> None:
    """Both halves of a larval fruit fly's mushroom body: neurons, synapses, four kinds of cell."""
    for side in ("left", "right"):
        start = files / "graspologic/datasets/drosophila"
        adjacency = np.loadtxt(start / f"{side}_adjacency.csv")
        labels = (start / f"{side}_cell_labels.csv").read_text().split()
        save(folder, f"drosophila-{side}", len(adjacency), np.argwhere(adjacency > 0), labels, 5)


def mouse(files: Path, folder: Path) -> None:
    """Regions of a mouse's brain, the fifth of their connections with most tracts, and where a region lies."""
    start = files / "graspologic/datasets/mice"
    table = np.loadtxt(start / "edgelists/sub-54776_ses-1_dti.edgelist")
    with (start / "atlas.csv").open() as file:
        regions = [row["Macrostructure"] for row in csv.DictReader(file)] * 2  # of either half of the brain
    strong = table[table[:, 2] > np.quantile(table[:, 2], 0.8), :2]
    save(folder, "mouse-brain", len(regions), strong.astype(np.int64), regions, 5)


KINDS = ("muscle", "motor", "interneuron")  # the first of these in the description of a cell
SENSES = ("sensory", "amphid", "cephalic", "labial", "phasmid", "touch", "ray")


def celegans(files: Path, folder: Path) -> None:
    """Cells of either sex of a worm, their synapses, and whether they sense, pass on, or move."""
    with (files / "cect/data/all_cell_info.csv").open() as file:
        about = {row[0].strip(): row[1].lower() for row in csv.reader(file)}
    for sex, reader in (("herm", "Cook2019HermReader"), ("male", "Cook2019MaleReader")):
        connectome = json.loads((files / f"cect/cache/{reader}.json").read_text())
        synapses = sum(np.array(matrix) > 0 for matrix in connectome["connections"].values())
        kinds = [_cell_kind(about.get(name, "")) for name in connectome["nodes"]]
        save(folder, f"celegans-{sex}", len(kinds), np.argwhere(synapses), kinds, 5)


def _cell_kind(description: str) -> str | None:
    named = next((kind for kind in KINDS if kind in description), None)
    return named or ("sensory" if any(word in description for word in SENSES) else None)


# ---------------------------------------------------------------------------------------------- graph-tool's


def collected(files: Path, folder: Path) -> None:
    """Adjacent adjectives and nouns of a novel; who eats whom in the Serengeti, by group of species."""
    start = files / "usr/lib/python3/dist-packages/graph_tool/collection"
    for name, key in (("adjnoun", "value"), ("serengeti-foodweb", "group")):
        n, edges, columns = GraphToolFile(gzip.decompress((start / f"{name}.gt.gz").read_bytes())).read()
        save(folder, name, n, edges, [str(value) for value in columns[key]], 5)


class GraphToolFile:
    """graph-tool's binary format: neighbours out of each node, then properties of nodes, edges and the graph."""

    NUMBERS = ("B", "h", "i", "q", "d")  # by number of the type; 6 is text, 7 to 11 lists of these, 13 lists of text

    def __init__(self, data: bytes) -> None:
        self.data, self.order, self.at = data, "<" if data[7] == 0 else ">", 8

    def number(self, kind: str) -> Any:
        value = struct.unpack_from(self.order + kind, self.data, self.at)[0]
        self.at += struct.calcsize(self.order + kind)
        return value

    def text(self) -> str:
        length = self.number("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8", "replace")

    def value(self, kind: int) -> Any:
        if kind < len(self.NUMBERS):
            return self.number(self.NUMBERS[kind])
        if kind in (6, 14):
            return self.text()
        return [self.value(kind - 7) for _ in range(self.number("Q"))]

    def read(self) -> tuple[int, list[tuple[int, int]], dict[str, list[Any]]]:
        """Number of nodes, edges, and the properties of nodes by name."""
        self.text(), self.number("B")  # a comment, and whether it is directed
        n = self.number("Q")
        width = next(kind for kind, least in (("B", 8), ("H", 16), ("I", 32), ("Q", 64)) if n < 1 << least)
        edges = [(u, self.number(width)) for u in range(n) for _ in range(self.number("Q"))]
        columns = {}
        for _ in range(self.number("Q")):
            what, name, kind = self.number("B"), self.text(), self.number("B")
            values = [self.value(kind) for _ in range((1, n, len(edges))[what])]
            if what == 1:
                columns[name] = values
        return n, edges, columns


# -------------------------------------------------------------------------------------- software and language


def debian(folder: Path) -> None:
    """Packages of Debian, what they depend on or recommend, their section; words of descriptions, and tags."""
    lists = subprocess.run(["apt-cache", "dumpavail"], check=True, capture_output=True, text=True).stdout
    packages: dict[str, dict[str, str]] = {}
    for paragraph in lists.split("\n\n"):
        fields = dict(_fields(paragraph))
        if "Package" in fields:
            packages.setdefault(fields["Package"], fields)
    number = {name: k for k, name in enumerate(packages)}
    edges = [
        (number[name], number[other])
        for name, fields in packages.items()
        for key in ("Depends", "Pre-Depends", "Recommends")
        for other in _first_choices(fields.get(key, ""))
        if other in number
    ]
    sections = [fields.get("Section", "").split("/")[-1] for fields in packages.values()]
    texts = [fields.get("Description", "") + " " + fields.get("Tag", "") for fields in packages.values()]
    save(folder, "debian", len(packages), edges, sections, 200, words_of(texts))


def _fields(paragraph: str) -> Iterator[tuple[str, str]]:
    """Key and value of each field; a line that begins with a space goes on with the one before."""
    for line in re.sub(r"\n ", " ", paragraph).split("\n"):
        key, colon, value = line.partition(":")
        if colon:
            yield key, value.strip()


def _first_choices(relations: str) -> Iterator[str]:
    """The first of the alternatives of each relation, without version and architecture."""
    for part in relations.split(","):
        yield re.split(r"[ :(|]", part.strip())[0]


def wordnet(files: Path, folder: Path) -> None:
    """Senses of English nouns and verbs, what they are kinds and parts of, their field; words of their glosses."""
    for part, letter in (("noun", "n"), ("verb", "v")):
        lines = (files / f"usr/share/wordnet/data.{part}").read_text("latin-1").splitlines()
        senses = [line.partition("|") for line in lines if not line.startswith("  ")]
        heads = [head.split() for head, _, _ in senses]
        number = {head[0]: k for k, head in enumerate(heads)}
        edges = [(k, number[other]) for k, head in enumerate(heads) for other in _related(head, letter)]
        fields, glosses = [head[1] for head in heads], [gloss for _, _, gloss in senses]
        save(folder, f"wordnet-{part}", len(heads), edges, fields, 100, words_of(glosses))


def _related(head: Sequence[str], letter: str) -> Iterator[str]:
    """Offsets of the more general, more special, whole and part senses."""
    start = 4 + 2 * int(head[3], 16)
    for k in range(start + 1, start + 1 + 4 * int(head[start]), 4):
        if head[k][0] in "@~#%" and head[k + 2] == letter:
            yield head[k + 1]


def headers(root: Path, folder: Path, name: str, least: int) -> None:
    """Header files, which includes which, the folder each lies in; the words of their code."""
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*.h*") if path.is_file())
    number, edges, texts = {file: k for k, file in enumerate(files)}, [], []
    for file in files:
        code = (root / file).read_text("latin-1")
        for included in re.findall(r'#\s*include\s*[<"]([^>"]+)[>"]', code):
            nearby = os.path.normpath(Path(file).parent / included)
            target = number.get(included.removeprefix(f"{root.name}/"), number.get(nearby))
            if target is not None:
                edges.append((number[file], target))
        texts.append(re.sub(r"//.*|/\*.*?\*/|#\s*include.*", "", code).replace("_", " "))
    folders = [file.split("/")[0] if "/" in file else None for file in files]
    save(folder, name, len(files), edges, folders, least, words_of(texts))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("folder", type=Path)
    folder = arguments.parse_args().folder / "held-out"
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        files = {name: wheel(name, Path(scratch)) for name in WHEELS}
        files |= {name: package(name, Path(scratch)) for name in PACKAGES}
        drosophila(files["graspologic"], folder)
        mouse(files["graspologic"], folder)
        celegans(files["cect"], folder)
        collected(files["python3-graph-tool"], folder)
        headers(next(files["linux-headers-6.1.0-50-common"].glob("usr/src/*/include")), folder, "linux-headers", 40)
        headers(files["libboost1.74-dev"] / "usr/include/boost", folder, "boost", 60)
        wordnet(files["wordnet-base"], folder)
    debian(folder)


if __name__ == "__main__":
    main()
