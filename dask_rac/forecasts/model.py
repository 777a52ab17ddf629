"""The time of a run, layer by layer of its tasks: what each takes with so many machines, and what bounds it.

The planner says how many shards there are and what memory and disk a run takes, the rules of the engine when it goes on
in memory; how a graph shrinks is its `Decay`, and what work takes is a `Machine`'s.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from dask_rac.base.events import RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.engines.contract import Expected, Limits
from dask_rac.engines.rows.needs import EntrySizes, Room, finisher_room, rest_fits
from dask_rac.engines.rows.pace import pays
from dask_rac.engines.rows.requests import STEP_LISTS
from dask_rac.engines.rows.sizes import shard_entries
from dask_rac.files.buffers import REQUEST
from dask_rac.files.readers import READERS
from dask_rac.forecasts.decay import Decay, Level
from dask_rac.forecasts.intake import Intake
from dask_rac.forecasts.kinds import Kind
from dask_rac.forecasts.layout import MERGE_BYTES, Shape, Traffic
from dask_rac.forecasts.machine import Machine, sorting_seconds
from dask_rac.tasks.budget import Budget

END = Level(0, 0, 0)
STEP_WRITES = 1  # requests of a step: its manifest; the statistics of each of its rounds are another one
FIRST_REQUESTS = 9  # of a new store: whether there is one already, whether it can be written, its header


@dataclass(frozen=True)
class Fleet:
    """Machines of a kind, and where the store is."""

    kind: Kind
    machines: int
    remote: bool
    """Whether the store is an object store, not a disk of the one machine."""
    machine: Machine
    """What one core of the machine that was measured does."""

    @property
    def processes(self) -> int:
        """Of all machines."""
        return self.machines * self.kind.processes

    @property
    def workers(self) -> int:
        """Tasks at a time."""
        return self.processes * (self.kind.cores // self.kind.processes)

    @property
    def latency(self) -> float:
        """Seconds of a request."""
        return (self.machine.latency or self.kind.latency) if self.remote else 0.0

    @property
    def connection(self) -> float:
        """Bytes per second of a request."""
        return (self.machine.connection or self.kind.connection or math.inf) if self.remote else math.inf

    @property
    def bandwidth(self) -> float:
        """Bytes per second between all machines and the object store."""
        return self.machines * self.kind.network if self.remote else math.inf


@dataclass(frozen=True)
class Layer:
    """Tasks that run between two barriers."""

    name: str
    round: int
    """0 before the first round."""
    tasks: int
    work: float
    """Seconds of threads that compute, over all tasks."""
    traffic: Traffic = field(default_factory=Traffic)
    own: float = 0.0
    """Seconds that every process takes for itself, whatever the tasks."""
    miss: float = 0.0
    """Share of the bytes that the page cache has no room for."""
    together: float = 1
    """Reads from an object store that each task makes at a time."""

    @property
    def in_turn(self) -> tuple[float, float]:
        """Requests and bytes of all tasks, of reads that are made together only as many as there would be in turn."""
        traffic = self.traffic
        return traffic.reads / self.together + traffic.writes, traffic.read / self.together + traffic.written

    def bounds(self, fleet: Fleet) -> dict[str, float]:
        """The seconds that each resource takes; the layer takes as long as the slowest."""
        traffic, machine = self.traffic, fleet.machine
        size, requests = traffic.read + traffic.written, traffic.reads + traffic.writes
        tasks = max(1, self.tasks)
        each = self.work / fleet.kind.speed / tasks
        if fleet.remote:
            asked, waited = self.in_turn
            each += (asked * fleet.latency + waited / fleet.connection) / tasks
        found = {"processors": self.own / fleet.kind.speed + each * -(-tasks // fleet.workers)}
        if fleet.remote:
            found["network"] = size / fleet.bandwidth
            found["requests"] = requests / fleet.kind.request_rate
        else:
            reading, writing = (
                fleet.kind.disk_rate or rate or math.inf for rate in (machine.disk_read, machine.disk_write)
            )
            found["disk"] = self.miss * (traffic.read / reading + traffic.written / writing)
        return found | {"scheduler": self.tasks * machine.task}

    def seconds(self, fleet: Fleet) -> float:
        """How long it takes."""
        return max(self.bounds(fleet).values())

    def bound(self, fleet: Fleet) -> str:
        """What it waits for most."""
        bounds = self.bounds(fleet)
        return max(bounds, key=lambda name: bounds[name])


@dataclass(frozen=True)
class Round:
    """A round, wherever it is done."""

    number: int
    level: Level
    shards: int
    """0 in memory."""


@dataclass(frozen=True)
class Model:
    """What is to be clustered, how, and on what."""

    given: Expected
    settings: Settings
    budget: Budget
    fleet: Fleet
    decay: Decay
    shards: int
    """Of the first state."""
    asked: int | None = None
    """Shards that the user wants."""
    limits: Limits = field(default_factory=Limits)

    @property
    def sizes(self) -> EntrySizes:
        """Bytes of what a run holds."""
        return EntrySizes.of(self.settings, self.given.nodes, self.given.rows, self.given.weights)

    def layers(self) -> tuple[list[Layer], list[Round]]:
        """Return all layers of tasks of the run, and its rounds."""
        layers = self._intake()
        rounds: list[Round] = []
        levels = list(self.decay.rounds(self.given.nodes, self.given.rows))
        shards, last = self.shards, None
        for number, (before, after) in enumerate(zip(levels, [*levels[1:], END], strict=True), 1):
            if self._rest_is_due(before, last):
                more, ended = self._rest((number, shards), levels[number - 1 :], last)
                return layers + more, rounds + ended
            shape = self._shape(number, before, after, shards)
            layers += self._round(shape)
            rounds.append(Round(number, before, shards))
            shards, last = shape.shards_after, (before, after)
        return layers, rounds

    def _shape(self, number: int, before: Level, after: Level, shards: int) -> Shape:
        """Return a round, and how the next state is cut: by the rules of `cut`."""
        sizes, room = self.sizes, self._room
        load = before.entries + sizes.row_load * (before.clusters + before.merges)
        least = max(load, sizes.load(int(after.clusters), int(before.entries)))
        asked = -(-before.entries * self.asked // (2 * self.given.rows)) if self.asked else 1
        count = int(max(1, asked, -(-least // room)))
        count = min(shards, count if self.asked else self.budget.evened(count))
        return Shape(number, before, after, shards, count, self.fleet.processes, sizes, self.decay, self.limits)

    @property
    def _room(self) -> int:
        """The load that a shard may have."""
        return shard_entries(self.sizes, self.given.nodes, self.given.rows, self.budget, self.asked)

    def _rest_is_due(self, level: Level, last: tuple[Level, Level] | None) -> bool:
        """Whether what is left goes on in memory: by the rules of the engine."""
        clusters, entries = int(level.clusters), int(level.entries)
        if self.settings.finisher and not self._pays(last):
            return entries // 2 <= finisher_room(self.sizes, clusters, self.budget)
        fits = rest_fits(self.sizes, clusters, entries, self.budget)
        return fits and (self.asked is None or entries * self.asked <= 2 * self.given.rows)

    def _pays(self, last: tuple[Level, Level] | None) -> bool:
        """Whether another round is worth its work."""
        if last is None:
            return True
        before, after = last
        record = RoundRecord(int(before.clusters), int(before.entries) // 2, int(before.merges))
        return pays(record, int(after.entries) // 2, self.limits.hand_over)

    @property
    def intake(self) -> Intake:
        """How the edges get to their shards."""
        return Intake(self.given, self.sizes, self.budget, self.shards, self.asked, self.limits)

    def _intake(self) -> list[Layer]:
        """Scan and add up, route and sort, build."""
        machine, intake, nodes, edges = self.fleet.machine, self.intake, self.given.nodes, self.given.rows
        found, miss = intake.layers(), self._miss(intake.disk)
        more = intake.routed_bytes - edges * intake.row  # that `route` writes only by group
        work = {
            "scan": edges * machine.scan.at(nodes),
            "route": edges * machine.route.at(nodes) + more * machine.write.at(nodes),
            "sort": sorting_seconds(machine, nodes, (intake.routed_bytes, intake.sorted_bytes), intake.row),
            "build": edges * machine.build.at(nodes),
        }
        if intake.sums:
            counts = found["add_up"][1]
            work["add_up"] = counts.read * machine.read.at(nodes) + counts.written * machine.write.at(nodes)
        room = {"sort": REQUEST, "build": REQUEST}  # others make one read after the other
        layers = [
            Layer(name, 0, tasks, work[name], what, miss=miss, together=together_of(what, tasks, room.get(name, 0)))
            for name, (tasks, what) in found.items()
        ]
        requests = FIRST_REQUESTS + STEP_WRITES + STEP_LISTS + intake.deletions()
        return [*layers, self._commit(0, 0, intake.state_bytes, requests)]

    def _round(self, shape: Shape) -> list[Layer]:
        """The layers of a round through the store."""
        machine, clusters, entries = self.fleet.machine, shape.before.clusters, shape.before.entries
        traffic, miss = shape.layers(), self._miss(shape.state_bytes + shape.next_bytes + shape.moved_bytes)

        replies = Room(self.sizes, self.budget).replies(self.given.nodes, int(clusters))
        room = {"copy": math.inf, "cut": math.inf, "split": replies, "gather": REQUEST, "fold": replies}

        def moved(name: str) -> float:
            """Reading and writing of a layer."""
            found = traffic[name]
            return machine.read.at(clusters) * found.read + machine.write.at(clusters) * found.written

        def layer(name: str, tasks: int, work: float, own: float = 0.0) -> Layer:
            what = traffic[name] + (shape.vectors(name) if self.fleet.remote else Traffic())
            return Layer(name, shape.number, tasks, work, what, own, miss, together_of(what, tasks, room[name]))

        relabel, move = machine.relabel.at(clusters) * clusters, machine.move.at(clusters)
        vectors = shape.vector_bytes * machine.read.at(clusters)
        folding = machine.fold.at(clusters) * entries + move * clusters + moved("fold")
        splitting = move * (shape.moved_entries + clusters) + moved("split")
        found = [
            layer("cut", 1, relabel + moved("cut")),
            layer("split", shape.shards, splitting, vectors),
            layer("fold", shape.shards_after, folding, relabel),
        ]
        if shape.groups is not None:
            found.insert(0, layer("copy", shape.groups.count, moved("copy")))
            tasks = shape.groups.count * len(shape.groups.batches(shape.shards))
            found.insert(-1, layer("gather", tasks, move * shape.moved_entries + moved("gather")))
        requests = STEP_WRITES + 1 + STEP_LISTS + shape.object_requests - 1 + shape.deletions()
        return [*found, self._commit(shape.number, shape.shards + shape.shards_after, shape.next_bytes, requests)]

    def _commit(self, number: int, tasks: int, size: float, requests: float) -> Layer:
        """What a step takes beside its tasks: its requests are made one after the other."""
        seconds = self.fleet.machine.step + (0.0 if self.fleet.remote else self.fleet.machine.discard * size)
        seconds += tasks * self.fleet.machine.task
        return Layer("commit", number, 1, 0.0, Traffic(0, 0, 0, requests), seconds)

    def _miss(self, size: float) -> float:
        """Return the share of bytes that do not stay in the page cache of a machine."""
        if self.fleet.remote:
            return 0.0
        room = max(0, self.fleet.kind.memory - self.budget.memory)
        return max(0.0, 1 - room / size) if size else 0.0

    def _rest(
        self, place: tuple[int, int], levels: Sequence[Level], last: tuple[Level, Level] | None
    ) -> tuple[list[Layer], list[Round]]:
        """The end of a run, in the memory of one process: from this round and number of shards on."""
        number, shards = place
        machine, threads, first = self.fleet.machine, self.budget.most_threads, levels[0]
        shape = Shape(number, first, END, shards, 1, 1, self.sizes, self.decay)
        merges = sum(level.merges for level in levels)
        work = machine.load.at(2) * first.entries
        rounds: list[Round] = []
        for later, level in enumerate(levels):
            rounds.append(Round(number + later, level, 0))
            due = self.settings.finisher and not self._pays(last)
            if due and level.entries / 2 <= finisher_room(self.sizes, int(level.clusters), self.budget):
                work += machine.finish.at(level.clusters) * level.entries / 2
                break
            clusters = level.clusters
            work += machine.rest_match.at(clusters) * clusters / threads
            work += machine.rest_fold.at(clusters) * level.entries / threads
            last = level, levels[later + 1] if later + 1 < len(levels) else END
        columns = 3 + (0 if shape.first else 3) + shape.entry_columns
        reads = max(shards * columns, shape.state_bytes / REQUEST)
        files = max(1, merges // self.limits.part_merges)
        traffic = Traffic(shape.state_bytes, merges * MERGE_BYTES, reads, files)
        miss = self._miss(shape.state_bytes)
        rest = Layer("rest", number, 1, work, traffic, miss=miss, together=together_of(traffic, 1, REQUEST))
        requests = STEP_WRITES + len(rounds) + STEP_LISTS + 2 * shape.object_requests
        return [rest, self._commit(number, 1, 0, requests)], rounds


def together_of(traffic: Traffic, tasks: int, room: float) -> float:
    """Return how many reads a task makes at a time: no more than it has, and has room for."""
    size = traffic.read / max(1.0, traffic.reads)
    held = REQUEST if size > REQUEST / 2 else size  # of what takes several requests, the last one is small
    return max(1.0, min(READERS, room / max(1.0, held), traffic.reads / max(1, tasks)))
