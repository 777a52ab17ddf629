"""The nearest clusters of some slots among all: products in float32 screen, float64 decides."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import Span, even_spans
from dask_rac.engines.contract import Limits
from dask_rac.engines.points.state import Points
from dask_rac.kernels.points.lists import TIED
from dask_rac.kernels.points.search import begin_search, end_search, scan
from dask_rac.tasks.team import Team
from dask_rac.vectors.compare.blas import one_core

SMALL = 2**22  # multiplications that take less time than restricting them to one core
LEAST_ROWS = 32  # for which a thread has products of its own: with fewer, reading the clusters takes longer


def search(points: Points, slots: NDArray[np.int64], ceiling: float, team: Team, limits: Limits) -> None:
    """Find the nearest of some slots, and the lists of their near clusters."""
    if _search(points, slots, ceiling, team, limits):
        points.know_members()
        left = slots[points.state.groups.nearest[slots] == TIED]
        _search(points, left, ceiling, team, limits)


def _search(points: Points, slots: NDArray[np.int64], ceiling: float, team: Team, limits: Limits) -> int:
    """Search in threads; return how many have several nearest that members must tell apart."""
    state, members = points.state, points.members
    matrix, columns = state.screen.row, points.slots

    def find(span: Span) -> int:
        hits = begin_search(state, slots[slice(*span)], members)
        rows = matrix[hits.slot]
        wide = min(columns, max(1, limits.query_tile // len(rows)))
        room = np.empty(len(rows) * wide, np.float32)
        with one_core() if len(rows) * matrix.size > SMALL else nullcontext():
            for first in range(0, columns, wide):
                others = matrix[first : first + wide]
                tile = room[: len(rows) * len(others)].reshape(len(rows), len(others))
                np.matmul(rows, others.T, out=tile)
                scan(state, tile, first, hits, members)
        tied: int = end_search(state, hits, ceiling, members)
        return tied

    return sum(team.run(find, _spans(len(slots), team, limits)))


def _spans(rows: int, team: Team, limits: Limits) -> list[Span]:
    """Cut the slots that are searched for into what a thread takes at a time."""
    parts = min(team.threads, max(1, rows // LEAST_ROWS))
    return even_spans(rows, max(parts, -(-rows // limits.query_rows)))
