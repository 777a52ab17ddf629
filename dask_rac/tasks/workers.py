"""Tasks on the workers of a client."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError
from time import monotonic, sleep
from typing import Any

import dask
from distributed import Client, Future, KilledWorker
from distributed.comm.core import CommClosedError
from distributed.system import MEMORY_LIMIT

from dask_rac.base.errors import InputError, ResourceError, StoppedError, StoreError
from dask_rac.base.events import Listener
from dask_rac.base.names import HEADER, temporary_name
from dask_rac.files.folder import Folder
from dask_rac.tasks import messages, scratch
from dask_rac.tasks.budget import SHARE, Budget, memory_bytes
from dask_rac.tasks.cache import forget_state
from dask_rac.tasks.ended import Ended
from dask_rac.tasks.machine import versions
from dask_rac.tasks.scheduler import RunInput, Watch, no_pulse
from dask_rac.tasks.task_graph import Results, TaskGraph, by_layer

WORKER_SECONDS = 0.1  # between two checks for a first worker
LOOK_SECONDS = 1  # between two looks whether there still is one
MOST_SHARE = 0.7  # of a worker's memory: at 0.8, Dask pauses the worker


def identity_of(client: Client) -> dict[str, Any]:
    """Return what the scheduler reports about itself; `scheduler_info` may return a reply without workers."""
    scheduler: Any = client.scheduler
    with _while_open(client, OSError):
        known: dict[str, Any] = client.sync(scheduler.identity, n_workers=-1)
    return known


def workers_of(client: Client) -> dict[str, Any]:
    """Return what the scheduler knows about each worker."""
    known: dict[str, Any] = identity_of(client)["workers"]
    return known


class WorkersDiedError(StoppedError):
    """Workers died repeatedly on one task."""


class Workers:
    """The workers of a client, which still belongs to the user."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.patience = dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect", "30s"))
        self.pulse = no_pulse
        self.preferred: Sequence[str] = ()  # addresses of preferred workers
        self._receive = no_pulse
        self._seen = self._looked = 0.0  # when a task last ended or a worker was seen, and when one was looked for

    def __str__(self) -> str:
        known = identity_of(self.client)
        count = len(known["workers"])
        return f"{count} worker{'s' * (count != 1)} of {known['address']}"

    def ready(self) -> dict[str, int]:
        """Raise unless there are workers with our versions; return the memory of each by its address."""
        workers = self._await_workers()
        self._check_versions()
        return {address: worker["memory_limit"] or MEMORY_LIMIT for address, worker in workers.items()}

    @contextmanager
    def listening(self, token: str, report: Listener) -> Iterator[None]:
        """Report the events of tasks with this token during the block."""
        with messages.receiving(self.client, token, report) as receive:
            self._receive = receive
            try:
                yield
            finally:
                self._receive = no_pulse

    def check(self, store: Folder, given: RunInput | None = None) -> None:
        """Raise unless there are workers with our versions that can access the store, and the input if given."""
        self.ready()
        self._check_store(store)
        if given is not None:
            self._check_input(given)

    def budget(self, memory: str | float | None) -> Budget:
        """Return what a run may use: by default half of the smallest worker's memory on each worker."""
        workers = self._await_workers()
        limits = [worker["memory_limit"] or MEMORY_LIMIT for worker in workers.values()]
        total = memory_bytes(memory, int(SHARE * min(limits)) * len(workers))
        share, most = total / len(workers), MOST_SHARE * min(limits)
        if share > most:
            raise ResourceError(
                f"memory={memory!r} is {share / 1e9:.3g} GB for each of {len(workers)} workers, and one of them has "
                f"{min(limits) / 1e9:.3g} GB in all: set memory='{int(most * len(workers) / 1e6)}MB' or less"
            )
        hosts: Counter[str] = Counter()
        for worker in workers.values():
            hosts[worker["host"]] += worker["nthreads"]
        threads = max(worker["nthreads"] for worker in workers.values())
        return Budget(total, len(workers), threads, min(total, int(most)), min(hosts.values()))

    def compute(self, graph: TaskGraph, watch: Watch) -> Results:
        """Run a graph and return what its tasks return; nothing of it stays on the workers.

        Each result is fetched as soon as it is available, so that its task need not run again if its worker dies.
        """
        with _while_open(self.client):
            return self._compute(graph, watch)

    def send(self, data: Any) -> Future[Any]:
        """Send data to a worker, which keeps it."""
        with _while_open(self.client):
            there = workers_of(self.client) if self.preferred else {}
            preferred = [address for address in self.preferred if address in there] or None
            try:
                held: Future[Any] = self.client.scatter([data], workers=preferred, hash=False)[0]
            except TimeoutError as error:
                raise StoppedError(_no_workers(self.patience)) from error
            return held

    def _compute(self, graph: TaskGraph, watch: Watch) -> Results:
        """Run a graph while the client is open."""
        if graph.alone:
            self.client.run(_give_back, on_error="ignore")
        preferred = {"workers": list(self.preferred), "allow_other_workers": True} if self.preferred else {}
        futures = self.client.compute(graph.tasks, optimize_graph=False, **preferred)
        layers = [name for name, tasks in graph.layers.items() for _ in tasks]
        results: list[Any] = [None] * len(futures)
        open_tasks, ended = set(range(len(futures))), Ended(self.client, futures)
        self._seen = monotonic()
        try:
            while open_tasks:
                self.pulse()
                self._receive()
                for k, result in ended.fetch():
                    futures[k].release()
                    open_tasks.remove(k)
                    results[k] = result
                    watch(layers[k], result)
                    self._seen = monotonic()
                self._require_workers()
        except KilledWorker as error:
            raise WorkersDiedError(
                f"workers died repeatedly on one task ({error}), as they do when memory runs out: give the run "
                "less, with a smaller memory= or more shards=, and resume"
            ) from error
        finally:
            for k in open_tasks:  # cancel() would also cancel tasks that no client holds, which ends the connection
                futures[k].release()
        self._receive()
        return by_layer(graph, results)

    def _require_workers(self) -> None:
        """Raise if for too long no task has ended and there was no worker; look for one now and then."""
        quiet = monotonic() - self._seen
        if quiet > WORKER_SECONDS and monotonic() - self._looked > LOOK_SECONDS:
            self._looked = monotonic()
            if workers_of(self.client):
                self._seen = self._looked
        if quiet > self.patience:
            raise StoppedError(_no_workers(self.patience))

    def _await_workers(self) -> dict[str, Any]:
        """Return the workers, waiting for the first one if necessary."""
        began = monotonic()
        while not (workers := workers_of(self.client)):
            self.pulse()
            if monotonic() - began > self.patience:
                raise ResourceError(_no_workers(self.patience))
            sleep(WORKER_SECONDS)
        return workers

    def _check_versions(self) -> None:
        """Raise unless every worker has the same versions as this process."""
        ours = versions()
        for address, theirs in self._on_each_worker(versions).items():
            for package, version in ours.items():
                if theirs.get(package) != version:
                    has = f"{package} {theirs[package]}" if theirs.get(package) else f"no {package}"
                    raise ResourceError(
                        f"worker {address} has {has}, this process has {version}: install the same versions everywhere"
                    )

    def _check_store(self, store: Folder) -> None:
        """Raise unless every worker can access what this process writes."""
        probe = temporary_name(HEADER)  # a run takes a folder in which one is left, and deletes it
        store.write(probe, b"dask_rac")
        try:
            for address, seen in self._on_each_worker(_sees, store.url, probe).items():
                if not seen:
                    raise ResourceError(
                        f"worker {address} cannot access {store.url}: use a folder that all machines share, or an "
                        "object store"
                    )
        finally:
            store.remove(probe)

    def _check_input(self, given: RunInput) -> None:
        """Raise unless every worker sees the same files as this process."""
        for address, seen in self._on_each_worker(_finds, given).items():
            if not seen:
                raise ResourceError(
                    f"worker {address} cannot access {given.name}, or sees different files there: put them where all "
                    "machines find them under this name, or on an object store"
                )

    def _on_each_worker(self, function: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Run a function on every worker and return the answers; workers that leave meanwhile are ignored."""
        with _while_open(self.client, OSError):
            answers: dict[str, Any] = self.client.run(function, *arguments, on_error="return")
        failed = {address: answer for address, answer in answers.items() if isinstance(answer, BaseException)}
        if failed:
            present = workers_of(self.client)
            for address in failed.keys() & present.keys():
                raise ResourceError(_failure(address, failed[address])) from None
        return {address: answer for address, answer in answers.items() if address not in failed}


@contextmanager
def _while_open(client: Client, *lost: type[Exception]) -> Iterator[None]:
    """Raise a clear error if the client or its cluster is closed in the block, which can cause many other errors.

    `lost` are errors that can only come from the connection.
    """
    try:
        yield
    except Exception as error:
        closed = client.status in ("closing", "closed")
        if closed or isinstance(error, (CommClosedError, *lost)) or _is_disconnected(error):
            raise StoppedError(
                f"the {'client was closed' if closed else 'cluster went away'} while the run was in progress: start "
                "another one and resume the run, or start it again"
            ) from error
        raise


def _is_disconnected(error: Exception) -> bool:
    """Whether tasks were cancelled because the scheduler has gone; a worker that dies with data cancels some, too."""
    return isinstance(error, CancelledError) and getattr(error, "reason", "").startswith("scheduler-")


def _give_back() -> None:
    """Release what this process keeps for the next tasks."""
    forget_state()
    scratch.end_tasks()


def _sees(url: str, probe: str) -> bool:
    """Whether this process can read a file of the store and write to it."""
    store = Folder(url)
    return store.exists(probe) and (not store.local or os.access(store.path, os.W_OK))


def _finds(given: RunInput) -> bool:
    """Whether this process sees the input of a run."""
    return given.reachable()


def _failure(address: str, error: BaseException) -> str:
    """Return the message for a worker that cannot answer."""
    if isinstance(error, InputError | StoreError):
        return f"worker {address}: {error}"
    if isinstance(error, ImportError | PackageNotFoundError) or "ModuleNotFoundError" in str(error):
        return f"worker {address} lacks this version of dask_rac ({error}): install the same versions everywhere"
    return f"worker {address} fails ({type(error).__name__}: {error}): check its log and restart it"


def _no_workers(patience: float) -> str:
    """Return the message for a cluster without workers."""
    return (
        f"the cluster has had no worker for {patience:.0f} s: start workers (cluster.scale(4), dask worker ADDRESS) "
        "and resume the run, or start it again; Dask's setting distributed.comm.timeouts.connect sets how long to wait"
    )
