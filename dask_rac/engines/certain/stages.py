"""Stages: where the matrix of the clusters that are left does not fit, certain rounds go on with their near pairs.

A stage is one pass over all pairs, which finds the pairs of clusters whose W is at most a radius, exactly. No other W
is below it, so clusters take the place of nodes, and the same rounds go on, with fewer clusters and a larger radius.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import ResourceError
from dask_rac.base.spans import Span, batches, starts_of
from dask_rac.base.text import size_text
from dask_rac.engines.certain.groups import Grouped
from dask_rac.engines.certain.sample import SEED, radius_of
from dask_rac.engines.certain.survey import OVERSHOOT, most_pairs
from dask_rac.engines.contract import Limits
from dask_rac.engines.matrix.in_memory import pairs_bytes
from dask_rac.engines.near import NearPairs
from dask_rac.kernels.matrix.weights import MEAN
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from dask_rac.vectors.sources.chosen import choose_rows

TOGETHER = 32  # spans of a stage that threads search before their pairs are counted
LOWER = 4  # by which the pairs that are wanted are divided, where there were too many

Near = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def sampled_clusters(pairs: AllPairs, groups: Grouped, count: int) -> tuple[AllPairs, Grouped]:
    """Return some of the clusters, the same ones in every run on the same data, and the pairs of their vectors."""
    if groups.clusters <= count:
        return pairs, groups
    chosen = np.sort(np.random.default_rng(SEED).choice(groups.clusters, count, replace=False))
    lengths = np.diff(groups.begin)[chosen]
    begin = starts_of(lengths)
    row = groups.row[np.arange(begin[-1]) + np.repeat(groups.begin[chosen] - begin[:-1], lengths)]
    if not isinstance(pairs, VectorPairs):
        return pairs, Grouped(row, begin, groups.share)
    kept = np.sort(row)
    few = VectorPairs(choose_rows(pairs.source, kept), pairs.metric, pairs.squares)
    return few, Grouped(np.searchsorted(kept, row), begin, groups.share[kept])


def sampled_heights(groups: Grouped, code: int, entries: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return W of all pairs of some clusters in ascending order, given the triangle of their entries."""
    if code != MEAN:
        return np.sort(entries)
    size = np.add.reduceat(groups.share[groups.row], groups.begin[:-1])[::-1]
    slot = np.arange(len(size))
    return np.sort(entries / (np.repeat(size, slot) * np.concatenate([size[:s] for s in slot])))


def stage_radii(heights: NDArray[np.float64], clusters: int, memory: int, limits: Limits) -> list[float]:
    """Return the radii that a stage may have, the largest first; a smaller one is for when there are too many pairs."""
    wanted = min(most_pairs(clusters, memory) / OVERSHOOT, clusters * limits.stage_degree / 2)
    radii = []
    while wanted >= max(1.0, limits.stage_share * clusters):
        radius = radius_of(heights, wanted / triangle_entries(clusters))
        if radius is not None:
            radii.append(radius)
        wanted /= LOWER
    return sorted(set(radii), reverse=True)


def stage_pairs(
    radii: list[float], spans: Sequence[Span], most: int, find: Callable[[float, Sequence[Span]], Sequence[Near]]
) -> tuple[float, NearPairs] | None:
    """Return a radius and the pairs of clusters up to it, at most `most`; None if there are too many for any."""
    for radius in radii:
        parts: list[Near] = []
        for first, last in batches(0, len(spans), TOGETHER):
            parts += find(radius, spans[first:last])
            if sum(len(part[0]) for part in parts) > most:
                break
        else:
            return radius, NearPairs(*(np.concatenate(column) for column in zip(*parts, strict=True)))
    return None


def refuse_stage(clusters: int, memory: int) -> None:
    """Raise, as stages would never end."""
    needed = pairs_bytes(clusters)
    raise ResourceError(
        f"{clusters:,} clusters are left that hardly merge within the radius that memory allows, and their matrix "
        f"needs {size_text(needed)}, where {size_text(memory)} may be used: set memory='{-(-needed // 10**6)}MB' or "
        "more"
    )
