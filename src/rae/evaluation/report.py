"""docs/reproduce.md and the tables of the terminal, made from the kept lines and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rae.evaluation import data
from rae.evaluation.ledger import Ledger, Line, chosen
from rae.evaluation.statistics import Summary, against_floor, difference, summary, two_sample, verdict
from rae.evaluation.table_spec import Effort, Row, Table

WORDS = {
    "brazil": "Brazil",
    "europe": "Europe",
    "usa": "USA",
    "cora": "Cora",
    "citeseer": "Citeseer",
    "pubmed": "Pubmed",
}


@dataclass(frozen=True)
class Filled:
    """A table with the lines that fill it; a cell without lines is absent."""

    table: Table
    cells: Mapping[tuple[str, str], list[Line]]  # by row and data set
    fixed: frozenset[tuple[str, str]] = frozenset()  # cells in which there is no luck: one run is all
    absent: frozenset[str] = frozenset()  # data sets that are not on this machine

    def scores(self, row: Row, dataset: str, key: str = "") -> dict[int, float]:
        """The scores of a cell by seed, or another number of the same runs."""
        lines = self.cells.get((row.name, dataset), ())
        if not key:
            return {line["seed"]: float(line["score"]) for line in lines}
        return {line["seed"]: float(line["also"][key]) for line in lines if key in line["also"]}

    def summary(self, row: Row, dataset: str, key: str = "") -> Summary | None:
        """The runs of a cell in numbers, None if it has none."""
        scores = self.scores(row, dataset, key)
        return summary(list(scores.values())) if scores else None

    def as_published(self, row: Row, dataset: str) -> Summary | None:
        """The runs of a cell, scored the way the published value was."""
        return self.summary(row, dataset, self.table.published_as) or self.summary(row, dataset)


def fill(table: Table, lines: Sequence[Line], effort: Effort | None = None, runs: int | None = None) -> Filled:
    """The table with those of the lines that were made with exactly the settings of its rows."""
    cells, fixed = {}, set()
    for work in table.works:
        for row in work.rows:
            for dataset in work.datasets:
                found = chosen(lines, row.name, dataset, table.line_settings(work, row, dataset, effort or Effort()))
                count = work.runs if runs is None else min(runs, work.runs)
                if kept := [line for line in found if line["seed"] < count]:
                    cells[row.name, dataset] = kept
                    fixed |= {(row.name, dataset)} if work.runs == 1 else set()
    absent = [d for d in table.datasets if table.from_files and not all(map(data.present, d.split(" to ")))]
    return Filled(table, cells, frozenset(fixed), frozenset(absent))


def read(tables: Iterable[Table], ledger: Ledger) -> list[Filled]:
    """Every table as the ledger fills it."""
    return [fill(table, ledger.read(table.name)) for table in tables]


# ------------------------------------------------------------------------------- the page


def page(filled: Sequence[Filled], figures: Mapping[str, str]) -> str:
    """The whole of docs/reproduce.md; `figures` are pictures by file name, with what they show."""
    shown = [f for f in filled if f.table.name != "figures"]
    drawn = [f for f in filled if f.table.name == "figures"]
    maps = [_maps(each) for each in drawn]
    parts = [_HEAD, _verdicts(shown), *map(_section, shown), _pictures(figures), *maps, _costs(filled)]
    return "\n\n".join(part for part in parts if part) + "\n"


_HEAD = """# The paper's evidence, again

