"""The page of a run: a map of its nodes, its roles as cards, and the neighbourhood of each node."""

from rae.explore.labels import read_labels
from rae.explore.page import Subject, write_page

__all__ = ["Subject", "read_labels", "write_page"]
