"""The loop: rounds until nothing is left to merge, the finisher where rounds stop paying."""

import math
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter

import dask
import numpy as np
import scipy.sparse as sp
from dask.system import CPU_COUNT
from distributed.system import MEMORY_LIMIT
from numpy.typing import NDArray

from dask_rac.config import HAND_OVER, Event, Progress, RoundRecord, Settings, checked_settings
from dask_rac.edges import Graph, load_graph
from dask_rac.errors import InputError
from dask_rac.kernels.arrays import Merges, Rows, Rule, part
from dask_rac.kernels.forest import unite
from dask_rac.kernels.tree import raise_heights
from dask_rac.rounds import Components, boruvka_round, finisher_round, reciprocal_round
from dask_rac.shard import Shard, Space, Team, Tree, first_shard, needs_counts, rule_of, tree_order


@dataclass(frozen=True)
class Outcome:
    """What a run found: its merges, the round of each, and a record of every round."""

    merges: Merges
    round: NDArray[np.int32]
    records: list[RoundRecord]


@dataclass(frozen=True)
class Start:
    """Where rounds in memory begin: at single nodes, or where rounds out of core have led."""

    shard: Shard
    space: Space
    rule: Rule
    round: int = 0
    """Rounds done before."""
    merged: int = 0
    """Merges done before."""
    nodes: int = 0
    """Nodes of the graph, where they are more than the clusters."""
    pays: bool = True
    """Whether the last round merged enough for another one."""
    finisher_edges: float = math.inf
    """The most edges for which the finisher has room; above, rounds go on."""
    nearest_seconds: float = 0.0
    """What finding the first nearest took."""


def new_team() -> Team:
    """Threads by Dask's own setting `num_workers`, else all that this process may use."""
    threads = dask.config.get("num_workers", None) or CPU_COUNT
    if not isinstance(threads, int) or threads < 1:
        raise InputError(f"Dask's setting num_workers={threads!r} is not a number of threads: use 1 or more")
    return Team(threads)


def memory_limit() -> int:
    """Bytes that this process may use."""
    return int(MEMORY_LIMIT)


@cache
def compile_kernels(ids: str) -> float:
    """Have every kernel compiled for this dtype of ids, or loaded from the cache; returns the seconds it took."""
    started = perf_counter()
    edges = np.arange(4), np.arange(1, 5), np.arange(1.0, 5.0)
    forms = edges, sp.csr_array((edges[2], edges[:2]), shape=(5, 5))
    with Team(1) as team:
        for linkage, missing in (("single", "ignore"), ("average", "ignore"), ("average", 0.0)):
            settings = checked_settings(linkage, missing, "similarity", None, "error", True)
            for form in (*forms, forms[1] + forms[1].T):
                graph = load_graph(form, None, settings, team, memory_limit())
                rows = graph.rows._replace(
                    neighbour=graph.rows.neighbour.astype(ids), edges=graph.rows.edges.astype(ids)
                )
                run(replace(graph, rows=rows), settings, team, lambda _: None, hand_over=2.0)
    return perf_counter() - started


def run(graph: Graph, settings: Settings, team: Team, report: Progress, hand_over: float | None = None) -> Outcome:
    """Cluster the nodes of `graph`, whose spare arrays are used up."""
    if settings.linkage == "single":
        outcome = _span_forest(graph.rows, settings, team, report)
    else:
        outcome = _merge_nodes(graph, settings, team, report, HAND_OVER if hand_over is None else hand_over)
    merges = outcome.merges
    raise_heights(merges.left, merges.right, merges.height, np.full(len(graph.rows.start), -np.inf))
    merges.height[:] = settings.sign * merges.height + 0.0  # no minus zero
    return outcome


def _merge_nodes(graph: Graph, settings: Settings, team: Team, report: Progress, hand_over: float) -> Outcome:
    """Average and complete linkage, from single nodes on."""
    rule = rule_of(settings)
    space = Space(graph.rows, graph.spare, needs_counts(rule))
    started = perf_counter()
    shard = first_shard(space, rule, team)
    start = Start(shard, space, rule, nearest_seconds=perf_counter() - started)
    return merge_rounds(start, settings, team, report, hand_over)


def merge_rounds(start: Start, settings: Settings, team: Team, report: Progress, hand_over: float) -> Outcome:
    """Rounds of reciprocal pairs, then the finisher."""
    shard, rule, pays = start.shard, start.rule, start.pays
    n = len(shard.clusters.ids)
    merges, when = _room(n, shard.clusters.ids.dtype)
    records: list[RoundRecord] = []
    found = 0
    while True:
        rest = part(merges, found, None)
        due = settings.finisher and not pays
        if due and shard.entries // 2 <= start.finisher_edges:
            report(Event("finisher", start.nodes or n, start.merged + found))
            record = finisher_round(shard, rule, rest)
            if not record.merges:
                break
        else:
            after, record = reciprocal_round(shard, rule, start.space, team, rest)
            if after is None:
                break
            shard, record = after, replace(record, deferred=due)
        rule = rule._replace(scale=1.0)
        number = start.round + len(records) + 1
        record = replace(record, round=number, nearest_seconds=0.0 if records else start.nearest_seconds)
        records.append(record)
        when[found : found + record.merges] = record.round
        found += record.merges
        report(Event("round", start.nodes or n, start.merged + found, record))
        if record.finisher:
            break
        pays = record.merges >= hand_over * record.clusters
    return Outcome(part(merges, None, found), when[:found], records)


def _span_forest(rows: Rows, settings: Settings, team: Team, report: Progress) -> Outcome:
    """Single linkage: Boruvka's rounds, then the forest's edges from the lightest to the heaviest."""
    n, ids = len(rows.start), rows.neighbour.dtype
    rule = rule_of(settings)
    state = Components(rows, np.arange(n, dtype=ids), n)
    kept = rows._replace(
        stop=np.empty_like(rows.stop), neighbour=np.empty_like(rows.neighbour), weight=np.empty_like(rows.weight)
    )
    tree, when, records = boruvka_rounds(state, kept, rule, team, report, 0)
    order = tree_order(tree)
    merges = part(_room(n, ids)[0], None, len(when))
    unite(order, tree, (np.arange(n, dtype=ids), np.ones(n, ids)), merges)
    return Outcome(merges, when[order], records)


def boruvka_rounds(
    state: Components, kept: Rows, rule: Rule, team: Team, report: Progress, round_: int
) -> tuple[Tree, NDArray[np.int32], list[RoundRecord]]:
    """Rounds until no component has an edge left: the edges of the tree, the round of each, the records.

    `kept` has room for the edges that stay, and may be the state's own rows; `round_` rounds were done before.
    """
    n, ids, count = len(state.label), state.label.dtype, state.count
    tree, when = Tree(np.empty(count, ids), np.empty(count, ids), np.empty(count)), np.empty(count, np.int32)
    records: list[RoundRecord] = []
    found = 0
    while True:
        rest = part(tree, found, None)
        state, record = boruvka_round(state, kept, rule, team, rest)
        if not record.merges:
            return part(tree, None, found), when[:found], records
        rule = rule._replace(scale=1.0)
        record = replace(record, round=round_ + len(records) + 1)
        records.append(record)
        when[found : found + record.merges] = record.round
        found += record.merges
        report(Event("round", n, n - count + found, record))


def _room(n: int, ids: np.dtype[np.signedinteger]) -> tuple[Merges, NDArray[np.int32]]:
    """Room for the merges of `n` nodes, and for the round of each."""
    return Merges(np.empty(n, ids), np.empty(n, ids), np.empty(n), np.empty(n, ids)), np.empty(n, np.int32)