Made from the lines in `results/` by `rae reproduce` (`make paper` makes all of it); nothing here is written by hand. A
value is the mean over the runs ± their standard deviation (not the error of the mean), then the 95 % interval of the
mean. *Reproduced* means within one published standard deviation of the published mean (within 1 point or our own
standard deviation where none was published); *better* and *worse* mean outside of it. Floors cost nothing and stand
first; *above*, *level with* and *below* a floor go by the 95 % interval of the difference, paired seed by seed over the
seeds that both rows have. A cell that no run has filled says so."""


def _verdicts(filled: Sequence[Filled]) -> str:
    """One line a table: how many published cells came out again, and how many of ours clear their floors."""
    rows = []
    for each in filled:
        words = [word for _, _, word in _published_words(each)]
        published = ", ".join(f"{words.count(w)} {w}" for w in ("reproduced", "better", "worse") if w in words)
        places = [place for _, _, _, place in _floor_words(each)]
        floors = ", ".join(
            f"{places.count(p)} {p}" for p in ("above", "level with", "below", "undecided beside") if p in places
        )
        rows.append(f"| [{each.table.title}](#{_anchor(each.table.title)}) | {published or '–'} | {floors or '–'} |")
    head = "| table | cells with a published value | our cells beside their best floor |\n|---|---|---|"
    return "\n".join([head, *rows])


def _anchor(title: str) -> str:
    return "".join(c for c in title.lower().replace(" ", "-") if c.isalnum() or c == "-")


def _section(filled: Filled) -> str:
    table = filled.table
    parts = [f"## {table.title}", f"{table.unit}. {table.protocol}", _overview(filled), _not_cleared(filled)]
    parts += [_changes(filled)]
    parts += [_t_test(filled)] if table.name == "toy" else []
    parts += [_lost(filled)] if table.name == "inductive" else []
    parts += [_details(filled)]
    return "\n\n".join(part for part in parts if part)


def _overview(filled: Filled) -> str:
    table = filled.table
    names = [WORDS.get(name, name) for name in table.datasets]
    if table.published_as:
        names = [f"{name}: {table.unit} / {table.also[table.published_as]} (published)" for name in names]
    lines = [f"| | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    for row in table.rows:
        cells = [_cell(filled, row, dataset) for dataset in table.datasets]
        mark = {"floor": "floor: ", "other": "", "ours": "", "ablation": "ablation: "}[row.kind]
        lines.append(f"| {_bold(row, mark + row.name)} | {' | '.join(cells)} |")
    for quoted in table.quoted:
        cells = [f"{quoted.values[d]:.1f}" if d in quoted.values else "–" for d in table.datasets]
        lines.append(f"| *{quoted.name}, as published ({quoted.source})* | {' | '.join(cells)} |")
    return "\n".join(lines)


def _bold(row: Row, text: str) -> str:
    return f"**{text}**" if row.kind == "ours" else text


def _cell(filled: Filled, row: Row, dataset: str) -> str:
    found = filled.summary(row, dataset)
    if found is None:
        return _empty(filled, row, dataset)
    spread = f" ± {found.sd:.1f}" if found.runs > 1 else ""
    other = filled.summary(row, dataset, filled.table.published_as) if filled.table.published_as else None
    also = f" / {other.mean:.1f}" if other else ""
    value = filled.table.published.get((row.name, dataset))
    beside = f" ({value.mean:.1f})" if value else ""
    return f"{found.mean:.1f}{spread}{also}{beside}"


def _empty(filled: Filled, row: Row, dataset: str) -> str:
    """Why a cell has nothing in it."""
    meant = any(row in work.rows and dataset in work.datasets for work in filled.table.works)
    return "–" if not meant else "data not present" if dataset in filled.absent else "not run"


def _not_cleared(filled: Filled) -> str:
    """In so many words, which of our rows does not clear which floor."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for dataset, row, floor, place in _floor_words(filled):
        if place != "above":
            found.setdefault((dataset, place, floor.name), []).append(row.name)
    lines = [
        f"- {WORDS.get(dataset, dataset)}: **{place}** the floor “{floor}”: {'; '.join(rows)}."
        for (dataset, place, floor), rows in found.items()
    ]
    if not lines:
        return "" if not list(_floor_words(filled)) else "Every row of ours is above every floor."
    return "**Floors that are not cleared**\n\n" + "\n".join(lines)


def _floor_words(filled: Filled) -> Iterable[tuple[str, Row, Row, str]]:
    """Each of our rows beside the best floor of its data set."""
    table = filled.table
    if not table.floors:
        return
    for dataset in table.datasets:
        floors = [(f.mean, row) for row in table.rows if row.kind == "floor" and (f := filled.summary(row, dataset))]
        if not floors:
            continue
        best = max(floors, key=lambda pair: pair[0])[1]
        for row in table.rows:
            if row.kind == "ours" and (scores := filled.scores(row, dataset)):
                yield dataset, row, best, against_floor(scores, filled.scores(best, dataset))


