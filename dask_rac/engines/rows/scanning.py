"""The first pass over the input: every row is checked, and ids are counted by bin.

How many entries the nodes of each bin have decides where the nodes are cut into shards, so there are some bins for each
shard. Where that makes more than a receipt can hold, counts go to files, and are added up by tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import Where
from dask_rac.base.names import COUNTED
from dask_rac.base.settings import Settings
from dask_rac.edges.checks import checked_ids, checked_weights
from dask_rac.edges.first_id import smallest_id
from dask_rac.edges.source import Columns, EdgeSource
from dask_rac.edges.units import Unit
from dask_rac.engines.rows.receipts import Clock, Job, Receipt, fresh_name
from dask_rac.files.folder import Folder
from dask_rac.files.pieces import read_piece, write_pieces
from dask_rac.kernels.rows import ingest
from dask_rac.tasks.task_graph import Results, TaskGraph

FEW_BINS = 4096
MOST_BINS = 2**22
SHARD_BINS = 16  # at least, for each shard
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
    counted: Counted


@dataclass(frozen=True)
class Counted:
    """How often ids of each bin occur."""

    shift: int
    """A bin has `2 ** shift` ids."""
    bins: NDArray[np.int64]
    """Empty where they are in a file."""
    name: str = ""
    """This file, in the folder of the run."""


@dataclass(frozen=True)
class Histogram:
    """How ids are counted."""

    bins: int = FEW_BINS
    job: Job | None = None
    """Where counts go that are too many for a receipt."""

    @classmethod
    def of(cls, shards: int, job: Job | None = None) -> Histogram:
        """With some bins for each of about this many shards."""
        bins = FEW_BINS
        while bins < min(SHARD_BINS * shards, MOST_BINS):
            bins *= 2
        return cls(bins, job)

    def save(self, counted: Counted) -> Counted:
        """Write counts to a file if they are many."""
        if self.bins <= FEW_BINS or self.job is None:
            return counted
        name = fresh_name(self.job, COUNTED)
        write_pieces(self.job.store, name, [[counted.bins]])
        return Counted(counted.shift, np.empty(0, np.int64), name)

    def load(self, counted: Counted) -> Counted:
        """Read counts from their file, if they are in one."""
        if not counted.name:
            return counted
        assert self.job is not None
        bins = np.empty(self.bins, np.int64)
        read_piece(self.job.store, counted.name, 0, [bins])
        return Counted(counted.shift, bins)


def scan(source: EdgeSource, unit: Unit, n_nodes: int | None, settings: Settings, histogram: Histogram) -> Scanned:
    """Check a piece of the input and count its ids by bin."""
    clock = Clock()
    rows, loops, smallest, largest_id, least, largest = 0, 0, MOST_IDS, -1, np.inf, -np.inf
    shift, bins = 0, np.zeros(histogram.bins, np.int64)
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
            while largest_id >> shift >= len(bins):
                shift, bins = shift + 1, _coarser(bins)
            for column in ends:
                ingest.count_ids(column, bins, shift)
    counted = histogram.save(Counted(shift, bins))
    found = Scanned(rows, loops, smallest, largest_id, least, largest, counted)
    return replace(found, seconds=clock.seconds, bytes=clock.bytes)


def checked_columns(
    columns: Columns, where: Where, n_nodes: int | None, settings: Settings
) -> tuple[tuple[NDArray[np.int64], NDArray[np.int64]], NDArray[np.float64]]:
    """Return the columns of a block of edges after checking every row."""
    source, target = (checked_ids(columns[name], name, n_nodes, where) for name in ("source", "target"))
    ends = np.require(source, np.int64, ["C", "W"]), np.require(target, np.int64, ["C", "W"])
    return ends, checked_weights(columns["weight"], settings, where)


def add_up(histogram: Histogram, scanned: Sequence[Scanned]) -> Counted:
    """Add up the counts of some pieces of the input."""
    return histogram.save(_sum([receipt.counted for receipt in scanned], histogram))


def count_entries(counted: Sequence[Counted], nodes: int, histogram: Histogram) -> Counted:
    """Return the entries of successive groups of `2 ** shift` nodes."""
    total = _sum(counted, histogram)
    shift, bins = total.shift, total.bins
    while nodes >> shift > len(bins):
        shift, bins = shift + 1, _coarser(bins)
    used = -(-max(nodes, 1) // (1 << shift))
    return Counted(shift, np.pad(bins, (0, max(0, used - len(bins))))[:used])


def _sum(counted: Sequence[Counted], histogram: Histogram) -> Counted:
    """Add up counts, which may be in files."""
    shift = max((counts.shift for counts in counted), default=0)
    total = np.zeros(histogram.bins, np.int64)
    for counts in counted:
        bins = histogram.load(counts).bins
        for _ in range(shift - counts.shift):
            bins = _coarser(bins)
        total += bins
    return Counted(shift, total)


def _coarser(bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the same counts in bins twice as wide."""
    return np.pad(bins.reshape(-1, 2).sum(axis=1), (0, len(bins) // 2))


def scan_graph(
    token: str,
    source: EdgeSource,
    units: Sequence[Unit],
    settings: tuple[int | None, Settings],
    histogram: Histogram | None = None,
) -> TaskGraph:
    """Check the whole input, of so many nodes if that is known; add up counts in files, some pieces at a time."""
    graph = TaskGraph(token)
    how = histogram or Histogram()
    given, counting = graph.constant(source, "source"), graph.constant(how, "histogram")
    scanned = [graph.add(scan, given, unit, *settings, counting) for unit in units]
    if how.bins > FEW_BINS:
        width = math.isqrt(len(scanned)) + 1
        for first in range(0, len(scanned), width):
            graph.add(add_up, counting, scanned[first : first + width])
    return graph


def counts_of(results: Results) -> list[Counted]:
    """Return what tasks have counted: the sums, if there are any."""
    sums: list[Counted] = results.get("add_up", [])
    return sums or [receipt.counted for receipt in results.get("scan", [])]


def remove_counts(results: Results, store: Folder) -> None:
    """Delete the files of counts, once these have been added up."""
    counted = [*(receipt.counted for receipt in results.get("scan", [])), *results.get("add_up", [])]
    if names := [counts.name for counts in counted if counts.name]:
        store.remove_files(names)
