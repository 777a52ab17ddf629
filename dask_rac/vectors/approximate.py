"""Neighbours by descent: neighbours of neighbours are looked at until few of them are nearer."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.errors import InputError

EFFORT = 1.6
LEAST_WIDTH = 12  # with fewer neighbours the descent gets stuck
PIECE = 2**22  # values brought to float32 together

Vectors = NDArray[Any] | sp.csr_array


def approximate_neighbours(
    vectors: Vectors, k: int, metric: str, threads: int, seed: int, effort: float = EFFORT
) -> NDArray[np.int64]:
    """The ids of most of the k nearest other rows of each row, near ones first, and -1 where too few were found.

    The descent keeps `effort` times k neighbours. The same seed and number of threads give the same ids; another
    number of threads, or another release of pynndescent, gives others as good. Vectors are compared in float32,
    and the search is compiled, half a minute, in each process and for each metric anew.
    """
    library()  # told before the vectors are gone through
    single, compared = _prepared(vectors, metric)
    found = _descended(single, k, compared, threads, seed, effort)
    short = np.flatnonzero(found[:, -1] < 0)
    if len(short):
        found[short] = _descended(single, k, compared, threads, seed + 1, 2 * effort)[short]
    return found


def _prepared(vectors: Vectors, metric: str) -> tuple[Vectors, str]:
    """Vectors in float32 whose neighbours by a metric of the library are those asked for, and that metric."""
    if metric == "cosine":
        # The library's own takes all angles from the right one on for the same.
        return _sparse_units(vectors) if isinstance(vectors, sp.csr_array) else _units(vectors), "sqeuclidean"
    if metric in ("euclidean", "sqeuclidean", "manhattan"):
        compared = "manhattan" if metric == "manhattan" else "sqeuclidean"
        return _sparse_scaled(vectors) if isinstance(vectors, sp.csr_array) else _scaled(vectors), compared
    if metric == "inner_product" and not isinstance(vectors, sp.csr_array):
        return _lifted(vectors), "inner_product"
    kind = "sparse" if isinstance(vectors, sp.csr_array) else "dense"
    raise InputError(f'method="approximate" cannot compare {kind} vectors by metric={metric!r}: use method="exact"')


def _pieces(vectors: NDArray[Any]) -> Iterator[slice]:
    """Rows to work on at a time."""
    step = max(1, PIECE // max(1, vectors.shape[1]))
    return (slice(start, start + step) for start in range(0, len(vectors), step))


def _or_one(sizes: NDArray[Any]) -> NDArray[np.float64]:
    """Sizes to divide by: nothing is divided by one."""
    return np.where(sizes > 0, sizes, 1).astype(np.float64)


def _units(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Rows of length one."""
    single = np.empty(vectors.shape, np.float32)
    for rows in _pieces(vectors):
        piece = vectors[rows].astype(np.float64)
        piece /= _or_one(np.abs(piece).max(axis=1, keepdims=True, initial=0))
        single[rows] = piece / _or_one(np.linalg.norm(piece, axis=1, keepdims=True))
    return single


def _scaled(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Rows moved to their middle and brought to values up to one: float32 keeps more of them."""
    low, high = vectors.min(axis=0).astype(np.float64), vectors.max(axis=0).astype(np.float64)
    middle, size = low / 2 + high / 2, _or_one((high / 2 - low / 2).max(initial=0))
    single = np.empty(vectors.shape, np.float32)
    for rows in _pieces(vectors):
        single[rows] = (vectors[rows] - middle) / size
    return single


def _lifted(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Rows with one more value, the same for all and so large that every inner product is above zero.

    The library takes all products from zero down for the same.
    """
    size = max(float(vectors.max()), -float(vectors.min())) or 1.0
    single = np.empty((len(vectors), vectors.shape[1] + 1), np.float32)
    longest = 0.0
    for rows in _pieces(vectors):
        single[rows, :-1] = vectors[rows] / size
        longest = max(longest, float(np.linalg.norm(single[rows, :-1], axis=1).max()))
    single[:, -1] = longest * 1.01
    return single


def _sparse_units(vectors: sp.csr_array) -> sp.csr_array:
    """Sparse rows of length one."""
    own = _own(vectors)
    entries = np.diff(own.indptr)
    own.data /= np.repeat(_or_one(abs(own).max(axis=1).toarray().ravel()), entries)
    squares: NDArray[np.float64] = own.multiply(own).sum(axis=1)
    own.data /= np.repeat(_or_one(np.sqrt(squares)), entries)
    return own.astype(np.float32)


def _sparse_scaled(vectors: sp.csr_array) -> sp.csr_array:
    """Sparse rows brought to values up to one."""
    own = _own(vectors)
    own.data /= _or_one(np.abs(own.data).max(initial=0))
    return own.astype(np.float32)


def _own(vectors: sp.csr_array) -> sp.csr_array:
    """A copy in order, with short ids where they fit: the library is compiled once more for long ones."""
    short = max(vectors.nnz, *vectors.shape) <= np.iinfo(np.int32).max
    ids = np.int32 if short else np.int64
    places = vectors.indices.astype(ids), vectors.indptr.astype(ids)
    own: sp.csr_array = sp.csr_array((vectors.data.astype(np.float64), *places), vectors.shape)
    own.sum_duplicates()
    return own


def _descended(single: Vectors, k: int, compared: str, threads: int, seed: int, effort: float) -> NDArray[np.int64]:
    """Neighbours of one descent."""
    width = min(single.shape[0] - 1, max(LEAST_WIDTH, math.ceil(effort * k), k))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rows with too few neighbours, and of numba
        graph: NDArray[np.int32] = (
            library()
            .NNDescent(
                single,
                metric=compared,
                n_neighbors=width + 1,  # each row is its own first
                random_state=seed % 2**32,
                n_jobs=max(1, min(threads, _most_threads())),
            )
            .neighbor_graph[0]
        )
    return graph[:, 1 : k + 1].astype(np.int64)


def library() -> Any:
    """The package of the extra."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pynndescent  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("method=\"approximate\" needs pynndescent: pip install 'dask-rac[ann]'") from None
    return pynndescent


def _most_threads() -> int:
    """The threads that compiled code may have; to ask for more is an error."""
    return int(os.environ.get("NUMBA_NUM_THREADS") or len(os.sched_getaffinity(0)))
