"""Judges: how much a simple reader gets out of vectors. They take any z, from any method."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import adjusted_rand_score, homogeneity_completeness_v_measure, silhouette_score
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from rae.datasets import Split

Array = np.ndarray[Any, Any]


def linear(C: float = 1.0) -> OneVsRestClassifier:
    """The paper's reader: L2-penalised logistic regression, one class against the rest."""
    return OneVsRestClassifier(LogisticRegression(C=C, max_iter=2000))


def softmax(C: float = 1.0) -> LogisticRegression:
    """The reader that weighs all classes against each other at once; it serves ordered classes better."""
    return LogisticRegression(C=C, max_iter=2000)


def node_accuracy(z: Any, labels: Array, split: Split, reader: Any = None) -> float:
    """Percent of the test nodes that a reader fitted on the training nodes gets right."""
    probe = (reader or linear()).fit(z[split.train], labels[split.train])
    return 100 * float(probe.score(z[split.test], labels[split.test]))


def accuracy_on(z: Any, labels: Array, train: Array, groups: dict[str, Array]) -> dict[str, float]:
    """Percent right in each group of nodes, by one reader fitted on `train`."""
    probe = linear().fit(z[train], labels[train])
    return {name: 100 * float(probe.score(z[rows], labels[rows])) for name, rows in groups.items()}


def stratified(labels: Array, seed: int) -> tuple[Array, Array]:
    """Rows to learn from and rows to judge by, four to one, every class in its proportion."""
    splitter = StratifiedShuffleSplit(1, test_size=0.2, random_state=seed)
    train, test = next(splitter.split(labels, labels))
    return train, test


def split_accuracy(z: Any, labels: Array, seed: int) -> float:
    """Percent right on the fifth held out by this seed, columns standardised on the other four."""
    train, test = stratified(labels, seed)
    probe = make_pipeline(StandardScaler(), softmax()).fit(z[train], labels[train])
    return 100 * float(probe.score(z[test], labels[test]))


def transfer_accuracy(z: Any, labels: Array, other: Any, other_labels: Array) -> float:
    """Percent right on all nodes of another graph, by a reader that has seen only this one."""
    probe = make_pipeline(StandardScaler(), softmax()).fit(z, labels)
    return 100 * float(probe.score(other, other_labels))


@dataclass(frozen=True)
class Folds:
    """Ten folds in percent: the honest accuracy, and what the best cut-off on each test fold would have given."""

    accuracy: float
    best_cut: float | None  # None for more than two classes


def cross_validated(z: Any, labels: Array, seed: int) -> Folds:
    """The mean over ten stratified folds, drawn by this seed; columns are standardised on the training folds."""
    z = np.asarray(z, np.float64)  # sums over thousands of nodes: Newton's steps need every digit
    two = len(np.unique(labels)) == 2
    honest, flattered = [], []
    for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(z, labels):
        # Newton's method: the quickest solver for some hundred columns.
        reader = LogisticRegression(solver="newton-cholesky")
        probe = make_pipeline(StandardScaler(), reader if two else OneVsRestClassifier(reader))
        probe.fit(z[train], labels[train])
        honest.append(float(probe.score(z[test], labels[test])))
        if two:
            flattered.append(best_cut(probe.predict_proba(z[test])[:, 1], labels[test] == probe.classes_[1]))
    return Folds(100 * float(np.mean(honest)), 100 * float(np.mean(flattered)) if two else None)


def best_cut(p: Array, positive: Array) -> float:
    """The accuracy at that cut-off of the probabilities p which gives the highest one.

    >>> best_cut(np.array([0.1, 0.2, 0.3]), np.array([False, True, True]))
    1.0
    """
    cuts = np.append(np.unique(p), np.inf)
    return float(((p[None] >= cuts[:, None]) == positive[None]).mean(1).max())


def flat(z: Array, width: int = 2) -> Array:
    """Standardised columns in their leading directions, as the pictures and silhouettes of roles take them."""
    x = StandardScaler().fit_transform(np.asarray(z, dtype=np.float64))
    width = min(width, *x.shape)
    return np.asarray(PCA(width, svd_solver="full").fit_transform(x))


def silhouette(z: Array, labels: Array) -> float:
    """How much closer nodes are to their own role than to the next one, in percent of the way; 100 is perfect."""
    return 100 * float(silhouette_score(z, labels))


def recovery(z: Array, labels: Array, seed: int) -> dict[str, float]:
    """Roles found again by GraphWave's protocol: standardise, five directions, k-means told the true number."""
    x = flat(z, 5)
    with warnings.catch_warnings():  # fewer different places than roles: what there is to find is found
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = KMeans(len(np.unique(labels)), n_init=10, random_state=seed).fit_predict(x)
    homogeneity, completeness, v = homogeneity_completeness_v_measure(labels, found)
    return {
        "v_measure": 100 * float(v),
        "homogeneity": 100 * float(homogeneity),
        "completeness": 100 * float(completeness),
        "ari": 100 * float(adjusted_rand_score(labels, found)),
        "silhouette": silhouette(x, labels),
    }


def spread_of_equals(z: Array, classes: Array) -> float:
    """Largest distance between nodes of one class, in percent of the mean distance between any two nodes."""
    x = np.asarray(z, dtype=np.float64)
    distance = np.sqrt(np.maximum(((x[:, None] - x[None]) ** 2).sum(-1), 0))
    others = ~np.eye(len(x), dtype=bool)
    equal = (classes[:, None] == classes[None]) & others
    return 100 * float(distance[equal].max() / distance[others].mean())