def _published_words(filled: Filled) -> Iterable[tuple[Row, str, str]]:
    for row in filled.table.rows:
        for dataset in filled.table.datasets:
            value, found = filled.table.published.get((row.name, dataset)), filled.as_published(row, dataset)
            if value and found:
                yield row, dataset, verdict(found, value)


def _t_test(filled: Filled) -> str:
    """The paper's own test: does J_within place the roles better than J_neighbor?"""
    names = ("RAE, J_within", "RAE, J_neighbor")
    within, neighbor = (next(row for row in filled.table.rows if row.name == name) for name in names)
    lines = []
    for dataset in filled.table.datasets:
        a, b = (list(filled.scores(row, dataset).values()) for row in (within, neighbor))
        if len(a) > 1 and len(b) > 1:
            t, df, p = two_sample(a, b)
            word = "significant" if p < 0.05 else "not significant"
            lines.append(f"- {dataset}: t = {t:.2f}, df = {df}, p = {p:.3g}: {word} at 5 %.")
    told = "Two-sample two-sided t-test of J_within against J_neighbor (the paper, house: t = 2.19, df = 98, p < 0.05):"
    return "\n".join([told, "", *lines]) if lines else ""


def _changes(filled: Filled) -> str:
    """What each ablation costs or brings, seed by seed beside the row it changes."""
    rows = {row.name: row for row in filled.table.rows}
    lines = []
    for row in rows.values():
        for dataset in filled.table.datasets if row.against else ():
            gap = difference(filled.scores(row, dataset), filled.scores(rows[row.against], dataset))
            if gap is not None and gap.runs > 1:
                told = f"{gap.mean:+.1f} points beside {row.against} (95 % interval {gap.low:+.1f} to {gap.high:+.1f})"
                lines.append(f"- {WORDS.get(dataset, dataset)}: {row.name}: {told}; {row.note}.")
    return "\n".join(["What a change costs or brings:", "", *lines]) if lines else ""


def _lost(filled: Filled) -> str:
    """How much accuracy a node loses by not having been seen, paired seed by seed."""
    lines = []
    rows = {row.name: row for row in filled.table.rows}
    for name, row in rows.items():
        if not name.endswith("fitted without them"):
            continue
        seen = rows[name.replace("fitted without them", "fitted on all nodes")]
        for dataset in filled.table.datasets:
            lost = difference(filled.scores(seen, dataset), filled.scores(row, dataset))
            if lost is not None:
                where = f"{WORDS[dataset]}, {name.partition(',')[0]}"
                interval = f"95 % interval {lost.low:.1f} to {lost.high:.1f}"
                lines.append(f"- {where}: {lost.mean:.1f} points lost ({interval}).")
    return "\n".join(["Accuracy lost by a node that the fit has not seen:", "", *lines]) if lines else ""


def _details(filled: Filled) -> str:
    """Every cell with its interval, its number of runs, the published value and the word for it."""
    table = filled.table
    extra = list(table.also.values())
    head = ["row", "data set", "mean ± sd", "95 % interval", "runs", "published", "word", "best floor", *extra]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    words = {(row.name, dataset): word for row, dataset, word in _published_words(filled)}
    places = {(row.name, d): f"{place} {floor.name}" for d, row, floor, place in _floor_words(filled)}
    for dataset in table.datasets:
        for row in table.rows:
            found = filled.summary(row, dataset)
            if found is None:
                continue
            value = table.published.get((row.name, dataset))
            cells = [
                row.name + (f" ({row.note})" if row.note else ""),
                WORDS.get(dataset, dataset),
                f"{found.mean:.2f} ± {found.sd:.2f}" if found.runs > 1 else f"{found.mean:.2f}",
                _interval(filled, row, dataset, found),
                str(found.runs),
                "" if value is None else f"{value.mean}" + (f" ± {value.sd}" if value.sd is not None else ""),
                words.get((row.name, dataset), ""),
                places.get((row.name, dataset), ""),
                *(_also(filled, row, dataset, key) for key in table.also),
            ]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(["<details><summary>Every cell</summary>", "", *lines, "", "</details>"])


