"""What tasks are told and what they give back: a job, and receipts with what the work has cost."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.config import Settings
from dask_rac.kernels.arrays import Rule
from dask_rac.shard import needs_counts, rule_of
from dask_rac.store.files import Folder
from dask_rac.store.manifest import ShardRecord
from dask_rac.store.tables import TableRecord

PIECE_GROUPS = 8  # into which the rows that move are cut, so that the first can go before the last are read


@dataclass(frozen=True)
class Job:
    """What every task of a step is told."""

    url: str
    settings: Settings
    nodes: int
    ids: str
    """dtype of ids, positions and sizes."""
    counts: str
    """dtype of how many edges are folded into one."""
    weights: str
    """dtype of the weights as they were given."""
    folder: str
    """Where this step writes its shards, by a name of its own."""
    shard_entries: int
    """Entries that a shard may have."""

    @property
    def store(self) -> Folder:
        """The folder of the run."""
        return Folder(self.url)

    @property
    def attempt(self) -> str:
        """The step's name of its own."""
        return self.folder.rpartition("/")[2]

    def rule(self, round_: int) -> Rule:
        """How entries become W, in a state after so many rounds: weights as they were given, or folded ones."""
        rule = rule_of(self.settings)
        return rule._replace(scale=1.0) if round_ else rule

    def counted(self, round_: int) -> bool:
        """Whether a state after so many rounds has counts."""
        return round_ > 0 and needs_counts(rule_of(self.settings))

    def columns(self, round_: int) -> dict[str, np.dtype[Any]]:
        """The columns of entries that a state has on disk; the tie of single edges follows from their nodes."""
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
        """Time what is done in the block."""
        started = perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + perf_counter() - started

    def count(self, name: str, arrays: Sequence[NDArray[Any]]) -> None:
        """Add up what went through the disk."""
        self.bytes[name] = self.bytes.get(name, 0) + sum(array.nbytes for array in arrays)


@dataclass(frozen=True)
class Receipt:
    """What a task did, and what it cost."""

    seconds: dict[str, float] = field(default_factory=dict, kw_only=True)
    """Of each phase."""
    bytes: dict[str, int] = field(default_factory=dict, kw_only=True)
    """Read and written."""


@dataclass(frozen=True)
class Matched(Receipt):
    """What the clusters of a shard come to."""

    live: int
    merges: int
    updates: int
    entries: NDArray[np.int64]
    """Entries that go to the leaders of each bin."""
    clusters: NDArray[np.int64]
    """Clusters that stay or lead in each bin."""


@dataclass(frozen=True)
class Cut(Receipt):
    """Where the next state is cut."""

    live: int
    merges: int
    updates: int
    places: tuple[int, ...]
    """Old position of the first leader of each new shard, and the end."""
    bases: tuple[int, ...]
    """New position of the first cluster of each new shard, and the end."""
    entries: tuple[int, ...]
    """Entries that each new shard is folded from."""


@dataclass(frozen=True)
class Moved(Receipt):
    """Rows that a shard sends to others."""

    names: tuple[str, ...]
    """One for each group of new shards."""
    columns: tuple[str, ...]
    """Of entries, as they lie on disk."""
    rows: tuple[int, ...]
    """Rows before each new shard's, and all."""
    entries: tuple[int, ...]
    """Entries before each new shard's, and all."""
    disk: tuple[int, ...]
    """Bytes of each group of new shards."""

    def piece(self, number: int) -> Piece:
        """What goes to one new shard."""
        shards = len(self.rows) - 1
        group, (first, _) = next((k, r) for k, r in enumerate(piece_ranges(shards)) if r[0] <= number < r[1])
        rows = self.rows[number] - self.rows[first], self.rows[number + 1] - self.rows[first]
        entries = self.entries[number] - self.entries[first], self.entries[number + 1] - self.entries[first]
        return Piece(self.names[group], self.columns, rows, entries)


@dataclass(frozen=True)
class Piece:
    """Rows in a group on disk, of a shard or of rows that moved."""

    name: str
    columns: tuple[str, ...]
    """Of entries, as they lie on disk."""
    rows: tuple[int, int]
    """First and last."""
    entries: tuple[int, int]
    """First and last."""


@dataclass(frozen=True)
class Folded(Receipt):
    """A shard of the next state."""

    number: int
    shard: ShardRecord
    later: int
    """Entries that point to a later cluster."""
    merges: TableRecord


def piece_ranges(shards: int) -> list[tuple[int, int]]:
    """The groups of new shards whose pieces lie together: first and last of each."""
    cuts = sorted({shards * group // PIECE_GROUPS for group in range(PIECE_GROUPS + 1)})
    return list(pairwise(cuts))


def fresh_name(job: Job, name: str) -> str:
    """A name in the step's folder that nobody else has."""
    return f"{job.folder}/{name}-{uuid.uuid4().hex[:8]}"
