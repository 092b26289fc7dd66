"""Embedding as tasks over a store by an executor: in memory, from disk to disk, on threads; same tasks, same bytes."""

from rae.engine.embedding import embed, embed_to, stream
from rae.engine.layout import TILE, memory_bytes

__all__ = ["TILE", "embed", "embed_to", "memory_bytes", "stream"]
