"""docs/performance.md and its figure, made from the lines in results/ alone.

python benchmarks/report.py [--results results] [--docs docs]
"""

from __future__ import annotations

import argparse
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from growth import BOUNDED, BUILD, EMBED, TRAIN
from lines import RESULTS, Line, newest, read

from rae.evaluation import figures
from rae.storage.atomic import atomic_path, write_text

DOCS = Path(__file__).parent.parent / "docs"
FILES = ("speed", "embedding", "whole", "peers", "build", "growth", "large", "planned", "explore", "roles", "first")
GROUP = ("table", "dataset", "width", "fanout")  # rows that are compared with each other, for each number of threads
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "rae",
    "figure.constrained_layout.use": True,
}
TOLD = 0.25  # seconds: less cannot be told from the spread of starting a process
LARGEST = "power law, 100,000,000 edges"
ALIKE = ("within", "neighbor", "locality")  # words in the name of a row that a row compared with it has too


# ------------------------------------------------------------------------------- what a line says


@dataclass(frozen=True)
class Measure:
    """How a table's main number is called, shown and compared."""

    key: str
    unit: str
    more_is_better: bool = False

    def shown(self, line: Line) -> str:
        best, worst = line[f"best_{self.key}"], line[f"worst_{self.key}"]
        digits = 1 if best >= 10 or self.key != "s" else 2 if best >= 1 else 3
        if line.get("rounds") == 1:
            return f"{best:,.{digits}f} {self.unit}, once"
        return f"{best:,.{digits}f} ({worst:,.{digits}f}) {self.unit}"


MEASURES = (
    Measure("ms", "ms"),
    Measure("s", "s"),
    Measure("m_edges_s", "M edges/s", more_is_better=True),
)


def measure(line: Line) -> Measure | None:
    """What was measured, None where nothing came out."""
    return next((m for m in MEASURES if f"best_{m.key}" in line), None)


def is_ours(line: Line) -> bool:
    return str(line["row"]).lower().startswith(("ours", "rae"))


def is_limit(line: Line) -> bool:
    return str(line["row"]).startswith("limit")


def peak(line: Line) -> float | None:
    """Peak resident memory in GiB."""
    return line["peak_mb"] * 1e6 / 2**30 if "peak_mb" in line else line.get("peak_gib")


def times(line: Line, ours: Line) -> float | None:
    """How many times as fast as this line ours is."""
    m = measure(line)
    if m is None or f"best_{m.key}" not in ours:
        return None
    mine, theirs = ours[f"best_{m.key}"], line[f"best_{m.key}"]
    if not mine or not theirs:
        return None
    return mine / theirs if m.more_is_better else theirs / mine


def counterpart(line: Line, group: Sequence[Line]) -> Line | None:
    """The row of ours that does what this row does: same loss, same order of rows, else the first one."""
    ours = [x for x in group if is_ours(x) and x.get("threads") == line.get("threads") and measure(x)]
    ours = ours or [x for x in group if is_ours(x) and measure(x)]
    return next(iter([x for x in ours if alike(line, x)] or ours), None)


def alike(line: Line, ours: Line) -> bool:
    """Whether this row of ours has the loss and the order of rows that the line names."""
    return all(word in ours["row"] for word in ALIKE if word in line["row"])


# ------------------------------------------------------------------------------------- the lines


@dataclass(frozen=True)
class Kept:
    """All lines, the newest of each thing measured."""

    lines: list[Line]

    @classmethod
    def load(cls, folder: Path) -> Kept:
        return cls([{**x, "file": name} for name in FILES for x in newest(read(folder / f"{name}.jsonl"))])

    def of(self, *tables: str) -> list[Line]:
        return [x for x in self.lines if x.get("table") in tables and "row" in x]

    def one(self, table: str, dataset: str, row: str, **more: Any) -> Line | None:
        found = [x for x in self.of(table) if (x["dataset"], x["row"]) == (dataset, row)]
        return next((x for x in found if all(x.get(k) == v for k, v in more.items())), None)

    def groups(self, *tables: str) -> list[list[Line]]:
        """Lines that are compared with each other."""
        found: dict[tuple[Any, ...], list[Line]] = {}
        for line in self.of(*tables):
            found.setdefault(tuple(line.get(name) for name in GROUP), []).append(line)
        return list(found.values())


