"""A step as a Dask graph: layers of named tasks, one barrier between two of them, receipts as results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dask.base import compute, visualize
from dask.delayed import Delayed, delayed
from dask.task_spec import DataNode, List, TaskRef
from dask.task_spec import Task as Call
from dask.utils import ensure_dict
from distributed import Future

Task = Delayed
"""A task that has not run yet, as an argument of others."""
Results = dict[str, list[Any]]
"""What the tasks of each layer returned."""


class TaskGraph:
    """The tasks of one step, by layer; nothing has run yet.

    All are in one dict: each of Dask's own delayed calls has a copy of the layers of all that it needs, which for
    thousands of tasks that need thousands takes minutes.
    """

    def __init__(self, token: str, alone: bool = False) -> None:
        self.token = token
        self.alone = alone
        """Whether its only task may use what other processes do not need meanwhile."""
        self.layers: dict[str, list[Task]] = {}
        self.nodes: dict[Any, Any] = {}
        """What Dask computes, by key: calls and values, of others' graphs, too."""
        self._merged: dict[int, Any] = {}  # graphs of others, by their identity
        self._held: list[Future[Any]] = []  # what tasks refer to by key only: Dask releases data that nobody holds

    def add(self, function: Callable[..., Any], *arguments: Any, name: str = "") -> Task:
        """Add a task to the layer that is named after the function; its key looks like `fold-<step>-3`."""
        layer = self.layers.setdefault(name or function.__name__, [])
        key = f"{name or function.__name__}-{self.token}-{len(layer)}"
        self.nodes[key] = Call(key, function, *map(self._argument, arguments))
        layer.append(Delayed(key, self.nodes))
        return layer[-1]

    def constant(self, value: Any, name: str) -> Task:
        """Return a value that many tasks take and that is sent only once."""
        key = f"{name}-{self.token}"
        self.nodes[key] = DataNode(key, value)
        return Delayed(key, self.nodes)

    def gather(self, tasks: Sequence[Task], name: str) -> Task:
        """Add a barrier that gathers all receipts of a layer."""
        return self.add(list, list(tasks), name=name)

    def _argument(self, value: Any) -> Any:
        """Return an argument as Dask takes it: a reference to a task, a list of them, or the value itself."""
        if isinstance(value, Delayed):
            self._merge(value.dask)
        if isinstance(value, Future):
            self._held.append(value)
        if isinstance(value, Delayed | Future):
            return TaskRef(value.key)
        if isinstance(value, list) and any(isinstance(one, Delayed) for one in value):
            return List(*map(self._argument, value))
        return value

    def _merge(self, graph: Any) -> None:
        """Add all of a graph, unless it is this one or has been added."""
        if graph is not self.nodes and id(graph) not in self._merged:
            self._merged[id(graph)] = graph
            self.nodes.update(ensure_dict(graph))

    @property
    def tasks(self) -> list[Task]:
        """All tasks, by layer."""
        return [task for layer in self.layers.values() for task in layer]

    @property
    def keys(self) -> list[str]:
        """The keys of all tasks."""
        return [task.key for task in self.tasks]

    def visualize(self, *arguments: Any, **keywords: Any) -> Any:
        """Draw the graph, like `visualize` of Dask's own collections."""
        return visualize(*self.tasks, *arguments, **keywords)

    def __repr__(self) -> str:
        layers = ", ".join(f"{name} {len(tasks)}" for name, tasks in self.layers.items())
        return f"<Graph of {len(self.tasks)} tasks: {layers}>"


def spread(function: Callable[..., Any], token: str, items: Sequence[tuple[Any, ...]]) -> TaskGraph:
    """Add one independent task per item: a value shared by all tasks would draw all of them to its worker."""
    graph = TaskGraph(token)
    for item in items:
        graph.add(function, *item)
    return graph


def single_task(function: Callable[..., Any], token: str, *arguments: Any) -> TaskGraph:
    """Return a graph of a single task, which runs while all others are idle."""
    graph = TaskGraph(token, alone=True)
    graph.add(function, *arguments)
    return graph


def by_layer(graph: TaskGraph, results: Sequence[Any]) -> Results:
    """Group results, which are in the order of the tasks, by layer."""
    left = iter(results)
    return {name: [next(left) for _ in tasks] for name, tasks in graph.layers.items()}


def lazy_list(parts: Sequence[Any]) -> Task:
    """Parts that Dask computes where they are needed, as one argument."""
    listed: Task = delayed(parts)
    return listed


def is_lazy(value: object) -> bool:
    """Whether a value is still to be computed."""
    return isinstance(value, Delayed)


def computed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """Values of which some are Dask's, computed together."""
    found: tuple[Any, ...] = compute(*values, traverse=False)
    return found
