"""`rae similar`: who else is like this node."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from rae.cli.console import ID_WIDTH, Console, columns, global_options, shorten, text_width
from rae.cli.options import weights_option
from rae.display import printable

if TYPE_CHECKING:
    from rae.search import Similar


NEGATIVE = re.compile(r"-\d")
ESCAPE = "\0"  # before an argument that is no option; no argument of a program has this character


class NegativeIds(click.Command):
    """A command whose ids may be negative numbers; other ids that begin with a dash go after --."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        takes_value = {name for p in self.params if isinstance(p, click.Option) and not p.is_flag for name in p.opts}
        end = args.index("--") if "--" in args else len(args)
        for i, text in enumerate(args[:end]):
            if NEGATIVE.match(text) and (i == 0 or args[i - 1] not in takes_value):
                args[i] = ESCAPE + text
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            near = f"did you mean {error.possibilities[0]}?" if error.possibilities else "an id that begins with -"
            after = "" if error.possibilities else f" goes after --, as in: {ctx.command_path} RUN -- ID"
            raise click.UsageError(f"no option {error.option_name}; {near}{after}", ctx) from None


def unescaped(_: click.Context, __: click.Parameter, value: Any) -> Any:
    """The arguments as they were typed."""
    return value.removeprefix(ESCAPE) if isinstance(value, str) else tuple(text.removeprefix(ESCAPE) for text in value)


@click.command(cls=NegativeIds, short_help="the nodes most alike to a node")
@click.argument("run", metavar="RUN", callback=unescaped)
@click.argument("ids", metavar="ID...", nargs=-1, required=True, callback=unescaped)
@click.option("-k", "k", type=click.IntRange(min=1), default=10, show_default=True, help="how many look-alikes")
@click.option("--in", "other", metavar="OTHER", help="look in OTHER: a run or an embeddings file of the same model")
@weights_option()
@click.option("--approximate", is_flag=True, help="search by an index, which pays off for thousands of ids at once")
@global_options
@click.pass_obj
def similar(
    console: Console,
    run: str,
    ids: tuple[str, ...],
    k: int,
    other: str | None,
    weights: str | None,
    approximate: bool,
) -> None:
    """Show the nodes whose vectors are nearest to that of ID, with their distance: 0 is the same
    vector, 1 as far apart as two nodes taken at random.

    ID is a node of RUN, or its display name. RUN may be an embeddings file too: so a node that only tomorrow's graph
    has is compared with the nodes of the run that embedded it.

    The search is exact, but for more than 200,000 nodes and 5,000 ids at once: then an index
    answers, and says how many of the true nearest it finds.

    \b
    rae similar runs/web home
    rae similar runs/users 4711 4712 -k 5 --json
    rae similar runs/users 4711 --weights place=1,own=0.3
    rae similar runs/web home --in tomorrow.parquet
    rae similar tomorrow.parquet newcomer --in runs/web
    """
    from rae.run import Run, open_vectors
    from rae.search import similar_to_each

    console.use_threads()
    source, among = open_vectors(run), None if other is None else open_vectors(other)
    method = "approximate" if approximate else "auto"
    answers = similar_to_each(source, ids, k, among=among, weights=weights, method=method)
    searched = source if among is None else among
    shown = [id for answer in answers for id in (answer.id, *(id for id, _ in answer.matches))]
    roles = searched.roles_of(shown) if isinstance(searched, Run) else {}  # a file of vectors has none
    text = "\n\n".join(_as_text(answer, roles, inside=other is None) for answer in answers)
    console.result(text, _as_data(answers, roles))


def _with_name(id: Any, name: str | None) -> str:
    return printable(str(id) if name is None or name == str(id) else f"{name} ({id})")


def _as_text(answer: Similar, roles: dict[Any, int], *, inside: bool) -> str:
    played = f" (role {roles[answer.id]})" if inside and answer.id in roles else ""
    head = f"most alike to {_with_name(answer.id, answer.name)}{played}"
    if answer.method != "exact":
        head += f", by an index that finds {100 * answer.recall:.1f} % of the true nearest"
    width = min(ID_WIDTH, text_width() - 18)
    rows = [
        (shorten(_with_name(id, name), width), f"{distance:.3f}" + (f"  role {roles[id]}" if id in roles else ""))
        for id, distance, name in _matches(answer)
    ]
    return f"{head}\n{columns(rows, indent='  ')}"


def _matches(answer: Similar) -> list[tuple[Any, float, str | None]]:
    """Each match with its display name."""
    names = answer.names or [None] * len(answer.matches)
    return [(id, distance, name) for (id, distance), name in zip(answer.matches, names, strict=True)]


def _as_data(answers: list[Similar], roles: dict[Any, int]) -> dict[str, Any]:
    from rae.graph.ids import json_id

    return {
        "method": answers[0].method,
        "recall": round(answers[0].recall, 4),
        "similar": [
            {
                "id": json_id(s.id),
                **({} if s.name is None else {"name": s.name}),
                "matches": [
                    {"id": json_id(id), "distance": round(distance, 6)}
                    | ({"role": roles[id]} if id in roles else {})
                    | ({} if name is None else {"name": name})
                    for id, distance, name in _matches(s)
                ],
            }
            for s in answers
        ],
    }
