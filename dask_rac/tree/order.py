"""The order of merges: by distance, then by size, then by smallest node.

1. A distance is a height, negated for similarities. No merge is at a smaller distance than a merge below it, and it is
   larger: hence the merges below a merge come before it, and every first part of the order is a flat cut.
2. Of two merges with the same smallest node, one is below the other and smaller: hence the order is total, and does not
   depend on how merges are stored.

Sequential HAC could merge in this order; only merges at equal distances could trade places. Cuts into a number of
clusters, scipy's Z, lifetimes and the top of a tree all use it. It decides how merges are listed, not which there are:
which of two pairs of equal weight merges first is the rule of `kernels.order`, and for the edges of a spanning forest
that of `engines.forest.state.tree_order`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import cluster_id_dtype

Column = NDArray[Any]

COLUMNS = ("left", "right", "height", "size")


def gathered(n_nodes: int, parts: Iterable[Mapping[str, Column]]) -> dict[str, Column]:
    """Return the columns of merges that are given in parts, ids as narrow as possible."""
    ids = cluster_id_dtype(n_nodes)
    columns: dict[str, list[Column]] = {name: [np.empty(0, ids)] for name in COLUMNS}
    columns["height"] = [np.empty(0)]
    for part in parts:
        for name in COLUMNS:
            columns[name].append(part[name].astype(np.float64 if name == "height" else ids, copy=False))
    return {name: np.concatenate(columns.pop(name)) for name in COLUMNS}


def merge_order(left: Column, size: Column, distance: NDArray[np.float64]) -> NDArray[np.intp]:
    """Return where each merge of the order is."""
    order = np.argsort(distance)
    ordered = distance[order]
    equal = ordered[1:] == ordered[:-1]
    tied = np.flatnonzero(np.append(equal, False) | np.append(False, equal))
    among = order[tied]
    order[tied] = among[np.lexsort((left[among], size[among], ordered[tied]))]
    return order


def first_in_order(left: Column, size: Column, distance: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    """Return which merges are the first `count`, without sorting all; what has size 0 is not a merge."""
    if not count:
        return np.zeros(len(distance), np.bool_)
    last = np.partition(distance, count - 1)[count - 1]
    first: NDArray[np.bool_] = distance < last
    tied = np.flatnonzero((distance == last) & (size > 0))
    order = np.lexsort((left[tied], size[tied]))
    first[tied[order[: count - int(np.count_nonzero(first))]]] = True
    return first


def last_in_order(left: Column, size: Column, distance: NDArray[np.float64], count: int) -> NDArray[np.intp]:
    """Return where the last `count` merges are, in order, without sorting all."""
    if len(distance) <= count:
        return merge_order(left, size, distance)
    far = np.flatnonzero(distance >= np.partition(distance, -count)[-count])
    return far[merge_order(left[far], size[far], distance[far])[-count:]]


def before(
    left: Column, size: Column, distance: NDArray[np.float64], other: tuple[int, int, float]
) -> NDArray[np.bool_]:
    """Return which merges come before another one, given by its smallest node, size and distance."""
    other_left, other_size, other_distance = other
    same_size = (size == other_size) & (left < other_left)
    same_distance = (distance == other_distance) & ((size < other_size) | same_size)
    earlier: NDArray[np.bool_] = (distance < other_distance) | same_distance
    return earlier
