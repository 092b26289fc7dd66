"""Data sets by name: generators with known roles or groups, public benchmarks, and the standard library.

>>> from rae import datasets
>>> datasets.load("barbell")
Dataset('barbell', nodes=30, edges=101, features=None, classes=7, split=None)
"""

from rae.datasets.catalogue import load, names
from rae.datasets.dataset import Dataset, GraphCollection, Split
from rae.datasets.home import Home
from rae.datasets.payments import transactions

__all__ = ["Dataset", "GraphCollection", "Home", "Split", "load", "names", "transactions"]
