"""Tasks on the workers of a client."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic, sleep
from typing import Any

import dask
from distributed import Client, Future, KilledWorker
from distributed.system import MEMORY_LIMIT

from dask_rac.base.errors import ResourceError, StoppedError
from dask_rac.base.events import Listener
from dask_rac.files.folder import Folder
from dask_rac.tasks import messages, scratch
from dask_rac.tasks.admission import MOST_SHARE, Admission
from dask_rac.tasks.budget import SHARE, Budget, memory_bytes
from dask_rac.tasks.cache import forget_state
from dask_rac.tasks.connection import identity_of, while_open, workers_of
from dask_rac.tasks.ended import Ended
from dask_rac.tasks.scheduler import RunInput, Watch, no_pulse
from dask_rac.tasks.task_graph import Results, TaskGraph, by_layer

WORKER_SECONDS = 0.1  # between two checks for a first worker
LOOK_SECONDS = 1  # between two looks whether there still is one


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
        self._admission = Admission(client)

    def __str__(self) -> str:
        known = identity_of(self.client)
        count = len(known["workers"])
        return f"{count} worker{'s' * (count != 1)} of {known['address']}"

    def ready(self) -> dict[str, int]:
        """Raise unless there are workers with our versions; return the memory of each by its address."""
        workers = self._await_workers()
        self._admission.admit(workers)
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

    def check(self, store: Folder, given: RunInput | None = None, budget: Budget | None = None) -> None:
        """Raise unless there are workers with our versions that can access the store, and the input if given.

        Workers that join later must be able to do the same, and have room for what the budget allows each.
        """
        self.ready()
        self._admission.check(store, given, budget)

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
        with while_open(self.client):
            return self._compute(graph, watch)

    def send(self, data: Any) -> Future[Any]:
        """Send data to a worker, which keeps it."""
        with while_open(self.client):
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
        futures: list[Future[Any]] = self.client.get(graph.nodes, graph.keys, sync=False, **preferred)
        layers = [name for name, tasks in graph.layers.items() for _ in tasks]
        results: list[Any] = [None] * len(futures)
        open_tasks, ended = set(range(len(futures))), Ended(self.client, futures)
        self._seen = monotonic()
        try:
            while open_tasks:
                self.pulse()
                self._receive()
                for k, result in self._fetch(ended):
                    futures[k].release()
                    open_tasks.remove(k)
                    results[k] = result
                    watch(layers[k], result)
                    self._seen = monotonic()
                self._require_workers()
                self._admission.look()
            self._admission.check_joined()
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

    def _fetch(self, ended: Ended) -> list[tuple[int, Any]]:
        """Return tasks that have ended, with their results; where one fails, a worker that has joined may be why."""
        try:
            return list(ended.fetch())
        except Exception:
            self._admission.check_joined()
            raise

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


def _give_back() -> None:
    """Release what this process keeps for the next tasks."""
    forget_state()
    scratch.end_tasks()


def _no_workers(patience: float) -> str:
    """Return the message for a cluster without workers."""
    return (
        f"the cluster has had no worker for {patience:.0f} s: start workers (cluster.scale(4), dask worker ADDRESS) "
        "and resume the run, or start it again; Dask's setting distributed.comm.timeouts.connect sets how long to wait"
    )
