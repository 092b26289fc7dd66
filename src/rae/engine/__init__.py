"""Embed every node exactly: into memory (exact.py), into a file (streamed.py), from disk to disk (bounded.py)."""

from rae.engine.bounded import embed_to
from rae.engine.exact import TILE, embed
from rae.engine.layout import memory_bytes
from rae.engine.streamed import stream, stream_to

__all__ = ["TILE", "embed", "embed_to", "memory_bytes", "stream", "stream_to"]
