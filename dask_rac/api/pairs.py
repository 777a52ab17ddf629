"""Whether users gave edges, vectors to compare, or distances of all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.checks import check_kind
from dask_rac.base.errors import InputError
from dask_rac.base.parameters import METRIC
from dask_rac.base.settings import PRECOMPUTED
from dask_rac.vectors.compare.metrics import METRICS, checked_metric
from dask_rac.vectors.sources.flat import FLAT_ENDINGS
from dask_rac.vectors.sources.opening import is_dask_array

LOOKED_AT = 2000  # points of a matrix that are compared with their mirror image


def pairs_metric(given: Any, graph: Mapping[str, Any] | None, metric: str | None) -> str | None:
    """Return the metric of all pairs, None if the edges of a graph are given or to be built."""
    if graph is not None:
        if metric is not None:
            raise InputError(f"metric={metric!r} and graph= are both given: put the metric into graph=dict(metric=...)")
        return None
    if metric is None:
        if not _are_vectors(given):
            return None
        _refuse_distances(given)
        _refuse_edges(given)
        return str(METRIC.default)
    if not isinstance(metric, str) or metric not in (*METRICS, PRECOMPUTED):
        known = ", ".join(map(repr, (*METRICS, PRECOMPUTED)))
        raise InputError(f"metric={metric!r} is unknown: use one of {known}")
    return metric


def check_pairs_options(metric: str, weights: str, n_nodes: int | None, shards: int | None) -> None:
    """Raise if options do not suit all pairs: those of graphs, or weights that the metric does not give."""
    for name, value in (("n_nodes", n_nodes), ("shards", shards)):
        if value is not None:
            raise InputError(f"{name}={value!r} is for the edges of a graph, and these are all pairs: leave it out")
    check_kind("distance" if metric == PRECOMPUTED else checked_metric(metric).weights, weights)


def _are_vectors(given: Any) -> bool:
    """Whether these are vectors even without a metric: arrays, nested lists, and files that hold no edges."""
    if isinstance(given, str | PathLike):
        return fspath(given).endswith(FLAT_ENDINGS)
    if isinstance(given, list):
        return len(np.shape(given)) == 2 if _is_regular(given) else False
    zarr_array = type(given).__module__.startswith("zarr") and hasattr(given, "chunks")
    return isinstance(given, np.ndarray) or is_dask_array(given) or zarr_array


def _is_regular(rows: list[Any]) -> bool:
    """Whether all rows of a list are numbers, and equally many."""
    try:
        return np.asarray(rows).dtype.kind in "biuf"
    except ValueError:
        return False


def looks_like_distances(array: NDArray[Any]) -> bool:
    """Whether an array is square and symmetric with a diagonal of zeros, as far as its first points show."""
    if array.ndim != 2 or array.shape[0] != array.shape[1] or len(array) < 3 or array.dtype.kind not in "iuf":
        return False
    part = array[:LOOKED_AT, :LOOKED_AT]
    return not part.diagonal().any() and np.array_equal(part, part.T) and bool((part >= 0).all())


def _refuse_distances(given: Any) -> None:
    """Raise if what would be taken for vectors looks like a matrix of distances."""
    if isinstance(given, np.ndarray) and looks_like_distances(given):
        raise InputError(
            "the array is square and symmetric with zeros on its diagonal, so it looks like distances: pass "
            "metric='precomputed' if it is, or metric='euclidean' if its rows are vectors"
        )


def _refuse_edges(given: Any) -> None:
    """Raise if a list would be taken for vectors, and may as well hold edges: two whole numbers and a weight."""
    if not isinstance(given, list):
        return
    rows = np.asarray(given)
    if rows.shape[1] == 3 and np.array_equal(rows[:, :2], np.floor(rows[:, :2])):
        raise InputError(
            "the list has three numbers in each row, and two of them are whole, so it may hold edges or vectors: pass "
            "three columns (source, target, weight) if these are edges, or metric='euclidean' if they are vectors"
        )
