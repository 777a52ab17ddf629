"""What is known of new points, wherever their distances to flat clusters come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import batches, even_spans
from dask_rac.tasks.team import Team
from dask_rac.vectors.assign.clusters import FlatClusters

Assigned = tuple[NDArray[np.int64], NDArray[np.float64]]
"""The label of the nearest cluster of each new point, and W of the two, smaller for nearer ones."""


@dataclass(frozen=True)
class AssignLimits:
    """Numbers that decide how much is held in memory, and never what is found; tests hand over smaller ones."""

    table_values: int = 2**23
    """W of new points and clusters that are held at a time, of 8 bytes each."""
    block_values: int = 2**22
    """Values of vectors that are held at a time, of 8 bytes each."""
    most_rows: int = 4096
    """New points that are compared at a time."""


class NewPoints(Protocol):
    """Points that are to be assigned to flat clusters."""

    @property
    def limits(self) -> AssignLimits:
        """How much may be held in memory."""

    @property
    def rows(self) -> int:
        """The number of new points."""

    def check(self, team: Team) -> None:
        """Raise if they cannot be compared."""

    def weigh(self, first: int, last: int, team: Team) -> NDArray[np.float64]:
        """Return W of the points `first` to `last` and each cluster, as a table."""


def nearest(points: NewPoints, clusters: FlatClusters, team: Team) -> Assigned:
    """Find the nearest cluster of each new point; of equally near ones the one with the smallest label."""
    points.check(team)
    place, weight = np.empty(points.rows, np.int64), np.empty(points.rows)
    limits = points.limits
    step = max(1, min(limits.most_rows, limits.table_values // len(clusters)))
    for first, last in batches(0, points.rows, step):
        table = points.weigh(first, last, team)
        place[first:last] = table.argmin(axis=1)
        weight[first:last] = np.take_along_axis(table, place[first:last, None], axis=1)[:, 0]
    return clusters.labels[place], weight


def row_spans(rows: int, team: Team) -> list[tuple[int, int]]:
    """Cut the rows of a table for the threads of a team."""
    return even_spans(rows, team.threads)
