"""One GPU: how near its kernels come to the memory's speed, and whole fits, embeddings and training beside the CPU.

    RAE_DATA=... python benchmarks/gpu.py [--only suite,copy,gather,hub,large,structure,exact,training] [--quick]

Gathers read lists of power-law lengths, 16 neighbours on average, of rows drawn uniformly from a table that is far
larger than the cache. Bytes are counted as rows read, index read and rows written; the share is that of a copy from
one place of the card's memory to another. Every number is a median of many, in one process. The other ways get the same
arrays, at the same precision. What is prepared once for a graph, by them or by ours, is prepared before.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch
from recording import RESULTS, parser, record, web_google

import rae
from rae.datasets import load
from rae.evaluation.ledger import Ledger
from rae.ops import gather as gathering
from rae.ops import structure
from rae.runtime import on_device, threads

TABLE = "gpu"
KINDS = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
STAGES = ("suite", "copy", "gather", "hub", "large", "structure", "exact", "training")
PART = 1 << 21  # rows of a part of a large table


def median_ms(work: Callable[[], Any], rounds: int = 15) -> float:
    """The median of the milliseconds that some rounds take on the device, after two that warm up."""
    for _ in range(2):
        work()
    times = []
    for _ in range(rounds):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        work()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def seconds(work: Callable[[], Any], rounds: int, *, warm: bool = True) -> float:
    """The median of the seconds that some rounds take on the clock, after one that warms up."""
    if warm:
        work()
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        work()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - began)
    return statistics.median(times)


def power_law_lists(n: int, mean: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Lists of power-law lengths of rows drawn uniformly, on the GPU.  -> offsets (n + 1,) int64, index int32"""
    chance = torch.Generator("cuda").manual_seed(seed)
    uniform = torch.rand(n, device="cuda", generator=chance).clamp(min=1e-7)
    lengths = (mean * 0.4 * uniform ** (-1 / 1.667)).long().clamp(max=n)  # degrees fall off as degree^-2.7
    offsets = torch.cat([lengths.new_zeros(1), torch.cumsum(lengths, 0)])
    index = torch.randint(n, (int(offsets[-1]),), device="cuda", generator=chance, dtype=torch.int32)
    return offsets, index