def with_bounded(kept: Kept) -> Kept:
    """The bounded way on the largest graph, which growth.py measures, as a row of the whole-graph table too."""
    line = kept.one("growth", LARGEST, EMBED)
    there = {x["dataset"] for x in kept.of("whole")}
    if line is None or LARGEST not in there or kept.one("whole", LARGEST, BOUNDED):
        return kept
    rate = round(2 * line["edges"] * 256 / line["best_s"])
    note = "from the growth table: a command of its own, vectors written to Parquet"
    return Kept([*kept.lines, {**line, "table": "whole", "row": BOUNDED, "edge_dims_per_s": rate, "note": note}])


# ------------------------------------------------------------------------------------- the tables

Column = tuple[str, Callable[[Line, Sequence[Line]], str]]


def wrapped(text: str, later: str = "") -> str:
    """Text in lines that fit the page's source."""
    return textwrap.fill(text, 120, subsequent_indent=later, break_long_words=False, break_on_hyphens=False)


def paragraph(text: str) -> tuple[str, str]:
    return wrapped(text), ""


def rows(group: Sequence[Line], columns: Sequence[Column]) -> Iterator[str]:
    yield "| " + " | ".join(title for title, _ in columns) + " |"
    yield "|" + "---|" * len(columns)
    for line in group:
        yield "| " + " | ".join(cell(line, group) for _, cell in columns) + " |"


def _number(value: float | None, text: str) -> str:
    return "" if value is None else text.format(value)


def _time(line: Line, group: Sequence[Line]) -> str:
    m = measure(line)
    if m is not None:
        return m.shown(line)
    return "did not finish" if line.get("rounds") else "not run"


def _faster(line: Line, group: Sequence[Line]) -> str:
    ours = counterpart(line, group)
    if is_ours(line) or is_limit(line) or ours is None:
        return ""
    return _number(times(line, ours), "{:.2f}")


ROW: Column = ("", lambda x, _: f"**{x['row']}**" if is_ours(x) else x["row"])
THREADS: Column = ("threads", lambda x, _: str(x.get("threads", "")))
TIME: Column = ("best (worst)", _time)
FASTER: Column = ("ours is … times as fast", _faster)
PEAK: Column = ("peak", lambda x, _: _number(peak(x), "{:.2f} GiB"))
RATE: Column = ("edges × dims / s", lambda x, _: _number(x.get("edge_dims_per_s"), "{:.3g}"))
BANDWIDTH: Column = ("rows read", lambda x, _: _number(x.get("gigabytes_per_s"), "{:.1f} GB/s"))
OF_LIMIT: Column = ("of the limit", lambda x, _: _number(x.get("of_limit"), "{:.0%}"))
TORCH: Column = ("times torch.sparse CSR", lambda x, _: _number(x.get("times_torch"), "{:.2f}"))


PLANNED: tuple[Column, ...] = (
    ("peak, planned", lambda x, _: _number(x.get("planned_gib"), "{:.2f} GiB")),
    ("real", lambda x, _: _number(peak(x), "{:.2f} GiB")),
    ("ratio", lambda x, _: _number(x.get("memory_ratio"), "{:.2f}")),
    ("time, planned", lambda x, _: _number(x.get("planned_s"), "{:.1f} s")),
    ("real", lambda x, _: _number(x.get("best_s"), "{:.1f} s")),
    ("ratio", lambda x, _: _number(x.get("time_ratio"), "{:.2f}")),
)


COMPILED: tuple[Column, ...] = (
    ("loops compiled", lambda x, _: str(x.get("compiled", ""))),
    ("seconds of that, at worst", lambda x, _: _number(x.get("compile_s"), "{:.1f}")),
)


def section(
    kept: Kept, title: str, command: str, words: str, tables: Sequence[str], columns: Sequence[Column]
) -> Iterator[str]:
    """A heading, the command, and a table for each graph (and width)."""
    yield from (f"## {title}", "", *paragraph(f"`{command}`. {words}"))
    groups = kept.groups(*tables)
    if not groups:
        yield from ("Not measured yet.", "")
    for group in groups:
        table = f"{group[0]['table']}: " if len(tables) > 1 else ""
        yield from (f"**{table}{', '.join(_heading(group[0]))}**", "")
        yield from rows(sorted(group, key=lambda x: x.get("threads") or 0), columns)
        yield ""
        yield from _notes(group)


