"""Turn edges in any form users have them into rows; all faults are found before anything is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.checks import check_kind, check_whole
from dask_rac.base.errors import InputError, Where
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.settings import EDGE_COLUMNS, Settings
from dask_rac.base.sparse import check_sparse
from dask_rac.edges.checks import (
    EdgeColumns,
    as_weights,
    check_weights,
    checked_ids,
    checked_weights,
    describe_conflict,
    duplicates_policy,
)
from dask_rac.edges.first_id import smallest_id
from dask_rac.edges.given import read_columns
from dask_rac.edges.numbering import is_named, number_columns, refuse_stated_nodes
from dask_rac.edges.source import Columns, EdgeSource, open_edges, read_edges
from dask_rac.files.folder import Folder
from dask_rac.files.node_names import NamesInMemory, NodeNames
from dask_rac.files.stored_names import names_beside
from dask_rac.kernels.arrays import Rows
from dask_rac.kernels.rows import ingest
from dask_rac.tasks.team import Team

BYTES_A_NODE = 96  # what a run keeps per node, besides the edges


BUILT = ("neighbour", "weight", "tie")  # arrays that belong to rows built from edges


@dataclass
class Graph:
    """A checked graph as rows."""

    rows: Rows
    spare: tuple[str, ...]
    """Arrays of the rows that do not belong to the user and may be overwritten."""
    least: float
    """The smallest weight; infinite if there is no edge."""
    largest: float
    """The largest weight; minus infinity if there is no edge."""
    loops: int = 0
    """Self loops that were dropped."""
    first: int = 0
    """The smallest id, if the number of nodes was not given."""
    names: NodeNames | None = None
    """The names of the nodes, if ids were text."""

    def take_rows(self) -> Rows:
        """Return the rows and keep none, so that their memory is free as soon as they are used up."""
        rows = self.rows
        self.rows = Rows._make(np.empty(0, array.dtype) for array in rows)
        return rows


def load_graph(
    edges: Any, n_nodes: int | None, settings: Settings, team: Team, memory: int, known: NodeNames | None = None
) -> Graph:
    """Return the rows of any input that `dask_rac.cluster` takes; what its nodes need must fit into `memory` bytes.

    Ids that are text must be the names that are `known`, where some are.
    """
    if n_nodes is not None:
        check_whole("n_nodes", n_nodes, 0)
    if sp.issparse(edges):
        return _load_matrix(edges, n_nodes, settings, team, memory)
    if isinstance(edges, str | PathLike):
        given = _read_source(open_edges(edges), n_nodes, settings)
    else:
        given = _Given(*read_columns(edges), n_nodes)
    return _load_columns(_numbered(given, known), settings, team, memory)


class _Given(NamedTuple):
    """Edges as users have them."""

    columns: Columns
    where: Where
    n_nodes: int | None
    names: NodeNames | None = None


def _read_source(source: EdgeSource, n_nodes: int | None, settings: Settings) -> _Given:
    """Read edges on disk, with the names of their nodes if these are beside them."""
    check_kind(source.kind, settings.weights)
    columns, where = read_edges(source)
    beside = names_beside(Folder(source.name)) if source.named else None
    if beside is None:
        return _Given(columns, where, source.nodes if n_nodes is None else n_nodes)
    if n_nodes not in (None, len(beside)):
        raise InputError(f"n_nodes={n_nodes} differs from the {len(beside)} names in {source.name}: leave it out")
    return _Given(columns, where, len(beside), NamesInMemory(beside.slice(0, len(beside))))


def _numbered(given: _Given, known: NodeNames | None) -> _Given:
    """Return edges between numbered nodes; ids that are text are numbered."""
    if not is_named(given.columns):
        return given
    if known is None:
        refuse_stated_nodes(given.n_nodes)
    columns, names = number_columns(given.columns, known)
    return _Given(columns, given.where, len(names), names)


def _load_columns(given: _Given, settings: Settings, team: Team, memory: int) -> Graph:
    """Return the rows of three columns."""
    columns, where, n_nodes, names = given
    lengths = {name: np.shape(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1 or any(len(shape) != 1 for shape in lengths.values()):
        raise InputError(f"source, target and weight must be three columns of equal length, not {lengths}")
    ends = [checked_ids(columns[name], name, n_nodes, where) for name in EDGE_COLUMNS[:2]]
    weight = checked_weights(columns["weight"], settings, where)
    largest = max((int(column.max()) for column in ends if len(column)), default=-1)
    n = largest + 1 if n_nodes is None else int(n_nodes)
    what = f"ids up to {largest} are" if n_nodes is None else f"n_nodes={n_nodes} is"
    _check_memory(n, memory, f"{what} too large")
    # Kernels are compiled for contiguous, writeable arrays, although they do not write to these.
    source, target = (np.require(column, cluster_id_dtype(n), ["C", "W"]) for column in ends)
    first = smallest_id(ends) if n_nodes is None else 0
    graph = _build_rows(n, (source, target, weight), where, settings, team, names)
    return replace(graph, first=first, names=names)


def _build_rows(
    n: int, columns: EdgeColumns, where: Where, settings: Settings, team: Team, names: NodeNames | None = None
) -> Graph:
    """Return the rows of checked edges: both directions, no self loops, no parallel edges."""
    source, target, weight = columns
    degree = np.zeros(n, np.int64)
    loops = ingest.count_degrees(source, target, degree, (0, n))
    stop = np.cumsum(degree)
    start = stop - degree
    entries = int(stop[-1]) if n else 0
    rows = Rows(
        start,
        start.copy(),
        np.empty(entries, source.dtype),
        np.empty(entries),
        np.empty(0, cluster_id_dtype(max(n, entries))),
        np.empty(entries, np.uint16),
    )
    spans = [(lo, hi, 0) for lo, hi in team.spans(np.append(start, entries))]
    team.run(ingest.scatter, spans, columns, rows.stop, rows.neighbour, rows.weight)
    if any(conflicts for conflicts, _, _ in team.run(ingest.unify, spans, rows)):
        if settings.duplicates == "error":
            keep = source != target
            ends = np.minimum(source, target)[keep], np.maximum(source, target)[keep]
            places = np.flatnonzero(keep)
            raise InputError(describe_conflict((*ends, weight[keep]), lambda e: where(places[e]), names))
        rows.stop[:] = start
        team.run(ingest.scatter, spans, columns, rows.stop, rows.neighbour, rows.weight)
        least, largest = zip(*team.run(ingest.settle, spans, rows, duplicates_policy(settings)), strict=True)
        return Graph(rows, BUILT, min(least), max(largest), loops)
    outer = weight if not loops else weight[source != target]
    if not len(outer):
        return Graph(rows, BUILT, np.inf, -np.inf, loops)
    return Graph(rows, BUILT, float(outer.min()), float(outer.max()), loops)


def _load_matrix(matrix: Any, n_nodes: int | None, settings: Settings, team: Team, memory: int) -> Graph:
    """Return the rows of a sparse matrix, which may be symmetric or hold one triangle."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(
            f"a matrix of shape {matrix.shape} is not a graph, which is square: if its rows are vectors, pass metric=, "
            "such as metric='cosine', or graph=dict(k=15, metric='cosine')"
        )
    if n_nodes is not None and n_nodes < matrix.shape[0]:
        raise InputError(f"n_nodes={n_nodes} is less than the {matrix.shape[0]} nodes of the matrix: leave it out")
    n = matrix.shape[0] if n_nodes is None else int(n_nodes)
    _check_memory(n, memory, f"a graph of {n} nodes is too large")
    check_sparse(matrix)
    turned = matrix.format == "csc"  # equivalent to its transpose, which costs nothing
    rows = _sorted_rows(matrix.T if turned else matrix, settings)

    def where(entry: int) -> str:
        place = np.searchsorted(rows.indptr, entry, side="right") - 1, rows.indices[entry]
        return "row {}, column {}".format(*(place[::-1] if turned else place))

    ids = cluster_id_dtype(n)
    weight = as_weights(rows.data, where)
    indptr = np.pad(rows.indptr.astype(np.int64), (0, n - matrix.shape[0]), "edge")
    indices = np.require(rows.indices, ids, ["C", "W"])
    tie = np.empty(len(weight), np.uint16)
    spans = team.spans(indptr)
    checks = team.run(ingest.check_rows, spans, indptr, indices, weight, weight.view(np.int64), tie)
    columns = list(zip(*checks, strict=True))
    least, largest = float(np.min(columns[0])), float(np.max(columns[1]))
    unsorted, diagonal, above, below = map(sum, columns[2:6])
    hashes = np.array(columns[6:], np.uint64).sum(axis=1)  # wraps around like the kernel's sums
    check_weights(weight, least, largest, settings, where)
    if unsorted:
        return _load_matrix(_settled_rows(matrix.tocoo(), settings), n_nodes, settings, team, memory)
    full = above > 0 and below > 0
    if full and (above != below or hashes[0] != hashes[1]):
        _refuse_asymmetry(indptr, indices, weight, where)
    if full and not diagonal:
        edges = np.empty(0, cluster_id_dtype(max(n, len(weight))))
        symmetric = Rows(indptr[:-1], indptr[1:], indices, weight, edges, tie)
        return Graph(symmetric, ("tie",), least, largest)
    source = np.repeat(np.arange(n, dtype=ids), np.diff(indptr))
    keep = source <= indices if full else slice(None)
    return _build_rows(n, (source[keep], indices[keep], weight[keep]), where, settings, team)


