"""Edge lists as people have them to Parquet."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count, islice
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from dask_rac.base.errors import BadRows, InputError, Where, refuse_nulls, refuse_rows
from dask_rac.base.events import Event, Listener
from dask_rac.base.names import EDGE_NAMES, SHUFFLED, part_name
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.base.spans import Span
from dask_rac.edges.checks import checked_ids
from dask_rac.edges.columns import ColumnSource
from dask_rac.edges.first_id import smallest_id
from dask_rac.edges.numbering import TEXT
from dask_rac.edges.records import write_record
from dask_rac.edges.shuffle import (
    ROW_BYTES,
    NamedEdges,
    Shuffle,
    choose_splitters,
    cut_piece,
    merge_range,
    number_piece,
    united,
    write_pieces,
)
from dask_rac.edges.text import Part, TextIdsError
from dask_rac.edges.writing import FileSizes, new_folder, row_groups
from dask_rac.files.stored_names import write_names_record

Columns = Sequence[Any]
"""Arrays of numpy; ids that are text are Arrow arrays of large strings."""


class WideIdsError(Exception):
    """An id needs more than 32 bits."""


def convert(source: ColumnSource, store: str | PathLike[str], report: Listener, sizes: FileSizes | None = None) -> Span:
    """Write all edges to a new folder, and from the start again if an id is text, or needs more than 32 bits.

    Returns the smallest and the largest id.
    """
    sizes = sizes or FileSizes()
    if not source.named:
        try:
            return _write_numbers(source, store, report, sizes)
        except TextIdsError as error:
            if error.mixed:
                warnings.warn(str(error), stacklevel=3)
    return _write_names(replace(source, named=True), store, report, sizes)


def _write_numbers(source: ColumnSource, store: str | PathLike[str], report: Listener, sizes: FileSizes) -> Span:
    """Write edges between numbered nodes; return the smallest and the largest id."""
    try:
        return _write(source, store, np.dtype(np.int32), report, sizes)
    except WideIdsError:
        return _write(source, store, np.dtype(np.int64), report, sizes)


def _write_names(source: ColumnSource, store: str | PathLike[str], report: Listener, sizes: FileSizes) -> Span:
    """Write edges between nodes that are numbered by their names, and the names beside them; return the ids."""
    with new_folder(store, (source.rows or 0) * ROW_BYTES) as folder:
        job = Shuffle(folder.folder.url, SHUFFLED, EDGE_NAMES, "", sizes.text_bytes)
        pieces = list(write_pieces(job, _named_edges(source, report)))
        if not pieces:
            raise _no_edges(source)
        splitters = choose_splitters(pieces, job.most)
        cuts = [cut_piece(job, piece, splitters) for piece in pieces]
        ranges = [merge_range(job, pieces, cuts, number) for number in range(len(splitters) + 1)]
        edges = sum(number_piece(job, piece, number, cuts, ranges) for number, piece in enumerate(pieces))
        folder.folder.remove(SHUFFLED)
        names = united(ranges)
        write_names_record(folder.folder, names)
        write_record(folder.folder, edges, len(pieces))
    return 0, names.nodes - 1


def _named_edges(source: ColumnSource, report: Listener) -> Iterator[NamedEdges]:
    """Read edges between names and check them."""
    weight = np.dtype(np.float32 if source.single else np.float64)
    for first, second, weights in _parts(source, report):
        yield _texts(first), _texts(second), np.asarray(weights, weight)


def _texts(ids: Any) -> Any:
    """Return ids as text; those of Parquet may be numbers that are to be names."""
    return pa.array(ids).cast(TEXT) if isinstance(ids, np.ndarray) else ids


def _no_edges(source: ColumnSource) -> InputError:
    """Return what to raise for a list without edges."""
    return InputError(f"{source.name} holds no edges, so there is nothing to cluster: check that it is the right path")


def _write(
    source: ColumnSource, store: str | PathLike[str], ids: np.dtype[Any], report: Listener, sizes: FileSizes
) -> Span:
    """Write all edges, several row groups per file; return the smallest and the largest id."""
    seen: list[Span] = []
    weight = np.dtype(np.float32 if source.single else np.float64)
    size = (source.rows or 0) * (2 * ids.itemsize + weight.itemsize)
    groups = row_groups(_edges(source, ids, report, seen), (ids, ids, weight), sizes.group_edges)
    with new_folder(store, size) as folder:
        edges = 0
        for file in count():
            first = next(groups, None)
            if first is None:
                break
            edges += folder.write(part_name(file), chain((first,), islice(groups, sizes.file_groups - 1)))
        if not file:
            raise _no_edges(source)
        write_record(folder.folder, edges, file)
    return min(first for first, _ in seen), max(last for _, last in seen)


def _edges(source: ColumnSource, ids: np.dtype[Any], report: Listener, seen: list[Span]) -> Iterator[Columns]:
    """Read edges between numbered nodes and check them; the smallest and the largest id of each part go to `seen`."""
    most = np.iinfo(ids).max
    for checked in _parts(source, report):
        ends = checked[:2]
        if any(len(column) and column.max() > most for column in ends):
            raise WideIdsError
        if len(ends[0]):
            seen.append((smallest_id(ends), max(int(column.max()) for column in ends)))
        yield checked


def _parts(source: ColumnSource, report: Listener) -> Iterator[Columns]:
    """Read edges and check every row."""
    rows = 0
    names = [str(name) for name in source.layout.columns]
    parts = source.read()
    for part in parts:
        try:
            checked = _checked(part, names)
        except TextIdsError as error:
            error.mixed = error.mixed or rows > 0
            raise
        except InputError as error:
            if error.rows is None:
                raise
            raise _counted(error.rows, parts, names) from None
        rows += len(checked[0])
        report(Event("load", done=rows))
        yield checked


def _checked(part: Part, names: list[str]) -> Columns:
    """Return some edges, whose weight is 1 if the file has none."""
    columns, where = part()
    ends = columns[:2]
    if isinstance(ends[0], np.ndarray):
        ends = [_checked_ends(column, name, where) for column, name in zip(ends, names, strict=False)]
    if len(columns) < len(EDGE_COLUMNS):
        return *ends, np.broadcast_to(1.0, len(ends[0]))
    _check_weights(columns[2], names[2], where)
    return *ends, columns[2]


def _counted(rows: BadRows, parts: Iterator[Part], names: list[str]) -> InputError:
    """Return the error for all bad rows: the rest is read as well, to count what is wrong in it."""
    others, least = 0, False
    try:
        for part in parts:
            try:
                _checked(part, names)
            except InputError as error:
                if error.rows is None:
                    raise
                same = (error.rows.column, error.rows.remedy) == (rows.column, rows.remedy)
                others, least = others + same * error.rows.count, least or not same
    except TextIdsError as error:
        error.mixed = True
        raise
    except InputError:
        least = True
    return replace(rows, count=rows.count + others, least=least).error()


def _checked_ends(column: NDArray[Any], name: str, where: Where) -> NDArray[np.integer]:
    """Return a column of ids as integers."""
    if column.dtype.kind == "f":  # also integers that did not fit in 64 bits
        refuse_rows(column >= 2.0**53, name, "too large", "number the nodes 0, 1, 2, ...", where, column)
    return checked_ids(column, name, None, where)


def _check_weights(weight: NDArray[Any], name: str, where: Where) -> None:
    """Raise unless all weights are finite and 0 or more."""
    if len(weight) and not (weight.min() >= 0 and weight.max() < np.inf):
        refuse_nulls(np.isnan(weight), name, where)
        refuse_rows(
            np.isinf(weight), name, "infinite", "drop these edges: pairs without an edge are missing", where, weight
        )
        refuse_rows(weight < 0, name, "negative", "weights are 0 or more", where, weight)
    if weight.dtype.kind in "iu":
        refuse_rows(weight > 2**53, name, "too large for a float", "scale the weights down", where, weight)
