"""Runs of the points engine within limits of our own, points of every kind, and what their merges must be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Listener
from dask_rac.base.settings import Settings, checked_settings
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.equal import distinct_pairs, merge_equal
from dask_rac.engines.points.in_memory import merge_points
from dask_rac.engines.prepare import joined
from dask_rac.engines.start import Start, single_nodes
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.tasks.team import Team
from dask_rac.vectors.compare.metrics import METRICS
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from dask_rac.vectors.sources.memory import open_array

WAYS = (("ward", "euclidean"), ("average", "sqeuclidean"), ("average", "cosine"), ("average", "inner_product"))
"""All linkages and metrics of the engine."""
PATHS = {
    "as users have it": Limits(),
    "from neighbours": Limits(alike=0),
    "no lists": Limits(near=1, lists=1, alike=0),
    "short lists": Limits(near=2, lists=2, close_share=0.0),
    "more room than neighbours": Limits(near=2, lists=6, close_share=1.0, alike=0),
    "small tiles": Limits(near=3, lists=3, query_rows=3, query_tile=7),
}
"""Limits that send the same points through other kernels."""

Rows = list[tuple[int, int, int, float]]
"""Left, right, size and height of merges, by their clusters."""


def settings_of(linkage: str, metric: str, max_height: float | None = None) -> Settings:
    """The settings of a run on all pairs."""
    weights = "similarity" if metric == "inner_product" else "distance"
    return checked_settings(linkage, None, weights, max_height, metric=metric)


def pairs_of(points: NDArray[Any], linkage: str, metric: str) -> VectorPairs:
    """All pairs of some points."""
    return VectorPairs(open_array(points), METRICS[metric], squares=linkage == "ward")


def merged(
    pairs: VectorPairs,
    settings: Settings,
    start: Start | None = None,
    limits: Limits | None = None,
    threads: int = 1,
    report: Listener = lambda _: None,
) -> MergeList:
    """The merges of the engine as users see them; without a start, of single nodes."""
    with Team(threads) as team:
        found = merge_points(
            pairs, start or single_nodes(pairs.nodes), 2**28, settings, team, report, limits or Limits()
        )
    return as_seen(found, settings)


def as_seen(found: MergeList, settings: Settings) -> MergeList:
    """Heights as users see them."""
    merges = found.merges
    raise_heights(merges.left, merges.right, merges.height, np.full(found.nodes, -np.inf))
    merges.height[:] = settings.sign * merges.height + 0.0
    return found


def merged_points(
    points: NDArray[Any], way: tuple[str, str], limits: Limits | None = None, threads: int = 1
) -> MergeList:
    """The merges of points of which some may be equal, as a run has them."""
    settings, pairs = settings_of(*way), pairs_of(points, *way)
    with Team(threads) as team:
        start, equal = merge_equal(pairs, team, lambda _: None)
    found = merged(distinct_pairs(pairs, start), settings, start, limits, threads)
    return joined(equal, found)


def rows_of(found: MergeList) -> Rows:
    """Merges by the clusters that they unite."""
    left, right, height, size = (column.tolist() for column in found.merges)
    return sorted(zip(left, right, size, height, strict=True))


def assert_same(found: MergeList, expected: MergeList) -> None:
    """The same merges, to the last bit and in the same order."""
    for column, other in zip((*found.merges, found.round), (*expected.merges, expected.round), strict=True):
        np.testing.assert_array_equal(column, other)


def _blobs(nodes: int, dimensions: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return clusters of very different density."""
    centre = 20 * random.standard_normal((4, dimensions))
    group = random.integers(0, 4, nodes)
    return centre[group] + 10.0 ** (-group[:, None]) * random.standard_normal((nodes, dimensions))


def _outliers(nodes: int, dimensions: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return a few points far from all others."""
    points = random.standard_normal((nodes, dimensions))
    points[random.integers(0, nodes, 1 + nodes // 20)] *= 1e3
    return points


def _line(nodes: int, dimensions: int, random: np.random.Generator) -> NDArray[np.float64]:
    """Return points on a line, not through the origin."""
    ends = random.standard_normal((2, dimensions))
    points: NDArray[np.float64] = ends[0] + np.cumsum(random.random((nodes, 1)), axis=0) * ends[1]
    return points


KINDS: dict[str, Callable[[int, int, np.random.Generator], NDArray[np.float64]]] = {
    "one cloud": lambda nodes, dimensions, random: random.standard_normal((nodes, dimensions)),
    "densities": _blobs,
    "outliers": _outliers,
    "line": _line,
    "far from zero": lambda nodes, dimensions, random: 1e6 + random.standard_normal((nodes, dimensions)),
    "small": lambda nodes, dimensions, random: 1e-20 * random.standard_normal((nodes, dimensions)),
}
"""Points without ties."""
