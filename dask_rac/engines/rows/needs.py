"""What rounds take in memory: entries, rows and clusters, the widest row, the rest, the finisher; all in bytes."""

from __future__ import annotations

import math
from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.settings import Settings
from dask_rac.engines.linkage import needs_counts
from dask_rac.files.buffers import REQUEST
from dask_rac.kernels.rows.table import CACHED
from dask_rac.tasks.budget import Budget

TIE = 2  # bytes of the tie of an entry
VECTORS = 5  # over all clusters, at most, in each process: nearest, fates (2), ids and sizes
GOOD_VECTORS = 7  # for good merges: also where each is, and ids and sizes once more
COPIES = 2.2  # of a shard's entries that its fold holds: as read and as written, plus some for uneven rows
JOINED = 1.5  # rows that a shard folds per cluster, at most: every second cluster may have moved there from another
REST_COPIES = 2.1  # of all entries held by rounds in memory
FEW_GOOD = 8  # for good merges: up to so many are done one at a time in each process, and are fewer and larger then
UNEVEN = 1.1  # times the budget that shards of uneven size may take
SHRINKS = 0.8  # share of the entries that a round usually leaves
GOOD_ROW = 240  # bytes of a cluster of a shard for good merges, beside ids: as sent, where its row is, its merge twice
GOOD_SLACK = 1.05  # of a shard for good merges, as they are of uneven size
GOOD_TABLE = 33  # bytes of a cluster in the tables of good merges, beside ids
MERGE = 120  # bytes per merge that is written: as found, as converted, as Parquet
RECORD_LEAST = 32  # bytes of an edge that is held by the finisher, with int32
SLOT_BYTES = 16  # of its table of pairs, per edge
ROW_SHARE = 4.5  # entries per edge in the rows of the finisher: two, a quarter more for hubs, two to grow into
CHUNK_BYTES = 1.5  # of what the finisher keeps for a chunk of a row, per entry
UNCOUNTED = 2**24  # bytes in each process: chunks, buffers and objects, whatever the graph


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
    forest: bool = False
    """Whether rounds are Boruvka's."""

    @classmethod
    def of(cls, settings: Settings, nodes: int, edges: int, weights: str) -> EntrySizes:
        """For a graph of this size."""
        ids = cluster_id_dtype(nodes).itemsize
        counts = cluster_id_dtype(max(nodes, 2 * edges)).itemsize if needs_counts(settings) else 0
        weight = 6 if weights == "float32" else 8  # the lowest bits of sums of float32 are zero
        if settings.linkage == "single":  # rows are never folded and lose only some edges in the first round
            return cls(ids, np.dtype(weights).itemsize, ids + 8 + 2, ids + weight, True)
        packed = SHRINKS * (ids + weight + 2 + (counts > 0))
        return cls(ids, np.dtype(weights).itemsize, ids + 8 + 2 + counts, packed)

    @property
    def row(self) -> int:
        """Bytes of a row in a task: where it is, its cluster, what it is folded to, its merge."""
        return 40 + 12 * self.ids

    @property
    def row_load(self) -> int:
        """The entries that take as much memory as a row without any."""
        return math.ceil(self.row / (COPIES * self.entry))

    @property
    def node_load(self) -> int:
        """The same for a cluster of a state, with the rows that may join it in the next round."""
        return math.ceil(JOINED * self.row / (COPIES * self.entry))

    @property
    def good_entry(self) -> int:
        """Bytes of an entry of a shard for good merges: without its tie, and one more column while it is written."""
        return self.entry - TIE + 8

    @property
    def good_load(self) -> int:
        """The same for a cluster of a shard for good merges: its row, its chain and its merge."""
        return math.ceil((GOOD_ROW + 10 * self.ids) / (GOOD_SLACK * self.good_entry))

    def good_task(self, load: float) -> float:
        """Bytes of a task that makes good merges in a shard with this load."""
        return GOOD_SLACK * self.good_entry * load

    def good_vectors(self, threads: int) -> int:
        """Bytes per cluster of the graph that a process holds for good merges: tables are as long as there are any."""
        return GOOD_VECTORS * self.ids + threads * (GOOD_TABLE + 7 * self.ids)

    def load(self, clusters: int, entries: int) -> int:
        """Entries, and what takes as much memory: the rows that they are in."""
        return entries + self.node_load * clusters

    def task(self, load: float) -> float:
        """Bytes of a task on a shard with this load."""
        return COPIES * self.entry * load

    def vectors(self, threads: int) -> int:
        """Bytes per cluster that every process holds: vectors over all of them, some for each thread."""
        return (1 + threads) * self.ids if self.forest else VECTORS * self.ids

    @property
    def join(self) -> int:
        """Bytes per node of the one task that unites components; 0 where there is none."""
        return 7 * self.ids + 28 if self.forest else 0

    @property
    def slot(self) -> int:
        """Bytes of a slot of the table in which a row is gathered."""
        return self.ids + 8 if self.forest else 2 * self.ids + 26


