"""Air-traffic graphs: how active an airport is, by its position in the network, within a country and across."""

from __future__ import annotations

from typing import Any

from rae.evaluation import data, models, probes
from rae.evaluation.table_spec import Effort, Row, Score, Table, published, quoted, work_per_row
from rae.evaluation.tables.methods import (
    DEGREE_TRIANGLES,
    GRAPHWAVE,
    NODE2VEC,
    REFEX,
    ROLE_METHODS,
    ROLX_16,
    STATISTICS,
    both_vectors,
)
from rae.evaluation.tables.others import Stopwatch

DATASETS = ("brazil", "europe", "usa")
PAIRS = tuple(f"{a} to {b}" for a in DATASETS for b in DATASETS if a != b)
RUNS = 20

LOG_DEGREE = Row("log-degree", "floor", {"method": "log-degree"})
TWO_HOP = Row("two-hop degree statistics", "floor", {"method": "two-hop degree statistics"})
FEATURES = Row("structural features alone", "floor", {"method": "structural features"}, "what RAE is given")
EXACT = Row("RAE, exact solution", "ours", {"model": "exact"})
PLACE = Row("RAE, exact solution, place alone", "ours", {"model": "exact", "block": "place"}, "where labels are few")
UNTRAINED = Row("RAE, untrained", "ours", {"steps": 0})
WITHIN = Row("RAE, J_within", "ours", {"loss": "within"})
NEIGHBOR = Row("RAE, J_neighbor", "ours", {"loss": "neighbor"})

FLOORS = (LOG_DEGREE, TWO_HOP, FEATURES, DEGREE_TRIANGLES, STATISTICS)
OURS = (EXACT, PLACE, UNTRAINED, WITHIN, NEIGHBOR)
OTHERS = (*ROLE_METHODS, GRAPHWAVE, REFEX, NODE2VEC)  # computed only when asked for
TRANSFER_FLOORS = (
    *(LOG_DEGREE, TWO_HOP, FEATURES, DEGREE_TRIANGLES),
    *(
        Row(f"{name}, in each graph's units", "floor", {"method": f"{name}, own units"})
        for name in ("log-degree", "39 two-hop statistics")
    ),
)


