"""One round of the points engine, its kernels spread over threads; what they find does not depend on the threads."""

from __future__ import annotations

from time import perf_counter

import numpy as np

from dask_rac.base.events import RoundRecord
from dask_rac.base.spans import Span, even_spans
from dask_rac.engines.contract import Limits
from dask_rac.engines.points.search import search
from dask_rac.engines.points.state import Points
from dask_rac.kernels.arrays import Merges
from dask_rac.kernels.points.arrays import Match, Task
from dask_rac.kernels.points.lists import TIED, UNKNOWN, propose, renew
from dask_rac.kernels.points.unite import flatten, match, unite
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.triangle import triangle_entries

ROUNDING = 2.0**-53, 64, 8  # how far a mean may be off, in radii: the unit, at first, and more in each round


def first_nearest(points: Points, ceiling: float, team: Team, limits: Limits) -> None:
    """Find the nearest of every cluster, in its list or among all."""
    everybody = np.arange(points.slots)
    none = np.empty(0, np.int64)
    _find_nearest(points, Match(none, none, everybody, np.full(points.slots, -1)), ceiling, team, limits)


def points_round(points: Points, ceiling: float, team: Team, limits: Limits, merges: Merges) -> RoundRecord | None:
    """Merge all reciprocal pairs; None if there are none."""
    started = perf_counter()
    found, least = match(points.state.centroids, points.state.groups, ceiling)
    pairs, clusters = len(found.lower), points.live
    if not pairs:
        return None
    state = points.state
    spans = even_spans(pairs, _parts(pairs * state.centroids.mean.shape[1], team))
    team.run(lambda span: unite(state, found, least, merges, span), spans)
    flatten(state.groups.root)
    points.live -= pairs
    points.next_round()
    matched = perf_counter()
    _find_nearest(points, found, ceiling, team, limits)
    if points.live < limits.close_share * points.slots:
        points.close_up()
    return RoundRecord(
        clusters,
        triangle_entries(clusters),
        pairs,
        nearest_updates=len(found.search) - pairs,
        match_seconds=matched - started,
        fold_seconds=perf_counter() - matched,
    )


def _find_nearest(points: Points, found: Match, ceiling: float, team: Team, limits: Limits) -> None:
    """Find the nearest of the slots that look for it: in their lists, or where these have run out, among all."""
    unknown, tied = _renew(points, found, ceiling, team)
    nearest = points.state.groups.nearest
    if tied:
        points.know_members()
        left = found.search[nearest[found.search] == TIED]
        _renew(points, found._replace(search=left), ceiling, team)
    if unknown:
        search(points, found.search[nearest[found.search] == UNKNOWN], ceiling, team, limits)
    if propose(points.state.groups, found.search, points.members):
        points.know_members()
        propose(points.state.groups, found.search, points.members)


def _renew(points: Points, found: Match, ceiling: float, team: Team) -> tuple[int, int]:
    """Bring lists up to date in threads; return how many have run out, and how many have several nearest."""
    state, members = points.state, points.members
    unit, first, more = ROUNDING
    task = Task(ceiling, unit * (first + more * points.rounds))
    values = len(found.search) * state.lists.entry.shape[1] * state.centroids.mean.shape[1]

    def look(span: Span) -> tuple[int, int]:
        unknown, tied = renew(state, found, task, members, span)
        return unknown, tied

    counts = team.run(look, even_spans(len(found.search), _parts(values, team)))
    return sum(unknown for unknown, _ in counts), sum(tied for _, tied in counts)


def _parts(values: int, team: Team) -> int:
    """Return into how many parts a pass over values is cut."""
    return len(team.even_spans(values))
