"""Where tasks run: the threads of this process, or the workers of a client."""

from __future__ import annotations

import importlib.metadata
import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from importlib.metadata import PackageNotFoundError
from time import monotonic, sleep
from typing import Any, Protocol

import dask
from dask.base import compute
from dask.callbacks import Callback
from distributed import Client, Future, KilledWorker, default_client
from distributed.comm.core import CommClosedError
from distributed.system import MEMORY_LIMIT

from dask_rac import arena, relay
from dask_rac.config import Progress
from dask_rac.driver import new_team
from dask_rac.errors import InputError, ResourceError, StoppedError, StoreError
from dask_rac.graphs import Graph
from dask_rac.planner import Budget
from dask_rac.store.files import Folder
from dask_rac.store.urls import masked

POLL_SECONDS = 0.01
WORKER_SECONDS = 0.1  # between two looks for a first worker
FETCH_SECONDS = 5  # for a receipt; twice as long whenever that was too short
SHARE = 0.5  # of the memory there is, by default
MOST_SHARE = 0.7  # of a worker's memory: at 0.8 Dask pauses it
ON_CLIENTS = ("dask.distributed", "distributed")  # what Dask's setting `scheduler` calls the workers of a client
PACKAGES = ("dask-rac", "dask", "distributed", "numba", "numpy", "zarr", "pyarrow")

Results = dict[str, list[Any]]
"""What the tasks of each layer returned."""

Watch = Callable[[str, Any], None]
"""Told the layer and the result of each task that is done."""


class Input(Protocol):
    """What a run reads: edges, or vectors."""

    @property
    def name(self) -> str:
        """Where it is."""

    def reachable(self) -> bool:
        """Whether this process finds it as it was found at first."""


class Scheduler(Protocol):
    """Where tasks run."""

    pulse: Callable[[], None]
    """Called again and again while tasks run on workers; what it raises ends them."""

    def budget(self, memory: str | float | None) -> Budget:
        """What a run may use."""

    def compute(self, graph: Graph, watch: Watch) -> Results:
        """What the tasks of a graph return."""

    def listening(self, token: str, report: Progress) -> AbstractContextManager[None]:
        """Have tasks that tell by this token report while in the block."""

    def check(self, store: Folder, given: Input | None = None) -> None:
        """Raise unless a run can begin, where something on disk is still to be read if given."""


def chosen(client: Any) -> Threads | Workers:
    """The client given, else the current one, else the threads of this process; what was chosen before stays."""
    if isinstance(client, Threads | Workers):
        return client
    if client is None:
        client = _current_client()
    if client is None:
        return Threads()
    if not isinstance(client, Client):
        raise InputError(f"client={client!r} is no distributed.Client: leave it out to use the threads of this process")
    if client.status == "closed":
        raise InputError(f"client={client!r} is closed: give another, or leave it out")
    if client.asynchronous:
        raise InputError(
            f"client={client!r} is asynchronous, and runs wait for their tasks: give one without asynchronous=True, or "
            "use the threads of this process with dask.config.set(scheduler='threads')"
        )
    return Workers(client)


def _current_client() -> Client | None:
    """The client that Dask would use; none within a task, which may hold the thread that it would wait for."""
    named = dask.config.get("scheduler", None)
    if relay.current_worker() is not None or (isinstance(named, str) and named.lower() not in ON_CLIENTS):
        return None
    try:
        client: Client = default_client()
    except ValueError:
        return None
    return client


def identity_of(client: Client) -> dict[str, Any]:
    """What the scheduler tells of itself; `scheduler_info` may answer with another reply, which names no workers."""
    scheduler: Any = client.scheduler
    with _while_open(client):
        known: dict[str, Any] = client.sync(scheduler.identity, n_workers=-1)
    return known


def workers_of(client: Client) -> dict[str, Any]:
    """What the scheduler knows of each worker."""
    known: dict[str, Any] = identity_of(client)["workers"]
    return known


def memory_bytes(memory: str | float | None, default: int) -> int:
    """A budget as bytes."""
    if memory is None:
        return default
    try:
        size = int(dask.utils.parse_bytes(memory))
    except (ValueError, TypeError, AttributeError):
        size = 0
    if size <= 0 or isinstance(memory, bool):
        raise InputError(f"memory={memory!r} is no amount of memory: give bytes, or text such as '6GB'")
    return size