def fitted(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The accuracy of a row at C = 1."""
    airports = data.get(dataset)
    return Score(probes.split_accuracy(both_vectors(row, airports.graph, seed, effort)[1], airports.labels, seed))


# -------------------------------------------------------------------------------------------- transfer


def transferred(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The accuracy of a row in the second country, at C = 1."""
    return Score(probes.transfer_accuracy(*_both_countries(row, dataset, seed, effort)))


def tuned_transferred(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The accuracy of a row in the second country, C chosen in the first."""
    reading = probes.tuned_elsewhere(*_both_countries(row, dataset, seed, effort), seed, probes.grid(effort))
    return Score(reading.accuracy, {**reading.also(), "right": probes.packed(reading.right)})


def _both_countries(row: Row, dataset: str, seed: int, effort: Effort) -> tuple[Any, Any, Any, Any]:
    """Vectors and labels of the first country, then of the second; a row of ours is fitted on the first alone."""
    home, away = (data.get(name) for name in dataset.split(" to "))
    if row.kind == "floor":
        z = [both_vectors(row, graph, seed, effort)[1] for graph in (home.graph, away.graph)]
    else:
        model = models.fitted(row, seed, effort, home.graph)
        z = [models.chosen(row, model, model.transform(graph, whole=True)) for graph in (home.graph, away.graph)]
    return z[0], home.labels, z[1], away.labels


# ------------------------------------------------------------------------- activity, with actors


def active(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The accuracy of a reader with C tuned; beside it the agreement of clusters with the classes."""
    labelled, watch = data.get(dataset), Stopwatch("cpu")
    near, z = both_vectors(row, labelled.graph, seed, effort)
    fitted = {"fit_seconds": watch.seconds()}  # and vectors: few of the methods can tell them apart
    train, test = probes.fifth(labelled.labels, seed)
    reading = probes.tuned_within(z, labelled.labels, train, test, seed, probes.grid(effort))
    agreement = {name: round(value, 3) for name, value in probes.clusters(near, labelled.labels, seed).items()}
    return Score(reading.accuracy, {**reading.also(), **agreement, **fitted})


def by_rone(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """Micro and macro F1 by RONE's protocol."""
    labelled = data.get(dataset)
    micro, macro = probes.rone(both_vectors(row, labelled.graph, seed, effort)[1], labelled.labels, seed)
    return Score(micro, {"macro": round(macro, 3)})


TABLE = Table(
    name="airports",
    title="Air-traffic graphs: the activity of an airport",
    unit="accuracy, %",
    protocol=(
        "Structure alone, default settings; seed s fits with seed s and is judged on the s-th stratified 80/20 split, "
        "so that every row is paired with the floors split by split. Standardised features, L2-penalised softmax "
        "regression (one class against the rest would handicap log-degree, since its classes are ordered)."
    ),
    settings={"reader": "softmax, C = 1, standardised"},
    works=(
        *work_per_row(fitted, (*FLOORS, *OURS), DATASETS, RUNS),
        *work_per_row(fitted, OTHERS, DATASETS, RUNS, {}, 0),
    ),
)

TRANSFER = Table(
    name="transfer",
    title="Air-traffic graphs: fitted in one country, judged in another",
    unit="accuracy, %",
    protocol=(
        "The model and the reader see one country alone; all airports of the other are embedded and classified. The "
        "classes are quartiles of activity within each country."
    ),
    settings={"reader": "softmax, C = 1, standardised"},
    works=(
        *work_per_row(transferred, TRANSFER_FLOORS, PAIRS, 1),
        *work_per_row(transferred, OURS, PAIRS, 5),
    ),
)

TUNED_TRANSFER = Table(
    name="transfer-tuned",
    title="Air-traffic graphs: fitted in one country, judged in another, C tuned",
    unit="accuracy, %",
    protocol=(
        "As the table before; scaling and C of the reader are chosen by five folds of the first country, the same way "
        "for every row. The test set is one country, so the error of a difference is that over its airports."
    ),
    settings={"reader": "softmax, C and scaling by folds"},
    works=(
        *work_per_row(tuned_transferred, TRANSFER_FLOORS, PAIRS, 1),
        *work_per_row(tuned_transferred, OURS, PAIRS, 3),
    ),
)

ACTIVITY = Table(
    name="activity",
    title="Activity of airports and influence of actors, C tuned, and clusters",
    unit="accuracy, %",
    protocol=(
        "Structure alone. Seed s is judged on a fifth of the labelled nodes, drawn by s; scaling and C are chosen by "
        "five folds of the others, the same way for every row. Then k-means on all nodes, told that there are four "
        "classes: the adjusted Rand index × 100 on the vectors as they come (blocks by their default weights), and "
        "after standardising the columns."
    ),
    settings={"reader": "softmax, C and scaling by folds"},
    works=(
        *work_per_row(active, (*FLOORS, *OURS), DATASETS, 10),
        *work_per_row(active, (*FLOORS, *OURS), ("actor",), 5),
        *work_per_row(active, OTHERS, DATASETS, 10, {}, 0),
        *work_per_row(active, OTHERS, ("actor",), 5, {}, 0),
    ),
    also={"ari": "ARI of k-means, as they come", "ari_standardised": "ARI of k-means, standardised"},
    judged=("ari", "ari_standardised"),
)

_SURVEY: dict[str, tuple[tuple[float, float | None], ...]] = {  # micro, macro in each country
    "RESD": ((79.7, 79.1), (55.7, 54.4), (64.0, 63.4)),
    "GAS": ((75.7, 75.0), (58.3, 57.4), (66.8, 65.9)),
    "struc2gauss": ((73.0, 71.5), (58.5, 58.0), (64.1, 63.2)),
    "RIDeRs": ((79.0, 78.3), (53.9, 51.9), (62.6, 61.8)),
    "struc2vec": ((76.6, 75.7), (57.7, 57.2), (59.9, 59.4)),
    "GraphWave": ((76.2, 75.3), (52.6, 49.1), (51.7, 46.9)),
    "RolX": ((74.9, 74.1), (55.6, 54.6), (62.3, 61.7)),
    "SEGK": ((72.3, 71.8), (53.6, 52.4), (61.5, 60.7)),
    "DRNE": ((71.6, 70.0), (54.2, 52.1), (60.1, 58.8)),
    "NODE2BITS": ((59.3, 57.7), (49.0, 47.7), (58.3, 57.3)),
    "GraLSP": ((51.0, None), (45.5, None), (53.5, None)),
    "role2vec": ((38.5, None), (36.2, None), (46.7, None)),
}
_RUN_HERE = {
    "struc2vec": "struc2vec",
    "role2vec": "role2vec",
    "RolX": ROLX_16.name,
    "RESD": "RESD",
    "GraphWave": "GraphWave",
    "DRNE": "DRNE",
}
"""Rows of the survey that are run here too, and their names here."""

RONE = Table(
    name="rone",
    title="Air-traffic graphs by RONE's protocol",
    unit="micro F1, %",
    protocol=(
        "As the survey of role-oriented embedding does it: 70 % of the nodes train, shuffled and not stratified, one "
        "class against the rest by liblinear with balanced weights at C = 1, columns as they come, 20 runs. The "
        "published rows were computed by their authors' settings on splits of their own."
    ),
    settings={"reader": "one against the rest, liblinear, balanced, unscaled, 70/30"},
    works=(
        *work_per_row(by_rone, (*FLOORS, *OURS), DATASETS, RUNS),
        *work_per_row(by_rone, OTHERS, DATASETS, RUNS, {}, 0),
    ),
    also={"macro": "macro F1, %"},
    judged=("macro",),
    published=published(
        list(_RUN_HERE.values()), DATASETS, [[pair[0] for pair in _SURVEY[name]] for name in _RUN_HERE]
    ),
    quoted=tuple(
        quoted(name, "RONE's survey", DATASETS, *(pair[i] for pair in pairs), key=key)
        for i, key in enumerate(("", "macro"))
        for name, pairs in _SURVEY.items()
        if pairs[0][i] is not None and (key or name not in _RUN_HERE)
    ),
)
