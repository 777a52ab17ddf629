"""What tasks receive and return: a job, and receipts that state what the work cost."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.names import attempt_folder, unique
from dask_rac.base.settings import Settings
from dask_rac.base.spans import even_spans
from dask_rac.engines.contract import Limits, Work
from dask_rac.engines.linkage import needs_counts, rule_of
from dask_rac.engines.rows.needs import EntrySizes, Room
from dask_rac.files.buffers import REQUEST
from dask_rac.files.folder import Folder
from dask_rac.files.pieces import CHECKSUM
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.arrays import Rule
from dask_rac.store.manifest import ShardRecord

Kinds = tuple[tuple[str, str], ...]
"""Names of columns and their dtypes."""
PIECE_GROUPS = 8  # groups of moved rows on disk, so that the first can be deleted before the last are read


@dataclass(frozen=True)
class Job:
    """What every task of a step receives."""

    url: str
    settings: Settings
    nodes: int
    ids: str
    """dtype of ids, positions and sizes."""
    counts: str
    """dtype of the number of edges folded into one."""
    weights: str
    """dtype of the weights in the input."""
    folder: str
    """Where this step writes its shards; the name is unique."""
    shard_entries: int
    """Load that a shard may have, in entries."""
    limits: Limits = field(default_factory=Limits)
    settled_entries: int = 0
    """Load that a shard may have after good merges; 0 for any."""
    good_threads: int = 0
    """Shards in which a process makes good merges at a time; 0 for as many as it has threads."""
    room: Room | None = None
    """What the tasks may hold; None for as much as it takes."""
    asked_entries: int = 0
    """Entries of a shard of the first state, if the user has asked for a number of shards: no later one has more."""

    @property
    def store(self) -> Folder:
        """The folder of the run."""
        return Folder(self.url)

    @property
    def attempt(self) -> str:
        """The unique name of this attempt at the step."""
        return self.folder.rpartition("/")[2]

    def rule(self, round_: int) -> Rule:
        """Return how entries become W after `round_` rounds, whose weights are those of the input or folded."""
        rule = rule_of(self.settings)
        return rule._replace(scale=1.0) if round_ else rule

    def replies(self, clusters: int) -> int:
        """Bytes that a task on a state with this many clusters may have on their way from an object store."""
        return self.room.replies(self.nodes, clusters) if self.room is not None else REQUEST

    def counted(self, round_: int) -> bool:
        """Whether a state after `round_` rounds has counts."""
        return round_ > 0 and needs_counts(self.settings)

    def columns(self, round_: int) -> dict[str, np.dtype[Any]]:
        """Return the columns of entries on disk; the tie of an unfolded edge follows from its nodes."""
        kinds = {"neighbour": self.ids, "weight": "float64" if round_ else self.weights}
        if round_:
            kinds["tie"] = "uint16"
        if self.counted(round_):
            kinds["edges"] = self.counts
        return {name: np.dtype(kind) for name, kind in kinds.items()}


class Clock:
    """Seconds and bytes of each phase of a task."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.bytes: dict[str, int] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Time the block."""
        started = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - started

    def count(self, name: str, arrays: Sequence[NDArray[Any]]) -> None:
        """Add the bytes read from or written to disk."""
        self.bytes[name] = self.bytes.get(name, 0) + sum(array.nbytes for array in arrays)


@dataclass(frozen=True)
class Receipt:
    """What a task did and what it cost."""

    seconds: dict[str, float] = field(default_factory=dict, kw_only=True)
    """Seconds of each phase."""
    bytes: dict[str, int] = field(default_factory=dict, kw_only=True)
    """Bytes read and written."""


