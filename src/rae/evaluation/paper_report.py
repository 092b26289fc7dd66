"""docs/reproduce.md and the tables of the terminal, from the lines of the ledger alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rae.evaluation import probes, report
from rae.evaluation.ledger import SCORE_KEYS, Ledger, Line, lines_of_cell
from rae.evaluation.report import Column, mean_sd
from rae.evaluation.statistics import Gap, Summary, difference, gap_on_nodes, paired_gap, summary, two_sample, verdict
from rae.evaluation.table_spec import FAMILIES, Effort, Row, Table

DISPLAY_NAMES = {name: name.title() for name in ("brazil", "europe", "cora", "citeseer", "pubmed")} | {"usa": "USA"}
VERDICTS = ("reproduced", "better", "worse")
SIDES = ("above", "level with", "below", "undecided against")
BY_ERROR = ("above", "level", "below", "undecided")


def display(dataset: str) -> str:
    """A data set's name as a page prints it."""
    return DISPLAY_NAMES.get(dataset, dataset)


@dataclass(frozen=True)
class FilledTable:
    """A table with its lines; a cell without lines is absent."""

    table: Table
    cells: Mapping[tuple[str, str], list[Line]]  # by row and data set
    deterministic: frozenset[tuple[str, str]] = frozenset()  # cells without randomness: one run is all

    def scores(self, row: Row, dataset: str, key: str = "") -> dict[int, float]:
        """The scores of a cell by seed, or another number of the same runs."""
        lines = self.cells.get((row.name, dataset), ())
        if not key:
            return {line["seed"]: float(line["score"]) for line in lines}
        return {line["seed"]: float(line["also"][key]) for line in lines if key in line["also"]}

    def summary(self, row: Row, dataset: str, key: str = "") -> Summary | None:
        """Mean, spread and interval of a cell, None without runs."""
        scores = self.scores(row, dataset, key)
        return summary(list(scores.values())) if scores else None

    def gap(self, row: Row, other: Row, dataset: str, key: str = "") -> Gap | None:
        """A row minus another, paired by seed, or by node where all runs are judged on one test set."""
        right = [self._right(each, dataset) for each in (row, other)]
        if not key and right[0] is not None and right[1] is not None and right[0].shape[1] == right[1].shape[1]:
            return gap_on_nodes(right[0], right[1])
        return paired_gap(self.scores(row, dataset, key), self.scores(other, dataset, key))

    def _right(self, row: Row, dataset: str) -> Any:
        """Right or wrong by run and test node, None where a line does not say."""
        texts = [line["also"].get("right") for line in self.cells.get((row.name, dataset), ())]
        return np.stack([probes.unpacked(text) for text in texts]) if texts and all(texts) else None

    def best_floor(self, dataset: str, key: str = "") -> Row | None:
        """The floor with the highest mean, None where the table has no floors to compare with or none has run."""
        floors = [row for row in self.table.rows if row.kind == "floor"]
        return self.best(floors, dataset, key) if self.table.floors else None

    def best(self, rows: Iterable[Row], dataset: str, key: str = "") -> Row | None:
        """Of these rows the one with the highest mean, None where none has run."""
        there = [row for row in rows if self.scores(row, dataset, key)]
        return max(there, key=lambda row: float(np.mean(list(self.scores(row, dataset, key).values()))), default=None)

    def as_published(self, row: Row, dataset: str) -> Summary | None:
        """The summary of a cell, scored the way the published value was."""
        return self.summary(row, dataset, self.table.published_as) or self.summary(row, dataset)

    def filled_cells(self) -> Iterator[tuple[Row, str]]:
        """Row and data set of each cell that has runs, data set by data set."""
        for dataset in self.table.datasets:
            yield from ((row, dataset) for row in self.table.rows if (row.name, dataset) in self.cells)


def fill(table: Table, lines: Sequence[Line], effort: Effort | None = None, runs: int | None = None) -> FilledTable:
    """The table with those lines that have exactly the settings of its rows."""
    cells, deterministic = {}, set()
    for work in table.works:
        count = work.runs if runs is None else min(runs, work.runs)
        for row in work.rows:
            for dataset in work.datasets:
                settings = table.line_settings(work, row, dataset, effort or Effort())
                cell = [line for line in lines_of_cell(lines, row.name, dataset, settings) if line["seed"] < count]
                if cell:
                    cells[row.name, dataset] = cell
                    deterministic |= {(row.name, dataset)} if work.runs == 1 else set()
    return FilledTable(table, cells, frozenset(deterministic))


