"""The standard library of the running Python as a graph of imports, with the names that modules use as features.

Modules are nodes, with their dotted names as ids; an import, at the top or inside a function, is
an edge. Modules without source (sys, _socket, ...) are nodes if they are imported. The
names that a module uses, variables, attributes and imported names alike, are its action features.
Sources are parsed, never imported.
"""

from __future__ import annotations

import ast
import contextlib
import gc
import logging
import os
import sys
import sysconfig
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from rae.datasets.dataset import Dataset
from rae.datasets.options import fraction, whole_number
from rae.errors import Argument, DatasetError
from rae.graph import Graph

log = logging.getLogger("rae.datasets")

# Tests, bundled wheels, generated help texts and installed packages.
_EXCLUDED = {
    "__phello__",
    "__pycache__",
    "_bundled",
    "dist-packages",
    "idle_test",
    "lib-dynload",
    "pydoc_data",
    "site-packages",
    "test",
    "tests",
}


@dataclass(frozen=True)
class Module:
    """One source file: its dotted name, its imports, and how often it uses each name."""

    name: str
    imports: tuple[tuple[str, tuple[str, ...]], ...]  # (module, names imported from it)
    names: Counter[str]


def load(*, folder: str | Path | None = None, least: int = 2, most: float = 0.5) -> Dataset:
    """The standard library in `folder`, by default the running Python's.

    A name is a feature when `least` modules or more use it, and at most a share `most` of them:
    a name that most modules use (self, None, len) distinguishes none. Its value is log(1 + uses).
    """
    least, most = whole_number("least", least, 1), fraction("most", most)
    root = Path(sysconfig.get_path("stdlib") if folder is None else folder)
    with _collector_paused():
        modules = list(parse(root))
    if not modules:
        raise DatasetError(
            f"expected the sources of the standard library in {root}, found no .py file; this Python comes "
            "without them (zipped or embedded); pass ",
            *(Argument("folder", ...), " with the Lib folder of another Python"),
        )
    edges = import_edges(modules)
    names = sorted({m.name for m in modules} | {target for _, target in edges})
    graph = Graph.from_edges(_columns(edges), ids=names)
    features, words = _features(names, modules, least, most)
    return Dataset("stdlib", graph, features, words)


# ---------------------------------------------------------------------------------- parsing


def parse(root: Path) -> Iterator[Module]:
    """Every module below this folder, by name; a file that this Python cannot parse is left out."""
    for path in _files(root):
        parts = path.relative_to(root).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # old escapes in old modules
                tree = ast.parse(path.read_bytes(), str(path))
        except (OSError, SyntaxError, ValueError, RecursionError) as error:
            log.warning("left out %s: %s", path, error)
            continue
        yield _module(name, is_package, tree)


def _files(root: Path) -> list[Path]:
    """The source files of importable modules below the folder, sorted."""
    paths = []
    for folder, folders, files in os.walk(root):
        folders[:] = [f for f in folders if f not in _EXCLUDED and f.isidentifier()]
        names = [Path(f) for f in files if f != "__main__.py" and not (folder == str(root) and f == "__init__.py")]
        paths += [Path(folder) / f for f in names if f.suffix == ".py" and f.stem.isidentifier()]
    return sorted(paths)


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection in this block: it takes half the time of parsing, and syntax trees have no cycles."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _module(name: str, is_package: bool, tree: ast.Module) -> Module:
    words, statements = _walk(tree)
    imports: list[tuple[str, tuple[str, ...]]] = []
    for node in statements:
        imported = tuple(alias.name for alias in node.names)
        if isinstance(node, ast.Import):
            imports.extend((module, ()) for module in imported)
        elif (source := _absolute(name, is_package, node.level, node.module)) is not None:
            imports.append((source, imported))
        words.extend(word.rpartition(".")[2] for word in imported if word != "*")
    return Module(name, tuple(imports), Counter(words))


def _walk(tree: ast.Module) -> tuple[list[str], list[ast.Import | ast.ImportFrom]]:
    """The variables and attributes of the tree, and its imports; ast.walk takes twice as long."""
    words: list[str] = []
    imports: list[ast.Import | ast.ImportFrom] = []
    pending: list[Any] = [tree]
    while pending:
        node = pending.pop()
        kind = type(node)
        if kind is ast.Name:
            words.append(node.id)
        elif kind is ast.Attribute:
            words.append(node.attr)
            pending.append(node.value)
        elif kind is ast.Import or kind is ast.ImportFrom:
            imports.append(node)
        elif kind is not ast.Constant and isinstance(node, ast.AST):
            for field in node._fields:
                part = getattr(node, field)
                pending.extend(part) if type(part) is list else pending.append(part)
    return words, imports


def _absolute(name: str, is_package: bool, level: int, module: str | None) -> str | None:
    """The full name behind `from ..module import`, None if it leaves the library."""
    if level == 0:
        return module
    parts = name.split(".")
    depth = len(parts) - level + is_package
    if depth < 1:
        return None
    return ".".join([*parts[:depth], *([module] if module else [])])


# ----------------------------------------------------------------------------------- graph and features


def import_edges(modules: Iterable[Module]) -> list[tuple[str, str]]:
    """(importer, imported) for every import within the library, sorted, each once."""
    modules = list(modules)
    sources = {m.name for m in modules}
    edges = set()
    for module in modules:
        for source, imported in module.imports:
            for name in [f"{source}.{t}" for t in imported] or [source]:
                target = _resolve(name, source, sources)
                if target is not None and target != module.name:
                    edges.add((module.name, target))
    return sorted(edges)


def _resolve(imported: str, source: str, sources: set[str]) -> str | None:
    """The imported module: the submodule itself, else the module that holds the name, else None."""
    for name in (imported, source):
        while name:
            if name in sources:
                return name
            name = name.rpartition(".")[0]
    top = source.partition(".")[0]
    return top if top in sys.stdlib_module_names else None


def _columns(edges: list[tuple[str, str]]) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    table = np.array(edges, dtype=object).reshape(-1, 2)
    return table[:, 0], table[:, 1]


def _features(names: list[str], modules: list[Module], least: int, most: float) -> tuple[Any, tuple[str, ...]]:
    """log(1 + uses) of every feature name in every module, zeros for modules without source; and the names."""
    users = Counter(word for module in modules for word in module.names)
    words = sorted(word for word, count in users.items() if least <= count <= most * len(modules))
    row, column = ({name: i for i, name in enumerate(items)} for items in (names, words))
    entries = [(row[m.name], column[w], uses) for m in modules for w, uses in m.names.items() if w in column]
    table = np.array(entries, np.int64).reshape(-1, 3)
    values = np.log1p(table[:, 2]).astype(np.float32)
    return sp.csr_array((values, (table[:, 0], table[:, 1])), shape=(len(names), len(words))), tuple(words)
