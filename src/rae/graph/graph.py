"""Graph: an immutable graph in compressed rows, with the user's own ids.

The rows are undirected: who is connected with whom. Weights, directions and kinds of the edges are channels, arrays
parallel to them (`rae.graph.channels`).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rae import display
from rae.errors import GraphError, needed_library
from rae.graph.builder import Batch, Rows, build_numbered, build_rows, in_batches, refuse_doubled
from rae.graph.channels import (
    OUT,
    EdgeValues,
    Floats,
    check_channels,
    checked_weights,
    is_directed,
    kind_column,
    kinds_of,
    mirrored,
    split_name,
)
from rae.graph.csr_writer import Counts, MemorySink
from rae.graph.given_edges import frame_columns, two_columns
from rae.graph.id_numbering import ONE_KIND, index_type
from rae.graph.ids import cast_to_kind, distinct, find_sorted, id_array, index_in, positions_in, shown, sorting_order
from rae.memory import mapped
from rae.ops.sampling import adjacent
from rae.reading import EdgeOptions

if TYPE_CHECKING:
    import scipy.sparse as sp

Ints = np.ndarray[Any, np.dtype[np.integer[Any]]]
A = TypeVar("A", bound=np.ndarray[Any, Any])

FEW, MANY = 1024, 4096  # ids that are looked up one by one, in graphs of more nodes than MANY


class Arcs(NamedTuple):
    """Edges of a graph: each direction and kind once, an undirected edge once, with source < target."""

    source: Ints  # rows
    target: Ints
    weight: Floats
    kind: Ints  # place in `Graph.kinds`; 0 where edges have none


@dataclass(frozen=True, eq=False)
class Graph:
    """A graph without loops or doubled edges; row i is the node `ids[i]`.

    Rows are undirected. `channels` are the weights of the edges by direction and kind, one for each stored neighbour,
    in the order of `targets`; empty for a plain graph.

    >>> g = Graph.from_edges([("ann", "bob"), ("bob", "cid")])
    >>> g.n_nodes, g.n_edges, list(g.ids)
    (3, 2, ['ann', 'bob', 'cid'])
    """

    offsets: Ints  # (n + 1,) int64
    targets: Ints  # (2 m,) int32, sorted within a row
    id_column: pa.Array  # (n,) the ids, exactly as Arrow holds them
    counts: Counts = field(default_factory=Counts)
    channels: Mapping[str, Floats] = field(default_factory=dict)  # (2 m,) float32 each
    weighted: bool = False  # whether the weights in the channels are more than 1 for "there is an edge"
    doubled: str | None = None  # how doubled edges were merged where weights were not added: "count" or "max"
    reach: Ints | None = None  # (n,) of an ego graph: within so many edges of a row nothing is missing
    is_whole: bool = field(default=False, init=False)  # complete, but for what `reach` says; see `as_whole`
    fitted_on: str = field(default="", init=False)  # digest of the fit of its run: complete for models of that fit

    def __post_init__(self) -> None:
        """Refuse arrays that do not make a graph: the hot loops do not check what they read."""
        offsets, targets = self.offsets, self.targets
        fits = (
            offsets.dtype == np.int64
            and targets.dtype in (np.int32, np.int64)
            and offsets.ndim == targets.ndim == 1
            and len(offsets) == len(self.id_column) + 1
            and int(offsets[0]) == 0
            and int(offsets[-1]) == len(targets)
            and (self.reach is None or self.reach.shape == (len(self.id_column),))
        )
        if fits and mapped(targets) is None:  # those of a folder are checked when it is opened
            fits = bool((offsets[1:] >= offsets[:-1]).all()) and (
                len(targets) == 0 or (int(targets.min()) >= 0 and int(targets.max()) < len(self.id_column))
            )
        if not fits:
            raise GraphError(
                f"offsets must be int64 from 0 to {len(targets):,}, one more than the {len(self.id_column):,} ids, and "
                f"targets int32 or int64 rows, got {offsets.dtype} {offsets.shape}, {targets.dtype} {targets.shape}; "
                "Graph.from_edges makes a graph"
            )
        check_channels(self.channels, len(targets))
        object.__setattr__(self, "channels", MappingProxyType(dict(self.channels)))

    def __getstate__(self) -> dict[str, Any]:
        """The fields to pickle."""
        return {**self.__dict__, "channels": dict(self.channels)}

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        self.__dict__.update(state, channels=MappingProxyType(state["channels"]))

    # -------------------------------------------------------------------------- reading it

    @property
    def n_nodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_edges(self) -> int:
        """Undirected edges, each counted once."""
        return len(self.targets) // 2

    @property
    def directed(self) -> bool:
        """Whether the edges have a direction; the rows themselves do not."""
        return is_directed(tuple(self.channels))

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the edges, ascending; empty where they have none."""
        return kinds_of(self.channels)

    @property
    def arrays(self) -> tuple[np.ndarray[Any, Any], ...]:
        """The arrays of the rows: offsets, targets and channels."""
        return (self.offsets, self.targets, *self.channels.values())

    def as_whole(self) -> Graph:
        """This graph, known to be no part of a larger one but for what `reach` says; what is made of it is not."""
        return self._known(is_whole=True)

    def as_known_to(self, fitted_on: str) -> Graph:
        """This graph, known to the models whose fit has this digest to be no part of a larger one."""
        return self._known(fitted_on=fitted_on)

    def as_known_as(self, graph: Graph) -> Graph:
        """This graph, known to be no part of a larger one wherever another one is."""
        return self._known(is_whole=graph.is_whole, fitted_on=graph.fitted_on)

    def _known(self, **fields: Any) -> Graph:
        graph = copy.copy(self)
        for name, value in fields.items():
            object.__setattr__(graph, name, value)
        return graph

    def reverse(self) -> Graph:
        """The graph with every edge the other way round; an undirected one as it is.

        >>> Graph.from_edges([("ann", "bob")], directed=True).reverse().to_arrow().to_pylist()
        [{'source': 'bob', 'target': 'ann'}]
        """
        return replace(self, channels={name: self.channels[mirrored(name)] for name in self.channels})

    @cached_property
    def ids(self) -> np.ndarray[Any, Any]:
        """The ids in row order, as NumPy holds them (text and other kinds as Python objects, lists as tuples)."""
        kind = self.id_column.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
            return _read_only(self.id_column.to_numpy(zero_copy_only=False))
        return _read_only(np.fromiter(map(_hashable, self.id_column.to_pylist()), object, self.n_nodes))

    @property
    def resident_bytes(self) -> int:
        """Bytes of the arrays that are in memory and not mapped."""
        return sum(int(array.nbytes) for array in self.arrays if mapped(array) is None) + int(self.id_column.nbytes)

    @cached_property
    def degrees(self) -> Ints:
        """(n,) number of neighbours of each node."""
        return _read_only(np.diff(self.offsets))

    @cached_property
    def measures(self) -> dict[str, Any]:
        """The cache of `rae.features.measures`, by name."""
        return {}

    @property
    def n_isolated(self) -> int:
        """Nodes without a neighbour."""
        return int(np.count_nonzero(self.degrees == 0))

    def neighbors(self, row: int) -> Ints:
        """N(u): the rows adjacent to this row, ascending."""
        if not -self.n_nodes <= row < self.n_nodes:
            raise GraphError(f"row must be below {self.n_nodes:,}, got {row}; use rows([id]) to look an id up")
        row %= self.n_nodes
        return self.targets[self.offsets[row] : self.offsets[row + 1]]

    def rows(self, ids: Any) -> Ints:
        """The rows of these ids, in their order; an unknown id is refused."""
        column = id_array(ids)
        rows = self.find(column)
        if len(rows) and int(rows.min()) < 0:
            missing = column.filter(pa.array(rows < 0))
            raise GraphError(
                f"{len(missing):,} of {len(column):,} ids are not in the graph, first {shown(missing)}; "
                f"ids here are {self.id_column.type}"
            )
        return rows

    def find(self, ids: pa.Array) -> Ints:
        """The rows of these ids, -1 for an unknown one."""
        few = len(ids) <= FEW and self.n_nodes > MANY
        rows = find_sorted(ids, self.id_column, self._order_of_ids) if few else None
        return positions_in(ids, self.id_column) if rows is None else rows

    @cached_property
    def _order_of_ids(self) -> Ints | None:
        return sorting_order(self.id_column)

    def adjacent(self, us: Ints, vs: Ints) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each pair of rows shares an edge.  (b,), (b,) -> (b,)"""
        us, vs = self.checked_rows(us), self.checked_rows(vs)
        if us.ndim != 1 or us.shape != vs.shape:
            raise GraphError(f"both must be equally many rows, got shapes {us.shape} and {vs.shape}")
        return adjacent(self.offsets, self.targets, us, vs)

    def checked_rows(self, rows: Any) -> Ints:
        """The row numbers as int64, refused where one is not a row of this graph."""
        numbers = np.ascontiguousarray(rows, np.int64)
        if numbers.size and not (int(numbers.min()) >= 0 and int(numbers.max()) < self.n_nodes):
            wrong = numbers[(numbers < 0) | (numbers >= self.n_nodes)][0]
            raise GraphError(
                f"rows must be from 0 to {self.n_nodes - 1:,}, got {wrong:,}; use rows([id]) to look an id up"
            )
        return numbers

    def edges(self) -> Ints:
        """Every undirected edge once, as two rows u < v, ascending.  -> (m, 2)

        >>> Graph.from_edges([("ann", "bob"), ("cid", "bob")]).edges().tolist()
        [[0, 1], [1, 2]]
        """
        sources = self._sources()
        once = sources < self.targets
        return np.stack([sources[once], self.targets[once]], axis=1)

    def arcs(self) -> Arcs:
        """Every edge as it was given: with its direction, its kind and its weight, or 1 where none was given.

        >>> Graph.from_edges([("bob", "ann"), ("bob", "ann")], directed=True, weight=[2, 3]).arcs().weight.tolist()
        [5.0]
        """
        sources, parts = self._sources(), []
        ways = [name for name in self.channels if split_name(name)[0] == OUT] or list(self.channels)
        for place, name in enumerate(ways or [""]):
            weights = self.channels.get(name)
            chosen = sources < self.targets if not self.directed else np.ones(len(sources), np.bool_)
            if weights is not None:
                chosen &= weights > 0
            values = np.ones(int(chosen.sum()), np.float32) if weights is None else weights[chosen]
            parts.append((sources[chosen], self.targets[chosen], values, np.full(len(values), place)))
        return Arcs(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))

    def _sources(self) -> Ints:
        """The row that each stored neighbour is one of.  -> (2 m,)"""
        return np.repeat(np.arange(self.n_nodes, dtype=self.targets.dtype), self.degrees)

    @property
    def values(self) -> EdgeValues:
        """The values that the graph stores of its edges; each edge is there once, so nothing is merged."""
        add = "add" if self.weighted else None
        return EdgeValues(self.weighted, self.directed, bool(self.kinds), add if self.channels else None)

    def subgraph(self, ids: Any) -> Graph:
        """The graph of these nodes, in this order, and of the edges between them.

        >>> Graph.from_edges([("ann", "bob"), ("bob", "cid"), ("cid", "dan")]).subgraph(["cid", "bob", "ann"])
        Graph(n_nodes=3, n_edges=2, isolated=0, ids=string)
        """
        rows = self.rows(ids)
        column = self.id_column.take(pa.array(rows))
        refuse_doubled(column)
        new_rows = np.full(self.n_nodes, -1, np.int64)
        new_rows[rows] = np.arange(len(rows))
        lengths = self.degrees[rows]
        before = np.cumsum(lengths) - lengths
        entries = np.arange(int(lengths.sum())) + np.repeat(self.offsets[rows] - before, lengths)
        sources, targets = np.repeat(np.arange(len(rows)), lengths), new_rows[self.targets[entries]]
        stays = targets >= 0
        if not self.channels:
            once = stays & (sources < targets)
            part = self.from_rows(sources[once], targets[once], column)
            return part if self.reach is None else replace(part, reach=np.zeros(len(rows), np.int64))
        order = np.lexsort((targets[stays], sources[stays]))
        offsets = np.concatenate([[0], np.cumsum(np.bincount(sources[stays], minlength=len(rows)))])
        chosen = entries[stays][order]
        channels = {name: _read_only(array[chosen]) for name, array in self.channels.items()}
        part = Graph(
            _read_only(offsets.astype(np.int64)),
            _read_only(targets[stays][order].astype(self.targets.dtype)),
            column,
            channels=channels,
            reach=None if self.reach is None else np.zeros(len(rows), np.int64),
            weighted=self.weighted,
            doubled=self.doubled,
        )
        return replace(part, counts=Counts(len(part.arcs().source)))

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        """Refused: what asks for an array, such as cross-validation, would cut the graph into rows."""
        raise GraphError(
            "a graph is not an array of rows and cannot be cut into folds: a node's vector needs its neighbours; embed "
            "the whole graph without labels, z = RAE().fit_transform(graph), and split or cross-validate the rows of z"
        )

    # -------------------------------------------------------------------------- other libraries' graphs

    def to_scipy(self, dtype: Any = np.float64, *, channel: str | None = None) -> sp.csr_array:
        """The adjacency matrix, 1 for each edge in both directions, with arrays of its own.  -> (n, n)

        With a `channel` the weights in it, from each row's point of view: `out` is the matrix of a directed graph, `in`
        its transpose.

        >>> Graph.from_edges([("ann", "bob")], directed=True, weight=[2]).to_scipy(channel="out").toarray().tolist()
        [[0.0, 2.0], [0.0, 0.0]]
        """
        import scipy.sparse as sp

        values = np.ones(len(self.targets), dtype) if channel is None else self.channel(channel).astype(dtype)
        matrix = sp.csr_array((values, self.targets, self.offsets), shape=(self.n_nodes, self.n_nodes), copy=True)
        if channel is not None:
            matrix.eliminate_zeros()
        return matrix

    def channel(self, name: str) -> Floats:
        """The weights in a channel, one for each stored neighbour; an unknown name is refused."""
        if name not in self.channels:
            listed = ", ".join(map(repr, self.channels)) or "none: it keeps neither weights nor directions nor kinds"
            raise GraphError(f"the graph has no channel {name!r}; it has {listed}")
        return self.channels[name]

    def to_arrow(self) -> pa.Table:
        """Every edge once, as an Arrow table: source, target, and weight and kind where the graph keeps these.

        >>> Graph.from_edges([("ann", "bob")]).to_arrow().to_pylist()
        [{'source': 'ann', 'target': 'bob'}]
        """
        arcs = self.arcs()
        ends = {"source": arcs.source, "target": arcs.target}
        columns = {name: self.id_column.take(pa.array(rows)) for name, rows in ends.items()}
        if self.weighted:
            columns["weight"] = pa.array(arcs.weight)
        if self.kinds:
            columns["kind"] = pa.array(self.kinds).take(pa.array(arcs.kind))
        return pa.table(columns)

    def to_networkx(self) -> Any:
        """The same graph for networkx: its nodes are the ids, in row order.

        A DiGraph where edges have directions, a Multi(Di)Graph where they have kinds; weights and kinds are attributes.
        """
        nx = needed_library("networkx", "networkx", "Graph.to_networkx")
        kind = self.id_column.type
        if pa.types.is_struct(kind):
            raise GraphError(f"networkx cannot have ids of this kind as nodes, got {kind}; turn each into text first")
        nodes = self.ids.tolist()
        multi = {(False, False): nx.Graph, (True, False): nx.DiGraph, (False, True): nx.MultiGraph}
        graph = multi.get((self.directed, bool(self.kinds)), nx.MultiDiGraph)()
        graph.add_nodes_from(nodes)
        arcs = self.arcs()
        pairs = zip(arcs.source.tolist(), arcs.target.tolist(), arcs.weight.tolist(), arcs.kind.tolist(), strict=True)
        for u, v, weight, place in pairs:
            attributes: dict[str, Any] = {"weight": weight} if self.weighted else {}
            if self.kinds:
                attributes["kind"] = self.kinds[place]
            graph.add_edge(nodes[u], nodes[v], **attributes)
        return graph

    def to_pyg(self) -> Any:
        """The same graph for PyTorch Geometric: a Data whose nodes are the rows.

        An undirected edge stands in it in both directions; weights are `edge_weight`, kinds `edge_type`.
        """
        data = needed_library("torch_geometric.data", "pyg", "Graph.to_pyg", "torch_geometric")
        import torch

        if not self.channels:
            index = np.stack([self._sources().astype(np.int64), self.targets.astype(np.int64)])
            return data.Data(edge_index=torch.from_numpy(index), num_nodes=self.n_nodes)
        arcs = self.arcs()
        index, weight, kind = np.stack([arcs.source, arcs.target]).astype(np.int64), arcs.weight, arcs.kind
        if not self.directed:
            index, weight, kind = np.hstack([index, index[::-1]]), np.tile(weight, 2), np.tile(kind, 2)
        more = {"edge_weight": torch.from_numpy(weight.copy())} if self.weighted else {}
        if self.kinds:
            more["edge_type"] = torch.from_numpy(kind.astype(np.int64))
        return data.Data(edge_index=torch.from_numpy(index), num_nodes=self.n_nodes, **more)

    def __repr__(self) -> str:
        cut = "" if self.reach is None else f", cut off {int(self.reach.max(initial=0))} edges away"
        return (
            f"Graph(n_nodes={self.n_nodes:,}, n_edges={self.n_edges:,}, isolated={self.n_isolated:,}, "
            f"ids={self.id_column.type}{''.join(f', {text}' for text in self._values_in_words())}{cut})"
        )

    def _values_in_words(self) -> list[str]:
        """The values of the edges, in words."""
        kinds = ", ".join(self.kinds)
        words = ((self.directed, "directed"), (self.weighted, "weighted"), (kinds, f"kinds: {kinds}"))
        return [text for present, text in words if present]

    def picture(self) -> str:
        """The degrees as a small SVG: how many nodes have 0, 1, 2 to 3, 4 to 7, ... neighbours."""
        powers = np.bincount(np.frexp(self.degrees)[1], minlength=1)
        least = [f"{(1 << power) >> 1:,}" for power in range(len(powers))]
        return display.bars("nodes by degree; a bar begins at its number", powers.tolist(), least)

    def _repr_html_(self) -> str:
        shown = (("nodes", self.n_nodes), ("edges", self.n_edges), ("isolated", self.n_isolated))
        rows = [*shown, ("ids", str(self.id_column.type)), *(("edges are", text) for text in self._values_in_words())]
        return display.panel("Graph", display.table(rows), self.picture())

    # -------------------------------------------------------------------------- making it

    @classmethod
    def from_edges(
        cls,
        edges: Any,
        ids: Any = None,
        *,
        weight: Any = None,
        directed: bool = False,
        kind: Any = None,
        doubled: str | None = None,
    ) -> Graph:
        """The graph of these edges: pairs, an (m, 2) array, or a tuple of two arrays.

        Without `ids` the nodes are the ends of the edges, sorted. With `ids`, those are the nodes,
        in that order, edges or not. `weight` and `kind` are arrays with one entry per edge: numbers above 0, rows of
        weight 0 being left out, and words, 16 different ones at most. `directed` edges go from the first end to the
        second. `doubled` edges "add" their weights (the default where there are any), "count" as the weight, or the
        largest stays ("max").

        >>> Graph.from_edges([(3, 1), (1, 3), (2, 2)], ids=[1, 2, 3]).counts
        Counts(rows=3, self_loops=1, doubled=1, zeros=0, outside=0)
        >>> Graph.from_edges([("ann", "bob"), ("ann", "bob")], weight=[20, 5], directed=True).to_arrow().to_pylist()
        [{'source': 'ann', 'target': 'bob', 'weight': 25.0}]
        """
        source, target = two_columns(edges)
        values = EdgeValues(weight is not None, bool(directed), kind is not None, doubled)
        return cls._from_columns(source, target, None if ids is None else id_array(ids), values, weight, kind)

    @classmethod
    def from_dataframe(
        cls,
        df: Any,
        source: str | None = None,
        target: str | None = None,
        ids: Any = None,
        **options: Any,
    ) -> Graph:
        """The graph of a data frame of any library: pandas, polars, Arrow, DuckDB and others.

        `source` and `target` name its columns; by default those with usual names (source and target, from and to,
        caller and called, ...), else the first two. `ids` as in `from_edges`. `options` are `weight`, `directed`,
        `kind`, `doubled`, `time`, `since` and `until`, those of `rae.reading.EdgeOptions`; no other column is read
        unless it is named.

        >>> list(Graph.from_dataframe(pa.table({"weight": [0.5], "source": ["ann"], "target": ["bob"]})).ids)
        ['ann', 'bob']
        """
        reading = EdgeOptions.of({"source": source, "target": target, **options})
        first, second, weight, kind, outside = frame_columns(df, reading, may_be_empty=ids is not None)
        nodes = None if ids is None else id_array(ids)
        graph = cls._from_columns(first, second, nodes, EdgeValues.of(reading), weight, kind)
        counts = replace(graph.counts, rows=graph.counts.rows + outside, outside=outside)
        return replace(graph, counts=counts)

    @classmethod
    def from_scipy(cls, matrix: Any, ids: Any = None, *, weighted: bool = False, directed: bool = False) -> Graph:
        """The graph of a square SciPy sparse (or dense) adjacency matrix.

        Entries that are not 0 are edges; they are weights where it is `weighted`, and go from row to column where it is
        `directed`. A symmetric matrix has each undirected edge twice: one of the two counts.
        """
        import scipy.sparse as sp

        if len(getattr(matrix, "shape", ())) != 2 or matrix.shape[0] != matrix.shape[1]:
            raise GraphError(f"an adjacency matrix must be square, got shape {getattr(matrix, 'shape', None)}")
        coo = sp.coo_array(matrix)
        n = coo.shape[0]
        present = coo.data != 0
        column = _ids_of_rows(ids, n)
        values = EdgeValues(weighted, directed, doubled="max" if weighted and not directed else None)
        weight = coo.data[present] if weighted else None
        return cls.from_rows(coo.row[present], coo.col[present], column, values, weight)

    @classmethod
    def from_networkx(
        cls, graph: Any, *, weight: str | None = None, kind: str | None = None, directed: bool = False
    ) -> Graph:
        """The graph of a networkx graph; its nodes are the ids, in networkx's order.

        `weight` and `kind` name attributes of its edges; an edge without that weight has 1, as in networkx.
        """
        nodes = list(graph.nodes)
        try:
            ids = id_array(nodes)
        except GraphError as error:
            raise GraphError(error, "; for networkx: Graph.from_networkx(nx.relabel_nodes(graph, str))") from None
        rows = {node: i for i, node in enumerate(nodes)}
        pairs = np.fromiter((rows[end] for edge in graph.edges() for end in edge[:2]), np.int64, -1).reshape(-1, 2)
        values = EdgeValues(weight is not None, directed, kind is not None)
        weights = None if weight is None else [w for *_, w in graph.edges(data=weight, default=1)]
        kinds = None if kind is None else [k for *_, k in graph.edges(data=kind)]
        return cls.from_rows(pairs[:, 0], pairs[:, 1], ids, values, weights, kinds)

    @classmethod
    def from_pyg(cls, data: Any, ids: Any = None) -> Graph:
        """The graph of a PyTorch Geometric Data: its edge_index, with num_nodes nodes 0, 1, 2, ..."""
        index = getattr(data, "edge_index", None)
        if index is None:
            raise GraphError(f"expected a PyG Data with an edge_index, got {type(data).__name__}")
        n = int(data.num_nodes)
        ends = index.detach().cpu().numpy().astype(np.int64, copy=False)
        if ends.ndim != 2 or ends.shape[0] != 2:
            raise GraphError(f"edge_index must have shape (2, m), got {tuple(ends.shape)}")
        if ends.size and not 0 <= int(ends.min()) <= int(ends.max()) < n:
            raise GraphError(f"edge_index must name nodes 0..{n - 1}, got {int(ends.min())}..{int(ends.max())}")
        return cls.from_rows(ends[0], ends[1], _ids_of_rows(ids, n))

    def with_nodes(self, ids: Any) -> Graph:
        """The same graph and, after its nodes, those of `ids` it did not have, as isolated nodes."""
        cast = cast_to_kind(column := id_array(ids), self.id_column.type)
        if cast is None:
            raise GraphError(f"the new ids are {column.type}, the graph's are {self.id_column.type}; {ONE_KIND}")
        new = distinct(cast.filter(pc.is_null(index_in(cast, self.id_column))))
        if len(new) == 0:
            return self
        offsets = np.concatenate([self.offsets, np.full(len(new), self.offsets[-1])])
        reach = None if self.reach is None else np.concatenate([self.reach, np.zeros(len(new), np.int64)])
        ids = pa.concat_arrays([self.id_column, new])
        return replace(self, offsets=_read_only(offsets), id_column=ids, reach=reach)

    @classmethod
    def disjoint_union(cls, graphs: Sequence[Graph]) -> Graph:
        """All graphs side by side, unconnected; ids become 0, 1, 2, ... in the order given."""
        if not graphs:
            raise GraphError("expected at least one graph, got none")
        if any(g.reach is not None for g in graphs):
            raise GraphError("whole graphs are put side by side, got one that is cut (an ego graph); pass it alone")
        starts = np.cumsum([0, *(g.n_nodes for g in graphs)])
        ends = np.cumsum([0, *(len(g.targets) for g in graphs)])
        offsets = np.concatenate([[0], *(g.offsets[1:] + e for g, e in zip(graphs, ends, strict=False))])
        targets = np.concatenate(
            [g.targets + index_type(int(starts[-1]))(s) for g, s in zip(graphs, starts, strict=False)]
        )
        channels = {}
        names, weighted = tuple(graphs[0].channels), graphs[0].weighted
        if any((tuple(g.channels), g.weighted) != (names, weighted) for g in graphs):
            raise GraphError(
                "all graphs must keep the same of their edges (weights, directions, kinds), got "
                f"{graphs[0]!r} and others; build them alike"
            )
        for name in names:
            channels[name] = _read_only(np.concatenate([g.channels[name] for g in graphs]))
        counts = Counts(*(sum(getattr(g.counts, f.name) for g in graphs) for f in fields(Counts)))
        ids = pa.array(np.arange(starts[-1]))
        return cls(_read_only(offsets.astype(np.int64)), _read_only(targets), ids, counts, channels, weighted)

    @classmethod
    def _from_columns(
        cls,
        source: pa.Array,
        target: pa.Array,
        ids: pa.Array | None,
        values: EdgeValues | None = None,
        weight: Any = None,
        kind: Any = None,
    ) -> Graph:
        checked = (checked_weights(weight) if weight is not None else None, kind if kind is None else kind_column(kind))
        return cls.from_batches(in_batches(source, target, ids, weight=checked[0], kind=checked[1]), ids, values)

    @classmethod
    def from_batches(
        cls, batches: Iterable[Batch], ids: pa.Array | None = None, values: EdgeValues | None = None
    ) -> Graph:
        """The graph of edges that come as batches: source and target ids of one kind, and what `values` asks for."""
        sink = MemorySink()
        return cls._of(build_rows(batches, sink, ids=ids, values=values), sink, values)

    @classmethod
    def from_rows(
        cls,
        source: Ints,
        target: Ints,
        ids: pa.Array,
        values: EdgeValues | None = None,
        weight: Any = None,
        kind: Any = None,
    ) -> Graph:
        """The graph of edges given as row numbers."""
        sink = MemorySink()
        rows = build_numbered(source, target, ids, sink, values=values, weight=weight, kind=kind)
        return cls._of(rows, sink, values)

    @classmethod
    def _of(cls, rows: Rows, sink: MemorySink, values: EdgeValues | None = None) -> Graph:
        channels = {name: _read_only(array) for name, array in zip(rows.channels, sink.channels, strict=True)}
        weighted = values is not None and values.has_weights
        doubled = None if values is None else values.merged
        return cls(
            _read_only(rows.offsets), _read_only(sink.targets), rows.ids, rows.counts, channels, weighted, doubled
        )


def _ids_of_rows(ids: Any, n: int) -> pa.Array:
    """These ids as those of n rows, or 0, 1, 2, ..."""
    column = id_array(np.arange(n, dtype=np.int64) if ids is None else ids)
    if len(column) != n:
        raise GraphError(f"ids must have one entry per row ({n:,}), got {len(column):,}")
    refuse_doubled(column)
    return column


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list) else value


def _read_only(array: A) -> A:
    array.flags.writeable = False
    return array
