"""Tables of numbers in any form users have distances: in memory, or read in parts from wherever they are."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.spans import Span
from dask_rac.files.listing import list_files
from dask_rac.files.npy import HEAD, read_header
from dask_rac.files.ranges import opened
from dask_rac.files.reading import readable
from dask_rac.files.urls import locate
from dask_rac.vectors.sources.opening import is_dask_array
from dask_rac.vectors.sources.zarr_files import ZARR_FILES, open_zarr_array

NAME = "the distances"
KNOWN = "a .npy file or a Zarr array"


@dataclass(frozen=True)
class Numbers:
    """A table of one or two dimensions."""

    name: str
    """The path or URL as given, or what messages call a table in memory."""
    shape: tuple[int, ...]
    near: bool
    """Whether the values are in memory."""
    chunk: int
    """How many rows are best read at a time, or a divisor of that."""
    slices: Callable[[tuple[slice, ...]], Any]
    """Reads a part."""

    def read(self, *spans: Span) -> NDArray[np.float64]:
        """Read a part as float64."""
        with readable(self.name):
            part = np.ascontiguousarray(self.slices(tuple(slice(*span) for span in spans)), np.float64)
        part = part.view()
        part.flags.writeable = False  # kernels are compiled for such arrays only
        return part


def open_numbers(given: Any) -> Numbers:
    """Open a table of numbers of any known form; raise if its form or dtype cannot be used."""
    if isinstance(given, str | PathLike):
        return _open_path(fspath(given))
    if sp.issparse(given):
        raise InputError(
            f"{NAME} are a sparse matrix, which does not hold all pairs: leave out metric='precomputed', and its "
            "entries are edges; if those that are missing are 0, use toarray()"
        )
    if is_dask_array(given):
        return _open_dask(given)
    zarr = sys.modules.get("zarr")
    if zarr is not None and isinstance(given, zarr.Array):
        root = getattr(given.store, "root", None)  # set for a folder on a local disk
        return _of_zarr(given, NAME) if root is None else _open_path(f"{root}/{given.path}".rstrip("/"))
    values = _from_frame(given) if isinstance(given, pd.DataFrame) else _as_array(given)
    _check_dtype(values.dtype, NAME)
    return held(values, NAME)


def held(values: NDArray[Any], name: str) -> Numbers:
    """Return a table in memory."""
    return Numbers(name, values.shape, True, 1, values.__getitem__)


def _from_frame(frame: pd.DataFrame) -> NDArray[Any]:
    """Return the values of a square DataFrame, whose rows and columns must be the same points."""
    if frame.shape[0] == frame.shape[1] and not frame.index.equals(frame.columns):
        differ = int(np.flatnonzero(np.asarray(frame.index) != np.asarray(frame.columns))[0])
        raise InputError(
            f"row {differ} of {NAME} is {frame.index[differ]!r}, column {differ} is {frame.columns[differ]!r}: rows "
            "and columns must be the same points in the same order; use frame.loc[names, names], or to_numpy()"
        )
    for column, kind in enumerate(frame.dtypes):
        _check_dtype(getattr(kind, "numpy_dtype", kind), f"column {frame.columns[column]!r} of {NAME}")
    return frame.to_numpy(np.float64, na_value=np.nan)


def _as_array(given: Any) -> NDArray[Any]:
    """Convert anything that numpy can turn into an array."""
    if np.ma.isMaskedArray(given) and np.ma.getmaskarray(given).any():
        count = int(np.ma.getmaskarray(given).sum())
        raise InputError(f"{NAME} are masked in {count:,} places: all pairs need a distance; fill them in")
    if not hasattr(given, "__array__") and not isinstance(given, list | tuple):
        raise InputError(f"{NAME} cannot be a {type(given).__name__}: give a square or condensed array, {KNOWN}")
    try:
        return np.asarray(given)
    except (ValueError, TypeError) as error:
        raise InputError(f"{NAME} are not an array of numbers ({error}): give rows of equal length") from error


def _check_dtype(dtype: Any, what: str) -> None:
    """Raise unless values can be converted to float64 without a doubt."""
    kind = getattr(dtype, "kind", "O")
    if kind in "biu" or (kind == "f" and dtype.itemsize in (4, 8)):
        return
    remedy = 'use astype("float64")' if kind == "f" else "convert them to numbers"
    raise InputError(f"the values of {what} are {dtype}, not float64, float32, integers or bool: {remedy}")


def _open_dask(array: Any) -> Numbers:
    """Open a Dask array, which is computed in parts."""
    if np.isnan(np.array(array.shape, np.float64)).any():
        raise InputError(f"{NAME} are a Dask array with chunks of unknown size: call compute_chunk_sizes() first")
    _check_dtype(array.dtype, NAME)
    chunk = int(array.chunks[0][0]) if array.ndim else 1
    return Numbers(NAME, tuple(map(int, array.shape)), False, max(1, chunk), lambda place: array[place].compute())


def _of_zarr(array: Any, name: str) -> Numbers:
    """Open a Zarr array."""
    _check_dtype(array.dtype, name)
    chunk = (array.shards or array.chunks)[0] if array.ndim else 1
    return Numbers(name, tuple(array.shape), False, max(1, int(chunk)), array.__getitem__)


def _open_path(name: str) -> Numbers:
    """Open the table at a path or URL."""
    if not name:
        raise InputError(f"distances='' is not a path: give {KNOWN}")
    with readable(name):
        root, infos = list_files(name, f"give {KNOWN}")
        if any(f"{root}/{file}" in infos for file in ZARR_FILES):
            return _of_zarr(open_zarr_array(name, infos), name)
        if root in infos and root.endswith(".npy"):
            return _open_npy(name, root, infos[root])
    raise InputError(f"{name} holds no distances in a known format: give {KNOWN}")


def _open_npy(name: str, path: str, info: dict[str, Any]) -> Numbers:
    """Open a .npy file, of which whole rows are read."""
    filesystem, size = locate(name)[0], int(info["size"])
    head: bytes = filesystem.cat_file(path, start=0, end=min(size, HEAD)) if size else b""
    header = read_header(head, name)
    _check_dtype(header.dtype, name)
    if header.fortran and len(header.shape) > 1:
        raise InputError(
            f"{name} is in Fortran order, column after column: store rows, with "
            "numpy.save(path, numpy.ascontiguousarray(distances))"
        )
    if size != header.size:
        raise InputError(f"{name} is {size} bytes, not {header.size} as its header states: copy or write it again")
    row = header.dtype.itemsize * int(np.prod(header.shape[1:]))

    def slices(place: tuple[slice, ...]) -> NDArray[Any]:
        first, last = place[0].start, place[0].stop
        with opened(filesystem, path, size) as file:
            file.seek(header.offset + first * row)
            data = file.read((last - first) * row)
        if len(data) != (last - first) * row:
            raise InputError(f"{name} cannot be read: it was cut short after it was opened; write it again")
        rows = np.frombuffer(data, header.dtype).reshape(last - first, *header.shape[1:])
        return rows[(slice(None), *place[1:])]

    return Numbers(name, header.shape, False, 1, slices)
