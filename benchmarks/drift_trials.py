"""How often a drift raises a false alarm, what it finds, and whether a reliability means what it says: planted graphs.

    python benchmarks/drift_trials.py                 # about twenty minutes of one core
    python benchmarks/drift_trials.py --trials 10     # a first look

Null: the second moment is the first with 1 % of its edges replaced by random pairs, and nothing else. Movers: twenty
nodes also get six new edges each. The noise is measured (as many changes as there are) or set to 1 %. Reliability: the
chance that a node keeps its role in views that neither the fit nor the calibration has seen; and, beside it, how many
of such nodes have the planted role (roles named after their commonest label). Each comparison has views of its own.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from recording import parser, record

import rae
from rae.config import ExactConfig
from rae.model.structure import view
from rae.stability import calibration, calibration_error

GRAPHS: dict[str, dict[str, Any]] = {
    "house": {"cycle": 300, "shapes": 100, "noise": 0.05},
    "planted-roles": {"n_nodes": 2000, "noise": 0.05},
    "power-law": {"n_nodes": 2000, "n_edges": 6000},
}
SMALL: dict[str, dict[str, Any]] = {"house": {"cycle": 60, "shapes": 20, "noise": 0.05}}
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
    drifts = [run.drift(moment(graph, 1000 + i), units=units, whole=True) for i in range(trials)]
    return {
        "any_alarm": rounded(np.mean([d.alarms.num_rows > 0 for d in drifts])),
        "alarms_share": rounded(np.mean([d.alarms.num_rows for d in drifts]) / graph.n_nodes, 7),
        "p01": rounded(np.mean([np.mean(d.table.column("p").to_numpy() <= 0.01) for d in drifts])),
    }


def alarmed_movers(run: Any, graph: Any, trials: int, units: str, noise: float | None) -> dict[str, float]:
    """Shares over trials with movers: movers that are alarms, and alarms that are not next to anything new."""
    power, false = [], []
    for i in range(trials):
        movers = np.random.default_rng(i).choice(graph.n_nodes, MOVERS, replace=False)
        after = moment(graph, 5000 + i, movers)
        alarms = run.drift(after, units=units, noise=noise, whole=True).alarms.column("id").to_numpy()
        new = {int(v) for u in movers for v in np.setdiff1d(after.neighbors(u), graph.neighbors(u))}
        near = {*movers.tolist(), *new}
        near |= {int(v) for u in near for v in after.neighbors(u)}
        power.append(np.isin(movers, alarms).mean())
        false.append(np.mean([int(a) not in near for a in alarms]) if len(alarms) else 0.0)
    return {"found": rounded(np.mean(power)), "false": rounded(np.mean(false))}


def rounded(value: Any, digits: int = 5) -> float:
    """A number as a line keeps it."""
    return round(float(value), digits)


def reliability(name: str, options: dict[str, Any], folder: Path, ledger: Any) -> None:
    """Record the calibration on views that nothing was fitted on."""
    data = rae.datasets.load(name, **options)
    run = rae.fit_run(data.graph, out=folder / f"{name}-sure", page=False)
    roles, model, measured = run.fit_roles(), run.model(), run.reliability()
    keeps_role = []
    for number in range(FRESH):
        fresh = view(data.graph, ExactConfig(noise=0.1, seed=77), number)
        keeps_role.append(roles.predict(model.transform(fresh, units="fit", whole=True)) == measured.roles)
    said = {
        "reliability": measured.reliability,
        "share of the views": measured.kept,
        "membership": measured.confidence,
    }
    tables = {what: calibration(np.tile(chance, FRESH), np.concatenate(keeps_role)) for what, chance in said.items()}
    labels = np.asarray(data.labels)
    common = [np.bincount(labels[measured.roles == role]).argmax() for role in range(roles.n_roles)]
    planted = {row["from"]: row["kept"] for row in
               calibration(measured.reliability, np.array(common)[measured.roles] == labels)}  # fmt: skip
    rows = [
        [rounded(row["said"], 3), row["nodes"] // FRESH, rounded(row["kept"], 3), rounded(planted[row["from"]], 3)]
        for row in tables["reliability"]
    ]
    errors = {what: rounded(calibration_error(table), 4) for what, table in tables.items()}
    settings = {"nodes": data.graph.n_nodes, "roles": roles.n_roles, "views": FRESH}
    record(ledger, "drift-trials", name, "reliability", settings, errors=errors, bins=rows)


def main() -> None:
    """Record the trials."""
    arguments = parser(__doc__, "a graph of 160 nodes, 2 trials")
    arguments.add_argument("--trials", type=int, default=100, help="without movers; a sixth as many with some")
    arguments.add_argument("--only", choices=("alarms", "reliability"), help="one half of it")
    options = arguments.parse_args()
    trials, graphs = (2, SMALL) if options.quick else (options.trials, GRAPHS)
    with tempfile.TemporaryDirectory() as folder:
        for name, chosen in graphs.items() if options.only != "reliability" else ():
            graph = numbered(rae.datasets.load(name, **chosen).graph)
            run = rae.fit_run(graph, out=Path(folder, name), page=False)
            run.fit_roles()
            for units in ("fit", "graph"):
                null, some = false_alarms(run, graph, trials, units), max(trials // 6, 1)
                a, b = (alarmed_movers(run, graph, some, units, noise) for noise in (None, CHURN))
                settings = {"nodes": graph.n_nodes, "units": units, "trials": trials, "with_movers": some}
                known = {f"{what}_known": value for what, value in b.items()}
                record(options.results, "drift-trials", name, f"alarms, units {units}", settings, **null, **a, **known)
        for name, chosen in graphs.items() if options.only != "alarms" else ():
            if name != "power-law":
                reliability(name, chosen | {"noise": 0.1}, Path(folder), options.results)


if __name__ == "__main__":
    main()
