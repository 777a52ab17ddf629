"""Clusters chosen by their stability in the condensed tree, as HDBSCAN does, of any hierarchy.

1. Clusters of fewer than `min_cluster_size` nodes do not count: `kernels.tree.condense` says what is left of a tree.
2. How long a cluster lasts depends on the scale of closeness. For single linkage it is HDBSCAN's: 1 / height, or the
   height of a similarity, and 0 beyond the top of a tree. Other linkages are means of many pairs, most of which are
   far: there it is the logarithm of a similarity, of 1 / height, or of how far a height is below `far`, the distance of
   pairs without an edge; beyond the top it falls as far again as it ranges in the tree. (On digits, 15 neighbours,
   `min_cluster_size=35`: 10 clusters, adjusted Rand index 0.82, where 1 / height gives 26 and 0.48.) What is not
   above 0 counts as the smallest that is.
3. The trees of a forest are the parts of one tree that would join them at infinity: two or more large ones are clusters
   like others, and a tree that alone is large is the whole, which is chosen only if a single cluster is allowed.
4. Hence a flat cut: all merges inside of chosen clusters are applied, and those that are too small to count; what then
   has fewer than `min_cluster_size` nodes is in no cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.tree.condense import choose_stable, climb, condense, find_stability, spread_down
from dask_rac.tree.far import below

Column = NDArray[Any]


@dataclass(frozen=True)
class Selection:
    """How clusters of a condensed tree are chosen."""

    method: str
    """"eom", the most stable ones, or "leaf", those that do not split."""
    epsilon: float = 0.0
    """The height below which clusters are not split; 0 splits all."""
    allow_single_cluster: bool = False
    max_cluster_size: int | None = None
    logarithmic: bool = False
    """Whether closeness is compared by its logarithm, as for all linkages but single."""
    far: float | None = None
    """The distance of pairs without an edge, if it is a number."""


@dataclass(frozen=True)
class MergesByRight:
    """Merges by their `right` node, one item per node, and their order."""

    parent: Column
    """The `left` node of the merge; for the smallest node of a tree, itself."""
    size: Column
    """The number of nodes of the union; 0 for the smallest node of a tree."""
    distance: NDArray[np.float64]
    """The height, negated for similarities; infinite for the smallest node of a tree."""
    order: Column
    """The `right` nodes of the merges, in the order of `tree.order`."""
    sign: float
    """-1 if large heights are close."""


def inside_chosen(merges: MergesByRight, least: int, selection: Selection) -> NDArray[np.bool_]:
    """Return the merges, by their `right` node, that a cut into the chosen clusters applies."""
    cluster = np.full(len(merges.parent), -1, merges.parent.dtype)
    above, end, nodes = condense(merges.order, merges.parent, merges.size, least, cluster)
    root = _root(above)
    begin = np.append(merges.distance[merges.order], np.inf)[end]
    allowed = np.ones(len(above), np.bool_)
    if root >= 0 and not selection.allow_single_cluster:
        allowed[root] = False
    if selection.method == "leaf":
        chosen = allowed & ~np.isin(np.arange(len(above)), above)
    else:
        close, beyond = _log_closeness(merges, selection.far) if selection.logarithmic else _closeness(merges)
        start = np.append(close[merges.order], beyond)[end]
        stability = find_stability(merges.order, merges.parent, merges.size, close, cluster, start)
        if selection.max_cluster_size is not None:
            allowed &= nodes <= selection.max_cluster_size
        chosen = choose_stable(above, stability, allowed)
    if selection.epsilon:
        shut = -1 if selection.allow_single_cluster else root
        chosen = climb(above, begin, chosen, merges.sign * selection.epsilon, shut)
    inside = np.append(spread_down(above, chosen), True)  # the last stands for what is too small to count
    return inside[cluster] & (merges.size > 0)


def _root(above: Column) -> int:
    """Return the only cluster that is not split off from another; -1 if there are several, or none."""
    tops = np.flatnonzero(above < 0)
    return int(tops[0]) if len(tops) == 1 else -1


def _closeness(merges: MergesByRight) -> tuple[NDArray[np.float64], float]:
    """Return the closeness of each merge, by its `right` node, and that beyond the top of a tree."""
    real = merges.size > 0
    if merges.sign > 0:
        above_zero = merges.distance[real & (merges.distance > 0)]
        smallest = float(above_zero.min(initial=np.inf))
        if not np.isfinite(smallest):
            return real.astype(np.float64), 0.0
        return smallest / np.maximum(merges.distance, smallest), 0.0
    close = np.where(real, -merges.distance, 0.0)
    close /= float(np.abs(close).max(initial=0.0)) or 1.0
    return close, min(0.0, float(close.min(initial=0.0)))


def _log_closeness(merges: MergesByRight, far: float | None) -> tuple[NDArray[np.float64], float]:
    """Return the logarithm of the closeness of each merge, 0 for the farthest, and what is beyond the top of a tree."""
    real = merges.size > 0
    if merges.sign < 0:
        close = np.where(real, -merges.distance, 0.0)
    elif far is not None:
        close = below(far, np.where(real, merges.distance, far))
    else:
        smallest = float(merges.distance[real & (merges.distance > 0)].min(initial=np.inf))
        close = np.where(real, 1 / np.maximum(merges.distance, smallest if np.isfinite(smallest) else 1.0), 0.0)
    least = float(close[close > 0].min(initial=np.inf))
    if not np.isfinite(least):
        return np.zeros(len(close)), 0.0
    np.maximum(close, least, out=close)
    close /= least
    np.log2(close, out=close)
    return close, -float(close.max())
