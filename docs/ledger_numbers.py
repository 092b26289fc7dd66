"""Numbers and tables that pages take from the ledger.

A page marks a place with the call that fills it, and `make generate` writes the result between the marks:

    Europe <!--= ours("activity", "europe") -->61.1<!--/--> against ...

A call on a line of its own, with the end mark on another, holds a table. FUNCTIONS lists what can be called;
arguments are literals. A mark never begins a line of text: Markdown would take that line for HTML.
"""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))

import performance  # noqa: E402
from measurements import Measurements, peak_gib  # noqa: E402

from rae.evaluation import paper_report, report  # noqa: E402
from rae.evaluation.ledger import Ledger  # noqa: E402
from rae.evaluation.paper_report import FilledTable  # noqa: E402
from rae.evaluation.statistics import Summary, verdict  # noqa: E402
from rae.evaluation.table_spec import Row  # noqa: E402
from rae.evaluation.tables import TABLES  # noqa: E402
from rae.evaluation.tables.methods import method_of  # noqa: E402

LEDGER = Ledger(ROOT / "results")
MARK = re.compile(r"<!--= (?P<call>.+?) -->(?P<body>.*?)<!--/-->", re.S)


def filled(text: str) -> str:
    """The text of a page with everything between its marks made anew."""
    return MARK.sub(_filled_mark, text)


def _filled_mark(mark: re.Match[str]) -> str:
    result = evaluate(mark["call"])
    is_block = mark["body"].startswith("\n")
    start = mark.string.rfind("\n", 0, mark.start()) + 1
    if not is_block and not mark.string[start : mark.start()].strip():
        raise ValueError(f"a number must not begin a line, Markdown takes the line for HTML: {mark[0]}")
    return f"<!--= {mark['call']} -->" + (f"\n{result}\n" if is_block else result) + "<!--/-->"


def evaluate(call: str) -> str:
    """The result of a call as pages write it: a name of FUNCTIONS and literals."""
    node = ast.parse(call, mode="eval").body
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id not in FUNCTIONS:
        raise ValueError(f"a mark must call one of {', '.join(FUNCTIONS)}, got {call}")
    values = [ast.literal_eval(value) for value in node.args]
    named = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    return FUNCTIONS[node.func.id](*values, **named)


# ------------------------------------------------------------------------------------- numbers


@cache
def _table(name: str) -> FilledTable:
    return paper_report.fill(TABLES[name], paper_report.lines_of(TABLES[name], LEDGER))


@cache
def _measurements() -> Measurements:
    return Measurements.read(LEDGER, performance.TABLES)


def score(table: str, row: str, dataset: str, key: str = "") -> str:
    """The mean of a cell of `rae reproduce`; `key` names another number of the same runs."""
    return f"{_summary(table, row, dataset, key).mean:.1f}"


def ours(table: str, dataset: str, key: str = "") -> str:
    """The mean of the default model, `rae.RAE()`, in a column."""
    return score(table, next(row.name for row in TABLES[table].rows if row.family == "exact"), dataset, key)


def mean(table: str, row: str) -> str:
    """The mean of a row over all data sets of its table."""
    values = [_summary(table, row, dataset).mean for dataset in TABLES[table].datasets]
    return f"{sum(values) / len(values):.1f}"


def spread(table: str, row: str, dataset: str) -> str:
    """Mean and standard deviation of a cell."""
    return report.mean_sd(_summary(table, row, dataset))


def published(table: str, row: str, dataset: str) -> str:
    """What the paper prints in a cell."""
    return str(TABLES[table].published[row, dataset])


def floor(table: str, dataset: str, key: str = "") -> str:
    """The mean of the best floor of a column."""
    return score(table, floor_name(table, dataset, key), dataset, key)


def floor_name(table: str, dataset: str, key: str = "") -> str:
    """The name of the best floor of a column."""
    best = _table(table).best_floor(dataset, key)
    assert best is not None, f"results/{table}.jsonl has no floor on {dataset}"
    return best.name


