"""Roles against known answers: planted graphs and air-traffic graphs.

    RAE_DATA=... python benchmarks/roles.py [planted] [criteria] [airports] [--quick]

planted    the number of roles and the number planted, adjusted Rand index (ARI), homogeneity, completeness
criteria   the number by other criteria: silhouette, BIC of a Gaussian mixture, HDBSCAN
airports   roles and activity classes: ARI, NMI and purity; the same for k-means on log-degree with the same k

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
from rae.roles.vectors import Projection, sample_rows

SEEDS = 3
THREE_LEVELS = {"dims": (64, 64, 64), "fanout": (10, 10, 10), "steps": 100}  # these see a house as a whole
PLANTED = [
    *(
        ("house", {"cycle": cycle, "shapes": shapes, "noise": 0.0}, THREE_LEVELS)
        for cycle, shapes in ((30, 10), (300, 100), (1500, 500), (400, 100))
    ),
    *(("house", {"cycle": 300, "shapes": 100, "noise": noise}, THREE_LEVELS) for noise in (0.02, 0.1)),
    ("barbell", {}, THREE_LEVELS),
    *(("planted-roles", {"noise": noise}, THREE_LEVELS) for noise in (0.0, 0.1)),
    *(
        ("planted-actions", {"groups": groups, "signal": signal}, {"loss": "within"})
        for groups in (3, 5, 8)
        for signal in (0.15, 0.3)
    ),
]
AIRPORTS = ("brazil", "europe", "usa")


def planted(name: str, options: dict, settings: dict, seed: int) -> dict:
    """The roles of one planted graph and the planted ones: their numbers and how well they agree."""
    data = rae.datasets.load(name, **options, seed=seed)
    z = rae.RAE(**settings, seed=seed).fit_transform(data.graph, features=data.features)
    start = time.perf_counter()
    roles = rae.Roles().fit(z)
    seconds = time.perf_counter() - start
    try:
        with_true_k = rae.Roles(k=data.n_classes).fit(z)
    except rae.errors.ConfigError:  # fewer different vectors than planted roles: the model does not see them all
        with_true_k = roles
    return {
        "planted": data.n_classes,
        "found": roles.n_roles,
        "criterion": roles.criterion,
        "weak": roles.weak,
        "ari": adjusted_rand_score(data.labels, roles.labels),
        "homogeneity": homogeneity_score(data.labels, roles.labels),
        "completeness": completeness_score(data.labels, roles.labels),
        "ari_told_k": adjusted_rand_score(data.labels, with_true_k.labels),
        "curve": {k: round(v, 3) for k, v in roles.curve.items()},
        "seconds": seconds,
    }


def criteria(name: str, options: dict, settings: dict, seed: int) -> dict:
    """The number of roles by other criteria, in the leading directions of the same vectors."""
    data = rae.datasets.load(name, **options, seed=seed)
    z = rae.RAE(**settings, seed=seed).fit_transform(data.graph, features=data.features)
    x = Projection.fit(sample_rows(z, 20_000, 0)).leading_only()(z)
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
    """Agreement of roles with the four activity classes of an air-traffic graph, and that of clusters of log-degree."""
    data = rae.datasets.load(name)
    roles = rae.Roles(k=k).fit(rae.RAE(seed=seed).fit_transform(data.graph))
    degree = np.log1p(data.graph.degrees)[:, None].astype(float)
    by_degree = KMeans(roles.n_roles, n_init=10, random_state=seed).fit_predict(degree)
    return {"found": roles.n_roles, "classes": data.n_classes} | {
        f"{measure}{suffix}": score(data.labels, labels)
        for suffix, labels in (("", roles.labels), ("_degree", by_degree))
        for measure, score in SCORES.items()
    }


def purity(truth: np.ndarray, labels: np.ndarray) -> float:
    """The share of nodes that are of the commonest class of their cluster."""
    return float(sum(np.bincount(truth[labels == c]).max() for c in np.unique(labels)) / len(truth))


SCORES = {"ari": adjusted_rand_score, "nmi": normalized_mutual_info_score, "purity": purity}


def jobs(parts: list[str]) -> list[tuple[dict, object]]:
    """The key of every line, and the function that computes it."""
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
            numbers_of_roles = ",".join(str(r["found"]) for r in rows)
            ari, ari_true_k = (np.mean([r[key] for r in rows]) for key in ("ari", "ari_told_k"))
            numbers = (
                f"planted {x['planted']:2} found {numbers_of_roles:9} ARI {ari:.2f} with the true k {ari_true_k:.2f}"
            )
            out.append(f"{x['dataset']:16}{options:32} {numbers}")
        elif x["table"] == "roles-criteria":
            options = " ".join(f"{k}={v:g}" for k, v in x["settings"]["options"].items())
            others = ", ".join(f"{rule} {x[rule]}" for rule in ("silhouette", "bic", "hdbscan"))
            out.append(f"{x['dataset']:16}{options:32} planted {x['planted']:2} {others}")
        elif x["table"] == "roles-airports":
            pairs = [(np.mean([r[m] for r in rows]), np.mean([r[f"{m}_degree"] for r in rows])) for m in SCORES]
            scores = "  ".join(f"{m} {a:.2f} ({b:.2f})" for m, (a, b) in zip(SCORES, pairs, strict=True))
            numbers_of_roles = ",".join(str(r["found"]) for r in rows)
            name = f"{x['dataset']:16}k={x['settings']['k']!s:6}"
            out.append(f"{name} found {numbers_of_roles:9} {scores}   (k-means on log-degree)")
    return "\n".join(out)


def line_key(table: str, dataset: str, seed: int = 0, **settings: object) -> dict:
    """The identity of a line in the ledger."""
    return {"table": f"roles-{table}", "row": "rae.Roles", "dataset": dataset, "seed": seed, "settings": settings}


def main() -> None:
    arguments = parser(__doc__, "the first planted graph alone")
    arguments.add_argument("parts", nargs="*", default=["planted", "criteria", "airports"])
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