def read(tables: Iterable[Table], ledger: Ledger) -> list[FilledTable]:
    """Every table filled from the ledger."""
    return [fill(table, lines_of(table, ledger)) for table in tables]


def lines_of(table: Table, ledger: Ledger) -> list[Line]:
    """The lines of a table, and of the tables that keep lines of its works."""
    names = dict.fromkeys([table.name, *(work.ledger_table for work in table.works if work.ledger_table)])
    return [line for name in names for line in ledger.read(name, SCORE_KEYS)]


# ------------------------------------------------------------------------------- the page


def page(filled: Sequence[FilledTable], figures: Mapping[str, str]) -> str:
    """The whole of docs/reproduce.md; `figures` are file names with captions."""
    tables = [f for f in filled if f.table.name != "figures"]
    maps = [_map_silhouettes(f) for f in filled if f.table.name == "figures"]
    parts = [
        _overview(tables),
        _against_floors(tables),
        *map(_section, tables),
        _figures(figures),
        *maps,
        _costs(filled),
    ]
    return report.page("The paper's evidence, again", "`rae reproduce` (`make paper` runs all of it)", _WORDS, parts)


_WORDS = (
    "A value is the mean over the runs ± their standard deviation (not the error of the mean), then the 95 % interval "
    "of the mean. *Reproduced* means within one published standard deviation of the published mean (within 1 point or "
    "our own standard deviation where none was published); *better* and *worse* mean outside of it. Floors cost "
    "nothing and stand first; *above*, *level with* and *below* a floor go by the 95 % interval of the difference, "
    "paired seed by seed over the seeds that both rows have. A cell without a run says "
    "so, or has the published value, *quoted*."
)


def _overview(filled: Sequence[FilledTable]) -> str:
    """One row a table: how many published cells were reproduced, and how many of ours clear their floors."""
    columns: list[Column] = [
        ("table", lambda f, _: f"[{f.table.title}](#{report.anchor(f.table.title)})"),
        ("cells with a published value", lambda f, _: _count(list(_verdicts(f).values()), VERDICTS)),
        (
            "our cells against their best floor",
            lambda f, _: _count([place for place, _ in _floor_sides(f).values()], SIDES),
        ),
    ]
    return report.table(filled, columns)


def _count(words: Sequence[str], order: Sequence[str]) -> str:
    return ", ".join(f"{words.count(word)} {word}" for word in order if word in words) or "–"


def _against_floors(filled: Sequence[FilledTable]) -> str:
    """Our cells against their best floor, table by table: exact, untrained and trained rows apart."""
    sides: dict[tuple[str, str], list[str]] = {}
    for table in filled:
        for row, floor, dataset, key in _compared(table):
            gap = table.gap(row, floor, dataset, key)
            sides.setdefault((table.table.name, row.family), []).append("undecided" if gap is None else gap.place)
    if not sides:
        return ""
    families = [family for family in FAMILIES if any(family == other for _, other in sides)]
    rows = [
        [f"[{f.table.title}](#{report.anchor(f.table.title)})"]
        + [_count(sides.get((f.table.name, family), []), BY_ERROR) for family in families]
        for f in filled
        if any((f.table.name, family) in sides for family in families)
    ]
    totals = [[p for (_, other), cell in sides.items() if other == family for p in cell] for family in families]
    rows.append(["**in all**", *(f"**{_count(total, BY_ERROR)}**" for total in totals)])
    return report.section(
        "Our cells against their best floor",
        report.paragraph(
            "A cell is a row, a data set and a number that is judged (some tables judge clusters beside a reader). "
            "*Level* means within one standard error of the difference, paired by seed, or by test node where all runs "
            "share one test set; the words of the table above go by the 95 % interval, so they call more cells level."
        ),
        report.grid(["", *families], rows),
        _training(filled),
    )


def _compared(filled: FilledTable) -> Iterator[tuple[Row, Row, str, str]]:
    """Each cell of ours that has runs: row, best floor, data set and key of the number."""
    for dataset in filled.table.datasets:
        for key in filled.table.keys:
            if floor := filled.best_floor(dataset, key):
                for row in filled.table.rows:
                    if row.kind == "ours" and filled.scores(row, dataset, key):
                        yield row, floor, dataset, key


