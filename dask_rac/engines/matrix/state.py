"""What the rounds of the matrix engine work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.settings import Settings
from dask_rac.kernels.matrix import weights
from dask_rac.kernels.matrix.arrays import Groups, Match, State, Triangle

CODES = {
    "average": weights.MEAN,
    "complete": weights.LARGEST,
    "ward": weights.WARD,
    "weighted": weights.WEIGHTED,
}
"""By which the kernels know a linkage."""


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


def first_matrix(entry: NDArray[np.float64], nodes: int, settings: Settings) -> Matrix:
    """Return the clusters of one node each; `entry` is their triangle, which is used up."""
    slot = np.arange(nodes)
    ids = slot[::-1].copy()
    groups = Groups(
        ids,
        np.ones(nodes),
        np.zeros(nodes),
        np.zeros(nodes),
        np.full(nodes, -1),
        np.full(nodes, np.inf),
        ids.copy(),
        ids.copy(),
    )
    room = np.empty((4, nodes), np.int64)
    found = Match(room[0], room[1], room[2], room[3], np.full(nodes, -1))
    return Matrix(CODES[settings.linkage], Triangle(entry, slot * (slot - 1) // 2), groups, found, nodes)
