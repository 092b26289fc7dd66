"""The compiled loops against their own Python source, and against NumPy."""

from __future__ import annotations

import inspect

import numba
import numpy as np
import pytest
import scipy.sparse as sp

from plain import random_graph
from rae.ops import cpu
from rae.ops import intrinsics as hardware
from rae.ops.intrinsics import fetch_row, widen

GRAPH = random_graph(30, 120, seed=4)
RNG = np.random.default_rng(0)
NODES, VIEWS = RNG.integers(0, 30, 25), RNG.integers(0, 3, 25)
SALT = np.uint64(12345678901234567890)
OFFSETS, TARGETS = GRAPH.offsets, GRAPH.targets
X = RNG.normal(size=(30, 7)).astype(np.float32)
VALUES = RNG.normal(size=len(TARGETS)).astype(np.float32)
HALF = X.astype(np.float16)


def _sampled():
    out = np.zeros(26, np.int64)
    cpu.sample_counts(OFFSETS, NODES, 3, out)
    return out


CASES = {
    "sort_values": lambda: (numbers(200),),
    "sort_values short": lambda: (np.array([3, 1, 2], np.int32),),
    "has_edge": lambda: (OFFSETS, TARGETS, 3, TARGETS[OFFSETS[3]]),
    "has_edge none": lambda: (OFFSETS, TARGETS, 3, 3),
    "adjacent": lambda: (OFFSETS, TARGETS, NODES, NODES[::-1].copy(), np.zeros(25, bool), 0, 25),
    "neighbor_degrees": lambda: (
        OFFSETS, TARGETS, GRAPH.degrees, 4, False, SALT, 0, np.zeros((30, 5), np.float32), 0, 30
    ),
    "neighbor_degrees random": lambda: (
        OFFSETS, TARGETS, GRAPH.degrees, 4, True, SALT, 20, np.zeros((10, 5), np.float32), 0, 10
    ),
    "sample_counts": lambda: (OFFSETS, NODES, 3, np.zeros(26, np.int64)),
    "sample_rows": lambda: (
        OFFSETS, TARGETS, NODES, VIEWS, 3, SALT, _sampled(), np.zeros(_sampled()[-1], np.int32), 0, 25
    ),
    "pick_neighbors": lambda: (OFFSETS, TARGETS, NODES, VIEWS, SALT, np.zeros(25, np.int64)),
    "number": lambda: (NODES, np.full(64, -1, np.int32), np.zeros(25, np.int64), 0, np.zeros(25, np.int64)),
    "non_neighbors": lambda: (OFFSETS, TARGETS, np.arange(30), SALT, True, 8, np.zeros((30, 4), np.int64)),
    "non_neighbors any": lambda: (OFFSETS, TARGETS, np.arange(3), SALT, False, 2, np.zeros((3, 9), np.int64)),
    "sum_rows": lambda: (OFFSETS, TARGETS, X, np.ones((30, 7), np.float32), 0, 30),
    "mean_rows": lambda: (OFFSETS[10:], TARGETS, X, 10, np.ones((15, 7), np.float32), 0, 15),
    "mean_rows to the end": lambda: (OFFSETS, TARGETS, X, 0, np.ones((30, 7), np.float32), 0, 30),
    "mean_rows half": lambda: (OFFSETS, TARGETS, HALF.view(np.uint16), 0, np.ones((30, 7), np.float32), 0, 30),
    "scatter_rows": lambda: (OFFSETS, TARGETS, X, np.zeros((30, 7), np.float32), 2, 6),
    "sparse_dense": lambda: (OFFSETS, TARGETS, VALUES, 5, X, np.ones((20, 7), np.float32), 0, 20),
    "sparse_dense_grad": lambda: (OFFSETS, TARGETS, VALUES, X, np.zeros((30, 7), np.float32), 1, 7),
    "fill_mask": lambda: (SALT, 3, np.uint32(2**31), np.float32(2), np.ones(41, np.float32), 8),
    "tanh_row": lambda: (np.linspace(-11, 11, 99, dtype=np.float32), np.zeros(99, np.float32)),
    "column_moments": lambda: (X, 1e-5, *np.zeros((3, 7), np.float32), 2, 7),
    "squash": lambda: (
        X, *X[:2], *abs(X[2:4]), SALT, np.uint32(2**31), np.float32(2), *np.zeros((2, 30, 7), np.float32), 1, 6
    ),
    "squash all kept": lambda: (
        X, *X[:2], *abs(X[2:4]), SALT, np.uint32(0), np.float32(1), *np.zeros((2, 30, 7), np.float32), 0, 7
    ),
    "squash_grad": lambda: (
        X[::-1].copy(), X, np.tanh(X), X[0], *abs(X[2:4]), SALT, np.uint32(2**31), np.float32(2),
        np.zeros((30, 7), np.float32), *np.zeros((2, 7), np.float32), 1, 6,
    ),
    "squash_grad all kept": lambda: (
        X[::-1].copy(), X, np.tanh(X), X[0], *abs(X[2:4]), SALT, np.uint32(0), np.float32(1),
        np.zeros((30, 7), np.float32), *np.zeros((2, 7), np.float32), 0, 7,
    ),
}  # fmt: skip