def _training(filled: Sequence[FilledTable]) -> str:
    """What training brings: the best trained row against the untrained and the exact one, cell by cell."""
    sides: dict[tuple[str, str], list[str]] = {}
    for table in filled:
        ours = [row for row in table.table.rows if row.kind == "ours"]
        for dataset in table.table.datasets:
            for key in table.table.keys:
                best = {
                    family: table.best((row for row in ours if row.family == family), dataset, key)
                    for family in ("trained", "untrained", "exact")
                }
                for family in ("untrained", "exact"):
                    trained, other = best["trained"], best[family]
                    if trained and other and table.table.floors and (gap := table.gap(trained, other, dataset, key)):
                        sides.setdefault((table.table.title, family), []).append(gap.place)
    titles = dict.fromkeys(title for title, _ in sides)
    rows = [[t, *(_count(sides.get((t, f), []), BY_ERROR) for f in ("untrained", "exact"))] for t in titles]
    if not rows:
        return ""
    helps = [
        t for t in titles if sides.get((t, "exact"), []).count("above") > sides.get((t, "exact"), []).count("below")
    ]
    words = (
        f"Training is above the exact solution in most cells of: {'; '.join(helps)}."
        if helps
        else ("In no table is training above the exact solution in more cells than it is below.")
    )
    return "\n\n".join(
        [
            "**What training brings**: the best trained row of each cell.",
            report.grid(["", "against untrained", "against the exact solution"], rows),
            report.paragraph(words) if any(family == "exact" for _, family in sides) else "",
        ]
    ).rstrip()


def _section(filled: FilledTable) -> str:
    table = filled.table
    special = {"toy": _t_test, "inductive": _accuracy_lost}.get(table.name, lambda _: "")
    judged = [f"**{table.also[key]}**\n\n{_cells(filled, key)}" for key in table.judged]
    notes = [_floors_not_cleared(filled), _ablations(filled), special(filled), _details(filled)]
    return report.section(table.title, f"{table.unit}. {table.protocol}", _cells(filled), *judged, *notes)


def _cells(filled: FilledTable, key: str = "") -> str:
    """Rows by data sets, then the rows that are quoted as published; of the score, or of another number."""
    table = filled.table
    names = [display(name) for name in table.datasets]
    if table.published_as:
        names = [f"{name}: {table.unit} / {table.also[table.published_as]} (published)" for name in names]
    rows = [[_row_title(row), *(_cell(filled, row, d, key) for d in table.datasets)] for row in table.rows]
    for quoted in (each for each in table.quoted if each.key == key):
        values = [f"{quoted.values[d]:.1f}" if d in quoted.values else "–" for d in table.datasets]
        rows.append([f"*{quoted.name}, as published ({quoted.source})*", *values])
    return report.grid(["", *names], rows)


def _row_title(row: Row) -> str:
    title = {"floor": "floor: ", "ablation": "ablation: "}.get(row.kind, "") + row.name
    return f"**{title}**" if row.kind == "ours" else title


def _cell(filled: FilledTable, row: Row, dataset: str, key: str = "") -> str:
    cell = filled.summary(row, dataset, key)
    if cell is None:
        return _reason_empty(filled, row, dataset)
    if key:
        return mean_sd(cell)
    other = filled.summary(row, dataset, filled.table.published_as) if filled.table.published_as else None
    return mean_sd(cell) + (f" / {other.mean:.1f}" if other else "") + _published(filled, row, dataset)


def _published(filled: FilledTable, row: Row, dataset: str) -> str:
    value = filled.table.published.get((row.name, dataset))
    return f" ({value.mean:.1f})" if value else ""


def _reason_empty(filled: FilledTable, row: Row, dataset: str) -> str:
    """Why a cell is empty; a published value of another method stands in for it, as quoted."""
    if row.kind == "other" and (value := filled.table.published.get((row.name, dataset))):
        return f"*{value.mean:.1f}, quoted*"
    planned = any(row in work.rows and dataset in work.datasets for work in filled.table.works)
    return "not run" if planned else "–"


def _floor_sides(filled: FilledTable) -> dict[tuple[str, str, str], tuple[str, str]]:
    """Where each cell of ours stands against its best floor, and that floor; by row, data set and key of the number."""
    sides = {}
    for row, floor, dataset, key in _compared(filled):
        gap = filled.gap(row, floor, dataset, key)
        sides[row.name, dataset, key] = "undecided against" if gap is None else gap.against, floor.name
    return sides


