"""Scores of vectors, from any method, by simple readers."""

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
    """Multinomial logistic regression; better than one against the rest where classes are ordered."""
    return LogisticRegression(C=C, max_iter=2000)


def node_accuracy(z: Any, labels: Array, split: Split, reader: Any = None) -> float:
    """Percent of the test nodes that a reader fitted on the training nodes gets right."""
    probe = (reader or linear()).fit(z[split.train], labels[split.train])
    return 100 * float(probe.score(z[split.test], labels[split.test]))


def accuracy_on(z: Any, labels: Array, train: Array, groups: dict[str, Array]) -> dict[str, float]:
    """Percent right in each group of nodes, by one reader fitted on `train`."""
    probe = linear().fit(z[train], labels[train])
    return {name: 100 * float(probe.score(z[rows], labels[rows])) for name, rows in groups.items()}


def split_accuracy(z: Any, labels: Array, seed: int) -> float:
    """Percent right on a stratified fifth of the rows, drawn by this seed; the reader is fitted on the others."""
    train, test = next(StratifiedShuffleSplit(1, test_size=0.2, random_state=seed).split(labels, labels))
    return transfer_accuracy(z[train], labels[train], z[test], labels[test])


def transfer_accuracy(z: Any, labels: Array, other: Any, other_labels: Array) -> float:
    """Percent right on all other rows, by a reader fitted on these; columns are standardised by these."""
    probe = make_pipeline(StandardScaler(), softmax()).fit(z, labels)
    return 100 * float(probe.score(other, other_labels))


@dataclass(frozen=True)
class Folds:
    """Accuracy over ten folds in percent, and with the cut-off that is best on each test fold."""

    accuracy: float
    best_cut: float | None  # None for more than two classes


def cross_validated(z: Any, labels: Array, seed: int) -> Folds:
    """The mean over ten stratified folds, drawn by this seed; columns are standardised on the training folds."""
    z = np.asarray(z, np.float64)  # sums over thousands of nodes: Newton's steps need every digit
    two = len(np.unique(labels)) == 2
    accuracies, cut_accuracies = [], []
    for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(z, labels):
        # Newton's method: the quickest solver for some hundred columns.
        reader = LogisticRegression(solver="newton-cholesky")
        probe = make_pipeline(StandardScaler(), reader if two else OneVsRestClassifier(reader))
        probe.fit(z[train], labels[train])
        accuracies.append(float(probe.score(z[test], labels[test])))
        if two:
            cut_accuracies.append(best_cut(probe.predict_proba(z[test])[:, 1], labels[test] == probe.classes_[1]))
    return Folds(100 * float(np.mean(accuracies)), 100 * float(np.mean(cut_accuracies)) if two else None)


def best_cut(p: Array, positive: Array) -> float:
    """The accuracy at that cut-off of the probabilities p which gives the highest one.

    >>> best_cut(np.array([0.1, 0.2, 0.3]), np.array([False, True, True]))
    1.0
    """
    cuts = np.append(np.unique(p), np.inf)
    return float(((p[None] >= cuts[:, None]) == positive[None]).mean(1).max())


def flat(z: Array, width: int = 2) -> Array:
    """The leading principal components of the standardised columns.  (n, d) -> (n, width)"""
    x = StandardScaler().fit_transform(np.asarray(z, dtype=np.float64))
    width = min(width, *x.shape)
    return np.asarray(PCA(width, svd_solver="full").fit_transform(x))


def silhouette(z: Array, labels: Array) -> float:
    """The silhouette coefficient in percent."""
    return 100 * float(silhouette_score(z, labels))


def recovery(z: Array, labels: Array, seed: int) -> dict[str, float]:
    """GraphWave's protocol: standardise, five principal components, k-means with the true number of roles."""
    x = flat(z, 5)
    with warnings.catch_warnings():  # there may be fewer distinct vectors than roles
        warnings.simplefilter("ignore", ConvergenceWarning)
        clusters = KMeans(len(np.unique(labels)), n_init=10, random_state=seed).fit_predict(x)
    homogeneity, completeness, v = homogeneity_completeness_v_measure(labels, clusters)
    return {
        "v_measure": 100 * float(v),
        "homogeneity": 100 * float(homogeneity),
        "completeness": 100 * float(completeness),
        "ari": 100 * float(adjusted_rand_score(labels, clusters)),
        "silhouette": silhouette(x, labels),
    }


def spread_of_equals(z: Array, classes: Array) -> float:
    """Largest distance between nodes of one class, in percent of the mean distance between any two nodes."""
    x = np.asarray(z, dtype=np.float64)
    distance = np.sqrt(np.maximum(((x[:, None] - x[None]) ** 2).sum(-1), 0))
    others = ~np.eye(len(x), dtype=bool)
    equal = (classes[:, None] == classes[None]) & others
    return 100 * float(distance[equal].max() / distance[others].mean())