def measured(table: str, dataset: str, row: str, field: str, form: str = "{:.1f}", **settings: int) -> str:
    """A field of a line of `make bench`, such as best_s, formatted; `peak_gb` is its peak memory in GB."""
    line = _measurements().one(table, dataset, row, **settings)
    assert line is not None, f"results/{table}.jsonl has no line of {row} on {dataset}"
    value = (peak_gib(line) or 0) * 2**30 / 1e9 if field == "peak_gb" else line[field]
    return form.format(value)


def _summary(table: str, row: str, dataset: str, key: str = "") -> Summary:
    filled = _table(table)
    summary = filled.summary(filled.table.row(row), dataset, key)
    assert summary is not None, f"results/{table}.jsonl has no line of {row} on {dataset}"
    return summary


# -------------------------------------------------------------------------------------- tables

COMPARED = (  # what is asked, table, data set, and what it is called
    ("find planted roles", "recovery-plain", "house, 10 % noise", "houses, 10 % random edges"),
    ("find planted roles", "recovery-plain", "mixed, 10 % noise", "four shapes, 10 % random edges"),
    ("how busy is an airport", "activity", "usa", "routes, USA"),
    ("how busy is an airport", "activity", "brazil", "routes, Brazil"),
    ("which field is a paper of", "node-tuned", "citeseer", "Citeseer, 20 labels each"),
    ("which field is a paper of", "node-tuned", "cora", "Cora, 20 labels each"),
    ("what kind is a thread", "graph", "REDDIT-BINARY", "REDDIT-BINARY"),
)


def comparison() -> str:
    """The small table of the README: our default beside the best floor, the better one in bold."""
    rows = []
    for question, table, dataset, called in COMPARED:
        values = ours(table, dataset), floor(table, dataset)
        better = max(values, key=float)
        cells = [f"**{value}**" if value == better else value for value in values]
        rows.append([question, called, *cells, floor_name(table, dataset)])
    return report.grid(["question", "data", "`rae.RAE()`", "best free feature", "which is"], rows)


ROLE_METHODS = ("GraphWave", "ReFeX-style features", "node2vec")


def role_methods(dataset: str) -> str:
    """V-measures of methods that find planted roles in one graph, best first."""
    values = {name: score("recovery", name, dataset) for name in ROLE_METHODS}
    values["`rae.RAE()`"] = ours("recovery-plain", dataset)
    names = sorted(values, key=lambda name: -float(values[name]))
    return report.grid(names, [[values[name] for name in names]])


ONE = ", one setting for all"


def methods(*columns: tuple[str, str]) -> str:
    """Every method in these columns, each a table and a data set: its mean score and the number of runs behind it.

    Ours and the best free feature come first, then the others, the best of their last column first; those without any
    run are left out. The best of each column is bold.
    """
    ours_first = [
        ("**`rae.RAE()`**", [_cell(t, _row_of(t, "exact"), d) for t, d in columns]),
        ("`rae.RAE(rae.ACTIONS)`", [_cell(t, "trained for actions", d) for t, d in columns]),
        ("best free feature", [_cell(t, getattr(_table(t).best_floor(d), "name", ""), d) for t, d in columns]),
    ]
    names = dict.fromkeys(row.name for t, _ in columns for row in TABLES[t].rows if row.kind == "other")
    rest = [(name, [_cell(t, name, d) for t, d in columns]) for name in names]
    rest.sort(key=lambda row: [-cell[0] if cell else 0.0 for cell in row[1]][::-1])
    rows = [(name, cells) for name, cells in (*ours_first, *rest) if any(cells)]
    own = dict(rows)  # a row of one setting for all that is the same runs as the method's own says nothing more
    rows = [(name, cells) for name, cells in rows if not name.endswith(ONE) or cells != own.get(name[: -len(ONE)])]
    best = [max((row[i][0] for _, row in rows if row[i]), default=None) for i in range(len(columns))]
    shown = [[name, *(_shown(cell, top) for cell, top in zip(cells, best, strict=True))] for name, cells in rows]
    return report.grid(["method", *(paper_report.display(d) for _, d in columns)], shown)


