"""Sparse matrices from users and files, whose arrays may be inconsistent: scipy's compiled loops do not check them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError


def check_sparse(matrix: Any, what: str = "the matrix") -> None:
    """Raise unless the arrays of a sparse matrix fit each other and its shape; must precede any conversion."""
    checks = {"csr": _compressed, "csc": _compressed, "bsr": _compressed, "coo": _coordinates, "dia": _diagonals}
    check = checks.get(matrix.format, _lists)
    try:
        fault = check(matrix)
    except (TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        fault = f"its arrays are not as scipy makes them ({error})"
    if fault:
        raise InputError(f"{what} is damaged: {fault}; build it again")


def _compressed(matrix: Any) -> str:
    """Return what is wrong with rows, columns or blocks that are stored one after the other."""
    indptr, indices, data = matrix.indptr, matrix.indices, matrix.data
    height, width = data.shape[1:] if matrix.format == "bsr" else (1, 1)
    if data.ndim != (3 if matrix.format == "bsr" else 1) or not _whole(indptr) or not _whole(indices):
        return (
            f"indptr, indices and data are not two lists of integers and values, but {indptr.dtype} and {indices.dtype}"
        )
    rows, columns = matrix.shape if matrix.format != "csc" else matrix.shape[::-1]
    if min(height, width) < 1 or rows % height or columns % width:
        return f"blocks of {height} x {width} do not fit the shape {matrix.shape}"
    if len(indptr) != rows // height + 1:
        return f"indptr has {len(indptr)} items, not {rows // height + 1}"
    if indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        return "indptr does not increase from 0"
    if not len(indices) == len(data) == indptr[-1]:
        return f"indptr ends at {indptr[-1]}, with {len(indices)} indices and {len(data)} values"
    return _outside(indices, columns // width, "indices")


def _coordinates(matrix: Any) -> str:
    """Return what is wrong with entries that are stored with their row and column."""
    row, column, data = matrix.row, matrix.col, matrix.data
    if not _whole(row) or not _whole(column) or data.ndim != 1:
        return f"row and col are {row.dtype} and {column.dtype}, not two lists of integers"
    if not len(row) == len(column) == len(data):
        return f"there are {len(row)} rows and {len(column)} columns for {len(data)} values"
    return _outside(row, matrix.shape[0], "row") or _outside(column, matrix.shape[1], "col")


def _diagonals(matrix: Any) -> str:
    """Return what is wrong with a matrix that is stored by diagonals."""
    offsets, data = matrix.offsets, matrix.data
    if not _whole(offsets) or data.ndim != 2 or len(offsets) != len(data):
        return f"offsets and data have the shapes {offsets.shape} and {data.shape}"
    if len(np.unique(offsets)) < len(offsets):
        return "a diagonal occurs twice"
    return _outside(offsets.astype(np.int64) + matrix.shape[0], sum(matrix.shape) + 1, "offsets")


def _lists(matrix: Any) -> str:
    """Return what is wrong with a matrix that is stored as Python lists or a dictionary."""
    return _coordinates(matrix.tocoo())


def _whole(array: NDArray[Any]) -> bool:
    """Whether this is a list of integers."""
    return array.ndim == 1 and array.dtype.kind in "iu"


def _outside(indices: NDArray[Any], stop: int, name: str) -> str:
    """Return which index is not from 0 to below `stop`."""
    if not len(indices) or 0 <= indices.min() <= indices.max() < stop:
        return ""
    at = int(((indices < 0) | (indices >= stop)).argmax())
    return f"{name} holds {indices[at]} at position {at}, which is not from 0 to {stop - 1}"
