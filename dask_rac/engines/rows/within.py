"""Within a factor 1 + epsilon: exact rounds as long as each merges many, then good merges, one after the other."""

from __future__ import annotations

from dataclasses import replace
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.rows.in_memory import Ending, Start, merge_room, merge_rounds
from dask_rac.engines.rows.round import reciprocal_round
from dask_rac.engines.rows.state import Shard
from dask_rac.kernels.arrays import Merges, Rule, part
from dask_rac.kernels.rows.good import begin_chains, merge_good
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.tasks.team import Team

LEAST = 2.0**-30
"""Below this rounding decides whether a merge is good, and all are exact instead."""


def merges_within(settings: Settings) -> bool:
    """Whether merges need not be the nearest."""
    return settings.epsilon >= LEAST


def ending_of(settings: Settings) -> Ending:
    """Return how everything that is left in memory merges."""
    return merge_within if merges_within(settings) else merge_rounds


def merge_within(start: Start, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
    """Run rounds of reciprocal pairs, then good merges."""
    shard, rule = start.shard, start.rule
    assert shard is not None
    start.shard = None
    n = len(shard.clusters.ids)
    nodes = start.nodes or n
    at_once = settings.finisher and bool(start.round) and not start.pays
    # By id, as rounds raise them; good merges need them for clusters only.
    tops = np.full(0 if at_once else nodes, -np.inf)
    if start.top is not None and not at_once:
        tops[shard.clusters.ids] = start.top
    merges, when = merge_room(n, shard.clusters.ids.dtype)
    ratio = np.ones(n)
    records: list[RoundRecord] = []
    merged, ends, paying = 0, False, start.pays
    while not ends:
        rest = part(merges, merged, None)
        # Good merges overwrite the rows, which are the user's until a round has written others.
        ends = settings.finisher and bool(records or start.round) and not paying
        if ends:
            report(Event("finisher", nodes, start.merged + merged))
            start.space.release()
            top = start.top if at_once and start.top is not None else tops[shard.clusters.ids]
            record = good_round(shard, rule, (settings, nodes), rest, ratio[merged:], top)
        else:
            after, record = reciprocal_round(shard, rule, start.space, team, rest)
            if after is None:
                break
            shard, rule = after, rule._replace(scale=1.0)
            done = part(rest, None, record.merges)
            raise_heights(done.left, done.right, done.height, tops)
        if not record.merges:
            break
        number = start.round + len(records) + 1
        records.append(replace(record, round=number, nearest_seconds=0.0 if records else start.nearest_seconds))
        when[merged : merged + record.merges] = number
        merged += record.merges
        paying = record.merges >= limits.good_share * record.clusters
        report(Event("round", nodes, start.merged + merged, records[-1]))
    return MergeList(nodes, part(merges, None, merged), when[:merged], records, ratio=ratio[:merged])


def good_round(
    shard: Shard,
    rule: Rule,
    given: tuple[Settings, int],
    merges: Merges,
    ratio: NDArray[np.float64],
    top: NDArray[np.float64],
) -> RoundRecord:
    """Merge all that is left by good merges; the rows of the shard are overwritten.

    `given` are the settings and how many nodes there are; `top` are the heights of the last merges.
    """
    started = perf_counter()
    settings, nodes = given
    ids, size, nearest, height = shard.clusters
    edges, live = shard.entries // 2, int(np.count_nonzero(nearest >= 0))
    clusters = ids.copy(), size, height, top
    terms = settings.epsilon, settings.sign < 0, nodes
    merged = merge_good(shard.rows, clusters, begin_chains(shard.rows, size), rule, terms, (merges, ratio))
    seconds = perf_counter() - started
    return RoundRecord(clusters=live, edges=edges, merges=merged, finish_seconds=seconds, finisher=True)