class Threads:
    """The threads of this process, as many as Dask's setting `num_workers` says."""

    def __init__(self) -> None:
        with new_team() as team:
            self.threads = team.threads
        self.pulse = _go_on
        self._pool: ThreadPoolExecutor | None = None

    def __str__(self) -> str:
        return f"{self.threads} threads of this process" if self.threads > 1 else "one thread of this process"

    def budget(self, memory: str | float | None) -> Budget:
        """What a run may use: half of the machine unless told otherwise."""
        return Budget(memory_bytes(memory, int(SHARE * MEMORY_LIMIT)), 1, self.threads)

    def check(self, store: Folder, given: Input | None = None) -> None:
        """Nothing has to be checked."""

    def compute(self, graph: Graph, watch: Watch) -> Results:
        """What the tasks of a graph return."""

        def tell(key: Any, result: Any, *_: Any) -> None:
            layer = str(key).partition("-")[0]
            if layer in graph.layers:
                watch(layer, result)

        with Callback(posttask=tell), self._threads() as pool:
            results = compute(*graph.tasks, scheduler="threads", pool=pool, optimize_graph=False)
        return _by_layer(graph, results)

    @contextmanager
    def _threads(self) -> Iterator[Any]:
        """Threads that stay from graph to graph; after an error none goes on with a task of which nobody knows."""
        own = self._pool = self._pool or ThreadPoolExecutor(self.threads)
        try:
            yield dask.config.get("pool", None) or own
        except BaseException:
            self._pool = None
            own.shutdown(cancel_futures=True)
            arena.end_tasks()
            raise

    def listening(self, token: str, report: Progress) -> AbstractContextManager[None]:
        """Have tasks that tell by this token report while in the block."""
        return relay.listening(token, report)


class Workers:
    """The workers of a client, which stays the user's."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.patience = dask.utils.parse_timedelta(dask.config.get("distributed.comm.timeouts.connect", "30s"))
        self.pulse = _go_on
        self.rather: Sequence[str] = ()  # addresses of workers that are to be used before others
        self._hear = _go_on

    def __str__(self) -> str:
        known = identity_of(self.client)
        count = len(known["workers"])
        return f"{count} worker{'s' * (count != 1)} of {known['address']}"

    def ready(self) -> dict[str, int]:
        """Raise unless there are workers, with our versions; gives the memory of each by its address."""
        workers = self._await_workers()
        self._check_versions()
        return {address: worker["memory_limit"] or MEMORY_LIMIT for address, worker in workers.items()}

    @contextmanager
    def listening(self, token: str, report: Progress) -> Iterator[None]:
        """Have tasks that tell by this token report while in the block."""
        with relay.hearing(self.client, token, report) as hear:
            self._hear = hear
            try:
                yield
            finally:
                self._hear = _go_on

    def check(self, store: Folder, given: Input | None = None) -> None:
        """Raise unless there are workers, with our versions, that see the store, and what is to be read if given."""
        self.ready()
        self._check_store(store)
        if given is not None:
            self._check_input(given)

    def budget(self, memory: str | float | None) -> Budget:
        """What a run may use: half of the smallest worker's memory on each of them, unless told otherwise."""
        workers = self._await_workers()
        limits = [worker["memory_limit"] or MEMORY_LIMIT for worker in workers.values()]
        total = memory_bytes(memory, int(SHARE * min(limits)) * len(workers))
        share, most = total / len(workers), MOST_SHARE * min(limits)
        if share > most:
            raise ResourceError(
                f"memory={memory!r} is {share / 1e9:.3g} GB for each of {len(workers)} workers, and one has "
                f"{min(limits) / 1e9:.3g} GB in all: set memory='{int(most * len(workers) / 1e6)}MB' or less"
            )
        return Budget(total, len(workers), max(worker["nthreads"] for worker in workers.values()))

    def compute(self, graph: Graph, watch: Watch) -> Results:
        """What the tasks of a graph return; nothing of it stays on the workers.

        A result is fetched as soon as it is there: should its worker die later, the task need not run again.
        """
        with _while_open(self.client):
            return self._compute(graph, watch)

    def send(self, data: Any) -> Future[Any]:
        """Have a worker hold data."""
        with _while_open(self.client):
            there = workers_of(self.client) if self.rather else {}
            rather = [address for address in self.rather if address in there] or None
            try:
                held: Future[Any] = self.client.scatter([data], workers=rather, hash=False)[0]
            except TimeoutError as error:
                raise StoppedError(_no_workers(self.patience)) from error
            return held

    def _compute(self, graph: Graph, watch: Watch) -> Results:
        """What the tasks return, while the client is open."""
        rather = {"workers": list(self.rather), "allow_other_workers": True} if self.rather else {}
        futures = self.client.compute(graph.tasks, optimize_graph=False, **rather)
        layers = [name for name, tasks in graph.layers.items() for _ in tasks]
        results: list[Any] = [None] * len(futures)
        open_tasks, seen, fetch = set(range(len(futures))), monotonic(), FETCH_SECONDS
        try:
            while open_tasks:
                self.pulse()
                self._hear()
                ready = [k for k in sorted(open_tasks) if futures[k].done()]
                for k in ready:
                    try:
                        results[k] = futures[k].result(timeout=fetch)
                    except TimeoutError:  # its worker is gone, and the task runs again; or the result is large
                        ready, fetch = [task for task in ready if task < k], 2 * fetch
                        break
                    futures[k].release()
                    watch(layers[k], results[k])
                open_tasks.difference_update(ready)
                if ready or workers_of(self.client):
                    seen = monotonic()
                if monotonic() - seen > self.patience:
                    raise StoppedError(_no_workers(self.patience))
                if not ready:
                    sleep(POLL_SECONDS)
        except KilledWorker as error:
            raise StoppedError(
                f"workers died again and again on one task ({error}), as they do when memory runs out: give the run "
                "less, with a smaller memory= or more shards=, and resume"
            ) from error
        finally:
            for k in open_tasks:  # cancel() would take along tasks that no client holds, which ends the connection
                futures[k].release()
        self._hear()
        return _by_layer(graph, results)

    def _await_workers(self) -> dict[str, Any]:
        """The workers, after some patience."""
        began = monotonic()
        while not (workers := workers_of(self.client)):
            self.pulse()
            if monotonic() - began > self.patience:
                raise ResourceError(_no_workers(self.patience))
            sleep(WORKER_SECONDS)
        return workers

    def _check_versions(self) -> None:
        """Raise unless every worker has what we have."""
        ours = versions()
        for address, theirs in self._ask(versions).items():
            for package, version in ours.items():
                if theirs.get(package) != version:
                    raise ResourceError(
                        f"worker {address} has {package} {theirs.get(package) or 'not at all'}, this process "
                        f"{version}: install the same versions everywhere"
                    )

    def _check_store(self, store: Folder) -> None:
        """Raise unless every worker sees what we write."""
        probe = f"probe-{uuid.uuid4().hex[:8]}"
        store.write(probe, b"dask_rac")
        try:
            for address, seen in self._ask(_sees, store.url, probe).items():
                if not seen:
                    raise ResourceError(
                        f"worker {address} does not see {store.url}: use a folder that all machines share, or an "
                        "object store"
                    )
        finally:
            store.remove(probe)

    def _check_input(self, given: Input) -> None:
        """Raise unless every worker finds the files that we found."""
        for address, seen in self._ask(_finds, given).items():
            if not seen:
                raise ResourceError(
                    f"worker {address} does not see {given.name}, or not the same files: put them where all machines "
                    "find them by this name, or on an object store"
                )

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """What every worker answers; those that leave meanwhile do not count."""
        with _while_open(self.client):
            answers: dict[str, Any] = self.client.run(question, *arguments, on_error="return")
        failed = {address: answer for address, answer in answers.items() if isinstance(answer, BaseException)}
        if failed:
            present = workers_of(self.client)
            for address in failed.keys() & present.keys():
                raise ResourceError(_failure(address, failed[address])) from None
        return {address: answer for address, answer in answers.items() if address not in failed}