def numbers(size):
    return (np.arange(size) * 7919 % 30).astype(np.int32)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.filterwarnings("ignore:overflow encountered")  # NumPy warns where 64-bit hashes wrap on purpose
def test_the_compiled_kernel_does_what_its_source_says(case, monkeypatch):
    kernel = getattr(cpu, case.split()[0])
    compiled, plain = CASES[case](), CASES[case]()
    answer = kernel(*compiled)
    for name in ("mix", "stream", "draw", "fill_mask", "tanh_row", "has_edge"):
        monkeypatch.setattr(cpu, name, getattr(cpu, name).py_func)

    assert kernel.py_func(*plain) == answer
    for a, b in zip(compiled, plain, strict=True):
        assert np.allclose(a, b, atol=1e-5)


def test_every_kernel_is_covered():
    kernels = {name for name, f in vars(cpu).items() if hasattr(f, "py_func")}
    assert kernels == {case.split()[0] for case in CASES} | {"mix", "stream", "draw"}
    assert all(inspect.getdoc(getattr(cpu, name).py_func) for name in kernels)


def test_without_a_place_for_its_cache_a_kernel_still_compiles(monkeypatch):
    def homeless(cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr(cpu, "njit", homeless)

    assert cpu.kernel(lambda x: x + 1)(2) == 3


def test_a_row_fetched_early_changes_nothing_and_halves_are_widened_exactly():
    @numba.njit
    def widened(x, out):
        for i in range(len(x)):
            fetch_row(x, i)
            for j in range(x.shape[1]):
                out[i, j] = widen(x[i, j])

    every = np.arange(2**16, dtype=np.uint16).reshape(-1, 64)
    every = every[np.isfinite(every.view(np.float16)).all(1)]
    for x, expected in ((every, every.view(np.float16).astype(np.float32)), (X, X)):
        out = np.empty(x.shape, np.float32)
        widened(x, out)

        assert out.tobytes() == expected.tobytes()
        assert all(widen(v) == e for v, e in zip(x[1], expected[1], strict=True))
    assert fetch_row(X, 0) is None


WIDTHS = [1, 15, 16, 17, 31, 32, 47, 48, 64, 65, 127, 200]


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("kind", [np.float32, np.float16])
@pytest.mark.parametrize("width", WIDTHS)
def test_means_of_any_width_are_those_of_the_source_bit_by_bit_and_nothing_else_is_written(width, kind, index):
    rows = (1e3 * RNG.normal(size=(30, width))).astype(kind)
    x = rows.view(np.uint16) if kind == np.float16 else rows
    compiled, plain = np.full((2, 32, width), 7, np.float32)

    cpu.mean_rows(OFFSETS[5:], TARGETS.astype(index), x, 5, compiled[1:], 0, 25)
    cpu.mean_rows.py_func(OFFSETS[5:], TARGETS, x, 5, plain[1:], 0, 25)

    assert compiled.tobytes() == plain.tobytes()
    for i in (0, 11, 24):
        both = rows[[5 + i, *GRAPH.neighbors(5 + i)]]
        assert np.allclose(compiled[1 + i], both.astype(np.float64).mean(0), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize("width", WIDTHS)
def test_sums_of_any_width_are_those_of_the_formula_and_nothing_else_is_written(width):
    x = RNG.normal(size=(30, width)).astype(np.float32)
    plain, weighted = np.full((2, 32, width), 7, np.float32)

    cpu.sum_rows(OFFSETS, TARGETS, x, plain[1:], 0, 30)
    cpu.sparse_dense(OFFSETS, TARGETS, VALUES, 0, x, weighted[1:], 0, 30)

    for out, values in ((plain, np.ones_like(VALUES)), (weighted, VALUES)):
        assert np.allclose(out[1:-1], sp.csr_array((values, TARGETS, OFFSETS), shape=(30, 30)) @ x, atol=1e-5)
        assert (out[[0, -1]] == 7).all()


def test_compiled_anew_and_for_half_precision_the_loops_in_registers_are_the_same():
    x, out = RNG.normal(size=(30, 70)).astype(np.float16), np.zeros((30, 70), np.float32)
    rows = x.astype(np.float32)
    weights = sp.csr_array((VALUES, TARGETS, OFFSETS), shape=(30, 30))
    anew = {name: numba.njit(getattr(cpu, name).py_func) for name in ("mean_rows", "sum_rows", "sparse_dense_grad")}

    anew["mean_rows"](OFFSETS, TARGETS, x.view(np.uint16), 0, out, 0, 30)
    assert np.allclose(out, ((weights != 0) @ rows + rows) / (1 + GRAPH.degrees)[:, None], atol=1e-5)
    anew["sum_rows"](OFFSETS, TARGETS, rows, out, 0, 30)
    assert np.allclose(out, (weights != 0) @ rows, atol=1e-5)
    out[:] = 0
    anew["sparse_dense_grad"](OFFSETS, TARGETS, VALUES, rows, out, 0, 70)
    assert np.allclose(out, weights.T @ rows, atol=1e-5)


ODD = {
    "columns side by side": lambda a: np.asfortranarray(a),
    "every other column": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
    "backwards": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
    "double precision": lambda a: a.astype(np.float64),
}
ENTRIES = {
    "every other": lambda a: np.repeat(a, 2)[::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "unsigned": lambda a: a.astype(np.uint32),
    "short": lambda a: a.astype(np.int16),
}


@pytest.mark.parametrize("odd", [*ODD, *ENTRIES])
def test_arrays_that_lie_in_memory_in_another_way_give_the_same(odd):
    laid = ODD.get(odd, lambda a: a)
    index = ENTRIES.get(odd, lambda a: a)(TARGETS)
    x = RNG.normal(size=(30, 80)).astype(np.float32)
    weights = sp.csr_array((VALUES, TARGETS, OFFSETS), shape=(30, 30))
    plain = (weights != 0) @ x
    expected = {
        "mean_rows": ((plain + x) / (1 + GRAPH.degrees)[:, None], lambda o: (OFFSETS, index, laid(x), 0, o, 0, 30)),
        "sum_rows": (plain, lambda o: (OFFSETS, index, laid(x), o, 0, 30)),
        "sparse_dense": (weights @ x, lambda o: (OFFSETS, index, VALUES, 0, laid(x), o, 0, 30)),
        "sparse_dense_grad": (weights.T @ x, lambda o: (OFFSETS, index, VALUES, laid(x), o, 0, 80)),
    }
    for name, (right, arguments) in expected.items():
        for out in (np.zeros((30, 80), np.float32), laid(np.zeros((30, 80), np.float32))):
            numba.njit(getattr(cpu, name).py_func)(*arguments(out))
            assert np.allclose(out, right, atol=1e-5), name


def test_halves_are_widened_exactly_on_a_processor_that_does_not_know_them(monkeypatch):
    monkeypatch.setattr(hardware, "has_half", lambda: False)
    bits = np.arange(2**16, dtype=np.uint16).reshape(-1, 64)
    expected = bits.view(np.float16).astype(np.float32)
    nobody = np.zeros(0, np.int32)
    for width in (64, 8):  # in registers, and one by one
        halves, out = bits.reshape(-1, width), np.empty((2**16 // width, width), np.float32)
        none = np.zeros(len(halves) + 1, np.int64)

        numba.njit(cpu.mean_rows.py_func)(none, nobody, halves, 0, out, 0, len(out))

        assert np.array_equal(out, expected.reshape(-1, width), equal_nan=True)
        assert np.array_equal(np.signbit(out), np.signbit(expected.reshape(-1, width)))


def test_whether_halves_are_known_is_asked_of_the_processor_that_is_compiled_for(monkeypatch):
    monkeypatch.setattr(hardware.platform, "machine", lambda: "arm64")
    assert hardware.has_half()
    monkeypatch.setattr(hardware.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(hardware, "get_host_cpu_features", lambda: {"f16c": True})
    assert hardware.has_half()
    monkeypatch.setattr(hardware, "get_host_cpu_features", lambda: {})
    assert not hardware.has_half()
    monkeypatch.setattr(hardware, "get_host_cpu_features", lambda: {"f16c": True})
    monkeypatch.setattr(hardware.config, "CPU_NAME", "generic")
    assert not hardware.has_half()
    monkeypatch.setattr(hardware.config, "CPU_FEATURES", "+avx,+f16c")
    assert hardware.has_half()


@pytest.mark.parametrize(("left", "right"), [(0, 200), (3, 67), (3, 70), (10, 60), (40, 196)])
def test_rows_are_spread_over_these_columns_and_no_others(left, right):
    x = RNG.normal(size=(30, 200)).astype(np.float32)
    plain, weighted = np.full((2, 30, 200), 7, np.float32)

    cpu.scatter_rows(OFFSETS, TARGETS, x, plain, left, right)
    cpu.sparse_dense_grad(OFFSETS, TARGETS, VALUES, x, weighted, left, right)

    for out, values in ((plain, np.ones_like(VALUES)), (weighted, VALUES)):
        expected = np.full((30, 200), 7, np.float32)
        expected[:, left:right] += (sp.csr_array((values, TARGETS, OFFSETS), shape=(30, 30)).T @ x)[:, left:right]
        assert np.allclose(out, expected, atol=1e-5)


def test_ids_of_any_size_are_numbered_alike_in_one_call_or_two_and_by_the_source():
    draw = np.random.default_rng(1)
    ids = draw.integers(-(2**62), 2**62, 20)[draw.integers(20, size=60)]

    def numbered(function, *pieces):
        table, keys, codes, count = np.full(64, -1), np.zeros(32, np.int64), [], 0
        for piece in pieces:
            codes.append(np.zeros(len(piece), np.int64))
            count = function(piece, table, keys, count, codes[-1])
        return int(count), keys[:count].tolist(), np.concatenate(codes).tolist()

    whole = numbered(cpu.number, ids)
    assert whole[1] == list(dict.fromkeys(ids.tolist()))
    assert numbered(cpu.number, ids[:25], ids[25:]) == whole
    with np.errstate(over="ignore"):
        assert numbered(cpu.number.py_func, ids) == whole