def _floors_not_cleared(filled: FilledTable) -> str:
    """Which of our rows do not clear which floor."""
    sides = _floor_sides(filled)
    rows: dict[tuple[str, str, str], list[str]] = {}
    for (row, dataset, key), (place, floor) in sides.items():
        if place != "above":
            where = display(dataset) + (f", {filled.table.also[key]}" if key else "")
            rows.setdefault((where, place, floor), []).append(row)
    if sides and not rows:
        return "Every row of ours is above every floor."
    return report.listing(
        "**Floors that are not cleared**",
        (
            f"{where}: **{place}** the floor “{floor}”: {'; '.join(names)}."
            for (where, place, floor), names in rows.items()
        ),
    )


def _verdicts(filled: FilledTable) -> dict[tuple[str, str], str]:
    """Reproduced, better or worse, by row and data set."""
    return {
        (row, dataset): verdict(ours, value)
        for (row, dataset), value in filled.table.published.items()
        if (ours := filled.as_published(filled.table.row(row), dataset))
    }


def _t_test(filled: FilledTable) -> str:
    """The paper's own test of J_within against J_neighbor."""
    texts = []
    for dataset in filled.table.datasets:
        names = ("RAE, J_within", "RAE, J_neighbor")
        a, b = (list(filled.scores(filled.table.row(name), dataset).values()) for name in names)
        if len(a) > 1 and len(b) > 1:
            t, df, p = two_sample(a, b)
            word = "significant" if p < 0.05 else "not significant"
            texts.append(f"{dataset}: t = {t:.2f}, df = {df}, p = {p:.3g}: {word} at 5 %.")
    title = (
        "Two-sample two-sided t-test of J_within against J_neighbor (the paper, house: t = 2.19, df = 98, p < 0.05):"
    )
    return report.listing(title, texts)


def _ablations(filled: FilledTable) -> str:
    """The difference between each ablation and the row it changes, paired seed by seed."""
    texts = []
    for row in filled.table.rows:
        for dataset in filled.table.datasets if row.against else ():
            changed = filled.table.row(row.against)
            gap = difference(filled.scores(row, dataset), filled.scores(changed, dataset))
            if gap is not None and gap.runs > 1:
                interval = f"95 % interval {gap.low:+.1f} to {gap.high:+.1f}"
                where = f"{display(dataset)}: {row.name}"
                texts.append(f"{where}: {gap.mean:+.1f} points against {row.against} ({interval}); {row.note}.")
    return report.listing("What a change costs or brings:", texts)


def _accuracy_lost(filled: FilledTable) -> str:
    """The accuracy that a node loses when the fit has not seen it, paired seed by seed."""
    texts = []
    for row in filled.table.rows:
        if not row.name.endswith("fitted without them"):
            continue
        on_all_nodes = filled.table.row(row.name.replace("fitted without them", "fitted on all nodes"))
        for dataset in filled.table.datasets:
            lost = difference(filled.scores(on_all_nodes, dataset), filled.scores(row, dataset))
            if lost is not None:
                interval = f"95 % interval {lost.low:.1f} to {lost.high:.1f}"
                where = f"{display(dataset)}, {row.name.partition(',')[0]}"
                texts.append(f"{where}: {lost.mean:.1f} points lost ({interval}).")
    return report.listing("Accuracy lost by a node that the fit has not seen:", texts)


def _details(filled: FilledTable) -> str:
    """Every cell with its interval, number of runs, published value, verdict and best floor."""
    verdicts, sides = _verdicts(filled), _floor_sides(filled)
    columns: list[Column] = [
        ("row", lambda cell, _: cell[0].name + (f" ({cell[0].note})" if cell[0].note else "")),
        ("data set", lambda cell, _: display(cell[1])),
        ("mean ± sd", lambda cell, f: mean_sd(f.summary(*cell), 2)),
        ("95 % interval", _interval),
        ("runs", lambda cell, f: str(len(f.scores(*cell)))),
        ("published", lambda cell, f: str(f.table.published.get(_key(cell), ""))),
        ("verdict", lambda cell, _: verdicts.get(_key(cell), "")),
        ("best floor", lambda cell, _: " ".join(sides.get((*_key(cell), ""), ()))),
    ]
    for key, title in filled.table.also.items():
        columns.append((title, lambda cell, f, key=key: mean_sd(f.summary(*cell, key))))  # type: ignore[misc]
    text = report.table(filled.filled_cells(), columns, filled)
    return "\n".join(["<details><summary>Every cell</summary>", "", text, "", "</details>"])


def _key(cell: tuple[Row, str]) -> tuple[str, str]:
    return cell[0].name, cell[1]