@dataclass(frozen=True)
class Borders(Receipt):
    """What a round does, and where the next state is cut."""

    live: int
    merges: int
    updates: int
    places: tuple[int, ...]
    """Old position of the first leader of each new shard, then the end."""
    bases: tuple[int, ...]
    """New position of the first cluster of each new shard, then the end."""
    entries: tuple[int, ...]
    """Number of entries that each new shard is folded from."""
    short: int = 0
    """Bytes that a process would need to fold them, if it may not use as many; then nothing is folded."""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to fold, or no room to do so."""
        return not self.merges or self.short > 0


@dataclass(frozen=True)
class Moved(Receipt):
    """Rows that are sent to new shards, or to groups of them."""

    names: tuple[str, ...]
    """The files, each for several of them in a row; empty if no row goes to any."""
    clusters: Kinds
    """Columns of clusters, as they are in each piece, and their dtypes."""
    columns: Kinds
    """Columns of entries, which follow them."""
    rows: NDArray[np.int64]
    """Number of rows before those of each, then the total."""
    entries: NDArray[np.int64]
    """Number of entries before those of each, then the total."""
    disk: tuple[int, ...]
    """Bytes of each file."""

    def piece(self, number: int) -> Arrival | None:
        """Return the rows that go to one of them, if any."""
        ranges = even_spans(len(self.rows) - 1, len(self.names))
        group, (first, _) = next((k, r) for k, r in enumerate(ranges) if r[0] <= number < r[1])
        rows, entries = (int(starts[number + 1] - starts[number]) for starts in (self.rows, self.entries))
        if not rows:
            return None
        offset = sum(
            int(starts[number] - starts[first]) * sum(np.dtype(kind).itemsize for _, kind in kinds)
            for starts, kinds in ((self.rows, self.clusters), (self.entries, self.columns))
        )
        offset += CHECKSUM * (number - first)
        return Arrival(self.names[group], offset, self.clusters, self.columns, rows, entries)


@dataclass(frozen=True)
class Gathered(Receipt):
    """Rows that a batch of shards has sent to a group of new shards, in the order of these."""

    group: int
    parts: tuple[Moved, ...]


@dataclass(frozen=True)
class Arrival:
    """Rows that were sent to one new shard, or group: a piece of a file."""

    name: str
    offset: int
    """Byte at which it begins."""
    clusters: Kinds
    columns: Kinds
    rows: int
    entries: int

    @property
    def bytes(self) -> int:
        """Bytes of the rows."""
        cluster, entry = (sum(np.dtype(kind).itemsize for _, kind in kinds) for kinds in (self.clusters, self.columns))
        return self.rows * cluster + self.entries * entry


def arrivals(moved: Iterable[Moved | None], number: int) -> list[Arrival]:
    """Return the rows that go to one new shard, or group, from wherever there are any."""
    return [arrival for shard in moved if shard is not None and (arrival := shard.piece(number))]


@dataclass(frozen=True)
class Piece:
    """A range of rows in a group on disk."""

    name: str
    columns: tuple[str, ...]
    """Columns of entries, as stored on disk."""
    rows: tuple[int, int]
    """Start and stop."""
    entries: tuple[int, int]
    """Start and stop."""


@dataclass(frozen=True)
class Arranged(Receipt):
    """Where every cluster goes for good merges."""

    name: str
    """The group with the new position of each."""
    live: int
    """Clusters with a nearest; the others come last and are in no shard."""
    bases: tuple[int, ...]
    """New position of the first cluster of each new shard, then the end."""
    short: int = 0
    """Bytes that a process would need to merge in them, if it may not use as many; then nothing is merged."""

    @property
    def idle(self) -> bool:
        """Whether there is nothing to merge, or no room to do so."""
        return not self.live or self.short > 0


@dataclass(frozen=True)
class United(Receipt):
    """Clusters of a new shard after good merges, with rows that name clusters of other shards as they were before."""

    number: int
    name: str
    """The group with what became of each, and with their ids, sizes and last heights: every settling task reads it."""
    rows: str
    """The group with their rows."""
    columns: tuple[str, ...]
    """Columns of entries, as stored on disk."""
    clusters: int
    cuts: tuple[tuple[int, int], ...]
    """Where its rows are cut into shards of the next state: the first row and entry of each, then the ends."""
    disk: int
    """Bytes of the rows."""
    merges: TableRecord


@dataclass(frozen=True)
class Folded(Receipt):
    """A shard of the next state."""

    number: int
    shard: ShardRecord
    later: int
    """Entries that point to a later cluster."""
    merges: TableRecord


def piece_ranges(receivers: int) -> list[tuple[int, int]]:
    """Return which new shards, or groups of them, have their pieces in the same file: start and stop of each."""
    return even_spans(receivers, PIECE_GROUPS)


def fresh_name(job: Job, name: str) -> str:
    """Return a unique name in the step's folder."""
    return unique(f"{job.folder}/{name}")


def new_job(work: Work, nodes: int, edges: int, shard_entries: int) -> Job:
    """What the tasks of a step receive."""
    room = Room(EntrySizes.of(work.settings, nodes, edges, work.header.weights), work.budget)
    return Job(
        work.store.url,
        work.settings,
        nodes,
        cluster_id_dtype(nodes).name,
        cluster_id_dtype(max(nodes, 2 * edges)).name,
        work.header.weights,
        attempt_folder(work.attempt),
        shard_entries,
        limits=replace(work.limits, part_merges=min(work.limits.part_merges, room.part_merges)),
        room=room,
        asked_entries=-(-2 * edges // work.header.shards) if work.header.shards else 0,
    )
