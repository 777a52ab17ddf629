"""The loop of a run with a store: read the edges, round after round, commit each, clean up, go on from any of them."""

from __future__ import annotations

import errno
import math
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from time import monotonic, perf_counter
from typing import Any

import numpy as np

from dask_rac.checks import check_missing, check_total
from dask_rac.config import HAND_OVER, Event, Progress, RoundRecord, id_dtype, size_text
from dask_rac.driver import new_team
from dask_rac.edges import Graph
from dask_rac.errors import DamagedStoreError, InputError, ResourceError, StoppedError, StoreInUseError
from dask_rac.graphs import Graph as TaskGraph
from dask_rac.graphs import intake_graph, round_graph, scan_graph, single_task
from dask_rac.intake import Built, Routed, Scanned, lay_out, save_rows
from dask_rac.planner import (
    Budget,
    Sizes,
    finisher_room,
    projected_disk,
    rest_fits,
    shard_entries,
    unit_rows,
)
from dask_rac.receipts import Cut, Folded, Job, Matched, Moved, Receipt
from dask_rac.rest import Rest, finish_rest, write_statistics
from dask_rac.shard import starts_of
from dask_rac.store import manifest as manifests
from dask_rac.store.edges import EdgeSource
from dask_rac.store.files import Folder
from dask_rac.store.manifest import Facts, Header, Manifest, State
from dask_rac.upkeep import Sweeper, clean_store
from dask_rac.workers import Results, Scheduler

DURABLE_SECONDS = 60  # of work that a power failure may cost beyond the round under way
DISK_SHARE = 3.0  # of the input's size, above which no older state is kept


