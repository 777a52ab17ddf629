"""What every place where tasks run can do."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from dask_rac.base.events import Listener
from dask_rac.files.folder import Folder
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.task_graph import Results, TaskGraph

Watch = Callable[[str, Any], None]
"""Called with the layer and the result of each task that is done."""


class RunInput(Protocol):
    """What a run reads: edges, or vectors."""

    @property
    def name(self) -> str:
        """Path, URL or description of the input."""

    def reachable(self) -> bool:
        """Whether this process sees the input unchanged since it was opened."""


class Scheduler(Protocol):
    """Where tasks run."""

    pulse: Callable[[], None]
    """Called repeatedly while tasks run on workers; an exception that it raises ends them."""

    def budget(self, memory: str | float | None) -> Budget:
        """Return what a run may use."""

    def compute(self, graph: TaskGraph, watch: Watch) -> Results:
        """Run a graph and return what its tasks return."""

    def listening(self, token: str, report: Listener) -> AbstractContextManager[None]:
        """Report the events of tasks with this token during the block."""

    def check(self, store: Folder, given: RunInput | None = None, budget: Budget | None = None) -> None:
        """Raise unless a run can begin; `given` is what it still has to read from disk, if anything.

        From then on no process may take part that does not fit into the budget, if there is one.
        """


def no_pulse() -> None:
    """Do nothing: nothing stops the tasks, and there are no messages to read."""
