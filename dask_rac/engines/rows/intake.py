"""The intake: edges on disk become the first state, in two passes, and are never all in memory.

1. `scan` reads a piece of the input, checks every row, and builds a histogram of the ids.
2. `lay_out` cuts the nodes into shards with about the same number of entries.
3. `route` reads a piece again and writes each edge once, grouped by block: the pair of shards that own its two ends.
4. `build` reads the blocks of its shard, builds rows from them, merges parallel edges and finds the nearest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import Where
from dask_rac.base.names import ROUTED, shard_name
from dask_rac.base.settings import Settings
from dask_rac.base.spans import even_bins, spread, starts_of
from dask_rac.edges.checks import checked_ids, checked_weights, duplicates_policy
from dask_rac.edges.first_id import smallest_id
from dask_rac.edges.source import Columns, EdgeSource
from dask_rac.edges.units import Unit
from dask_rac.engines.rows.packing import node_vectors, row_lengths
from dask_rac.engines.rows.receipts import Clock, Job, Receipt, fresh_name
from dask_rac.files.arrays import write_group
from dask_rac.files.pieces import CHECKSUM, read_pieces, write_pieces
from dask_rac.kernels.arrays import Clusters, Ids, Rows
from dask_rac.kernels.rows import ingest
from dask_rac.kernels.rows.fold import find_nearest
from dask_rac.kernels.rows.move import copy_rows
from dask_rac.store.manifest import ShardRecord
from dask_rac.tasks.scratch import begin_task, borrow
from dask_rac.tasks.task_graph import TaskGraph

SCAN_BINS = 4096
MOST_IDS = 2**62  # no id is as large


@dataclass(frozen=True)
class Scanned(Receipt):
    """What a piece of the input holds."""

    rows: int
    loops: int
    smallest_id: int
    largest_id: int
    """-1 without a row."""
    least: float
    """The smallest weight."""
    largest: float
    """The largest weight."""
    shift: int
    bins: NDArray[np.int64]
    """How often ids of each bin of `2 ** shift` occur."""


@dataclass(frozen=True)
class Layout:
    """How the nodes are cut into shards."""

    bounds: tuple[int, ...]
    """The first node of each shard, then the number of nodes."""
    shift: int
    owner: tuple[int, ...]
    """The shard of each group of `2 ** shift` nodes."""

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self.bounds) - 1

    def block(self, i: int, j: int) -> int:
        """The block of the edges between shards `i <= j`."""
        return i * self.shards - i * (i - 1) // 2 + j - i


@dataclass(frozen=True)
class Routed(Receipt):
    """Edges written by block."""

    name: str
    offsets: NDArray[np.int64]
    """Number of edges before each block, then the total."""
    disk: int
    """Bytes on disk."""


@dataclass(frozen=True)
class Built(Receipt):
    """A shard of the first state."""

    shard: ShardRecord
    later: int
    """Entries that point to a later node."""
    least: float
    largest: float
    repeats: int
    """Entries that repeat an edge."""
    conflict: tuple[int, int] | None
    """An edge with two different weights, if that is an error."""


def scan(source: EdgeSource, unit: Unit, n_nodes: int | None, settings: Settings) -> Scanned:
    """Check a piece of the input and count its ids by bin."""
    clock = Clock()
    rows, loops, smallest, largest_id, least, largest = 0, 0, MOST_IDS, -1, np.inf, -np.inf
    shift, bins = 0, np.zeros(SCAN_BINS, np.int64)
    with clock.phase("read"):
        for columns, where in source.read(unit):
            clock.count("read", list(columns.values()))
            ends, weight = checked_columns(columns, where, n_nodes, settings)
            if not len(weight):
                continue
            rows += len(weight)
            outer = ends[0] != ends[1]
            loops += len(outer) - int(np.count_nonzero(outer))
            smallest = min(smallest, smallest_id(ends))
            largest_id = max(largest_id, int(ends[0].max()), int(ends[1].max()))
            least = min(least, float(weight.min(where=outer, initial=np.inf)))
            largest = max(largest, float(weight.max(where=outer, initial=-np.inf)))
            while largest_id >> shift >= SCAN_BINS:
                shift, bins = shift + 1, _coarser(bins)
            for column in ends:
                ingest.count_ids(column, bins, shift)
    found = Scanned(rows, loops, smallest, largest_id, least, largest, shift, bins)
    return replace(found, seconds=clock.seconds, bytes=clock.bytes)


def checked_columns(
    columns: Columns, where: Where, n_nodes: int | None, settings: Settings
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]:
    """Return the columns of a block of edges after checking every row."""
    source, target = (checked_ids(columns[name], name, n_nodes, where) for name in ("source", "target"))
    ends = np.require(source, np.int64, ["C", "W"]), np.require(target, np.int64, ["C", "W"])
    return ends, checked_weights(columns["weight"], settings, where)


def count_entries(scanned: Sequence[Scanned], nodes: int) -> tuple[NDArray[np.int64], int]:
    """Return the entries of successive groups of `2 ** shift` nodes, and the shift."""
    shift = max((receipt.shift for receipt in scanned), default=0)
    while nodes >> shift > SCAN_BINS:
        shift += 1
    bins = np.zeros(SCAN_BINS, np.int64)
    for receipt in scanned:
        coarse = receipt.bins
        for _ in range(shift - receipt.shift):
            coarse = _coarser(coarse)
        bins += coarse
    used = -(-max(nodes, 1) // (1 << shift))
    return np.pad(bins, (0, max(0, used - SCAN_BINS)))[:used], shift


def lay_out(scanned: Sequence[Scanned], nodes: int, shard_entries: int, node_load: int = 0) -> Layout:
    """Cut the nodes into shards with about the same load: their entries, and as many as `node_load` for each node."""
    bins, shift = count_entries(scanned, nodes)
    load = bins + node_load * spread(nodes, len(bins), 1 << shift)
    borders = even_bins(load, max(1, -(-int(load.sum()) // shard_entries)))
    owner = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
    return Layout(tuple(np.minimum(borders << shift, nodes).tolist()), shift, tuple(owner.tolist()))


def route(job: Job, source: EdgeSource, unit: Unit, layout: Layout, rows: int) -> list[Routed]:
    """Write the edges of a piece of the input by block, at most `rows` at a time."""
    begin_task()
    room = min(rows, unit.rows)
    kinds = job.ids, job.ids, job.weights
    held, out = (tuple(borrow(room, kind) for kind in kinds) for _ in range(2))
    return [_write_blocks(job, edges, layout, out) for edges in _gather(source, unit, held)]


def build(job: Job, layout: Layout, routed: Sequence[Sequence[Routed]], number: int) -> Built:
    """Build the rows of one shard and find its nearest."""
    begin_task()
    clock, store = Clock(), job.store
    lo, hi = layout.bounds[number : number + 2]
    with clock.phase("read"):
        edges = _read_blocks(job, layout, [piece for pieces in routed for piece in pieces], number)
        clock.count("read", list(edges))
    with clock.phase("route"):
        degree = np.zeros(hi - lo, np.int64)
        ingest.count_degrees(edges[0], edges[1], degree, (lo, hi))
        starts = starts_of(degree)
        del degree
        rows = _scatter(job, edges, starts, (lo, hi))
    with clock.phase("fold"):
        span = 0, hi - lo, lo
        conflicts, left, right = ingest.unify(rows, span)
        if conflicts and job.settings.duplicates != "error":
            rows = _scatter(job, edges, starts, (lo, hi))  # `unify` has overwritten them
            ingest.settle(rows, duplicates_policy(job.settings), span)
        repeats = int(starts[-1]) - int(ingest.close_gaps(rows))
        kept = int(starts[-1]) - repeats
        ids, size = node_vectors(job)
        clusters = Clusters(ids, size, np.empty(hi - lo, job.ids), np.empty(hi - lo))
        find_nearest(rows, clusters, job.rule(0), span)
        later = int(ingest.count_later(rows, lo))
    with clock.phase("write"):
        columns = {
            "nearest": clusters.nearest,
            "height": clusters.height,
            "length": row_lengths(rows, job.ids),
            "neighbour": rows.neighbour[:kept],
            "weight": rows.weight[:kept],
        }
        name = fresh_name(job, shard_name(number))
        files = write_group(store, name, columns)
        clock.count("write", list(columns.values()))
    weight = columns["weight"]
    return Built(
        ShardRecord(name, lo, hi - lo, kept, tuple(files)),
        later,
        float(weight.min(initial=np.inf)),
        float(weight.max(initial=-np.inf)),
        repeats,
        (min(left, right), max(left, right)) if conflicts and job.settings.duplicates == "error" else None,
        seconds=clock.seconds,
        bytes=clock.bytes,
    )


def save_rows(job: Job, rows: Rows, span: tuple[int, int, int]) -> Built:
    """Write a range of rows in memory as a shard of the first state."""
    number, lo, hi = span
    own = rows._replace(start=rows.start[lo:hi], stop=rows.stop[lo:hi])
    length = row_lengths(own, job.ids)
    clusters = Clusters(*node_vectors(job), np.empty(hi - lo, job.ids), np.empty(hi - lo))
    find_nearest(own, clusters, job.rule(0), (0, hi - lo, lo))
    columns: dict[str, NDArray[Any]] = {"nearest": clusters.nearest, "height": clusters.height, "length": length}
    for name in ("neighbour", "weight"):
        column = getattr(rows, name)
        columns[name] = np.empty(int(length.sum(dtype=np.int64)), column.dtype)
        copy_rows(np.arange(hi - lo), own.start, length, column, columns[name])
    name = fresh_name(job, shard_name(number))
    shard = ShardRecord(name, lo, hi - lo, len(columns["weight"]), tuple(write_group(job.store, name, columns)))
    return Built(shard, int(ingest.count_later(own, lo)), np.inf, -np.inf, 0, None)


def _coarser(bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the same counts in bins twice as wide."""
    return np.pad(bins.reshape(-1, 2).sum(axis=1), (0, len(bins) // 2))


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
        owner, grid = np.array(layout.owner, np.int64), (layout.shift, layout.shards)
        counts = np.zeros(layout.block(layout.shards - 1, layout.shards - 1) + 1, np.int64)
        ingest.count_blocks(edges[0], edges[1], owner, counts, grid)
        offsets = starts_of(counts)
        total = int(offsets[-1])
        out = tuple(array[:total] for array in room)
        ingest.fill_blocks(edges, owner, offsets[:-1].copy(), out, grid)
    with clock.phase("write"):
        name = fresh_name(job, ROUTED)
        blocks = ([array[first:stop] for array in out] for first, stop in pairwise(offsets.tolist()))
        disk = write_pieces(job.store, name, blocks)
        clock.count("write", out)
    return Routed(name, offsets, disk, seconds=clock.seconds, bytes=clock.bytes)


def _read_blocks(
    job: Job, layout: Layout, pieces: Sequence[Routed], number: int
) -> tuple[Ids, Ids, NDArray[np.floating]]:
    """Read the edges of one shard: one row of blocks, which is contiguous, and one column of blocks."""
    row = layout.block(number, number), layout.block(number, layout.shards - 1) + 1
    spans = [(block := layout.block(i, number), block + 1) for i in range(number)] + [row]
    total = sum(int(piece.offsets[stop] - piece.offsets[first]) for piece in pieces for first, stop in spans)
    kinds = job.ids, job.ids, job.weights
    out = tuple(borrow(total, kind) for kind in kinds)
    size, at = sum(array.itemsize for array in out), 0
    for piece in pieces:
        for first, stop in spans:
            ends = piece.offsets[first : stop + 1]
            if ends[0] == ends[-1]:
                continue
            places = (ends - ends[0] + at).tolist()
            blocks = [[array[a:b] for array in out] for a, b in pairwise(places)]
            read_pieces(job.store, piece.name, int(ends[0]) * size + first * CHECKSUM, blocks)
            at = places[-1]
    return out[0], out[1], out[2]


def _scatter(
    job: Job, edges: tuple[Ids, Ids, NDArray[np.floating]], starts: NDArray[np.int64], span: tuple[int, int]
) -> Rows:
    """Return the rows of one shard's edges; parallel edges are not merged yet."""
    lo, hi = span
    total = int(starts[-1])
    rows = Rows(
        starts[:-1],
        starts[:-1].copy(),
        borrow(total, job.ids),
        borrow(total, job.weights),
        np.empty(0, job.counts),
        borrow(total, np.uint16),
    )
    ingest.scatter(edges, rows.stop, rows.neighbour, rows.weight, (lo, hi, lo))
    return rows


def scan_graph(
    token: str, source: EdgeSource, units: Sequence[Unit], n_nodes: int | None, settings: Settings
) -> TaskGraph:
    """Check the whole input."""
    graph = TaskGraph(token)
    given = graph.constant(source, "source")
    for unit in units:
        graph.add(scan, given, unit, n_nodes, settings)
    return graph


def intake_graph(job: Job, source: EdgeSource, units: Sequence[Unit], layout: Layout, rows: int) -> TaskGraph:
    """Read the whole input into the first state: route, then build."""
    graph = TaskGraph(job.attempt)
    given, cuts = graph.constant(source, "source"), graph.constant(layout, "layout")
    pieces = graph.gather([graph.add(route, job, given, unit, cuts, rows) for unit in units], "routed")
    for number in range(layout.shards):
        graph.add(build, job, cuts, pieces, number)
    return graph
