"""How well roles find rings, mules, collectors and spreaders in a table of payments, by what is read of it.

    python benchmarks/transactions.py [--rows 1000000] [--seeds 3] [--quick]

The table is that of `rae.datasets.transactions`, with a share of its accounts in schemes. The vectors are those of the
default settings, of the graph read in five ways: who is connected with whom; with directions; with amounts; with both;
and with kinds too. Beside them stand floors: log-degree; the two-hop statistics of a plain graph; counts and sums in
and out of each account, which is what a careful analyst counts first; and their means over partners, both ways.

v_measure     of k-means, told the number of roles, and the vectors as they come (floors standardised)
in_own_roles  share of the accounts in schemes that are in roles of which most are in schemes: of k-means with 64 roles,
              which knows nothing of schemes
macro_f1      of a linear reader with balanced classes: trained on three tenths of the accounts, C chosen on two tenths,
              judged on the rest
precision     average precision of the same reader for "in a scheme"; `recall_at_1` is the share of those in a scheme
              that is among the hundredth of the accounts with the highest score

A line that is in the ledger is not computed again.
"""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
from recording import parser, record
from sklearn.cluster import KMeans
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import average_precision_score, f1_score, v_measure_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

import rae
from rae.datasets.payments import ROLES, SCHEMES
from rae.evaluation.floors import log_degree, two_hop_statistics
from rae.graph import Graph

READ = {
    "plain": {},
    "directed": {"directed": True},
    "weighted": {"weight": "amount"},
    "weighted, directed": {"weight": "amount", "directed": True},
    "weighted, directed, kinds": {"weight": "amount", "directed": True, "kind": "type"},
}
CS = (0.01, 0.1, 1.0)
MANY = 64  # roles, where schemes are looked for among them
MOST, CLUSTERED = 10_000, 20_000  # accounts that the reader is trained on, and that k-means looks at


def counts_and_sums(graph: Graph) -> np.ndarray:
    """log1p of payments and amounts out of each account and into it.  -> (n, 4)"""
    arcs, n = graph.arcs(), graph.n_nodes
    columns = [np.bincount(end, w, n) for end in (arcs.source, arcs.target) for w in (None, arcs.weight)]
    return np.log1p(np.stack(columns, 1))


def means_over_partners(graph: Graph) -> np.ndarray:
    """Counts and sums of each account, and their means over those it pays and those that pay it, twice.  -> (n, 28)"""
    own = counts_and_sums(graph)
    ways = []
    for channel in ("out", "in"):
        matrix = graph.to_scipy(channel=channel)
        matrix.data[:] = 1
        ways.append(sp.diags_array(1 / np.maximum(np.asarray(matrix.sum(1)).ravel(), 1)) @ matrix)
    near = [way @ own for way in ways]
    far = [way @ column for way in ways for column in near]
    return np.hstack([own, *near, *far])


def reading(x: np.ndarray, labels: np.ndarray, seed: int) -> dict[str, float]:
    """Scores of a linear reader."""
    fraud = np.isin(labels, [ROLES.index(role) for role in SCHEMES])
    rows = np.arange(len(labels))
    train, rest = train_test_split(rows, train_size=0.3, stratify=labels, random_state=seed)
    val, test = train_test_split(rest, train_size=2 / 7, stratify=labels[rest], random_state=seed)
    train = train[:MOST]
    scaler = StandardScaler().fit(x[train])
    x = scaler.transform(x)
    best: tuple[float, LogisticRegression] | None = None
    for c in CS:
        reader = LogisticRegression(C=c, class_weight="balanced", max_iter=200).fit(x[train], labels[train])
        score = f1_score(labels[val], reader.predict(x[val]), average="macro")
        if best is None or score > best[0]:
            best = score, reader
    assert best is not None
    reader = best[1]
    in_scheme = [i for i, role in enumerate(reader.classes_) if ROLES[role] in SCHEMES]
    chance = reader.predict_proba(x[test])[:, in_scheme].sum(1)
    top = np.argsort(-chance)[: max(1, len(test) // 100)]
    return {
        "macro_f1": round(100 * f1_score(labels[test], reader.predict(x[test]), average="macro"), 1),
        "precision": round(100 * average_precision_score(fraud[test], chance), 1),
        "recall_at_1": round(100 * fraud[test][top].sum() / fraud[test].sum(), 1),
    }


def clustering(x: np.ndarray, labels: np.ndarray, seed: int, scaling: str) -> dict[str, float]:
    """Agreement of k-means with the roles."""
    rng = np.random.default_rng(seed)
    rows = np.arange(len(labels))
    if len(rows) > CLUSTERED:
        rows = np.sort(rng.choice(rows, CLUSTERED, replace=False))
    x = x[rows] if scaling == "as they come" else StandardScaler().fit_transform(x[rows])
    groups = KMeans(len(ROLES), n_init=4, random_state=seed).fit_predict(x)
    many = KMeans(MANY, n_init=1, random_state=seed).fit_predict(x)
    fraud = np.isin(labels[rows], [ROLES.index(role) for role in SCHEMES])
    share = np.bincount(many, fraud, MANY) / np.maximum(np.bincount(many, minlength=MANY), 1)
    return {
        "v_measure": round(100 * v_measure_score(labels[rows], groups), 1),
        "in_own_roles": round(100 * float((share[many[fraud]] > 0.5).mean()), 1),
    }


def main() -> None:
    arguments = parser(__doc__, "a table of 6,000 rows, one seed")
    arguments.add_argument("--rows", type=int, default=1_000_000)
    arguments.add_argument("--seeds", type=int, default=3)
    options = arguments.parse_args()
    n_rows, seeds = (6_000, 1) if options.quick else (options.rows, options.seeds)
    finished = {
        (line["row"], line["settings"]["rows"], line["settings"]["seed"])
        for line in options.results.read("transactions")
    }
    for seed in range(seeds):
        drawn = rae.datasets.transactions(n_rows=n_rows, seed=seed)
        ids = drawn.accounts["account"]
        labels = np.array([ROLES.index(role) for role in drawn.accounts["role"].to_pylist()])
        settings = {"rows": n_rows, "seed": seed}
        whole = Graph.from_dataframe(drawn.table, ids=ids, weight="amount", directed=True)
        floors = {
            "floor: log-degree": log_degree,
            "floor: two-hop statistics": two_hop_statistics,
            "floor: counts and sums, in and out": counts_and_sums,
            "floor: the same, and means over partners twice": means_over_partners,
        }
        for row, features in floors.items():
            if (row, n_rows, seed) not in finished:
                x = features(whole)
                scores = clustering(x, labels, seed, "standardised") | reading(x, labels, seed)
                record(options.results, "transactions", "transactions", row, settings, **scores)
        for row, read in READ.items():
            if (row, n_rows, seed) in finished:
                continue
            graph = Graph.from_dataframe(drawn.table, ids=ids, **read)
            began = time.perf_counter()
            model = rae.RAE().fit(graph)
            z = model.transform(graph)
            seconds = round(time.perf_counter() - began, 1)
            place = next(block for block in model.blocks if block.name == "place")
            scores = clustering(z[:, place.start : place.stop], labels, seed, "as they come") | reading(z, labels, seed)
            record(options.results, "transactions", "transactions", row, settings, **scores, seconds=seconds)


if __name__ == "__main__":
    main()
