"""Sizes of shards, and the memory and disk of a run, before it starts: numbers in, numbers out."""

from __future__ import annotations

import math
from collections.abc import Callable

from dask_rac.base.errors import ResourceError
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.names import attempt_folder, shard_name, step_name
from dask_rac.base.settings import Settings
from dask_rac.base.text import at_least, size_text
from dask_rac.engines.contract import Expected, Limits, Sizes
from dask_rac.engines.rows.needs import (
    UNCOUNTED,
    EntrySizes,
    due_bytes,
    ending_bytes,
    rest_bytes,
    rest_fits,
    table_bytes,
)
from dask_rac.engines.rows.receipts import Job
from dask_rac.engines.rows.within import merges_within
from dask_rac.store.manifest import ShardRecord, State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.task_graph import TaskGraph

READ = 96  # bytes per row of the input that is decoded at a time: as Arrow holds it while it decodes, and as checked
MOVES = 0.1  # share of a state's bytes that have moved and are still on disk when the next state is nearly written
NODE_DISK = 80  # bytes per node for vectors and merges
COPIED = 4  # columns over all clusters that a round copies where there are many shards, two in the first round
FEW_SHARDS = 64  # far more shards than the data needs would give a run more tasks and files than work


def shard_entries(
    sizes: EntrySizes, nodes: int, edges: int, budget: Budget, shards: int | None, widest: int = 0
) -> int:
    """Return the load that a shard may have; raise if no number of shards would fit.

    The load is in entries; every row counts as some, too (`EntrySizes.load`). `widest` is the length of the longest
    row, where it is known.
    """
    vectors, load = sizes.vectors(budget.threads) * nodes, sizes.load(nodes, 2 * edges)
    task = (budget.process - vectors) / budget.threads
    if task < 0.2 * budget.process / budget.threads or sizes.join * nodes > budget.process:
        shards_share = budget.threads * sizes.task(load) / FEW_SHARDS
        needed = budget.processes * max(vectors / 0.8, vectors + shards_share, sizes.join * nodes)
        each = "" if budget.processes == 1 else f" in each of {budget.processes} processes"
        raise ResourceError(
            f"{nodes:,} nodes need {size_text(max(vectors, sizes.join * nodes))}{each} before any edge, and the budget "
            f"is {size_text(budget.memory)}: set memory='{at_least(needed)}' or more, or number the nodes 0, 1, 2, ... "
            "if ids have gaps"
        )
    table = table_bytes(sizes, widest)
    if table > UNCOUNTED:
        _check_widest(sizes, nodes, edges, widest, budget)
        task -= table / budget.threads
    room = max(1, int(task / sizes.task(1)))
    if shards is None:
        return room
    share = max(1, -(-load // shards))
    if share > room:
        raise ResourceError(
            f"{shards} shards of {-(-2 * edges // shards):,} entries need {size_text(sizes.task(share))} per task, and "
            f"a task may use {size_text(task)}: set shards={-(-load // room)} or more, or a larger memory="
        )
    return share


def planned_shards(sizes: EntrySizes, nodes: int, edges: int, room: int, budget: Budget | None) -> int:
    """Return how many shards of such a load there are, with a budget as many as its threads can share evenly."""
    shards = max(1, -(-sizes.load(nodes, 2 * edges) // room))
    return budget.evened(shards) if budget else shards


def _check_widest(sizes: EntrySizes, nodes: int, edges: int, widest: int, budget: Budget) -> None:
    """Raise unless the longest row can be folded."""
    held = sizes.vectors(budget.threads) * nodes + table_bytes(sizes, widest)
    needed = held + int(budget.threads * sizes.task(widest))
    if needed <= budget.process + UNCOUNTED:
        return
    rest = rest_bytes(sizes, nodes, 2 * edges) + table_bytes(sizes, widest)
    whole = max(rest, ending_bytes(sizes, nodes, 2 * edges))
    if whole <= 2 * needed:  # rounds on a graph that is nearly all one row would hardly merge anything
        needed = max(needed, whole)
    raise ResourceError(
        f"a node, or a few with successive ids, has {widest:,} edges, which need {size_text(needed)} together with the "
        f"vectors over all nodes, and the budget is {size_text(budget.memory)}: set "
        f"memory='{at_least(budget.processes * needed)}' or more"
    )


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
    check_reading(given.whole_rows, budget)
    room = shard_entries(sizes, nodes, rows, budget, asked)
    load = sizes.load(nodes, 2 * rows)
    shards = planned_shards(sizes, nodes, rows, room, budget if asked is None else None)
    if asked is None and rest_fits(sizes, nodes, 2 * rows, budget):
        memory = rest_bytes(sizes, nodes, 2 * rows)
    else:
        memory = projected_memory(sizes, nodes, min(room, load), shards, budget)
    ids = cluster_id_dtype(nodes).name
    job = Job(".", settings, nodes, ids, ids, given.weights, attempt_folder(step_name(1)), room)
    first = attempt_folder(step_name(0))
    parts = tuple(ShardRecord(f"{first}/{shard_name(k)}", 0, nodes, 2 * rows, ()) for k in range(shards))
    graph = first_round(job, State(0, nodes, parts))
    vectors = max(sizes.vectors(budget.threads), sizes.join) * nodes
    due = due_bytes(sizes, merges_within(settings), nodes, 2 * rows)
    return Sizes(
        shards,
        sizes.entry * -(-load // shards),
        memory,
        projected_disk(sizes, nodes, rows, shards, Limits()),
        graph,
        vectors,
        ending=0 if sizes.forest or not settings.finisher else budget.processes * due,
    )


def expected_shards(sizes: EntrySizes, edges: int, budget: Budget, asked: int | None) -> int:
    """Return about how many shards there will be, before it is known how many nodes there are."""
    return max(math.ceil(budget.threads * sizes.task(2 * edges) / max(1, budget.process)), asked or 0)


def check_reading(whole_rows: int, budget: Budget) -> None:
    """Raise if rows of the input that can only be decoded together do not fit."""
    needed = READ * whole_rows
    if needed * budget.threads > budget.process + UNCOUNTED:
        memory = at_least(budget.processes * budget.threads * needed)
        raise ResourceError(
            f"chunks of {whole_rows:,} edges need {size_text(needed)} in each of {budget.threads} threads to be "
            f"decoded, and the budget is {size_text(budget.memory)}: set memory='{memory}' or more, or write smaller "
            "chunks"
        )


def batch_rows(budget: Budget, limits: Limits) -> int:
    """Return the rows of the input that one task may decode at a time: half of what it may hold."""
    return max(1, min(limits.batch_rows, budget.process // (2 * READ * budget.threads)))


def unit_rows(sizes: EntrySizes, budget: Budget, limits: Limits) -> int:
    """Return the rows of the input that one task may hold, in two copies, in the other half."""
    task = budget.process // (2 * budget.threads)
    return max(1, min(limits.unit_rows, int(task / (2.5 * (2 * sizes.ids + sizes.weight)))))


def projected_disk(sizes: EntrySizes, nodes: int, edges: int, shards: int, limits: Limits) -> int:
    """Return the bytes that a store usually takes at its peak; small states are kept longer than they are needed."""
    routed = edges * (2 * sizes.ids + sizes.weight)
    first = 2 * edges * (sizes.ids + sizes.weight)
    second = int(2 * edges * sizes.packed)
    copied = COPIED * sizes.ids * nodes if shards > limits.direct_shards and not sizes.forest else 0
    rounds = max(int(first * (1 + MOVES)) + second, min(first + 3 * second, limits.small_states)) + copied
    return max(routed + first, rounds) + NODE_DISK * nodes


def projected_memory(sizes: EntrySizes, nodes: int, load: int, shards: int, budget: Budget) -> int:
    """Return the bytes of arrays that all processes hold at the peak, for shards of this load."""
    tasks = min(budget.threads, -(-shards // budget.processes)) * int(sizes.task(load))
    return budget.processes * max(sizes.vectors(budget.threads) * nodes + tasks, sizes.join * nodes)
