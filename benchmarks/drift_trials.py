"""How often a drift raises a false alarm, what it finds, and whether a reliability means what it says: planted graphs.

    python benchmarks/drift_trials.py                 # about eight minutes of one core
    python benchmarks/drift_trials.py --trials 10     # a first look

Null: the second moment is the first with 1 % of its edges replaced by random pairs, and nothing else. Movers: twenty
nodes also get six new edges each. The noise is measured (as many changes as there are) or set to 1 %. Reliability: the
chance that a node keeps its role in views that neither the fit nor the calibration has seen; and, beside it, how many
of such nodes have the planted role (roles named after their commonest label).
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import rae
from rae.config import ExactConfig
from rae.model.structure import view
from rae.stability import calibration, calibration_error

GRAPHS: dict[str, dict[str, Any]] = {
    "house": {"cycle": 300, "shapes": 100, "noise": 0.05},
    "planted-roles": {"n_nodes": 2000, "noise": 0.05},
    "power-law": {"n_nodes": 2000, "n_edges": 6000},
}
CHURN, MOVERS, EDGES, FRESH = 0.01, 20, 6, 10


def moment(graph: Any, seed: int, movers: Any = ()) -> Any:
    """The graph with 1 % of its edges replaced, and new edges at the movers."""
    noisy, rng = view(graph, ExactConfig(noise=CHURN, seed=seed), 0), np.random.default_rng(seed)
    us = np.repeat(np.asarray(movers, np.int64), EDGES)
    edges = np.concatenate([noisy.edges(), np.stack([us, rng.integers(graph.n_nodes, size=len(us))], 1)])
    return rae.Graph.from_edges((edges[:, 0], edges[:, 1]), ids=pa.array(np.arange(graph.n_nodes)))


def numbered(graph: Any) -> Any:
    """The graph with its rows as ids."""
    edges = graph.edges()
    return rae.Graph.from_edges((edges[:, 0], edges[:, 1]), ids=pa.array(np.arange(graph.n_nodes)))


def false_alarms(run: Any, graph: Any, trials: int, units: str) -> dict[str, float]:
    """Shares over trials without movers: any alarm, nodes that are alarms, nodes with p at most 0.01."""
    found = [run.drift(moment(graph, 1000 + i), units=units) for i in range(trials)]
    return {
        "any": float(np.mean([d.alarms.num_rows > 0 for d in found])),
        "nodes": float(np.mean([d.alarms.num_rows for d in found])) / graph.n_nodes,
        "p01": float(np.mean([np.mean(d.table.column("p").to_numpy() <= 0.01) for d in found])),
    }


def found_movers(run: Any, graph: Any, trials: int, units: str, noise: float | None) -> dict[str, float]:
    """Shares over trials with movers: movers that are alarms, and alarms that are not next to anything new."""
    power, false = [], []
    for i in range(trials):
        movers = np.random.default_rng(i).choice(graph.n_nodes, MOVERS, replace=False)
        after = moment(graph, 5000 + i, movers)
        alarms = run.drift(after, units=units, noise=noise).alarms.column("id").to_numpy()
        new = {int(v) for u in movers for v in np.setdiff1d(after.neighbors(u), graph.neighbors(u))}
        near = {*movers.tolist(), *new}
        near |= {int(v) for u in near for v in after.neighbors(u)}
        power.append(np.isin(movers, alarms).mean())
        false.append(np.mean([int(a) not in near for a in alarms]) if len(alarms) else 0.0)
    return {"power": float(np.mean(power)), "false": float(np.mean(false))}


def reliability(name: str, options: dict[str, Any], folder: Path) -> None:
    """Print the calibration on views that nothing was fitted on."""
    data = rae.datasets.load(name, **options)
    run = rae.fit_run(data.graph, out=folder / f"{name}-sure", page=False)
    roles, model, found = run.fit_roles(), run.model(), None
    found = run.reliability()
    kept = []
    for number in range(FRESH):
        fresh = view(data.graph, ExactConfig(noise=0.1, seed=77), number)
        kept.append(roles.predict(model.transform(fresh, units="fit")) == found.roles)
    table = calibration(np.tile(found.reliability, FRESH), np.concatenate(kept))
    raw = calibration(np.tile(found.kept, FRESH), np.concatenate(kept))
    sure = calibration(np.tile(found.confidence, FRESH), np.concatenate(kept))
    print(f"\n{name}: {data.graph.n_nodes:,} nodes, {roles.n_roles} roles; expected calibration error "
          f"{calibration_error(table):.3f} (share of the views {calibration_error(raw):.3f}, "
          f"membership {calibration_error(sure):.3f})")  # fmt: skip
    print("| said | nodes | kept their role |" + (" have the planted role |" if data.labels is not None else ""))
    planted = None
    if data.labels is not None:
        labels = np.asarray(data.labels)
        common = [np.bincount(labels[found.roles == role]).argmax() for role in range(roles.n_roles)]
        planted = calibration(found.reliability, np.array(common)[found.roles] == labels)
    for row in table:
        there = [p for p in planted or () if p["from"] == row["from"]]
        print(f"| {row['said']:.2f} | {row['nodes'] // FRESH:,} | {row['kept']:.2f} |"
              + (f" {there[0]['kept']:.2f} |" if there else ""))  # fmt: skip


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=60)
    trials = parser.parse_args().trials
    with tempfile.TemporaryDirectory() as folder:
        head = (
            "graph | nodes | units | any alarm | alarms | p ≤ 0.01 | found, noise measured | false | found, noise 1 %"
        )
        print(f"| {head} | false |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for name, options in GRAPHS.items():
            graph = numbered(rae.datasets.load(name, **options).graph)
            run = rae.fit_run(graph, out=Path(folder, name), page=False)
            run.fit_roles()
            for units in ("fit", "graph"):
                null = false_alarms(run, graph, trials, units)
                some = max(trials // 6, 1)
                a, b = (found_movers(run, graph, some, units, noise) for noise in (None, CHURN))
                found = " | ".join(f"{part['power']:.2f} | {part['false']:.3f}" for part in (a, b))
                shares = f"{null['any']:.3f} | {100 * null['nodes']:.3f} % | {null['p01']:.4f}"
                print(f"| {name} | {graph.n_nodes:,} | {units} | {shares} | {found} |", flush=True)
        for name, options in GRAPHS.items():
            if name != "power-law":
                reliability(name, options | {"noise": 0.1}, Path(folder))


if __name__ == "__main__":
    main()
