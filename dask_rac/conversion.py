"""Edge lists as people have them to Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, count, islice
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.checks import checked_ids
from dask_rac.config import EDGE_COLUMNS, Event, Progress
from dask_rac.errors import InputError, Where, refuse_nulls, refuse_rows
from dask_rac.progress import watcher
from dask_rac.store.columns import ColumnSource, open_columns
from dask_rac.store.csv import Layout
from dask_rac.store.edgelist import new_folder, row_groups

__all__ = ["ingest"]

GROUP_EDGES = 2**20  # a row group
FILE_GROUPS = 4

Columns = Sequence[NDArray[Any]]


class WideIdsError(Exception):
    """An id needs more than 32 bits."""


def ingest(
    edges: str | PathLike[str],
    store: str | PathLike[str],
    *,
    columns: Sequence[str | int | None] = EDGE_COLUMNS,
    delimiter: str | None = None,
    header: bool = True,
    progress: Progress | bool | None = None,
) -> str:
    """Write an edge list as Parquet that `dask_rac.cluster` takes, every value checked on the way.

    Memory does not grow with the list: about 150 MB.

    Parameters
    ----------
    edges : path or URL
        A file, or a folder of such files: delimited text, `.csv`, `.tsv`, `.txt`, `.edges` or `.el`, as it is or with
        `.gz`, `.bz2` or `.zst` after it; or Parquet. Text may begin with lines of comment, `#` or `%`.
    store : path or URL
        The folder to be made. What exists is never written over.
    columns : names or numbers
        Which columns are source, target and weight, by name or by number from 0. None in place of the weight gives
        all edges the weight 1.
    delimiter : str, optional
        What divides columns of text, one character; a space stands for any run of spaces and tabs. By default a comma
        in `.csv`, a tab in `.tsv`, elsewhere what the first line has.
    header : bool
        Whether the first line of text holds names.
    progress : callable or bool, optional
        As for `dask_rac.cluster`.

    Returns
    -------
    str
        `store`, for `dask_rac.cluster` or any reader of Parquet: columns `source` and `target`, int32 where all ids fit
        and int64 where not, and `weight`, float64, or float32 if it was that in all files. Rows keep their order. An id
        beyond 32 bits has the list read once more from the start.

    Raises
    ------
    InputError
        If an id is no whole number from 0 on, a weight is not finite or below 0, a value is missing, a column or file
        is not there, or `store` exists; the message says where. Nothing is left behind.

    Examples
    --------
    A list of SNAP's, without weights: ``ingest("web.txt.gz", "web", columns=(0, 1, None), header=False)``.
    """
    layout = Layout(_checked_columns(columns), _checked_delimiter(delimiter), bool(header))
    source = open_columns(edges, layout)
    with watcher(progress) as report:
        try:
            _write(source, store, np.dtype(np.int32), report)
        except WideIdsError:
            _write(source, store, np.dtype(np.int64), report)
    return fspath(store)


def _checked_columns(columns: Any) -> tuple[str | int, ...]:
    """The columns that are wanted, two or three."""
    wanted = tuple(columns) if isinstance(columns, list | tuple) else ()
    known = wanted[:2] if wanted[2:] == (None,) else wanted
    whole = all(isinstance(k, str) or (isinstance(k, int) and not isinstance(k, bool) and k >= 0) for k in known)
    if len(wanted) != len(EDGE_COLUMNS) or not whole or len(set(known)) < len(known):
        raise InputError(
            f"columns={columns!r} are not three: give the names of source, target and weight, or their numbers from 0, "
            "all different; None in place of the weight gives all edges the weight 1"
        )
    return known


def _checked_delimiter(delimiter: Any) -> str | None:
    """One character, or None."""
    if delimiter is not None and (
        not isinstance(delimiter, str) or len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'
    ):
        raise InputError(f"delimiter={delimiter!r} is not one plain character: ',' or '\\t', or ' ' for any blanks")
    return delimiter


def _write(source: ColumnSource, store: str | PathLike[str], ids: np.dtype[Any], report: Progress) -> None:
    """Write all edges, some row groups a file."""
    weight = np.dtype(np.float32 if source.single else np.float64)
    size = (source.rows or 0) * (2 * ids.itemsize + weight.itemsize)
    groups = row_groups(_edges(source, ids, report), (ids, ids, weight), GROUP_EDGES)
    with new_folder(store, size) as folder:
        for file in count():
            first = next(groups, None)
            if first is None:
                break
            folder.write(f"part-{file:05}.parquet", chain((first,), islice(groups, FILE_GROUPS - 1)))
        if not file:
            raise InputError(
                f"{source.name} holds no edge, so there is nothing to cluster: see that it is the right one"
            )


def _edges(source: ColumnSource, ids: np.dtype[Any], report: Progress) -> Iterator[Columns]:
    """Checked edges, as they are read."""
    most = np.iinfo(ids).max
    names = [str(name) for name in source.layout.columns]
    rows = 0
    for columns, where in source.read():
        rows += len(columns[0])
        report(Event("load", done=rows))
        ends = [_checked_ends(column, name, where) for column, name in zip(columns[:2], names, strict=False)]
        if any(len(column) and column.max() > most for column in ends):
            raise WideIdsError
        if len(columns) == len(EDGE_COLUMNS):
            _check_weights(columns[2], names[2], where)
            yield *ends, columns[2]
        else:
            yield *ends, np.broadcast_to(1.0, len(ends[0]))


def _checked_ends(column: NDArray[Any], name: str, where: Where) -> NDArray[np.integer]:
    """A column of ids as integers."""
    if column.dtype.kind == "f":  # also what 64 bits did not hold
        refuse_rows(column >= 2.0**53, name, "too large", "number the nodes 0, 1, 2, ...", where, column)
    return checked_ids(column, name, None, where)


def _check_weights(weight: NDArray[Any], name: str, where: Where) -> None:
    """Raise unless all weights are finite and none is below 0."""
    if len(weight) and not (weight.min() >= 0 and weight.max() < np.inf):
        refuse_nulls(np.isnan(weight), name, where)
        refuse_rows(
            np.isinf(weight), name, "infinite", "drop these edges: a pair without one is missing", where, weight
        )
        refuse_rows(weight < 0, name, "negative", "weights are 0 or more", where, weight)
    if weight.dtype.kind in "iu":
        refuse_rows(weight > 2**53, name, "too large for a float", "scale the weights down", where, weight)
