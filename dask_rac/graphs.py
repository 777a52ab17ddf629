"""A step as a Dask graph: layers of named tasks, one barrier between two of them, receipts as results."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any

from dask.base import visualize
from dask.delayed import Delayed, delayed

from dask_rac import boruvka, intake, steps
from dask_rac.config import EDGE_COLUMNS, Settings
from dask_rac.intake import Layout
from dask_rac.receipts import Job
from dask_rac.store.edges import EdgeSource, Unit
from dask_rac.store.files import Folder
from dask_rac.store.manifest import State
from dask_rac.store.tables import write_frame


class Graph:
    """The tasks of one step, by layer; nothing has run yet."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.layers: dict[str, list[Delayed]] = {}

    def add(self, function: Callable[..., Any], *arguments: Any, name: str = "") -> Delayed:
        """One more task of the layer that is named as the function: its key is `fold-<step>-3`."""
        layer = self.layers.setdefault(name or function.__name__, [])
        key = f"{name or function.__name__}-{self.token}-{len(layer)}"
        task: Delayed = delayed(function, pure=False, traverse=False)(*arguments, dask_key_name=key)
        layer.append(task)
        return task

    def constant(self, value: Any, name: str) -> Delayed:
        """A value that many tasks take, sent once."""
        held: Delayed = delayed(value, name=f"{name}-{self.token}", pure=False)
        return held

    def gather(self, tasks: Sequence[Delayed], name: str) -> Delayed:
        """A barrier: all receipts of a layer."""
        return self.add(list, delayed(list(tasks)), name=name)

    @property
    def tasks(self) -> list[Delayed]:
        """All tasks, layer by layer."""
        return [task for layer in self.layers.values() for task in layer]

    def visualize(self, *arguments: Any, **keywords: Any) -> Any:
        """Draw the graph, as Dask's own collections do."""
        return visualize(*self.tasks, *arguments, **keywords)

    def __repr__(self) -> str:
        layers = ", ".join(f"{name} {len(tasks)}" for name, tasks in self.layers.items())
        return f"<Graph of {len(self.tasks)} tasks: {layers}>"


def spool_graph(frame: Any, store: Folder) -> Graph:
    """Write the partitions of a Dask DataFrame."""
    graph = Graph(uuid.uuid4().hex[:8])
    for number, partition in enumerate(frame[list(EDGE_COLUMNS)].to_delayed()):
        graph.add(write_frame, partition, store, number, name="spool")
    return graph


def scan_graph(token: str, source: EdgeSource, units: Sequence[Unit], n_nodes: int | None, settings: Settings) -> Graph:
    """Check all of the input."""
    graph = Graph(token)
    given = graph.constant(source, "source")
    for unit in units:
        graph.add(intake.scan, given, unit, n_nodes, settings)
    return graph


def intake_graph(job: Job, source: EdgeSource, units: Sequence[Unit], layout: Layout, rows: int) -> Graph:
    """Read all of the input into the first state: route, then build."""
    graph = Graph(job.attempt)
    given, cuts = graph.constant(source, "source"), graph.constant(layout, "layout")
    pieces = graph.gather([graph.add(intake.route, job, given, unit, cuts, rows) for unit in units], "routed")
    for number in range(layout.shards):
        graph.add(intake.build, job, cuts, pieces, number)
    return graph


def round_graph(job: Job, state: State) -> Graph:
    """One round: match, split, fold. There are as many folds as shards now; the next state may need fewer."""
    graph = Graph(job.attempt)
    before, shards = graph.constant(state, "state"), range(len(state.shards))
    places = graph.add(steps.cut, job, before, delayed([graph.add(steps.match, job, before, k) for k in shards]))
    moved = graph.gather([graph.add(steps.split, job, before, places, k) for k in shards], "moved")
    for number in shards:
        graph.add(steps.fold, job, before, places, moved, number)
    return graph


def forest_graph(job: Job, state: State) -> Graph:
    """One of Boruvka's rounds: lighten, join."""
    graph = Graph(job.attempt)
    before = graph.constant(state, "state")
    lightened = [graph.add(boruvka.lighten, job, before, k) for k in range(len(state.shards))]
    graph.add(boruvka.join, job, before, delayed(lightened))
    return graph


def spread(function: Callable[..., Any], token: str, items: Sequence[tuple[Any, ...]]) -> Graph:
    """A task for each item, that depends on nothing: a value that all take would draw all of them to its worker."""
    graph = Graph(token)
    for item in items:
        graph.add(function, *item)
    return graph


def single_task(function: Callable[..., Any], token: str, *arguments: Any) -> Graph:
    """One task by itself."""
    graph = Graph(token)
    graph.add(function, *arguments)
    return graph