def _interval(filled: Filled, row: Row, dataset: str, found: Summary) -> str:
    if found.runs > 1:
        return f"{found.low:.2f} to {found.high:.2f}"
    return "the same every time" if (row.name, dataset) in filled.fixed else "one run"


def _also(filled: Filled, row: Row, dataset: str, key: str) -> str:
    found = filled.summary(row, dataset, key)
    if found is None:
        return ""
    return f"{found.mean:.1f} ± {found.sd:.1f}" if found.runs > 1 else f"{found.mean:.1f}"


def _pictures(figures: Mapping[str, str]) -> str:
    if not figures:
        return ""
    return "\n\n".join(["## Figures", *(f"![{what}]({name})\n\n{what}" for name, what in figures.items())])


def _maps(filled: Filled) -> str:
    """The silhouettes of the citation maps: of the vectors, and of their picture."""
    key = "silhouette_of_picture"
    lines = [
        f"| {WORDS.get(dataset, dataset)} | {whole.mean / 100:.3f} | {flat.mean / 100:.3f} |"
        for row in filled.table.rows
        for dataset in filled.table.datasets
        if (flat := filled.summary(row, dataset, key)) and (whole := filled.summary(row, dataset))
    ]
    told = "Silhouette of the fields, J_within, one run. The paper gives 0.166 for Cora, without saying of which:"
    head = ["| | of the embedding | of its t-SNE picture |", "|---|---|---|"]
    return "\n".join([told, "", *head, *lines]) if lines else ""


def _costs(filled: Sequence[Filled]) -> str:
    """Where the time went, and the largest memory of a run, from the same lines."""
    lines = []
    for each in filled:
        runs = [line for cell in each.cells.values() for line in cell]
        if runs:
            spent, cpu = (
                sum(float(line[key]) / int(line["rows_together"]) for line in runs) / 60
                for key in ("seconds", "cpu_seconds")
            )
            peak = max(float(line["peak_mb"]) for line in runs)
            lines.append((cpu, f"| {each.table.title} | {len(runs):,} | {cpu:.1f} | {spent:.1f} | {peak:,.0f} |"))
    total = sum(cpu for cpu, _ in lines)
    if not lines:
        return ""
    head = ["| table | lines | minutes of a core | minutes by the clock | peak memory, MB |", "|---|---|---|---|---|"]
    return "\n".join(
        [
            "## Where the time goes",
            "",
            *head,
            *(text for _, text in sorted(lines, reverse=True)),
            "",
            f"Together {total:.0f} minutes of one core, shared among the processes of `--jobs`; the clock runs faster "
            "than the core where the machine has other work.",
        ]
    )


# --------------------------------------------------------------------------- the terminal


def terminal(filled: Filled, width: int = 100) -> str:
    """A table for the terminal: one block of rows per data set where the columns would not fit."""
    table = filled.table
    wide = max(len(row.name) for row in table.rows) + 2
    cell = max(16, *(len(WORDS.get(name, name)) + 2 for name in table.datasets))
    room = max(1, (width - wide) // cell)
    blocks = [table.datasets[i : i + room] for i in range(0, len(table.datasets), room)]
    lower = "; lower is better" if table.lower_is_better else ""
    lines = [table.title, f"{table.unit}{lower}; (published); n runs"]
    for block in blocks:
        lines.append(" " * wide + "".join(WORDS.get(name, name).ljust(cell) for name in block))
        for row in table.rows:
            texts = [_short(filled, row, dataset) for dataset in block]
            if any(text != "–" for text in texts):
                lines.append(row.name.ljust(wide) + "".join(text.ljust(cell) for text in texts))
    return "\n".join(line.rstrip() for line in lines)


def _short(filled: Filled, row: Row, dataset: str) -> str:
    found = filled.summary(row, dataset)
    if found is None:
        return {"data not present": "no data"}.get(why := _empty(filled, row, dataset), why)
    value = filled.table.published.get((row.name, dataset))
    return (
        f"{found.mean:.1f}" + (f" ({value.mean:.1f})" if value else "") + (f" n{found.runs}" if found.runs > 1 else "")
    )
