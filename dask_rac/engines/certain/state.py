"""What certain rounds work on: clusters, the entries of near pairs, and radii."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.settings import Settings
from dask_rac.base.spans import starts_of
from dask_rac.engines.matrix.state import CODES
from dask_rac.engines.near import NearPairs
from dask_rac.engines.start import Start
from dask_rac.kernels.matrix.ties import Members
from dask_rac.kernels.matrix.weights import LARGEST
from dask_rac.kernels.near.arrays import Arena, Field, Match, Nearest, Rows
from dask_rac.kernels.near.intake import count_ends, find_ties, scatter, set_radii, sum_weights
from dask_rac.kernels.near.nearest import find_all
from dask_rac.tasks.team import Team

PAIR_BYTES = 80
"""Memory per near pair: as it was read, 16 to 24 bytes, and twice two entries of 14 bytes, half of them spare room."""
SLOT_BYTES = 300
"""Memory per start cluster, whatever the pairs: clusters before and after a round, and what threads fold rows in."""


class Reach(NamedTuple):
    """How far near pairs reach, in the units of the rounds, where smaller is nearer."""

    k: int
    """The k nearest of each start cluster are there; 0 if the pairs are those up to a radius."""
    highest: float
    """No pair that is missing is below it."""

    @property
    def uniform(self) -> bool:
        """Whether the radius is the same for all."""
        return not self.k


def up_to(radius: float) -> Reach:
    """Return the reach of all pairs up to a radius, which is included: the next number above it is not reached."""
    return Reach(0, float(np.nextafter(radius, np.inf)))


@dataclass
class CertainState:
    """The clusters of certain rounds; see `kernels.near` for the arrays."""

    code: int
    arena: Arena
    rows: Rows
    field: Field
    nearest: Nearest
    found: Match
    live: NDArray[np.int64]
    """Slots of the clusters that are left."""
    label: NDArray[np.int64]
    """The slot of each start cluster."""
    share: NDArray[np.float64]
    """What each start cluster counts for in weighted linkage: 2^-depth of it in its cluster."""
    in_place: bool
    """Whether folded rows always fit where one of the two was."""

    @property
    def entries(self) -> int:
        """The number of entries."""
        return int(self.rows.length[self.live].sum())

    def ended(self, ceiling: float) -> bool:
        """Whether no two clusters can be as near as a ceiling: by their entries, and by their radii."""
        if len(self.live) == 1:
            return True
        least = np.minimum(self.nearest.height, self.field.radius)
        return bool((least[self.live] > ceiling).all())


def first_state(
    near: NearPairs, start: Start, reach: Reach, settings: Settings, team: Team, folded: bool = False
) -> CertainState:
    """Return the start clusters with their near pairs, whose weights are in the units of the rounds.

    With `folded`, weights are values as of `kernels.matrix.weights` instead of the distances of all node pairs.
    """
    code, slots = CODES[settings.linkage], len(start.ids)
    length = np.zeros(slots, np.int64)
    count_ends(near.source, near.target, length)
    begin = starts_of(length)
    length[:] = 0
    spare = 2 * int(begin[-1])  # memory that is not used costs nothing
    arena = Arena(np.empty(spare, edge_id_dtype(slots)), np.empty(spare), np.empty(spare, np.uint16))
    rows = Rows(begin[:-1].copy(), length)
    spans = team.spans(begin)
    team.run(scatter, spans, near, rows, arena)
    team.run(find_ties, spans, arena, rows, Members(start.member, start.begin, start.ids))
    radius = np.full(slots, reach.highest)
    if reach.k:
        team.run(set_radii, spans, arena, rows, reach.k, reach.highest, radius)
    radius[length == slots - 1] = np.inf  # no pair of theirs is missing
    if not folded:
        team.run(sum_weights, spans, code, arena, rows, start.size)
    size = start.size.astype(np.float64)
    field = Field(start.ids, size, radius, radius * size)
    slot = np.arange(slots)
    nearest = Nearest(np.full(slots, -1), np.full(slots, -1), np.full(slots, np.inf))
    team.run(find_all, spans, code, arena, rows, field, nearest)
    room = np.empty((2, slots // 2 + 1), np.int64)
    found = Match(room[0], room[1], np.full(slots, -1))
    in_place = code == LARGEST and reach.uniform
    return CertainState(code, arena, rows, field, nearest, found, slot, slot.copy(), np.ones(slots), in_place)
