"""Which workers may take part in a run: those with our versions, the store, its input, and enough memory.

All that are there are asked before the run begins, and those that join later before anything counts that they may have
done: after each graph, and now and then while it runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError
from time import monotonic, sleep
from typing import Any

from distributed import Client
from distributed.system import MEMORY_LIMIT

from dask_rac.base.errors import InputError, ResourceError, StoppedError, StoreError
from dask_rac.base.names import HEADER, temporary_name
from dask_rac.files.folder import Folder
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.connection import while_open, workers_of
from dask_rac.tasks.machine import versions
from dask_rac.tasks.scheduler import RunInput

JOIN_SECONDS = 10  # between two looks for workers that have joined
LEAVE_SECONDS = 5  # until the scheduler knows that a worker which cannot be reached has left
MOST_SHARE = 0.7  # of a worker's memory: at 0.8, Dask pauses the worker


class Admission:
    """What workers are asked before they take part."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._asked: set[str] = set()  # addresses of workers that can take part; empty before the first are asked
        self._store: Folder | None = None
        self._budget: Budget | None = None
        self._looked = 0.0

    def admit(self, workers: dict[str, Any]) -> None:
        """Raise unless all workers have our versions; these are known from now on."""
        self._check_versions()
        self._asked = set(workers)

    def check(self, store: Folder, given: RunInput | None, budget: Budget | None) -> None:
        """Raise unless all workers can access the store, and the input if there is one."""
        self._check_store(store)
        if given is not None:
            self._check_input(given)
        self._store, self._budget = store, budget

    def look(self) -> None:
        """Check workers that have joined, if nobody has looked for some time."""
        if monotonic() - self._looked > JOIN_SECONDS:
            self.check_joined()

    def check_joined(self) -> None:
        """Raise if a worker has joined since the others were checked, and cannot take part.

        It may have done tasks of this graph, so their results must not be used.
        """
        self._looked = monotonic()
        there = workers_of(self._client) if self._asked else {}
        joined = {address: worker for address, worker in there.items() if address not in self._asked}
        if not joined:
            return
        try:
            self._check_versions(list(joined))
            self._check_room(joined)
            if self._store is not None:
                self._check_store(self._store, list(joined))
        except ResourceError as error:
            raise StoppedError(
                f"a worker joined that cannot take part: {error}; or stop it, then resume the run or start it again"
            ) from error
        self._asked |= joined.keys()

    def _check_room(self, workers: dict[str, Any]) -> None:
        """Raise unless workers have the memory that this run has planned for each."""
        if self._budget is None:
            return
        for address, worker in workers.items():
            limit = worker["memory_limit"] or MEMORY_LIMIT
            needed = self._budget.process * max(1, worker["nthreads"] / self._budget.threads)
            if needed > MOST_SHARE * limit:
                raise ResourceError(
                    f"worker {address} has {limit / 1e9:.3g} GB and {worker['nthreads']} threads, for which this run "
                    f"has planned {needed / 1e9:.3g} GB: give it {needed / MOST_SHARE / 1e9:.3g} GB or more"
                )

    def _check_versions(self, workers: list[str] | None = None) -> None:
        """Raise unless every worker, or each of these, has the same versions as this process."""
        ours = versions()
        for address, theirs in self._on_each_worker(workers, versions).items():
            for package, version in ours.items():
                if theirs.get(package) != version:
                    has = f"{package} {theirs[package]}" if theirs.get(package) else f"no {package}"
                    raise ResourceError(
                        f"worker {address} has {has}, this process has {version}: install the same versions everywhere"
                    )

    def _check_store(self, store: Folder, workers: list[str] | None = None) -> None:
        """Raise unless every worker, or each of these, can access what this process writes."""
        probe = temporary_name(HEADER)  # a run takes a folder in which one is left, and deletes it
        store.write(probe, b"dask_rac")
        try:
            for address, seen in self._on_each_worker(workers, _sees, store.url, probe).items():
                if not seen:
                    raise ResourceError(
                        f"worker {address} cannot access {store.url}: use a folder that all machines share, or an "
                        "object store"
                    )
        finally:
            store.remove_files([probe])

    def _check_input(self, given: RunInput) -> None:
        """Raise unless every worker sees the same files as this process."""
        for address, seen in self._on_each_worker(None, _finds, given).items():
            if not seen:
                raise ResourceError(
                    f"worker {address} cannot access {given.name}, or sees different files there: put them where all "
                    "machines find them under this name, or on an object store"
                )

    def _on_each_worker(
        self, workers: list[str] | None, function: Callable[..., Any], *arguments: Any
    ) -> dict[str, Any]:
        """Run a function on every worker, or each of these, and return the answers.

        Workers that leave meanwhile are ignored. The scheduler learns of a worker that died a moment later than whoever
        was connected to it, so those that cannot be reached are asked again, unless they leave within some
        seconds.
        """
        answers = self._answers(workers, function, arguments)
        ending = monotonic() + LEAVE_SECONDS
        while (unreached := _known(_failed(answers, OSError), self._client)) and monotonic() < ending:
            sleep(LEAVE_SECONDS / 25)
        if unreached:
            answers |= self._answers(list(unreached), function, arguments)
        failed = _failed(answers, BaseException)
        for address, error in _known(failed, self._client).items():
            raise ResourceError(_failure(address, error)) from None
        return {address: answer for address, answer in answers.items() if address not in failed}

    def _answers(
        self, workers: list[str] | None, function: Callable[..., Any], arguments: tuple[Any, ...]
    ) -> dict[str, Any]:
        """Run a function on workers once; the answer of one that fails is its error."""
        with while_open(self._client, OSError):
            answers: dict[str, Any] = self._client.run(function, *arguments, workers=workers, on_error="return")
        return answers


def _failed(answers: dict[str, Any], kind: type[BaseException]) -> dict[str, BaseException]:
    """Return the answers that are such errors."""
    return {address: answer for address, answer in answers.items() if isinstance(answer, kind)}


def _known(failed: dict[str, BaseException], client: Client) -> dict[str, BaseException]:
    """Return the errors of those workers that have not left meanwhile."""
    present = workers_of(client) if failed else {}
    return {address: error for address, error in failed.items() if address in present}


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
