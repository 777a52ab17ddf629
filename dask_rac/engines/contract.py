"""What an engine is: everything that a way of clustering has to provide, and everything it is given.

A run with a store is a loop (`runs.loop`) that knows nothing of linkage, rows or matrices:

    step = engine.begin(given, work)
    while commit(step) leaves a state:
        step = engine.advance(state, work)

An engine turns a state into the next one. It reads and writes arrays in the folder of the run, through tasks that it
hands to `Work.compute`, and returns a `Step`: the next state, the merges that it has written, and the records of its
rounds. The loop writes the manifest that makes the step count, deletes what no state needs any more, and resumes from
the newest sound state after whatever stopped the run.

To add an engine: a folder in `engines` with a class that has the members of `Engine`, its kernels in `kernels`, and one
line in `engines/__init__.py`. `tests/engines` runs its laws over every engine that is registered there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import ResourceError
from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.names import attempt_name
from dask_rac.base.settings import Settings
from dask_rac.base.text import size_text
from dask_rac.edges.source import BATCH_ROWS, EdgeSource
from dask_rac.files.folder import Folder
from dask_rac.files.node_names import NodeNames
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.arrays import Ends, Merges
from dask_rac.store.header import Header
from dask_rac.store.manifest import Facts, State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.scheduler import Scheduler
from dask_rac.tasks.task_graph import Results, TaskGraph
from dask_rac.tasks.team import Team

EdgeArrays = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""Sources, targets and weights."""


@dataclass(frozen=True)
class Limits:
    """Numbers that decide how a run is done and never what it computes; tests hand over smaller ones."""

    hand_over: float = 1 / 32
    """The finisher takes over after a round that takes away fewer than this fraction of the edges, unless it merges so
    many clusters that few rounds are left: `engines/rows/pace.py`."""
    good_share: float = 0.1
    """Within a factor 1 + epsilon, exact rounds end after one that merges fewer than this fraction of the clusters."""
    unit_rows: int = 16_000_000
    """The most rows of the input that one task reads."""
    direct_shards: int = 512
    """The most shards that read from each other what has moved; more exchange it by way of groups of shards."""
    direct_blocks: int = 2**22
    """The most pairs of shards, over all pieces of the input, for which edges are written pair by pair."""
    batch_rows: int = BATCH_ROWS
    """Rows of the input that a task decodes at a time."""
    text_bytes: int = 2**27
    """Bytes of names and edges that a task numbers at a time, where ids are text."""
    part_names: int = 2**20
    """The most names in one part of those of a store."""
    alone: int = 1024
    """Slots of a matrix for which one thread does all rounds that are left."""
    dense_share: float = 1 / 8
    """With more than this fraction of the clusters to search for, all rows of a matrix are folded and scanned."""
    shrink_share: float = 0.8
    """With less than this fraction of the slots of a matrix alive, its rows are closed up."""
    part_merges: int = 4_000_000
    """The most merges in one file, where they are not cut by shard."""
    audit_rows: int = 4_000_000
    """Rows of the input that one thread of an audit reads at a time."""
    audit_edge: int = 48
    """Bytes that an edge is expected to take while an audit reads it: twice its columns of 8 bytes each."""
    durable_seconds: float = 60
    """Seconds of work that a power failure may cost beyond the round in progress."""
    disk_share: float = 3.0
    """What states may take on disk, of the size of the input: above this no state but the last one is kept."""
    small_states: int = 2**26
    """Bytes that states may take whatever the size of the input: a disk without them is full in any case."""
    span_pairs: int = 8 * 10**9
    """Pairs that a thread spans in one step, by single linkage of all pairs: about a minute."""
    certain_share: float = 0.003
    """Certain rounds end after one that merges fewer than this fraction of the clusters."""
    sample_rows: int = 3_000
    """The fewest vectors on which certain rounds are tried first, if there are as many."""
    sample_share: float = 1 / 160
    """The fraction of the vectors on which they are tried, if that is more: about a hundredth of the work of a run."""
    degrees: tuple[int, ...] = (8, 16, 32, 64, 128, 256, 512, 1024)
    """Near pairs per vector to choose from, in ascending order."""
    stage_degree: int = 2_048
    """The most near pairs per cluster in a later stage."""
    stage_share: float = 0.05
    """A stage that merges fewer than this fraction of the clusters is the last one: there would be no end."""
    stage_sample: int = 1_000
    """Clusters whose pairs show how far a stage may reach."""
    band_pairs: int = 2**31
    """Pairs of vectors that one task of a pass goes through: about a minute of work, which a kill may cost."""
    band_entries: int = 2**25
    """Entries of the triangle of clusters that one thread of a pass holds."""
    near: int = 20
    """Neighbours of each vector from which the points engine begins."""
    lists: int = 24
    """The most near clusters that it lists for each cluster."""
    alike: int = 2048
    """Up to this many vectors it begins without a graph of neighbours, and looks for the nearest among all."""
    close_share: float = 0.95
    """With less than this fraction of the slots of the points engine alive, they are closed up."""
    query_rows: int = 512
    """The most clusters that a thread of the points engine searches for at a time."""
    query_tile: int = 2**19
    """Products of the points engine in a tile."""
    save_seconds: float = 60
    """Seconds of rounds in a step of the points engine, after which its state is written."""


