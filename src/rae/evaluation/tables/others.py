"""Other methods by name: a table lists names of rae.baselines, and this makes their rows and works.

A method whose paper has settings by data set gets two rows: those settings, and one setting for all. A row that is
given labels says so in its name.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from rae.baselines import find
from rae.baselines.registry import Method, settings_of
from rae.datasets import Dataset, GraphCollection, Split
from rae.evaluation import data, probes
from rae.evaluation.table_spec import Effort, Row, Score, Scores, Work

TUNED = "softmax, C and scaling by validation nodes"
OWN = "none: it gives classes itself"
Array = np.ndarray[Any, Any]


def title(name: str, one_setting: bool = False) -> str:
    """The name of a row: the method, whether it sees labels, whether its settings are those of every data set."""
    labels = " (with labels)" if find(name).sees_labels else ""
    return name + labels + (", one setting for all" if one_setting else "")


def works(
    names: Sequence[str], datasets: tuple[str, ...], runs: int, *, unasked: int | None = None, ledger_table: str = ""
) -> tuple[Work, ...]:
    """A work per method and setting. Where both settings of a method are the same, one computation fills both rows.

    Methods of whole graphs are scored by ten folds, which the seed draws.
    """
    all_works = []
    for method in map(find, names):
        by_dataset = {d: dict(method.by_dataset.get(d, {})) for d in datasets}
        own, common = row_of(method, any(by_dataset.values())), row_of(method, one_setting=True)
        if not any(by_dataset.values()):
            all_works.append(_work((own,), method, {}, datasets, runs, unasked, ledger_table))
            continue
        for dataset, changes in by_dataset.items():
            differs = any(settings_of_method(method)[name] != value for name, value in changes.items())
            if differs:
                all_works.append(_work((own,), method, {dataset: changes}, (dataset,), runs, unasked, ledger_table))
                all_works.append(_work((common,), method, {}, (dataset,), runs, unasked, ledger_table))
            else:
                all_works.append(_work((own, common), method, {}, (dataset,), runs, unasked, ledger_table))
    return tuple(all_works)


def _work(
    rows: tuple[Row, ...],
    method: Method,
    changes: Mapping[str, Mapping[str, Any]],
    datasets: tuple[str, ...],
    runs: int,
    unasked: int | None,
    ledger_table: str,
) -> Work:
    runs = 1 if method.deterministic and method.of == "nodes" else runs
    return Work(rows, partial(_scores, rows, method, changes), datasets, runs, changes, unasked, ledger_table)


def settings_of_method(method: Method) -> dict[str, Any]:
    """The settings of a method as a line of the ledger has them: what JSON has no word for is a list."""
    settings = settings_of(method.factory())
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def row_of(method: Method, by_dataset: bool = False, one_setting: bool = False) -> Row:
    """The row of a method, with the reader that it gets."""
    reader = OWN if method.sees_labels else TUNED if method.of == "nodes" else probes.SVM_READER
    settings = {"reader": reader, "method": method.name, **settings_of_method(method)}
    note = method.paper + ("; settings by data set" if by_dataset else "")
    return Row(title(method.name, one_setting), "other", settings, note)


def _scores(
    rows: tuple[Row, ...],
    method: Method,
    changes: Mapping[str, Mapping[str, Any]],
    dataset: str,
    seed: int,
    effort: Effort,
) -> Scores:
    """One run of a method, which is the score of all these rows."""
    model, pages = configured(method, changes.get(dataset, {}), seed, effort), data.get(dataset)
    score = (scored if method.of == "nodes" else scored_by_folds)(model, method, pages, seed, effort)
    return {row.name: score for row in rows}


def configured(method: Method, settings: Mapping[str, Any], seed: int, effort: Effort) -> Any:
    """The method with these settings, seed and device, shortened for a trial."""
    run = {name: value for name, value in (("seed", seed), ("device", effort.device)) if name in method.fields}
    return method.make(**{**settings, **trial(method, effort), **run})


def trial(method: Method, effort: Effort) -> dict[str, Any]:
    """Settings that shorten a fit for a trial: few steps, one pass, one short walk a node, few samples."""
    if effort.steps is None:
        return {}
    counts = ("steps", "class_steps", "samples", "near")
    short = {**dict.fromkeys(counts, effort.steps), "passes": 1, "walks": 1, "length": 5 * effort.steps}
    return {name: value for name, value in short.items() if name in method.fields}


def scored(model: Any, method: Method, pages: Dataset, seed: int, effort: Effort) -> Score:
    """Accuracy on the test nodes, with the seconds of fit and of vectors or predictions, and the device."""
    place = _place(method, effort)
    watch = Stopwatch(place["device"])
    if method.sees_labels:
        split = split_of(pages, seed)
        labels = hidden(pages, split)  # those of the test nodes are not even there
        model.fit(pages.graph, pages.features, labels, split.train, split.val)
        watch.note_fitted()
        right = model.predict(pages.graph, pages.features)[split.test] == np.asarray(pages.labels)[split.test]
        also = {} if pages.splits or pages.split is None else {"right": probes.packed(right)}
        return Score(100 * float(right.mean()), {**also, **place, **watch.spent()})
    if hasattr(model, "transform"):
        model.fit(pages.graph, pages.features)
        watch.note_fitted()
        z = model.transform(pages.graph, pages.features)
    else:
        z = model.fit_transform(pages.graph, pages.features)
        watch.note_fitted()
    spent = watch.spent()
    score = read(z, pages, seed, effort)
    more = {}
    if pages.split is not None:
        labels = np.asarray(pages.labels)
        more["C = 1"] = probes.node_accuracy(z, labels, pages.split)
        if reader := method.own_reader.get(pages.name):
            more["own_reader"] = probes.descended(z, labels, pages.split, **reader, seed=seed)
    return Score(score.score, {**score.also, **more, **place, **spent})


def scored_by_folds(model: Any, method: Method, graphs: GraphCollection, seed: int, effort: Effort) -> Score:
    """Accuracy over ten folds, with its spread, the seconds of fit and of reading or predictions, and the device.

    Vectors are made of all graphs, without labels, and read with C and scaling chosen inside of each fold. A classifier
    is created again for each fold, and does not get the labels of its test graphs.
    """
    place = _place(method, effort)
    watch = Stopwatch(place["device"])
    if not method.sees_labels:
        z = model.fit_transform(graphs.graphs, graphs.features)
        watch.note_fitted()
        folds = probes.svm_folds(z, graphs.labels, seed, probes.grid(effort))
        return Score(float(folds.mean()), {"sd_of_folds": round(float(folds.std()), 3), **place, **watch.spent()})
    right, fit_seconds = [], 0.0
    for train, test in probes.folds_of(graphs.labels, seed, 10)[: 10 if effort.steps is None else 1]:
        of_fold = Stopwatch(place["device"])
        labels = np.full(len(graphs), -1)
        labels[train] = graphs.labels[train]
        fold = dataclasses.replace(model).fit(graphs.graphs, graphs.features, labels, train)
        fit_seconds += of_fold.seconds()
        asked = (
            [graphs.graphs[i] for i in test],
            None if graphs.features is None else [graphs.features[i] for i in test],
        )
        right.append(float((fold.predict(*asked) == graphs.labels[test]).mean()))
    spent = {"fit_seconds": round(fit_seconds, 3), "embed_seconds": round(watch.seconds() - fit_seconds, 3)}
    return Score(100 * float(np.mean(right)), {"sd_of_folds": round(100 * float(np.std(right)), 3), **place, **spent})


class Stopwatch:
    """Seconds of a fit and of what comes after: of this process where it computes itself, else those of the wall.

    Other programs stretch the latter.
    """

    def __init__(self, device: str) -> None:
        self._clock = time.process_time if device == "cpu" else time.perf_counter
        self._began = self._fitted = self._clock()

    def note_fitted(self) -> None:
        """The fit ends here."""
        self._fitted = self._clock()

    def seconds(self) -> float:
        """Seconds since it was started."""
        return round(self._clock() - self._began, 3)

    def spent(self) -> dict[str, float]:
        """The seconds of the fit, and those since."""
        return {
            "fit_seconds": round(self._fitted - self._began, 3),
            "embed_seconds": round(self._clock() - self._fitted, 3),
        }


def _place(method: Method, effort: Effort) -> dict[str, str]:
    """Where a method computes, as a line says it."""
    return {"device": device_name(effort.device) if "device" in method.fields else "cpu"}


def device_name(device: str) -> str:
    """The device in words: `cpu`, or a GPU's name."""
    import torch

    place = torch.device(device)
    return device if place.type != "cuda" else f"{device}: {torch.cuda.get_device_name(place)}"


