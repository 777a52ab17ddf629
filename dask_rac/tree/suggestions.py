"""Flat cuts that last: between the merge that creates a cut and the next one, its height can move without a change.

1. A cut counts its clusters of at least `min_size` nodes, so that stray nodes that join late do not hide what the
   others do; they must hold half of all nodes. Its lifetime reaches from the merge that brings it to this number to the
   one that changes the number.
2. How long a lifetime is depends on the scale. Heights of distances are compared by their difference, similarities by
   their ratio. Where absent pairs are `far` apart, how far heights are below that is compared by its ratio: see
   `tree.far`.
3. The trees of a forest never merge: the cut into them lasts for ever.

`pipelines/bench_cuts.py` measures how often the number of true classes is found.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, log

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dask_rac.tree.far import below
from dask_rac.tree.lifetimes import Lifetimes

SCALES = ("difference", "ratio", "far")
MOST_CLUSTERS = 5_000
"""The largest number of clusters that is suggested unless the user allows more."""
MOST_STRAY = 50
"""Clusters of this many nodes count in a graph of any size."""
CLEAR_HEIGHTS = log(2)
"""A cut of distances is clear if its height can double. Points without clusters, uniform, normal or with heavy tails,
in 2 to 10 dimensions, reach 0.71 with ward, 0.39 with average and 0.24 with single linkage."""
CLEAR_SIMILARITIES = log(3)
"""A cut of similarities, or below `far`, is clear if they can fall to a third; the same points reach 1.01."""

Distances = NDArray[np.float64]
Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Scale:
    """How the lifetime of a cut is measured."""

    by: str
    """One of `SCALES`."""
    far: float = np.inf
    """How far apart nodes without an edge are, for "far"."""

    def lifetimes(self, start: Distances, end: Distances) -> Distances:
        """Return the lifetimes of cuts; NaN if there is none, infinite for a cut that never ends."""
        if self.by == "difference":
            return end - start
        if self.by == "far":
            start, end = below(self.far, start), np.where(np.isinf(end), 0.0, below(self.far, end))
        with np.errstate(divide="ignore", invalid="ignore"):
            lifetime: Distances = np.abs(np.log(np.abs(end)) - np.log(np.abs(start)))
        return lifetime

    def between(self, start: Distances, end: Distances) -> Distances:
        """Return a distance midway between two, below the second; the first if the second is infinite."""
        last = np.isinf(end)
        end = np.where(last, start, end)
        if self.by == "ratio":
            middle = np.sign(end) * np.sqrt(np.abs(start)) * np.sqrt(np.abs(end))
        elif self.by == "far":
            middle = self.far - np.sqrt(below(self.far, start)) * np.sqrt(below(self.far, end))
        else:
            middle = start + (end - start) / 2
        return np.where((start <= middle) & (middle < end), middle, start)

    def clear(self, start: Distances, end: Distances, similarity: bool) -> NDArray[np.bool_]:
        """Return which cuts last so long that there is something to see; chance alone rarely makes such a cut."""
        ratio = Scale("ratio") if self.by == "difference" else self
        least = CLEAR_SIMILARITIES if similarity or self.by == "far" else CLEAR_HEIGHTS
        return ratio.lifetimes(start, end) >= least


def stray_size(n_nodes: int) -> int:
    """Return the number of nodes from which a cluster counts: half the square root of all, at most 50."""
    return max(1, min(isqrt(n_nodes) // 2, MOST_STRAY))


def most_clusters(n_nodes: int) -> int:
    """Return the largest number of clusters that is suggested: with more than half of the nodes, most are alone."""
    return max(2, min(n_nodes // 2, MOST_CLUSTERS))


def fitting_scale(similarity: bool, far: float | None) -> Scale:
    """Return the scale that fits a hierarchy; `far` is the distance of nodes without an edge, if it is a number."""
    if similarity:
        return Scale("ratio")
    return Scale("difference") if far is None else Scale("far", far)


def suggested_cuts(lives: Lifetimes, count: int, scale: Scale, min_size: int, most: int) -> pd.DataFrame:
    """Return the cuts with the longest lifetimes; see `Clustering.suggest_cuts`."""
    start, end, number = _stretches(lives, min_size)
    lifetime, height = scale.lifetimes(start, end), scale.between(start, end)
    lifetime[np.isinf(lifetime) & np.isfinite(end) & (scale.by == "ratio")] = np.nan  # a height of 0 has no ratio
    useful = (number > 1) & (number <= most) & (2 * _held(lives, min_size, height) >= lives.n_nodes)
    lasting = np.flatnonzero(useful & (lifetime > 0))
    lasting = lasting[np.lexsort((number[lasting], -lifetime[lasting]))]
    first = np.sort(np.unique(number[lasting], return_index=True)[1])  # each number of clusters once
    longest = lasting[first[:count]]
    start, end, height = start[longest], end[longest], height[longest]
    return pd.DataFrame(
        {
            "height": lives.sign * height + 0.0,
            "n_clusters": lives.counts(height),
            "start": lives.sign * start + 0.0,
            "end": lives.sign * end + 0.0,
            "lifetime": lifetime[longest],
            "large_clusters": number[longest],
            "clear": scale.clear(start, end, lives.sign < 0),
        }
    )


def _stretches(lives: Lifetimes, min_size: int) -> tuple[Distances, Distances, Counts]:
    """Return where the number of large clusters begins and ends to be the same, and the number; the last never ends."""
    change = _made(lives, min_size).astype(np.int8) - (lives.small >= min_size)
    number = np.cumsum(change, dtype=np.int64) + (lives.n_nodes if min_size == 1 else 0)
    at = np.flatnonzero(change)
    at = at[np.append(np.diff(lives.distance[at]) > 0, True)[: len(at)]]  # the last of those at the same height
    start = lives.distance[at]
    return start, np.append(start[1:], np.inf)[: len(start)], number[at]


def _held(lives: Lifetimes, min_size: int, distances: Distances) -> Counts:
    """Return how many nodes the large clusters hold at each distance."""
    if min_size == 1:
        return np.full(len(distances), lives.n_nodes)
    joined = np.where(lives.small < min_size, lives.small, 0) * (lives.large >= min_size)
    held = np.cumsum(np.where(_made(lives, min_size), lives.size, joined), dtype=np.int64)
    return np.append(0, held)[lives.done(distances)]


def _made(lives: Lifetimes, min_size: int) -> NDArray[np.bool_]:
    """Return which merges make a large cluster of two small ones."""
    made: NDArray[np.bool_] = (lives.size >= min_size) & (lives.large < min_size)
    return made
