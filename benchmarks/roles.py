"""Roles against known answers: planted graphs and air-traffic graphs.

    RAE_DATA=... python benchmarks/roles.py [planted] [fresh] [criteria] [airports] [--quick]

planted    the number of roles found beside the number planted, adjusted Rand index (ARI), homogeneity, completeness
fresh      the number of steady positions, and who stands in them, on graphs no constant of that rule was chosen on
criteria   the number that other rules would have found: silhouette, BIC of a mixture, HDBSCAN
airports   roles beside the activity classes: ARI, NMI and purity; and k-means on log-degree with the same k

A line that is in the ledger is not computed again. The tables at the end are computed from the lines alone.
"""

from __future__ import annotations

import json
import time
import warnings

import numpy as np
from recording import parser
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import (
    adjusted_rand_score,
    completeness_score,
    homogeneity_score,
    normalized_mutual_info_score,
    silhouette_score,
)
from sklearn.mixture import GaussianMixture

import rae
from rae.datasets.roles import refine
from rae.roles.canonical import Space, sample
from rae.roles.seen import seen
from rae.roles.steady import steady

SEEDS = 3
DEEP = {"dims": (64, 64, 64), "fanout": (10, 10, 10), "steps": 100}  # three levels see a house as a whole
NOISE = (0.0, 0.02, 0.05, 0.1)
PLANTED = [
    *(("house", {"cycle": 30, "shapes": 10, "noise": noise}, DEEP) for noise in NOISE),
    *(("house", {"cycle": 300, "shapes": 100, "noise": noise}, DEEP) for noise in NOISE),
    *(("house", {"cycle": 1500, "shapes": 500, "noise": noise}, DEEP) for noise in NOISE),
    *(("house", {"cycle": 400, "shapes": 100, "noise": noise}, DEEP) for noise in NOISE),
    ("barbell", {}, DEEP),
    *(("planted-roles", {"noise": noise}, DEEP) for noise in NOISE),
    *(
        ("planted-actions", {"groups": groups, "signal": signal}, {"loss": "within"})
        for groups in (3, 5, 8)
        for signal in (0.15, 0.3)
    ),
]
FRESH = range(
    200, 210
)  # seeds; the constants of rae.roles.steady were chosen on seeds 0 to 11 of the first four shapes
SHAPES = {  # edges of a shape that hangs by its node 0 on every third node of a cycle
    "house": [(0, 1), (1, 2), (2, 3), (3, 0), (2, 4), (3, 4)],
    "star": [(0, leaf) for leaf in range(1, 6)],
    "fan": [(0, leaf) for leaf in range(1, 6)] + [(leaf, leaf + 1) for leaf in range(1, 5)],
    "clique": [(a, b) for b in range(5) for a in range(b)],
    "kite": [(0, 1), (1, 2), (2, 3), (3, 0), (1, 3), (2, 4)],
    "path": [(0, 1), (1, 2)],
    "hexagon": [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0)],
    "wheel": [(0, rim) for rim in range(1, 6)] + [(rim, rim % 5 + 1) for rim in range(1, 6)],
    "ladder": [(0, 1), (2, 3), (4, 5), (0, 2), (2, 4), (1, 3), (3, 5)],
    "fork": [(0, 1), (1, 2), (1, 3), (2, 4), (2, 5)],
}
HOUSES = ((30, 10), (100, 100), (400, 100))  # cycle and houses on it, beside the 300 and 100 of SHAPES
SMALL = (30, 10)  # cycle and shapes, of those below
SMALL_SHAPES = ("star", "clique", "kite", "wheel", "fork")
AIRPORTS = ("brazil", "europe", "usa")


def planted(name: str, options: dict, settings: dict, seed: int) -> dict:
    """One planted graph: how many roles are there, how many are found, and are they the same ones?"""
    data = rae.datasets.load(name, **options, seed=seed)
    model = rae.RAE(**settings, seed=seed).fit(data.graph, data.features)
    z = model.transform(data.graph, data.features)
    known = {"graph": data.graph, "embed": model.transform} if data.features is None else {}
    began = time.perf_counter()
    roles = rae.Roles().fit(z, **known)
    took = time.perf_counter() - began
    stand = steady(data.graph, 20, 0) if roles.criterion == "steady positions" else None
    try:
        told = rae.Roles(k=data.n_classes).fit(z)
    except rae.errors.ConfigError:  # fewer different vectors than planted roles: the model does not see them all
        told = roles
    return {
        "planted": data.n_classes,
        "found": roles.n_roles,
        "criterion": roles.criterion,
        "ari": adjusted_rand_score(data.labels, roles.labels),
        "homogeneity": homogeneity_score(data.labels, roles.labels),
        "completeness": completeness_score(data.labels, roles.labels),
        "ari_positions": None if stand is None else adjusted_rand_score(data.labels, stand.labels),
        "ari_told_k": adjusted_rand_score(data.labels, told.labels),
        "curve": {k: round(v, 3) for k, v in roles.curve.items()},
        "seconds": took,
    }


