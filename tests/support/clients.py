"""Workers of our own, and what is left on them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Client, LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin
from distributed.utils import get_mp_context

from tests.support import crash


@contextmanager
def local_client(n_workers: int, **options: Any) -> Iterator[Client]:
    """Workers of our own, and a client that is nobody's default."""
    told = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.CRITICAL} | options
    with (
        forked_workers(),
        LocalCluster(n_workers=n_workers, **told) as cluster,
        Client(cluster, set_as_default=False) as made,
    ):
        yield made


@contextmanager
def forked_workers() -> Iterator[None]:
    """Fork workers from a process with everything imported; those that take the places of dead ones, too."""
    with dask.config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        get_mp_context()  # names what it would import, once
        crash.warm_children()
        yield


@contextmanager
def mortal_client(**options: Any) -> Iterator[Client]:
    """Two workers that may be killed: others take their places, though one dies twice within 15 seconds."""
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1h"}),
        local_client(2, **{"memory_limit": "1GB"} | options) as made,
    ):
        yield made


def nothing_left(client: Client, patience: float = 30) -> bool:
    """Whether the scheduler forgets all tasks, and workers are free, within some seconds; fails if not."""
    end = time.monotonic() + patience
    while True:
        busy = client.run(lambda dask_worker: dask_worker.state.executing_count, on_error="ignore")
        tasks = client.run_on_scheduler(lambda dask_scheduler: list(map(str, dask_scheduler.tasks.values())))
        if not (tasks or client.futures or any(busy.values())):
            return True
        assert time.monotonic() < end, (busy, tasks, client.futures)
        time.sleep(0.02)


class Prefixes(SchedulerPlugin):
    """Keeps the names of all tasks that a scheduler has been given."""

    name = "prefixes"

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Take note of a task that is done."""
        if finish == "memory":
            self.seen.add(str(key).partition("-")[0])


def seen_prefixes(dask_scheduler: Any) -> set[str]:
    plugin = dask_scheduler.plugins["prefixes"]
    seen, plugin.seen = plugin.seen, set()
    return set(seen)


def count_tasks(dask_scheduler: Any) -> int:
    """What the scheduler keeps."""
    return len(dask_scheduler.tasks)


def await_release(client: Client) -> None:
    """Wait until the scheduler keeps nothing."""
    end = time.monotonic() + crash.PATIENCE
    while client.run_on_scheduler(count_tasks):
        assert time.monotonic() < end
        time.sleep(0.01)
