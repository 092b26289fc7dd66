"""1 to all threads: build, exact fit and embedding of one power-law graph, and the memory's speed beside them.

    python benchmarks/threads.py [--edges 1e7] [--counts 1,2,4,8,16] [--stages build,fit,embed] [--quick]

Every number of threads runs in a process of its own. The memory's speed is that of a copy by so many threads.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from recording import all_cores, parser, record

STAGES = "build,fit,embed"


def ends_of(m: int) -> np.ndarray:
    """The ends of m edges whose degrees follow a power law, a tenth as many nodes.  -> (2, m) int32"""
    rng, n, power = np.random.default_rng(0), m // 10, 3.0
    low, high = 10 ** (1 / power), (10 + n) ** (1 / power)
    ids = rng.permutation(n).astype(np.int32)
    return ids[((low + (high - low) * rng.random((2, m), np.float32)) ** power - 10).astype(np.int64).clip(0, n - 1)]


def child(path: str, count: int, stages: list[str]) -> dict[str, float]:
    """Seconds of each stage with so many threads."""
    import torch

    import rae
    from rae.runtime import in_ranges

    rae.set_threads(count)
    torch.set_num_threads(count)
    ends = np.load(path, mmap_mode="r")
    rae.RAE(device="cpu").fit(tiny := rae.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])).transform(tiny)
    out: dict[str, float] = {}
    began = time.perf_counter()
    graph = rae.Graph.from_edges((np.asarray(ends[0]), np.asarray(ends[1])))
    out["build"] = time.perf_counter() - began
    model = rae.RAE(device="cpu", frequencies=32)  # 256 columns, whatever it is fitted on
    began = time.perf_counter()
    if "fit" in stages:
        model.fit(graph)
        out["fit"] = time.perf_counter() - began
    else:
        model.fit(tiny)
    model.transform(graph, whole=True)  # measures are counted at the first call
    times = []
    for _ in range(3):
        began = time.perf_counter()
        model.transform(graph, whole=True)
        times.append(time.perf_counter() - began)
    out["embed"] = min(times)
    source, target = np.ones(1 << 28, np.float32), np.ones(1 << 28, np.float32)

    def copy(a: int, b: int) -> None:
        target[a:b] = source[a:b]

    began = time.perf_counter()
    in_ranges(copy, len(source))
    out["copy_gb_per_s"] = 2 * source.nbytes / (time.perf_counter() - began) / 1e9
    return out


def main() -> None:
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], int(sys.argv[3]), sys.argv[4].split(","))))
        return
    arguments = parser(__doc__, "a small graph, for a trial")
    counts = ",".join(str(1 << i) for i in range(all_cores().bit_length()) if 1 << i <= all_cores())
    arguments.add_argument("--edges", type=float, default=1e7)
    arguments.add_argument("--counts", default=counts)
    arguments.add_argument("--stages", default=STAGES)
    options = arguments.parse_args()
    m = 100_000 if options.quick else int(options.edges)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ends.npy"
        np.save(path, ends_of(m))
        for count in map(int, options.counts.split(",")):
            command = [sys.executable, __file__, "--child", str(path), str(count), options.stages]
            numbers = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            rounded = {f"{name}_s" if "_" not in name else name: round(value, 3) for name, value in numbers.items()}
            record(
                options.results, "threads", f"power law, {m:,} edges", f"{count} threads", {"threads": count}, **rounded
            )


if __name__ == "__main__":
    main()