def fresh(shape: str, cycle: int, count: int, noise: float) -> dict:
    """The number of steady positions found, seed by seed, beside the roles planted and those that one step can see."""
    found, ari, began = [], [], time.perf_counter()
    for seed in FRESH:
        clean, noisy = hung(SHAPES[shape], cycle, count, noise, seed)
        roles = steady(noisy, 20, 0)
        found.append(0 if roles is None else roles.k)
        ari.append(0 if roles is None else round(adjusted_rand_score(seen(clean), roles.labels), 3))
    took = (time.perf_counter() - began) / len(FRESH)
    planted, visible = int(refine(clean).max()) + 1, len(np.unique(seen(clean)))
    return {"nodes": clean.n_nodes, "planted": planted, "visible": visible, "found": found, "ari": ari, "seconds": took}


def hung(shape: list, cycle: int, count: int, noise: float, seed: int) -> tuple[rae.Graph, rae.Graph]:
    """A cycle with so many shapes at regular places, and the same graph with random edges added."""
    places, size = np.arange(count) * cycle // count, 1 + max(map(max, shape))
    first = cycle + np.arange(count) * size
    inside = (first[:, None, None] + np.array(shape)).reshape(-1, 2)
    ring = np.stack([np.arange(cycle), (np.arange(cycle) + 1) % cycle], 1)
    edges = np.concatenate([ring, inside, np.stack([places, first], 1)])
    ids = np.arange(cycle + count * size)
    more = np.random.default_rng(seed).integers(len(ids), size=(round(noise * len(edges)), 2))
    return rae.Graph.from_edges(edges, ids=ids), rae.Graph.from_edges(np.concatenate([edges, more]), ids=ids)


