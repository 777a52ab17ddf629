"""A step as a Dask graph: layers of named tasks, one barrier between two of them, receipts as results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from dask.base import compute, visualize
from dask.delayed import Delayed, delayed

Task = Delayed
"""A task that has not run yet, as an argument of others."""
Results = dict[str, list[Any]]
"""What the tasks of each layer returned."""


class TaskGraph:
    """The tasks of one step, by layer; nothing has run yet."""

    def __init__(self, token: str, alone: bool = False) -> None:
        self.token = token
        self.alone = alone
        """Whether its only task may use what other processes do not need meanwhile."""
        self.layers: dict[str, list[Task]] = {}

    def add(self, function: Callable[..., Any], *arguments: Any, name: str = "") -> Task:
        """Add a task to the layer that is named after the function; its key looks like `fold-<step>-3`."""
        layer = self.layers.setdefault(name or function.__name__, [])
        key = f"{name or function.__name__}-{self.token}-{len(layer)}"
        task: Task = delayed(function, pure=False, traverse=False)(*arguments, dask_key_name=key)
        layer.append(task)
        return task

    def constant(self, value: Any, name: str) -> Task:
        """Return a value that many tasks take and that is sent only once."""
        held: Task = delayed(value, name=f"{name}-{self.token}", pure=False)
        return held

    def together(self, tasks: Sequence[Task]) -> Task:
        """The results of some tasks as one argument of another."""
        listed: Task = delayed(list(tasks))
        return listed

    def gather(self, tasks: Sequence[Task], name: str) -> Task:
        """Add a barrier that gathers all receipts of a layer."""
        return self.add(list, self.together(tasks), name=name)

    @property
    def tasks(self) -> list[Task]:
        """All tasks, by layer."""
        return [task for layer in self.layers.values() for task in layer]

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
