"""What the rounds of the points engine work on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.settings import Settings
from dask_rac.base.spans import batches
from dask_rac.engines.contract import Limits
from dask_rac.engines.start import Start
from dask_rac.kernels.arrays import part
from dask_rac.kernels.matrix.ties import Members
from dask_rac.kernels.points import weights
from dask_rac.kernels.points.arrays import Centroids, Frame, Groups, Lists, Screen, State
from dask_rac.kernels.points.screen import show_rows
from dask_rac.kernels.points.unite import close_up, link_members, list_members
from dask_rac.vectors.compare.search import squares
from dask_rac.vectors.sources.opening import VectorSource

CODES = {
    ("ward", "euclidean"): weights.WARD,
    ("average", "sqeuclidean"): weights.SQUARES,
    ("average", "cosine"): weights.COSINES,
    ("average", "inner_product"): weights.PRODUCTS,
}
"""By which the kernels know a linkage and a metric."""

READ_VALUES = 2**22  # of vectors, at a time
TERMS = 16  # of a product, to which roundings beside those of its terms are equal
UNIT = 2.0**-24  # rounding unit of float32
NO_MEMBERS = Members(np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.int64))


@dataclass
class Points:
    """The clusters of a run."""

    state: State
    live: int
    """Clusters that live; other slots are dead."""
    rounds: int = 0
    """Rounds done."""
    members: Members = NO_MEMBERS
    """The nodes of the clusters in this round, where they are needed to break ties."""
    ties: bool = False
    """Whether any tie was met so far."""
    ended: bool = False
    """Whether no pair is left to merge."""

    @property
    def slots(self) -> int:
        """Places for clusters."""
        return len(self.state.groups.ids)

    def know_members(self) -> None:
        """List the nodes of all clusters, from now on in every round."""
        self.ties = True
        if not len(self.members.node):
            self.members = list_members(self.state.centroids, self.state.groups)

    def next_round(self) -> None:
        """Forget what was true for one round only."""
        self.rounds += 1
        self.members = NO_MEMBERS
        if self.ties:
            self.know_members()

    def close_up(self) -> None:
        """Drop the dead slots."""
        self.state = first_slots(self.state, close_up(self.state))


def first_slots(state: State, slots: int) -> State:
    """Return the same with fewer slots."""
    code, centroids, frame, screen, lists, groups = state
    after = groups.after
    return State(
        code,
        part(centroids, None, slots),
        frame,
        part(screen, None, slots),
        part(lists, None, slots),
        part(groups, None, slots)._replace(after=after),
    )


def first_points(source: VectorSource, start: Start, settings: Settings, limits: Limits) -> Points:
    """Return the clusters of a start, one vector each, with empty lists."""
    code = CODES[settings.linkage, settings.metric]
    centroids = _centroids(source, start, code)
    frame = _frame(centroids.mean, code)
    slots, room = len(start.ids), max(1, min(limits.lists, len(start.ids) - 1))
    lists = Lists(np.empty((slots, room), np.int32), np.zeros(slots, np.int32), np.full(slots, -np.inf))
    ids = start.ids.astype(np.int64)
    head, tail, after = link_members(start.member, start.begin)
    groups = Groups(
        ids, np.full(slots, -1), np.full(slots, np.inf), np.arange(slots, dtype=np.int32), head, tail, after
    )
    return Points(State(code, centroids, frame, new_screen(code, centroids, frame), lists, groups), slots)


def new_screen(code: int, centroids: Centroids, frame: Frame) -> Screen:
    """Return clusters as products see them."""
    slots, dimensions = centroids.mean.shape
    screen = Screen(
        np.empty((slots, dimensions), np.float32),
        np.empty(slots, np.float32),
        np.empty(slots, np.float32),
        np.empty(slots),
    )
    show_rows(code, centroids, frame, screen)
    return screen


def _centroids(source: VectorSource, start: Start, code: int) -> Centroids:
    """Return the vectors as clusters: scaled to length 1 for cosines, and less the origin but for products."""
    mean = np.empty((source.rows, source.dimensions))
    for first, last in batches(0, source.rows, max(1, READ_VALUES // source.dimensions)):
        block = source.read(first, last)
        mean[first:last] = block
        if code == weights.COSINES:
            mean[first:last] /= np.sqrt(squares(block))[:, None]
    if code != weights.PRODUCTS:
        mean -= _origin(mean.min(axis=0), mean.max(axis=0))
    return Centroids(mean, start.size.astype(np.float64), np.zeros(source.rows))


def _origin(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return what is subtracted from all vectors, so that means lose no more to rounding than the extent requires.

    It is 0 in dimensions where some values are not far from 0. Otherwise it has so few digits that differences are
    exact.
    """
    extent = high - low
    step = np.exp2(np.ceil(np.log2(np.where(extent > 0, extent, 1.0))))
    middle = 0.5 * (high + low)
    coarse = np.where(extent > 0, np.rint(middle / step) * step, middle)
    return np.where((low > extent) | (high < -extent), coarse, 0.0)


def _frame(mean: NDArray[np.float64], code: int) -> Frame:
    """Return how means become rows for products."""
    rows, dimensions = mean.shape
    centre = np.zeros(dimensions) if code == weights.PRODUCTS else mean.mean(axis=0)
    largest, radius = 0.0, 0.0
    for first, last in batches(0, rows, max(1, READ_VALUES // dimensions)):
        block = mean[first:last]
        largest = max(largest, float(np.abs(block - centre).max(initial=0.0)))
        radius = max(radius, float(squares(block).max(initial=0.0)))
    scale = float(np.exp2(-np.ceil(np.log2(largest)))) if largest else 1.0
    slack = float(np.expm1((dimensions + TERMS) * UNIT))  # at least (1 + UNIT)**terms - 1
    return Frame(centre, scale, slack, float(np.sqrt(radius)))
