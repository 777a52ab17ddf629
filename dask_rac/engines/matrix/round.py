"""One round of the matrix engine, its kernels spread over threads; what they find does not depend on the threads."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.base.spans import Span, even_spans
from dask_rac.engines.contract import Limits
from dask_rac.engines.matrix.state import Matrix
from dask_rac.kernels.arrays import Merges
from dask_rac.kernels.matrix.arrays import Best, Triangle, Wanted
from dask_rac.kernels.matrix.fold import fold_ending, fold_rows
from dask_rac.kernels.matrix.match import end_pairs, live_slots, match, unite
from dask_rac.kernels.matrix.rounds import is_dense, kept_groups, new_best
from dask_rac.kernels.matrix.search import (
    join_scans,
    join_searches,
    renew_rows,
    scan_rows,
    search_rows,
    take_scans,
    take_searches,
    wanted_slots,
)
from dask_rac.kernels.matrix.ties import list_members
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.triangle import triangle_entries, triangle_spans


def first_nearest(matrix: Matrix, team: Team) -> None:
    """Find the nearest of every node."""
    best = _over_rows(
        matrix.slots,
        team,
        lambda best, span: scan_rows(matrix.code, matrix.triangle, matrix.groups, best, span),
    )
    _take(matrix, team, best)


def matrix_round(matrix: Matrix, ceiling: float, team: Team, limits: Limits, merges: Merges) -> RoundRecord | None:
    """Merge all reciprocal pairs; None if there are none."""
    started = perf_counter()
    pairs, searches = match(matrix.triangle, matrix.groups, matrix.found, ceiling)
    if not pairs:
        return None
    clusters = matrix.live
    unite(matrix.code, matrix.triangle, matrix.groups, matrix.found, pairs, merges)
    matrix.live -= pairs
    matched = perf_counter()
    spans = even_spans(pairs, _parts(pairs * clusters, team))
    team.run(lambda span: fold_ending(matrix.code, matrix.triangle, matrix.found, pairs, span), spans)
    if is_dense(searches, matrix.live, matrix.slots, (limits.dense_share, limits.shrink_share)):
        _renew(matrix, team, pairs, matrix.live < limits.shrink_share * matrix.slots)
    else:
        _update(matrix, team, pairs, searches)
    return RoundRecord(
        clusters,
        triangle_entries(clusters),
        pairs,
        nearest_updates=searches - pairs,
        match_seconds=matched - started,
        fold_seconds=perf_counter() - matched,
    )


def _renew(matrix: Matrix, team: Team, pairs: int, shrinks: bool) -> None:
    """Fold all rows and find the nearest of every cluster in the same pass; close up the rows if it `shrinks`."""
    triangle, found = matrix.triangle, matrix.found
    rows = live_slots(triangle, found)
    groups = kept_groups(matrix.groups, rows) if shrinks else matrix.groups
    best = _over_rows(
        len(rows),
        team,
        lambda best, span: renew_rows(matrix.state, rows, pairs, groups, best, span),
        len(groups.ids),
    )
    if shrinks:
        matrix.take(Triangle(triangle.entry, triangle.start[rows]), groups)
    else:
        end_pairs(triangle, groups, found, pairs)
    _take(matrix, team, best)


def _update(matrix: Matrix, team: Team, pairs: int, searches: int) -> None:
    """Fold what changed, and search for the nearest of the clusters that lost theirs."""
    code, triangle, groups, found = matrix.code, matrix.triangle, matrix.groups, matrix.found
    rows = live_slots(triangle, found)
    spans = triangle_spans(len(rows), _parts(pairs * len(rows), team))
    team.run(lambda span: fold_rows(code, triangle, rows, found, pairs, span), spans)
    end_pairs(triangle, groups, found, pairs)
    groups.height[found.search[:searches]] = -np.inf
    again = np.flatnonzero(_search(matrix, team, found.search[:searches]))
    if len(again):
        found.partner[:] = -1
        _search(matrix, team, again)


def _take(matrix: Matrix, team: Team, best: Best) -> None:
    """Give every cluster the nearest that a scan has found, and search for those with a tie."""
    ties = take_scans(matrix.groups, best, matrix.found.search)
    if ties:
        matrix.found.partner[:] = -1
        _search(matrix, team, matrix.found.search[:ties])


def _search(matrix: Matrix, team: Team, slots: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Find the nearest of some slots; return which others a merged cluster came nearer to than their nearest."""
    wanted: Wanted = wanted_slots(slots, matrix.slots)
    members = list_members(matrix.state)
    spans = triangle_spans(matrix.slots, _parts(len(slots) * matrix.slots, team))

    def search(span: Span) -> Best:
        best: Best = new_best(len(slots))
        search_rows(matrix.state, members, wanted, best, span)
        return best

    first, *others = team.run(search, spans)
    for other in others:
        join_searches(members, wanted, first, other)
    take_searches(matrix.groups, wanted, first)
    return wanted.disturbed


def _over_rows(rows: int, team: Team, pass_over: Callable[[Best, Span], Any], slots: int | None = None) -> Best:
    """Return the bests of all slots after a pass over all rows, each thread with bests of its own."""

    def bests(span: Span) -> Best:
        best: Best = new_best(rows if slots is None else slots)
        pass_over(best, span)
        return best

    first: Best
    first, *others = team.run(bests, triangle_spans(rows, _parts(triangle_entries(rows), team)))
    for other in others:
        join_scans(first, other)
    return first


def _parts(entries: int, team: Team) -> int:
    """Return into how many parts a pass over entries is cut."""
    return len(team.even_spans(entries))
