"""A hierarchy of any size in a few thousand numbers: what pictures and reports are made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dask_rac.lives import Lives

CURVE_POINTS = 1_000
"""Of the number of clusters against height."""


@dataclass(frozen=True)
class HeightCurve:
    """The number of clusters against height: a step function, thinned where it has more steps than a picture shows."""

    height: NDArray[np.float64]
    """From the nearest merge to the farthest; for similarities it falls."""
    clusters: NDArray[np.int64]
    """Once all merges up to that height are done."""
    n_nodes: int
    similarity: bool
    """Whether large heights are close."""


@dataclass(frozen=True)
class SizeHistogram:
    """Clusters of a flat cut by their size, in powers of two."""

    height: float
    low: NDArray[np.int64]
    """The least size in each bin: 1, 2, 4, ...; the next bin's begins where it ends."""
    clusters: NDArray[np.int64]
    nodes: NDArray[np.int64]
    """In these clusters together."""


@dataclass(frozen=True)
class LargeCluster:
    """One of the largest clusters of a flat cut."""

    node: int
    """Its smallest."""
    size: int
    height: float
    """At which it was made."""
    end: float | None
    """At which it merges with another; None if it never does."""


@dataclass(frozen=True)
class Snapshot:
    """A flat cut in few numbers."""

    height: float
    clusters: int
    """Single nodes among them."""
    single: int
    """Nodes that are alone."""
    largest: tuple[LargeCluster, ...]
    sizes: SizeHistogram


def thinned(lives: Lives, most: int) -> NDArray[np.int64]:
    """Numbers of merges after which to look at a tree: all near its top, ever fewer below, and none between equals."""
    merged = len(lives)
    left = np.unique(np.geomspace(1, max(1, merged), most).round().astype(np.int64))
    places = np.unique(np.append(merged - left, np.linspace(0, merged, most // 2).astype(np.int64)))
    places = places[(places >= 0) & (places < merged)]
    return np.unique(lives.done(lives.distance[places]))


def height_curve(lives: Lives, most: int = CURVE_POINTS) -> HeightCurve:
    """The number of clusters against height."""
    done = thinned(lives, most)
    return HeightCurve(lives.sign * lives.distance[done - 1] + 0.0, lives.n_nodes - done, lives.n_nodes, lives.sign < 0)


def size_histogram(lives: Lives, height: float) -> SizeHistogram:
    """Clusters at a height by their size."""
    return _histogram(height, *(table[0] for table in lives.histograms(np.array([lives.sign * height]))))


def snapshots(lives: Lives, heights: Sequence[float], most: int = 20) -> list[Snapshot]:
    """Flat cuts at some heights, from the nearest to the farthest, each once."""
    distances = np.unique(lives.sign * np.asarray(heights, np.float64))
    clusters, single = lives.counts(distances).tolist(), lives.count_single(distances).tolist()
    largest = lives.largest(distances, most)
    tables = lives.histograms(distances)
    ends = lives.ends()
    found = []
    for k, height in enumerate((lives.sign * distances + 0.0).tolist()):
        sizes = _histogram(height, tables[0][k], tables[1][k])
        clusters_there = tuple(_cluster(lives, ends, place) for place in largest[k].tolist())
        found.append(Snapshot(height, clusters[k], single[k], clusters_there, sizes))
    return found


def _histogram(height: float, clusters: NDArray[np.int64], nodes: NDArray[np.int64]) -> SizeHistogram:
    """Without the bins above the largest cluster."""
    used = int(np.flatnonzero(clusters)[-1]) + 1 if clusters.any() else 0
    return SizeHistogram(height, 2 ** np.arange(used), clusters[:used], nodes[:used])


def _cluster(lives: Lives, ends: NDArray[np.float64], place: int) -> LargeCluster:
    end = float(ends[place])
    return LargeCluster(
        int(lives.node[place]),
        int(lives.size[place]),
        float(lives.sign * lives.distance[place] + 0.0),
        float(lives.sign * end + 0.0) if np.isfinite(end) else None,
    )


def suggested_cuts(lives: Lives, count: int, by: str, min_size: int, most: int) -> pd.DataFrame:
    """The cuts that last longest; see `Clustering.suggest_cuts`."""
    made = (lives.size >= min_size) & (lives.large < min_size)
    change = made.astype(np.int8) - (lives.small >= min_size)
    number = np.cumsum(change, dtype=np.int64) + (lives.n_nodes if min_size == 1 else 0)
    at = np.flatnonzero(change)
    at = at[np.append(np.diff(lives.distance[at]) > 0, True)[: len(at)]]  # the last of those at one height
    start, end, number = lives.distance[at][:-1], lives.distance[at][1:], number[at][:-1]
    lifetime = _lifetimes(start, end, by)
    lasting = np.flatnonzero((number > 1) & (number <= most) & np.isfinite(lifetime))
    longest = lasting[np.argsort(-lifetime[lasting], kind="stable")[:count]]
    start, end = start[longest], end[longest]
    height = _between(start, end, by)
    columns = {
        "height": lives.sign * height + 0.0,
        "n_clusters": lives.counts(height),
        "start": lives.sign * start + 0.0,
        "end": lives.sign * end + 0.0,
        "lifetime": lifetime[longest],
    }
    return pd.DataFrame(columns | ({"large_clusters": number[longest]} if min_size > 1 else {}))


def _lifetimes(start: NDArray[np.float64], end: NDArray[np.float64], by: str) -> NDArray[np.float64]:
    """How long nothing changes; infinite where there is no ratio."""
    if by == "difference":
        return end - start
    with np.errstate(divide="ignore", invalid="ignore"):
        lifetime: NDArray[np.float64] = np.abs(np.log(np.abs(end)) - np.log(np.abs(start)))
    return lifetime


def _between(start: NDArray[np.float64], end: NDArray[np.float64], by: str) -> NDArray[np.float64]:
    """A distance midway between two, below the second."""
    middle = start + (end - start) / 2
    if by == "ratio":
        middle = np.sign(end) * np.sqrt(np.abs(start)) * np.sqrt(np.abs(end))
    return np.where((start <= middle) & (middle < end), middle, start)
