"""Measurements of speed and memory: how lines are compared with each other, and the columns that show it.

A line has the best and the worst of its rounds (`best_s`, `best_ms` or `best_m_edges_s`), and may have a peak of
memory. Rows of ours begin with "ours" or "rae"; a row that begins with "limit" is a bound, not an alternative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from rae.evaluation import report
from rae.evaluation.ledger import Ledger, Line
from rae.evaluation.report import Column, number

UNITS = {"ms": "ms", "s": "s", "m_edges_s": "M edges/s"}
VARIANTS = ("within", "neighbor", "locality")  # words in the name of a row that its counterpart has too
NOTABLY_LESS = 0.995  # memory below this share of ours counts as less


def spread(seconds: Sequence[float], unit: str = "s", digits: int = 2) -> Line:
    """Best and worst of several rounds as fields of a line.

    >>> spread([0.25, 0.5], "ms")
    {'best_ms': 250.0, 'worst_ms': 500.0, 'rounds': 2}
    """
    scale = {"s": 1, "ms": 1e3}[unit]
    best, worst = (round(scale * value, digits) for value in (min(seconds), max(seconds)))
    return {f"best_{unit}": best, f"worst_{unit}": worst, "rounds": len(seconds)}


def unit(line: Line) -> str | None:
    """The unit of a line's main number, None where a row did not finish."""
    return next((key for key in UNITS if f"best_{key}" in line), None)


def is_ours(line: Line) -> bool:
    """Whether a line measures RAE."""
    return str(line["row"]).lower().startswith(("ours", "rae"))


def is_alternative(line: Line) -> bool:
    """Whether a line measures another way to the same result."""
    return not is_ours(line) and not str(line["row"]).startswith("limit")


def peak_gib(line: Line) -> float | None:
    """Peak resident memory in GiB."""
    return line["peak_mb"] * 1e6 / 2**30 if "peak_mb" in line else line.get("peak_gib")


def times_as_fast(ours: Line, line: Line) -> float | None:
    """How many times as fast as a line ours is, None where one of them has no time."""
    key = unit(line)
    if key is None or f"best_{key}" not in ours:
        return None
    our_best, best = ours[f"best_{key}"], line[f"best_{key}"]
    if not our_best or not best:
        return None
    return float(our_best / best if key == "m_edges_s" else best / our_best)


def threads(line: Line) -> int | None:
    """The number of threads of a line."""
    count: int | None = line["settings"].get("threads")
    return count


def counterpart(line: Line, group: Sequence[Line]) -> Line | None:
    """The row of ours that does what this row does: same loss and order of rows, else the first one."""
    ours = [x for x in group if is_ours(x) and unit(x)]
    ours = [x for x in ours if threads(x) == threads(line)] or ours
    return next(iter([x for x in ours if same_variant(line, x)] or ours), None)


def same_variant(line: Line, ours: Line) -> bool:
    """Whether this row of ours has the loss and the order of rows that the line names."""
    return all(word in ours["row"] for word in VARIANTS if word in line["row"])


@dataclass(frozen=True)
class Measurements:
    """The latest lines of several tables."""

    lines: list[Line]

    @classmethod
    def read(cls, ledger: Ledger, tables: Iterable[str]) -> Measurements:
        """The latest lines of these tables."""
        return cls([line for table in tables for line in ledger.latest(table)])

    def of(self, *tables: str) -> list[Line]:
        """The lines of these tables."""
        return [line for line in self.lines if line["table"] in tables]

    def one(self, table: str, dataset: str, row: str, **settings: Any) -> Line | None:
        """The line of this row with these settings among others, None without one."""
        for line in self.of(table):
            if (line["dataset"], line["row"]) == (dataset, row) and settings.items() <= line["settings"].items():
                return line
        return None

    def groups(self, *tables: str) -> list[list[Line]]:
        """Lines that are compared with each other: one table, data set, width and fan-out."""
        groups: dict[tuple[Any, ...], list[Line]] = {}
        for line in self.of(*tables):
            settings = line["settings"]
            key = (line["table"], line["dataset"], settings.get("width"), settings.get("fanout"))
            groups.setdefault(key, []).append(line)
        return list(groups.values())


