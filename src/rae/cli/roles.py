"""`rae roles`: how many roles there are, who plays which, what each is; in another graph too."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options, size
from rae.errors import FileError, RunError

if TYPE_CHECKING:
    from rae.roles import Roles
    from rae.roles.compare import Comparison
    from rae.run import Run

WIDEST, NARROWEST = 80, 60
NAME = 56  # letters of an id in a table, so that a line fits the widest
ENDING = re.compile(
    r"\.(parquet|csv|tsv|txt|arrow|feather)(\.(gz|bz2|xz|zst))?$", re.IGNORECASE
)  # of a file of vectors


def _number(_: click.Context, __: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "auto":
        return value
    if not (value.isascii() and value.isdigit()) or int(value) < 1:
        raise click.BadParameter(f"expected auto or a whole number of 1 or more, got {value!r}")
    return int(value)


@click.command(short_help="the roles of a run: how many, who, what they do")
@click.argument("run", metavar="RUN")
@click.option("--k", "k", callback=_number, default=None, metavar="auto|N", help="how many roles  [default: auto]")
@click.option(
    "--apply", metavar="OTHER", help="find the same roles in OTHER: an embeddings file or a run of this model"
)
@click.option("--against", metavar="OTHER", help="who moved from which role to which from RUN to OTHER, same model")
@click.option(
    "--out", metavar="FILE", help="table to write for --apply or --against  [default of --apply: beside OTHER]"
)
@click.option("--force", is_flag=True, help="replace the roles or the table that is there")
@global_options
@click.pass_obj
def roles(
    console: Console,
    run: str,
    k: int | str | None,
    apply: str | None,
    against: str | None,
    out: str | None,
    force: bool,
) -> None:
    """Show the roles of RUN, finding them first where it has none.

    A table comes out, and three files in RUN: roles.parquet (id, role, confidence, membership),
    roles.json (a card per role, and how their number was chosen) and roles.safetensors, by which
    the same roles are found in other vectors of the same model.

    --against gives the roles of RUN to the nodes of OTHER. A line per role: its nodes before and
    after; points, by how much its share of all nodes grew or fell, in percentage points; stayed,
    of its nodes that are in both the share that plays it still; drift, how far the middle of its
    members went, where 1 is the typical distance of a node from its role's centre; went, how many
    of its nodes went to which other role, the most first.

    \b
    rae roles runs/web
    rae roles runs/web --k 8 --force
    rae embed runs/web tomorrow.csv --out z.parquet && rae roles runs/web --apply z.parquet
    rae roles runs/web --against z.parquet
    """
    from rae.run import Run

    if apply and against:
        raise click.UsageError("--apply and --against are two questions; ask one at a time")
    if out and not (apply or against):
        raise click.UsageError("--out is for --apply and --against; the roles of RUN are written into RUN")
    console.use_threads()
    opened = Run.open(run)
    had = opened.has_roles
    found = _found(opened, k, console, force=force and not (apply or against))
    if apply:
        _apply(opened, found, apply, out, console, force=force)
    elif against:
        _compare(opened, found, against, out, console, force=force)
    else:
        record = opened.role_record()
        files = {name: n for name, n in opened.files().items() if name.startswith("roles.")}
        what = "kept in" if had and not force else "written"
        text = f"{table(record)}\n\n{what}  {opened.path} ({', '.join(files)})"
        console.result(text, {**record, "run": str(opened.path), "files": files})


def _found(run: Run, k: int | str | None, console: Console, *, force: bool) -> Roles:
    """The roles of a run: those it has, or those found now."""
    if run.has_roles and not force:
        kept = run.roles()
        if k is not None and k not in (kept.k, kept.n_roles):
            raise RunError(f"{run.path} has {kept.n_roles} roles already; pass --force to find {k} and replace them")
        return kept
    console.note("finding roles ...")
    return run.fit_roles("auto" if k is None else k)


def _check_other(run: Run, found: Roles, other: str) -> None:
    """Refuse what is neither a run nor an embeddings file, or by another model than this run's."""
    from rae.io.embeddings import embeddings_model
    from rae.run import Run

    path = Path(other)
    if path.is_dir():
        found.check_model(Run.open(path).model_checksum, other)
    elif path.is_file():
        found.check_model(embeddings_model(path), other)
    else:
        raise FileError(f"no embeddings at {other}; expected a run folder or a file that `rae embed {run.path}` wrote")


def _read(other: str) -> tuple[Any, Any]:
    """The ids and vectors of a run or of an embeddings file."""
    from rae.io import read_embeddings
    from rae.run import Run

    return Run.open(other).embeddings() if Path(other).is_dir() else read_embeddings(other)


def _apply(run: Run, found: Roles, other: str, out: str | None, console: Console, *, force: bool) -> None:
    from rae.roles.storage import write_table

    path = Path(other)
    goal = Path(out) if out else path.with_name(f"{ENDING.sub('', path.name)}.roles.parquet")
    _check_name(goal)
    _check_other(run, found, other)
    if path.is_dir() and out is None:
        _apply_inside(found, path, console, force=force)
        return
    _check_free(goal, force=force)
    ids, z = _read(other)
    assignment = found.assign(z)
    write_table(goal, ids, assignment)
    cards = run.role_record()["cards"]
    rows = [_row(c["role"], int(n), n / len(z), [c["summary"]]) for c, n in zip(cards, assignment.sizes, strict=True)]
    text = _lines(("role", "nodes", "share", "what it is in RUN"), rows, _width(), wrap=True)
    sizes = [int(n) for n in assignment.sizes]
    data = {"out": str(goal), "bytes": goal.stat().st_size, "nodes": len(z), "sizes": sizes}
    console.result(f"{text}\n\nwritten  {goal} ({size(goal.stat().st_size)})", data)