def _heading(line: Line) -> Iterator[str]:
    yield str(line["dataset"])
    if "nodes" in line and "edges" in line:
        yield f"{line['nodes']:,} nodes, {line['edges']:,} edges without doubles"
    if "width" in line:
        yield f"{line['width']} columns"
    if "fanout" in line:
        yield f"{line['fanout']} neighbours sampled"


def _notes(group: Sequence[Line]) -> Iterator[str]:
    """What a row does differently or why it did not finish, each text once."""
    texts: dict[str, list[str]] = {}
    for line in group:
        if line.get("note"):
            same = all(x.get("note") == line["note"] for x in group if x["row"] == line["row"])
            who = line["row"] if same else ", ".join([line["row"], *_threads(line)])
            texts.setdefault(line["note"], []).append(who)
    for text, who in texts.items():
        yield wrapped(f"- {'; '.join(dict.fromkeys(who))}: {text}.", "  ")
    if texts:
        yield ""


# ----------------------------------------------------------------------------------------- growth


def growth(kept: Kept, figure: str | None) -> Iterator[str]:
    """Time and memory over size, with the ratio from one size to the next."""
    yield from ("## Growth", "")
    yield from paragraph(
        "`python benchmarks/growth.py`. Power-law graphs with a tenth as many nodes as edges drawn; doubled edges "
        "are merged, so edges grow by a little more than ten. Each part is a process of its own; timed is what comes "
        "after the imports and after the same on a graph of a hundred edges (`start` is a process with nothing but "
        "these), the peak is that of the process. Just before, another process touched as much memory as a build "
        "takes: a virtual machine may have to ask its host for it, which can take longer than the build. The dotted "
        "line is proportional to the edges."
    )
    found = kept.of("growth")
    for part in (BUILD, TRAIN, EMBED):
        lines = sorted((x for x in found if x["row"] == part), key=lambda x: x["drawn"])
        if not lines:
            continue
        budget = f", --memory {lines[-1]['memory']}" if "memory" in lines[-1] else ""
        yield from (f"**{part}{budget}, {lines[-1]['threads']} threads, start {lines[-1]['start_s']:.1f} s**", "")
        yield from ("| edges | best (worst) | times the edges | times the seconds | peak |", "|---|---|---|---|---|")
        for before, line in zip([None, *lines], lines, strict=False):
            edges, seconds = ("", "") if before is None else (_ratio(line, before, k) for k in ("edges", "best_s"))
            yield f"| {line['edges']:,} | {_time(line, ())} | {edges} | {seconds} | {line['peak_gib']:.2f} GiB |"
        yield ""
    if not found:
        yield from ("Not measured yet.", "")
    if figure:
        yield from (f"![Seconds and peak memory over edges, both logarithmic]({figure})", "")
    for line in kept.of("large"):
        same = "the same bytes as" if line["same_bytes"] else "OTHER BYTES than"
        yield from paragraph(
            f"Killed and continued (`python benchmarks/large.py`): `rae embed --memory {line['memory']}` on "
            f"{line['dataset']}, killed with -9 after {line['killed_after_s']:.0f} s, was whole {line['best_s']:.0f} s "
            f"after the command was given again, peak {line['peak_gib']:.2f} GiB, with {same} the uninterrupted run of "
            f"{line['uninterrupted_s']:.0f} s ({line['file_gb']:.1f} GB)."
        )


def _ratio(line: Line, before: Line, key: str) -> str:
    return "too short to tell" if key == "best_s" and before[key] < TOLD else f"{line[key] / before[key]:.1f}"


