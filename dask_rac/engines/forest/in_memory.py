"""Boruvka's rounds in memory, then the forest's edges from the lightest to the heaviest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.engines.contract import MergeList
from dask_rac.engines.forest.round import Components, boruvka_round
from dask_rac.engines.forest.state import ForestEdges, ends_of, tree_order
from dask_rac.engines.linkage import rule_of
from dask_rac.engines.rows.in_memory import merge_room
from dask_rac.engines.rows.load import Graph
from dask_rac.kernels.arrays import Rows, Rule, part
from dask_rac.kernels.forest import unite
from dask_rac.tasks.team import Team


def span_forest(graph: Graph, settings: Settings, team: Team, report: Listener) -> MergeList:
    """Run single linkage: Boruvka's rounds, then the forest's edges from the lightest to the heaviest."""
    rows = graph.rows
    n, ids = len(rows.start), rows.neighbour.dtype
    rule = rule_of(settings)
    state = Components(rows, np.arange(n, dtype=ids), n)
    kept = rows._replace(
        stop=np.empty_like(rows.stop), neighbour=np.empty_like(rows.neighbour), weight=np.empty_like(rows.weight)
    )
    tree, when, records = boruvka_rounds(state, kept, rule, team, report, 0)
    order = tree_order(tree)
    merges = part(merge_room(n, ids)[0], None, len(when))
    unite(order, tree, (np.arange(n, dtype=ids), np.ones(n, ids)), merges)
    found = MergeList(n, merges, when[order], records, graph.loops, graph.largest, graph.first)
    return replace(found, ends=ends_of(tree, order))


def boruvka_rounds(
    state: Components, kept: Rows, rule: Rule, team: Team, report: Listener, round_: int
) -> tuple[ForestEdges, NDArray[np.int32], list[RoundRecord]]:
    """Run rounds until no component has an edge left; return the edges of the tree, the round of each, and the records.

    `kept` has room for the edges that remain, and may be the state's own rows; `round_` rounds were completed before.
    """
    n, ids, count = len(state.label), state.label.dtype, state.count
    tree, when = ForestEdges(np.empty(count, ids), np.empty(count, ids), np.empty(count)), np.empty(count, np.int32)
    records: list[RoundRecord] = []
    merged = 0
    while True:
        rest = part(tree, merged, None)
        state, record = boruvka_round(state, kept, rule, team, rest)
        if not record.merges:
            return part(tree, None, merged), when[:merged], records
        rule = rule._replace(scale=1.0)
        record = replace(record, round=round_ + len(records) + 1)
        records.append(record)
        when[merged : merged + record.merges] = record.round
        merged += record.merges
        report(Event("round", n, n - count + merged, record))
