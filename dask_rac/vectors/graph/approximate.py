"""Approximate neighbours by descent: neighbours of neighbours are examined until few of them are nearer."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.spans import batches

EFFORT = 1.6
LEAST_WIDTH = 12  # with fewer neighbours the descent gets stuck
PIECE = 2**22  # values converted to float32 at a time

Vectors = NDArray[Any] | sp.csr_array


def approximate_neighbours(
    vectors: Vectors, k: int, metric: str, threads: int, seed: int, effort: float = EFFORT
) -> NDArray[np.int64]:
    """Return the ids of most of the k nearest other rows of each row, nearest first, -1 where too few were found.

    The descent keeps `effort` times k neighbours. The same seed and number of threads give the same ids; another
    number of threads, or another release of pynndescent, gives different ids of the same quality. Vectors are compared
    in float32. The search is compiled again in each process and for each metric, which takes half a minute.
    """
    library()  # a missing library is reported before the vectors are converted
    single, compared = _prepared(vectors, metric)
    found = _descended(single, k, compared, threads, seed, effort)
    short = np.flatnonzero(found[:, -1] < 0)
    if len(short):
        found[short] = _descended(single, k, compared, threads, seed + 1, 2 * effort)[short]
    return found


def _prepared(vectors: Vectors, metric: str) -> tuple[Vectors, str]:
    """Return float32 vectors and a metric of the library that gives them the requested neighbours."""
    if metric == "cosine":
        # The library's own cosine treats all angles of 90 degrees or more as equal.
        return _sparse_units(vectors) if isinstance(vectors, sp.csr_array) else _units(vectors), "sqeuclidean"
    if metric in ("euclidean", "sqeuclidean", "manhattan"):
        compared = "manhattan" if metric == "manhattan" else "sqeuclidean"
        return _sparse_scaled(vectors) if isinstance(vectors, sp.csr_array) else _scaled(vectors), compared
    if metric == "inner_product" and not isinstance(vectors, sp.csr_array):
        return _lifted(vectors), "inner_product"
    kind = "sparse" if isinstance(vectors, sp.csr_array) else "dense"
    raise InputError(f'method="approximate" cannot compare {kind} vectors by metric={metric!r}: use method="exact"')


def _pieces(vectors: NDArray[Any]) -> Iterator[slice]:
    """Return the slices of rows to convert one at a time."""
    step = max(1, PIECE // max(1, vectors.shape[1]))
    return (slice(*span) for span in batches(0, len(vectors), step))


def _or_one(sizes: NDArray[Any]) -> NDArray[np.float64]:
    """Return sizes to divide by, with 1 in place of 0."""
    return np.where(sizes > 0, sizes, 1).astype(np.float64)


def _units(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Scale rows to length 1."""
    single = np.empty(vectors.shape, np.float32)
    for rows in _pieces(vectors):
        piece = vectors[rows].astype(np.float64)
        piece /= _or_one(np.abs(piece).max(axis=1, keepdims=True, initial=0))
        single[rows] = piece / _or_one(np.linalg.norm(piece, axis=1, keepdims=True))
    return single


def _scaled(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Centre rows and scale them to values up to 1, so that float32 keeps more of their digits."""
    low, high = vectors.min(axis=0).astype(np.float64), vectors.max(axis=0).astype(np.float64)
    middle, size = low / 2 + high / 2, _or_one((high / 2 - low / 2).max(initial=0))
    single = np.empty(vectors.shape, np.float32)
    for rows in _pieces(vectors):
        single[rows] = (vectors[rows] - middle) / size
    return single


def _lifted(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Append a value to every row, the same for all and large enough to make every inner product positive.

    The library treats all products of zero or less as equal.
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
    """Scale sparse rows to length 1."""
    own = _own(vectors)
    entries = np.diff(own.indptr)
    own.data /= np.repeat(_or_one(abs(own).max(axis=1).toarray().ravel()), entries)
    squares: NDArray[np.float64] = own.multiply(own).sum(axis=1)
    own.data /= np.repeat(_or_one(np.sqrt(squares)), entries)
    return own.astype(np.float32)


def _sparse_scaled(vectors: sp.csr_array) -> sp.csr_array:
    """Scale sparse rows to values up to 1."""
    own = _own(vectors)
    own.data /= _or_one(np.abs(own.data).max(initial=0))
    return own.astype(np.float32)


def _own(vectors: sp.csr_array) -> sp.csr_array:
    """Return a sorted copy, with int32 indices where they fit: the library is compiled again for int64."""
    short = max(vectors.nnz, *vectors.shape) <= np.iinfo(np.int32).max
    ids = np.int32 if short else np.int64
    places = vectors.indices.astype(ids), vectors.indptr.astype(ids)
    own: sp.csr_array = sp.csr_array((vectors.data.astype(np.float64), *places), vectors.shape)
    own.sum_duplicates()
    return own


def _descended(single: Vectors, k: int, compared: str, threads: int, seed: int, effort: float) -> NDArray[np.int64]:
    """Return the neighbours that one descent finds."""
    width = min(single.shape[0] - 1, max(LEAST_WIDTH, math.ceil(effort * k), k))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about rows with too few neighbours, and from numba
        graph: NDArray[np.int32] = (
            library()
            .NNDescent(
                single,
                metric=compared,
                n_neighbors=width + 1,  # each row is its own nearest
                random_state=seed % 2**32,
                n_jobs=max(1, min(threads, _most_threads())),
            )
            .neighbor_graph[0]
        )
    return graph[:, 1 : k + 1].astype(np.int64)


def library() -> Any:
    """Import pynndescent, which the extra `ann` installs."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import pynndescent  # noqa: PLC0415 - an extra
    except ImportError:
        raise InputError("method=\"approximate\" needs pynndescent: pip install 'dask-rac[ann]'") from None
    return pynndescent


def _most_threads() -> int:
    """Return the number of threads that compiled code may use; numba raises an error above it."""
    return int(os.environ.get("NUMBA_NUM_THREADS") or len(os.sched_getaffinity(0)))
