"""What the rounds of the matrix engine work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.settings import Settings
from dask_rac.base.spans import starts_of
from dask_rac.engines.start import Start
from dask_rac.kernels.matrix import weights
from dask_rac.kernels.matrix.arrays import Groups, Match, State, Triangle
from dask_rac.kernels.matrix.ties import Members

CODES = {
    "average": weights.MEAN,
    "complete": weights.LARGEST,
    "ward": weights.WARD,
    "weighted": weights.WEIGHTED,
}
"""By which the kernels know a linkage."""

SUMS = (weights.MEAN, weights.WARD)
"""Linkages whose entries are sums over all pairs of nodes."""


@dataclass
class Matrix:
    """The clusters of a run, and the triangle of their entries."""

    code: int
    triangle: Triangle
    groups: Groups
    found: Match
    live: int
    """Clusters that live; other slots are dead."""

    @property
    def state(self) -> State:
        """The same as kernels take it."""
        return State(self.code, self.triangle, self.groups, self.found)

    @property
    def slots(self) -> int:
        """Places for clusters."""
        return len(self.groups.ids)

    def take(self, triangle: Triangle, groups: Groups) -> None:
        """Go on with fewer slots."""
        self.triangle, self.groups = triangle, groups
        lower, upper, partner, search, after = self.found
        slots = self.slots
        self.found = Match(lower[:slots], upper[:slots], partner[:slots], search[:slots], after)


def first_matrix(entry: NDArray[np.float64], start: Start, settings: Settings) -> Matrix:
    """Return the clusters of a start; `entry` is their triangle, which is used up."""
    slot = np.arange(len(start.ids))
    count = len(slot)
    groups = Groups(
        start.ids[::-1].copy(),
        start.size[::-1].astype(np.float64),
        np.zeros(count),
        np.zeros(count),
        np.full(count, -1),
        np.full(count, np.inf),
        start.member[start.begin[:-1]][::-1].copy(),
        start.member[start.begin[1:] - 1][::-1].copy(),
    )
    room = np.empty((4, count), np.int64)
    found = Match(room[0], room[1], room[2], room[3], _next_members(start))
    return Matrix(CODES[settings.linkage], Triangle(entry, slot * (slot - 1) // 2), groups, found, count)


def _next_members(start: Start) -> NDArray[np.int64]:
    """Return the node that follows each node in its cluster, -1 after the last."""
    after = np.full(start.nodes, -1)
    after[start.member[:-1]] = start.member[1:]
    after[start.member[start.begin[1:] - 1]] = -1
    return after


def members_of(start: Start) -> Members:
    """Return the nodes of each cluster of a start, by slot."""
    size = np.diff(start.begin)[::-1]
    begin = starts_of(size)
    first = np.repeat(start.begin[:-1][::-1] - begin[:-1], size)
    return Members(start.member[np.arange(start.nodes) + first], begin, start.ids[::-1].copy())