def draw(kept: Kept, folder: Path) -> str | None:
    """Write figures/growth.png and .svg; the path from the page, None without lines."""
    found = kept.of("growth")
    if not found:
        return None
    figures.need_library()
    import matplotlib.pyplot as plt

    (folder / "figures").mkdir(parents=True, exist_ok=True)
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(1, 2, figsize=(9, 3.8))
        for axis, key, title in zip(axes, ("best_s", "peak_gib"), ("seconds", "peak resident GiB"), strict=True):
            for number, part in enumerate((BUILD, TRAIN, EMBED)):
                lines = sorted((x for x in found if x["row"] == part and x[key] > 0), key=lambda x: x["edges"])
                style = {"color": figures.COLOURS[(0, 3, 6)[number]], "ls": figures.LINES[number]}
                xy = [x["edges"] for x in lines], [x[key] for x in lines]
                axis.plot(*xy, marker=figures.MARKS[number], label=part, ms=6, **style)
            axis.set(xscale="log", yscale="log", xlabel="edges", title=title)
            axis.yaxis.set_major_formatter("{x:g}")
            axis.yaxis.set_minor_formatter("")
            axis.grid(True, which="major", color="#dddddd", lw=0.6)
        _proportional(axes[0], found)
        axes[1].set(ylim=(0.2, 10), yticks=[0.25, 0.5, 1, 2, 4, 8])
        axes[0].legend(frameon=False, fontsize=9, loc="upper left")
        for kind in ("png", "svg"):
            with atomic_path(folder / "figures" / f"growth.{kind}") as hidden:
                metadata = {"Date": None} if kind == "svg" else {"Software": None}
                figure.savefig(hidden, format=kind, dpi=150, metadata=metadata)
        plt.close(figure)
    return "figures/growth.png"


def _proportional(axis: Any, found: Sequence[Line]) -> None:
    """A line of slope one through the last point of the longest part, to judge the others by."""
    last = max(found, key=lambda x: x["best_s"])
    first = min(found, key=lambda x: x["edges"])
    ends = [first["edges"], last["edges"]]
    axis.plot(ends, [last["best_s"] * e / last["edges"] for e in ends], color="#999999", lw=1, ls=(0, (1, 2)),
              label="proportional to edges", zorder=1)  # fmt: skip


# ------------------------------------------------------------------------------ aims and losses


@dataclass(frozen=True)
class Aim:
    """Something that was aimed at, what was measured, and whether that is enough."""

    what: str
    aim: str
    value: float | None
    shown: str
    met: bool


def aims(kept: Kept) -> Iterator[Aim]:
    for dataset, most in (("cora", 25), ("pubmed", 50)):
        line = kept.one("speed", dataset, "ours, within", threads=1)
        yield _at_most(f"training step, {dataset.title()}, one thread", most, line, "best_ms", "ms")
    for dataset, least in (("ca-AstroPh", 100), ("web-Google", 50)):
        lines = [x for x in kept.of("sampler") if is_ours(x) and x["dataset"] == dataset and x.get("threads") == 1]
        best = max(lines, key=lambda x: x["best_m_edges_s"], default=None)
        yield _at_least(f"sampler, {dataset}, one thread", least, best, "best_m_edges_s", "{:.0f} M edges/s")
    for width in (64, 192):
        line = kept.one("mean", "web-Google", "ours", threads=1, width=width)
        near = kept.one("mean", "web-Google", "ours, locality order", threads=1, width=width)
        what = f"mean over neighbourhoods, web-Google, {width} columns, one thread"
        yield _at_least(f"{what}: of the gather limit", 0.8, line, "of_limit", "{:.0%}")
        yield _at_least(f"{what}: times torch.sparse CSR", 2.5, line, "times_torch", "{:.2f}")
        yield _at_least(f"{what}: of the limit in locality order", 1.0, near, "of_limit", "{:.0%}")
    for line in [x for x in kept.of(*_peer_tables(kept)) if is_ours(x) and x["dataset"] == "web-Google"] or [None]:
        what = f"web-Google, gzipped text to 256 columns in Parquet, `{'rae fit' if line is None else line['row']}`"
        yield _at_most(what, 18, line, "best_s", "s")
        held = None if line is None or peak(line) is None else {"peak_gb": peak(line) * 2**30 / 1e9}
        yield _at_most("the same, peak memory", 1.5, held, "peak_gb", "GB")
    for what, part, most in (("graph folder built", BUILD, 120), ("embedded at 256 columns and written", EMBED, 240)):
        line = _net(kept, part)
        yield _at_most(f"100 M edges, {what}, with the start of the process", most, line, "whole_s", "s")
    held = [x["peak_gib"] for x in kept.of("growth") if x["dataset"] == LARGEST]
    yield _at_most("100 M edges, peak memory of any part", 6, {"peak": max(held)} if held else None, "peak", "GiB")
    best, worst = (_steepest(kept, key) for key in ("best_s", "worst_s"))
    what = "growth: seconds for ten times the edges, best by best, the steepest of all parts"
    aim = _at_most(what, 11, {"steepest": best}, "steepest", "times")
    yield aim if worst is None else replace(aim, shown=f"{aim.shown} (worst by worst {worst:.1f})")
    for turn, most in (("first", 2), ("second", 0)):
        fits = [x for x in kept.of("first") if x["row"].endswith(f", {turn}") and "fit" in x["row"]]
        slowest = max(fits, key=lambda x: x["compile_s"], default=None)
        aim = _at_most(f"{turn} fit after `pip install .`: compiling", most, slowest, "compile_s", "s")
        yield aim if most else replace(aim, aim="none")


