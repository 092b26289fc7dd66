"""From an edge file of any size to a graph folder, in bounded memory."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from rae.errors import Argument, ConfigError
from rae.graph import Graph
from rae.graph.folder import INFO, open_graph
from rae.graph.folder_builder import check_free_store, check_writable, discard_build
from rae.graph.id_numbering import Report
from rae.graph.row_order import ORDERS
from rae.io.edges import open_edges
from rae.reading import EdgeOptions
from rae.storage.objects import ObjectPath, place
from rae.storage.scratch import scratch_folder

log = logging.getLogger("rae")


def build_graph_folder(
    edges: str | os.PathLike[str],
    path: str | os.PathLike[str],
    *,
    order: str = "none",
    force: bool = False,
    report: Report | None = None,
    **options: Any,
) -> Graph:
    """The graph of an edge file, built on this machine and opened from the folder `path` that it was written to.

    The folder is what `write_graph` writes of what `read_edges` reads, byte for byte, but the whole is
    never in memory. `options` say how the file is read, as in `read_edges`.
    `order="locality"` puts rows that are near each other in the graph near each other in memory, which makes embedding
    faster; ids stay what they are. `force` replaces a graph folder that is there. Both may be in an object store.
    """
    reading = EdgeOptions.of(options)
    where = place(path)
    if isinstance(where, ObjectPath):
        check_free_store(where, force)
        with scratch_folder() as scratch:
            build_graph_folder(edges, scratch / "graph", order=order, report=report, **options)
            where.upload_folder(scratch / "graph", INFO)
        return open_graph(path)
    folder = Path(path)
    discard_build(folder)
    check_writable(folder, force)
    if order not in ORDERS:
        raise ConfigError(Argument("order"), f" must be one of {', '.join(ORDERS)}, got {order!r}")
    opened = open_edges(edges, reading)
    if (suggestion := opened.suggestion) is not None:
        log.info(suggestion)
    return opened.build(folder, order=order, force=force, report=report)
