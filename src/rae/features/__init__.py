"""Features of nodes: given ones, checked, dense or sparse, keyed by id or not; structural ones made from the graph."""

from rae.features.ego import ego_graph
from rae.features.features import Features
from rae.features.matrix import Matrix, as_float32, check_matrix, column_sizes, concatenate, csr_rows, is_sparse
from rae.features.structural import structural_features, structural_width
from rae.features.table import FeatureTable

__all__ = [
    "FeatureTable",
    "Features",
    "Matrix",
    "as_float32",
    "check_matrix",
    "column_sizes",
    "concatenate",
    "csr_rows",
    "ego_graph",
    "is_sparse",
    "structural_features",
    "structural_width",
]
