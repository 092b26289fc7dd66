"""`rae roles`: the roles of a run, the same roles in other vectors, and who changed role."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import (
    ID_WIDTH,
    Console,
    columns,
    global_options,
    shorten,
    size,
    text_table,
    text_width,
    write_table_of,
)
from rae.cli.options import cluster_options, weights_option
from rae.config import VIEWS

if TYPE_CHECKING:
    from rae.roles import LabelTable
    from rae.roles.compare import Comparison
    from rae.run import Run

UNBROKEN = "\ufffc"  # stands for a space at which no line ends
ROOM_FOR_NAMES = 30  # columns that the names of prototypes need beside the numbers; else they get a line
NAMED_LABELS, LABEL_WIDTH = 12, 32  # labels of a role in the terminal, and characters of each


def _parse_k(_: click.Context, __: click.Parameter, value: str | None) -> int | str | None:
    if value is None or value == "auto":
        return value
    if not (value.isascii() and value.isdigit()) or int(value) < 1:
        raise click.BadParameter(f"expected auto or a whole number of 1 or more, got {value!r}")
    return int(value)


@click.command(short_help="find and show the roles of a run")
@click.argument("run", metavar="RUN")
@click.option("--k", "k", callback=_parse_k, default=None, metavar="auto|N", help="how many roles  [default: auto]")
@weights_option()
@click.option("--labels", metavar="FILE", help="a table of labels: show how often each role has each")
@click.option("--label-column", metavar="NAME", help="the column of --labels  [default: the first but the id]")
@click.option("--id-column", metavar="NAME", help="the column of --labels that holds the node's id")
@click.option(
    "--apply", metavar="OTHER", help="assign the same roles in OTHER: an embeddings file or a run of this model"
)
@click.option("--against", metavar="OTHER", help="compare RUN with OTHER, of the same model: who changed role")
@click.option("--reliability", is_flag=True, help=f"how sure the role of each node is: {VIEWS} passes over the graph")
@click.option(
    "--out",
    metavar="FILE",
    help="table to write for --apply, --against or --reliability  [default of --apply: beside OTHER]",
)
@click.option("--force", is_flag=True, help="replace existing roles or an existing table")
@cluster_options
@global_options
@click.pass_obj
def roles(
    console: Console,
    run: str,
    k: int | str | None,
    weights: str | None,
    labels: str | None,
    label_column: str | None,
    id_column: str | None,
    apply: str | None,
    against: str | None,
    reliability: bool,
    out: str | None,
    force: bool,
    ray: str | None,
    ray_cores: int | None,
) -> None:
    """Show the roles of RUN; find them first if it has none.

    Prints a table and writes three files into RUN: roles.parquet (id, role, confidence,
    membership), roles.json (a card per role, and how their number was chosen) and
    roles.safetensors, which assigns the same roles to other vectors of the same model.

    The number of roles is the number of exact positions where these are few, else the number of
    clusters that two halves of the nodes agree on; the first line says so, and says where that
    number is a weak choice. --k N sets it.

    --labels shows, for each role, its labels with their counts, their share, and the lift: 2x is
    twice as common as among all nodes. Labels never influence the roles.

    --against assigns the roles of RUN to the nodes of OTHER. A line per role: its nodes before
    and after; points, the change of its share of all nodes, in percentage points; stayed, the
    share of its nodes in both that keep the role; drift, the distance between the means of its
    members, where 1 is the typical distance of a node from its role's centre; went, how many of
    its nodes went to which other role, the most first.

    --reliability says how sure the roles are: 0.9 means that of such nodes nine in ten keep their
    role when a tenth of the edges is dropped and as many random ones are added. --out writes it for
    every node: id, role, confidence, reliability, kept, spread, degree, distance.

    \b
    rae roles runs/web
    rae roles runs/web --k 8 --force
    rae roles runs/web --reliability --out sure.parquet
    rae roles runs/users --weights place=1,own=0.3 --force
    rae roles runs/users --labels users.csv --label-column country
    rae embed runs/web tomorrow.csv --whole --out z.parquet && rae roles runs/web --apply z.parquet
    rae roles runs/web --against z.parquet
    rae roles /shared/runs/network --ray auto
    """
    from rae.run import Run

    if bool(apply) + bool(against) + reliability > 1:
        raise click.UsageError("--apply, --against and --reliability exclude each other; pass one at a time")
    if out and not (apply or against or reliability):
        raise click.UsageError(
            "--out is for --apply, --against and --reliability; the roles of RUN are written into RUN"
        )
    if labels is None and (label_column or id_column):
        raise click.UsageError("--label-column and --id-column say how --labels is read, but there is no --labels")
    if ray and (apply or against or reliability):
        raise click.UsageError("--ray is for finding roles; leave out --apply, --against and --reliability")
    if labels and (apply or against or reliability):
        raise click.UsageError("--labels is about the roles of RUN; leave out --apply, --against and --reliability")
    console.use_threads()
    opened = Run.open(run)
    had_roles = opened.has_roles
    anew = force and not (apply or against or reliability)
    _find(opened, k, weights, console, force=anew, ray=ray, ray_cores=ray_cores)
    if apply:
        _apply(opened, apply, out, console, force=force)
    elif against:
        _compare(opened, against, out, console, force=force)
    elif reliability:
        _show_reliability(opened, out, console, force=force)
    else:
        record = opened.role_record()
        opened.warn_of_old_cards()
        files = {name: n for name, n in opened.files().items() if name.startswith("roles.")}
        action = "kept in" if had_roles and not force else "written"
        text, data = table(record), {**record, "run": str(opened.path), "files": files}
        if labels:
            label_counts = opened.label_table(labels, label_column, id_column=id_column)
            text, data = f"{text}\n\n{label_text(label_counts)}", data | {"labels": label_counts.as_dict()}
        console.result(f"{text}\n\n{action}  {opened.path} ({', '.join(files)})", data)


def _find(run: Run, k: int | str | None, weights: str | None, console: Console, *, force: bool, **cluster: Any) -> None:
    """Find the roles of a run, unless it has them."""
    if run.has_roles and not force:
        run.roles(k, weights=weights)  # refuses others than these
        return
    console.note("finding roles ...")
    run.fit_roles("auto" if k is None else k, weights=weights, **cluster)


def _apply(run: Run, other: str, out: str | None, console: Console, *, force: bool) -> None:
    """Assign the roles of a run to other vectors, and show how many nodes play each."""
    from rae.run import Run

    applied = run.apply_roles(other, out, force=force)
    if applied.path.is_dir():
        record = Run.open(applied.path).role_record()
        console.result(f"{table(record)}\n\nwritten  {applied.path}", {**record, "out": str(applied.path)})
        return
    n, n_bytes, cards = sum(applied.sizes), applied.path.stat().st_size, run.role_record()["cards"]
    rows = [_row(c["role"], count, count / n, [c["summary"]]) for c, count in zip(cards, applied.sizes, strict=True)]
    text = text_table(("role", "nodes", "share", "what it is in RUN"), rows, text_width(), wrap=True)
    data = {"out": str(applied.path), "bytes": n_bytes, "nodes": n, "sizes": list(applied.sizes)}
    console.result(f"{text}\n\nwritten  {applied.path} ({size(n_bytes)})", data)


def _compare(run: Run, other: str, out: str | None, console: Console, *, force: bool) -> None:
    """Show which nodes changed role from a run to other vectors."""
    from rae.io.tables import check_table_free

    vectors = run.same_model(other)
    if out:
        check_table_free(out, force=force)
    comparison = run.compare_roles(vectors)
    data = comparison.as_dict()
    text = comparison_table(comparison, data)
    console.result(text + write_table_of(comparison, out, data), data)


def _show_reliability(run: Run, out: str | None, console: Console, *, force: bool) -> None:
    """Show how sure the roles of a run are, and write it for every node."""
    from rae.io.tables import check_table_free

    if out:
        check_table_free(out, force=force)
    with console.progress() as progress:
        reliability = run.reliability(progress=progress or False)
    data = reliability.as_dict()
    console.result(f"{reliability}{write_table_of(reliability, out, data)}", data)


# ------------------------------------------------------------------------------------ text


def table(record: dict[str, Any], width: int | None = None) -> str:
    """The roles of a run as text: a line of numbers per role, its summary below."""
    from rae.roles.cards import prototype_names

    width = text_width() if width is None else width
    rule = record["rule"] + ("; --k N sets the number" if record.get("weak") else "")
    lines = [*textwrap.wrap(rule, width), ""]
    has_graph = any(card["structure"] for card in record["cards"])
    head = ["role", "nodes", "share", "sure"] + (["degree", "core", "inside"] if has_graph else []) + ["for example"]
    rows = []
    for card in record["cards"]:
        numbers = [f"{card['confidence']:.2f}"]
        if has_graph:
            structure, edges = card["structure"], card["edges"]
            numbers += [f"{structure[m]['quartiles'][1]:g}" if structure else "" for m in ("degree", "core")]
            numbers += [f"{100 * edges['inside']:.0f} %" if edges else ""]
        names = ", ".join(prototype_names(card))
        rows.append((*_row(card["role"], card["size"], card["share"], [*numbers, names]), card["summary"]))
    if width - sum(max(len(row[i]) for row in [head, *rows]) + 2 for i in range(len(head) - 1)) < ROOM_FOR_NAMES:
        head, n = head[:-1], len(head) - 1
        rows = [(*row[:n], row[-1], shorten(f"for example {row[n]}", 2 * width - 14)) for row in rows]
    lines.append(text_table(head, rows, width))
    if not has_graph:
        lines += ["", *textwrap.wrap("the run keeps no graph (--lean), so its cards have no structure", width)]
    return "\n".join(lines)


def label_text(label_counts: LabelTable, width: int | None = None) -> str:
    """The labels of each role, the highest lift first, a few lines per role.

    >>> from rae.roles.labels import label_table
    >>> print(label_text(label_table([0, 0, 1, 1], ["a", "a", "b", "a"], 2), 60))
    label by role: nodes, share of the role, lift
    role  labels
       0  a 2 (100 %, 1.3x)
       1  b 1 (50 %, 2.0x), a 1 (50 %, 0.7x)
    """
    width = text_width() if width is None else width
    share, lift, rows = label_counts.share, label_counts.lift, []
    for role, counts in enumerate(label_counts.counts):
        order = sorted((i for i, count in enumerate(counts) if count), key=lambda i: (-lift[role, i], i))
        cells = []
        for i in order[:NAMED_LABELS]:
            numbers = f"({100 * share[role, i]:.0f} %, {lift[role, i]:.1f}x)"
            cells.append(
                f"{shorten(label_counts.labels[i], LABEL_WIDTH)} {counts[i]:,} {numbers}".replace(" ", UNBROKEN)
            )
        cells += [f"and {len(order) - NAMED_LABELS:,} more labels"] if len(order) > NAMED_LABELS else []
        cells += [f"{label_counts.unlabelled[role]:,} without a label"] if label_counts.unlabelled[role] else []
        rows.append((str(role), ", ".join(cells) or "no nodes"))
    head = textwrap.wrap(f"{label_counts.column} by role: nodes, share of the role, lift", width)
    return "\n".join([*head, text_table(("role", "labels"), rows, width, wrap=True).replace(UNBROKEN, " ")])


def _row(role: int, nodes: int, share: float, others: Sequence[str]) -> tuple[str, ...]:
    return (str(role), f"{nodes:,}", f"{100 * share:.1f} %", *others)


def comparison_table(comparison: Comparison, data: dict[str, Any]) -> str:
    """The counts of a comparison, a line per role, and the surest movers, as text."""
    share = 100 * comparison.moved / max(comparison.common, 1)
    counts = (
        f"{comparison.common:,} nodes in both, {comparison.moved:,} of them ({share:.1f} %) play another role; "
        f"{data['gone']:,} gone, {data['new']:,} new"
    )
    lines = [*textwrap.wrap(counts, text_width()), ""]
    rows = []
    for r in data["roles"]:
        points = 100 * (r["share_after"] - r["share_before"])
        stayed = "" if r["stayed"] is None else f"{100 * r['stayed']:.1f} %"
        drift = "" if r["drift"] is None else f"{r['drift']:.2f}"
        moves = sorted(
            ((n, to) for to, n in enumerate(data["moves"][r["role"]]) if to != r["role"] and n), reverse=True
        )
        went = ", ".join(f"{n:,} to {to}" for n, to in moves[:3])
        numbers = (str(r["role"]), f"{r['before']:,}", f"{r['after']:,}", f"{points:+.1f}")
        rows.append((*numbers, stayed, drift, went))
    lines.append(text_table(("role", "before", "after", "points", "stayed", "drift", "went"), rows, text_width()))
    if data["movers"]:
        movers = [
            (shorten(str(m["id"]), ID_WIDTH), f"{m['from']} -> {m['to']}  ({m['confidence']:.2f})")
            for m in data["movers"]
        ]
        lines += ["", "surest movers", columns(movers, indent="  ")]
    return "\n".join(lines)
