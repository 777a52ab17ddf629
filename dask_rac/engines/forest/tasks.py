"""Single linkage out of core: Boruvka's rounds on shards, then the tree's edges sorted bucket by bucket.

There is always one row per node, which only loses edges, so nothing moves between shards:

1. `lighten` drops the inner edges of a shard, and writes what is left and the lightest edge of each component.
2. `join` lets these edges challenge each other, and writes the edges that win and the component of each node.
3. `unite_tree` turns the edges of the tree into merges, the lightest first, in as many parts as memory requires.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.base.names import COMPONENT, candidates_name, shard_name, tree_name
from dask_rac.base.spans import batches, even_cuts, starts_of
from dask_rac.engines.forest.state import (
    Candidates,
    ForestEdges,
    component_group,
    ends_of,
    list_candidates,
    no_edges,
    tree_groups,
    tree_order,
)
from dask_rac.engines.rows.packing import entry_columns, load_column, pack_weights, row_lengths, write_round
from dask_rac.engines.rows.receipts import Clock, Job, Receipt, fresh_name
from dask_rac.files.arrays import read_array, write_group
from dask_rac.files.folder import FileRecord, Folder
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.arrays import Ids, Rows, empty_merges, part
from dask_rac.kernels.forest import challenge, hook, lightest, unite
from dask_rac.kernels.rows.ingest import close_gaps
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.cache import forget_state, kept_vector
from dask_rac.tasks.scratch import begin_task, borrow, end_tasks, return_freed
from dask_rac.tasks.task_graph import TaskGraph


@dataclass(frozen=True)
class Lightened(Receipt):
    """A shard without its inner edges, and the edges that its rows propose."""

    shard: ShardRecord
    candidates: str
    disk: int
    """Bytes of the candidates."""


@dataclass(frozen=True)
class Joined(Receipt):
    """Components after a round."""

    live: int
    """Number of components that had an edge."""
    merges: int
    components: int
    component: str
    tree: str
    files: tuple[FileRecord, ...]


def lighten(job: Job, state: State, number: int) -> Lightened:
    """Drop the inner edges of a shard and find the lightest edge that each component has in it."""
    begin_task()
    clock, store, shard = Clock(), job.store, state.shards[number]
    with clock.phase("read"):
        component = component_of(job, state)
        rows = load_node_rows(job, state, shard)
        clock.count("read", [rows.neighbour, rows.weight])
    with clock.phase("fold"):
        best = borrow(shard.clusters, np.int64)
        rule = job.rule(state.round)
        lightest(rows, component, rule, rows, best, (0, shard.clusters, shard.first))
        _, candidates = list_candidates(rows, component, state.clusters, best, shard.first)
        entries = int(close_gaps(rows))
    with clock.phase("write"):
        columns = {"length": row_lengths(rows, job.ids), "neighbour": rows.neighbour[:entries]}
        columns |= pack_weights(rows.weight[:entries], borrow(entries, np.uint32), rows.tie)
        name, listed = fresh_name(job, shard_name(number)), fresh_name(job, candidates_name(number))
        files = write_group(store, name, columns)
        extra = write_group(store, listed, candidates._asdict())
        clock.count("write", [*columns.values(), *candidates])
    record = ShardRecord(name, shard.first, shard.clusters, entries, tuple(files))
    disk = sum(file.bytes for file in extra)
    return Lightened(record, listed, disk, seconds=clock.seconds, bytes=clock.bytes)


def join(job: Job, state: State, lightened: Sequence[Lightened]) -> Joined:
    """Give every component its lightest edge, and unite the components."""
    end_tasks()
    clock, store, ids = Clock(), job.store, np.dtype(job.ids)
    component = component_of(job, state).copy()
    held = no_edges(state.clusters, ids)
    for receipt in lightened:
        with clock.phase("read"):
            names = (f"{receipt.candidates}/{name}" for name in Candidates._fields)
            candidates = Candidates(*(read_array(store, name) for name in names))
        with clock.phase("route"):
            challenge(candidates, held)
    with clock.phase("fold"):
        live = int(np.count_nonzero(held.source >= 0))
        tree = ForestEdges(np.empty(live, ids), np.empty(live, ids), np.empty(live))
        merges, components = map(int, hook(held, component, tree))
    with clock.phase("write"):
        labels, edges = fresh_name(job, COMPONENT), save_tree(job, tree, merges, state.round + 1)
        files = write_group(store, labels, {"component": component})
    return Joined(
        live, merges, components, labels, edges[0], (*files, *edges[1]), seconds=clock.seconds, bytes=clock.bytes
    )


def save_tree(job: Job, tree: ForestEdges, edges: int, rounds: int | NDArray[np.int32]) -> tuple[str, list[FileRecord]]:
    """Write edges of the tree with the round that found each; return the group's name and its files."""
    when = np.broadcast_to(np.int32(rounds) if isinstance(rounds, int) else rounds, edges)
    columns = {name: column[:edges] for name, column in tree._asdict().items()}
    name = tree_name(job.attempt)
    return name, write_group(job.store, name, columns | {"round": np.ascontiguousarray(when)})