@dataclass(frozen=True)
class MergeList:
    """What a run in memory found."""

    nodes: int
    """Nodes of the graph."""
    merges: Merges
    """Merges below a merge come before it."""
    round: NDArray[np.int32]
    """The round of each merge."""
    records: Sequence[RoundRecord]
    """One for each round."""
    loops: int = 0
    """Self loops that were dropped."""
    largest: float = -math.inf
    """The largest weight of an edge; minus infinity if there is none."""
    first: int = 0
    """The smallest id, if the number of nodes was not given."""
    ends: Ends | None = None
    """By single linkage, the edge that made each merge."""
    stalled: int = 0
    """Edges that were left when rounds hardly made progress and the finisher had no room; 0 at the end."""
    names: NodeNames | None = None
    """The names of the nodes, if ids were text."""
    ratio: NDArray[np.float64] | None = None
    """With epsilon, how far each merge was from the nearest there was, at most; None if all were the nearest."""


@dataclass(frozen=True)
class Expected:
    """Edges as far as a plan must know them; they need not exist yet."""

    nodes: int
    rows: int
    """Edges, or rows of a table of edges."""
    weights: str
    """dtype."""
    bytes: int
    """On disk."""
    whole_rows: int = 0
    """Rows that can only be decoded together: those of a chunk."""
    pairs: Any = None
    """For all pairs, the `AllPairs` themselves, if they exist: how many clusters near pairs leave shows in a sample."""
    dimensions: int = 0
    """For all pairs of vectors, how many values each has; 0 if that is not known, or if distances are given."""
    sparse: bool = False
    """Whether vectors are sparse."""


@dataclass(frozen=True)
class Passes:
    """How a run goes through all pairs of vectors."""

    pairs: float
    """How often each pair is compared, about."""
    tiles: int
    """The parts into which a pass is cut; a run that was killed goes on with those that are missing."""
    near: str = ""
    """Which pairs are near, such as "within 0.35" or "60 nearest"; empty if that makes no difference."""
    left: int = 0
    """Clusters that are left for a matrix, about."""


@dataclass(frozen=True)
class Sizes:
    """What a run would take, before it runs."""

    shards: int
    """Into which the graph is cut at first."""
    shard_bytes: int
    """Of each, in memory: its entries and its rows."""
    memory: int
    """Bytes of arrays at the peak, in all processes together."""
    disk: int
    """Bytes of the store at the peak, as a rule."""
    graph: TaskGraph
    """The tasks of the first round."""
    node_bytes: int = 0
    """Of the memory: what each process holds for the nodes, whatever the shards."""
    passes: Passes | None = None
    """For all pairs, how often they are gone through, and for what."""
    ending: int = 0
    """The memory with which a run ends in memory as soon as rounds do not pay; 0 if they always do."""


@dataclass(frozen=True)
class Step:
    """What one step did. Nothing of it counts until the loop has committed it."""

    state: State | None
    """What the next step begins with; None when everything is done."""
    merges: tuple[TableRecord, ...] = ()
    """The files of merges that it has written."""
    records: tuple[RoundRecord, ...] = ()
    """One for each round that it has done."""
    scratch: int = 0
    """The most bytes on disk, beside the state and the merges, that it has held at a time."""
    event: Event | None = None
    """What to report once it is committed, if anything."""
    facts: Facts | None = None
    """What reading the edges has shown; only the first step knows."""


class EdgePiece(Protocol):
    """Edges that one thread of an audit reads at a time. It is sent to workers, and knows where its edges are."""

    @property
    def bytes(self) -> int:
        """Bytes that a thread holds while it reads them."""

    def read(self) -> Iterator[EdgeArrays]:
        """Read the edges, some at a time; in all pieces together every undirected edge occurs once."""