def criteria(name: str, options: dict, settings: dict, seed: int) -> dict:
    """How many roles other rules find in the same vectors, in the same leading directions."""
    data = rae.datasets.load(name, **options, seed=seed)
    z = rae.RAE(**settings, seed=seed).fit_transform(data.graph, data.features)
    x = Space.of(sample(z, 20_000, 0)).led().project(z)
    distinct = len(np.unique(np.round(x, 4), axis=0))
    silhouette, bic = {}, {}
    for k in range(2, min(20, distinct - 1) + 1):
        means = KMeans(k, n_init=4, random_state=seed).fit(x)
        silhouette[k] = silhouette_score(x, means.labels_, sample_size=1500, random_state=0)
        floor = (0.05 * x.std()) ** 2  # without it, a component on equal vectors has an infinite likelihood
        mixture = GaussianMixture(k, reg_covar=floor, means_init=means.cluster_centers_, random_state=seed).fit(x)
        bic[k] = mixture.bic(x)
    density = HDBSCAN(min_cluster_size=max(5, len(x) // 100), copy=True).fit(x)
    return {
        "planted": data.n_classes,
        "silhouette": max(silhouette, key=lambda k: silhouette[k]),
        "bic": min(bic, key=lambda k: bic[k]),
        "hdbscan": int(density.labels_.max()) + 1,
    }


def airports(name: str, k: int | str, seed: int) -> dict:
    """Roles of an air-traffic graph beside its four activity classes, and beside clusters of log-degree."""
    data = rae.datasets.load(name)
    roles = rae.Roles(k=k).fit(rae.RAE(seed=seed).fit_transform(data.graph))
    degree = np.log1p(data.graph.degrees)[:, None].astype(float)
    plain = KMeans(roles.n_roles, n_init=10, random_state=seed).fit_predict(degree)
    return {"found": roles.n_roles, "classes": data.n_classes} | {
        f"{measure}{suffix}": score(data.labels, labels)
        for suffix, labels in (("", roles.labels), ("_degree", plain))
        for measure, score in SCORES.items()
    }


def purity(truth: np.ndarray, labels: np.ndarray) -> float:
    """The share of nodes that are of the commonest class of their cluster."""
    return float(sum(np.bincount(truth[labels == c]).max() for c in np.unique(labels)) / len(truth))


SCORES = {"ari": adjusted_rand_score, "nmi": normalized_mutual_info_score, "purity": purity}


def jobs(parts: list[str]) -> list[tuple[dict, object]]:
    """Every line there should be: what it is, and how it is made."""
    out: list[tuple[dict, object]] = []
    for seed in range(SEEDS):
        if "planted" in parts:
            for name, options, settings in PLANTED:
                what = {"table": "planted", "dataset": name, "options": options, "settings": settings, "seed": seed}
                out.append((what, lambda n=name, o=options, s=settings, r=seed: planted(n, o, s, r)))
        if "airports" in parts:
            for name in AIRPORTS:
                for k in ("auto", 4):
                    what = {"table": "airports", "dataset": name, "k": k, "seed": seed}
                    out.append((what, lambda n=name, k=k, r=seed: airports(n, k, r)))
    if "fresh" in parts:
        graphs = [*((shape, 300, 100) for shape in SHAPES), *(("house", *sizes) for sizes in HOUSES)]
        graphs += [(shape, *SMALL) for shape in SMALL_SHAPES]
        for shape, cycle, count in graphs:
            for noise in NOISE[1:]:
                options = {"cycle": cycle, "shapes": count, "noise": noise}
                what = {"table": "fresh", "dataset": shape, "options": options}
                out.append((what, lambda s=shape, c=cycle, n=count, x=noise: fresh(s, c, n, x)))
    if "criteria" in parts:
        for name, options, settings in PLANTED:
            what = {"table": "criteria", "dataset": name, "options": options, "settings": settings, "seed": 0}
            out.append((what, lambda n=name, o=options, s=settings: criteria(n, o, s, 0)))
    return out


def summary(lines: list[dict]) -> str:
    out = []
    groups: dict[str, list[dict]] = {}
    for x in lines:
        name = json.dumps(
            [x["table"], x["dataset"], x["settings"].get("options"), x["settings"].get("k")], sort_keys=True
        )
        groups.setdefault(name, []).append(x)
    for rows in groups.values():
        x = rows[0]
        if x["table"] == "roles-planted":
            options = " ".join(f"{k}={v:g}" for k, v in x["settings"]["options"].items())
            found = ",".join(str(r["found"]) for r in rows)
            ari, told = (np.mean([r[key] for r in rows]) for key in ("ari", "ari_told_k"))
            numbers = f"planted {x['planted']:2} found {found:9} ARI {ari:.2f} told k {told:.2f}"
            out.append(f"{x['dataset']:16}{options:32} {numbers}")
        elif x["table"] == "roles-fresh":
            options = " ".join(f"{k}={v:g}" for k, v in x["settings"]["options"].items())
            counted = ", ".join(f"{k} ({x['found'].count(k)}x)" for k in sorted(set(x["found"])))
            seen_as = f"planted {x['planted']} visible {x['visible']} found {counted} ARI {np.mean(x['ari']):.2f}"
            out.append(f"{x['dataset']:16}{options:32} {seen_as}")
        elif x["table"] == "roles-criteria":
            options = " ".join(f"{k}={v:g}" for k, v in x["settings"]["options"].items())
            others = ", ".join(f"{rule} {x[rule]}" for rule in ("silhouette", "bic", "hdbscan"))
            out.append(f"{x['dataset']:16}{options:32} planted {x['planted']:2} {others}")
        elif x["table"] == "roles-airports":
            pairs = [(np.mean([r[m] for r in rows]), np.mean([r[f"{m}_degree"] for r in rows])) for m in SCORES]
            scores = "  ".join(f"{m} {a:.2f} ({b:.2f})" for m, (a, b) in zip(SCORES, pairs, strict=True))
            found = ",".join(str(r["found"]) for r in rows)
            out.append(
                f"{x['dataset']:16}k={x['settings']['k']!s:6} found {found:9} {scores}   (k-means on log-degree)"
            )
    return "\n".join(out)


def line_key(table: str, dataset: str, seed: int = 0, **settings: object) -> dict:
    """The identity of a line in the ledger."""
    return {"table": f"roles-{table}", "row": "rae.Roles", "dataset": dataset, "seed": seed, "settings": settings}


def main() -> None:
    arguments = parser(__doc__, "the first planted graph alone")
    arguments.add_argument("parts", nargs="*", default=["planted", "fresh", "criteria", "airports"])
    options = arguments.parse_args()
    warnings.simplefilter("ignore", rae.errors.CollapseWarning)
    lines = []
    for what, make in jobs(options.parts)[: 1 if options.quick else None]:

        def compute(_: dict, make=make) -> dict:
            return {name: round(value, 4) if isinstance(value, float) else value for name, value in make().items()}

        lines += options.results.resume([line_key(**what)], compute)
        print({name: value for name, value in lines[-1].items() if name not in ("curve", "versions")}, flush=True)
    print(summary(lines))


if __name__ == "__main__":
    main()
