"""Edges in a Zarr group of three arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.base.text import listed
from dask_rac.edges.units import EdgeFile, Unit
from dask_rac.files.reading import readable
from dask_rac.files.stamps import listing_stamp
from dask_rac.files.zarr_input import check_chunks, kept_arrays, kept_node


def zarr_file(name: str, root: str, files: Mapping[str, Any]) -> EdgeFile:
    """Return what the metadata of a Zarr group states; raise unless all chunks are there."""
    listing = listing_stamp(root, dict(files))
    group = kept_node(name, listing)
    with readable(name, "a Zarr group"):
        if not hasattr(group, "array_keys"):
            raise InputError(f"{name} is a Zarr array: edges are a group of the arrays {', '.join(EDGE_COLUMNS)}")
        names = sorted(group.array_keys())
    arrays = kept_arrays(name, listing, tuple(column for column in EDGE_COLUMNS if column in names))
    for column in EDGE_COLUMNS:
        _check_column(arrays.get(column), column, name, names)
    lengths = {column: array.shape[0] for column, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"the arrays of {name} must have equal lengths, not {lengths}")
    check_chunks(arrays.values(), root, files, name)
    rows, chunk = lengths["source"], int((arrays["weight"].shards or arrays["weight"].chunks)[0])
    groups = tuple(min(chunk, rows - start) for start in range(0, rows, chunk))
    size = sum(int(info["size"] or 0) for info in files.values())
    whole = min(rows, max(int(array.chunks[0]) for array in arrays.values()))
    return EdgeFile(name, rows, groups, str(arrays["weight"].dtype), listing, size, whole_rows=whole)


def zarr_batches(file: EdgeFile, unit: Unit, batch_rows: int) -> Iterator[tuple[int, dict[str, NDArray[Any]]]]:
    """Yield batches of a unit of Zarr arrays, each with the number of its first row; no chunk is read twice."""
    arrays = kept_arrays(file.path, file.stamp, EDGE_COLUMNS)
    chunk = max(int(array.chunks[0]) for array in arrays.values())
    end, step = unit.first_row + unit.rows, max(chunk, batch_rows // chunk * chunk)
    for start in range(unit.first_row, end, step):
        columns = {name: np.asarray(array[start : min(start + step, end)]) for name, array in arrays.items()}
        for at in range(0, len(columns["weight"]), batch_rows):
            yield start + at, {name: column[at : at + batch_rows] for name, column in columns.items()}


def _check_column(array: Any, column: str, name: str, names: list[str]) -> None:
    """Raise unless there is an array of one dimension of numbers."""
    if array is None:
        raise InputError(f"{name} has no array {column!r}: it needs {', '.join(EDGE_COLUMNS)} and has {listed(names)}")
    if array.ndim != 1 or array.dtype.kind not in "iuf":
        raise InputError(
            f"array {column!r} of {name} is {array.ndim}-dimensional {array.dtype}: store one dimension of numbers"
        )
