"""Roles against known answers: planted graphs, air-traffic graphs, and a million nodes; one JSON line per result.

    RAE_DATA=... python benchmarks/roles.py [planted] [criteria] [airports] [million] [--out FILE]

planted    the number of roles and the number planted, adjusted Rand index (ARI), homogeneity, completeness
criteria   the number by other criteria: silhouette, BIC of a Gaussian mixture, HDBSCAN
airports   roles and activity classes: ARI, NMI and purity; the same for k-means on log-degree with the same k
million    `rae roles` and `rae similar` on a run of a million nodes: seconds and peak memory of the process

An existing line is not measured again. The tables at the end are computed from the lines alone.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
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
from rae.run import Run

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
NODES, EDGES = 1_000_000, 5_000_000


def planted(name: str, options: dict, settings: dict, seed: int) -> dict:
    """The roles of one planted graph and the planted ones: their numbers and how well they agree."""
    data = rae.datasets.load(name, **options, seed=seed)
    z = rae.RAE(**settings, seed=seed).fit_transform(data.graph, data.features)
    start = time.perf_counter()
    roles = rae.Roles().fit(z)
    seconds = time.perf_counter() - start
    try:
        given_k = rae.Roles(k=data.n_classes).fit(z)
    except rae.errors.ConfigError:  # fewer different vectors than planted roles: the model does not see them all
        given_k = roles
    return {
        "planted": data.n_classes,
        "found": roles.n_roles,
        "criterion": roles.criterion,
        "weak": roles.weak,
        "ari": adjusted_rand_score(data.labels, roles.labels),
        "homogeneity": homogeneity_score(data.labels, roles.labels),
        "completeness": completeness_score(data.labels, roles.labels),
        "ari_told_k": adjusted_rand_score(data.labels, given_k.labels),
        "curve": {k: round(v, 3) for k, v in roles.curve.items()},
        "seconds": seconds,
    }


def criteria(name: str, options: dict, settings: dict, seed: int) -> dict:
    """The number of roles by other criteria, in the leading directions of the same vectors."""
    data = rae.datasets.load(name, **options, seed=seed)
    z = rae.RAE(**settings, seed=seed).fit_transform(data.graph, data.features)
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


# What the kernel says of this program alone: a child's share in getrusage counts its parent's memory too.
MEASURED = """
import sys, re
from rae.cli.program import main
code = main(sys.argv[1:])
print(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1], file=sys.stderr)
sys.exit(code)
"""


def million(seed: int) -> dict:
    """Seconds and peak memory of `rae roles` and `rae similar` on a fresh run of a million nodes, 256 columns wide."""
    graph = rae.datasets.load("power-law", n_nodes=NODES, n_edges=EDGES, seed=seed).graph
    model = rae.RAE(steps=20, seed=seed).fit(graph)
    out = {"nodes": NODES, "edges": EDGES}
    with tempfile.TemporaryDirectory() as folder:
        run = str(Path(folder) / "run")
        Run.create(run, model, graph.id_column, model.transform(graph), graph=graph)
        for what, words in (("roles", ["roles", run]), ("similar", ["similar", run, "17"])):
            began = time.perf_counter()
            command = [sys.executable, "-c", MEASURED, *words, "--json", "--quiet"]
            answer = subprocess.run(command, check=True, capture_output=True, text=True)
            out[f"{what}_seconds"] = time.perf_counter() - began
            out[f"{what}_peak_bytes"] = 1024 * int(answer.stderr.split()[-1])
            out |= {"found": json.loads(answer.stdout)["k"]} if what == "roles" else {}
    return out


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
    if "criteria" in parts:
        for name, options, settings in PLANTED:
            what = {"table": "criteria", "dataset": name, "options": options, "settings": settings, "seed": 0}
            out.append((what, lambda n=name, o=options, s=settings: criteria(n, o, s, 0)))
    if "million" in parts:
        out.append(({"table": "million", "dataset": "power-law", "seed": 0}, lambda: million(0)))
    return out


def summary(lines: list[dict]) -> str:
    out = []
    groups: dict[str, list[dict]] = {}
    for x in lines:
        name = json.dumps([x["table"], x["dataset"], x.get("options"), x.get("k")], sort_keys=True)
        groups.setdefault(name, []).append(x)
    for rows in groups.values():
        x = rows[0]
        if x["table"] == "planted":
            options = " ".join(f"{k}={v:g}" for k, v in x["options"].items())
            found = ",".join(str(r["found"]) for r in rows)
            ari, told = (np.mean([r[key] for r in rows]) for key in ("ari", "ari_told_k"))
            numbers = f"planted {x['planted']:2} found {found:9} ARI {ari:.2f} told k {told:.2f}"
            out.append(f"{x['dataset']:16}{options:32} {numbers}")
        elif x["table"] == "criteria":
            options = " ".join(f"{k}={v:g}" for k, v in x["options"].items())
            others = ", ".join(f"{rule} {x[rule]}" for rule in ("silhouette", "bic", "hdbscan"))
            out.append(f"{x['dataset']:16}{options:32} planted {x['planted']:2} {others}")
        elif x["table"] == "airports":
            pairs = [(np.mean([r[m] for r in rows]), np.mean([r[f"{m}_degree"] for r in rows])) for m in SCORES]
            scores = "  ".join(f"{m} {a:.2f} ({b:.2f})" for m, (a, b) in zip(SCORES, pairs, strict=True))
            found = ",".join(str(r["found"]) for r in rows)
            out.append(f"{x['dataset']:16}k={x['k']!s:6} found {found:9} {scores}   (k-means on log-degree)")
        else:
            for what in ("roles", "similar"):
                peak = x[f"{what}_peak_bytes"] / 2**30
                out.append(f"{x['nodes']:,} nodes: rae {what} {x[f'{what}_seconds']:.0f} s, {peak:.1f} GiB")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["planted", "criteria", "airports", "million"])
    parser.add_argument("--quick", action="store_true", help="the first planted graph alone")
    parser.add_argument("--out", type=Path, default=Path("results/roles.jsonl"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", rae.errors.CollapseWarning)
    kept = [json.loads(text) for text in options.out.read_text().splitlines()] if options.out.exists() else []
    options.out.parent.mkdir(parents=True, exist_ok=True)
    for what, make in jobs(options.parts)[: 1 if options.quick else None]:
        plain = json.loads(json.dumps(what))
        if any(all(x.get(name) == value for name, value in plain.items()) for x in kept):
            continue
        line = plain | {n: round(v, 4) if isinstance(v, float) else v for n, v in make().items()}
        line |= {"machine": platform.machine(), "versions": {n: version(n) for n in ("rae", "numpy", "scikit-learn")}}
        with options.out.open("a") as file:
            file.write(json.dumps(line) + "\n")
        kept.append(json.loads(json.dumps(line)))
        print({name: value for name, value in line.items() if name not in ("curve", "versions")}, flush=True)
    print(summary(kept))


if __name__ == "__main__":
    main()