def against_papers(table: str, *datasets: str) -> str:
    """Every other method of a table that has a run: its mean and runs beside the published value, and the verdict.

    A second mean is that by the reader of the method's own paper.
    """
    rows, filled = [], _table(table)
    for row in (row for row in filled.table.rows if row.kind == "other"):
        if not row.name.endswith(ONE) and any(_cell(table, row.name, dataset) for dataset in datasets):
            pairs = [_against_paper(filled, row, dataset) for dataset in datasets]
            rows.append([row.name, *(text for pair in pairs for text in pair)])
    head = [text for dataset in datasets for text in (paper_report.display(dataset), "published")]
    return report.grid(["method", *head], rows)


def _against_paper(filled: FilledTable, row: Row, dataset: str) -> tuple[str, str]:
    """Mean and runs of a cell, and the published value with the verdict."""
    shown, own = _shown(_cell(filled.table.name, row.name, dataset), None), filled.summary(row, dataset, "own_reader")
    paper, value = filled.table.published.get((row.name, dataset)), filled.as_published(row, dataset)
    printed = "–" if paper is None else f"{paper.mean:g}" + (f", {verdict(value, paper)}" if value else "")
    return shown + (f" / {own.mean:.1f}" if own else ""), printed


def _row_of(table: str, family: str) -> str:
    return next(row.name for row in TABLES[table].rows if row.family == family)


def _cell(table: str, row: str, dataset: str) -> tuple[float, int] | None:
    """Mean and number of runs; None without a run."""
    lines = _table(table).cells.get((row, dataset), ())
    scores = [float(line["score"]) for line in lines]
    return (sum(scores) / len(scores), len(scores)) if scores else None


def _shown(cell: tuple[float, int] | None, best: float | None) -> str:
    if cell is None:
        return "–"
    mean, runs = cell
    return (f"**{mean:.1f}**" if mean == best else f"{mean:.1f}") + (f" ({runs})" if runs > 1 else "")


def methods_cost(table: str, dataset: str) -> str:
    """What one run of every method costs on a data set, and what kind of method it is."""
    rows = []
    for row in sorted(TABLES[table].rows, key=lambda row: row.kind != "ours"):
        lines = _table(table).cells.get((row.name, dataset), ())
        if not lines or row.kind not in ("other", "ours") or row.name.endswith(ONE):
            continue
        line = max(lines, key=lambda line: ("fit_seconds" in line["also"], line.get("date", "")))
        method = method_of(row) if row.kind == "other" else None
        also = line["also"]
        seconds = [_seconds(also[key]) if key in also else "" for key in ("fit_seconds", "embed_seconds")]
        kind = [True, True, True] if method is None else [method.inductive, method.deterministic, not method.needs]
        answers = ["yes" if answer else "no" for answer in kind]
        if method is not None and not method.deterministic:
            answers[1] = "by seed"
        place = also.get("device", "cpu").partition(": ")[2] or "processor"
        whole = _seconds(line["cpu_seconds" if place == "processor" else "seconds"])
        rows.append([row.name, *seconds, whole, f"{line['peak_mb']:,.0f}", place, *answers])
    head = ["method", "fit, s", "vectors, s", "with the reader, s", "peak, MB", "on"]
    return report.grid([*head, "unseen graphs", "same every time", "without an extra"], rows)


