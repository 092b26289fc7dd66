"""Embed every node exactly: in memory (exact.py), or from disk to disk in bounded memory (bounded.py)."""

from rae.inference.exact import TILE, embed

__all__ = ["TILE", "embed"]
