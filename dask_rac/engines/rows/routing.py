"""The second pass over the input: edges go to the shards that own their ends.

1. `route` reads a piece of the input again, and writes each edge once, by block, or each end, by group.
2. `sort` reads what some pieces have written for a group, and writes it by shard; there is none if edges go by block.
3. Who builds a shard reads its edges: `read_edges`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.names import ROUTED, SORTED
from dask_rac.base.spans import Span, starts_of, steps_of
from dask_rac.edges.source import EdgeSource
from dask_rac.edges.units import Unit
from dask_rac.engines.rows.layout import Layout
from dask_rac.engines.rows.receipts import Clock, Job, Receipt, fresh_name
from dask_rac.files.buffers import REQUEST
from dask_rac.files.pieces import CHECKSUM, write_pieces
from dask_rac.files.readers import pieces_read, read_all
from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.rows import ingest
from dask_rac.tasks.scratch import begin_task, borrow
from dask_rac.tasks.task_graph import Task, TaskGraph

Edges = tuple[Ids, Ids, NDArray[np.floating]]
"""Sources, targets and weights."""
Part = tuple["Routed", int, int]
"""Edges of some successive places of a file: the first place, and where they stop."""


@dataclass(frozen=True)
class Routed(Receipt):
    """Edges written by place: by block, by group, or by shard of a group."""

    name: str
    offsets: NDArray[np.int64]
    """Number of edges before each place, then the total."""
    disk: int
    """Bytes on disk."""

    def edges(self, first: int, stop: int) -> int:
        """Return the number of edges in some places."""
        return int(self.offsets[stop] - self.offsets[first])


@dataclass(frozen=True)
class Sent:
    """What a piece of the input has sent."""

    batch: int
    """With which others it is sorted."""
    parts: tuple[Routed, ...]


@dataclass(frozen=True)
class Sorted:
    """What some pieces have sent to a group, by shard."""

    group: int
    batch: int
    parts: tuple[Routed, ...]


def route(job: Job, source: EdgeSource, unit: Unit, layout: Layout, rows: int, batch: int) -> Sent:
    """Write the edges of a piece of the input by block, or their ends by group, at most `rows` at a time."""
    begin_task()
    grouped = layout.groups is not None
    room = min(max(1, 2 * rows // 3) if grouped else rows, unit.rows)
    held, out = _borrow(job, room), _borrow(job, 2 * room if grouped else room)
    write = _write_groups if grouped else _write_blocks
    return Sent(batch, tuple(write(job, edges, layout, out) for edges in _gather(source, unit, held)))


def sort(job: Job, layout: Layout, sent: Sequence[Sent], group: int, batch: int) -> Sorted:
    """Write the ends that some pieces have sent to a group by the shards of the group."""
    assert layout.groups is not None
    parts = [(part, group, group + 1) for piece in sent for part in piece.parts if part.edges(group, group + 1)]
    steps = steps_of(np.array([part.edges(group, group + 1) for part, _, _ in parts]), job.shard_entries)
    span = layout.groups.span(group)
    return Sorted(group, batch, tuple(_sort(job, layout, parts[first:stop], span) for first, stop in steps))


def read_edges(job: Job, layout: Layout, arrived: Sequence[Sent | Sorted], number: int) -> Edges:
    """Read the edges of one shard; the two ends of some may be in it."""
    parts = [part for sent in arrived for part in sent.parts]
    if layout.groups is not None:
        place = number % layout.groups.width
        return _read(job, [(part, place, place + 1) for part in parts])
    row = layout.block(number, number), layout.block(number, layout.shards - 1) + 1
    spans = [(block := layout.block(i, number), block + 1) for i in range(number)] + [row]
    return _read(job, [(part, *span) for part in parts for span in spans])


def route_tasks(graph: TaskGraph, job: Job, units: Sequence[Unit], layout: Layout, given: tuple[Any, ...]) -> list[Any]:
    """Add the tasks by which edges go to their shards; return what arrives at each shard.

    `given` are the source and the layout as constants of the graph, and how many rows a task may hold.
    """
    source, cuts, rows = given
    groups = layout.groups
    batches = [(0, len(units))] if groups is None else groups.batches(len(units))
    sent: list[Task] = []
    for batch, (first, stop) in enumerate(batches):
        routed = [graph.add(route, job, source, unit, cuts, rows, batch) for unit in units[first:stop]]
        sent.append(graph.gather(routed, "routed"))
    if groups is None:
        return sent * layout.shards
    arrived = [
        graph.gather([graph.add(sort, job, cuts, pieces, group, k) for k, pieces in enumerate(sent)], "arrived")
        for group in range(groups.count)
    ]
    return [arrived[number // groups.width] for number in range(layout.shards)]


def _borrow(job: Job, edges: int) -> tuple[NDArray[Any], ...]:
    """Return room for edges."""
    return tuple(borrow(edges, kind) for kind in (job.ids, job.ids, job.weights))


def _gather(source: EdgeSource, unit: Unit, held: tuple[NDArray[Any], ...]) -> Iterator[tuple[NDArray[Any], ...]]:
    """Yield the edges of a unit, as many at a time as `held` has room for."""
    room = len(held[0])
    filled = 0
    for columns, _ in source.read(unit):
        taken = 0
        length = len(columns["weight"])
        while taken < length:
            count = min(length - taken, room - filled)
            for array, column in zip(held, columns.values(), strict=True):
                array[filled : filled + count] = column[taken : taken + count]
            filled, taken = filled + count, taken + count
            if filled == room:
                yield held
                filled = 0
    if filled:
        yield tuple(array[:filled] for array in held)


def _write_blocks(job: Job, edges: tuple[NDArray[Any], ...], layout: Layout, room: tuple[NDArray[Any], ...]) -> Routed:
    """Write edges by block, using `room` to order them."""
    clock = Clock()
    with clock.phase("route"):
        grid = layout.shift, layout.shards
        counts = np.zeros(layout.blocks, np.int64)
        ingest.count_blocks(edges[0], edges[1], layout.owner, counts, grid)
        offsets = starts_of(counts)
        out = tuple(array[: int(offsets[-1])] for array in room)
        ingest.fill_blocks(edges, layout.owner, offsets[:-1].copy(), out, grid)
    return _write(job, clock, ROUTED, out, offsets)


def _write_groups(job: Job, edges: tuple[NDArray[Any], ...], layout: Layout, room: tuple[NDArray[Any], ...]) -> Routed:
    """Write ends of edges by group, using `room` to order them."""
    assert layout.groups is not None
    clock, groups = Clock(), layout.groups
    with clock.phase("route"):
        owner = layout.owner // groups.width
        out, offsets = _by_owner(edges, owner, (layout.shift, 0, groups.count), room)
    return _write(job, clock, ROUTED, out, offsets)


def _sort(job: Job, layout: Layout, parts: Sequence[Part], span: Span) -> Routed:
    """Read ends of edges in shards `[first, stop)`, and write them by shard."""
    begin_task()
    clock = Clock()
    with clock.phase("read"):
        edges = _read(job, parts)
        clock.count("read", edges)
    with clock.phase("route"):
        room = _borrow(job, 2 * len(edges[0]))
        out, offsets = _by_owner(edges, layout.owner, (layout.shift, *span), room)
    return _write(job, clock, SORTED, out, offsets)


def _by_owner(
    edges: tuple[NDArray[Any], ...],
    owner: NDArray[np.int64],
    grid: tuple[int, int, int],
    room: tuple[NDArray[Any], ...],
) -> tuple[tuple[NDArray[Any], ...], NDArray[np.int64]]:
    """Return each edge once for every owner of its ends, in the order of these, and where those of each begin."""
    counts = np.zeros(grid[2] - grid[1], np.int64)
    ingest.count_ends(edges[0], edges[1], owner, counts, grid)
    offsets = starts_of(counts)
    out = tuple(array[: int(offsets[-1])] for array in room)
    ingest.fill_ends(edges, owner, offsets[:-1].copy(), out, grid)
    return out, offsets


def _write(job: Job, clock: Clock, kind: str, edges: tuple[NDArray[Any], ...], offsets: NDArray[np.int64]) -> Routed:
    """Write edges, a piece for each place."""
    with clock.phase("write"):
        name = fresh_name(job, kind)
        pieces = ([array[first:stop] for array in edges] for first, stop in pairwise(offsets.tolist()))
        disk = write_pieces(job.store, name, pieces)
        clock.count("write", edges)
    return Routed(name, offsets, disk, seconds=clock.seconds, bytes=clock.bytes)


def _read(job: Job, parts: Sequence[Part]) -> Edges:
    """Read parts of edges, and put one after the other."""
    out = _borrow(job, sum(part.edges(first, stop) for part, first, stop in parts))
    size, at, reads = sum(array.itemsize for array in out), 0, []
    for part, first, stop in parts:
        ends = part.offsets[first : stop + 1]
        if ends[0] == ends[-1]:
            continue
        places = (ends - ends[0] + at).tolist()
        pieces = [[array[a:b] for array in out] for a, b in pairwise(places)]
        reads.append(pieces_read(job.store, part.name, int(ends[0]) * size + first * CHECKSUM, pieces))
        at = places[-1]
    read_all(job.store, reads, REQUEST)
    return out[0], out[1], out[2]
