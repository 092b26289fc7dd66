"""Files in and out: edges, features and embeddings as Parquet, CSV, Arrow, NumPy and plain edge lists."""

from rae.io.edges import read_edges
from rae.io.embeddings import read_embeddings, write_embeddings
from rae.io.features import read_features

__all__ = ["read_edges", "read_embeddings", "read_features", "write_embeddings"]
