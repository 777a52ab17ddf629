"""Edges as users have them to rows, every fault found before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.checks import (
    EdgeColumns,
    as_weights,
    check_weights,
    checked_ids,
    checked_weights,
    describe_conflict,
    duplicates_policy,
)
from dask_rac.config import EDGE_COLUMNS, Settings, check_kind, id_dtype
from dask_rac.errors import InputError, Where, plain_row, refuse_nulls
from dask_rac.kernels import ingest
from dask_rac.kernels.arrays import Rows
from dask_rac.shard import Team
from dask_rac.store.edges import VECTORS, Columns, is_table, open_edges, read_edges, table_edges

BYTES_A_NODE = 96  # what a run keeps for each node, edges apart

BUILT = ("neighbour", "weight", "tie")  # what rows own that were built from edges


@dataclass(frozen=True)
class Graph:
    """A checked graph as rows."""

    rows: Rows
    spare: tuple[str, ...]
    """Arrays of the rows that are not the user's and may be written over."""
    least: float
    """The smallest weight, infinite without an edge."""
    largest: float
    """The largest weight, minus infinite without an edge."""
    loops: int = 0
    """Self loops that were dropped."""


def load_graph(edges: Any, n_nodes: int | None, settings: Settings, team: Team, memory: int) -> Graph:
    """Rows of any input that `dask_rac.cluster` takes; `memory` bytes must hold what its nodes need."""
    if n_nodes is not None and (isinstance(n_nodes, bool) or not isinstance(n_nodes, int | np.integer) or n_nodes < 0):
        raise InputError(f"n_nodes={n_nodes!r} is not a whole number, 0 or more")
    if sp.issparse(edges):
        return _load_matrix(edges, n_nodes, settings, team, memory)
    if isinstance(edges, str | PathLike):
        source = open_edges(edges)
        check_kind(source.kind, settings.weights)
        n_nodes = source.nodes if n_nodes is None else n_nodes
        return _load_columns(*read_edges(source), n_nodes, settings, team, memory)
    columns, where = _read_columns(edges)
    return _load_columns(columns, where, n_nodes, settings, team, memory)


def told_nodes(edges: Any, weights: str) -> int | None:
    """How many nodes a DataFrame says there are, as those do that were made of vectors; it may tell of weights, too."""
    known = getattr(edges, "attrs", None)
    if not isinstance(known, dict):
        return None
    check_kind(known.get("weights"), weights)
    nodes = known.get("n_nodes")
    return nodes if isinstance(nodes, int) and nodes >= 0 else None


def _read_columns(edges: Any) -> tuple[Columns, Where]:
    """The three columns of whatever table was given."""
    if is_table(edges):
        return table_edges(edges)
    if is_dask_frame(edges):
        require_columns(edges.columns)
        edges = edges[list(EDGE_COLUMNS)].compute()
    if isinstance(edges, pd.DataFrame):
        return _frame_columns(edges), plain_row
    if isinstance(edges, tuple) and len(edges) == len(EDGE_COLUMNS) and not any(isinstance(c, tuple) for c in edges):
        return {name: _array(column, name) for name, column in zip(EDGE_COLUMNS, edges, strict=True)}, plain_row
    if isinstance(edges, np.ndarray) and edges.ndim == 2 and edges.shape[0] != edges.shape[1]:
        raise InputError(f"an array of shape {edges.shape} is no graph: if its rows are {VECTORS}")
    kind = f"{type(edges).__module__}.{type(edges).__qualname__}".removeprefix("builtins.")
    raise InputError(
        f"edges cannot be a {kind}: give a scipy sparse matrix, a pandas or Dask DataFrame or Arrow table with columns "
        "source, target, weight, a tuple of those three arrays, or the path of a Parquet file or folder; other tables "
        "mostly have a to_arrow()"
    )


def is_dask_frame(edges: Any) -> bool:
    """Whether it is a Dask DataFrame; a Delayed claims to have whatever it is asked for."""
    return hasattr(edges, "__dask_graph__") and hasattr(type(edges), "columns")


def _array(column: Any, name: str) -> NDArray[Any]:
    """A column given by itself; what is masked is null."""
    try:
        array = np.asarray(column)
    except ValueError as error:
        raise InputError(f"column {name!r} is not one array: {error}") from error
    if np.ma.isMaskedArray(column):
        refuse_nulls(np.ma.getmaskarray(column), name, plain_row)
    return array


