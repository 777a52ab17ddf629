"""Whether users gave edges, vectors to compare, or distances of all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from typing import Any

import numpy as np

from dask_rac.api.likeness import refuse_dense_distances, refuse_sparse_distances
from dask_rac.base.checks import check_kind, check_word
from dask_rac.base.errors import InputError
from dask_rac.base.parameters import METRIC, PAIRS_ENGINE
from dask_rac.base.settings import PRECOMPUTED
from dask_rac.vectors.compare.metrics import METRICS, checked_metric
from dask_rac.vectors.sources.flat import FLAT_ENDINGS
from dask_rac.vectors.sources.opening import is_dask_array


def pairs_metric(given: Any, graph: Mapping[str, Any] | None, metric: str | None) -> str | None:
    """Return the metric of all pairs, None if the edges of a graph are given or to be built."""
    if graph is not None:
        if metric is not None:
            raise InputError(f"metric={metric!r} and graph= are both given: put the metric into graph=dict(metric=...)")
        return None
    if metric is None:
        if not _are_vectors(given):
            return None
        refuse_dense_distances(given)
        _refuse_edges(given)
        return str(METRIC.default)
    if not isinstance(metric, str) or metric not in (*METRICS, PRECOMPUTED):
        known = ", ".join(map(repr, (*METRICS, PRECOMPUTED)))
        raise InputError(f"metric={metric!r} is unknown: use one of {known}")
    if metric != PRECOMPUTED:
        refuse_sparse_distances(given)
    return metric


def check_pairs_options(metric: str, weights: str, n_nodes: int | None, shards: int | None) -> None:
    """Raise if options do not suit all pairs: those of graphs, or weights that the metric does not give."""
    for name, value in (("n_nodes", n_nodes), ("shards", shards)):
        if value is not None:
            raise InputError(f"{name}={value!r} is for the edges of a graph, and these are all pairs: leave it out")
    if metric == PRECOMPUTED and weights == "similarity":
        raise InputError(
            "weights='similarity' does not go with metric='precomputed', which takes distances: pass the largest "
            "similarity minus the others, and leave weights= out"
        )
    check_kind("distance" if metric == PRECOMPUTED else checked_metric(metric).weights, weights)


def check_engine(engine: str | None, metric: str | None) -> None:
    """Raise unless this names an engine for all pairs, and all pairs are clustered."""
    if engine is None:
        return
    if metric is None:
        raise InputError(f"engine={engine!r} is for all pairs of vectors, and these are edges: leave it out")
    check_word("engine", engine, PAIRS_ENGINE.words)


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


def _refuse_edges(given: Any) -> None:
    """Raise if a list would be taken for vectors, and may as well hold edges: two whole numbers and a weight."""
    if not isinstance(given, list):
        return
    rows = np.asarray(given)
    triples = rows.shape[1] == 3 and np.array_equal(rows[:, :2], np.floor(rows[:, :2]))
    if not triples and not (rows.shape[1] == 2 and rows.dtype.kind in "iu"):
        return
    if triples:
        numbers, columns = "three numbers in each row, and two of them are whole", "['source', 'target', 'weight']"
    else:
        numbers, columns = "two whole numbers in each row", "['source', 'target']).assign(weight=1"
    raise InputError(
        f"the list has {numbers}, so it may hold edges or vectors: pass pandas.DataFrame(edges, columns={columns}) if "
        "these are edges, or metric='euclidean' if they are vectors"
    )