def _seconds(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def role_changes() -> str:
    """The share of nodes that change role, by data set and by what became of the edges."""
    lines = LEDGER.latest("role-changes")
    rows = list(dict.fromkeys(line["row"] for line in lines))
    cells = {(line["dataset"], line["row"]): f"{100 * line['changed']:.1f} %" for line in lines}
    head = {line["dataset"]: [f"{line['nodes']:,}", str(line["roles"])] for line in lines}
    body = [[name, *about, *(cells.get((name, row), "") for row in rows)] for name, about in head.items()]
    shown = [row.replace("%", " %") for row in rows]
    return report.grid(["graph", "nodes", "roles", *shown], body)


def kills(field: str, seed: int) -> str:
    """The sum of a number over all commands of one run of `benchmarks/kill_trials.py`."""
    lines = [x for x in LEDGER.latest("kill-trials") if x["settings"]["seed"] == seed]
    return f"{len(lines) if field == 'commands' else sum(line[field] for line in lines):,}"


def newcomers() -> str:
    """The seconds of a newcomer's first steps, by Python."""
    lines = sorted(LEDGER.latest("newcomer"), key=lambda x: [int(n) for n in x["versions"]["python"].split(".")])
    seconds = ("install_s", "demo_s", "readme_s", "fit_s", "trained_fit_s")
    head = [
        "Python",
        "torch",
        "`pip install`",
        "`rae demo`",
        "README",
        "`rae fit`",
        "trained",
        "README's output",
        "page",
    ]
    rows = []
    for line in lines:
        same = "the same" if line["readme_same"] else "differs"
        times = (f"{line[name]:.0f} s" for name in seconds)
        rows.append([line["versions"]["python"], line["versions"]["torch"], *times, same, line["page"]])
    return report.grid(head, rows)


def drift_alarms() -> str:
    """False alarms and movers found, by graph and units."""
    rows = []
    for line in LEDGER.latest("drift-trials"):
        if line["row"] != "reliability":
            about = [line["dataset"], f"{line['settings']['nodes']:,}", line["settings"]["units"]]
            shares = [f"{line['any_alarm']:.2f}", f"{100 * line['alarms_share']:.3f} %", f"{line['p01']:.4f}"]
            moved = (f"{line[name]:.{digits}f}" for name, digits in
                     (("found", 2), ("false", 3), ("found_known", 2), ("false_known", 3)))  # fmt: skip
            rows.append([*about, *shares, *moved])
    head = ["graph", "nodes", "units", "any alarm", "alarms", "p ≤ 0.01", "found, noise measured", "false"]
    return report.grid([*head, "found, noise 1 %", "false"], rows)


def drift_any() -> str:
    """The share of all trials without movers in which there was any alarm, and how many trials that were."""
    lines = [line for line in LEDGER.latest("drift-trials") if line["row"] != "reliability"]
    trials = sum(line["settings"]["trials"] for line in lines)
    alarms = sum(round(line["any_alarm"] * line["settings"]["trials"]) for line in lines)
    return f"{alarms} of {trials}"


def calibrations(dataset: str) -> str:
    """The calibration of the reliability on a planted graph: what is said, and what is so."""
    (line,) = (x for x in LEDGER.latest("drift-trials") if (x["row"], x["dataset"]) == ("reliability", dataset))
    rows = [
        [f"{said:.2f}", f"{nodes:,}", f"{true:.2f}", f"{planted:.2f}"] for said, nodes, true, planted in line["bins"]
    ]
    return report.grid(["said", "nodes", "kept their role", "have the planted role"], rows)


def calibration_error(dataset: str, what: str = "reliability") -> str:
    """How far what is said and what is so are apart on a planted graph, weighted by nodes."""
    (line,) = (x for x in LEDGER.latest("drift-trials") if (x["row"], x["dataset"]) == ("reliability", dataset))
    return f"{line['errors'][what]:.3f}"


FUNCTIONS = {
    f.__name__: f
    for f in (
        *(score, ours, mean, spread, published, floor, floor_name, measured, comparison, role_methods),
        *(role_changes, kills, newcomers, methods, methods_cost, against_papers),
        *(drift_alarms, drift_any, calibrations, calibration_error),
    )
}
