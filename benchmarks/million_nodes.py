"""`rae roles`, `rae similar` and `rae explore` on a million nodes; and how faithful the map of `rae explore` is.

    python benchmarks/million_nodes.py [--nodes 1000000] [--only explore] [--quick]
    python benchmarks/million_nodes.py --faithful    how many of the nearest in space are nearest on the map

Roles and similar run on a fitted model of a power-law graph with five edges a node; explore runs on planted vectors
in 12 groups, which have their roles already. Each command is its own process; vectors have 256 columns.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

import numpy as np
from large_runs import fitted_run, planted_run
from processes import RAE, run_process
from recording import parser, record

import rae
from rae.blocks import weighted

COMMANDS = ((fitted_run, ("roles", "similar")), (planted_run, ("explore",)))


def measure(n: int, ledger: object, only: str | None = None) -> None:
    """Seconds and peak of each command on its run."""
    for make, all_commands in COMMANDS:
        if not (commands := [command for command in all_commands if only in (None, command)]):
            continue
        with tempfile.TemporaryDirectory() as home:
            run = make(Path(home) / "run", n)
            for command in commands:
                node = ["17"] if command == "similar" else []
                result = run_process([*RAE, command, run.path, *node, "--json", "--quiet"])
                seconds = round(result.seconds, 2)
                numbers = {"best_s": seconds, "rounds": 1, "peak_gib": round(result.peak_gib, 2), "nodes": n}
                if command == "explore":
                    numbers["page_mb"] = round((run.path / "explore" / "index.html").stat().st_size / 1e6, 1)
                record(ledger, "million-nodes", f"{n:,} nodes", f"rae {command}", {}, **numbers)


def faithfulness(k: int = 10) -> dict[str, object]:
    """The share of a mark's k nearest that are among its 2 k nearest on the map; ours and t-SNE's."""
    from sklearn.manifold import TSNE

    from rae.explore.layout import map_positions
    from rae.explore.marks import find_marks

    data = rae.datasets.load("stdlib")
    model = rae.RAE()
    vectors = weighted(model.fit_transform(data.graph, features=data.features), model.blocks)
    marks = find_marks(vectors, 15)
    z, index = vectors[marks.first], marks.neighbors
    maps = {
        "map": lambda: map_positions(z, index, marks.distance),
        "tsne": lambda: TSNE(init="pca", random_state=0).fit_transform(z),
    }
    numbers: dict[str, object] = {"marks": len(z)}
    for name, draw in maps.items():
        began = time.perf_counter()
        xy = draw()
        numbers[f"{name}_seconds"] = round(time.perf_counter() - began, 2)
        squares = ((xy[:, None] - xy[None]) ** 2).sum(-1)
        np.fill_diagonal(squares, np.inf)
        near = np.argsort(squares, axis=1)[:, : 2 * k]
        share = np.mean([np.isin(index[i, :k], near[i]).mean() for i in range(len(z))])
        numbers[name] = round(float(share), 3)
    return numbers


def main() -> None:
    arguments = parser(__doc__, "five hundred nodes")
    arguments.add_argument("--nodes", type=int, default=1_000_000)
    arguments.add_argument("--only", choices=[command for _, commands in COMMANDS for command in commands])
    arguments.add_argument("--faithful", action="store_true")
    options = arguments.parse_args()
    if options.faithful:
        record(options.results, "map-faithfulness", "stdlib", "rae explore", {}, **faithfulness())
    else:
        measure(500 if options.quick else options.nodes, options.results, options.only)


if __name__ == "__main__":
    main()