def split_of(pages: Dataset, seed: int) -> Split:
    """The public split, the seed's public split, or a fifth for the test and a fifth of the rest for validation."""
    if pages.splits:
        return pages.splits[seed % len(pages.splits)]
    if pages.split is not None:
        return pages.split
    labels = np.asarray(pages.labels)
    rest, test = probes.fifth(labels, seed)
    known_labels = np.full(len(labels), -1)
    known_labels[rest] = labels[rest]
    train, validation = probes.fifth(known_labels, seed)
    return Split(train, validation, test)


def hidden(pages: Dataset, split: Split) -> Array:
    """The labels of training and validation nodes, -1 for all others."""
    labels = np.full(pages.graph.n_nodes, -1)
    for rows in (split.train, split.val):
        labels[rows] = np.asarray(pages.labels)[rows]
    return labels


def read(z: Any, pages: Dataset, seed: int, effort: Effort) -> Score:
    """The accuracy on the test nodes: of the public split, of the seed's public split, or a fifth drawn by the seed."""
    assert pages.labels is not None
    cs = probes.grid(effort)
    if pages.splits:
        reading = probes.tuned(z, pages.labels, pages.splits[seed % len(pages.splits)], cs)
        return Score(reading.accuracy, reading.also())
    if pages.split is not None:
        reading = probes.tuned(z, pages.labels, pages.split, cs)
        return Score(reading.accuracy, {**reading.also(), "right": probes.packed(reading.right)})
    reading = probes.tuned_within(z, pages.labels, *probes.fifth(pages.labels, seed), seed, cs)
    return Score(reading.accuracy, reading.also())
