"""A sample of all pairs: those of some thousand vectors or points, the same ones in every run on the same data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import even_spans
from dask_rac.engines.contract import Limits
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.stream import check_distances
from dask_rac.vectors.pairs.triangle import triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from dask_rac.vectors.sources.chosen import choose_rows

SEED = 17
RUNS = 16  # of successive rows, where rows are read from a matrix: chunks hold many rows
SAMPLE_BYTES = 64  # per pair of the sample, while the rounds are tried
MOST = 16_384  # points, unless limits ask for more: their pairs have numbers of 4 bytes
QUARTERS = 4
CLUMPED = 1.5  # times the pairs that were asked for: with more at the very radius, a smaller one is taken


@dataclass(frozen=True)
class Sample:
    """All pairs of some points."""

    points: int
    weight: NDArray[np.float64]
    """As in a triangle: slot s with all slots t < s, one s after the other."""
    highest: float = np.inf
    """No radius may be larger: graphs of similarities leave out those below 0."""

    @cached_property
    def ends(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """The two slots of each pair, the lower one first."""
        return _ends(self.points)

    @cached_property
    def ordered(self) -> NDArray[np.float64]:
        """The weights in ascending order."""
        return np.sort(self.weight)

    @cached_property
    def nearest(self) -> NDArray[np.int32]:
        """The other slots for each point, the nearest first, and of equally near ones the lower slot; a row each."""
        square = np.full((self.points, self.points), np.inf)
        lower, upper = self.ends
        square[lower, upper] = square[upper, lower] = self.weight
        return np.argsort(square, axis=1, kind="stable")[:, :-1].astype(np.int32)

    def listed(self, k: int) -> NDArray[np.bool_]:
        """Tell of each pair whether one of its points is among the k nearest of the other."""
        near = np.zeros((self.points, self.points), np.bool_)
        np.put_along_axis(near, self.nearest[:, :k], True, axis=1)
        lower, upper = self.ends
        return near[lower, upper] | near[upper, lower]

    def quarters(self) -> list[Sample]:
        """Return four samples: every fourth point, beginning with each of the first four."""
        return [self._part(np.arange(first, self.points, QUARTERS)) for first in range(QUARTERS)]

    def _part(self, slot: NDArray[np.signedinteger]) -> Sample:
        """Return the sample of the points in some slots, which are in ascending order."""
        lower, upper = _ends(len(slot))
        return Sample(len(slot), self.weight[_starts(slot[upper]) + slot[lower]], self.highest)

    def radius(self, fraction: float) -> float | None:
        """Return a radius with about this fraction of the pairs within; None if even the smallest has far more."""
        radius = radius_of(self.ordered, fraction)
        return None if radius is None else min(radius, self.highest)


def _ends(points: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the two slots of each pair of a triangle, the lower one first."""
    slot = np.arange(points, dtype=np.int32)
    upper = np.repeat(slot, slot)
    return np.arange(len(upper), dtype=np.int64).astype(np.int32) - _starts(upper), upper


def _starts(slot: NDArray[np.signedinteger]) -> NDArray[np.int32]:
    """Return where the row of each slot begins."""
    wide = slot.astype(np.int64)
    return (wide * (wide - 1) // 2).astype(np.int32)


def radius_of(ordered: NDArray[np.float64], fraction: float) -> float | None:
    """Return a radius with about this fraction of ascending weights within; None if even the smallest has far more."""
    wanted = fraction * len(ordered)
    place = min(len(ordered), int(np.ceil(wanted))) - 1
    if place < 0:
        return None
    within = int(np.searchsorted(ordered, ordered[place], side="right"))
    if within > max(CLUMPED * wanted, wanted + 1):
        place = int(np.searchsorted(ordered, ordered[place])) - 1
    return float(ordered[place]) if place >= 0 else None


def sample_size(points: int, limits: Limits, memory: int) -> int:
    """Return how many of the points a sample has, so that its pairs take less than half of the memory."""
    rows = max(limits.sample_rows, min(MOST, int(limits.sample_share * points)))
    return max(2, min(points, rows, int((memory / SAMPLE_BYTES) ** 0.5)))


def draw_sample(pairs: AllPairs, count: int, team: Team) -> Sample:
    """Draw some of all points."""
    if isinstance(pairs, VectorPairs):
        chosen = np.sort(np.random.default_rng(SEED).choice(pairs.nodes, count, replace=False))
        few = VectorPairs(choose_rows(pairs.source, chosen), pairs.metric, pairs.squares)
        weight = np.empty(triangle_entries(count))
        few.fill(weight, team, lambda _: None)
        return Sample(count, weight, 0.0 if pairs.metric.similarity else np.inf)
    return _draw_given(pairs, count)


def _draw_given(pairs: AllPairs, count: int) -> Sample:
    """Draw points of given distances in runs of successive ones, which lie together on disk."""
    each = max(1, count // RUNS)
    runs = [(first, min(last, first + each)) for first, last in even_spans(pairs.nodes, RUNS)]
    slots = np.concatenate([np.arange(*run) for run in runs])
    parts = []
    for first, last in runs:
        out = np.empty(triangle_entries(last) - triangle_entries(first))
        pairs.read(first, last, out)
        begin = triangle_entries(first)
        parts += [out[triangle_entries(s) - begin :][slots[slots < s]] for s in range(first, last)]
    weight = np.concatenate(parts)
    if not (np.isfinite(weight) & (weight >= 0)).all():
        check_distances(pairs, lambda _: None)  # raises, naming the first that is not valid
    return Sample(len(slots), weight)
