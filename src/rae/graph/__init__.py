"""Graph: ids, one builder, the folder format."""

from rae.graph.csr_writer import Counts
from rae.graph.graph import Graph

__all__ = ["Counts", "Graph"]