def _net(kept: Kept, part: str) -> Line | None:
    """The line of a part on the largest graph, with the start of the process."""
    line = kept.one("growth", LARGEST, part)
    return None if line is None else {"whole_s": line["best_s"] + line["start_s"]}


def _steepest(kept: Kept, key: str) -> float | None:
    """How many times the seconds the next size takes, the most of all parts; None where nothing can be told."""
    return max((x for part in (BUILD, TRAIN, EMBED) for x in _steps(kept, part, key)), default=None)


def _steps(kept: Kept, part: str, key: str) -> Iterator[float]:
    lines = sorted((x for x in kept.of("growth") if x["row"] == part), key=lambda x: x["drawn"])
    for before, line in pairwise(lines):
        if before["best_s"] >= TOLD:
            yield line[key] / before[key]


def _at_most(what: str, most: float, line: Line | None, key: str, unit: str) -> Aim:
    value = None if line is None else line.get(key)
    shown = "not measured" if value is None else f"{value:,.1f} {unit}"
    return Aim(what, f"{most:g} {unit} or less", value, shown, value is not None and value <= most)


def _at_least(what: str, least: float, line: Line | None, key: str, text: str) -> Aim:
    value = None if line is None else line.get(key)
    shown = "not measured" if value is None else text.format(value)
    return Aim(what, f"{text.format(least)} or more", value, shown, value is not None and value >= least)


def _glance(kept: Kept) -> Iterator[str]:
    yield from ("## At a glance", "", "| what | aim | measured | |", "|---|---|---|---|")
    for aim in aims(kept):
        verdict = "" if aim.value is None else "met" if aim.met else "**missed**"
        yield f"| {aim.what} | {aim.aim} | {aim.shown} | {verdict} |"
    yield ""


def losses(kept: Kept, tables: Sequence[str]) -> Iterator[str]:
    """Every row in which an alternative is faster or smaller than ours, in words.

    An alternative is compared with its counterpart; each further row of ours has one line for all alternatives.
    """
    for group in kept.groups(*tables):
        for line in group:
            ours = counterpart(line, group)
            if is_ours(line) or is_limit(line) or ours is None or measure(line) is None:
                continue
            where = ", ".join([*_place(line)])
            ratio, mine, theirs = times(line, ours), peak(ours), peak(line)
            if ratio is not None and ratio < 1:
                yield f"- {where}: {line['row']} is {1 / ratio:.2f} times as fast as {ours['row']}."
            if mine is not None and theirs is not None and theirs < 0.995 * mine:
                less = [x for x in group if is_ours(x) and measure(x) and (peak(x) or mine) < theirs]
                but = "".join(f" ({x['row']} {peak(x):.2f} GiB)" for x in less)
                yield f"- {where}: {line['row']} holds {theirs:.2f} GiB, {ours['row']} {mine:.2f} GiB{but}."
        for line in group:
            if is_ours(line) and measure(line) is not None:
                yield from _further(line, group)
            if is_ours(line) and measure(line) is None:
                why = line.get("note", "no reason kept")
                yield f"- {', '.join(_place(line))}: {line['row']} did not finish ({why})."


def _further(ours: Line, group: Sequence[Line]) -> Iterator[str]:
    """A line for a row of ours that is nobody's counterpart, if alternatives are faster or smaller."""
    alternatives = [x for x in group if not is_ours(x) and not is_limit(x) and measure(x)]
    if any(counterpart(x, group) is ours for x in alternatives):
        return
    against = [x for x in alternatives if x.get("threads") == ours.get("threads") and alike(x, ours)]
    ratios, held = {x["row"]: times(x, ours) for x in against}, {x["row"]: peak(x) for x in against}
    mine, said = peak(ours), []
    faster = [f"{row} ({1 / ratio:.2f} times)" for row, ratio in ratios.items() if ratio and ratio < 1]
    smaller = [f"{row} ({gib:.2f} GiB)" for row, gib in held.items() if mine and gib and gib < 0.995 * mine]
    if faster:
        said.append(f"faster {_verb(faster, 'is', 'are')} {_listed(faster)}")
    if smaller:
        said.append(f"less than its {mine:.2f} GiB {_verb(smaller, 'holds', 'hold')} {_listed(smaller)}")
    more = ", which also writes Parquet" if "Parquet" in ours.get("note", "") else ""
    if said:
        yield f"- {', '.join(_place(ours))}, {ours['row']}{more}: {'; '.join(said)}."


