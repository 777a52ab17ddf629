"""Threads of this process, or worker processes on this machine."""

from __future__ import annotations

import asyncio
import logging
import socket
import warnings
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dask.config
import dask.utils

from dask_rac.base.errors import InputError, ResourceError
from dask_rac.deploy.deployment import (
    STOP_SECONDS,
    Loop,
    Notify,
    await_workers,
    brief,
    dashboard,
    hush,
    start_seconds,
    started,
)

if TYPE_CHECKING:
    from distributed import Client

FORMS = {"threads": "threads or threads:N", "local": "local:WORKERSxTHREADS"}
DASHBOARD_PORT = 8787


@dataclass(frozen=True)
class LocalThreads:
    """The threads of this process."""

    count: int | None
    """None for the number that Dask would use."""

    @contextmanager
    def opened(self, notify: Notify) -> Iterator[None]:
        """Make Dask use that number of threads."""
        with dask.config.set({} if self.count is None else {"num_workers": self.count}):
            yield


@dataclass(frozen=True)
class Local:
    """Processes on this machine, which accept connections from this machine only."""

    workers: int | None
    """None for the number that Dask chooses for this machine."""
    threads: int | None
    """Threads per worker."""

    @contextmanager
    def opened(self, notify: Notify) -> Iterator[Client]:
        """Start the processes, with a dashboard."""
        from distributed import Client  # noqa: PLC0415 - takes a second

        with dask.config.set({"distributed.admin.system-monitor.gil.enabled": False}), Loop() as loop:
            cluster = loop.run(self._new(), STOP_SECONDS)  # monitoring the GIL would cause warnings on a busy machine
            starting = loop.submit(started(cluster))
            try:
                _wait_for_start(starting)
                with Client(cluster.scheduler_address) as client:
                    hush(client)
                    await_workers(client, len(cluster.worker_spec), "local cluster", notify)
                    notify(dashboard(str(cluster.dashboard_link)))
                    yield client
            finally:
                loop.run(_stopped(cluster, starting), STOP_SECONDS)

    async def _new(self) -> Any:
        """Return the cluster, not yet started."""
        from distributed import LocalCluster  # noqa: PLC0415 - takes a second

        return LocalCluster(
            n_workers=self.workers,
            threads_per_worker=self.threads,
            host="127.0.0.1",
            dashboard_address=f"127.0.0.1:{_free_port(DASHBOARD_PORT)}",
            worker_dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
            asynchronous=True,
        )


async def _stopped(cluster: Any, starting: Future[None]) -> None:
    """Stop the processes once all have started: one that is still starting would be left behind."""
    await asyncio.wait([asyncio.wrap_future(starting)])
    await cluster.close()


def _wait_for_start(starting: Future[None]) -> None:
    """Wait for the processes to start."""
    try:
        with warnings.catch_warnings():
            # If the port was taken since _free_port checked it, Dask chooses another.
            warnings.filterwarnings("ignore", "Port .* is already in use")
            starting.result(start_seconds())
    except (OSError, RuntimeError, TimeoutError) as error:
        raise ResourceError(f"the workers of the local cluster did not start: {brief(error)}") from error


def _free_port(wish: int) -> int:
    """Return `wish` if that port of 127.0.0.1 is free, else 0 for any port: Dask would warn."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", wish))
        except OSError:
            return 0
    return wish


def local_place(spec: str, sizes: str) -> Local:
    """Return the processes that WORKERSxTHREADS describes."""
    workers, cross, threads = sizes.partition("x")
    return Local(count_of(spec, workers), count_of(spec, threads) if cross else 1)


def count_of(spec: str, text: str) -> int:
    """Parse a number of workers or threads."""
    if not text.isdecimal() or int(text) < 1:
        form = FORMS[spec.partition(":")[0]]
        raise InputError(f"scheduler {spec!r}: {text!r} must be a whole number, 1 or more: use {form}")
    return int(text)