@dataclass(frozen=True)
class Room:
    """What the tasks of a step may hold, and what things take."""

    sizes: EntrySizes
    budget: Budget

    @property
    def part_merges(self) -> int:
        """Merges that can be written to one file at a time."""
        return max(1, self.budget.process // (2 * MERGE))

    def replies(self, nodes: int, clusters: int) -> int:
        """Bytes that a task may have on their way: a request, or more where vectors have become shorter.

        Shards are made for vectors over all nodes; over the clusters that are left they take less.
        """
        threads = self.budget.threads
        return max(REQUEST, self.sizes.vectors(threads) * (nodes - clusters) // threads)

    def short(self, clusters: int, load: int, shards: int, widest: int) -> int:
        """Bytes that a process needs to fold shards of at most this load, if it may not use as many; 0 otherwise."""
        threads = self.budget.threads
        tasks = min(threads, shards) * self.sizes.task(load) + table_bytes(self.sizes, widest)
        needed = int(self.sizes.vectors(threads) * clusters + tasks)
        return needed if needed > UNEVEN * self.budget.process + UNCOUNTED else 0

    def good_shard_short(self, clusters: int, load: int, shards: int, threads: int) -> int:
        """The same for good merges in shards, as many at a time as there are threads."""
        tasks = min(threads, shards) * self.sizes.good_task(load)
        needed = int(self.sizes.good_vectors(threads) * clusters + tasks)
        return needed if needed > UNEVEN * self.budget.process + UNCOUNTED else 0

    def rest_short(self, clusters: int, entries: int, widest: int) -> int:
        """The same for the remaining rounds in memory."""
        needed = rest_bytes(self.sizes, clusters, entries) + table_bytes(self.sizes, widest)
        return needed if needed > UNEVEN * alone_bytes(self.sizes, clusters, self.budget) + UNCOUNTED else 0

    def good_short(self, clusters: int, entries: int) -> int:
        """The same for good merges in memory."""
        needed = good_bytes(self.sizes, clusters, entries)
        return needed if needed > UNEVEN * alone_bytes(self.sizes, clusters, self.budget) + UNCOUNTED else 0


def table_bytes(sizes: EntrySizes, widest: int) -> int:
    """Bytes of the table in which the widest row is gathered."""
    slots = _power_of_two(min(4 * widest, max(2 * widest, CACHED)))
    return slots * sizes.slot + (8 + 2 * sizes.ids) * widest


def rest_bytes(sizes: EntrySizes, clusters: int, entries: int) -> int:
    """Bytes of the remaining rounds in the memory of one process: rows and clusters, twice, and all merges."""
    return int(REST_COPIES * sizes.entry * entries) + (60 + 12 * sizes.ids) * clusters


def alone_bytes(sizes: EntrySizes, clusters: int, budget: Budget) -> int:
    """Bytes that a process may use alone: the others keep only vectors over clusters, perhaps of the round before."""
    kept = (budget.processes - 1) * 2 * VECTORS * sizes.ids * clusters
    return max(budget.process, min(budget.alone_memory, budget.memory - kept))


def rest_fits(sizes: EntrySizes, clusters: int, entries: int, budget: Budget) -> bool:
    """Whether the remaining rounds can run in the memory of one process."""
    return rest_bytes(sizes, clusters, entries) <= alone_bytes(sizes, clusters, budget)


def good_fits(sizes: EntrySizes, clusters: int, entries: int, budget: Budget) -> bool:
    """Whether good merges can end the run in the memory of one process."""
    return good_bytes(sizes, clusters, entries) <= alone_bytes(sizes, clusters, budget)


def good_bytes(sizes: EntrySizes, clusters: int, entries: int) -> int:
    """Bytes of good merges: rows once, clusters with their chains, seats and merges."""
    return (sizes.entry - TIE) * entries + (110 + 16 * sizes.ids) * clusters


def good_threads(sizes: EntrySizes, clusters: int, entries: int, budget: Budget) -> int:
    """Return how many shards a process makes good merges in at a time: one, if there are few of them."""
    room = good_shard_entries(sizes, clusters, budget, budget.threads)
    return 1 if entries + sizes.good_load * clusters <= FEW_GOOD * room else budget.threads


def good_shard_entries(sizes: EntrySizes, clusters: int, budget: Budget, threads: int) -> int:
    """Return the load that a shard for good merges may have; 0 if nothing is left for any."""
    task = (budget.process - sizes.good_vectors(threads) * clusters) / threads
    return max(0, int(task / sizes.good_task(1)))


def settled_entries(sizes: EntrySizes, clusters: int, budget: Budget) -> int:
    """Return the load that a shard may have when its rows are folded after good merges."""
    task = (budget.process - sizes.vectors(budget.threads) * clusters) / budget.threads
    return max(1, int(task / sizes.task(1)))


def good_task_bytes(sizes: EntrySizes, clusters: int, entries: int, budget: Budget) -> int:
    """Return the bytes with which a process can do good merges in eight shards: with more, hubs may be on their own."""
    shard = sizes.good_task((entries + sizes.good_load * clusters) / 8)
    return int(sizes.good_vectors(budget.threads) * clusters + budget.threads * shard)


def good_room(sizes: EntrySizes, clusters: int, budget: Budget) -> int:
    """Return the most edges for which good merges have room."""
    room = alone_bytes(sizes, clusters, budget) - good_bytes(sizes, clusters, 0)
    return max(0, room) // (2 * (sizes.entry - TIE))


def finisher_bytes(sizes: EntrySizes, clusters: int, edges: int) -> int:
    """Bytes of the finisher: clusters and merges; records of edges, with all rows at first, then with what is made."""
    ids = cluster_id_dtype(max(2 * edges, clusters)).itemsize
    record = max(RECORD_LEAST, 8 + 4 * ids)
    made = SLOT_BYTES + ROW_SHARE * (ids + CHUNK_BYTES)
    return (116 + 12 * sizes.ids) * clusters + int((record + max(2 * sizes.entry, made)) * edges)


def finisher_room(sizes: EntrySizes, clusters: int, budget: Budget) -> int:
    """Return the most edges that the finisher has room for."""
    room = alone_bytes(sizes, clusters, budget)
    most = range(1, max(1, room // RECORD_LEAST))
    return bisect_right(most, room, key=lambda edges: finisher_bytes(sizes, clusters, edges))


def due_bytes(sizes: EntrySizes, within: bool, clusters: int, entries: int) -> int:
    """Bytes with which a process can end a run, exact or within a factor, from such a state where rounds do not pay."""
    if within:
        return good_bytes(sizes, clusters, entries)
    return finisher_bytes(sizes, clusters, entries // 2)


def ending_bytes(sizes: EntrySizes, clusters: int, entries: int) -> int:
    """Bytes with which a process can end a run from such a state: rounds in memory, then the finisher."""
    return max(rest_bytes(sizes, clusters, entries), finisher_bytes(sizes, clusters, entries // 2))


def _power_of_two(least: int) -> int:
    """Return the size of a table with at least this many slots."""
    return max(16, 1 << max(0, least - 1).bit_length())