def _verb(texts: Sequence[str], one: str, several: str) -> str:
    return one if len(texts) == 1 else several


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([*filter(None, [", ".join(texts[:-1])]), texts[-1]])


def _place(line: Line) -> Iterator[str]:
    yield from (str(line["table"]), str(line["dataset"]))
    if "width" in line:
        yield f"{line['width']} columns"
    yield from _threads(line)


def _threads(line: Line) -> Iterator[str]:
    if line.get("threads"):
        yield f"{line['threads']} thread" + "s" * (line["threads"] != 1)


LIMITS = (
    "A command starts in the seconds that the growth tables name, most of them imports; on small graphs that is "
    "nearly all of its time, and a script that needs NumPy and SciPy alone has ended before.",
    "Everything here runs on the processor.",
    "Training without given features holds 31 columns of float32 a node in memory, so its peak grows with the nodes, "
    "though not with the edges; given features can stay on disk.",
    "In memory, embedding holds the vectors of all nodes and, beside them, the rows that a level averages. `--memory` "
    "bounds it and pays with disk: at most the vectors of all levels once and the rows of the level at work.",
    "`--order locality` brings much on graphs of the web and next to nothing on generated power-law graphs, in which "
    "there is no locality to find.",
)


# ---------------------------------------------------------------------------------------- the page


def _peer_tables(kept: Kept) -> list[str]:
    """The tables that peers.py writes, whatever it calls them."""
    return list(dict.fromkeys(x["table"] for x in kept.lines if x["file"] == "peers"))


def others(kept: Kept) -> Iterator[str]:
    """What other commands take on a million nodes."""
    yield from ("## Other commands on a million nodes", "")
    yield from ("`python benchmarks/roles.py million`, `python benchmarks/explore.py`.", "")
    yield from ("| command | nodes | seconds | peak |", "|---|---|---|---|")
    for line in kept.lines:
        if line.get("table") == "million":
            for what in ("roles", "similar"):
                gib = line[f"{what}_peak_bytes"] / 2**30
                yield f"| `rae {what}` | {line['nodes']:,} | {line[f'{what}_seconds']:.0f} | {gib:.2f} GiB |"
    explored = [x for x in kept.lines if x.get("what") == "explore"]
    for line in explored[-1:]:
        yield f"| `rae explore` | {line['nodes']:,} | {line['seconds']:.0f} | {line['GiB']:.2f} GiB |"
    yield ""


def machine(lines: Iterable[Line]) -> Iterator[str]:
    """Where and with what the lines were made."""
    measured = [x for x in lines if "machine" in x and "load" in x]
    machines = list(dict.fromkeys(x["machine"] for x in measured))
    versions: dict[str, set[str]] = {}
    for x in measured:
        for name, number in x.get("versions", {}).items():
            versions.setdefault(name, set()).add(str(number))
    loads = [x["load"] for x in measured]
    runs = sorted({x["run"] for x in measured if "run" in x})
    yield from ("## Machine", "")
    if not measured:
        yield from ("No line says where it was made.", "")
        return
    named = ", ".join(f"{name} {' and '.join(sorted(found))}" for name, found in sorted(versions.items()))
    begun = f" Runs begun {', '.join(runs)}." if runs else ""
    yield from paragraph(
        f"{'; '.join(machines)}. Load of the machine at the end of a measurement: {min(loads):g} to {max(loads):g}."
        f"{begun} Versions: {named}."
    )


OPENING = (
    "Made by `make bench` from the lines in `results/`; nothing here is written by hand but the words. The rows of a "
    "table ran in turns, in one process or each in a process of its own. Best and worst of the rounds are shown, "
    "ratios are of the best, and **ours** is bold. Numbers depend on the machine named at the end. One benchmark is "
    "repeated by the command in its section (`RAE_DATA` names the folder of the public graphs), all of them by `make "
    "bench`."
)