def _frame_columns(frame: pd.DataFrame) -> Columns:
    """The three columns of a DataFrame; a null is an error."""
    require_columns(frame.columns)
    columns = {}
    for name in EDGE_COLUMNS:
        column = frame[name]
        if isinstance(column, pd.DataFrame):
            raise InputError(f"the DataFrame has {column.shape[1]} columns {name!r}: keep one")
        refuse_nulls(column.isna().to_numpy(), name, plain_row)
        columns[name] = column.to_numpy()
    return columns


def require_columns(names: Iterable[Any]) -> None:
    """Raise unless a DataFrame has the edge columns."""
    present = list(names)
    for name in EDGE_COLUMNS:
        if name not in present:
            raise InputError(
                f"the DataFrame has no column {name!r}: it needs {', '.join(EDGE_COLUMNS)} and has "
                f"{', '.join(map(str, present))}"
            )


def _load_columns(
    columns: Columns, where: Where, n_nodes: int | None, settings: Settings, team: Team, memory: int
) -> Graph:
    """Rows of three columns."""
    lengths = {name: np.shape(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1 or any(len(shape) != 1 for shape in lengths.values()):
        raise InputError(f"source, target and weight must be three columns of one length, not {lengths}")
    ends = [checked_ids(columns[name], name, n_nodes, where) for name in EDGE_COLUMNS[:2]]
    weight = checked_weights(columns["weight"], settings, where)
    largest = max((int(column.max()) for column in ends if len(column)), default=-1)
    n = largest + 1 if n_nodes is None else int(n_nodes)
    what = f"ids up to {largest} are" if n_nodes is None else f"n_nodes={n_nodes} is"
    _check_memory(n, memory, f"{what} too large")
    # Kernels are compiled for arrays in one piece that could be written to, though they write to none of these.
    source, target = (np.require(column, id_dtype(n), ["C", "W"]) for column in ends)
    return _build_rows(n, (source, target, weight), where, settings, team)


def _build_rows(n: int, columns: EdgeColumns, where: Where, settings: Settings, team: Team) -> Graph:
    """Rows of checked edges: both directions, no self loop, no parallel edge."""
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
        np.empty(0, id_dtype(max(n, entries))),
        np.empty(entries, np.uint16),
    )
    spans = [(lo, hi, 0) for lo, hi in team.spans(np.append(start, entries))]
    team.run(ingest.scatter, spans, columns, rows.stop, rows.neighbour, rows.weight)
    if any(conflicts for conflicts, _, _ in team.run(ingest.unify, spans, rows)):
        if settings.duplicates == "error":
            keep = source != target
            ends = np.minimum(source, target)[keep], np.maximum(source, target)[keep]
            raise InputError(describe_conflict((*ends, weight[keep]), lambda e: where(np.flatnonzero(keep)[e])))
        rows.stop[:] = start
        team.run(ingest.scatter, spans, columns, rows.stop, rows.neighbour, rows.weight)
        least, largest = zip(*team.run(ingest.settle, spans, rows, duplicates_policy(settings)), strict=True)
        return Graph(rows, BUILT, min(least), max(largest), loops)
    outer = weight if not loops else weight[source != target]
    if not len(outer):
        return Graph(rows, BUILT, np.inf, -np.inf, loops)
    return Graph(rows, BUILT, float(outer.min()), float(outer.max()), loops)


def _load_matrix(matrix: Any, n_nodes: int | None, settings: Settings, team: Team, memory: int) -> Graph:
    """Rows of a sparse matrix: symmetric as it is, or the edges of one triangle."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"a matrix of shape {matrix.shape} is no graph: it must be square")
    if n_nodes is not None and n_nodes < matrix.shape[0]:
        raise InputError(f"n_nodes={n_nodes} is less than the {matrix.shape[0]} nodes of the matrix: leave it out")
    n = matrix.shape[0] if n_nodes is None else int(n_nodes)
    _check_memory(n, memory, f"a graph of {n} nodes is too large")
    turned = matrix.format == "csc"  # as good as its transpose, which costs nothing
    rows = _sorted_rows(matrix.T if turned else matrix, settings)

    def where(entry: int) -> str:
        place = np.searchsorted(rows.indptr, entry, side="right") - 1, rows.indices[entry]
        return "row {}, column {}".format(*(place[::-1] if turned else place))

    ids = id_dtype(n)
    weight = as_weights(rows.data, where)
    indptr = np.pad(rows.indptr.astype(np.int64), (0, n - matrix.shape[0]), "edge")
    indices = np.require(rows.indices, ids, ["C", "W"])
    tie = np.empty(len(weight), np.uint16)
    spans = team.spans(indptr)
    checks = team.run(ingest.check_rows, spans, indptr, indices, weight, weight.view(np.int64), tie)
    columns = list(zip(*checks, strict=True))
    least, largest = float(np.min(columns[0])), float(np.max(columns[1]))
    unsorted, diagonal, above, below = map(sum, columns[2:6])
    hashes = np.array(columns[6:], np.uint64).sum(axis=1)  # wraps around, as the kernel's sums do
    check_weights(weight, least, largest, settings, where)
    if unsorted:
        return _load_matrix(_settled_rows(matrix.tocoo(), settings), n_nodes, settings, team, memory)
    full = above > 0 and below > 0
    if full and (above != below or hashes[0] != hashes[1]):
        _refuse_asymmetry(indptr, indices, weight, where)
    if full and not diagonal:
        edges = np.empty(0, id_dtype(max(n, len(weight))))
        symmetric = Rows(indptr[:-1], indptr[1:], indices, weight, edges, tie)
        return Graph(symmetric, ("tie",), least, largest)
    source = np.repeat(np.arange(n, dtype=ids), np.diff(indptr))
    keep = source <= indices if full else slice(None)
    return _build_rows(n, (source[keep], indices[keep], weight[keep]), where, settings, team)


def _sorted_rows(matrix: Any, settings: Settings) -> sp.csr_array:
    """CSR with sorted rows, in which only a matrix that was CSR may have entries twice."""
    if matrix.format in ("bsr", "dia"):
        raise InputError(
            f"a matrix in {matrix.format.upper()} format does not tell stored zeros from padding: call tocsr(), and "
            "eliminate_zeros() unless a zero is an edge"
        )
    if matrix.format == "csr":
        _refuse_damage(matrix)
        sorted_rows: sp.csr_array = matrix if matrix.has_sorted_indices else matrix.sorted_indices()
        return sorted_rows
    rows: sp.csr_array = matrix.tocsr()
    entries = matrix.tocoo()
    return rows if rows.nnz == entries.nnz else _settled_rows(entries, settings)  # scipy has added some up


def _refuse_damage(matrix: Any) -> None:
    """Raise if a CSR or CSC matrix does not hold together; its arrays may have been assigned."""
    indptr, indices, n = matrix.indptr, matrix.indices, matrix.shape[0]
    sound = len(indptr) == n + 1 and indptr[0] == 0 and len(indices) == len(matrix.data) == indptr[-1]
    sound = sound and bool((np.diff(indptr) >= 0).all())
    if not sound or (len(indices) and not 0 <= int(indices.min()) <= int(indices.max()) < n):
        raise InputError("the matrix is damaged: its indptr, indices and data do not fit together; build it anew")


def _check_memory(n: int, memory: int, what: str) -> None:
    """Raise unless memory holds what a run keeps for each node."""
    if n * BYTES_A_NODE > memory:
        raise InputError(
            f"{what}: {n} nodes need {n * BYTES_A_NODE / 1e9:.1f} GB and there are {memory / 1e9:.1f} GB here; number "
            "the nodes 0, 1, 2, ... (pandas.factorize does)"
        )


def _settled_rows(matrix: sp.coo_array, settings: Settings) -> sp.csr_array:
    """Sorted rows of entries that are given more than once."""
    row, column, weight = _settle_duplicates(
        (matrix.row, matrix.col, checked_weights(matrix.data, settings, _plain_entry)),
        settings.duplicates,
        _plain_entry,
    )
    indptr = np.searchsorted(row, np.arange(matrix.shape[0] + 1))
    return sp.csr_array((weight, column, indptr), shape=matrix.shape)


def _plain_entry(entry: int) -> str:
    """Where an entry of a matrix is that has no rows."""
    return f"entry {entry}"


def _settle_duplicates(columns: EdgeColumns, policy: str, where: Where) -> EdgeColumns:
    """Every pair once, sorted; its weight depends on the weights given for it, not on their order."""
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
    """Raise if an entry has no equal one across the diagonal."""
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
