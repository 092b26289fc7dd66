"""Scores of vectors, from any method, by simple readers."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import (
    adjusted_rand_score,
    f1_score,
    homogeneity_completeness_v_measure,
    silhouette_score,
    v_measure_score,
)
from sklearn.model_selection import ShuffleSplit, StratifiedKFold, StratifiedShuffleSplit
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.svm import SVC

from rae.datasets import Split
from rae.evaluation.table_spec import Effort
from rae.runtime import torch_alone

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


# ----------------------------------------------------------------- a reader with C and scaling chosen by validation

CS = tuple(10.0**k for k in range(-3, 4))
SCALINGS = ("rows of length one", "columns standardised")
FOLDS = 5  # of the training rows, where no rows are given for the choice
ONE_FOLD_FROM = 5000  # training rows: one fold of so many is as sure as five of few
MOST_STEPS = 200  # of the solver: a larger C of the grid may not converge, and then it is not chosen for that


def grid(effort: Effort) -> tuple[float, ...]:
    """The values of C to choose from: one for a trial."""
    return CS if effort.steps is None else (1.0,)


@dataclass(frozen=True)
class Reading:
    """What a tuned reader says of the test rows."""

    accuracy: float  # in percent
    right: Array  # (t,) whether each test row is right
    validation: float  # accuracy on the rows of the choice, in percent
    scaling: str
    C: float

    def also(self) -> dict[str, Any]:
        """The fields of a line besides the accuracy."""
        return {"validation": round(self.validation, 3), "scaling": self.scaling, "C": self.C}


def tuned(z: Any, labels: Array, split: Split, cs: tuple[float, ...] = CS) -> Reading:
    """Softmax regression on the training rows, with the scaling and C that do best on the validation rows."""
    best = _best_choice(z, labels, [(split.train, split.val)], cs)
    return _read(z[split.train], labels[split.train], z[split.test], labels[split.test], best)


def tuned_within(z: Any, labels: Array, train: Array, test: Array, seed: int, cs: tuple[float, ...] = CS) -> Reading:
    """The same, with scaling and C chosen by folds of the training rows, drawn by this seed."""
    return tuned_elsewhere(z[train], labels[train], z[test], labels[test], seed, cs)


def tuned_elsewhere(
    z: Any, labels: Array, other: Any, other_labels: Array, seed: int, cs: tuple[float, ...] = CS
) -> Reading:
    """What a reader of these rows, scaling and C chosen by folds of them, says of other rows."""
    best = _best_choice(z, labels, inner_folds(labels, seed, ONE_FOLD_FROM), cs)
    return _read(z, labels, other, other_labels, best)


def folds_of(labels: Array, seed: int, count: int = FOLDS) -> list[tuple[Array, Array]]:
    """Training and test rows of so many stratified folds, drawn by this seed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a class may have fewer rows than there are folds
        return list(StratifiedKFold(count, shuffle=True, random_state=seed).split(labels, labels))


def inner_folds(labels: Array, seed: int, one_from: int) -> list[tuple[Array, Array]]:
    """Folds of training rows for a choice: five, or one where there are more rows than `one_from`."""
    return folds_of(labels, seed)[: 1 if len(labels) > one_from else None]


def fifth(labels: Array, seed: int) -> tuple[Array, Array]:
    """Rows for training and a fifth for the test, of the rows that have a label; stratified where classes allow it."""
    rows = np.flatnonzero(labels >= 0)
    splitter = ShuffleSplit if np.unique(labels[rows], return_counts=True)[1].min() < 2 else StratifiedShuffleSplit
    train, test = next(splitter(1, test_size=0.2, random_state=seed).split(rows, labels[rows]))
    return rows[train], rows[test]


def descended(z: Any, labels: Array, split: Split, rate: float, decay: float, steps: int, seed: int) -> float:
    """Percent of the test rows right, by the reader of several papers, where validation rows know it best.

    A linear layer of the vectors as they come, all training rows in a step of Adam, weights decayed.
    """
    rows = [torch.from_numpy(np.asarray(part, np.int64)) for part in (split.train, split.val, split.test)]
    x, classes = torch.from_numpy(np.asarray(z, np.float32)), torch.from_numpy(np.asarray(labels, np.int64))
    best = -1.0, 0.0
    with torch_alone(), torch.random.fork_rng([]):
        torch.manual_seed(seed)
        layer = torch.nn.Linear(x.shape[1], int(classes.max()) + 1)
        optimizer = torch.optim.Adam(layer.parameters(), rate, weight_decay=decay)
        for _ in range(int(steps)):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(layer(x[rows[0]]), classes[rows[0]]).backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            with torch.no_grad():
                check, test = (float((layer(x[r]).argmax(1) == classes[r]).float().mean()) for r in rows[1:])
            best = max(best, (check, test), key=lambda pair: pair[0])
    return 100 * best[1]


