"""Every operation in plain torch: what the tests compare with, what other devices run, what `torch.export` sees.

Each function says what the operation means, in as few lines as torch allows; speed is not its aim. Random choices
are the same hashes as in the compiled library: 64-bit words are int64 here, whose products wrap as unsigned ones do.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

GOLDEN = 0x9E3779B97F4A7C15 - (1 << 64)
CHANCES = 1 << 31  # how finely a chance is drawn
WALK_TRIES = 64  # candidates of a walk before the weights of all neighbours are added up


def tensor(array: Any, device: Any = None) -> Tensor:
    """The array as a tensor on a device; a read-only or mapped array is copied."""
    if isinstance(array, np.ndarray):
        array = torch.from_numpy(array if array.flags.writeable and array.flags.c_contiguous else array.copy())
    return torch.as_tensor(array, device=device)


# ----------------------------------------------------------------------------- gathering rows


def mean(x: Tensor, offsets: Any, index: Any, ego: Any = 0, lists: Any = None) -> Tensor:
    """mean({u} ∪ N(u)), as `rae.ops.gather.mean`; differentiable."""
    offsets, index = tensor(offsets, x.device), tensor(index, x.device)
    lists = None if lists is None else tensor(lists, x.device)
    rows = len(offsets) - 1 if lists is None else len(lists)
    ego = torch.arange(ego, ego + rows, device=x.device) if isinstance(ego, int) else tensor(ego, x.device)
    x = x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
    starts, counts = offsets[:-1], torch.diff(offsets)
    if lists is not None:
        starts, counts = starts[lists], counts[lists]
    if lists is None and isinstance(offsets, Tensor) and len(index) and _is_whole(offsets, index):
        entries, total = index, len(index)
    else:
        total = int(counts.sum())
        entries = index[_positions(starts, counts, total)]
    row_of = torch.repeat_interleave(torch.arange(rows, device=x.device), counts, output_size=total)
    sums = x[ego].index_add(0, row_of, x[entries])
    return sums / (1 + counts).to(x.dtype)[:, None]


def moments(x: Tensor, offsets: Any, index: Any, lists: Any = None, spread: int = 0, weights: Any = None) -> Tensor:
    """Mean over N(u) and the deviation of the first columns, as `rae.ops.gather.moments`, in double precision."""
    offsets, index = tensor(offsets, x.device), tensor(index, x.device).long()
    starts, counts = offsets[:-1], torch.diff(offsets)
    if lists is not None:
        lists = tensor(lists, x.device)
        starts, counts = starts[lists], counts[lists]
    positions = _positions(starts, counts, int(counts.sum()))
    entries = index[positions]
    row_of = torch.repeat_interleave(torch.arange(len(counts), device=x.device), counts)
    values, share = x[entries].double(), counts.clamp(min=1).double()[:, None]
    zeros, each = values.new_zeros((len(counts), x.shape[1])), values.new_ones((len(entries), 1))
    if weights is not None:
        each = tensor(weights, x.device)[positions].double()[:, None]
        total = zeros.new_zeros((len(counts), 1)).index_add(0, row_of, each)
        share = torch.where(total > 0, total, 1.0)
    center = zeros.index_add(0, row_of, values * each) / share
    squares = each * (values[:, :spread] - center[row_of, :spread]) ** 2
    deviation = torch.sqrt(zeros[:, :spread].index_add(0, row_of, squares) / share)
    return torch.cat([center, deviation], 1).float()


def _is_whole(offsets: Tensor, index: Tensor) -> bool:
    """Whether the lists are all of the index, in order; always so for a block, also while it is exported."""
    if type(offsets) is not torch.Tensor:
        return True
    return int(offsets[0]) == 0 and int(offsets[-1]) == len(index)


def _positions(starts: Tensor, counts: Tensor, total: int) -> Tensor:
    """The positions starts[i] .. starts[i] + counts[i] of every list, one after the other."""
    before = torch.cumsum(counts, 0) - counts
    return torch.repeat_interleave(starts - before, counts, output_size=total) + torch.arange(
        total, device=starts.device
    )


def sparse_product(matrix: Any, weight: Tensor) -> Tensor:
    """Rows of a SciPy CSR times dense weights; differentiable."""
    indptr, indices, values = (tensor(a, weight.device) for a in (matrix.indptr, matrix.indices, matrix.data))
    counts = torch.diff(indptr.long())
    row_of = torch.repeat_interleave(torch.arange(len(counts), device=weight.device), counts)
    out = torch.zeros((len(counts), weight.shape[1]), dtype=weight.dtype, device=weight.device)
    return out.index_add(0, row_of, weight[indices.long()] * values[:, None].to(weight.dtype))


# ----------------------------------------------------------------------------- dense levels


def norm_tanh_dropout(x: Tensor, norm: nn.BatchNorm1d, share: float, key: Any) -> Tensor:
    """Dropout(tanh(BatchNorm(x))) with batch statistics; differentiable."""
    variance, center = torch.var_mean(x, 0, correction=0)
    follow_batch(norm, center.detach(), variance.detach(), len(x))
    normal = (x - center) * torch.rsqrt(variance + norm.eps) * norm.weight + norm.bias
    return torch.tanh(normal) * dropout_mask(tuple(x.shape), share, key, x.device).to(x.dtype)


def follow_batch(norm: nn.BatchNorm1d, center: Tensor, variance: Tensor, n: int) -> None:
    """Move the running statistics towards those of this batch, as BatchNorm1d does."""
    with torch.no_grad():
        assert norm.running_mean is not None
        assert norm.running_var is not None
        assert norm.num_batches_tracked is not None
        assert norm.momentum is not None
        norm.running_mean.lerp_(center.to(norm.running_mean.dtype), norm.momentum)
        norm.running_var.lerp_((variance * (n / max(1, n - 1))).to(norm.running_var.dtype), norm.momentum)
        norm.num_batches_tracked += 1


def dropout_mask(shape: tuple[int, ...], share: float, key: Any, device: Any = None) -> Tensor:
    """0 with chance `share`, else 1 / (1 - share): a 32-bit hash per entry, seeded by a 64-bit one per row."""
    low32 = 0xFFFFFFFF
    rows = torch.arange(1, shape[0] + 1, device=device)
    state = _mix(signed_word(key) + GOLDEN * rows)[:, None]
    low, high = state & low32, _shift(state, 32)
    h = (torch.arange(shape[1], device=device) * 0x9E3779B9 + low) & low32
    h = ((h ^ (h >> 16)) * 0x7FEB352D) & low32
    h = ((h ^ (h >> 15) ^ high) * 0x846CA68B) & low32
    h = h ^ (h >> 16)
    threshold = min(round(share * 2**32), 2**32 - 1)
    return torch.where(h >= threshold, float(np.float32(1 / (1 - share))), 0.0)


# ----------------------------------------------------------------------------- hashing


def signed_word(key: Any) -> int:
    """64 bits as a signed number."""
    value = int(key)
    return value - (1 << 64) if value >= 1 << 63 else value


def _shift(x: Tensor, count: int) -> Tensor:
    """x >> count of unsigned words."""
    return (x >> count) & ((1 << (64 - count)) - 1)


def _mix(x: Tensor) -> Tensor:
    x = (x ^ _shift(x, 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    x = (x ^ _shift(x, 27)) * (0x94D049BB133111EB - (1 << 64))
    return x ^ _shift(x, 31)


def _stream(key: Any, nodes: Tensor, views: Any) -> Tensor:
    return _mix(_mix(signed_word(key) + GOLDEN * nodes) + GOLDEN * torch.as_tensor(views, device=nodes.device))


def _draw(state: Tensor, slot: Any, bound: Any) -> Tensor:
    """A whole number in 0..bound-1; bound < 2**31."""
    step = torch.as_tensor(slot, device=state.device) + 1
    number: Tensor = (_shift(_mix(state + GOLDEN * step), 32) * bound) >> 32
    return number


# ----------------------------------------------------------------------------- sampling


def sample_neighbors(
    offsets: Any, targets: Any, nodes: Any, fanout: int, key: Any, views: Any, starts: Any
) -> np.ndarray[Any, Any]:
    """Up to `fanout` distinct neighbours of each node, one list after the other; Floyd's method."""
    kind = targets.dtype
    offsets, targets, nodes, views = map(tensor, (offsets, targets, nodes, views))
    low, degree = offsets[nodes], offsets[nodes + 1] - offsets[nodes]
    state, slots = _stream(key, nodes, views), torch.zeros((len(nodes), fanout), dtype=torch.int64)
    for slot in range(fanout):
        last = degree - fanout + slot
        pick = _draw(state, slot, (last + 1).clamp(min=1))
        is_repeated = (slots[:, :slot] == pick[:, None]).any(1)
        slots[:, slot] = torch.where(is_repeated, last, pick)
    slots = torch.where((degree <= fanout)[:, None], torch.arange(fanout), slots)
    there = torch.arange(fanout) < degree[:, None]
    picked: np.ndarray[Any, Any] = targets[(low[:, None] + slots)[there]].numpy().astype(kind)
    assert len(picked) == int(starts[-1])
    return picked


