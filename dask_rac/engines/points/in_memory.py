"""All pairs of vectors from centroids, in memory: lists of near clusters at first, then rounds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from time import perf_counter

import numpy as np

from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.near import NearPairs, near_in_memory
from dask_rac.engines.points.needs import refuse_large
from dask_rac.engines.points.round import first_nearest, points_round
from dask_rac.engines.points.state import Points, first_points
from dask_rac.engines.start import Start
from dask_rac.kernels.arrays import empty_merges, part
from dask_rac.kernels.points.lists import first_bounds, take_pairs
from dask_rac.kernels.points.weights import PRODUCTS, WARD
from dask_rac.tasks.team import Team
from dask_rac.vectors.graph.request import Request, checked_request
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

NO_PAIRS = NearPairs(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))


def merge_points(  # noqa: PLR0913, PLR0917 - what all engines for pairs are given
    pairs: VectorPairs, start: Start, memory: int, settings: Settings, team: Team, report: Listener, limits: Limits
) -> MergeList:
    """Cluster all pairs of vectors, one for each cluster of the start."""
    refuse_large(pairs.source, memory, team.threads, limits)
    asked = near_asked(pairs.nodes, limits)
    if asked:
        near = near_in_memory(pairs.source, near_request(pairs, asked), memory, team, report)
    else:
        near = NO_PAIRS
        pairs.check(team, report)
    started = perf_counter()
    points = points_of(pairs, start, near, settings, limits, asked)
    del near
    report(Event("rounds", start.nodes))
    first_nearest(points, ceiling_of(settings), team, limits)
    seconds = perf_counter() - started
    found = merge_rounds(points, settings, team, report, limits)
    if found.records:
        first = replace(found.records[0], nearest_seconds=seconds)
        found = replace(found, records=[first, *found.records[1:]])
    return found


def near_asked(clusters: int, limits: Limits) -> int:
    """Return how many neighbours of each vector the first lists are taken from; 0 to look for them among all."""
    return 0 if clusters <= max(1, limits.alike) else min(limits.near, limits.lists, clusters - 1)


def near_request(pairs: VectorPairs, asked: int) -> Request:
    """Return the graph from which the first lists are taken."""
    return checked_request("knn", pairs.metric.name, k=asked)


def points_of(
    pairs: VectorPairs, start: Start, near: NearPairs, settings: Settings, limits: Limits, asked: int
) -> Points:
    """Return the clusters of a start, listed the nearest `asked` of each vector; the last of these sets the bound."""
    points = first_points(pairs.source, start, settings, limits)
    if not asked:
        return points
    code, centroids, _, _, lists, _ = points.state
    weight = np.empty((points.slots, min(asked, lists.entry.shape[1])))
    signed = near._replace(weight=-near.weight) if code == PRODUCTS else near
    take_pairs(signed, lists.entry, weight, lists.length)
    first_bounds(code, centroids.size, weight, lists.length, lists.bound)
    return points


def merge_rounds(
    points: Points,
    settings: Settings,
    team: Team,
    report: Listener,
    limits: Limits,
    goes_on: Callable[[], bool] = lambda: True,
) -> MergeList:
    """Run rounds until no pair is left, or at least one, and as long as it `goes_on`."""
    nodes, ceiling = len(points.state.groups.after), ceiling_of(settings)
    before = nodes - points.live
    merges, when = empty_merges(points.live, np.dtype(np.int64)), np.empty(points.live, np.int32)
    records: list[RoundRecord] = []
    merged = 0
    while not records or goes_on():
        record = points_round(points, ceiling, team, limits, part(merges, merged, None))
        if record is None:
            points.ended = True
            break
        records.append(replace(record, round=points.rounds))
        when[merged : merged + record.merges] = points.rounds
        merged += record.merges
        report(Event("round", nodes, before + merged, records[-1]))
    found = part(merges, None, merged)
    if points.state.code == WARD:
        np.sqrt(found.height, out=found.height)
    return MergeList(nodes, found, when[:merged], records)


def ceiling_of(settings: Settings) -> float:
    """Return the largest W of a merge: for ward heights are roots."""
    height = settings.sign * settings.max_height
    return height * abs(height) if settings.linkage == "ward" else height