def copy_speed(size: int) -> float:
    """Bytes a second that a copy reads and writes."""
    source = torch.randn(size // 4, device="cuda")
    target = torch.empty_like(source)
    return 2 * size / (median_ms(lambda: target.copy_(source)) / 1e3)


def ways(x: torch.Tensor, offsets: torch.Tensor, index: torch.Tensor) -> dict[str, Callable[[], Any]]:
    """The mean over every list: ours, and what torch has."""
    counts = torch.diff(offsets)
    shares = torch.repeat_interleave((1 / counts.clamp(min=1)).to(x.dtype), counts)
    csr = torch.sparse_csr_tensor(offsets, index.long(), shares, (len(offsets) - 1, len(x)))
    small = torch.sparse_csr_tensor(offsets.int(), index, shares, (len(offsets) - 1, len(x)))
    whole, ends = index.long(), offsets[:-1]
    return {
        "ours": lambda: gathering.moments(x, offsets, index),
        "cuSPARSE, 32-bit index": lambda: torch.sparse.mm(small, x),
        "cuSPARSE, 64-bit index": lambda: torch.sparse.mm(csr, x),
        "embedding_bag": lambda: torch.nn.functional.embedding_bag(whole, x, ends, mode="mean"),
    }


def gather(ledger: Ledger, n: int, copied: float) -> None:
    offsets, index = power_law_lists(n, 16)
    print(f"lists: {n:,} rows, {len(index):,} entries, longest {int(torch.diff(offsets).max()):,}", flush=True)
    for width in (4, 8, 24, 64, 128, 256):
        for kind, dtype in KINDS.items():
            if width < 64 and kind != "float32":
                continue
            x = torch.randn((n, width), device="cuda").to(dtype)
            moved = len(index) * (width * x.element_size() + 4) + n * (4 * width + 8)
            for name, work in ways(x, offsets, index).items():
                try:
                    spent = median_ms(work)
                except (RuntimeError, NotImplementedError) as error:
                    print(f"{name} {width} {kind}: {str(error).splitlines()[0][:90]}", flush=True)
                    continue
                speed = moved / (spent / 1e3)
                record(
                    *(ledger, TABLE, f"gather, {width} columns, {kind}", name, {"nodes": n, "entries": len(index)}),
                    median_ms=round(spent, 3), tb_per_s=round(speed / 1e12, 3), of_copy=round(speed / copied, 3),
                    **about(),
                )  # fmt: skip


def hub(ledger: Ledger, n: int, copied: float) -> None:
    """A hub of many neighbours beside light rows: how much longer it takes than as many entries without it."""
    for longest in (1, 1_000_000, 10_000_000):
        lengths = torch.full((n,), 16, device="cuda")
        lengths[n // 2] = longest
        offsets = torch.cat([lengths.new_zeros(1), torch.cumsum(lengths, 0)])
        index = torch.randint(n, (int(offsets[-1]),), device="cuda", dtype=torch.int32)
        x = torch.randn((n, 64), device="cuda")
        spent = median_ms(partial(gathering.moments, x, offsets, index))
        speed = (len(index) * 260 + n * 264) / (spent / 1e3)
        record(
            *(ledger, TABLE, f"hub of {longest:,} neighbours", "ours"),
            {"nodes": n, "entries": len(index), "width": 64},
            median_ms=round(spent, 3), of_copy=round(speed / copied, 3), **about(),
        )  # fmt: skip


def large(ledger: Ledger, n: int, copied: float) -> None:
    """One level of a graph with 16 n neighbours, part by part: the mean of 256 columns of every row."""
    offsets, index = power_law_lists(n, 16)
    for width, kind, blocks in ((256, "bfloat16", 1), (64, "float32", 4)):
        x = torch.empty((n, width), device="cuda", dtype=KINDS[kind])
        for a in range(0, n, PART):
            x[a : a + PART] = torch.randn((len(x[a : a + PART]), width), device="cuda")

        def level(x: torch.Tensor = x, blocks: int = blocks) -> None:
            for _ in range(blocks):
                for a in range(0, n, PART):
                    gathering.moments(x, offsets[a : min(a + PART, n) + 1], index)

        spent = median_ms(level, 3)
        moved = blocks * (len(index) * (width * x.element_size() + 4) + n * (4 * width + 8))
        record(
            *(ledger, TABLE, f"a level of 256 columns, {kind}", f"{blocks} of {width} columns"),
            {"nodes": n, "entries": len(index)},
            median_ms=round(spent, 3), of_copy=round(moved / (spent / 1e3) / copied, 3),
            peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2), **about(),
        )  # fmt: skip
        del x


def power_law_graph(m: int) -> rae.Graph:
    rng, n, power = np.random.default_rng(0), m // 10, 3.0
    low, high = 10 ** (1 / power), (10 + n) ** (1 / power)
    ids = rng.permutation(n).astype(np.int32)
    ends = ((low + (high - low) * rng.random((2, m), np.float32)) ** power - 10).astype(np.int64).clip(0, n - 1)
    return rae.Graph.from_edges((ids[ends[0]], ids[ends[1]]))


def counting(ledger: Ledger, graph: rae.Graph, name: str) -> None:
    """Triangles, 4-cycles and core numbers, on the GPU and on all cores; the same counts."""
    counted = {"triangles, 4-cycles and core numbers": structure.counts_of_nodes}
    for what, operation in (counted | {"core numbers alone": structure.core_numbers}).items():
        began = time.perf_counter()
        expected = operation(graph.offsets, graph.targets)
        on_cpu = time.perf_counter() - began
        with on_device("cuda:0"):
            operation(graph.offsets, graph.targets)
            began = time.perf_counter()
            got = operation(graph.offsets, graph.targets)
            on_gpu = time.perf_counter() - began
        record(
            *(ledger, TABLE, f"{what}, {name}", "ours", {"threads": threads()}),
            cpu_s=round(on_cpu, 3), gpu_s=round(on_gpu, 3), equal=bool(np.array_equal(got, expected)), **about(),
        )  # fmt: skip


def exact(ledger: Ledger, graph: rae.Graph, name: str, fit: bool) -> None:
    """The exact default: fit and embedding, on the GPU and on all cores."""
    small = rae.Graph.from_edges([(0, 1), (1, 2), (2, 0), (2, 3)])
    models = {place: rae.RAE(device=place).fit(small) for place in ("cpu", "cuda")}
    times: dict[str, float] = {}
    vectors = {}
    for place, model in models.items():
        if fit:
            began = time.perf_counter()
            fresh = rae.Graph(graph.offsets, graph.targets, graph.id_column)
            model.fit(fresh)
            times[f"{place}_fit_s"] = round(time.perf_counter() - began, 3)
        times[f"{place}_embed_s"] = round(seconds(lambda m=model: m.transform(graph, whole=True), 2), 3)
        vectors[place] = model.transform(graph, whole=True)
        print(place, times, flush=True)
    again = models["cuda"].transform(graph, whole=True)
    both = [m.transform(graph, whole=True) for m in (models["cpu"], elsewhere(models["cpu"], "cuda"))]
    off = float(np.abs(both[0] - both[1]).max())
    record(
        *(ledger, TABLE, f"exact default, {name}", "ours", {"threads": threads()}), **times,
        off=float(f"{off:.1e}"), same_bytes=bool((again == vectors["cuda"]).all()),
        peak_gib=round(torch.cuda.max_memory_allocated() / 2**30, 2), **about(),
    )  # fmt: skip


def elsewhere(model: rae.RAE, place: str) -> rae.RAE:
    """The same fitted model on another device."""
    other = rae.RAE(model.config, device=place)
    other._fitted = model._fitted
    return other


def data_of(name: str) -> tuple[rae.Graph, Any]:
    data = load(name)
    return data.graph, data.features


def training(ledger: Ledger, names: list[str], rounds: int) -> None:
    """200 steps of the paper's settings, on the GPU and on the cores."""
    for name in names:
        graph, features = (rae.read_edges(web_google()), None) if name == "web-Google" else data_of(name)
        times, vectors = {}, {}
        for place in ("cpu", "cuda"):
            model = rae.RAE(rae.PAPER, device=place)
            fit = partial(model.fit, graph, features=features)
            times[f"{place}_s"] = round(seconds(fit, rounds if place == "cuda" else 1, warm=place == "cuda"), 3)
            vectors[place] = model.transform(graph, features, whole=True)
        twice = rae.RAE(rae.PAPER, device="cuda").fit(graph, features=features)
        same = bool((twice.transform(graph, features, whole=True) == vectors["cuda"]).all())
        off = float(np.abs(vectors["cpu"] - vectors["cuda"]).max())
        record(
            *(ledger, TABLE, f"200 steps of PAPER, {name}", "ours", {"threads": threads()}), **times,
            off=float(f"{off:.1e}"), same_bytes=same, **about(),
        )  # fmt: skip


def suite(ledger: Ledger) -> int:
    """The exit status of the tests of a GPU, after a line says how many there are."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-m", "gpu", "tests/test_gpu.py"]
    process = subprocess.run(command, capture_output=True, text=True, check=False, cwd=RESULTS.parent)
    print(process.stdout[-6000:], flush=True)
    counted = {name: int(n) for n, name in re.findall(r"(\d+) (passed|failed|skipped)", process.stdout)}
    record(ledger, TABLE, "make test-gpu", "tests", {}, **counted, **about())
    return process.returncode


def about() -> dict[str, Any]:
    """The card, and the versions that matter there."""
    import triton

    return {"card": torch.cuda.get_device_name(0), "versions": {"triton": triton.__version__}}


def main() -> None:
    arguments = parser(__doc__, "small inputs, for a trial", rounds=3)
    arguments.add_argument("--only", default=",".join(STAGES), help="stages, by comma")
    arguments.add_argument("--edges", type=int, default=10_000_000)
    options = arguments.parse_args()
    stages, n = options.only.split(","), 1 << (18 if options.quick else 22)
    status = suite(options.results) if "suite" in stages else 0
    copied = copy_speed(1 << 32) if {"copy", "gather", "hub", "large"} & set(stages) else 0.0
    if "copy" in stages:
        record(options.results, TABLE, "copy", "torch", {"bytes": 1 << 32}, tb_per_s=round(copied / 1e12, 3), **about())
    if "gather" in stages:
        with on_device("cuda:0"):
            gather(options.results, n, copied)
    if "hub" in stages:
        with on_device("cuda:0"):
            hub(options.results, n, copied)
    if "large" in stages:
        with on_device("cuda:0"):
            large(options.results, 25 * n if options.quick else 100_000_000, copied)
    if {"structure", "exact"} & set(stages):
        graph, name = power_law_graph(options.edges), f"power law, {options.edges:,} edges"
        if "structure" in stages:
            counting(options.results, graph, name)
        if "exact" in stages:
            exact(options.results, graph, name, fit=True)
    if "training" in stages:
        training(options.results, ["cora"] if options.quick else ["cora", "pubmed", "web-Google"], options.rounds)
    sys.exit(status)


if __name__ == "__main__":
    main()
