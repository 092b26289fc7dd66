"""Files in and out: edges, graphs, features and embeddings as Parquet, CSV, Arrow, NumPy and plain edge lists."""

from rae.graph.folder import open_graph, write_graph
from rae.io.build import build_graph_folder
from rae.io.edges import read_edges
from rae.io.embeddings import read_embeddings, write_embeddings
from rae.io.features import read_features

__all__ = [
    "build_graph_folder",
    "open_graph",
    "read_edges",
    "read_embeddings",
    "read_features",
    "write_embeddings",
    "write_graph",
]