# -------------------------------------------------------------------------------- the columns


def best_worst(line: Line, _: Any = None) -> str:
    """Best (worst) of a line's rounds with the unit, or why there is none."""
    key = unit(line)
    if key is None:
        return "did not finish" if line.get("rounds") else "not run"
    best, worst = line[f"best_{key}"], line.get(f"worst_{key}")
    digits = 1 if best >= 10 or key != "s" else 2 if best >= 1 else 3
    if line.get("rounds") == 1:
        return f"{best:,.{digits}f} {UNITS[key]}, once"
    return f"{best:,.{digits}f} ({worst:,.{digits}f}) {UNITS[key]}"


def _times_as_fast(line: Line, group: Sequence[Line]) -> str:
    ours = counterpart(line, group) if is_alternative(line) else None
    return "" if ours is None else number(times_as_fast(ours, line), "{:.2f}")


def value_column(title: str, key: str, text: str) -> Column:
    """A column of one number of a line."""
    return title, lambda line, _: number(line.get(key), text)


ROW: Column = ("", lambda line, _: f"**{line['row']}**" if is_ours(line) else line["row"])
THREADS: Column = ("threads", lambda line, _: str(threads(line) or ""))
TIME: Column = ("best (worst)", best_worst)
TIMES_AS_FAST: Column = ("ours is … times as fast", _times_as_fast)
PEAK: Column = ("peak", lambda line, _: number(peak_gib(line), "{:.2f} GiB"))


# ------------------------------------------------------------------------------- the sections


@dataclass(frozen=True)
class Section:
    """A section of a page: a table of lines for each group of these tables."""

    title: str
    command: str
    words: str
    tables: tuple[str, ...]
    columns: tuple[Column, ...]

    def text(self, measurements: Measurements) -> str:
        """The section as Markdown."""
        groups = measurements.groups(*self.tables)
        parts = [report.paragraph(f"`{self.command}`. {self.words}")]
        for group in groups:
            name = f"{group[0]['table']}: " if len(self.tables) > 1 else ""
            parts.append(f"**{name}{', '.join(_heading(group[0]))}**")
            parts.append(report.table(sorted(group, key=lambda x: threads(x) or 0), self.columns, group))
            parts.append(report.bullets(notes(group)))
        return report.section(self.title, *parts, "" if groups else "Not measured yet.")


def _heading(line: Line) -> Iterator[str]:
    yield str(line["dataset"])
    if "nodes" in line and "edges" in line:
        yield f"{line['nodes']:,} nodes, {line['edges']:,} edges without doubles"
    if "width" in line["settings"]:
        yield f"{line['settings']['width']} columns"
    if "fanout" in line["settings"]:
        yield f"{line['settings']['fanout']} neighbours sampled"


def notes(group: Sequence[Line]) -> list[str]:
    """What a row does differently or why it did not finish, each text once."""
    rows: dict[str, list[str]] = {}
    for line in group:
        if line.get("note"):
            same = all(x.get("note") == line["note"] for x in group if x["row"] == line["row"])
            rows.setdefault(line["note"], []).append(line["row"] if same else f"{line['row']}, {_threads(line)}")
    return [f"{'; '.join(dict.fromkeys(names))}: {text}." for text, names in rows.items()]


def _threads(line: Line) -> str:
    return f"{threads(line)} thread" + "s" * (threads(line) != 1)


