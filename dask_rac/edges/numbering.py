"""Ids that are text, numbered: 0, 1, 2, ... in the order of the names by UTF-8 bytes.

The number of a name depends on the set of all names and on nothing else: not on the order of the rows, on how they are
read, or on where they are numbered. Here this is done in memory; `edges.shuffle` does it piece by piece.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dask_rac.base.errors import InputError, Where, refuse_nulls, refuse_rows
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.files.node_names import NamesInMemory, NodeNames

ENDS = EDGE_COLUMNS[:2]
TEXT = pa.large_string()
OWN_NAMES = "ids that are text are the names of their nodes, so"


def is_text(kind: pa.DataType) -> bool:
    """Whether an Arrow type holds text, in whatever form."""
    values = kind.value_type if isinstance(kind, pa.DictionaryType) else kind
    return pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)


def as_text(column: Any, name: str, where: Where) -> Any:
    """Return a column of names as an Arrow array of large strings; None if it holds anything but text.

    Names that are null or empty are refused, and so are columns of names and numbers.
    """
    found = _arrow_text(column, name, where)
    if found is None:
        return None
    text = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if text.null_count:
        refuse_nulls(text.is_null().to_numpy(zero_copy_only=False), name, where)
    refuse_rows(equal_text(text, ""), name, "empty", "drop these edges or name their nodes", where)
    return text


def equal_text(column: Any, text: str) -> NDArray[np.bool_]:
    """Which rows of a column of text are this one."""
    found: Any = pc.equal(column, pa.scalar(text, TEXT))
    return np.asarray(found.to_numpy(zero_copy_only=False), np.bool_)


def _arrow_text(column: Any, name: str, where: Where) -> Any:
    """Return a column of text as Arrow has it, None for anything else."""
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return column.cast(TEXT) if is_text(column.type) else None
    if isinstance(column, list | tuple):  # numpy would turn numbers among text into text
        column = pd.Series(column, dtype=object) if np.asarray(column, object).ndim == 1 else np.asarray(column)
    if isinstance(column, np.ndarray):
        if column.dtype.kind in "UT" and column.ndim == 1:
            return pa.array(column, TEXT)
        if column.dtype.kind != "O" or column.ndim != 1:
            return None
        column = pd.Series(column)
    return _series_text(column, name, where) if isinstance(column, pd.Series | pd.Index) else None


def _series_text(column: Any, name: str, where: Where) -> Any:
    """Return the text of a pandas Series, None if it holds anything else."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return _arrow_text(pa.array(column), name, where) if _holds(kind.categories, "string") else None
    if isinstance(kind, np.dtype) and kind.kind != "O":
        return None
    if isinstance(kind, np.dtype) and not _holds(column, "string"):
        if _holds(column, "mixed", "mixed-integer"):
            _refuse_mixture(column, name, where)
        return None
    return _arrow_text(pa.array(column, from_pandas=True), name, where)


def _refuse_mixture(column: Any, name: str, where: Where) -> None:
    """Raise if a column holds both text and other values: the first of those that are fewer is reported."""
    others = column.map(type).ne(str).to_numpy()
    if others.all():
        return
    fewer = others.sum() * 2 <= len(others)
    bad, what = (others, "not text") if fewer else (~others, "text")
    remedy = "give all ids as text, or all as whole numbers"
    refuse_rows(bad, name, what, remedy, where, np.array([*column, None], object)[:-1])


def _holds(column: Any, *kinds: str) -> bool:
    """Whether pandas sees values of one of these kinds in a Series or Index, nulls aside."""
    return pd.api.types.infer_dtype(column, skipna=True) in kinds


def is_named(columns: dict[str, Any]) -> bool:
    """Whether the ends of edges are names; raise if those of one end are, and those of the other are not."""
    texts = [name for name in ENDS if isinstance(columns[name], pa.Array)]
    if len(texts) == 1:
        other = next(name for name in ENDS if name not in texts)
        raise InputError(
            f"column {texts[0]!r} is text and column {other!r} is {columns[other].dtype}: give both as text, or both "
            "as whole numbers 0, 1, 2, ..."
        )
    return bool(texts)


def refuse_stated_nodes(n_nodes: int | None) -> None:
    """Raise if a number of nodes, or their names, are given besides ids that are text."""
    if n_nodes is not None:
        raise InputError(f"{OWN_NAMES} n_nodes= and names= do not apply: leave them out")


def number_columns(columns: dict[str, Any], known: NodeNames | None = None) -> tuple[dict[str, Any], NodeNames]:
    """Return edges between numbered nodes, and the names; raise unless they are those that are `known`, if any are."""
    names, ends = number_texts([columns[name] for name in ENDS])
    check_text(names)
    found = NamesInMemory(names)
    if known is not None and not same_names(found, known):
        raise other_nodes(len(found), len(known))
    return columns | dict(zip(ENDS, ends, strict=True)), found


def other_nodes(here: int, clustered: int) -> InputError:
    """Return what to raise for edges between other nodes than those that were clustered."""
    other = f"not the {clustered:,} that were clustered" if here != clustered else "and some of them were not clustered"
    return InputError(f"these edges name {here:,} nodes, {other}: give the edges that were clustered")


def number_texts(texts: list[Any]) -> tuple[Any, list[NDArray[np.int32]]]:
    """Return the sorted distinct names in some columns, and the columns as places among these."""
    if not any(map(len, texts)):
        return pa.array([], TEXT), [np.empty(0, np.int32) for _ in texts]
    encoded: Any = pa.chunked_array(texts, TEXT).dictionary_encode()
    names = encoded.chunk(0).dictionary
    order = pc.sort_indices(names)
    rank = np.empty(len(names), np.int32)
    rank[order.to_numpy()] = np.arange(len(names), dtype=np.int32)
    return names.take(order), [rank[chunk.indices.to_numpy(zero_copy_only=False)] for chunk in encoded.chunks]


def check_text(names: Any) -> None:
    """Raise unless names are text: what other programs write into columns of text need not be UTF-8."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid as error:
        raise InputError(f"a name is not UTF-8: {error}; write the names as UTF-8") from error


def same_names(first: NodeNames, other: NodeNames) -> bool:
    """Whether the nodes have the same names."""
    pairs = zip(first.batches(), other.batches(), strict=False)
    return len(first) == len(other) and all(a.equals(b) for a, b in pairs)
