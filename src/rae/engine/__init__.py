"""Embedding as tasks over a store by an executor: in memory, from disk to disk, on threads; same tasks, same bytes."""

from rae.engine.embedding import embed, embed_to, stream
from rae.engine.layout import TILE, memory_bytes
from rae.engine.levels import encoder_models
from rae.engine.models import models_of

__all__ = ["TILE", "embed", "embed_to", "encoder_models", "memory_bytes", "models_of", "stream"]
