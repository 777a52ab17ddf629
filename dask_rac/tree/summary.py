"""A hierarchy of any size in a few thousand numbers, for plots and reports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dask_rac.tree.lifetimes import Lifetimes

CURVE_POINTS = 1_000
"""Points of the curve of the number of clusters against height."""


@dataclass(frozen=True)
class HeightCurve:
    """The number of clusters against height: a step function, thinned if it has more steps than a plot can show."""

    height: NDArray[np.float64]
    """Heights from the nearest merge to the farthest; for similarities they decrease."""
    clusters: NDArray[np.int64]
    """The number of clusters after all merges up to that height."""
    n_nodes: int
    similarity: bool
    """Whether large heights are close."""


@dataclass(frozen=True)
class SizeHistogram:
    """The clusters of a flat cut by size, in bins of powers of two."""

    height: float
    low: NDArray[np.int64]
    """The smallest size in each bin: 1, 2, 4, ...; a bin ends where the next begins."""
    clusters: NDArray[np.int64]
    """The number of clusters in each bin."""
    nodes: NDArray[np.int64]
    """The number of nodes in these clusters together."""


@dataclass(frozen=True)
class LargeCluster:
    """One of the largest clusters of a flat cut."""

    node: int
    """Its smallest node."""
    size: int
    height: float
    """The height at which it was created."""
    end: float | None
    """The height at which it merges with another cluster; None if it never does."""
    index: int = -1
    """Its index in `Lifetimes`."""


@dataclass(frozen=True)
class Snapshot:
    """A flat cut in a few numbers."""

    height: float
    clusters: int
    """The number of clusters, single nodes included."""
    single: int
    """The number of nodes that are alone."""
    largest: tuple[LargeCluster, ...]
    sizes: SizeHistogram


def thinned(lives: Lifetimes, most: int) -> NDArray[np.int64]:
    """Return numbers of merges at which to sample a tree: densely near its top, sparsely below, once per height."""
    return thinned_places(lives.distance, most)


def thinned_places(distance: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Return the same for the distances of merges in order."""
    merged = len(distance)
    left = np.unique(np.geomspace(1, max(1, merged), most).round().astype(np.int64))
    places = np.unique(np.append(merged - left, np.linspace(0, merged, most // 2).astype(np.int64)))
    places = places[(places >= 0) & (places < merged)]
    return np.unique(np.searchsorted(distance, distance[places], side="right"))


def height_curve(lives: Lifetimes, most: int = CURVE_POINTS) -> HeightCurve:
    """Return the number of clusters against height."""
    done = thinned(lives, most)
    return HeightCurve(lives.sign * lives.distance[done - 1] + 0.0, lives.n_nodes - done, lives.n_nodes, lives.sign < 0)


def size_histogram(lives: Lifetimes, height: float) -> SizeHistogram:
    """Return the clusters at a height by size."""
    return _histogram(height, *(table[0] for table in lives.histograms(np.array([lives.sign * height]))))


def snapshots(lives: Lifetimes, heights: Sequence[float], most: int = 20) -> list[Snapshot]:
    """Return flat cuts at some heights, from the nearest to the farthest, each once."""
    distances = np.unique(lives.sign * np.asarray(heights, np.float64))
    clusters, single = lives.counts(distances).tolist(), lives.count_single(distances).tolist()
    largest = lives.largest(distances, most)
    tables = lives.histograms(distances)
    ends = lives.ends()
    cuts = []
    for k, height in enumerate((lives.sign * distances + 0.0).tolist()):
        sizes = _histogram(height, tables[0][k], tables[1][k])
        largest_clusters = tuple(_cluster(lives, ends, index) for index in largest[k].tolist())
        cuts.append(Snapshot(height, clusters[k], single[k], largest_clusters, sizes))
    return cuts


def _histogram(height: float, clusters: NDArray[np.int64], nodes: NDArray[np.int64]) -> SizeHistogram:
    """Return a histogram without the bins above the largest cluster."""
    used = int(np.flatnonzero(clusters)[-1]) + 1 if clusters.any() else 0
    return SizeHistogram(height, 2 ** np.arange(used), clusters[:used], nodes[:used])


def _cluster(lives: Lifetimes, ends: NDArray[np.float64], index: int) -> LargeCluster:
    end = float(ends[index])
    return LargeCluster(
        int(lives.node[index]),
        int(lives.size[index]),
        float(lives.sign * lives.distance[index] + 0.0),
        float(lives.sign * end + 0.0) if np.isfinite(end) else None,
        index,
    )