def page(kept: Kept, figure: str | None) -> str:
    """The whole page."""
    kept = with_bounded(kept)
    peers = _peer_tables(kept)
    parts = [
        ["# Performance", "", *paragraph(OPENING)],
        _glance(kept),
        section(
            kept, "Training step", "python benchmarks/speed.py --threads 1",
            "The paper's settings: 256 anchors, five positives and twenty negatives each, fan-outs 10 and 25. Ours "
            "is a step as `RAE.fit` takes it, history included.",
            ["speed"], [ROW, THREADS, TIME, FASTER],
        ),
        section(
            kept, "Mean over neighbourhoods", "python benchmarks/embedding.py",
            "mean({u} ∪ N(u)) of every node. The limit reads as many uniformly random rows and adds them up; it is "
            "the faster of a plain loop, which leaves out the ego's row and the result, and of our own kernel over "
            "neighbours drawn at random. A graph's neighbours are not uniformly random: in the file's own order, "
            "too, hubs and runs of near ids stay in the cache. So 100 % may be passed there, and more so in locality "
            "order.",
            ["mean"], [ROW, THREADS, TIME, BANDWIDTH, OF_LIMIT, TORCH],
        ),
        section(
            kept, "Every node embedded", "python benchmarks/whole.py",
            "256 columns from structural features, both levels, exactly, each way in a process of its own; a sample "
            "of every way's vectors is within 0.0001 of ours. Ways that hold over 20 GiB or take over ten minutes "
            "are ended.",
            ["whole"], [ROW, THREADS, TIME, RATE, PEAK, FASTER],
        ),
        section(
            kept, "From a file to vectors", "python benchmarks/peers.py",
            "Gzipped text in, vectors of all nodes out, each method in a process of its own.",
            peers, [ROW, THREADS, TIME, PEAK, FASTER],
        ) if peers else [],
        section(
            kept, "Building, ordering, sampling", "python benchmarks/build.py",
            "From an edge file to undirected neighbour lists without doubles; what an order of the rows brings; "
            "sampled edges a second.",
            ["build", "order", "sampler"], [ROW, THREADS, TIME, PEAK, FASTER],
        ),
        growth(kept, figure),
        section(
            kept, "Planned and real", "python benchmarks/planned.py",
            "What `rae plan` said, and what the whole command `rae fit --no-page --lean` then took. Aims: memory "
            "within 25 %, time within a factor of two.",
            ["planned"], [ROW, THREADS, *PLANNED],
        ),
        section(
            kept, "First fit after an installation", "python benchmarks/first.py",
            "The package is installed by pip, which compiles the hot loops while it builds, and a copy of what it "
            "installed is used for the first time, then again. With RAE_COMPILE=0 nothing is compiled ahead. Whole "
            "processes, imports included.",
            ["first"], [ROW, THREADS, TIME, *COMPILED],
        ),
        others(kept),
        _losing(kept, ["speed", "mean", "whole", *peers, "build", "order", "sampler"]),
        machine(kept.lines),
    ]  # fmt: skip
    return "\n".join(text for part in parts for text in part).rstrip() + "\n"


def _losing(kept: Kept, tables: Sequence[str]) -> Iterator[str]:
    yield from ("## Where we lose", "")
    yield from paragraph(
        "Every row above in which an alternative is faster or holds less. Each alternative is compared with the row "
        "of ours that does the same, or with the first; each further row of ours has one line for all alternatives."
    )
    found = [wrapped(text, "  ") for text in losses(kept, tables)]
    yield from found or ["None of the rows measured."]
    yield from ("", "Not rows of a table, but true:", "")
    yield from (wrapped(f"- {text}", "  ") for text in LIMITS)
    yield ""


def publish(results: Path, docs: Path) -> Path:
    """Write the page and its figure from the lines alone; the page."""
    kept = Kept.load(results)
    path = docs / "performance.md"
    docs.mkdir(parents=True, exist_ok=True)
    write_text(path, page(kept, draw(kept, docs)))
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--docs", type=Path, default=DOCS)
    options = parser.parse_args()
    print(f"wrote {publish(options.results, options.docs)}")


if __name__ == "__main__":
    main()