def _sorted_rows(matrix: Any, settings: Settings) -> sp.csr_array:
    """Return a CSR matrix with sorted rows; entries may occur twice only if the matrix was already CSR."""
    if matrix.format in ("bsr", "dia"):
        raise InputError(
            f"a matrix in {matrix.format.upper()} format does not distinguish stored zeros from padding: call tocsr(), "
            "and eliminate_zeros() unless a zero is an edge"
        )
    if matrix.format == "csr":
        sorted_rows: sp.csr_array = matrix if matrix.has_sorted_indices else matrix.sorted_indices()
        return sorted_rows
    rows: sp.csr_array = matrix.tocsr()
    entries = matrix.tocoo()
    return rows if rows.nnz == entries.nnz else _settled_rows(entries, settings)  # scipy has summed duplicates


def _check_memory(n: int, memory: int, what: str) -> None:
    """Raise unless what a run keeps per node fits into memory."""
    if n * BYTES_A_NODE > memory:
        raise InputError(
            f"{what}: {n} nodes need {n * BYTES_A_NODE / 1e9:.1f} GB and this machine has {memory / 1e9:.1f} GB; "
            "number the nodes 0, 1, 2, ... (pandas.factorize does this)"
        )


def _settled_rows(matrix: sp.coo_array, settings: Settings) -> sp.csr_array:
    """Return sorted rows in which entries that were given more than once are resolved."""
    row, column, weight = _settle_duplicates(
        (matrix.row, matrix.col, checked_weights(matrix.data, settings, _plain_entry)),
        settings.duplicates,
        _plain_entry,
    )
    indptr = np.searchsorted(row, np.arange(matrix.shape[0] + 1))
    return sp.csr_array((weight, column, indptr), shape=matrix.shape)


