"""The clusters that are left after certain rounds, by what they are made of."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import starts_of
from dask_rac.engines.certain.groups import Grouped
from dask_rac.engines.certain.state import CertainState
from dask_rac.engines.start import Start
from dask_rac.kernels.matrix.weights import WEIGHTED


class Left(NamedTuple):
    """Clusters made of those of a start, numbered in ascending order of their ids."""

    label: NDArray[np.int64]
    """The cluster of each cluster of the start."""
    share: NDArray[np.float64]
    """What each cluster of the start counts for by weighted linkage: 2^-depth of it in its cluster."""


def all_left(start: Start) -> Left:
    """Return the clusters of a start before any round."""
    return Left(np.arange(len(start.ids)), np.ones(len(start.ids)))


def after_rounds(before: Left, state: CertainState) -> Left:
    """Return what rounds on some clusters have left of them."""
    number = np.full(len(state.label), -1)
    number[state.live] = np.arange(len(state.live))
    return Left(number[state.label][before.label], before.share * state.share[before.label])


def clusters_left(start: Start, left: Left) -> Start:
    """Return the clusters with all their nodes."""
    order, begin = _by_cluster(np.repeat(left.label, np.diff(start.begin)), start.member)
    first = np.unique(left.label, return_index=True)[1]
    size = np.bincount(left.label, start.size).astype(np.float64)
    return Start(start.ids[first], size, start.member[order], begin)


def groups_left(start: Start, left: Left, code: int) -> Grouped:
    """Return the distinct vectors of each cluster; there is one for each cluster of the start."""
    order, begin = _by_cluster(left.label, np.arange(len(left.label)))
    return Grouped(order, begin, left.share if code == WEIGHTED else start.size)


def _by_cluster(cluster: NDArray[np.int64], within: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the order of items by cluster, then by a number of theirs, and where each cluster begins."""
    return np.lexsort((within, cluster)), starts_of(np.bincount(cluster))
