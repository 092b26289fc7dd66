"""Graphs with words: the citation graphs again, and page graphs, by a reader whose C is chosen on validation nodes."""

from __future__ import annotations

from typing import Any

from rae.datasets import Dataset
from rae.evaluation import data, floors, models
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work, work_per_row
from rae.evaluation.tables import node, others
from rae.evaluation.tables.node import CONCAT, NEIGHBOR, UNTRAINED, WITHIN
from rae.evaluation.tables.node import DATASETS as CITATIONS
from rae.evaluation.tables.node import RUNS as _CITATION_RUNS
from rae.evaluation.tables.others import read

SPLITS = ("chameleon", "squirrel")  # of ten public splits each
LARGE = ("facebook-pages",)
RUNS = _CITATION_RUNS // 2

RAW = Row("own words", "floor", {"method": "features, L2"})
HOPS = {
    (hops, symmetric): Row(
        f"{hops}-hop {'symmetric ' if symmetric else ''}mean",
        "floor",
        {"method": "hops", "hops": hops, "symmetric": symmetric},
    )
    for symmetric in (False, True)
    for hops in (1, 2, 3, 4)
}
PICKED = Row("the mean that validation picks", "floor", {"method": "hops, by validation"}, "of the eight before")
WORDS_AND_MEANS = Row("own words beside one- and two-hop means", "floor", {"method": "words beside means"})
STRUCTURE = Row("39 two-hop statistics", "floor", {"method": "two-hop statistics"}, "structure alone")
FLOORS = (RAW, *HOPS.values(), PICKED, WORDS_AND_MEANS, STRUCTURE)
FEW_FLOORS = (RAW, HOPS[1, False], HOPS[2, False], HOPS[2, True], WORDS_AND_MEANS, STRUCTURE)

EXACT = Row("exact solution", "ours", {"model": "exact"}, "the default")
ACTIONS_ALONE = Row(
    "exact solution, actions alone",
    "ours",
    {"model": "exact", "structure": False, "block_columns": 64},
    "own, near, mid and far in 256 columns",
)
AGREE = Row("trained for actions", "ours", {"preset": "actions"}, "the preset rae.ACTIONS")


def solved(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The accuracy of a row of ours, with the seconds of fit and of vectors, and the device."""
    pages, place = data.get(dataset), others.device_name(effort.device)
    watch = others.Stopwatch(place)
    model = models.fitted(row, seed, effort, pages.graph, pages.features)
    watch.note_fitted()
    z = models.chosen(row, model, model.transform(pages.graph, pages.features))
    spent = watch.spent()
    score = read(z, pages, seed, effort)
    return Score(score.score, {**score.also, **spent, "device": place})


def _trained(dataset: str, seed: int, effort: Effort) -> Scores:
    pages = data.get(dataset)
    return {name: read(z, pages, seed, effort) for name, z in node.both(pages, seed, effort).items()}


def _floors(dataset: str, seed: int, effort: Effort) -> Scores:
    scores = _scored(FLOORS, data.get(dataset), seed, effort)
    best = max((row.name for row in HOPS.values()), key=lambda name: scores[name].also["validation"])
    return {**scores, PICKED.name: scores[best]}


def _few_floors(dataset: str, seed: int, effort: Effort) -> Scores:
    return _scored(FEW_FLOORS, data.get(dataset), seed, effort)


def _scored(rows: tuple[Row, ...], pages: Dataset, seed: int, effort: Effort) -> dict[str, Score]:
    return {row.name: read(floor_vectors(row, pages), pages, seed, effort) for row in rows if row is not PICKED}


def floor_vectors(row: Row, pages: Dataset) -> Any:
    """The vectors of a floor."""
    graph, x = pages.graph, pages.features
    assert x is not None
    if row is RAW:
        return floors.of_length_one(x)
    if row is WORDS_AND_MEANS:
        return floors.words_and_means(graph, x)
    if row is STRUCTURE:
        return floors.two_hop_statistics(graph)
    return floors.hop_mean(graph, x, row.settings["hops"], symmetric=row.settings["symmetric"])


_READER = "Softmax regression; rows of length one or standardised columns, and C from 0.001 to 1,000, "

CITED = Table(
    name="node-tuned",
    title="Three citation graphs, C tuned",
    unit="accuracy, %",
    protocol=(
        "The split of Kipf and Welling. " + _READER + "are chosen on the 500 validation nodes, the same way for every "
        "row that gives vectors. The error of a difference is that over the 1,000 test nodes, paired node by node. "
        "Rows of other methods are the lines of the table before."
    ),
    settings={"reader": others.TUNED},
    works=(
        Work(FLOORS, _floors, CITATIONS, 1),
        *work_per_row(solved, (EXACT, ACTIONS_ALONE), CITATIONS, 10),
        *work_per_row(solved, (UNTRAINED,), CITATIONS, RUNS),
        Work((WITHIN, NEIGHBOR, CONCAT), _trained, CITATIONS, RUNS),
        *work_per_row(solved, (AGREE,), CITATIONS, 20, {}, 3),
        *others.works(node.OTHERS, CITATIONS, RUNS, ledger_table="node"),
    ),
    published=node.OTHERS_PUBLISHED,
)

PAGES = Table(
    name="words",
    title="Pages with words: types of page, and traffic where neighbours differ",
    unit="accuracy, %",
    protocol=(
        "chameleon and squirrel (without doubled nodes): seed s is the s-th of the ten public splits. facebook-pages: "
        "seed s holds a fifth of the nodes out. " + _READER + "are chosen on the validation nodes, or on a fifth of "
        "the training nodes where there are none, the same way for every row."
    ),
    settings={"reader": others.TUNED},
    works=(
        Work(FEW_FLOORS, _few_floors, LARGE, 3),
        Work(FLOORS, _floors, SPLITS, 10),
        *work_per_row(solved, (EXACT, UNTRAINED), LARGE, 3),
        *work_per_row(solved, (EXACT, UNTRAINED), SPLITS, 10),
        *work_per_row(solved, (AGREE,), LARGE, 3, {}, 1),
        *work_per_row(solved, (AGREE,), SPLITS, 10, {}, 1),
        Work((WITHIN, NEIGHBOR, CONCAT), _trained, LARGE, 3, {}, 1),
        Work((WITHIN, NEIGHBOR, CONCAT), _trained, SPLITS, 10),
        *others.works(node.OTHERS, LARGE, 3, unasked=0),
        *others.works(node.OTHERS, SPLITS, 10, unasked=0),
    ),
)
