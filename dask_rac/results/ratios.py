"""The audit of ratios: nobody was nearer to the clusters of a merge than its ratio says.

That depends on the order of merges, so they are done again, in memory: `kernels/replay.py` tells how. Heights need no
order, and are checked by `results/audit.py`. By single linkage those are enough: each merge then has the height of the
nearest edge between its clusters, and none is below a merge beneath it, so nobody can have been nearer.
"""

from __future__ import annotations

from threading import Lock

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.settings import Settings
from dask_rac.engines.linkage import rule_of
from dask_rac.kernels import audit as kernels
from dask_rac.kernels.arrays import Ids, Merges
from dask_rac.kernels.replay import Heaps, Links, replay

ROUNDING = 2.0**-50
"""Relative error of a bound: a height is divided by a ratio, or multiplied, and the ratio was rounded as well."""


class RatioAudit:
    """An audit of the ratios of merges, which needs all edges at once.

    Parameters
    ----------
    n_nodes : int
        The number of nodes of the graph.
    ratio : numpy.ndarray
        The ratio of each merge.
    settings : Settings
        The settings of the run.
    """

    def __init__(self, n_nodes: int, ratio: NDArray[np.float64], settings: Settings) -> None:
        self._n_nodes, self._ratio, self._settings = n_nodes, ratio, settings
        self._parts: list[tuple[Ids, Ids, NDArray[np.float64]]] = []
        self._lock = Lock()

    def add(self, source: NDArray[np.integer], target: NDArray[np.integer], weight: NDArray[np.floating]) -> None:
        """Keep edges, each undirected edge once in all, in any order and from any thread."""
        known, ids = source != target, cluster_id_dtype(self._n_nodes)
        part = source[known].astype(ids), target[known].astype(ids), weight[known].astype(np.float64)
        if self._settings.linkage != "single":
            with self._lock:
                self._parts.append(part)

    def mark(self, merges: Merges, faults: NDArray[np.uint8]) -> None:
        """Mark the merges whose ratio is wrong, unless something else is."""
        most = 1.0 if self._settings.linkage == "single" else 1.0 + self._settings.epsilon
        sound = (self._ratio >= 1) & (self._ratio <= most)
        faults[~sound & (faults == 0)] = kernels.NO_RATIO
        if self._settings.linkage == "single":
            return
        bounds = bounds_of(self._settings.sign * merges.height, self._ratio, self._settings.sign)
        bounds[~(sound & np.isfinite(bounds))] = -np.inf
        bounds[(faults == kernels.NO_PAIR) | (faults == kernels.GONE)] = np.nan
        faults[self._find_nearer(merges, bounds) & (faults == 0)] = kernels.BEYOND_RATIO

    def _find_nearer(self, merges: Merges, bounds: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Do the merges again; return which of them had a cluster nearer than the bound."""
        rule, links = rule_of(self._settings), self._links()
        items, heaps = links.ends.dtype, 2 * len(links.alive)
        clusters = np.full(self._n_nodes, -1, items), np.zeros(self._n_nodes, items)
        child, beside, edge = (np.empty(heaps, items) for _ in range(3))
        slots = np.empty((table_slots(len(links.alive)), 2), np.int64)
        pushed = Heaps(np.empty(heaps), child, beside, edge, *clusters)
        found: NDArray[np.bool_] = replay(merges, bounds, links, pushed, rule, slots)
        return found

    def _links(self) -> Links:
        """Return the edges as links between single nodes; they are not kept."""
        count = sum(len(weight) for _, _, weight in self._parts)
        items = item_dtype(self._n_nodes, count)
        ends, weights, at = np.empty((count, 2), items), np.empty(count), 0
        with self._lock:
            while self._parts:
                source, target, weight = self._parts.pop()
                stop = at + len(weight)
                ends[at:stop, 0], ends[at:stop, 1], weights[at:stop] = source, target, weight
                at = stop
        weights *= self._settings.sign
        return Links(ends, weights, np.ones(count, items), np.empty((count, 2), items), np.ones(count, np.bool_))


def bounds_of(height: NDArray[np.float64], ratio: NDArray[np.float64], sign: float) -> NDArray[np.float64]:
    """Return the W below which nobody may have been; similarities are negated, and only those above 0 have ratios."""
    lowered = height / ratio if sign > 0 else np.where(height < 0, height * ratio, height)
    return np.where(ratio == 1, height, lowered - ROUNDING * np.abs(lowered))


def item_dtype(nodes: int, edges: int) -> np.dtype[np.signedinteger]:
    """Return the dtype of nodes, edges, their ends, and numbers of edges."""
    return cluster_id_dtype(max(nodes, 2 * edges))


def table_slots(edges: int) -> int:
    """Return the size of the table of pairs: a power of two that is at most half full."""
    return max(16, 1 << (2 * edges - 1).bit_length())


def replay_bytes(nodes: int, merges: int, edges: int) -> int:
    """Return the memory that the audit of ratios takes."""
    ids = item_dtype(nodes, edges).itemsize
    return edges * (11 * ids + 25) + 16 * table_slots(edges) + nodes * (2 * ids + 16) + 33 * merges
