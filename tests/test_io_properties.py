"""Whatever pairs of ids are written to a file, the same ids and edges come back."""

from __future__ import annotations

import csv
import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given, settings
from hypothesis import strategies as st

from rae import Graph
from rae.io import read_edges, read_embeddings, write_embeddings

whole = st.integers(-(2**63), 2**63 - 1)
huge = st.integers(-(2**70), 2**70)
characters = st.characters(codec="utf-8", exclude_characters="\0")  # NUL marks a file as binary
digits = st.from_regex(r"[+-]?[0-9]{1,22}(\.[0-9])?", fullmatch=True)
# Blanks around a whole number are padding, by rule; everywhere else they belong to the id.
words = st.one_of(st.text(characters, min_size=1, max_size=8), digits, st.sampled_from(["source", "NA", "#", "%", '"']))
names = words.filter(lambda word: not re.fullmatch(r"[ \t]+-?[0-9]+[ \t]*|-?[0-9]+[ \t]+", word))


def pairs(ids: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[Any, Any]]]:
    return st.lists(st.tuples(ids, ids), min_size=1, max_size=8)


def edge_texts(graph: Graph) -> tuple[set[str], set[frozenset[str]]]:
    names = [str(i) for i in graph.ids]
    ends = {frozenset((names[u], names[v])) for u in range(graph.n_nodes) for v in graph.neighbors(u)}
    return set(names), ends


def expected(edges: list[tuple[Any, Any]]) -> tuple[set[str], set[frozenset[str]]]:
    texts = [(str(u), str(v)) for u, v in edges]
    return {end for edge in texts for end in edge}, {frozenset(edge) for edge in texts if edge[0] != edge[1]}


@settings(max_examples=150, deadline=None)
@given(st.one_of(pairs(whole), pairs(huge), pairs(names), pairs(st.one_of(whole, names))), st.sampled_from(",;\t|"))
def test_any_pairs_survive_a_text_table(edges: list[tuple[Any, Any]], delimiter: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges"
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.writer(stream, delimiter=delimiter)
            writer.writerow(["source", "target"])
            writer.writerows(edges)
        graph = read_edges(path)

    assert edge_texts(graph) == expected(edges)
    assert graph.counts.rows == len(edges)


@settings(max_examples=50, deadline=None)
@given(pairs(whole), st.sampled_from([",", ", ", "\t", " ", "   ", " \t "]), st.sampled_from(["\n", "\r\n"]))
def test_any_whole_numbers_survive_an_edge_list(edges: list[tuple[int, int]], delimiter: str, end: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges"
        path.write_bytes("".join(f"{u}{delimiter}{v}{end}" for u, v in edges).encode())
        graph = read_edges(path)

    assert graph.id_column.type == pa.int64()
    assert edge_texts(graph) == expected(edges)


@settings(max_examples=50, deadline=None)
@given(st.one_of(pairs(whole), pairs(st.integers(0, 2**64 - 1)), pairs(st.text(max_size=8))))
def test_any_pairs_survive_parquet(edges: list[tuple[Any, Any]]) -> None:
    ends = list(zip(*edges, strict=True))
    kind = pa.uint64() if any(isinstance(e, int) and e >= 2**63 for end in ends for e in end) else None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "edges"
        pq.write_table(pa.table({"u": pa.array(ends[0], kind), "v": pa.array(ends[1], kind)}), path)
        graph = read_edges(path)

    assert edge_texts(graph) == expected(edges)
    assert type(graph.ids[0].item() if kind or isinstance(edges[0][0], int) else graph.ids[0]) is type(edges[0][0])


@settings(max_examples=30, deadline=None)
@given(st.lists(names, min_size=1, max_size=6, unique=True), st.sampled_from([".parquet", ".csv"]))
def test_any_text_ids_survive_an_embedding_file(ids: list[str], ending: str) -> None:
    z = np.random.default_rng(len(ids)).standard_normal((len(ids), 2)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"z{ending}"
        write_embeddings(path, pa.array(ids, pa.string()), z)
        read, back = read_embeddings(path)

    assert [str(i) for i in read.to_pylist()] == ids
    assert np.array_equal(back, z)
