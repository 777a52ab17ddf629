"""The exchange between many shards: rows go to a group of new shards, and are sorted there by shard.

`split` writes a piece for each group. `gather` reads the pieces that a batch of shards has written for one group, and
writes a piece for each shard of the group; so a shard reads from as many files as there are batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.names import gathered_name
from dask_rac.base.spans import starts_of, steps_of
from dask_rac.engines.rows.groups import Groups
from dask_rac.engines.rows.leaving import write_moved
from dask_rac.engines.rows.receipts import Arrival, Borders, Clock, Gathered, Job, Moved, arrivals
from dask_rac.engines.rows.table import arrival_reads
from dask_rac.files.buffers import REQUEST
from dask_rac.files.readers import read_all
from dask_rac.kernels.rows import move
from dask_rac.store.manifest import State
from dask_rac.tasks.scratch import begin_task, borrow
from dask_rac.tasks.task_graph import Task, TaskGraph

Take = Callable[[Task, tuple[int, int]], Task]
"""Adds the task that sorts what a batch of shards has sent to a group; they are numbered."""


def exchange(graph: TaskGraph, groups: Groups, sent: Sequence[Task], take: Take, name: str) -> list[Task]:
    """Add the tasks by which what was sent to groups goes on to their shards; return what arrives at each group."""
    batches = [graph.gather(sent[first:stop], name) for first, stop in groups.batches(len(sent))]
    return [
        graph.gather([take(batch, (group, number)) for number, batch in enumerate(batches)], "arrived")
        for group in range(groups.count)
    ]


def gather(
    job: Job, state: State, places: Borders, groups: Groups, sent: Sequence[Moved | None], which: tuple[int, int]
) -> Gathered | None:
    """Sort the rows that a batch of shards has sent to a group by the new shards of the group."""
    group, batch = which
    first, stop = groups.span(group)
    arrived = [] if places.idle else arrivals(sent, group)
    if not arrived:
        return None
    begin_task()
    cuts = np.array(places.places[first : min(stop, len(places.entries)) + 1])
    steps = steps_of(np.array([arrival.entries for arrival in arrived]), job.shard_entries)
    name = gathered_name(group, batch)
    parts = [_sort(job, state.round, arrived[begin:end], cuts, name) for begin, end in steps]
    return Gathered(
        group, tuple(parts), seconds=_sum(part.seconds for part in parts), bytes=_sum(p.bytes for p in parts)
    )


def _sort(job: Job, round_: int, arrived: Sequence[Arrival], cuts: NDArray[np.int64], name: str) -> Moved:
    """Read some pieces into memory, and write their rows in the order of the shards that they go to."""
    clock, total = Clock(), sum(arrival.entries for arrival in arrived)
    rows = sum(arrival.rows for arrival in arrived)
    with clock.phase("read"):
        clusters = {column: np.empty(rows, kind) for column, kind in arrived[0].clusters}
        entries = {column: borrow(total, kind) for column, kind in job.columns(round_).items()}
        read_all(job.store, arrival_reads(job.store, arrived, clusters, entries), REQUEST)
        clock.count("read", [*clusters.values(), *entries.values()])
    with clock.phase("route"):
        length, shards = clusters["length"], len(cuts) - 1
        goes = (np.searchsorted(cuts, clusters["leader"], side="right") - 1).astype(np.int32)
        row_starts = starts_of(np.bincount(goes, minlength=shards))
        entry_starts = starts_of(np.bincount(goes, length, shards).astype(np.int64))
        place, own_length = np.empty(rows, np.int64), np.empty(rows, length.dtype)
        move.take_rows(goes, row_starts[:-1].copy(), length, (place, own_length))
        starts = starts_of(length)[place]
        ordered: dict[str, NDArray[Any]] = {}
        for column, values in entries.items():
            ordered[column] = borrow(total, values.dtype)
            move.copy_rows(np.arange(rows), starts, own_length, values, ordered[column])
        placed = {column: values[place] for column, values in clusters.items()}
    return write_moved(job, clock, [name], (placed, ordered), (row_starts, entry_starts))


def _sum(costs: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Add up what parts have cost."""
    total: dict[str, Any] = {}
    for cost in costs:
        for name, value in cost.items():
            total[name] = total.get(name, 0) + value
    return total


def arrived_at(groups: Groups | None, arrived: Sequence[Any], number: int) -> list[Arrival]:
    """Return the rows that go to one new shard: straight from other shards, or by way of its group."""
    if groups is None:
        return arrivals(arrived, number)
    parts = (part for gathered in arrived if gathered is not None for part in gathered.parts)
    return arrivals(parts, number % groups.width)