def _best_choice(
    z: Any, labels: Array, parts: list[tuple[Array, Array]], cs: tuple[float, ...]
) -> tuple[float, str, float]:
    """Validation accuracy, scaling and C of the best choice, the smallest C among equals.

    C grows, each reader begins where the one before ended, and ends where two values in a row did worse than the best.
    """
    best = -1.0, SCALINGS[0], cs[0]
    for scaling in SCALINGS:
        data = [(*_coordinates(z[train], z[check], scaling), labels[train], labels[check]) for train, check in parts]
        readers = [LogisticRegression(max_iter=MOST_STEPS, warm_start=True) for _ in parts]
        highest, worse = -1.0, 0
        for C in cs:
            scores = [
                _fit(reader.set_params(C=C), fitted, fit_labels).score(other, other_labels)
                for reader, (fitted, other, fit_labels, other_labels) in zip(readers, data, strict=True)
            ]
            score = 100 * float(np.mean(scores))
            highest, worse = max(highest, score), worse + 1 if score < highest else 0
            best = max(best, (score, scaling, C), key=lambda choice: choice[0])
            if worse == 2:
                break
    return best


def _read(z: Any, labels: Array, other: Any, other_labels: Array, choice: tuple[float, str, float]) -> Reading:
    validation, scaling, C = choice
    fitted, others = _coordinates(z, other, scaling)
    reader = _fit(LogisticRegression(C=C, max_iter=MOST_STEPS), fitted, labels)
    right = np.asarray(reader.predict(others) == other_labels)
    return Reading(100 * float(right.mean()), right, validation, scaling, C)


def _fit(reader: Any, z: Any, labels: Array) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return reader.fit(z, labels)


def _coordinates(fitted: Any, other: Any, scaling: str) -> tuple[Any, Any]:
    """Training rows and others, scaled alike (sparse ones are not centred), in at most as many columns as rows.

    An L2-penalised reader sees nothing but inner products with the training rows, so it reads the same from their
    coordinates in the space that these span.
    """
    if scaling == SCALINGS[0]:
        fitted, other = normalize(fitted), normalize(other)
    else:
        scaler = StandardScaler(with_mean=not sp.issparse(fitted)).fit(fitted)
        fitted, other = scaler.transform(fitted), scaler.transform(other)
    if fitted.shape[0] >= fitted.shape[1]:
        return fitted, other
    fitted, other = _dense(fitted), _dense(other)
    products, others = fitted @ fitted.T, other @ fitted.T
    values, vectors = np.linalg.eigh(products)
    positive = values > 1e-9 * max(values[-1], 1e-9)
    vectors = vectors[:, positive] / np.sqrt(values[positive])
    return products @ vectors, others @ vectors


def _dense(x: Any) -> Array:
    return np.asarray(x.toarray() if hasattr(x, "toarray") else x, np.float64)


def packed(right: Array) -> str:
    """Right or wrong of every test row as hexadecimal text, for a line of the ledger."""
    return np.packbits(right).tobytes().hex()


def unpacked(text: str) -> Array:
    """What `packed` had, up to seven zeros at the end."""
    return np.unpackbits(np.frombuffer(bytes.fromhex(text), np.uint8))


# ------------------------------------------------------------------------------------------- other protocols


def rone(z: Any, labels: Array, seed: int) -> tuple[float, float]:
    """Micro and macro F1 in percent by RONE's protocol: 70/30 shuffled, unscaled, balanced, one against the rest."""
    rows = np.flatnonzero(labels >= 0)
    train, test = (rows[part] for part in next(ShuffleSplit(1, test_size=0.3, random_state=seed).split(rows)))
    reader = OneVsRestClassifier(LogisticRegression(solver="liblinear", class_weight="balanced", random_state=0))
    predicted = _fit(reader, z[train], labels[train]).predict(z[test])
    micro, macro = (f1_score(labels[test], predicted, average=average) for average in ("micro", "macro"))
    return 100 * float(micro), 100 * float(macro)


def clusters(z: Any, labels: Array, seed: int) -> dict[str, float]:
    """Agreement in percent of k-means with the labels, given their number: vectors as they come, and standardised."""
    rows = np.flatnonzero(labels >= 0)
    x = np.asarray(z, np.float64)
    scores = {}
    for name, vectors in (("", x), ("_standardised", StandardScaler().fit_transform(x))):
        groups = _k_means(vectors, len(np.unique(labels[rows])), seed)[rows]
        scores[f"v_measure{name}"] = 100 * float(v_measure_score(labels[rows], groups))
        scores[f"ari{name}"] = 100 * float(adjusted_rand_score(labels[rows], groups))
    return scores


