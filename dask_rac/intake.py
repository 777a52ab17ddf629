"""Edges on disk to the first state, in two passes, never whole.

1. `scan` reads a piece, checks every row, and counts where the ids lie.
2. `lay_out` cuts the nodes into shards with about as many entries each.
3. `route` reads a piece again and writes its edges by block, the two shards that own its ends: each edge once.
4. `build` reads the blocks of its shard, makes rows of them, unites parallel edges and finds the nearest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.arena import begin_task, borrow
from dask_rac.checks import checked_ids, checked_weights, duplicates_policy
from dask_rac.config import Settings
from dask_rac.errors import Where
from dask_rac.kernels import ingest
from dask_rac.kernels.arrays import Clusters, Ids, Rows
from dask_rac.kernels.fold import find_nearest
from dask_rac.kernels.move import copy_rows
from dask_rac.receipts import Clock, Job, Receipt, fresh_name
from dask_rac.shard import starts_of
from dask_rac.steps import PIECE_CHUNK, node_vectors
from dask_rac.store.arrays import read_array, write_group
from dask_rac.store.edges import Columns, EdgeSource, Unit
from dask_rac.store.manifest import ShardRecord

SCAN_BINS = 4096


@dataclass(frozen=True)
class Scanned(Receipt):
    """What a piece of the input holds."""

    rows: int
    loops: int
    top: int
    """The largest id, -1 without a row."""
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
    """The first node of each shard, and their number."""
    shift: int
    owner: tuple[int, ...]
    """The shard of each `2 ** shift` nodes."""

    @property
    def shards(self) -> int:
        """How many there are."""
        return len(self.bounds) - 1

    def block(self, i: int, j: int) -> int:
        """The block of the edges between shards `i <= j`."""
        return i * self.shards - i * (i - 1) // 2 + j - i


@dataclass(frozen=True)
class Routed(Receipt):
    """Edges by block."""

    name: str
    offsets: NDArray[np.int64]
    """Edges before each block, and all."""
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
    """Entries that name an edge once more."""
    conflict: tuple[int, int] | None
    """An edge with two weights, where that is an error."""


def scan(source: EdgeSource, unit: Unit, n_nodes: int | None, settings: Settings) -> Scanned:
    """Check a piece of the input and count where its ids lie."""
    clock = Clock()
    rows, loops, top, least, largest = 0, 0, -1, np.inf, -np.inf
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
            top = max(top, int(ends[0].max()), int(ends[1].max()))
            least = min(least, float(weight.min(where=outer, initial=np.inf)))
            largest = max(largest, float(weight.max(where=outer, initial=-np.inf)))
            while top >> shift >= SCAN_BINS:
                shift, bins = shift + 1, _coarser(bins)
            for column in ends:
                ingest.count_ids(column, bins, shift)
    return Scanned(rows, loops, top, least, largest, shift, bins, seconds=clock.seconds, bytes=clock.bytes)


def checked_columns(
    columns: Columns, where: Where, n_nodes: int | None, settings: Settings
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]:
    """The columns of a block of edges, every row checked."""
    source, target = (checked_ids(columns[name], name, n_nodes, where) for name in ("source", "target"))
    ends = np.require(source, np.int64, ["C", "W"]), np.require(target, np.int64, ["C", "W"])
    return ends, checked_weights(columns["weight"], settings, where)


def lay_out(scanned: Sequence[Scanned], nodes: int, shard_entries: int) -> Layout:
    """Cut the nodes into shards with about as many entries each."""
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
    bins = np.pad(bins, (0, max(0, used - SCAN_BINS)))[:used]
    total = int(bins.sum())
    shards = max(1, -(-total // shard_entries))
    ends = np.searchsorted(np.cumsum(bins), [total * k / shards for k in range(1, shards)], side="left") + 1
    borders = np.unique(np.concatenate(([0], np.minimum(ends, used), [used])))
    owner = np.repeat(np.arange(len(borders) - 1), np.diff(borders))
    return Layout(tuple(np.minimum(borders << shift, nodes).tolist()), shift, tuple(owner.tolist()))


def route(job: Job, source: EdgeSource, unit: Unit, layout: Layout, rows: int) -> list[Routed]:
    """Write the edges of a piece of the input by block, so many rows at a time."""
    begin_task()
    room = min(rows, unit.rows)
    kinds = job.ids, job.ids, job.weights
    held, out = (tuple(borrow(room, kind) for kind in kinds) for _ in range(2))
    return [_write_blocks(job, edges, layout, out) for edges in _gather(source, unit, held)]


def build(job: Job, layout: Layout, routed: Sequence[Sequence[Routed]], number: int) -> Built:
    """Make the rows of one shard, and find its nearest."""
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
        rows = _scatter(job, edges, starts, (lo, hi))
    with clock.phase("fold"):
        span = 0, hi - lo, lo
        conflicts, one, other = ingest.unify(rows, span)
        if conflicts and job.settings.duplicates != "error":
            rows = _scatter(job, edges, starts, (lo, hi))  # `unify` has written over them
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
            "length": (rows.stop - rows.start).astype(job.ids),
            "neighbour": rows.neighbour[:kept],
            "weight": rows.weight[:kept],
        }
        name = fresh_name(job, f"shard-{number:05d}")
        files = write_group(store, name, columns)
        clock.count("write", list(columns.values()))
    weight = columns["weight"]
    return Built(
        ShardRecord(name, lo, hi - lo, kept, tuple(files)),
        later,
        float(weight.min(initial=np.inf)),
        float(weight.max(initial=-np.inf)),
        repeats,
        (min(one, other), max(one, other)) if conflicts and job.settings.duplicates == "error" else None,
        seconds=clock.seconds,
        bytes=clock.bytes,
    )


def save_rows(job: Job, rows: Rows, span: tuple[int, int, int]) -> Built:
    """Write a range of rows that are in memory as a shard of the first state."""
    number, lo, hi = span
    own = rows._replace(start=rows.start[lo:hi], stop=rows.stop[lo:hi])
    length = (own.stop - own.start).astype(job.ids)
    clusters = Clusters(*node_vectors(job), np.empty(hi - lo, job.ids), np.empty(hi - lo))
    find_nearest(own, clusters, job.rule(0), (0, hi - lo, lo))
    columns: dict[str, NDArray[Any]] = {"nearest": clusters.nearest, "height": clusters.height, "length": length}
    for name in ("neighbour", "weight"):
        column = getattr(rows, name)
        columns[name] = np.empty(int(length.sum(dtype=np.int64)), column.dtype)
        copy_rows(np.arange(hi - lo), own.start, length, column, columns[name])
    name = fresh_name(job, f"shard-{number:05d}")
    shard = ShardRecord(name, lo, hi - lo, len(columns["weight"]), tuple(write_group(job.store, name, columns)))
    return Built(shard, int(ingest.count_later(own, lo)), np.inf, -np.inf, 0, None)


def _coarser(bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """The same counts in bins twice as wide."""
    return np.pad(bins.reshape(-1, 2).sum(axis=1), (0, len(bins) // 2))


def _gather(source: EdgeSource, unit: Unit, held: tuple[NDArray[Any], ...]) -> Iterator[tuple[NDArray[Any], ...]]:
    """The edges of a unit, as many at a time as `held` has room for."""
    room = len(held[0])
    filled = 0
    for columns, _ in source.read(unit):
        taken = 0
        length = len(columns["weight"])
        while taken < length:
            some = min(length - taken, room - filled)
            for array, column in zip(held, columns.values(), strict=True):
                array[filled : filled + some] = column[taken : taken + some]
            filled, taken = filled + some, taken + some
            if filled == room:
                yield held
                filled = 0
    if filled:
        yield tuple(array[:filled] for array in held)


def _write_blocks(job: Job, edges: tuple[NDArray[Any], ...], layout: Layout, room: tuple[NDArray[Any], ...]) -> Routed:
    """Write edges by block, put in order in `room`."""
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
        name = fresh_name(job, "routed")
        arrays = dict(zip(("source", "target", "weight"), out, strict=True))
        files = write_group(job.store, name, arrays, PIECE_CHUNK)
        clock.count("write", out)
    return Routed(name, offsets, sum(file.bytes for file in files), seconds=clock.seconds, bytes=clock.bytes)


def _read_blocks(
    job: Job, layout: Layout, pieces: Sequence[Routed], number: int
) -> tuple[Ids, Ids, NDArray[np.floating]]:
    """The edges of one shard: a row of blocks, which lies in one piece, and a column of them."""
    last = layout.block(number, layout.shards - 1) + 1
    spans = [(layout.block(i, number), layout.block(i, number) + 1) for i in range(number)]
    spans.append((layout.block(number, number), last))
    ranges = [(piece, int(piece.offsets[first]), int(piece.offsets[stop])) for piece in pieces for first, stop in spans]
    total = sum(stop - start for _, start, stop in ranges)
    kinds = {"source": job.ids, "target": job.ids, "weight": job.weights}
    out = {name: borrow(total, kind) for name, kind in kinds.items()}
    at = 0
    store = job.store
    for piece, start, stop in ranges:
        if start < stop:
            for name, array in out.items():
                read_array(store, f"{piece.name}/{name}", start, stop, array[at : at + stop - start])
        at += stop - start
    return out["source"], out["target"], out["weight"]


def _scatter(
    job: Job, edges: tuple[Ids, Ids, NDArray[np.floating]], starts: NDArray[np.int64], span: tuple[int, int]
) -> Rows:
    """Rows of the edges of one shard, parallel ones not united yet."""
    lo, hi = span
    total = int(starts[-1])
    rows = Rows(
        starts[:-1].copy(),
        starts[:-1].copy(),
        borrow(total, job.ids),
        borrow(total, job.weights),
        np.empty(0, job.counts),
        borrow(total, np.uint16),
    )
    ingest.scatter(edges, rows.stop, rows.neighbour, rows.weight, (lo, hi, lo))
    return rows
