"""Embed every node exactly: in memory (exact.py), or from disk to disk in bounded memory (bounded.py)."""

from rae.inference.bounded import embed_to
from rae.inference.exact import TILE, embed
from rae.inference.layout import memory_bytes

__all__ = ["TILE", "embed", "embed_to", "memory_bytes"]