def _k_means(x: Array, k: int, seed: int) -> Array:
    with warnings.catch_warnings():  # there may be fewer distinct vectors than roles
        warnings.simplefilter("ignore", ConvergenceWarning)
        return np.asarray(KMeans(k, n_init=10, random_state=seed).fit_predict(x))


def hubs_near_hubs(z: Any, degrees: Array, hubs: int = 20, near: int = 10) -> float:
    """The median degree of the nodes nearest to the largest hubs, in percent of the smallest of these hubs' degrees."""
    x = np.asarray(z, np.float64)
    largest = np.argsort(-degrees, kind="stable")[:hubs]
    around = []
    for hub in largest:
        distance = ((x - x[hub]) ** 2).sum(1)
        distance[hub] = np.inf
        around.append(degrees[np.argsort(distance, kind="stable")[:near]])
    return 100 * float(np.median(np.concatenate(around))) / float(degrees[largest[-1]])


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
    for train, test in folds_of(labels, seed, 10):
        # Newton's method: the quickest solver for some hundred columns.
        reader = LogisticRegression(solver="newton-cholesky")
        probe = make_pipeline(StandardScaler(), reader if two else OneVsRestClassifier(reader))
        probe.fit(z[train], labels[train])
        accuracies.append(float(probe.score(z[test], labels[test])))
        if two:
            cut_accuracies.append(best_cut(probe.predict_proba(z[test])[:, 1], labels[test] == probe.classes_[1]))
    return Folds(100 * float(np.mean(accuracies)), 100 * float(np.mean(cut_accuracies)) if two else None)


SVM_READER = "SVM of inner products, C and scaling by folds"
INNER_FOLDS_UNTIL = 500  # training graphs: with more, one inner fold is as sure as five of few
SVM_STEPS = 100_000  # most of one fit, since a large C may take very long


def svm_folds(z: Any, labels: Array, seed: int, cs: tuple[float, ...] = CS) -> Array:
    """Percent right on each of ten folds, by an SVM that sees inner products alone.  -> (10,)

    C and scaling (rows of length one, or columns standardised; sparse rows, which are counts of a kernel, of length one
    only) are chosen by folds of the training graphs, the smallest C among equals. A trial, which has one C, reads one
    fold.
    """
    scores = []
    for train, test in folds_of(labels, seed, 10)[: 10 if len(cs) > 1 else 1]:
        products = [_products(z, train, scaling) for scaling in (SCALINGS[:1] if sp.issparse(z) else SCALINGS)]
        inner = inner_folds(labels[train], seed, INNER_FOLDS_UNTIL)
        choices = [(C, k) for C in cs for k in products]
        best = choices[0]
        if len(choices) > 1:
            reached = [np.mean([_svm_score(k, labels, train[a], train[b], C) for a, b in inner]) for C, k in choices]
            best = choices[int(np.argmax(reached))]
        scores.append(100 * _svm_score(best[1], labels, train, test, best[0]))
    return np.array(scores)


def _products(z: Any, train: Array, scaling: str) -> Array:
    """Inner products of all rows, scaled by the training rows so that theirs with themselves have the mean 1."""
    x = z.astype(np.float64)
    x = normalize(x) if scaling == SCALINGS[0] else StandardScaler().fit(x[train]).transform(x)
    dense = _dense(x @ x.T)
    return dense / max(float(np.diagonal(dense)[train].mean()), 1e-12)


def _svm_score(products: Array, labels: Array, train: Array, test: Array, C: float) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        reader = SVC(C=C, kernel="precomputed", max_iter=SVM_STEPS, random_state=0)
        reader.fit(products[np.ix_(train, train)], labels[train])
    return float(reader.score(products[np.ix_(test, train)], labels[test]))


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
    groups = _k_means(x, len(np.unique(labels)), seed)
    homogeneity, completeness, v = homogeneity_completeness_v_measure(labels, groups)
    return {
        "v_measure": 100 * float(v),
        "homogeneity": 100 * float(homogeneity),
        "completeness": 100 * float(completeness),
        "ari": 100 * float(adjusted_rand_score(labels, groups)),
        "silhouette": silhouette(x, labels),
    }


def spread_of_equals(z: Array, classes: Array) -> float:
    """Largest distance between nodes of one class, in percent of the mean distance between any two nodes."""
    x = np.asarray(z, dtype=np.float64)
    distance = np.sqrt(np.maximum(((x[:, None] - x[None]) ** 2).sum(-1), 0))
    others = ~np.eye(len(x), dtype=bool)
    equal = (classes[:, None] == classes[None]) & others
    return 100 * float(distance[equal].max() / distance[others].mean())
