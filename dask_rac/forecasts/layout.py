"""The bytes and requests of a round, by the rules by which states, and rows that move, are laid out in a store."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dask_rac.engines.contract import Limits
from dask_rac.engines.rows.groups import Groups, groups_of
from dask_rac.engines.rows.needs import SHRINKS, EntrySizes
from dask_rac.engines.rows.receipts import piece_ranges
from dask_rac.engines.rows.requests import key_requests
from dask_rac.files.buffers import REQUEST
from dask_rac.forecasts.decay import Decay, Level

HEIGHT = 8  # bytes of the height of a cluster, or of its last merge
FIRST_COLUMNS, COLUMNS = 3, 6  # of clusters, in the state of the nodes and in later ones
MERGE_BYTES = 20  # of a merge on disk, about
DELETING = 3  # requests that delete a file on its own: what is in it, what it is, and its deletion


@dataclass(frozen=True)
class Traffic:
    """What the tasks of a layer read and write."""

    read: float = 0.0
    """Bytes."""
    written: float = 0.0
    """Bytes."""
    reads: float = 0.0
    """Requests of an object store."""
    writes: float = 0.0
    """Requests of an object store."""

    def __add__(self, other: Traffic) -> Traffic:
        return Traffic(
            self.read + other.read, self.written + other.written, self.reads + other.reads, self.writes + other.writes
        )


@dataclass(frozen=True)
class Shape:
    """The states before and after a round, and how they are cut."""

    number: int
    """Of the round, from 1."""
    before: Level
    after: Level
    shards: int
    shards_after: int
    processes: int
    sizes: EntrySizes
    decay: Decay
    limits: Limits = field(default_factory=Limits)

    @classmethod
    def of_state(cls, level: Level, shards: int, sizes: EntrySizes) -> Shape:
        """Return the first state, as far as its own bytes go."""
        return cls(1, level, level, shards, 1, 1, sizes, Decay(()))

    @property
    def first(self) -> bool:
        """Whether clusters are nodes yet."""
        return self.number == 1

    @property
    def groups(self) -> Groups | None:
        """By way of which rows move; None if straight from shard to shard."""
        return groups_of(self.shards) if self.shards > self.limits.direct_shards else None

    @property
    def moved_rows(self) -> float:
        """Rows that go to another shard."""
        return self.decay.scatter * self.before.merges * (1 - 1 / self.shards_after)

    @property
    def moved_entries(self) -> float:
        """Entries of these rows."""
        return self.moved_rows * self.before.entries / max(1.0, self.before.clusters)

    @property
    def moved_bytes(self) -> float:
        """Bytes of rows that move, with their clusters."""
        ids = self.sizes.ids
        own = 3 * ids if self.first else 4 * ids + HEIGHT
        return self.moved_entries * self.disk_entry(self.first) + self.moved_rows * own

    def disk_entry(self, first: bool) -> float:
        """Bytes of an entry on disk, of the first state or of a later one."""
        return self.sizes.ids + self.sizes.weight if first else self.sizes.packed / SHRINKS

    def cluster_bytes(self, first: bool) -> int:
        """Bytes of a cluster on disk, of the first state or of a later one."""
        return 2 * self.sizes.ids + HEIGHT if first else 4 * self.sizes.ids + 2 * HEIGHT

    @property
    def state_bytes(self) -> float:
        """Bytes of the state before the round."""
        return self.before.entries * self.disk_entry(self.first) + self.before.clusters * self.cluster_bytes(self.first)

    @property
    def next_bytes(self) -> float:
        """Bytes of the state after the round."""
        return self.after.entries * self.disk_entry(False) + self.after.clusters * self.cluster_bytes(False)

    @property
    def vector_bytes(self) -> float:
        """Bytes of the vectors that every process reads: nearest, and later ids and sizes."""
        return self.before.clusters * self.sizes.ids * (1 if self.first else 3)

    def vectors(self, layer: str) -> Traffic:
        """The bytes of vectors that processes read for the tasks of a layer; on a disk they stay in the page cache."""
        column = self.before.clusters * self.sizes.ids
        if layer == "split":  # one process has read it for `cut`
            return Traffic((self.processes - 1) * column)
        return Traffic(0 if self.first or layer != "fold" else 2 * self.processes * column)

    @property
    def entry_columns(self) -> int:
        """Arrays of entries of a shard: in the first state two, later four or five, with weights in two parts."""
        if self.first:
            return 2
        counted = round(self.sizes.packed / SHRINKS) > self.sizes.ids + 2 + self._weight
        return 2 + self._weight_columns + counted

    @property
    def _weight(self) -> int:
        return 6 if self.sizes.weight == 4 else 8

    @property
    def _weight_columns(self) -> int:
        return 2 if self._weight == 6 else 1

    def layers(self) -> dict[str, Traffic]:
        """What each layer of tasks reads and writes, over all tasks."""
        found = {"cut": self._cut(), "split": self._split(), "fold": self._fold()}
        return found if self.groups is None else found | {"copy": self._copy(self.groups), "gather": self._gather()}

    def _copy(self, groups: Groups) -> Traffic:
        """The columns that every process needs, from every shard to as many files as there are groups."""
        size = self.before.clusters * self.sizes.ids
        columns = 2 if self.first else 4  # nearest and length, later ids and sizes
        reads = self.shards * (columns * requests_of(size / self.shards) + 1)
        return Traffic(columns * size, columns * size, reads, columns * groups.count)

    @property
    def _sources(self) -> int:
        """Files in which a column of all clusters is: one for each shard, or copies of many."""
        return self.shards if self.groups is None else self.groups.count

    @property
    def _column_reads(self) -> int:
        """Requests that read such a column."""
        return self._sources * requests_of(self.before.clusters * self.sizes.ids / self._sources)

    @property
    def _metadata_files(self) -> int:
        """Files of which a process that wants such a column must ask for the metadata, too."""
        return self.shards if self.groups is None else 0

    def _cut(self) -> Traffic:
        """Two vectors over all clusters; the metadata of every shard, unless there are copies."""
        column = self.before.clusters * self.sizes.ids
        return Traffic(2 * column, 0, 2 * self._column_reads + self._metadata_files)

    def _split(self) -> Traffic:
        """Columns of clusters and of entries, and what moves; in every process but one, `nearest` and the metadata."""
        own = 0 if self.first else 2 * self.sizes.ids + HEIGHT
        entries = self.decay.spread * self.before.entries * self.disk_entry(self.first)
        column = entries / self.entry_columns / self.shards
        reads = self.shards * (1 if self.first else 4)
        reads += (self.shards - 1) * self.entry_columns * requests_of(column)  # nothing leaves the first shard
        reads += (self.processes - 1) * (self._column_reads + self._metadata_files)
        return Traffic(self.before.clusters * own + entries, self.moved_bytes, reads, self.sent_files)

    @property
    def _receivers(self) -> int:
        """New shards, or the groups of them that rows are sent to."""
        return self.shards_after if self.groups is None else self.groups.count

    @property
    def sent_files(self) -> float:
        """Files of rows that move: of each shard one for each range of receivers that it sends to."""
        ranges = len(piece_ranges(self._receivers))
        return self.shards * min((ranges + 1) / 2, self.moved_rows / self.shards)

    @property
    def gathered_files(self) -> float:
        """Files of rows that are sorted by the shards of a group."""
        return 0.0 if self.groups is None else min(self._half(self.groups.count), self.moved_rows)

    @property
    def _pieces(self) -> float:
        """Pieces in these files that are not empty: rows go to a leader, which comes before them, at random."""
        return occupied(self.shards * self._receivers / 2, self.moved_rows)

    def _half(self, groups: int) -> float:
        """Pairs of groups of which the second does not come before the first: rows go to a leader before them."""
        return groups * (groups + 1) / 2

    def deletions(self) -> float:
        """Requests that delete rows that have moved, together by range of receivers and by group, and an old state.

        The files of shards in which nothing merges are deleted, too, each on its own.
        """
        ranges = len(piece_ranges(self._receivers))
        idle = self.shards_after * math.exp(-self.before.merges / self.shards_after)
        found = ranges * key_requests(self.sent_files / ranges) + self.object_requests + DELETING * idle
        if self.groups is None:
            return found
        found += key_requests((2 if self.first else 4) * self.groups.count)  # of copies
        return found + min(self.groups.count, self.gathered_files) * key_requests(
            self.gathered_files / self.groups.count
        )

    @property
    def object_requests(self) -> int:
        """Requests that list, or delete, all objects of a state."""
        columns = FIRST_COLUMNS if self.first else COLUMNS
        return key_requests(self.shards * (1 + columns + self.entry_columns))

    def _gather(self) -> Traffic:
        """What has moved, once more: a piece from every shard to every group, sorted by the shards of the group."""
        reads = self._pieces * requests_of(self.moved_bytes / max(1.0, self._pieces))
        return Traffic(self.moved_bytes, self.moved_bytes, reads, self.gathered_files)

    def _fold(self) -> Traffic:
        """The shards before, what has moved to them, and the shards and merges that are written."""
        entry, moved = self.disk_entry(self.first), self.moved_rows
        arrived = self._pieces
        if self.groups is not None:
            arrived = occupied(self.shards_after * (self.groups.count + 1) / 2, moved)
        overlaps = self.shards + self.shards_after - 1
        column = self.before.entries * entry / self.entry_columns / overlaps
        kept = 2 if self.first else 5  # columns of clusters of a shard
        reads: float = overlaps * (kept + self.entry_columns * requests_of(column))
        reads += arrived * requests_of(self.moved_bytes / max(1.0, arrived))
        reads += 0 if self.first else self.processes * self._column_reads * 2
        columns = COLUMNS + self._after().entry_columns
        own = self.sizes.ids + HEIGHT if self.first else 3 * self.sizes.ids + 2 * HEIGHT
        read = self.before.entries * entry + self.before.clusters * own + self.moved_bytes
        merges = self.before.merges * MERGE_BYTES
        return Traffic(read, self.next_bytes + merges, reads, self.shards_after * (columns + 2))

    def _after(self) -> Shape:
        """The next round, as far as its columns go."""
        return Shape(2, self.after, self.after, 1, 1, 1, self.sizes, self.decay)


def requests_of(size: float) -> int:
    """Requests for so many successive bytes."""
    return max(1, -(-int(size) // REQUEST))


def occupied(places: float, things: float) -> float:
    """Places in which there is at least one of some things that fall at random."""
    if places < 1:
        return 0.0
    return float(places * -np.expm1(things * np.log1p(-1 / places))) if places > 1 else min(1.0, things)