def _interval(cell: tuple[Row, str], filled: Any) -> str:
    summary = filled.summary(*cell)
    if summary.runs > 1:
        return f"{summary.low:.2f} to {summary.high:.2f}"
    return "the same every time" if _key(cell) in filled.deterministic else "one run"


def _figures(figures: Mapping[str, str]) -> str:
    pictures = [f"![{caption}]({name})\n\n{caption}" for name, caption in figures.items()]
    return report.section("Figures", *pictures) if pictures else ""


def _map_silhouettes(filled: FilledTable) -> str:
    """The silhouettes of the citation maps: of the vectors, and of their picture."""
    rows = [
        [display(dataset), f"{whole.mean / 100:.3f}", f"{flat.mean / 100:.3f}"]
        for row in filled.table.rows
        for dataset in filled.table.datasets
        if (flat := filled.summary(row, dataset, "silhouette_of_picture")) and (whole := filled.summary(row, dataset))
    ]
    words = "Silhouette of the fields, J_within, one run. The paper gives 0.166 for Cora, without saying of which:"
    return f"{words}\n\n" + report.grid(["", "of the embedding", "of its t-SNE picture"], rows) if rows else ""


def _costs(filled: Sequence[FilledTable]) -> str:
    """Time and peak memory of each table, from the same lines."""
    costs = []
    for table in filled:
        if lines := [line for cell in table.cells.values() for line in cell]:
            cpu, clock = (
                sum(float(x[key]) / int(x["rows_together"]) for x in lines) / 60 for key in ("cpu_seconds", "seconds")
            )
            costs.append((cpu, table.table.title, len(lines), clock, max(float(line["peak_mb"]) for line in lines)))
    if not costs:
        return ""
    rows = [
        [title, f"{count:,}", f"{cpu:.1f}", f"{clock:.1f}", f"{peak:,.0f}"]
        for cpu, title, count, clock, peak in sorted(costs, reverse=True)
    ]
    return report.section(
        "Where the time goes",
        report.grid(["table", "lines", "minutes of a core", "minutes by the clock", "peak memory, MB"], rows),
        report.paragraph(
            f"Together {sum(cost[0] for cost in costs):.0f} minutes of one core, shared among the processes of "
            "`--jobs`; the clock runs faster than the core where the machine has other work. That is with runs that "
            f"were asked for by name; `rae reproduce all` computes what takes {sum(map(_unasked_minutes, filled)):.0f} "
            "of them. Runs on a GPU count with the seconds of the processor beside it."
        ),
    )


def _unasked_minutes(filled: FilledTable) -> float:
    """Minutes of a core for the runs that are computed by default, by the mean of the present ones."""
    total = 0.0
    for work in filled.table.works:
        for dataset in work.datasets if not work.ledger_table else ():
            lines = filled.cells.get((work.rows[0].name, dataset), ())
            of_row = [float(line["cpu_seconds"]) / int(line["rows_together"]) for line in lines]
            runs = work.count(None, asked=False) * len(work.rows)
            total += runs * float(np.mean(of_row)) / 60 if of_row else 0.0
    return total


# --------------------------------------------------------------------------- the terminal


def terminal(filled: FilledTable, width: int = 100) -> str:
    """A table for the terminal: one block of rows per data set where the columns would not fit."""
    table = filled.table
    title_width = max(len(row.name) for row in table.rows) + 2
    cell_width = max(16, *(len(display(name)) + 2 for name in table.datasets))
    per_block = max(1, (width - title_width) // cell_width)
    lower = "; lower is better" if table.lower_is_better else ""
    lines = [table.title, f"{table.unit}{lower}; (published); n runs"]
    for start in range(0, len(table.datasets), per_block):
        block = table.datasets[start : start + per_block]
        lines.append(" " * title_width + "".join(display(name).ljust(cell_width) for name in block))
        for row in table.rows:
            texts = [_terminal_cell(filled, row, dataset) for dataset in block]
            if any(text != "–" for text in texts):
                lines.append(row.name.ljust(title_width) + "".join(text.ljust(cell_width) for text in texts))
    return "\n".join(line.rstrip() for line in lines)


def _terminal_cell(filled: FilledTable, row: Row, dataset: str) -> str:
    cell = filled.summary(row, dataset)
    if cell is None:
        return _reason_empty(filled, row, dataset).replace("*", "")
    return f"{cell.mean:.1f}{_published(filled, row, dataset)}" + (f" n{cell.runs}" if cell.runs > 1 else "")
