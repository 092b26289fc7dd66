"""The paper's graph table: whole graphs are classified by the sum of their nodes' vectors."""

from __future__ import annotations

from typing import Any

from rae.datasets import GraphCollection
from rae.estimator import RAE
from rae.evaluation import data, floors, models, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Table, Work, published, quoted, work_per_row
from rae.evaluation.tables import others

PAPERS = ("MUTAG", "IMDB-BINARY", "REDDIT-BINARY", "IMDB-MULTI", "REDDIT-MULTI-5K", "REDDIT-MULTI-12K")
DATASETS = (*PAPERS, "PROTEINS")  # the last is not in the paper
SMALL = ("MUTAG", "IMDB-BINARY", "IMDB-MULTI", "PROTEINS")
# The paper samples 4 and 4 neighbours in three of the sets; the nodes of MUTAG and PROTEINS have kinds, which go with
# the degrees.
SETTINGS: dict[str, dict[str, Any]] = {
    "MUTAG": {"fanout": [4, 4], "add_structure": True},
    "IMDB-BINARY": {"fanout": [4, 4]},
    "REDDIT-BINARY": {"fanout": [4, 4]},
    "PROTEINS": {"fanout": [4, 4], "add_structure": True},
}
RUNS = 20
BINS = 30

SIZE = Row("graph size", "floor", {"method": "log nodes, log edges"})
PROFILE = Row("degree-profile histograms", "floor", {"method": "degree profile", "bins": BINS})
INPUTS = Row("node features, summed", "floor", {"method": "features"}, "what RAE is given")
SOLUTION = Row(
    "RAE, exact solution", "ours", {"model": "exact", "relative": False}, "in units of all graphs, not of each"
)
UNTRAINED = Row("RAE, untrained", "ours", {"preset": "paper", "steps": 0, "inference": "sampled"})
EXACT = Row("RAE, untrained, exact", "ours", {"preset": "paper", "steps": 0, "inference": "exact"})
WITHIN = Row(
    "RAE, J_within, exact",
    "ours",
    {"preset": "paper", "loss": "within", "inference": "exact"},
    "the paper: training does not substantially improve",
)


def _score(z: Any, graphs: GraphCollection, seed: int) -> Score:
    folds = probes.cross_validated(z, graphs.labels, seed)
    return Score(folds.accuracy, {} if folds.best_cut is None else {"cut_on_test": round(folds.best_cut, 3)})