def _plain_entry(entry: int) -> str:
    """Name an entry of a matrix in a format without rows."""
    return f"entry {entry}"


def _settle_duplicates(columns: EdgeColumns, policy: str, where: Where) -> EdgeColumns:
    """Return every pair once, sorted; its weight depends on the weights given for it, not on their order."""
    source, target, weight = columns
    if not len(weight):
        return columns
    order = np.lexsort((weight, target, source))
    source, target, weight = source[order], target[order], weight[order]
    first = np.flatnonzero(np.append(True, (np.diff(source) != 0) | (np.diff(target) != 0)))
    last = np.append(first[1:], len(source)) - 1
    differ = weight[first] != weight[last]
    if policy == "error" and differ.any():
        raise InputError(describe_conflict(columns, where))
    settled = weight[last] if policy == "max" else weight[first]
    if policy == "mean" and differ.any():
        total = np.add.reduceat(weight, first)
        settled = np.where(differ, total / (last - first + 1), settled)
    return source[first], target[first], settled


def _refuse_asymmetry(
    indptr: NDArray[np.int64], indices: NDArray[Any], weight: NDArray[np.float64], where: Where
) -> None:
    """Raise if an entry differs from its mirror image across the diagonal."""
    n = len(indptr) - 1
    row = np.repeat(np.arange(n), np.diff(indptr))
    key, mirror = row * n + indices, indices.astype(np.int64) * n + row
    at = np.minimum(np.searchsorted(key, mirror), len(key) - 1)
    bad = (key[at] != mirror) | (weight[at] != weight)
    if bad.any():
        e = int(bad.argmax())
        other = weight[at[e]] if key[at[e]] == mirror[e] else "nothing"
        raise InputError(
            f"the matrix is not symmetric: {int(bad.sum())} entries differ from those across the diagonal, first "
            f"{where(e)} ({weight[e]} against {other}); use M.maximum(M.T), or M + M.T if each edge is stored once"
        )