def losses(measurements: Measurements, tables: Sequence[str]) -> Iterator[str]:
    """Every row in which an alternative is faster or holds less memory than ours.

    An alternative is compared with its counterpart; each further row of ours has one entry for all alternatives.
    """
    for group in measurements.groups(*tables):
        for line in group:
            ours = counterpart(line, group)
            if is_alternative(line) and ours is not None and unit(line) is not None:
                yield from _loss(ours, line, group)
        for line in group:
            if is_ours(line):
                yield from _loss_of_row(line, group)


def _loss(ours: Line, line: Line, group: Sequence[Line]) -> Iterator[str]:
    ratio, our_peak, peak = times_as_fast(ours, line), peak_gib(ours), peak_gib(line)
    if ratio is not None and ratio < 1:
        yield f"{_where(line)}: {line['row']} is {1 / ratio:.2f} times as fast as {ours['row']}."
    if our_peak is not None and peak is not None and peak < NOTABLY_LESS * our_peak:
        smaller = [x for x in group if is_ours(x) and unit(x) and (peak_gib(x) or our_peak) < peak]
        but = "".join(f" ({x['row']} {peak_gib(x):.2f} GiB)" for x in smaller)
        yield f"{_where(line)}: {line['row']} holds {peak:.2f} GiB, {ours['row']} {our_peak:.2f} GiB{but}."


def _loss_of_row(ours: Line, group: Sequence[Line]) -> Iterator[str]:
    """An entry for a row of ours that is nobody's counterpart, if alternatives are faster or smaller."""
    if unit(ours) is None:
        yield f"{_where(ours)}: {ours['row']} did not finish ({ours.get('note', 'no reason recorded')})."
        return
    alternatives = [x for x in group if is_alternative(x) and unit(x)]
    if any(counterpart(x, group) is ours for x in alternatives):
        return
    comparable = [x for x in alternatives if threads(x) == threads(ours) and same_variant(x, ours)]
    our_peak = peak_gib(ours)
    faster = [f"{x['row']} ({1 / r:.2f} times)" for x in comparable if (r := times_as_fast(ours, x)) and r < 1]
    smaller = [
        f"{x['row']} ({peak:.2f} GiB)"
        for x in comparable
        if our_peak and (peak := peak_gib(x)) and peak < NOTABLY_LESS * our_peak
    ]
    texts = [f"faster {'is' if len(faster) == 1 else 'are'} {_enumerate(faster)}"] if faster else []
    if smaller:
        texts.append(
            f"less than its {our_peak:.2f} GiB {'holds' if len(smaller) == 1 else 'hold'} {_enumerate(smaller)}"
        )
    if texts:
        written = ", which also writes Parquet" if "Parquet" in ours.get("note", "") else ""
        yield f"{_where(ours)}, {ours['row']}{written}: {'; '.join(texts)}."


def _enumerate(texts: Sequence[str]) -> str:
    return " and ".join([*filter(None, [", ".join(texts[:-1])]), texts[-1]])


def _where(line: Line) -> str:
    width = [f"{line['settings']['width']} columns"] if "width" in line["settings"] else []
    return ", ".join([line["table"], line["dataset"], *width, *([_threads(line)] if threads(line) else [])])


def machines(lines: Iterable[Line]) -> str:
    """Machines, load, dates and versions of the lines that record their load."""
    measured = [line for line in lines if "load" in line]
    if not measured:
        return report.section("Machine", "No line says where it was measured.")
    versions: dict[str, set[str]] = {}
    for line in measured:
        for name, value in line.get("versions", {}).items():
            versions.setdefault(name, set()).add(str(value))
    loads, dates = [line["load"] for line in measured], sorted({line["date"] for line in measured})
    listed = ", ".join(f"{name} {' and '.join(sorted(values))}" for name, values in sorted(versions.items()))
    text = (
        f"{'; '.join(dict.fromkeys(line['machine'] for line in measured))}. Load of the machine at the end of a "
        f"measurement: {min(loads):g} to {max(loads):g}. Runs begun {', '.join(dates)}. "
        f"Versions: {listed}."
    )
    return report.section("Machine", report.paragraph(text))
