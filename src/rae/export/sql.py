"""A fitted model as SQL that DuckDB runs over a table of edges, and one of features where the model reads some."""

from __future__ import annotations

import textwrap
from pathlib import Path

from rae.errors import Argument, ConfigError, RaeError
from rae.estimator import UNITS
from rae.export import sql_exact, sql_text, sql_trained
from rae.export.contract import PART_OF_A_GRAPH, Options, Written, check_new_file
from rae.graph.channels import kinds_of
from rae.model.channels import in_words
from rae.model.checkpoint import Fitted
from rae.model.exact import ExactModel
from rae.model.structure import SAMPLE
from rae.run import Run
from rae.storage.atomic import write_text
from rae.version import __version__

OLDEST = "1.3"  # of DuckDB: recursive queries with keys


def write(run: Run, target: str, options: Options) -> Written:
    """Write the model of a run as one file of SQL."""
    path = Path(target)
    check_new_file(path, options.force)
    model = run.model().fitted
    units = chosen_units(run, model, options.units)
    write_text(path, script(model, units))
    notes = []
    if units == "graph" and isinstance(model, ExactModel) and run.counts["nodes"] > SAMPLE:
        notes.append(
            f"the center of `place` is the mean over all nodes, and that of the run over {SAMPLE:,} of them: all "
            "vectors are moved by the same small amount"
        )
    return Written("sql", str(path), files=(path,), notes=tuple(notes))


def chosen_units(run: Run, model: Fitted, units: str | None) -> str:
    """The units of the SQL: those asked for, else those by which the run's own edges give the run's vectors."""
    if units is not None and units not in UNITS:
        raise ConfigError(Argument("units"), f" must be one of {', '.join(map(repr, UNITS))}, got {units!r}")
    if units is not None:
        return units
    relative = isinstance(model, ExactModel) and model.config.relative
    return "graph" if relative and not run.n_updates else "fit"  # an updated run keeps the units of its fit


def script(model: Fitted, units: str) -> str:
    """The statements, from the user's tables to the temporary table `rae_vectors`.

    A model that samples neighbours is refused: SQL would sample other ones.
    """
    refuse(model)
    reads_features = not model.structural
    body = sql_exact.statements(model, units) if isinstance(model, ExactModel) else sql_trained.statements(model)
    channels, weighted = (model.channels, model.weighted) if isinstance(model, ExactModel) else ((), False)
    edges = sql_text.edges_with(weighted, bool(kinds_of(channels))) if channels else sql_text.EDGES
    parts = [header(model, units), edges]
    if reads_features:
        parts.append(sql_text.FEATURES)
    return "\n".join([*parts, sql_text.graph(reads_features, channels, weighted), *body])


def refuse(model: Fitted) -> None:
    """Refuse a model that reads neighbours drawn at random, which are not the same for SQL."""
    if isinstance(model, ExactModel):
        return
    sampled = {"inference": "sampled", "degree_above_cap": "random"}
    for name, value in sampled.items():
        if getattr(model.config, name) == value:
            raise RaeError(
                f"SQL computes what is the same every time, and this model was fitted with {name}={value!r}, which "
                "draws neighbours at random; fit it with the default of that setting"
            )


def _more_of_edges(model: Fitted) -> str:
    if not isinstance(model, ExactModel) or not model.channels:
        return ""
    more = [*(["its weight"] if model.weighted else []), *(["its kind"] if kinds_of(model.channels) else [])]
    return "".join(f", {what}" for what in more) + f"; edges are {in_words(model.channels, model.weighted)}"


def header(model: Fitted, units: str) -> str:
    """The comments at the top: what the file is, its input tables and its result."""
    blocks = ", ".join(f"{b.name} {b.start + 1}..{b.stop}" for b in model.blocks)
    lines = [
        f"Vectors of graph nodes by a fitted model, for DuckDB {OLDEST} or newer. Written by rae {__version__}.",
        "",
        "reads    edges (its first columns: the ends of an edge" + _more_of_edges(model) + ")",
    ]
    if not model.structural:
        lines.append("         features (its first three columns: id, name of the feature, value)")
    lines += [
        "makes    rae_vectors (id, embedding), a temporary table; nothing else of yours is touched",
        f"columns  {blocks}, of embedding, counted from 1",
    ]
    if isinstance(model, ExactModel) and model.structure is not None:
        whose = "the graph in `edges`" if units == "graph" else "the graph of the fit"
        lines.append(f"units    of {whose}")
    lines.append(f"cut      {PART_OF_A_GRAPH}")
    lines += [
        "",
        'run it   duckdb my.duckdb -c ".read model.sql" -c "COPY rae_vectors TO \'vectors.parquet\'"',
        "",
        'Symbols are those of the documentation, "What is in a vector" and "The paper and this code".',
    ]
    wrapped = [part for line in lines for part in (textwrap.wrap(line, 110, subsequent_indent=" " * 9) or [""])]
    return "\n".join(f"-- {line}".rstrip() for line in wrapped) + "\n"