def _apply_inside(found: Roles, path: Path, console: Console, *, force: bool) -> None:
    """Give the roles to another run, with cards of its own."""
    from rae.run import Run

    target = Run.open(path)
    if target.has_roles and not force:
        raise RunError(f"{path} has roles already; pass --force to replace them, or --out FILE to write beside them")
    target.take_roles(found)
    record = target.role_record()
    console.result(f"{table(record)}\n\nwritten  {path}", {**record, "out": str(path)})


def _compare(run: Run, found: Roles, other: str, out: str | None, console: Console, *, force: bool) -> None:
    import pyarrow.parquet as pq

    from rae.roles.compare import compare
    from rae.storage.atomic import atomic_path

    if out:
        _check_name(Path(out))
    _check_other(run, found, other)
    if out:
        _check_free(Path(out), force=force)
    ids, z = run.embeddings()
    comparison = compare(found, ids, z, *_read(other))
    data = comparison.as_dict()
    text = _moved(comparison, data)
    if out:
        with atomic_path(out) as hidden:
            pq.write_table(comparison.table, hidden)
        data["out"] = out
        text += f"\n\nwritten  {out} (id, from, to)"
    console.result(text, data)


def _check_name(goal: Path) -> None:
    if goal.suffix.lower() != ".parquet":
        raise FileError(f"--out must end in .parquet, got {goal}")


def _check_free(goal: Path, *, force: bool) -> None:
    if goal.exists() and not force:
        raise FileError(f"{goal} exists; choose another --out, or pass --force to replace it")


# --------------------------------------------------------------------------------- as text


def table(record: dict[str, Any], width: int | None = None) -> str:
    """The roles of a run: a line of numbers each, and below it what its members have in common."""
    width = _width() if width is None else width
    lines = [*textwrap.wrap(record["rule"], width), ""]
    graph = any(card["structure"] for card in record["cards"])
    head = ["role", "nodes", "share", "sure"] + (["degree", "core", "inside"] if graph else []) + ["for example"]
    rows = []
    for card in record["cards"]:
        numbers = [f"{card['confidence']:.2f}"]
        if graph:
            structure, edges = card["structure"], card["edges"]
            numbers += [f"{structure[m]['quartiles'][1]:g}" if structure else "" for m in ("degree", "core")]
            numbers += [f"{100 * edges['inside']:.0f} %" if edges else ""]
        names = ", ".join(str(name) for name in card["prototypes"])
        rows.append((*_row(card["role"], card["size"], card["share"], [*numbers, names]), card["summary"]))
    lines.append(_lines(head, rows, width))
    if not graph:
        lines += ["", *textwrap.wrap("the run keeps no graph (--lean), so its cards are without structure", width)]
    return "\n".join(lines)


def _row(role: int, nodes: int, share: float, others: Sequence[str]) -> tuple[str, ...]:
    return (str(role), f"{nodes:,}", f"{100 * share:.1f} %", *others)


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, wrap: bool = False) -> str:
    """Numbers flush right, the last column of the head cut or wrapped to fit; anything beyond it below, indented."""
    n = len(head)
    wide = [max(len(head[i]), *(len(row[i]) for row in rows)) for i in range(n - 1)]
    indent = sum(wide) + 2 * len(wide)
    room = max(8, width - indent)

    def line(cells: Sequence[str]) -> str:
        fitted = textwrap.wrap(cells[n - 1], room) or [""] if wrap else [shortened(cells[n - 1], room)]
        first = "  ".join([*(cell.rjust(w) for cell, w in zip(cells, wide, strict=False)), fitted[0]]).rstrip()
        return "\n".join([first, *(" " * indent + more for more in fitted[1:])])

    out = [line(head)]
    for row in rows:
        out.append(line(row))
        for extra in row[n:]:
            out += textwrap.wrap(extra, width, initial_indent="      ", subsequent_indent="      ")
    return "\n".join(out)


def shortened(text: str, room: int) -> str:
    """The text, cut where it has more letters than there is room for.

    >>> shortened("json.decoder", 6)
    'json.…'
    """
    return text if len(text) <= room else text[: room - 1] + "…"


def _moved(comparison: Comparison, data: dict[str, Any]) -> str:
    """Who moved where, and how each role changed."""
    share = 100 * comparison.moved / max(comparison.common, 1)
    told = (
        f"{comparison.common:,} nodes in both, {comparison.moved:,} of them ({share:.1f} %) play another role; "
        f"{data['gone']:,} gone, {data['new']:,} new"
    )
    lines = [*textwrap.wrap(told, _width()), ""]
    rows = []
    for r in data["roles"]:
        change = 100 * (r["share_after"] - r["share_before"])
        stayed = "" if r["stayed"] is None else f"{100 * r['stayed']:.1f} %"
        drift = "" if r["drift"] is None else f"{r['drift']:.2f}"
        moves = sorted(
            ((n, to) for to, n in enumerate(data["moves"][r["role"]]) if to != r["role"] and n), reverse=True
        )
        went = ", ".join(f"{n:,} to {to}" for n, to in moves[:3])
        numbers = (str(r["role"]), f"{r['before']:,}", f"{r['after']:,}", f"{change:+.1f}")
        rows.append((*numbers, stayed, drift, went))
    lines.append(_lines(("role", "before", "after", "points", "stayed", "drift", "went"), rows, _width()))
    if data["movers"]:
        named = [
            (shortened(str(m["id"]), NAME), f"{m['from']} -> {m['to']}  ({m['confidence']:.2f})")
            for m in data["movers"]
        ]
        lines += ["", "surest movers", columns(named, indent="  ")]
    return "\n".join(lines)


def _width() -> int:
    return max(NARROWEST, min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns))
