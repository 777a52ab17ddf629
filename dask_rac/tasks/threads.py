"""Tasks in the threads of this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import dask
from dask.callbacks import Callback
from dask.threaded import get
from distributed.system import MEMORY_LIMIT

from dask_rac.base.events import Listener
from dask_rac.files.folder import Folder
from dask_rac.tasks import messages, scratch
from dask_rac.tasks.budget import SHARE, Budget, memory_bytes
from dask_rac.tasks.machine import new_team
from dask_rac.tasks.scheduler import RunInput, Watch, no_pulse
from dask_rac.tasks.task_graph import Results, TaskGraph, by_layer


class Threads:
    """Threads of this process, as many as Dask's setting `num_workers` states."""

    def __init__(self) -> None:
        with new_team() as team:
            self.threads = team.threads
        self.pulse = no_pulse
        self._pool: ThreadPoolExecutor | None = None

    def __str__(self) -> str:
        return f"{self.threads} threads of this process" if self.threads > 1 else "one thread of this process"

    def budget(self, memory: str | float | None) -> Budget:
        """Return what a run may use: by default half of the machine's memory."""
        return Budget(memory_bytes(memory, int(SHARE * MEMORY_LIMIT)), 1, self.threads)

    def check(self, store: Folder, given: RunInput | None = None, budget: Budget | None = None) -> None:
        """Do nothing: threads need no checks."""

    def compute(self, graph: TaskGraph, watch: Watch) -> Results:
        """Run a graph and return what its tasks return."""

        def finished(key: Any, result: Any, *_: Any) -> None:
            layer = str(key).partition("-")[0]
            if layer in graph.layers:
                watch(layer, result)

        with Callback(posttask=finished), self._threads() as pool:
            results = get(graph.nodes, graph.keys, pool=pool)
        return by_layer(graph, results)

    @contextmanager
    def _threads(self) -> Iterator[Any]:
        """Keep threads from graph to graph; after an error, stop them so that no forgotten task keeps running."""
        own = self._pool = self._pool or ThreadPoolExecutor(self.threads)
        try:
            yield dask.config.get("pool", None) or own
        except BaseException:
            self._pool = None
            own.shutdown(cancel_futures=True)
            scratch.end_tasks()
            raise

    def listening(self, token: str, report: Listener) -> AbstractContextManager[None]:
        """Report the events of tasks with this token during the block."""
        return messages.listening(token, report)