def _fitted(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    graphs: GraphCollection = data.get(dataset)
    config = row.config(seed, effort).replace(**SETTINGS.get(dataset, {}))
    fitted = slice(None) if config.steps else slice(1)  # without training only the width of the features matters
    model = RAE(config).fit(graphs.graphs[fitted], features=graphs.features and graphs.features[fitted])
    return _score(model.embed_graphs(graphs.graphs, graphs.features), graphs, seed)


def solved(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The accuracy of the exact solution, fitted on all graphs side by side."""
    graphs: GraphCollection = data.get(dataset)
    model = models.fitted(row, seed, effort, graphs.graphs, graphs.features)
    return _score(model.embed_graphs(graphs.graphs, graphs.features), graphs, seed)


def _floors(dataset: str, seed: int, effort: Effort) -> Scores:
    graphs: GraphCollection = data.get(dataset)
    return {
        SIZE.name: _score(floors.graph_sizes(graphs.graphs), graphs, seed),
        PROFILE.name: _score(floors.degree_profiles(graphs.graphs, BINS), graphs, seed),
    }


def _inputs(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    graphs: GraphCollection = data.get(dataset)
    return _score(floors.summed_features(graphs.graphs, graphs.features, seed), graphs, seed)


OTHERS = ("WL subtree kernel", "DGK", "graph2vec", "subgraph2vec", "InfoGraph", "Patchy-SAN", "GIN")
QUICK = OTHERS[:1]  # the others take minutes to hours of a core: computed only when asked for
HERE = ("MUTAG", "IMDB-BINARY", "IMDB-MULTI", "PROTEINS", "REDDIT-BINARY")


def _read_tuned(z: Any, graphs: GraphCollection, seed: int, effort: Effort) -> Score:
    folds = probes.svm_folds(z, graphs.labels, seed, probes.grid(effort))
    return Score(float(folds.mean()), {"sd_of_folds": round(float(folds.std()), 3)})


def tuned(row: Row, dataset: str, seed: int, effort: Effort) -> Score:
    """The accuracy of a floor or of a row of ours, by the reader of the other methods."""
    graphs: GraphCollection = data.get(dataset)
    if row.name == SOLUTION.name:
        watch = others.Stopwatch("cpu")
        model = models.fitted(row, seed, effort, graphs.graphs, graphs.features)
        watch.note_fitted()
        z = model.embed_graphs(graphs.graphs, graphs.features)
        spent = watch.spent()
        score = _read_tuned(z, graphs, seed, effort)
        return Score(score.score, {**score.also, **spent})
    if row.name == INPUTS.name:
        return _read_tuned(floors.summed_features(graphs.graphs, graphs.features, seed), graphs, seed, effort)
    floor = floors.graph_sizes(graphs.graphs) if row.name == SIZE.name else floors.degree_profiles(graphs.graphs, BINS)
    return _read_tuned(floor, graphs, seed, effort)


TABLE = Table(
    name="graph",
    title="Graph classification",
    unit="accuracy, %",
    protocol=(
        "Sorted neighbour degrees (MUTAG and PROTEINS: and the kind of node), fan-out 4 and 4 (IMDB-MULTI and the "
        "larger REDDIT sets: 10 and 25), the sum over the nodes, L2-penalised logistic regression, one class against "
        "the rest, C = 1, columns standardised on the training folds; ten folds, drawn anew and stratified in every "
        "run, the "
        "same for every row. The headline chooses nothing on test folds: the class with the larger probability wins. "
        "Beside it the paper's own way for two classes: the cut-off that is best on each test fold, which the "
        "published numbers used; it flatters every row, the floors too. Rows of other methods are the lines of the "
        "next table, with its reader."
    ),
    works=(
        Work((SIZE, PROFILE), _floors, DATASETS, RUNS),
        *work_per_row(_inputs, (INPUTS,), DATASETS, RUNS),
        *work_per_row(solved, (SOLUTION,), DATASETS, 10),
        *work_per_row(_fitted, (UNTRAINED,), DATASETS, RUNS, SETTINGS),
        *work_per_row(_fitted, (EXACT,), SMALL, RUNS, SETTINGS),
        *work_per_row(_fitted, (WITHIN,), SMALL[:1], RUNS, SETTINGS),
        *work_per_row(_fitted, (WITHIN,), SMALL[1:], 5, SETTINGS),
        *others.works(OTHERS, HERE, 10, ledger_table="graph-tuned"),
    ),
    settings={"reader": "one against the rest, C = 1, standardised", "folds": 10},
    published=published(
        [UNTRAINED.name],
        PAPERS,
        [[(88.1, 0.9), (72.7, 0.9), (81.6, 1.4), (50.6, 0.5), (54.3, 1.4), (43.5, 1.8)]],
    )
    | published(  # as the paper quotes them, InfoGraph as later papers do
        [others.title(name) for name in ("DGK", "Patchy-SAN", "GIN", "InfoGraph")],
        PAPERS[:4],
        [
            [87.4, 67.0, 78.0, 44.6],
            [92.6, 71.0, 86.3, 45.2],
            [90.0, 75.1, 92.4, 52.3],
            [89.0, 73.0, 82.5, 49.7],
        ],
    ),
    quoted=(  # on the data sets that are not here
        quoted("DGK", "the paper", PAPERS[4:], 41.3, 32.2),
        quoted("PATCHY-SAN (with labels)", "the paper", PAPERS[4:], 49.1, 41.3),
        quoted("GIN (with labels)", "the paper", PAPERS[4:], 57.5, None),
        quoted("MVGRL", "later papers", PAPERS, 89.7, 74.2, 84.5, 51.2, None, None),
        quoted("GraphMAE", "later papers", PAPERS, 88.2, 75.5, 88.0, 51.6, None, None),
    ),
    published_as="cut_on_test",
    also={"cut_on_test": "cut-off chosen on test folds"},
)

TUNED = Table(
    name="graph-tuned",
    title="Graph classification, C tuned, beside other methods",
    unit="accuracy, %",
    protocol=(
        "Ten folds, drawn anew and stratified in every run, the same for every row. Vectors of graphs are read by an "
        "SVM of their inner products; C and scaling (rows of length one, or columns standardised) are chosen by folds "
        "of the training graphs. Kernels have an explicit map, whose inner products they are. Rows with labels learn "
        "from the training graphs and choose their number of passes by a tenth of them. Nothing is chosen on test "
        "folds. Published values are those of the methods' own papers, or as later papers have them; GIN's are of the "
        "pass that is best over the test folds, InfoGraph's too as far as we can tell, and Patchy-SAN's on MUTAG is "
        "that without kinds of edges."
    ),
    works=(
        *work_per_row(tuned, (SIZE, PROFILE, INPUTS, SOLUTION), HERE, 10),
        *others.works(QUICK, HERE, 10, unasked=1),
        *others.works(OTHERS[1:], HERE, 10, unasked=0),
    ),
    settings={"reader": probes.SVM_READER, "folds": 10},
    published=published(
        [others.title(name) for name in OTHERS],
        HERE,
        [
            [(82.05, 0.36), (73.8, 3.9), (50.9, 3.8), (75.0, 3.1), (81.0, 3.1)],
            [(87.44, 2.72), (66.96, 0.56), (44.55, 0.52), (75.68, 0.54), (78.04, 0.39)],
            [(83.15, 9.25), (71.1, 0.54), (50.4, 0.87), (73.3, 2.05), (75.8, 1.0)],
            [(87.17, 1.72), None, None, (73.38, 1.09), None],
            [(89.01, 1.13), (73.03, 0.87), (49.69, 0.53), None, (82.5, 1.42)],
            [(88.95, 4.37), (71.0, 2.29), (45.23, 2.84), (75.0, 2.51), (86.3, 1.58)],
            [(89.4, 5.6), (75.1, 5.1), (52.3, 2.8), (76.2, 2.8), (92.4, 2.5)],
        ],
    ),
    also={"sd_of_folds": "spread over the folds of a run"},
)
