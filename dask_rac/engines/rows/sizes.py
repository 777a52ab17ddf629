"""Sizes of shards, and the memory and disk of a run, before it starts: numbers in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dask_rac.base.errors import ResourceError
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.names import attempt_folder, shard_name, step_name
from dask_rac.base.settings import Settings
from dask_rac.base.text import size_text
from dask_rac.engines.contract import Expected, Limits, Sizes
from dask_rac.engines.linkage import needs_counts, rule_of
from dask_rac.engines.rows.receipts import Job
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.task_graph import TaskGraph

VECTORS = 7  # over all clusters, at most, in each process: nearest, fates (2), ids and sizes before and after
COPIES = 2.2  # of a shard's entries that its fold holds: as read and as written, plus some for uneven rows
REST_COPIES = 2.1  # of all entries held by rounds in memory
REST_VECTORS = 90  # bytes per cluster that rounds in memory hold in addition
FINISHER_BYTES = 190  # per edge
MOVES = 0.1  # share of a state's bytes that have moved and are still on disk when the next state is nearly written
NODE_DISK = 80  # bytes per node for vectors and merges
SHRINKS = 0.8  # share of the entries that a round usually leaves
FEW_SHARDS = 64  # far more shards than the data needs would give a run more tasks and files than work


@dataclass(frozen=True)
class EntrySizes:
    """Bytes of the things that a run holds."""

    ids: int
    weight: int
    """As given in the input."""
    entry: int
    """An entry of a folded row in memory."""
    packed: float
    """Bytes on disk after the first round, per entry before it."""

    @classmethod
    def of(cls, settings: Settings, nodes: int, edges: int, weights: str) -> EntrySizes:
        """For a graph of this size."""
        ids = cluster_id_dtype(nodes).itemsize
        counts = cluster_id_dtype(max(nodes, 2 * edges)).itemsize if needs_counts(rule_of(settings)) else 0
        weight = 6 if weights == "float32" else 8  # the lowest bits of sums of float32 are zero
        if settings.linkage == "single":  # rows are never folded and lose only some edges in the first round
            return cls(ids, np.dtype(weights).itemsize, ids + 8 + 2, ids + weight)
        packed = SHRINKS * (ids + weight + 2 + (counts > 0))
        return cls(ids, np.dtype(weights).itemsize, ids + 8 + 2 + counts, packed)


def shard_entries(sizes: EntrySizes, nodes: int, edges: int, budget: Budget, shards: int | None) -> int:
    """Return the entries that a shard may have; raise if no number of shards would fit."""
    vectors = VECTORS * sizes.ids * nodes
    task = (budget.process - vectors) / budget.threads
    if task < 0.2 * budget.process / budget.threads:
        shards_share = budget.threads * COPIES * sizes.entry * 2 * edges / FEW_SHARDS
        needed = budget.processes * max(vectors / 0.8, vectors + shards_share)
        each = "" if budget.processes == 1 else f" in each of {budget.processes} processes"
        raise ResourceError(
            f"{nodes:,} nodes need {size_text(vectors)}{each} before any edge, and the budget is "
            f"{size_text(budget.memory)}: set memory='{_at_least(needed)}' or more, or number the nodes 0, 1, 2, ... "
            "if ids have gaps"
        )
    room = max(1, int(task / (COPIES * sizes.entry)))
    if shards is None:
        return room
    entries = max(1, -(-2 * edges // shards))
    if entries > room:
        needed = -(-2 * edges // room)
        raise ResourceError(
            f"{shards} shards of {entries:,} entries need {size_text(entries * COPIES * sizes.entry)} per task, and a "
            f"task may use {size_text(task)}: set shards={needed} or more, or a larger memory="
        )
    return entries


def project(
    given: Expected,
    settings: Settings,
    asked: int | None,
    budget: Budget,
    first_round: Callable[[Job, State], TaskGraph],
) -> Sizes:
    """What a run on edges of this size would take; `asked` is the number of shards that the user wants, if any."""
    nodes, rows = given.nodes, given.rows
    sizes = EntrySizes.of(settings, nodes, rows, given.weights)
    room = shard_entries(sizes, nodes, rows, budget, asked)
    if asked is None and rest_fits(sizes, nodes, 2 * rows, budget):
        shards, entries = 1, 2 * rows
        memory = int(REST_COPIES * sizes.entry * entries) + REST_VECTORS * nodes
    else:
        shards, entries = max(1, -(-2 * rows // room)), min(room, 2 * rows)
        memory = projected_memory(sizes, nodes, entries, budget)
    ids = cluster_id_dtype(nodes).name
    job = Job(".", settings, nodes, ids, ids, given.weights, attempt_folder(step_name(1)), room)
    first = attempt_folder(step_name(0))
    parts = tuple(ShardRecord(f"{first}/{shard_name(k)}", 0, nodes, 2 * rows, ()) for k in range(shards))
    graph = first_round(job, State(0, nodes, parts))
    return Sizes(shards, sizes.entry * entries, memory, projected_disk(sizes, nodes, rows), graph)


def unit_rows(sizes: EntrySizes, nodes: int, budget: Budget, limits: Limits) -> int:
    """Return the rows of the input that one task may hold."""
    task = (budget.process - VECTORS * sizes.ids * nodes) / budget.threads
    return max(1, min(limits.unit_rows, int(task / (2.5 * (2 * sizes.ids + sizes.weight)))))


def rest_fits(sizes: EntrySizes, clusters: int, entries: int, budget: Budget) -> bool:
    """Whether the remaining rounds can run in the memory of one process."""
    return REST_COPIES * sizes.entry * entries + REST_VECTORS * clusters <= budget.process


def finisher_room(budget: Budget) -> int:
    """Return the most edges that the finisher has room for."""
    return budget.process // FINISHER_BYTES


def projected_disk(sizes: EntrySizes, nodes: int, edges: int, small: int = Limits.small_states) -> int:
    """Return the bytes that a store usually takes at its peak; `small` states are kept longer than they are needed."""
    routed = edges * (2 * sizes.ids + sizes.weight)
    first = 2 * edges * (sizes.ids + sizes.weight)
    second = int(2 * edges * sizes.packed)
    return max(routed + first, int(first * (1 + MOVES)) + second, min(first + 3 * second, small)) + NODE_DISK * nodes


def projected_memory(sizes: EntrySizes, nodes: int, entries: int, budget: Budget) -> int:
    """Return the bytes of arrays that all processes hold at the peak, for shards with `entries` entries."""
    task = int(COPIES * sizes.entry * entries)
    return budget.processes * (VECTORS * sizes.ids * nodes + budget.threads * task)


def _at_least(size: float) -> str:
    """Format bytes the way a user would write them, rounded up."""
    unit, name = (1e9, "GB") if size >= 1e9 else (1e6, "MB")
    return f"{math.ceil(10 * size / unit) / 10:g}{name}"
