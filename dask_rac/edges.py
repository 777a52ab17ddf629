"""Edges as users have them to rows, every fault found before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.config import EDGE_COLUMNS, Settings, id_dtype
from dask_rac.errors import InputError, Where, plain_row, refuse_nulls, refuse_rows
from dask_rac.kernels import ingest
from dask_rac.kernels.arrays import Ids, Rows
from dask_rac.shard import Team
from dask_rac.store import Columns, is_table, read_edges, table_edges

BYTES_A_NODE = 96  # what a run keeps for each node, edges apart

BUILT = ("neighbour", "weight", "tie")  # what rows own that were built from edges

EdgeColumns = tuple[Ids, Ids, NDArray[np.float64]]


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
    columns, where = _read_columns(edges)
    return _load_columns(columns, where, n_nodes, settings, team, memory)


def _read_columns(edges: Any) -> tuple[Columns, Where]:
    """The three columns of whatever table was given."""
    if isinstance(edges, str | PathLike):
        return read_edges(edges)
    if is_table(edges):
        return table_edges(edges)
    if hasattr(edges, "__dask_graph__") and hasattr(edges, "columns"):
        _require_columns(edges.columns)
        edges = edges[list(EDGE_COLUMNS)].compute()
    if isinstance(edges, pd.DataFrame):
        return _frame_columns(edges), plain_row
    if isinstance(edges, tuple) and len(edges) == len(EDGE_COLUMNS) and not any(isinstance(c, tuple) for c in edges):
        return {name: _array(column, name) for name, column in zip(EDGE_COLUMNS, edges, strict=True)}, plain_row
    kind = f"{type(edges).__module__}.{type(edges).__qualname__}".removeprefix("builtins.")
    raise InputError(
        f"edges cannot be a {kind}: give a scipy sparse matrix, a pandas or Dask DataFrame or Arrow table with columns "
        "source, target, weight, a tuple of those three arrays, or the path of a Parquet file or folder; other tables "
        "mostly have a to_arrow()"
    )


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
    _require_columns(frame.columns)
    columns = {}
    for name in EDGE_COLUMNS:
        column = frame[name]
        if isinstance(column, pd.DataFrame):
            raise InputError(f"the DataFrame has {column.shape[1]} columns {name!r}: keep one")
        refuse_nulls(column.isna().to_numpy(), name, plain_row)
        columns[name] = column.to_numpy()
    return columns


def _require_columns(names: Iterable[Any]) -> None:
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
    ends = [_checked_ids(columns[name], name, n_nodes, where) for name in EDGE_COLUMNS[:2]]
    weight = _checked_weights(columns["weight"], settings, where)
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
    loops = ingest.count_degrees(source, target, degree)
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
    spans = team.spans(np.append(start, entries))
    team.run(ingest.scatter, spans, (source, target, weight), rows.stop, rows.neighbour, rows.weight)
    if sum(team.run(ingest.unify, spans, rows)):
        keep = source != target
        ends = np.minimum(source, target)[keep], np.maximum(source, target)[keep]
        settled = _settle_duplicates(
            (*ends, weight[keep]), settings.duplicates, lambda e: where(np.flatnonzero(keep)[e])
        )
        return replace(_build_rows(n, settled, where, settings, team), loops=loops)
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
    weight = _as_weights(rows.data, where)
    indptr = np.pad(rows.indptr.astype(np.int64), (0, n - matrix.shape[0]), "edge")
    indices = np.require(rows.indices, ids, ["C", "W"])
    tie = np.empty(len(weight), np.uint16)
    spans = team.spans(indptr)
    checks = team.run(ingest.check_rows, spans, indptr, indices, weight, weight.view(np.int64), tie)
    columns = list(zip(*checks, strict=True))
    least, largest = float(np.min(columns[0])), float(np.max(columns[1]))
    unsorted, diagonal, above, below = map(sum, columns[2:6])
    hashes = np.array(columns[6:], np.uint64).sum(axis=1)  # wraps around, as the kernel's sums do
    _check_weights(weight, least, largest, settings, where)
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


def _checked_ids(column: NDArray[Any], name: str, n_nodes: int | None, where: Where) -> NDArray[np.integer]:
    """A column of ids as integers."""
    if not len(column):
        return np.empty(0, np.int64)
    if column.dtype.kind == "f":
        refuse_nulls(np.isnan(column), name, where)
        refuse_rows(column != np.floor(column), name, "not integral", "ids are 0, 1, 2, ...", where, column)
        refuse_rows(np.abs(column) >= 2.0**53, name, "too large for a float", "store ids as integers", where, column)
        column = column.astype(np.int64)
    if column.dtype.kind not in "iu":
        raise InputError(f"column {name!r} is {column.dtype}, not integer: number the nodes 0, 1, 2, ...")
    if column.min() < 0:
        refuse_rows(column < 0, name, "negative", "ids are 0, 1, 2, ...", where, column)
    limit = 2**62 if n_nodes is None else n_nodes
    if column.max() >= limit:
        remedy = "number the nodes 0, 1, 2, ..." if n_nodes is None else "raise n_nodes or drop these edges"
        refuse_rows(column >= limit, name, f"at or beyond {limit}", remedy, where, column)
    return column


def _checked_weights(column: NDArray[Any], settings: Settings, where: Where) -> NDArray[np.float64]:
    """A column of weights as finite floats, none below 0."""
    weight = _as_weights(column, where)
    if len(weight):
        _check_weights(weight, float(weight.min()), float(weight.max()), settings, where)
    return weight


def _as_weights(column: NDArray[Any], where: Where) -> NDArray[np.float64]:
    """A column of numbers as floats."""
    if not len(column):
        return np.empty(0)
    if column.dtype.kind not in "iuf":
        raise InputError(f"column 'weight' is {column.dtype}, not a number: make it float64")
    if column.dtype.kind in "iu" and column.max() > 2**53:
        refuse_rows(column > 2**53, "weight", "too large for a float", "scale the weights down", where, column)
    return np.require(column, np.float64, ["C", "W"])


def _check_weights(weight: NDArray[np.float64], least: float, largest: float, settings: Settings, where: Where) -> None:
    """Raise unless all weights are finite and none is below 0."""
    if not (least >= 0 and largest < np.inf):
        refuse_rows(np.isnan(weight), "weight", "NaN", "drop or fill them", where)
        refuse_rows(
            np.isinf(weight), "weight", "infinite", "drop these edges: a pair without one is missing", where, weight
        )
        what = "distances" if settings.weights == "distance" else "similarities"
        refuse_rows(weight < 0, "weight", "negative", f"{what} are 0 or more", where, weight)
    if largest * 2.0 * len(weight) == np.inf:
        raise InputError(
            f"column 'weight' reaches {largest}: {len(weight)} of them add up to infinity; scale them down"
        )


def _settled_rows(matrix: sp.coo_array, settings: Settings) -> sp.csr_array:
    """Sorted rows of entries that are given more than once."""
    row, column, weight = _settle_duplicates(
        (matrix.row, matrix.col, _checked_weights(matrix.data, settings, _plain_entry)),
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
        raise InputError(_describe_conflict(columns, int(np.count_nonzero(differ)), where))
    settled = weight[last] if policy == "max" else weight[first]
    if policy == "mean" and differ.any():
        total = np.add.reduceat(weight, first)
        settled = np.where(differ, total / (last - first + 1), settled)
    return source[first], target[first], settled


def _describe_conflict(columns: EdgeColumns, edges: int, where: Where) -> str:
    """Which row is the first to give an edge another weight than before."""
    source, target, weight = columns
    order = np.lexsort((target, source))
    new = np.append(True, (np.diff(source[order]) != 0) | (np.diff(target[order]) != 0))
    earliest = order[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    differ = weight[order] != weight[earliest]
    at = np.argmin(order[differ])
    row, earlier = int(order[differ][at]), int(earliest[differ][at])
    return (
        f"column 'weight' has two values for {edges} edge{'s' * (edges > 1)}, first {source[row]}-{target[row]}: "
        f"{weight[earlier]} in {where(earlier)}, {weight[row]} in {where(row)}; choose duplicates='min', 'max' or "
        "'mean'"
    )


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