class Costs(Protocol):
    """What a task reports of its costs; `engines.rows.receipts.Receipt` is one."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of each phase."""

    @property
    def bytes(self) -> Mapping[str, int]:
        """Bytes that were read and written."""


@dataclass
class Work:
    """What a run lends its engine for one step: where to write, who computes, what is known."""

    store: Folder
    """The folder of the run."""
    header: Header
    """What the run computes, and from what."""
    scheduler: Scheduler
    budget: Budget
    report: Listener
    limits: Limits = field(default_factory=Limits)
    step: int = 0
    """The number of this step."""
    facts: Facts | None = None
    """What reading the edges has shown; None in the first step."""
    merged: int = 0
    """Merges committed so far."""
    last: RoundRecord | None = None
    """What the last round did."""
    recent: Sequence[RoundRecord] = ()
    """What the last few rounds did, the oldest first."""
    attempt: str = ""
    """The name of this step, which no other has: its folder in `rounds`, and part of the names of its tasks."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase of the tasks of this step, over all of them."""
    bytes: dict[str, int] = field(default_factory=dict)
    """Bytes that they have read and written."""

    def __post_init__(self) -> None:
        self.attempt = self.attempt or attempt_name(self.step)

    @property
    def settings(self) -> Settings:
        """What the run computes; once the edges have been read, with what absent pairs weigh."""
        return self.header.settings if self.facts is None else self.header.settings.resolved(self.facts.largest)

    def compute(self, graph: TaskGraph, watch: Callable[[str, Any], None] | None = None) -> Results:
        """What the tasks of a graph return; `watch` gets the layer and the result of each task at once."""
        finished, total = 0, len(graph.tasks)
        nodes = self.facts.nodes if self.facts else 0

        def count(layer: str, result: Any) -> None:
            nonlocal finished
            finished += 1
            if watch is not None:
                watch(layer, result)
            self.report(Event("tasks", nodes, self.merged, self.last, finished, total))

        return self.scheduler.compute(graph, count)

    def listening(self) -> AbstractContextManager[None]:
        """While in the block, events that the tasks of this step send are reported."""
        return self.scheduler.listening(self.attempt, self.report)

    def account(self, receipts: Sequence[Costs]) -> None:
        """Add up what tasks have cost."""
        for receipt in receipts:
            for name, seconds in receipt.seconds.items():
                self.seconds[name] = self.seconds.get(name, 0.0) + seconds
            for name, size in receipt.bytes.items():
                self.bytes[name] = self.bytes.get(name, 0) + size

    def require_disk(self, needed: int, what: str, remedy: str, error: type[ResourceError] = ResourceError) -> None:
        """Raise unless the disk of the store has this many bytes left."""
        free = self.store.free_bytes()
        if free is not None and free < needed:
            raise error(f"{self.store.url} has {size_text(free)} free, and {what} may need {size_text(needed)}{remedy}")


class Engine(Protocol):
    """One way of clustering, in memory and through a store.

    Whatever the schedule, an engine must give the merges of sequential HAC for its linkages, bit for bit the same for
    any number of shards, workers and threads, in memory and out of core, interrupted or not. `given` is what the run
    starts from: an `EdgeSource` where the edges are on disk, else what the engine's loader has made of them.
    """

    name: str
    """Unique among engines. It is written to a header or a state where the linkage alone does not imply the engine."""
    linkages: frozenset[str]
    """The linkages for which it is chosen."""
    all_pairs: bool
    """Whether it clusters all pairs of vectors or of a matrix, rather than the edges of a graph.

    Then `given` is a `GivenPairs` in memory, and what the user gave, or its path, with a store.
    """

    def suits(self, given: Expected, settings: Settings) -> bool:
        """Whether it can cluster this input at all, whatever its size."""

    def sizes(self, given: Expected, settings: Settings, shards: int | None, budget: Budget) -> Sizes:
        """Project shards, memory and disk from sizes alone; raise ResourceError, with the remedy, if it cannot fit."""

    def begin(self, given: Any, work: Work) -> Step:
        """Read the input into the first state. Invalid input raises InputError before anything is computed."""

    def advance(self, state: State, work: Work) -> Step:
        """Do one step: a round, or everything that is left if it fits in memory."""

    def in_memory(self, given: Any, settings: Settings, team: Team, report: Listener, limits: Limits) -> MergeList:
        """Do the whole run in the memory of this process. Arrays of `given` that are marked as spare are used up."""

    def pieces(self, source: EdgeSource, unite: bool, work: Work) -> Sequence[EdgePiece]:
        """Cut the edges into what one thread of an audit reads; with `unite`, edges given twice are united first."""
