"""Edges as users have them in memory: tables, frames, arrays."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.errors import InputError, Where, plain_row, refuse_nulls
from dask_rac.base.parameters import SETTINGS
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.base.text import listed
from dask_rac.edges.libraries import as_edges
from dask_rac.edges.numbering import ENDS, as_text
from dask_rac.edges.source import Columns, is_table, open_edges, table_edges


def known_nodes(edges: Any, weights: str) -> int | None:
    """Return the number of nodes that a DataFrame states, as those built from vectors do; check its kind of weights."""
    known = _attributes(edges)
    _check_attrs(known.get("weights"), weights)
    nodes = known.get("n_nodes")
    return nodes if isinstance(nodes, int) and nodes >= 0 and not _has_text(edges) else None


def known_names(edges: Any) -> Any:
    """Return the names that a DataFrame of edges states for its nodes, as those built from vectors do, if any."""
    names = _attributes(edges).get("names")
    return None if names is None or _has_text(edges) else names


def _has_text(edges: Any) -> bool:
    """Whether the ids of a DataFrame cannot be numbers, by its types alone."""
    kind = getattr(edges, "dtypes", {}).get("source", np.dtype(np.int64))
    return isinstance(kind, pd.CategoricalDtype) or not pd.api.types.is_numeric_dtype(kind)


def has_text_ids(edges: Any) -> bool:
    """Whether the ids of edges in any form are text, or were before they were numbered by `ingest`."""
    if isinstance(edges, str | PathLike):
        source = open_edges(edges)
        return source.text or source.named
    if sp.issparse(edges):
        return False
    if is_dask_frame(edges):
        return _has_text(edges)
    return not isinstance(read_columns(edges)[0]["source"], np.ndarray)


def _check_attrs(stated: Any, weights: str) -> None:
    """Raise if a DataFrame states another kind of weights; it does so even if they have been changed since."""
    if isinstance(stated, str) and stated in SETTINGS["weights"].words and stated != weights:
        plural = "similarities" if weights == "similarity" else "distances"
        raise InputError(
            f"weights={weights!r}, but edges.attrs['weights'] is {stated!r}, as the graph was made: if you have turned "
            f"the weights into {plural} since, set edges.attrs['weights'] = {weights!r}; if not, set weights={stated!r}"
        )


def _attributes(edges: Any) -> dict[Any, Any]:
    """Return what is written down beside a DataFrame."""
    known = getattr(edges, "attrs", None)
    return known if isinstance(known, dict) else {}


def read_columns(edges: Any) -> tuple[Columns, Where]:
    """Return the three columns of any supported table."""
    edges = as_edges(edges)
    if is_table(edges):
        return table_edges(edges)
    if is_dask_frame(edges):
        require_columns(edges.columns)
        edges = edges[list(EDGE_COLUMNS)].compute()
    if isinstance(edges, pd.DataFrame):
        return _frame_columns(edges), plain_row
    if isinstance(edges, tuple) and len(edges) == len(EDGE_COLUMNS) and not any(isinstance(c, tuple) for c in edges):
        return {name: _column(column, name) for name, column in zip(EDGE_COLUMNS, edges, strict=True)}, plain_row
    raise _unusable(edges)


def _unusable(edges: Any) -> InputError:
    """Return the error for edges of another form, with the recipe for forms that people often have."""
    if isinstance(edges, list | tuple | set) and all(isinstance(row, list | tuple) for row in islice(edges, 3)):
        return InputError(
            f"edges cannot be a {type(edges).__name__} with one item per edge: give columns, as in "
            f"pandas.DataFrame({'list(edges)' if isinstance(edges, set) else 'edges'}, columns={list(EDGE_COLUMNS)})"
        )
    kind = f"{type(edges).__module__}.{type(edges).__qualname__}".removeprefix("builtins.")
    return InputError(
        f"edges cannot be a {kind}: give a scipy sparse matrix, a pandas, Dask or Polars DataFrame or Arrow table with "
        "columns source, target, weight, a tuple of those three arrays, (indices, distances) of neighbours, a networkx "
        "or igraph graph, or the path of a Parquet file or folder; other tables usually have a to_arrow() method"
    )


def is_dask_frame(edges: Any) -> bool:
    """Whether this is a Dask DataFrame; the class is checked because a Delayed claims to have any attribute."""
    return hasattr(edges, "__dask_graph__") and hasattr(type(edges), "columns")


def _column(column: Any, name: str) -> Any:
    """Return a column given as a separate array: of numpy, or of Arrow if it holds the names of nodes."""
    text = as_text(column, name, plain_row) if name in ENDS else None
    return _array(column, name) if text is None else text


def _array(column: Any, name: str) -> NDArray[Any]:
    """Return a column given as a separate array; masked values count as nulls."""
    try:
        array = np.asarray(column)
    except ValueError as error:
        raise InputError(f"column {name!r} is not one array: {error}") from error
    if np.ma.isMaskedArray(column):
        refuse_nulls(np.ma.getmaskarray(column), name, plain_row)
    return array


def _frame_columns(frame: pd.DataFrame) -> Columns:
    """Return the three columns of a DataFrame; raise if there is a null."""
    _refuse_square(frame)
    require_columns(frame.columns)
    columns: Columns = {}
    for name in EDGE_COLUMNS:
        column = frame[name]
        if isinstance(column, pd.DataFrame):
            raise InputError(f"the DataFrame has {column.shape[1]} columns named {name!r}: keep one")
        refuse_nulls(column.isna().to_numpy(), name, plain_row)
        text = as_text(column, name, plain_row) if name in ENDS else None
        columns[name] = column.to_numpy() if text is None else text
    return columns


def _refuse_square(frame: pd.DataFrame) -> None:
    """Raise if a DataFrame has one row and one column for each point, as matrices of distances have."""
    if len(frame) > 0 and frame.shape[0] == frame.shape[1] and frame.index.equals(frame.columns):
        raise InputError(
            f"the DataFrame has the same {len(frame):,} rows and columns, so it looks like the distances of all pairs, "
            "not like edges: pass metric='precomputed'"
        )


def require_columns(names: Iterable[Any]) -> None:
    """Raise unless a DataFrame has the edge columns."""
    present = list(names)
    for name in EDGE_COLUMNS:
        if name not in present:
            raise InputError(
                f"the DataFrame has no column {name!r}: it needs {', '.join(EDGE_COLUMNS)} and has "
                f"{listed(map(str, present))}; if its rows are vectors, pass metric=, such as metric='euclidean'"
            )
