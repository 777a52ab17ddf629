"""A step as a Dask graph: layers of named tasks, one barrier between two of them, receipts at the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dask.delayed import Delayed, delayed

from dask_rac import intake, steps
from dask_rac.config import Settings
from dask_rac.intake import Layout
from dask_rac.steps import Job
from dask_rac.store.edges import EdgeSource, Unit
from dask_rac.store.manifest import State


class Graph:
    """Tasks of one step; `result` depends on all of them."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.tasks: list[Delayed] = []

    def add(self, function: Callable[..., Any], *arguments: Any, number: int | None = None, name: str = "") -> Delayed:
        """One task, named as the function: `fold-<step>-3`."""
        end = "" if number is None else f"-{number}"
        key = f"{name or function.__name__}-{self.token}{end}"
        task = delayed(function, pure=False, traverse=False)(*arguments, dask_key_name=key)
        self.tasks.append(task)
        return task

    def gather(self, tasks: Sequence[Delayed], name: str) -> Delayed:
        """A barrier: all receipts of a layer."""
        return self.add(list, delayed(list(tasks)), name=name)

    def visualize(self, *arguments: Any, **keywords: Any) -> Any:
        """Draw the graph, as Dask's own collections do."""
        return self.result.visualize(*arguments, **keywords)

    @property
    def result(self) -> Delayed:
        """The last task."""
        return self.tasks[-1]


def scan_graph(token: str, source: EdgeSource, units: Sequence[Unit], n_nodes: int | None, settings: Settings) -> Graph:
    """Check all of the input."""
    graph = Graph(token)
    shared = delayed(source, name=f"source-{token}", pure=False)
    layer = [
        graph.add(intake.scan, shared, unit, n_nodes, settings, number=number) for number, unit in enumerate(units)
    ]
    graph.gather(layer, "scanned")
    return graph


def intake_graph(job: Job, source: EdgeSource, units: Sequence[Unit], layout: Layout, rows: int) -> Graph:
    """Read all of the input into the first state: route, then build."""
    graph = Graph(job.attempt)
    given, cuts = delayed(source, name=f"source-{graph.token}"), delayed(layout, name=f"layout-{graph.token}")
    routed = [graph.add(intake.route, job, given, unit, cuts, rows, number=k) for k, unit in enumerate(units)]
    pieces = graph.gather(routed, "routed")
    built = [graph.add(intake.build, job, cuts, pieces, k, number=k) for k in range(layout.shards)]
    graph.add(_pair, pieces, delayed(built), name="built")
    return graph


def round_graph(job: Job, state: State) -> Graph:
    """One round: match, split, fold; as many fold tasks as there are shards now, of which the next state may need fewer."""
    graph = Graph(job.attempt)
    before = delayed(state, name=f"state-{graph.token}", pure=False)
    shards = range(len(state.shards))
    matched = [graph.add(steps.match, job, before, k, number=k) for k in shards]
    places = graph.add(steps.cut, job, before, delayed(matched))
    split = [graph.add(steps.split, job, before, places, k, number=k) for k in shards]
    moved = graph.gather(split, "moved")
    folded = [graph.add(steps.fold, job, before, places, moved, k, number=k) for k in shards]
    graph.add(steps.RoundReceipts, delayed(matched), places, moved, delayed(folded), name="folded")
    return graph


def single_task(function: Callable[..., Any], token: str, *arguments: Any) -> Graph:
    """One task by itself."""
    graph = Graph(token)
    graph.add(function, *arguments)
    return graph


def _pair(first: Any, second: Any) -> tuple[Any, Any]:
    """Two layers of receipts."""
    return first, second
