"""What `rae plan` says and what `rae fit` then takes, each a command of its own.

    RAE_DATA=... python benchmarks/planned.py [--threads 2] [--work FOLDER] [--quick]

web-Google from its gzipped text, and power-law graphs of one and ten million edges from Parquet, 200 steps and
256 columns, whole in memory and with a budget. The real time is that of the whole command, imports included,
which the plan does not count. JSON lines go to results/planned.jsonl.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path

from drawn import draw_edges, name
from lines import RESULTS, Lines
from watched import RAE, watch


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--work", type=Path, help="folder for a few GB")
    parser.add_argument("--quick", action="store_true", help="one small graph")
    parser.add_argument("--out", type=Path, default=RESULTS / "planned.jsonl")
    given = parser.parse_args()
    lines = Lines(given.out)
    with tempfile.TemporaryDirectory(dir=given.work) as folder:
        work = Path(folder)
        for dataset, edges, budgets in _graphs(work, given.quick):
            for budget in budgets:
                options = ["--threads", given.threads, "--quiet", *(["--memory", budget] if budget else [])]
                options += ["--steps", "2"] if given.quick else []
                plan = watch([*RAE, "plan", edges, "--json", *options]).found
                real = watch([*RAE, "fit", edges, "--out", work / "run", "--force", "--no-page", "--lean", *options])
                line = {
                    "table": "planned",
                    "dataset": dataset,
                    "row": f"rae fit --memory {budget}" if budget else "rae fit",
                    "threads": given.threads,
                    "planned_gib": round(plan["memory"]["peak"] / 2**30, 2),
                    "peak_gib": round(real.peak_gib, 2),
                    "planned_s": round(plan["seconds"]["total"], 1),
                    "best_s": round(real.seconds, 1),
                    "rounds": 1,
                }
                line["memory_ratio"] = round(line["planned_gib"] / line["peak_gib"], 2)
                line["time_ratio"] = round(line["planned_s"] / line["best_s"], 2)
                print(lines.keep(line), flush=True)


def _graphs(work: Path, quick: bool) -> list[tuple[str, Path, tuple[str, ...]]]:
    """Name, edge file and budgets of each."""
    sizes = (2_000,) if quick else (1_000_000, 10_000_000)
    made = [(name(m), draw_edges(work / f"{m}.parquet", m // 10, m), ("", "1500MB")) for m in sizes]
    if quick:
        return made
    web = next((Path(os.environ["RAE_DATA"]) / "web-Google").glob("*.gz"))
    return [("web-Google", web, ("", "1GiB")), *made]


if __name__ == "__main__":
    main()
