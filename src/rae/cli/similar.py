"""`rae similar`: who else is like this node."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import Console, columns, global_options
from rae.errors import FileError

if TYPE_CHECKING:
    from rae.run import Run
    from rae.search import Similar


@click.command(short_help="the nodes most alike to a node")
@click.argument("run", metavar="RUN")
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@click.option("-k", "k", type=click.IntRange(min=1), default=10, show_default=True, help="how many look-alikes")
@click.option("--in", "other", metavar="OTHER", help="look in OTHER: a run or an embeddings file of the same model")
@click.option("--approximate", is_flag=True, help="search by an index, which pays off for thousands of ids at once")
@global_options
@click.pass_obj
def similar(console: Console, run: str, ids: tuple[str, ...], k: int, other: str | None, approximate: bool) -> None:
    """Show the nodes whose vectors point the same way as that of ID, nearest first, with the cosine.

    The search is exact, but for more than 200,000 nodes and 5,000 ids at once: then an index
    answers, and says how many of the true nearest it finds.

    \b
    rae similar runs/web home
    rae similar runs/users 4711 4712 -k 5 --json
    rae similar runs/web home --in tomorrow.parquet
    """
    from rae.run import Run
    from rae.search import similar_to_each

    console.use_threads()
    opened = Run.open(run)
    among = None if other is None else _among(opened, other)
    method = "approximate" if approximate else "auto"
    found = similar_to_each(opened, ids, k, among=among, method=method)
    roles = _roles(opened if other is None else among)
    console.result("\n\n".join(_told(s, roles, inside=other is None) for s in found), _data(found, roles))


def _among(run: Run, other: str) -> Any:
    """The run, or the pair of ids and vectors, to look in; vectors of another model are refused."""
    from rae.errors import RunError
    from rae.io import read_embeddings
    from rae.io.embeddings import embeddings_model
    from rae.run import Run

    if Path(other).is_dir():
        return Run.open(other)
    if not Path(other).is_file():
        raise FileError(f"no embeddings at {other}; expected a run folder or a file that `rae embed {run.path}` wrote")
    made_by = embeddings_model(other)
    if made_by is not None and made_by != run.model_checksum:
        raise RunError(f"{other} was made by another model, so its vectors cannot be compared with those of {run.path}")
    return read_embeddings(other)


def _roles(where: Any) -> dict[Any, int]:
    """The role of each id, where the run has roles; a pair of ids and vectors has none."""
    if not getattr(where, "has_roles", False):
        return {}
    ids, role, _, _ = where.role_table()
    return dict(zip(ids.to_pylist(), role.tolist(), strict=True))


def _told(found: Similar, roles: dict[Any, int], *, inside: bool) -> str:
    played = f" (role {roles[found.id]})" if inside and found.id in roles else ""
    head = f"most alike to {found.id}{played}"
    if found.method != "exact":
        head += f", by an index that finds {100 * found.recall:.1f} % of the true nearest"
    rows = [
        (str(name), f"{cosine:.4f}" + (f"  role {roles[name]}" if name in roles else ""))
        for name, cosine in found.matches
    ]
    return f"{head}\n{columns(rows, indent='  ')}"


def _data(found: list[Similar], roles: dict[Any, int]) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        return value if isinstance(value, int | str | float) else str(value)

    return {
        "method": found[0].method,
        "recall": round(found[0].recall, 4),
        "similar": [
            {
                "id": plain(s.id),
                "matches": [
                    {"id": plain(name), "cosine": round(cosine, 6)} | ({"role": roles[name]} if name in roles else {})
                    for name, cosine in s.matches
                ],
            }
            for s in found
        ],
    }
