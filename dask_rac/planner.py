"""How large shards are, and what a run takes, before it runs: numbers in, numbers out."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np

from dask_rac.cards import card
from dask_rac.config import Settings, id_dtype, size_text
from dask_rac.errors import ResourceError
from dask_rac.shard import needs_counts, rule_of

VECTORS = 7  # over all clusters, held by each process at most: nearest, fates (2), ids and sizes before and after
COPIES = 2.2  # of a shard's entries that its fold holds: as read and as written, and rows that are not even
REST_COPIES = 2.1  # of all entries that rounds in memory hold
REST_VECTORS = 90  # bytes a cluster that rounds in memory hold beside them
FINISHER_BYTES = 190  # an edge
MOVES = 0.1  # of a state's bytes that have moved and are still there when the next state is nearly written
NODE_DISK = 80  # bytes that vectors and merges take for each node
SHRINKS = 0.8  # of the entries that a round leaves, as a rule
FEW_SHARDS = 64  # with many more of them than the data asks for, a run has more tasks and files than work
UNIT_ROWS = 16_000_000  # of the input that one task reads at most


@dataclass(frozen=True)
class Budget:
    """What a run may use."""

    memory: int
    """Bytes, of all processes together."""
    processes: int
    threads: int
    """Of each process."""

    @property
    def process(self) -> int:
        """Bytes that one process may use."""
        return self.memory // self.processes


@dataclass(frozen=True)
class Plan:
    """What a run would take, before it runs, as `dask_rac.plan` gives it."""

    nodes: int
    """Of the graph."""
    edges: int
    """Rows of the input; self loops and edges given twice count."""
    shards: int
    """Into which the graph is cut at first; 1 if it stays in memory."""
    shard_bytes: int
    """Of each, in memory."""
    memory: int
    """Bytes of arrays at the peak, in all processes together."""
    budget: Budget
    """What the run may use: memory, processes, threads of each."""
    disk: int
    """Bytes of the store at the peak, as a rule."""
    input_bytes: int
    """Size of the edges on disk."""
    graph: Any
    """The first round as a Dask graph, to be looked at: `plan.graph.visualize()`."""

    def visualize(self, *arguments: Any, **keywords: Any) -> Any:
        """Draw the first round's graph, as Dask's own collections do."""
        return self.graph.visualize(*arguments, **keywords)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self.facts().items())
        return f"<Plan: {facts}>"

    def _repr_html_(self) -> str:
        return card("dask_rac.Plan", self.facts())

    def to_json(self) -> dict[str, Any]:
        """The numbers, for other programs."""
        known = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "graph"}
        return {**known, "budget": asdict(self.budget), "tasks": len(self.graph.tasks)}

    def facts(self) -> dict[str, str]:
        """What it is in a few words, by name."""
        return {
            "nodes": f"{self.nodes:,}",
            "edges": f"{self.edges:,}",
            "shards": f"{self.shards:,} of {size_text(self.shard_bytes)}",
            "memory": f"{size_text(self.memory)} of {size_text(self.budget.memory)}",
            "disk": f"{size_text(self.disk)} beside {size_text(self.input_bytes)} of edges",
            "processes": f"{self.budget.processes} of {self.budget.threads} threads",
            "first round": f"{self.graph!r}".strip("<>").removeprefix("Graph of "),
        }


@dataclass(frozen=True)
class Sizes:
    """Bytes of the things that a run holds."""

    ids: int
    weight: int
    """As it was given."""
    entry: int
    """Of a row, folded, in memory."""
    packed: float
    """On disk after the first round, for each entry before it."""

    @classmethod
    def of(cls, settings: Settings, nodes: int, edges: int, weights: str) -> Sizes:
        """For a graph of this size."""
        ids = np.dtype(id_dtype(nodes)).itemsize
        counts = np.dtype(id_dtype(max(nodes, 2 * edges))).itemsize if needs_counts(rule_of(settings)) else 0
        weight = 6 if weights == "float32" else 8  # sums of float32 lack the lowest bits
        if settings.linkage == "single":  # rows lose edges, not all of them in the first round, and fold none
            return cls(ids, np.dtype(weights).itemsize, ids + 8 + 2, ids + weight)
        packed = SHRINKS * (ids + weight + 2 + (counts > 0))
        return cls(ids, np.dtype(weights).itemsize, ids + 8 + 2 + counts, packed)


def shard_entries(sizes: Sizes, nodes: int, edges: int, budget: Budget, shards: int | None) -> int:
    """Entries that a shard may have; raises if no number of shards would fit."""
    vectors = VECTORS * sizes.ids * nodes
    task = (budget.process - vectors) / budget.threads
    if task < 0.2 * budget.process / budget.threads:
        some = budget.threads * COPIES * sizes.entry * 2 * edges / FEW_SHARDS
        needed = budget.processes * max(vectors / 0.8, vectors + some)
        each = "" if budget.processes == 1 else f" in each of {budget.processes} processes"
        raise ResourceError(
            f"{nodes:,} nodes need {size_text(vectors)}{each} before any edge, and the budget is "
            f"{size_text(budget.memory)}: set memory='{_at_least(needed)}' or more, or number the nodes 0, 1, 2, ... "
            "if ids have gaps"
        )
    room = max(1, int(task / (COPIES * sizes.entry)))
    if shards is None:
        return room
    asked = max(1, -(-2 * edges // shards))
    if asked > room:
        needed = -(-2 * edges // room)
        raise ResourceError(
            f"{shards} shards of {asked:,} entries need {size_text(asked * COPIES * sizes.entry)} a task, and a task "
            f"may use {size_text(task)}: set shards={needed} or more, or a larger memory="
        )
    return asked


def unit_rows(sizes: Sizes, nodes: int, budget: Budget) -> int:
    """Rows of the input that one task holds."""
    task = (budget.process - VECTORS * sizes.ids * nodes) / budget.threads
    return max(1, min(UNIT_ROWS, int(task / (2.5 * (2 * sizes.ids + sizes.weight)))))


def rest_fits(sizes: Sizes, clusters: int, entries: int, budget: Budget) -> bool:
    """Whether rounds can go on in the memory of one process."""
    return REST_COPIES * sizes.entry * entries + REST_VECTORS * clusters <= budget.process


def finisher_room(budget: Budget) -> int:
    """The most edges that the finisher can take."""
    return budget.process // FINISHER_BYTES


def projected_disk(sizes: Sizes, nodes: int, edges: int) -> int:
    """Bytes that a store takes at its peak, as a rule."""
    routed = edges * (2 * sizes.ids + sizes.weight)
    first = 2 * edges * (sizes.ids + sizes.weight)
    second = int(2 * edges * sizes.packed)
    return max(routed + first, int(first * (1 + MOVES)) + second) + NODE_DISK * nodes


def projected_memory(sizes: Sizes, nodes: int, entries: int, budget: Budget) -> int:
    """Bytes of arrays that all processes hold at the peak, where a shard has so many entries."""
    task = int(COPIES * sizes.entry * entries)
    return budget.processes * (VECTORS * sizes.ids * nodes + budget.threads * task)


def _at_least(size: float) -> str:
    """Bytes as a user would give them, rounded up."""
    unit, name = (1e9, "GB") if size >= 1e9 else (1e6, "MB")
    return f"{math.ceil(10 * size / unit) / 10:g}{name}"
