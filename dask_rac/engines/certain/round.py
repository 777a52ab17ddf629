"""Certain rounds: clusters merge that are each other's nearest, whatever the pairs weigh that are not known."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np

from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.base.spans import starts_of
from dask_rac.engines.certain.state import CertainState
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.kernels.arrays import Merges, empty_merges, part
from dask_rac.kernels.near.arrays import Folding
from dask_rac.kernels.near.fold import close_gaps, fold_rows
from dask_rac.kernels.near.match import follow, go_on, match, unite
from dask_rac.tasks.team import Team


def certain_rounds(
    state: CertainState, nodes: int, settings: Settings, team: Team, report: Listener, limits: Limits
) -> MergeList:
    """Run certain rounds until one merges few clusters; `nodes` is the number of all nodes."""
    ceiling = settings.sign * settings.max_height
    merges = empty_merges(len(state.live), np.dtype(np.int64))
    when, records, merged = np.empty(len(state.live), np.int32), list[RoundRecord](), 0
    while True:
        record = certain_round(state, ceiling, team, part(merges, merged, None))
        if record is None:
            break
        record = replace(record, round=len(records) + 1)
        records.append(record)
        when[merged : merged + record.merges] = record.round
        merged += record.merges
        report(Event("round", nodes, merged, record))
        if record.merges < limits.certain_share * record.clusters:
            break
    return MergeList(nodes, part(merges, None, merged), when[:merged], records)


def certain_round(state: CertainState, ceiling: float, team: Team, merges: Merges) -> RoundRecord | None:
    """Merge all pairs that are certain; None if there are none."""
    started = perf_counter()
    pairs = match(state.nearest, state.live, ceiling, state.found)
    if not pairs:
        return None
    clusters, edges = len(state.live), state.entries // 2
    before = state.field._replace(size=state.field.size.copy(), radius=state.field.radius.copy())
    unite(state.code, state.field, state.nearest.height, state.found, pairs, merges)
    state.live = go_on(state.live, state.found.partner)
    matched = perf_counter()
    tail = _tail(state, pairs)
    partner = state.found.partner
    folding = Folding(state.code, state.arena, state.rows, before, state.field, partner, state.nearest, tail)
    length, mate = state.rows.length, partner[state.live]
    spans = team.spans(starts_of(length[state.live] + np.where(mate >= 0, length[mate], 0)))
    results = team.run(fold_rows, spans, folding, state.live)
    follow(partner, state.label, state.share)
    return RoundRecord(
        clusters,
        edges,
        pairs,
        nearest_updates=sum(updates for _, updates in results),
        match_seconds=matched - started,
        fold_seconds=perf_counter() - matched,
    )


def _tail(state: CertainState, pairs: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return for each slot that merges where the arena has room for its new row."""
    tail = np.full(len(state.label), -1)
    if state.in_place:
        return tail
    lower, upper = state.found.lower[:pairs], state.found.upper[:pairs]
    start, length = state.rows
    needed = starts_of(length[lower] + length[upper])
    held = np.concatenate((state.live, upper))
    end = int((start[held] + length[held]).max())
    if end + needed[-1] > len(state.arena.tie):
        end = close_gaps(state.arena, state.rows, held[np.argsort(start[held])])
    tail[lower] = end + needed[:-1]
    return tail