def unite_tree(job: Job, state: State, buckets: int) -> tuple[TableRecord, ...]:
    """Write the merges of the tree, whose edges are sorted in `buckets` parts."""
    forget_state()
    end_tasks()
    store, ids = job.store, np.dtype(job.ids)
    forest = np.arange(job.nodes, dtype=ids), np.ones(job.nodes, ids)
    tables: list[TableRecord] = []
    for low, high in _weight_ranges(store, tree_groups(state), buckets):
        tree, when = _load_tree(store, tree_groups(state), low, high)
        order = tree_order(tree)
        merges = empty_merges(len(order), ids)
        count = unite(order, tree, forest, merges)
        for first, last in batches(0, count, job.limits.part_merges):
            taken = order[first:last]
            ends = ends_of(tree, taken)
            tables.append(write_round(job, len(tables), part(merges, first, last), when[taken], ends))
        del tree, when, order, merges  # before the next ones are loaded
        return_freed()
    return tuple(tables)


def component_of(job: Job, state: State) -> Ids:
    """Return the component of each node; each process reads it once."""
    group = component_group(state)
    if not group:
        return kept_vector(("nodes", job.nodes, job.ids), lambda: np.arange(job.nodes, dtype=job.ids))
    name = f"{group}/component"
    return kept_vector((job.url, name), lambda: read_array(job.store, name))


def load_node_rows(job: Job, state: State, shard: ShardRecord) -> Rows:
    """Return the rows of a shard, with weights as float64."""
    store = job.store
    starts = starts_of(read_array(store, f"{shard.name}/length"))
    neighbour, weight = borrow(shard.entries, job.ids), borrow(shard.entries, np.float64)
    read_array(store, f"{shard.name}/neighbour", out=neighbour)
    if state.round:
        load_column(store, shard.name, "weight", entry_columns(shard), (0, shard.entries), weight)
    else:
        weight[:] = read_array(store, f"{shard.name}/weight")
    tie = borrow(shard.entries, np.uint16)
    return Rows(starts[:-1], starts[1:].copy(), neighbour, weight, np.empty(0, job.counts), tie)


def forest_record(round_: int, joined: Joined, entries: int, receipts: Sequence[Receipt]) -> RoundRecord:
    """Return the record of a round."""
    return RoundRecord(
        round=round_,
        clusters=joined.live,
        edges=entries // 2,
        merges=joined.merges,
        nearest_updates=joined.live,
        match_seconds=sum(joined.seconds.values()),
        fold_seconds=sum(sum(receipt.seconds.values()) for receipt in receipts),
    )


def _weight_ranges(store: Folder, names: Sequence[str], buckets: int) -> list[tuple[float, float]]:
    """Return ranges of weights with about the same number of edges; equal weights stay together."""
    if buckets == 1:
        return [(-np.inf, np.inf)]
    weights = np.concatenate([read_array(store, f"{name}/weight") for name in names])
    if not len(weights):
        return [(-np.inf, np.inf)]
    places = even_cuts(len(weights), buckets)
    weights.partition(places)
    cuts = np.unique(weights[places])
    ends = [-np.inf, *cuts.tolist(), np.inf]
    return list(pairwise(ends))


def _load_tree(store: Folder, names: Sequence[str], low: float, high: float) -> tuple[ForestEdges, NDArray[np.int32]]:
    """Read the tree's edges with weights in `[low, high)`, or `[low, inf]` if `high` is infinite, and their rounds."""
    parts = []
    for name in names:
        weight = read_array(store, f"{name}/weight")
        inside = (weight >= low) & ((weight < high) | (high == np.inf))
        source, target, when = (read_array(store, f"{name}/{key}")[inside] for key in ("source", "target", "round"))
        parts.append((source, target, weight[inside], when))
    source, target, weight, when = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    return ForestEdges(source, target, weight), when


def forest_graph(job: Job, state: State) -> TaskGraph:
    """One of Boruvka's rounds: lighten, join."""
    graph = TaskGraph(job.attempt)
    before = graph.constant(state, "state")
    lightened = [graph.add(lighten, job, before, k) for k in range(len(state.shards))]
    graph.add(join, job, before, lightened)
    return graph
