"""What a run would take on machines that need not exist yet: time, memory, disk, requests and money."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import Any

import pandas as pd

from dask_rac.base.checks import check_whole
from dask_rac.base.errors import InputError
from dask_rac.base.text import quoted, size_text
from dask_rac.forecasts.bounds import Bound
from dask_rac.forecasts.layout import Traffic
from dask_rac.forecasts.model import Fleet, Layer, Round
from dask_rac.forecasts.simulate import Place, Task, simulate
from dask_rac.runs.plan import Plan
from dask_rac.show.cards import card

WARN = 0.5  # share of something there is, from which a summary names it
HOUR = 3600


@dataclass(frozen=True)
class Forecast:
    """What a run would take, by phase and by round; `dask_rac.forecast` returns it."""

    plan: Plan
    """Shards, memory and disk, as `dask_rac.plan` has them; without tasks."""
    fleet: Fleet
    """The machines, and what one of their cores does."""
    layers: tuple[Layer, ...]
    """Tasks that run between two barriers, in order."""
    levels: tuple[Round, ...]
    """The graph before each round."""
    bounds: tuple[Bound, ...]
    """What the run comes near to, the nearest first."""

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return sum(layer.seconds(self.fleet) for layer in self.layers)

    @property
    def thread_seconds(self) -> float:
        """Seconds that all threads together compute."""
        total = sum(layer.work + layer.own * self._holders(layer) for layer in self.layers)
        return total / self.fleet.kind.speed

    def _holders(self, layer: Layer) -> int:
        """How many compute what each process computes for itself."""
        return 1 if layer.name == "commit" else self.fleet.processes

    @property
    def traffic(self) -> Traffic:
        """Bytes and requests of all tasks."""
        return sum((layer.traffic for layer in self.layers), Traffic())

    @property
    def price(self) -> float:
        """What machines and requests cost, in the currency of the kind of machine."""
        kind, traffic = self.fleet.kind, self.traffic
        machines = self.fleet.machines * kind.hour * self.seconds / HOUR
        if not self.fleet.remote:
            return machines
        return machines + (traffic.reads * kind.million_reads + traffic.writes * kind.million_writes) / 1e6

    @property
    def phases(self) -> pd.DataFrame:
        """One row per phase: its tasks, seconds, bytes and requests, and what it waits for most."""
        return self._table("phase", [(layer.name, layer) for layer in self.layers])

    @property
    def rounds(self) -> pd.DataFrame:
        """One row per step through the store, 0 for reading the edges: the same, and the graph before it."""
        table = self._table("round", [(layer.round, layer) for layer in self.layers])
        graph = {one.number: one for one in self.levels}
        known = [graph.get(number) for number in table.index]
        table.insert(0, "clusters", [self.plan.nodes if one is None else round(one.level.clusters) for one in known])
        table.insert(1, "edges", [self.plan.edges if one is None else round(one.level.entries / 2) for one in known])
        table.insert(2, "shards", [self.plan.shards if one is None else one.shards for one in known])
        return table

    def _table(self, name: str, rows: Sequence[tuple[Any, Layer]]) -> pd.DataFrame:
        """Add up layers by a key, in the order in which keys first occur."""
        costs: dict[Any, dict[str, float]] = {}
        waits: dict[Any, dict[str, float]] = {}
        for key, layer in rows:
            seconds, traffic = layer.seconds(self.fleet), layer.traffic
            found = {
                "tasks": layer.tasks,
                "seconds": seconds,
                "read_bytes": traffic.read,
                "written_bytes": traffic.written,
                "requests": traffic.reads + traffic.writes if self.fleet.remote else 0.0,
            }
            known = costs.setdefault(key, dict.fromkeys(found, 0.0))
            costs[key] = {column: known[column] + value for column, value in found.items()}
            bound = waits.setdefault(key, {})
            bound[layer.bound(self.fleet)] = bound.get(layer.bound(self.fleet), 0.0) + seconds
        table = pd.DataFrame(costs.values(), index=pd.Index(list(costs), name=name))
        table["waits for"] = [max(bound.items(), key=itemgetter(1))[0] for bound in waits.values()]
        return table.astype({"tasks": "int64"})

    def scaling(self, machines: Sequence[int]) -> pd.DataFrame:
        """Simulate the tasks of this forecast, event by event, on other numbers of machines.

        Parameters
        ----------
        machines : sequence of int
            How many machines of the kind.

        Returns
        -------
        pandas.DataFrame
            One row for each: its seconds, how much faster it is than the first, and the share of the time in which
            threads compute. Shards and memory are those of the forecast.
        """
        rows = []
        for count in machines:
            check_whole("machines", count, 1)
            fleet = Fleet(self.fleet.kind, count, self.fleet.remote, self.fleet.machine)
            seconds = self._simulated(fleet)
            rows.append({"machines": count, "workers": fleet.workers, "seconds": seconds})
        table = pd.DataFrame(rows).set_index("machines")
        table["speed-up"] = table["seconds"].iloc[0] / table["seconds"]
        work = sum(layer.work for layer in self.layers) / self.fleet.kind.speed
        table["busy"] = work / (table["seconds"] * table["workers"])
        return table

    def _simulated(self, fleet: Fleet) -> float:
        """Return the seconds of all layers, task by task."""
        total = 0.0
        for layer in self.layers:
            asked, waited = layer.in_turn
            traffic, tasks = layer.traffic, max(1, layer.tasks)
            size = traffic.read + traffic.written
            connection = fleet.connection * (size / waited if waited else 1.0)
            place = Place(fleet.workers, fleet.machine.task, fleet.latency, fleet.bandwidth, connection)
            sent = (size / tasks, asked / tasks) if fleet.remote else (0.0, 0.0)
            task = Task(layer.work / fleet.kind.speed / tasks, *sent)
            ends = simulate([[task] * tasks], place)
            least = max(seconds for what, seconds in layer.bounds(fleet).items() if what != "processors")
            total += max(ends[-1] + layer.own / fleet.kind.speed, least)
        return total

    def facts(self) -> dict[str, str]:
        """Return a short summary: a text for each name."""
        plan, fleet = self.plan, self.fleet
        phases = self.phases["seconds"].sort_values(ascending=False)
        facts = {
            "graph": f"{plan.nodes:,} nodes, {plan.edges:,} edges",
            "machines": f"{fleet.machines:,} of {fleet.kind.cores} cores and {size_text(fleet.kind.memory)}",
            "time": duration(self.seconds),
            "phases": ", ".join(f"{name} {duration(value)}" for name, value in phases.items() if value),
            "rounds": f"{len(self.levels)}, {sum(1 for one in self.levels if one.shards)} of them through the store",
            "shards": f"{plan.shards:,} of {size_text(plan.shard_bytes)}",
            "memory": f"{size_text(plan.memory)} of {size_text(plan.budget.memory)}",
            "disk": size_text(plan.disk),
            "read": size_text(self.traffic.read),
            "written": size_text(self.traffic.written),
        }
        if fleet.remote:
            facts["requests"] = f"{self.traffic.reads:,.0f} to read, {self.traffic.writes:,.0f} to write"
        if fleet.kind.hour or self.price:
            facts["price"] = f"{self.price:,.2f}"
        near = [f"{bound.name}: {bound.text()}" for bound in self.bounds if bound.share >= WARN]
        return facts | ({"near its limit": "; ".join(near)} if near else {})

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as a dict, for other programs."""
        plan = {name: value for name, value in self.plan.to_json().items() if name != "tasks"}
        kind = {name: None if value == float("inf") else value for name, value in asdict(self.fleet.kind).items()}
        return {
            "seconds": self.seconds,
            "thread_seconds": self.thread_seconds,
            "price": self.price,
            "plan": plan,
            "machines": self.fleet.machines,
            "kind": kind,
            "traffic": asdict(self.traffic),
            "phases": self.phases.reset_index().to_dict("records"),
            "rounds": self.rounds.reset_index().to_dict("records"),
            "bounds": [asdict(bound) for bound in self.bounds],
            "constants": asdict(self.fleet.machine),
        }

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self.facts().items())
        return f"<Forecast: {facts}>"

    def _repr_html_(self) -> str:
        return card("dask_rac.forecast", self.facts())


def duration(seconds: float) -> str:
    """Format a time for people."""
    for unit, name in ((24 * HOUR, "days"), (HOUR, "h"), (60, "min")):
        if seconds >= 1.5 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.1f} s"


def counted(value: object, name: str) -> int:
    """Return a whole number, also if it is a float such as 1e9."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InputError(f"{name}={quoted(value)} is not a whole number")
    return value
