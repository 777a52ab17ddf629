"""Vectors in memory: arrays of any library, nested lists, DataFrames and sparse matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.errors import InputError, ResourceError, plain_row, refuse_nulls
from dask_rac.base.sparse import check_sparse
from dask_rac.base.text import size_text
from dask_rac.tasks.machine import memory_limit
from dask_rac.vectors.sources.source import (
    Block,
    VectorSource,
    canonical,
    check_shape,
    checked_dtype,
    memory_of,
    sparse_block,
    widest,
)

NAME = "the vectors"
DIGEST_BYTES = 2**26  # read at a time


@dataclass(frozen=True, kw_only=True, eq=False)
class ArraySource(VectorSource):
    """The rows of an array, read on demand."""

    values: Any
    """A numpy or Zarr array."""

    @cached_property
    def fingerprint(self) -> str:
        """A digest of shape, dtype and values."""
        digest = sha256(repr((self.rows, self.dimensions, self.dtype)).encode())
        step = max(1, DIGEST_BYTES // (self.dimensions * 8))
        for start in range(0, self.rows, step):
            digest.update(memory_of(self.read(start, min(start + step, self.rows))))
        return digest.hexdigest()

    def reachable(self) -> bool:
        """Return True: vectors in memory are always there."""
        return True

    def _rows(self, start: int, stop: int) -> Block:
        return np.ascontiguousarray(self.values[start:stop], self.dtype)


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixSource(VectorSource):
    """The rows of a sparse matrix."""

    matrix: sp.csr_array
    """In canonical form."""
    stamp: str = ""
    """A digest that identifies the file it was loaded from."""

    @cached_property
    def fingerprint(self) -> str:
        """A digest of shape, dtype and values, or of the file it was loaded from."""
        if self.stamp:
            return self.stamp
        digest = sha256(repr(("sparse", self.rows, self.dimensions, self.dtype)).encode())
        for array in (self.matrix.indptr.astype(np.int64), self.matrix.indices, self.matrix.data):
            digest.update(memory_of(array))
        return digest.hexdigest()

    def reachable(self) -> bool:
        """Return True: vectors in memory are always there."""
        return True

    def _rows(self, start: int, stop: int) -> Block:
        indptr = self.matrix.indptr[start : stop + 1]
        part = slice(indptr[0], indptr[-1])
        block = sparse_block(self.matrix.data[part], self.matrix.indices[part], indptr, self.dimensions)
        block.has_canonical_format = True
        return block


def open_array(values: Any) -> ArraySource:
    """Open the rows of a numpy or Zarr array."""
    check_shape(values.shape, NAME)
    dtype = checked_dtype(values.dtype, NAME)
    rows, dimensions = values.shape
    return ArraySource(
        name=NAME,
        origin="",
        rows=rows,
        dimensions=dimensions,
        dtype=dtype,
        sparse=False,
        entries=rows * dimensions,
        bytes=int(values.nbytes),
        on_disk=False,
        values=values,
    )


def open_matrix(matrix: Any, name: str = NAME, stamp: str = "") -> MatrixSource:
    """Open the rows of a sparse matrix in any format; it is not modified."""
    check_shape(matrix.shape, name)
    check_sparse(matrix, name)
    dtype = checked_dtype(matrix.dtype, name)
    _refuse_many(matrix.shape[0], name)
    # Conversion to rows may sum duplicates, beyond what a byte holds.
    wide = "int64" if dtype == "uint8" and matrix.format != "csr" else dtype
    rows = canonical(sp.csr_array(matrix.astype(wide, copy=False)), dtype, name)
    rows = sparse_block(rows.data, rows.indices, rows.indptr, rows.shape[1])
    return MatrixSource(
        name=name,
        origin="" if name == NAME else name,
        rows=rows.shape[0],
        dimensions=rows.shape[1],
        dtype=dtype,
        sparse=True,
        entries=int(rows.nnz),
        bytes=rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes,
        on_disk=False,
        matrix=rows,
        stamp=stamp,
    )


def _refuse_many(rows: int, name: str) -> None:
    """Raise if there are more rows than memory can hold, even if all are empty."""
    needed = rows * np.dtype(np.int64).itemsize
    if needed > memory_limit():
        raise ResourceError(
            f"the {rows} rows of {name} need {size_text(needed)} of memory even if they are empty, and there are "
            f"{size_text(memory_limit())}: drop empty rows"
        )


def open_frame(frame: pd.DataFrame, columns: Sequence[str] | None) -> ArraySource:
    """Open the rows of a DataFrame, with one column per dimension."""
    if columns is not None:
        frame = _chosen(frame, columns)
    check_shape(frame.shape, NAME)
    kinds = [getattr(kind, "numpy_dtype", kind) for kind in frame.dtypes]
    what = [f"column {name!r} of {NAME}" for name in frame.columns]
    hint = "" if columns is not None else "; or choose others with columns="
    if len(kinds) == 1 and str(kinds[0]) == "object":
        hint = f"; if these are lists, pass numpy.stack(frame[{frame.columns[0]!r}])"
    try:
        dtype = widest([checked_dtype(kind, name) for kind, name in zip(kinds, what, strict=True)])
    except InputError as error:
        raise InputError(f"{error}{hint}") from None
    for number, kind in enumerate(frame.dtypes):
        if not isinstance(kind, np.dtype):
            refuse_nulls(frame.iloc[:, number].isna().to_numpy(), frame.columns[number], plain_row)
    return open_array(frame.to_numpy(dtype))


def as_array(vectors: Any) -> NDArray[Any]:
    """Convert anything that numpy can turn into an array."""
    if np.ma.isMaskedArray(vectors):
        mask = np.ma.getmaskarray(vectors)
        if mask.any():
            row = int(mask.reshape(len(mask), -1).any(axis=1).argmax())
            raise InputError(f"{NAME} are masked in {int(mask.sum())} places, first in row {row}: drop or fill them")
        return np.asarray(vectors.data)
    try:
        return np.asarray(vectors)
    except (ValueError, TypeError) as error:
        raise InputError(f"{NAME} are not an array of numbers ({error}): give rows of equal length") from error


def _chosen(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Return the given columns of a frame."""
    names = list(frame.columns)
    for column in columns:
        if names.count(column) != 1:
            count = f"{names.count(column)} columns" if column in names else "no column"
            raise InputError(f"{NAME} have {count} {column!r}: they have {', '.join(map(str, names))}")
    return frame[list(columns)]
