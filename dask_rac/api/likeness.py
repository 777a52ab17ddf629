"""What is given as vectors or edges but looks like distances: it is square and symmetric, and its diagonal is 0."""

from __future__ import annotations

from contextlib import suppress
from math import isqrt
from os import PathLike, fspath
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.sparse import check_sparse
from dask_rac.vectors.pairs.numbers import open_numbers

LOOKED_AT = 2000  # points of a matrix that are compared with their mirror image
READ = 2**20  # values that are read for that, where they are not in memory
NEARLY, MOST = 0.9, 0.5  # of all pairs: a sparse matrix that stores as many may have been dense before
FEW = 10  # nodes: with fewer, a graph has most pairs by chance
SAMPLED = 20  # absent pairs that are looked at
ROUNDING = 1e-6  # fraction of the largest distance by which those of identical points may differ


def looks_like_distances(array: NDArray[Any]) -> bool:
    """Whether an array is square and symmetric with a diagonal of zeros, as far as its first points show."""
    if array.ndim != 2 or array.shape[0] != array.shape[1] or len(array) < 3 or array.dtype.kind not in "iuf":
        return False
    part = array[:LOOKED_AT, :LOOKED_AT]
    return not part.diagonal().any() and np.array_equal(part, part.T) and bool((part >= 0).all())


def _looks_like_similarities(array: NDArray[Any]) -> bool:
    """Whether an array is square and symmetric, and nothing exceeds its diagonal, which is the same all along."""
    if array.ndim != 2 or array.shape[0] != array.shape[1] or len(array) < 3 or array.dtype.kind not in "iuf":
        return False
    part = array[:LOOKED_AT, :LOOKED_AT]
    own, most = part.diagonal(), float(np.abs(part).max())
    if not (most > 0 and np.allclose(own, most) and np.allclose(part, part.T)):
        return False
    others = part[~np.eye(len(part), dtype=bool)]
    return bool(others.min() < others.max())


def _condensed_points(given: Any) -> int:
    """Return of how many points an array may be the condensed distances; 0 if it is not of such a length."""
    if not isinstance(given, np.ndarray) or given.ndim != 1:
        return 0
    points = (1 + isqrt(1 + 8 * len(given))) // 2
    return points if points > 2 and points * (points - 1) // 2 == len(given) else 0


def first_points(given: Any) -> NDArray[Any] | None:
    """Return the first rows and columns of what may be a square matrix, wherever it is; None if it is not square."""
    if isinstance(given, np.ndarray | list):
        return np.asarray(given)
    if isinstance(given, str | PathLike) and not str(given).endswith(".npy"):
        return None
    with suppress(InputError):  # which opening it as vectors raises, in the words for vectors
        numbers = open_numbers(given)
        if len(numbers.shape) == 2 and numbers.shape[0] == numbers.shape[1] > 0:
            shown = min(numbers.shape[0], LOOKED_AT, max(3, READ // numbers.shape[0]))
            return numbers.read((0, shown), (0, shown))
    return None


def refuse_dense_distances(given: Any) -> None:
    """Raise if what would be taken for vectors, as no metric was given, looks like a matrix of distances."""
    if condensed := _condensed_points(given):
        raise InputError(
            f"the array has one dimension, and {len(given):,} values are the distances of all pairs of {condensed:,} "
            "points: pass metric='precomputed' if they are"
        )
    points = first_points(given)
    kind = "the list" if isinstance(given, list) else "the array"
    what = fspath(given) if isinstance(given, str | PathLike) else kind
    if points is not None and _looks_like_similarities(points):
        raise InputError(
            f"{what} is square and symmetric, and largest on its diagonal, so it looks like similarities S: pass "
            "distances, S.max() - S, with metric='precomputed' if it is, or metric='euclidean' if its rows are vectors"
        )
    if points is not None and looks_like_distances(points):
        raise InputError(
            f"{what} is square and symmetric with zeros on its diagonal, so it looks like distances: pass "
            "metric='precomputed' if it is, or metric='euclidean' if its rows are vectors"
        )


def refuse_sparse_distances(given: Any, name: str = "the sparse matrix") -> None:
    """Raise if a sparse matrix of vectors looks like distances: nearly full, symmetric, and 0 on its diagonal."""
    if not _holds_pairs(given, NEARLY):
        return
    rows = given.tocsr()
    if rows.diagonal().any() or (rows != rows.T).nnz or rows.data.min() < 0:
        return
    raise InputError(
        f"{name} is square and symmetric with zeros on its diagonal, and nearly full, so it looks like distances: pass "
        "its toarray() with metric='precomputed' if it is, or its toarray() with this metric if its rows are vectors"
    )


def zeros_text(edges: Any, weights: str) -> str:
    """Return a warning about zeros that a sparse matrix has dropped, as csr_matrix(distances) does; "" without any.

    Points at distance 0 from each other are equally far from all others: rows of an absent pair that differ show that
    it is absent for another reason.
    """
    if weights != "distance" or not _holds_pairs(edges, MOST) or edges.shape[0] < FEW:
        return ""
    rows = sp.csr_array(edges)
    n = rows.shape[0]
    absent = (n * (n - 1) - rows.nnz + np.count_nonzero(rows.diagonal())) // 2
    if absent <= 0 or rows.data.min() == rows.data.max() or not _are_identical(rows):
        return ""
    return (
        f"the sparse matrix holds all but {absent:,} of the {n * (n - 1) // 2:,} pairs, and points without an entry "
        "are equally far from all others, so their distance seems to be 0: a sparse matrix drops zeros, and absent "
        "entries are missing pairs, not zeros; pass the dense matrix with metric='precomputed'"
    )


def _holds_pairs(matrix: Any, share: float) -> bool:
    """Whether this is a sparse matrix, square and sound, that holds a share of all pairs, both ways."""
    if not sp.issparse(matrix):
        return False
    return _share_of(matrix) >= share


def _share_of(matrix: Any) -> float:
    """Return how much of all pairs a sparse matrix holds; 0 if it is too small, not square, or damaged."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.shape[0] < 3:
        return 0.0
    with suppress(InputError):
        check_sparse(matrix)
        return float(matrix.nnz / (matrix.shape[0] * (matrix.shape[0] - 1)))
    return 0.0


def _are_identical(rows: sp.csr_array) -> bool:
    """Whether the two points of absent pairs, as far as some of them show, have the same distances to all others."""
    n, largest = rows.shape[0], rows.max()
    short = np.flatnonzero(np.diff(rows.indptr) < n - 1)[:SAMPLED]
    for point in short.tolist():
        mine = rows[[point]].toarray()[0]
        others = np.setdiff1d(np.arange(n), rows.indices[rows.indptr[point] : rows.indptr[point + 1]])
        other = int(others[others != point][0])
        theirs = rows[[other]].toarray()[0]
        if np.abs(mine - theirs).max() > ROUNDING * largest:
            return False
    return True
