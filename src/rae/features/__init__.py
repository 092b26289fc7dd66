"""Features of nodes: given ones, checked, dense or sparse, and structural ones made from the graph."""

from rae.features.features import (
    FeatureTable,
    Matrix,
    check_matrix,
    concatenate,
    is_sparse,
    prepare,
    run_of_rows,
    structural_features,
    widened,
)

__all__ = [
    "FeatureTable",
    "Matrix",
    "check_matrix",
    "concatenate",
    "is_sparse",
    "prepare",
    "run_of_rows",
    "structural_features",
    "widened",
]
