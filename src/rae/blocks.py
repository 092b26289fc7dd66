"""Blocks: the named columns of a vector, and how much each counts in a distance.

A model's vectors are blocks side by side, such as `place` (structure) and `own`, `near`, `far` (actions). Each has a
known scale: its total variance over the graph of the fit. A distance weighs blocks: each has a default weight, and a
query can pass others.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rae.errors import Argument, ConfigError

Floats = np.ndarray[Any, np.dtype[np.float32]]
Weights = str | Mapping[str, float]

LARGEST_WEIGHT = 1_000_000


class Block(NamedTuple):
    """The columns start..stop of the vectors, what they are, and how they count.

    >>> Block("place", 0, 64).width
    64
    """

    name: str
    start: int
    stop: int
    variance: float | None = None  # sum of the variances of its columns over the graph of the fit, where it is known
    weight: float = 1.0  # in distances, where a query does not say otherwise; of the block brought to a variance of 1
    about: str = ""  # what it holds, in words

    @property
    def width(self) -> int:
        """Its columns."""
        return self.stop - self.start

    def as_dict(self) -> dict[str, Any]:
        """The block as JSON holds it."""
        return self._asdict()


def blocks_from(records: Any, width: int) -> tuple[Block, ...]:
    """The blocks that a list of `Block.as_dict` describes; ValueError where they do not make up `width` columns."""
    blocks = tuple(Block(**record) for record in records)
    at = 0
    for block in blocks:
        numbers = (block.weight, *(() if block.variance is None else (block.variance,)))
        sound = isinstance(block.name, str) and isinstance(block.about, str)
        sound = sound and type(block.start) is type(block.stop) is int and block.start == at < block.stop
        if not sound or not all(type(x) in (int, float) and 0 <= x <= LARGEST_WEIGHT for x in numbers):
            raise ValueError(f"damaged block {block!r}")
        at = block.stop
    if at != width or len({block.name for block in blocks}) != len(blocks):
        raise ValueError(f"blocks of {at} columns for vectors of {width}, or two of one name")
    return blocks


def side_by_side(parts: Iterable[Block]) -> tuple[Block, ...]:
    """The blocks moved so that each begins where the one before ends."""
    out: list[Block] = []
    for block in parts:
        at = out[-1].stop if out else 0
        out.append(block._replace(start=at, stop=at + block.width))
    return tuple(out)


def parse_weights(weights: Weights | None, blocks: Sequence[Block]) -> dict[str, float]:
    """The weight of every block: its default, or what `weights` says, such as "place=1,own=0.3" or a mapping.

    >>> parse_weights("own=0.3", [Block("place", 0, 64), Block("own", 64, 128)])
    {'place': 1.0, 'own': 0.3}
    """
    out = {block.name: block.weight for block in blocks}
    for name, value in _pairs(weights):
        if name not in out:
            near = difflib.get_close_matches(str(name), out, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"the blocks are {', '.join(out)}"
            raise ConfigError(f"there is no block {name!r} in these vectors; {hint}", argument="weights")
        try:
            number = float(value)
        except (TypeError, ValueError):
            number = math.nan
        if not 0 <= number <= LARGEST_WEIGHT:
            raise ConfigError(
                Argument("weights"), f" must be numbers from 0 to {LARGEST_WEIGHT:,}, got {value!r} for {name}"
            )
        out[name] = number
    if not any(out.values()):
        raise ConfigError(Argument("weights"), " must leave at least one block a weight above 0, got all 0")
    return out


def _pairs(weights: Weights | None) -> list[tuple[str, Any]]:
    if weights is None:
        return []
    if isinstance(weights, Mapping):
        return list(weights.items())
    pairs = [part.partition("=") for part in weights.split(",") if part.strip()]
    if not pairs or not all(equals for _, equals, _ in pairs):
        raise ConfigError(Argument("weights"), f" must name blocks and numbers, as in place=1,own=0.3, got {weights!r}")
    return [(name.strip(), value.strip()) for name, _, value in pairs]


def column_factors(blocks: Sequence[Block], weights: Weights | None, width: int) -> Floats:
    """What `weighted` multiplies each column by; 0 for those that it leaves out.  -> (width,)

    >>> column_factors([Block("place", 0, 2, 4.0), Block("around", 2, 3, 1.0, 0.0)], None, 3).tolist()
    [0.5, 0.5, 0.0]
    """
    if not blocks:
        return np.ones(width, np.float32)
    factors = np.array([*block_factors(blocks, weights).values()], np.float32)
    return np.repeat(factors, [b.width for b in blocks])


def weighted(vectors: Any, blocks: Sequence[Block], weights: Weights | None = None) -> Floats:
    """The vectors as distances see them: every block times its weight, blocks of weight 0 left out.  (n, d) -> (n, e)

    A weight is that of a block of variance 1, so equal weights count alike, whatever the scale in the file; a block of
    unknown variance counts as it is. Vectors without blocks (of other tools) come back as they are.
    """
    z: Floats = np.asarray(vectors, np.float32)
    if not blocks:
        if weights is not None:
            raise ConfigError(
                Argument("weights"), " are about named blocks, and these vectors have none; leave them out"
            )
        return z
    factors = block_factors(blocks, weights)
    if all(factor == 1 for factor in factors.values()):
        return z
    parts = [z[:, b.start : b.stop] * np.float32(factors[b.name]) for b in blocks if factors[b.name]]
    return np.ascontiguousarray(np.hstack(parts))


def block_factors(blocks: Sequence[Block], weights: Weights | None = None) -> dict[str, float]:
    """By what each block is multiplied before distances: its weight over the deviation that it has in the file."""
    chosen = parse_weights(weights, blocks)
    return {b.name: chosen[b.name] / math.sqrt(b.variance or 1.0) for b in blocks}
