"""Graph: ids, one builder, the folder format."""

from rae.graph.graph import Counts, Graph

__all__ = ["Counts", "Graph"]
