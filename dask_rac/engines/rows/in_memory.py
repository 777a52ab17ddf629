"""Rounds of reciprocal pairs in memory, the finisher where rounds stop paying."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.linkage import needs_counts, rule_of
from dask_rac.engines.rows.load import Graph
from dask_rac.engines.rows.pace import pays, stalls
from dask_rac.engines.rows.round import finisher_round, list_links, reciprocal_round
from dask_rac.engines.rows.state import Shard, Space, first_shard
from dask_rac.kernels.arrays import Merges, Rule, empty_merges, part
from dask_rac.tasks.scratch import return_freed
from dask_rac.tasks.team import Team

NOTICED = 2**16  # edges: returning what was freed takes milliseconds, which a small graph would feel


@dataclass
class Start:
    """Where rounds in memory begin: at single nodes, or after rounds out of core."""

    shard: Shard | None
    """What they begin with; they take it away, so that its memory is free once it is used up."""
    space: Space
    rule: Rule
    round: int = 0
    """Rounds completed before."""
    merged: int = 0
    """Merges completed before."""
    nodes: int = 0
    """Nodes of the graph, if there are more of them than clusters."""
    pays: bool = True
    """Whether the last round merged enough to make another one worthwhile."""
    finisher_edges: float = math.inf
    """The most edges for which the finisher has room; with more, rounds continue."""
    nearest_seconds: float = 0.0
    """Time it took to find the first nearest."""
    top: NDArray[np.float64] | None = None
    """The height of each cluster's last merge; None for nodes."""


Ending = Callable[[Start, Settings, Team, Listener, Limits], MergeList]
"""How everything that is left merges."""


def merge_nodes(
    graph: Graph, settings: Settings, team: Team, report: Listener, limits: Limits, merge: Ending
) -> MergeList:
    """Average, complete and weighted linkage, from single nodes on."""
    rule = rule_of(settings)
    space = Space(graph.take_rows(), graph.spare, needs_counts(settings))
    started = perf_counter()
    start = Start(first_shard(space, rule, team), space, rule)
    start.nearest_seconds = perf_counter() - started
    found = merge(start, settings, team, report, limits)
    return replace(found, loops=graph.loops, largest=graph.largest, first=graph.first)


def merge_rounds(start: Start, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
    """Run rounds of reciprocal pairs, then the finisher."""
    shard, rule, worth = start.shard, start.rule, start.pays
    assert shard is not None
    start.shard = None
    n = len(shard.clusters.ids)
    merges, when = merge_room(n, shard.clusters.ids.dtype)
    records: list[RoundRecord] = []
    merged = 0
    while True:
        rest = part(merges, merged, None)
        due = settings.finisher and not worth
        edges = shard.entries // 2
        if due and stalls(records, edges, start.finisher_edges):
            return MergeList(start.nodes or n, part(merges, None, merged), when[:merged], records, stalled=edges)
        if due and edges <= start.finisher_edges:
            report(Event("finisher", start.nodes or n, start.merged + merged))
            start.space.release()
            links, clusters = list_links(shard, rule), shard.clusters
            del shard  # and its rows: they take as much as the edges of the finisher
            if edges > NOTICED:
                return_freed()
            record = finisher_round(clusters, links, rule, rest, team)
            if not record.merges:
                break
        else:
            after, record = reciprocal_round(shard, rule, start.space, team, rest)
            if after is None:
                break
            shard, after, record = after, None, replace(record, deferred=due)
        rule = rule._replace(scale=1.0)
        number = start.round + len(records) + 1
        record = replace(record, round=number, nearest_seconds=0.0 if records else start.nearest_seconds)
        records.append(record)
        when[merged : merged + record.merges] = record.round
        merged += record.merges
        report(Event("round", start.nodes or n, start.merged + merged, record))
        if record.finisher:
            break
        worth = pays(record, shard.entries // 2, limits.hand_over)
    return MergeList(start.nodes or n, part(merges, None, merged), when[:merged], records)


def merge_room(n: int, ids: np.dtype[np.signedinteger]) -> tuple[Merges, NDArray[np.int32]]:
    """Return room for the merges of `n` nodes, and for the round of each."""
    return empty_merges(n, ids), np.empty(n, np.int32)
