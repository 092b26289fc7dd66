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

from rae.evaluation import paper_report, report  # noqa: E402
from rae.evaluation.ledger import Ledger  # noqa: E402
from rae.evaluation.measurements import Measurements, peak_gib  # noqa: E402
from rae.evaluation.paper_report import FilledTable  # noqa: E402
from rae.evaluation.statistics import Summary  # noqa: E402
from rae.evaluation.tables import TABLES  # noqa: E402

LEDGER = Ledger(ROOT / "results")
MARK = re.compile(r"<!--= (?P<call>.+?) -->(?P<body>.*?)<!--/-->", re.S)


def filled(text: str) -> str:
    """The text of a page with everything between its marks made anew."""
    return MARK.sub(_filled_mark, text)


def _filled_mark(found: re.Match[str]) -> str:
    result = evaluate(found["call"])
    is_block = found["body"].startswith("\n")
    start = found.string.rfind("\n", 0, found.start()) + 1
    if not is_block and not found.string[start : found.start()].strip():
        raise ValueError(f"a number must not begin a line, Markdown takes the line for HTML: {found[0]}")
    return f"<!--= {found['call']} -->" + (f"\n{result}\n" if is_block else result) + "<!--/-->"


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
    cells = _table(table)
    summary = cells.summary(cells.table.row(row), dataset, key)
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


FUNCTIONS = {
    f.__name__: f
    for f in (
        *(score, ours, mean, spread, published, floor, floor_name, measured, comparison, role_methods),
        *(role_changes, kills, newcomers),
    )
}