@dataclass
class StoredRun:
    """A run on its way."""

    store: Folder
    header: Header
    scheduler: Scheduler
    budget: Budget
    report: Progress
    chain: list[Manifest] = field(default_factory=list)
    exclusive: bool = False
    """Whether this process holds the lock of the store."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds of each phase of the step under way, over all tasks."""
    traffic: dict[str, int] = field(default_factory=dict)
    """Bytes that they read and wrote."""
    _durable: float = field(default_factory=monotonic)
    _began: float = field(default_factory=perf_counter)
    _before: float = 0.0
    _attempt: str = ""

    def go(self, source: EdgeSource | None) -> None:
        """Run to the end, from wherever the store is."""
        self._before = self.chain[-1].seconds if self.chain else 0.0
        if not self.chain:
            assert source is not None
            with self.explained():
                self._ingest(source)
        if len(self.chain) == 1:
            self.report(Event("rounds", self.facts.nodes))
        while (state := self.chain[-1].state) is not None:
            with self.explained():
                self.advance(state)

    def advance(self, state: State) -> None:
        """One step on."""
        if self.rest_is_due(state):
            self._rest(state)
        else:
            self._round(state)

    def begin_with(self, graph: Graph) -> None:
        """Run to the end, from a graph in memory."""
        rows, settings = graph.rows, self.header.settings
        nodes, before = len(rows.start), starts_of(rows.stop - rows.start)
        edges = int(before[-1]) // 2
        sizes = Sizes.of(settings, nodes, edges, self.header.weights)
        room = shard_entries(sizes, nodes, edges, self.budget, self.header.shards)
        self._check_disk(projected_disk(sizes, nodes, edges))
        shards = max(1, -(-2 * edges // room))
        cuts = np.searchsorted(before[:-1], [2 * edges * k // shards for k in range(1, shards)]).tolist()
        bounds = sorted({0, *cuts, nodes})
        spans = [(k, lo, hi) for k, (lo, hi) in enumerate(pairwise(bounds))] or [(0, 0, 0)]
        job = self._begin(step_job(self.store, self.header, nodes, edges, room, 0))
        self.report(Event("ingest", nodes))
        with new_team() as team, _not_resumable(self.store), self.explained():
            built: list[Built] = team.run(save_rows, spans, job, rows)
            state = State(0, nodes, 2 * edges, tuple(receipt.shard for receipt in built))
            _check_mirrors(state, sum(receipt.later for receipt in built))
            size = edges * (2 * sizes.ids + sizes.weight)  # as Parquet it would have about that
            facts = Facts(nodes, edges, size, graph.least, graph.largest, graph.loops, 0)
            self.commit(Manifest(0, "", facts, state, (), (), 0, 0.0), 0)
        self.go(None)

    @property
    def facts(self) -> Facts:
        """What reading the edges has shown."""
        return self.chain[0].facts

    @property
    def merged(self) -> int:
        """Merges so far."""
        return sum(table.rows for manifest in self.chain for table in manifest.merges)

    @property
    def last_record(self) -> RoundRecord | None:
        """What the last round did."""
        return next((record for manifest in reversed(self.chain) for record in reversed(manifest.records)), None)

    @property
    def pays(self) -> bool:
        """Whether another round would merge enough, by the last one."""
        record = self.last_record
        return record is None or record.merges >= HAND_OVER * record.clusters

    def sizes(self) -> Sizes:
        """Bytes of what this run holds."""
        return Sizes.of(self.header.settings, self.facts.nodes, self.facts.edges, self.header.weights)

    def new_job(self, entries: int) -> Job:
        """What the tasks of the next step are told."""
        facts = self.facts
        return self._begin(step_job(self.store, self.header, facts.nodes, facts.edges, entries, len(self.chain)))

    def _begin(self, job: Job) -> Job:
        """Take note of what the step under way is called."""
        self._attempt = job.attempt
        return job

    def _ingest(self, source: EdgeSource) -> None:
        """Check the input, then read it into the first state."""
        settings, n_nodes = self.header.settings, self.header.n_nodes
        token = uuid.uuid4().hex[:8]
        narrow = Sizes.of(settings, 1, 1, self.header.weights)
        rows = unit_rows(narrow, 0, self.budget)
        units = source.units(rows)
        self.report(Event("scan"))
        scanned: list[Scanned] = self.compute(scan_graph(token, source, units, n_nodes, settings)).get("scan", [])
        self.account(scanned)
        top = max((receipt.top for receipt in scanned), default=-1)
        nodes = top + 1 if n_nodes is None else n_nodes
        edges = sum(receipt.rows - receipt.loops for receipt in scanned)
        sizes = Sizes.of(settings, nodes, edges, self.header.weights)
        room = shard_entries(sizes, nodes, edges, self.budget, self.header.shards)
        self._check_disk(projected_disk(sizes, nodes, edges))
        check_total(max((receipt.largest for receipt in scanned), default=0.0), edges)
        if settings.duplicates == "error":
            ends = [receipt.least for receipt in scanned], [receipt.largest for receipt in scanned]
            check_missing(settings, nodes, min(ends[0], default=math.inf), max(ends[1], default=-math.inf))
        layout = lay_out(scanned, nodes, room)
        job = self._begin(step_job(self.store, self.header, nodes, edges, room, 0))
        self.report(Event("ingest", nodes))
        routed: list[list[Routed]]
        built: list[Built]
        rows = unit_rows(sizes, nodes, self.budget)
        results = self.compute(intake_graph(job, source, units, layout, rows))
        routed, built = results.get("route", []), results["build"]
        self.account([piece for pieces in routed for piece in pieces])
        self.account(built)
        conflicts = [receipt.conflict for receipt in built if receipt.conflict]
        if conflicts:
            raise ConflictError(min(conflicts))
        repeats = sum(receipt.repeats for receipt in built) // 2
        state = State(0, nodes, sum(receipt.shard.entries for receipt in built), tuple(r.shard for r in built))
        _check_mirrors(state, sum(receipt.later for receipt in built))
        facts = Facts(
            nodes,
            edges - repeats,
            source.bytes,
            min((receipt.least for receipt in built), default=math.inf),
            max((receipt.largest for receipt in built), default=-math.inf),
            sum(receipt.loops for receipt in scanned),
            repeats,
        )
        check_missing(settings, nodes, facts.least, facts.largest)
        pieces = sum(piece.disk for some in routed for piece in some)
        self.commit(Manifest(0, "", facts, state, (), (), 0, 0.0), pieces)

    def _round(self, state: State) -> None:
        """One round out of core."""
        began = perf_counter()
        sizes = self.sizes()
        room = shard_entries(sizes, self.facts.nodes, self.facts.edges, self.budget, self.header.shards)
        job = self.new_job(room)
        self.check_room(state)
        sweeper = Sweeper(self.store)
        results = self.compute(round_graph(job, state), sweeper)
        matched: list[Matched] = results["match"]
        moved: list[Moved] = [receipt for receipt in results["split"] if receipt is not None]
        folded: list[Folded] = [receipt for receipt in results["fold"] if receipt is not None]
        for layer in (matched, moved, folded):
            self.account(layer)
        places: Cut = results["cut"][0]
        if not places.merges:
            self.commit(replace(self.chain[-1], state=None, merges=(), records=()), 0)
            return
        after = State(
            state.round + 1,
            sum(receipt.shard.clusters for receipt in folded),
            sum(receipt.shard.entries for receipt in folded),
            tuple(receipt.shard for receipt in folded),
        )
        _check_round(places, after, folded)
        due = self.header.settings.finisher and not self.pays
        record = RoundRecord(
            round=after.round,
            clusters=places.live,
            edges=state.entries // 2,
            merges=places.merges,
            nearest_updates=places.updates,
            match_seconds=_seconds(matched) + _seconds(moved),
            fold_seconds=_seconds(folded),
            deferred=due,
        )
        tables = tuple(receipt.merges for receipt in folded if receipt.merges.rows)
        pieces = sweeper.peak - after.bytes
        step = Manifest(len(self.chain), "", self.facts, after, tables, (record,), 0, 0.0)
        self.commit(step, pieces)
        seconds, traffic = perf_counter() - began, sum(self.chain[-1].traffic.values())
        self.report(Event("round", self.facts.nodes, self.merged, record, seconds=seconds, bytes=traffic))

    def rest_is_due(self, state: State) -> bool:
        """Whether what is left goes on in memory; whether it is handed over depends on the data alone."""
        fits = rest_fits(self.sizes(), state.clusters, state.entries, self.budget)
        if self.header.settings.finisher and not self.pays:
            return fits and state.entries // 2 <= finisher_room(self.budget)
        if self.header.shards is None:
            return fits
        return fits and state.entries * self.header.shards <= 2 * self.facts.edges

    def _rest(self, state: State) -> None:
        """All that is left, in memory."""
        job = self.new_job(0)
        self.report(Event("rest", self.facts.nodes, self.merged))
        room, threads = finisher_room(self.budget), self.budget.threads
        with self.scheduler.listening(job.attempt, self.report):
            graph = single_task(finish_rest, job.attempt, job, state, self.merged, self.pays, room, threads)
            results = self.compute(graph)
        done: Rest = results["finish_rest"][0]
        step = Manifest(len(self.chain), "", self.facts, None, done.merges, done.records, 0, 0.0)
        self.commit(step, 0)

    def commit(self, step: Manifest, pieces: int) -> None:
        """Make a step count, then delete what it does without."""
        disk = self._disk() + pieces + _step_bytes(step)
        peak = max([disk, *(manifest.peak_disk for manifest in self.chain)])
        number = len(self.chain)
        seconds = self._before + perf_counter() - self._began
        step = replace(
            step,
            step=number,
            parent=manifests.parent_digest(self.store, number),
            peak_disk=peak,
            seconds=round(seconds, 3),
            phases=self.phases,
            traffic=self.traffic,
        )
        self.phases, self.traffic = {}, {}
        if self.store.local and (monotonic() - self._durable > DURABLE_SECONDS or step.state is None):
            for name in manifests.file_names(step):
                if self.store.exists(name):
                    self.store.sync(name)
            self._durable = monotonic()
        for record in step.records:
            write_statistics(self.store, record)
        if not manifests.commit(self.store, step):
            raise self._overtaken()
        self.chain.append(step)
        self.clean()

    def clean(self) -> None:
        """Delete everything that no step needs."""
        clean_store(self.store, self.chain, len(self._kept()))

    def _kept(self) -> list[Manifest]:
        """The steps whose state stays: the last, and the one before while there is room for both and the next."""
        last = self.chain[-1:]
        if len(self.chain) < 2 or not last[0].state or not self.chain[-2].state:
            return last
        now, then = last[0].state.bytes, self.chain[-2].state.bytes
        return self.chain[-2:] if then + 2.4 * now <= DISK_SHARE * self.facts.input_bytes else last

    def _disk(self) -> int:
        """Bytes in the store that count."""
        tables = sum(table.bytes for manifest in self.chain for table in manifest.merges)
        states = sum(manifest.state.bytes for manifest in self._kept() if manifest.state) if self.chain else 0
        return tables + states

    def check_room(self, state: State) -> None:
        """Raise if the next round cannot end for want of disk."""
        free, needed = self.store.free_bytes(), int(1.3 * state.bytes)
        if free is not None and free < needed:
            raise StoppedError(
                f"{self.store.url} has {size_text(free)} free, and the next round may need {size_text(needed)}: make "
                f"room, then dask_rac.resume({self.store.url!r})"
            )

    def _check_disk(self, needed: int) -> None:
        """Raise unless there is room for the whole run."""
        free = self.store.free_bytes()
        if free is not None and free < needed:
            raise ResourceError(
                f"{self.store.url} has {size_text(free)} free, and the run may need {size_text(needed)} at its peak: "
                "make room, or use another disk"
            )

    def compute(self, graph: TaskGraph, sweeper: Sweeper | None = None) -> Results:
        """What the tasks of a graph return, with progress."""
        finished, total = 0, len(graph.tasks)

        def watch(layer: str, result: Any) -> None:
            nonlocal finished
            finished += 1
            if sweeper is not None:
                sweeper(layer, result)
            nodes = self.facts.nodes if self.chain else 0
            self.report(Event("tasks", nodes, self.merged, self.last_record, finished, total))

        return self.scheduler.compute(graph, watch)

    def account(self, receipts: Sequence[Receipt]) -> None:
        """Add up what tasks cost."""
        for receipt in receipts:
            for name, seconds in receipt.seconds.items():
                self.phases[name] = self.phases.get(name, 0.0) + seconds
            for name, size in receipt.bytes.items():
                self.traffic[name] = self.traffic.get(name, 0) + size

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Say what to do about a full disk."""
        try:
            yield
        except (OSError, DamagedStoreError) as error:
            if manifests.count_manifests(self.store) > len(self.chain):
                raise self._overtaken() from error
            if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.clean_attempt()
            raise StoppedError(
                f"the disk of {self.store.url} is full: make room, then dask_rac.resume({self.store.url!r})"
            ) from error

    def _overtaken(self) -> StoreInUseError:
        """Another run has done this step: leave nothing of ours, and say so."""
        for folder in ("rounds", "merges", "tree"):
            for name in self.store.names(folder):
                if self._attempt and name.startswith(self._attempt):
                    self.store.remove(f"{folder}/{name}")
        return StoreInUseError(f"{self.store.url}: another run has done step {len(self.chain)} already; this one stops")

    def clean_attempt(self) -> None:
        """Delete what steps that were not committed have written, where nobody else can be at work on one."""
        if self.exclusive:
            clean_store(self.store, self.chain, len(self._kept()), everything=True)


@contextmanager
def _not_resumable(store: Folder) -> Iterator[None]:
    """Do not send anyone to resume what only the memory of this process has."""
    try:
        yield
    except StoppedError as error:
        raise ResourceError(f"the disk of {store.url} is full: make room and start again") from error


class ConflictError(InputError):
    """An edge with two weights; its rows are still to be found."""

    def __init__(self, edge: tuple[int, int]) -> None:
        super().__init__(f"edge {edge[0]}-{edge[1]} has two weights")
        self.edge = edge

    def __reduce__(self) -> tuple[Any, ...]:
        return ConflictError, (self.edge,)


def step_job(store: Folder, header: Header, nodes: int, edges: int, room: int, step: int) -> Job:
    """What the tasks of a step are told."""
    return Job(
        store.url,
        header.settings,
        nodes,
        id_dtype(nodes).__name__,
        id_dtype(max(nodes, 2 * edges)).__name__,
        header.weights,
        f"rounds/{step:05d}-{uuid.uuid4().hex[:8]}",
        room,
    )


def _check_round(places: Cut, after: State, folded: Sequence[Folded]) -> None:
    """Raise unless a round left what it must."""
    listed = sum(receipt.merges.rows for receipt in folded)
    if not listed == places.merges == places.live - after.clusters:
        raise DamagedStoreError(
            f"round {after.round} merged {places.merges} of {places.live} clusters, wrote {listed} merges and left "
            f"{after.clusters}: the store has been changed by something else; resume the run"
        )
    _check_mirrors(after, sum(receipt.later for receipt in folded))


def _check_mirrors(state: State, later: int) -> None:
    """Raise unless every edge is in both its rows."""
    if 2 * later != state.entries:
        raise DamagedStoreError(
            f"of {state.entries} entries {later} point to a later cluster, and half should: the store has been changed "
            "by something else; resume the run"
        )


def _seconds(receipts: Sequence[Receipt]) -> float:
    """What a layer took, over all its tasks."""
    return sum(sum(receipt.seconds.values()) for receipt in receipts)


def _step_bytes(step: Manifest) -> int:
    """What a step has written that stays."""
    return sum(table.bytes for table in step.merges) + (step.state.bytes if step.state else 0)