@contextmanager
def _while_open(client: Client) -> Iterator[None]:
    """Say so if the client or its cluster is closed in the block, which makes all sorts of things fail."""
    try:
        yield
    except Exception as error:
        closed = client.status in ("closing", "closed")
        if closed or isinstance(error, CommClosedError):
            raise StoppedError(
                f"the {'client was closed' if closed else 'cluster went away'} while the run was on its way: start "
                "another, and resume the run, or start it again"
            ) from error
        raise


def _go_on() -> None:
    """Nothing stops the tasks, and nothing is to be heard of them."""


def _by_layer(graph: Graph, results: Sequence[Any]) -> Results:
    """Results in the order of the tasks, by layer."""
    left = iter(results)
    return {name: [next(left) for _ in tasks] for name, tasks in graph.layers.items()}


def versions() -> dict[str, str]:
    """The packages that must be the same everywhere."""
    return {package: importlib.metadata.version(package) for package in PACKAGES}


def _sees(url: str, probe: str) -> bool:
    """Whether this process can read a file of the store, and write there."""
    store = Folder(url)
    return store.exists(probe) and (not store.local or os.access(store.path, os.W_OK))


def _finds(given: Input) -> bool:
    """Whether this process finds what a run reads."""
    return given.reachable()


def _failure(address: str, error: BaseException) -> str:
    """What to say of a worker that cannot answer."""
    if isinstance(error, InputError | StoreError):
        return f"worker {address}: {error}"
    if isinstance(error, ImportError | PackageNotFoundError) or "ModuleNotFoundError" in str(error):
        return f"worker {address} has no dask_rac like ours ({error}): install the same versions everywhere"
    return f"worker {address} fails ({type(error).__name__}: {masked(str(error))}): see its log, and start it anew"


def _no_workers(patience: float) -> str:
    """What to say when nobody is there."""
    return (
        f"the cluster has had no worker for {patience:.0f} s: start workers (cluster.scale(4), dask worker ADDRESS) "
        "and resume the run, or start it again; Dask's setting distributed.comm.timeouts.connect says how long to wait"
    )