def renumber(nodes: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The distinct nodes by first appearance, and each node's place among them."""
    distinct, inverse = torch.unique(tensor(nodes), return_inverse=True)
    first = torch.full((len(distinct),), len(nodes)).scatter_reduce(0, inverse, torch.arange(len(nodes)), "amin")
    order = torch.argsort(first)
    return distinct[order].numpy(), torch.argsort(order)[inverse].numpy()


def pick_neighbor(offsets: Any, targets: Any, nodes: Any, key: Any, views: Any) -> np.ndarray[Any, Any]:
    """One uniformly drawn neighbour per (node, view); the node itself where it has none."""
    offsets, targets, nodes, views = map(tensor, (offsets, targets, nodes, views))
    low, degree = offsets[nodes], offsets[nodes + 1] - offsets[nodes]
    at = low + _draw(_stream(key, nodes, views), 0, degree.clamp(min=1))
    alone = degree == 0
    picked = torch.where(alone, nodes, targets[torch.where(alone, 0, at)].long()) if len(targets) else nodes
    out: np.ndarray[Any, Any] = picked.numpy()
    return out


def non_neighbors(
    offsets: Any, targets: Any, nodes: Any, count: int, key: Any, exclude: bool, tries: int
) -> np.ndarray[Any, Any]:
    """Batch positions whose node is another one and, with `exclude`, not adjacent; -1 after `tries` draws."""
    batch = tensor(nodes)
    state, column = _stream(key, batch, 0)[:, None], torch.arange(count)
    out = torch.full((len(batch), count), -1)
    for attempt in range(tries):
        pick = _draw(state, column * tries + attempt, len(batch))
        fits = batch[pick] != batch[:, None]
        if exclude:
            us, vs = batch[:, None].expand_as(pick).reshape(-1), batch[pick].reshape(-1)
            fits &= ~tensor(adjacent(offsets, targets, us.numpy(), vs.numpy())).view_as(pick)
        out = torch.where((out < 0) & fits, pick, out)
    positions: np.ndarray[Any, Any] = out.numpy()
    return positions


def adjacent(offsets: Any, targets: Any, us: Any, vs: Any) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Whether each pair of rows shares an edge: edges are keys row * n + neighbour, ascending."""
    offsets, targets, us, vs = map(tensor, (offsets, targets, us, vs))
    n = len(offsets) - 1
    keys = torch.repeat_interleave(torch.arange(n), torch.diff(offsets)) * n + targets
    keys_of_pairs = us * n + vs
    at = torch.searchsorted(keys, keys_of_pairs).clamp(max=max(0, len(keys) - 1))
    result: np.ndarray[Any, np.dtype[np.bool_]] = (
        (keys[at] == keys_of_pairs).numpy() if len(keys) else np.zeros(len(us), np.bool_)
    )
    return result


def walks(
    offsets: Any, targets: Any, nodes: Any, length: int, key: Any, views: Any, p: float, q: float
) -> np.ndarray[Any, Any]:
    """node2vec's walks, one node at a time: the weights of all neighbours, and candidates until one is accepted."""
    out = np.empty((len(nodes), length), np.int64)
    states = _stream(key, tensor(nodes), tensor(views))
    most = max(1.0 / p, 1.0, 1.0 / q)
    for i, (u, state) in enumerate(zip(nodes.tolist(), states, strict=True)):
        out[i, 0] = last = u
        for step in range(1, length):
            around = targets[offsets[u] : offsets[u + 1]].astype(np.int64)
            slot = step * (2 * WALK_TRIES + 1)
            pick = int(_draw(state, slot, len(around)))
            if not (p == q == 1.0 or step == 1 or len(around) == 1):
                shared = adjacent(offsets, targets, np.full(len(around), last), around)
                weights = np.where(around == last, 1.0 / p, np.where(shared, 1.0, 1.0 / q))
                pick = _accepted(state, slot, weights, most)
            last, u = u, int(around[pick])
            out[i, step] = u
    return out


def _accepted(state: Tensor, slot: int, weights: Any, most: float) -> int:
    for attempt in range(WALK_TRIES):
        candidate = int(_draw(state, slot + 2 * attempt, len(weights)))
        if int(_draw(state, slot + 2 * attempt + 1, CHANCES)) < weights[candidate] / most * CHANCES:
            return candidate
    total = np.cumsum(weights)
    left = (int(_draw(state, slot + 2 * WALK_TRIES, CHANCES)) + 0.5) / CHANCES * total[-1]
    return min(int(np.searchsorted(total, left, "right")), len(weights) - 1)


# ----------------------------------------------------------------------------- structure


def neighbor_degrees(
    offsets: Any, targets: Any, nodes: Any, cap: int, sample: bool, key: Any
) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Own degree, then the neighbours' degrees, largest first, at most `cap`, one node at a time."""
    degrees = torch.diff(tensor(offsets)).float()
    out = torch.zeros((len(nodes), 1 + cap))
    for i, u in enumerate(nodes.tolist()):
        around = degrees[tensor(targets[offsets[u] : offsets[u + 1]]).long()]
        out[i, 0] = len(around)
        if len(around) > cap and sample:
            state = _stream(key, torch.tensor(u), 0)
            for j in range(cap):  # the first steps of a Fisher-Yates shuffle
                pick = j + int(_draw(state, j, len(around) - j))
                around[[j, pick]] = around[[pick, j]]
            around = around[:cap]
        around = torch.sort(around, descending=True).values
        if len(around) > cap:
            steps = torch.arange(cap)
            around = around[(2 * steps * (len(around) - 1) + cap - 1) // (2 * max(cap - 1, 1))]
        out[i, 1 : 1 + len(around)] = around
    result: np.ndarray[Any, np.dtype[np.float32]] = out.numpy()
    return result


def triangles(offsets: Any, targets: Any) -> np.ndarray[Any, Any]:
    """Triangles of each node: pairs v < w of a node's neighbours after it that share an edge count for all three."""
    at, to = tensor(offsets), tensor(targets).long()
    n = len(at) - 1
    rows = torch.repeat_interleave(torch.arange(n), torch.diff(at))
    after = to > rows
    u, v = rows[after], to[after]
    counts = torch.bincount(u, minlength=n)
    starts = torch.cumsum(counts, 0) - counts
    pairs = counts[u]  # every edge (u, v) meets all the neighbours w after u
    total = int(pairs.sum())
    w = v[_positions(starts[u], pairs, total)]
    u, v = (torch.repeat_interleave(end, pairs, output_size=total) for end in (u, v))
    closed = (v < w) & tensor(adjacent(offsets, targets, v.numpy(), w.numpy()))
    corners = torch.cat([u[closed], v[closed], w[closed]])
    result: np.ndarray[Any, Any] = torch.bincount(corners, minlength=n).numpy()
    return result


def four_cycles(offsets: Any, targets: Any) -> np.ndarray[Any, Any]:
    """4-cycles of each node u: over the nodes w two steps away by p paths, p (p - 1) / 2 with w across."""
    at, to = tensor(offsets), tensor(targets).long()
    n, degree = len(at) - 1, torch.diff(at)
    u = torch.repeat_interleave(torch.arange(n), degree)
    lengths = degree[to]
    total = int(lengths.sum())
    w = to[_positions(at[to], lengths, total)]
    u = torch.repeat_interleave(u, lengths, output_size=total)
    pairs, paths = torch.unique((u * n + w)[u != w], return_counts=True)
    counts = torch.zeros(n, dtype=torch.int64).index_add(0, pairs // n, paths * (paths - 1) // 2)
    result: np.ndarray[Any, Any] = counts.numpy()
    return result


def view(offsets: Any, targets: Any, added: tuple[Any, Any], key: Any, threshold: int) -> tuple[Any, Any]:
    """The rows of a noisy copy of a graph, as `rae.ops.structure.view`."""
    kind = targets.dtype
    at, to = tensor(offsets), tensor(targets).long()
    n = len(at) - 1
    rows = torch.repeat_interleave(torch.arange(n), torch.diff(at))
    state = _stream(key, torch.minimum(rows, to), torch.maximum(rows, to))
    stays = _shift(state, 1) >= threshold >> 1
    also = torch.repeat_interleave(torch.arange(n), torch.diff(tensor(added[0]))), tensor(added[1]).long()
    pairs = torch.unique(torch.cat([rows[stays] * n + to[stays], also[0] * n + also[1]]))
    counts = torch.bincount(pairs // n, minlength=n)
    starts = np.concatenate([[0], np.cumsum(counts.numpy())]).astype(np.int64)
    return starts, (pairs % n).numpy().astype(kind)


def view_weights(
    graph: tuple[Any, Any, tuple[Any, Any], Any, int], rows: tuple[Any, Any], here: Any, there: Any
) -> np.ndarray[Any, Any]:
    """The weights of a noisy copy of a graph, as `rae.ops.structure.view_weights`."""
    offsets, targets, _, key, _ = graph
    at, to, n = tensor(offsets), tensor(targets).long(), len(offsets) - 1
    own = torch.repeat_interleave(torch.arange(n), torch.diff(at)) * n + to  # ascending
    new_at, new_to = tensor(rows[0]), tensor(rows[1]).long()
    u = torch.repeat_interleave(torch.arange(n), torch.diff(new_at))
    state = _mix(_stream(key, torch.minimum(u, new_to), torch.maximum(u, new_to)))
    slot = _shift(state, 1) % len(own)
    taken = torch.where(u < new_to, tensor(here)[slot], tensor(there)[slot])
    place = torch.searchsorted(own, u * n + new_to).clamp(max=len(own) - 1)
    out: np.ndarray[Any, Any] = torch.where(own[place] == u * n + new_to, tensor(here)[place], taken).numpy()
    return out


def strengths(offsets: Any, weights: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """How many weights of each row are above 0, and their sum."""
    counts = np.diff(offsets)
    rows, values = np.repeat(np.arange(len(counts)), counts), np.asarray(weights)[offsets[0] : offsets[-1]]
    sums = np.bincount(rows, values.astype(np.float64), len(counts))
    return np.bincount(rows, values > 0, len(counts)).astype(np.int64), sums


def core_numbers(offsets: Any, targets: Any) -> np.ndarray[Any, Any]:
    """Core numbers by peeling: nodes with at most k neighbours left leave, for k = 0, 1, 2, ..."""
    offsets, targets = tensor(offsets), tensor(targets).long()
    rows = torch.repeat_interleave(torch.arange(len(offsets) - 1), torch.diff(offsets))
    left, core, k = torch.diff(offsets), torch.zeros(len(offsets) - 1, dtype=torch.int64), 0
    there = torch.ones(len(core), dtype=torch.bool)
    while there.any():
        leaving = there & (left <= k)
        if not leaving.any():
            k += 1
            continue
        core[leaving], there = k, there & ~leaving
        left = left - torch.zeros_like(left).index_add(0, targets, leaving[rows].long())
    result: np.ndarray[Any, Any] = core.numpy()
    return result
