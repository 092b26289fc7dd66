"""What `rae plan` predicts and what `rae fit` then takes, each in its own process.

    RAE_DATA=... python benchmarks/plan_accuracy.py [--threads 2] [--work FOLDER] [--quick]

web-Google from its gzipped text, and power-law graphs of one and ten million edges from Parquet, 256 columns: the
default model, in memory and with a budget, and a trained one of 200 steps. The real time is that of the whole command,
imports included, which the plan does not count.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from power_law import draw_edges, name
from processes import RAE, run_process
from recording import all_cores, parser, record, web_google


def main() -> None:
    arguments = parser(__doc__, "one small graph", threads=all_cores())
    arguments.add_argument("--work", type=Path, help="folder for a few GB")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory(dir=options.work) as folder:
        work = Path(folder)
        for dataset, edges, budget in graphs(work, options.quick):
            trained = ("--steps", "2" if options.quick else "200")
            for chosen in ((), ("--memory", budget), trained):
                flags = ["--threads", options.threads, "--quiet", *chosen]
                plan = run_process([*RAE, "plan", edges, "--json", *flags]).json
                fit = ["fit", edges, "--out", work / "run", "--force", "--no-page", "--lean", *flags]
                real = run_process([*RAE, *fit])
                gib, seconds = plan["memory"]["peak"] / 2**30, plan["seconds"]["total"]
                record(
                    *(options.results, "plan-accuracy", dataset, " ".join(["rae fit", *chosen])),
                    {"threads": options.threads},
                    planned_gib=round(gib, 2),
                    peak_gib=round(real.peak_gib, 2),
                    planned_s=round(seconds, 1),
                    best_s=round(real.seconds, 1),
                    rounds=1,
                    memory_ratio=round(gib / real.peak_gib, 2),
                    time_ratio=round(seconds / real.seconds, 2),
                )


def graphs(work: Path, quick: bool) -> list[tuple[str, Path, str]]:
    """Name, edge file and budget of each graph."""
    sizes = (2_000,) if quick else (1_000_000, 10_000_000)
    drawn = [(name(m), draw_edges(work / f"{m}.parquet", m // 10, m), "1500MB") for m in sizes]
    return drawn if quick else [("web-Google", web_google(), "1GiB"), *drawn]


if __name__ == "__main__":
    main()
