"""Shared by all places to compute: reading their files, waiting for workers, a loop to run their clients on."""

from __future__ import annotations

import asyncio
import multiprocessing.resource_tracker
import signal
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractContextManager, suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from dask_rac.base.defaults import setting_seconds
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.base.secrets import masked
from dask_rac.base.text import quoted
from dask_rac.files.documents import compose, read_document, value_of

if TYPE_CHECKING:
    from distributed import Client

Notify = Callable[[str], None]
"""Receives notices for the user, one line each."""

T = TypeVar("T")

POLL_SECONDS = 0.2
STOP_SECONDS = 60  # for the operator to delete what it made


class Deployment(Protocol):
    """Where a run computes."""

    def opened(self, notify: Notify) -> AbstractContextManager[Client | None]:
        """Return a client that is open while the block runs."""


def file_at(base: str, path: str) -> Path:
    """Return a path relative to `base`."""
    return Path(base) / Path(path).expanduser()


def text_of(spec: str, path: Path, what: str) -> str:
    """Read a text file of moderate size; `what` it is to be."""
    try:
        return read_document(path, what)
    except InputError as error:
        raise InputError(f"scheduler {quoted(spec)}: {error}") from None


def mapping_of(spec: str, path: Path) -> dict[str, Any]:
    """Read a mapping from a YAML file."""
    node = compose(text_of(spec, path, "the spec of a cluster"), f"scheduler {quoted(spec)}: {path}")
    try:
        content = None if node is None else value_of(node)
    except ValueError as error:
        raise InputError(f"scheduler {quoted(spec)}: {path}: {error}") from None
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise InputError(f"scheduler {spec!r}: {path} is not a mapping of names to values")
    return content


def require_package(spec: str, package: str, extra: str) -> None:
    """Raise unless an optional package is installed."""
    if find_spec(package) is None:
        raise ResourceError(f"scheduler {spec!r} needs the package {package}: pip install 'dask-rac[{extra}]'")


def start_seconds() -> float:
    """Return how long a cluster may take to start."""
    return setting_seconds("start-timeout")


def await_workers(client: Client, count: int, name: str, notify: Notify) -> None:
    """Wait until all workers have connected."""
    seen, deadline = -1, monotonic() + start_seconds()
    while (there := len(client.scheduler_info(n_workers=-1)["workers"])) < count:
        if there != seen:
            notify(f"{name}: {there} of {count} workers")
        seen = there
        if monotonic() > deadline:
            raise ResourceError(
                f"{name}: {there} of {count} workers after {start_seconds():.0f} s: request fewer or smaller ones, "
                "or allow more time with Dask's setting rac.start-timeout"
            )
        sleep(POLL_SECONDS)


def brief(error: BaseException, secret: str | None = None) -> str:
    """Return an error as one line, with the secret removed."""
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    text = f"{type(error).__name__}: {first}" if first else type(error).__name__
    return masked(text.replace(secret, "…") if secret else text)


class Loop:
    """An event loop in its own thread, silent about tasks that are never awaited.

    Its thread, and processes started from it, leave Ctrl-C to the main thread.
    """

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.loop.set_exception_handler(lambda *_: None)
        self.thread = Thread(target=self.loop.run_forever, name="clusters", daemon=True)
        multiprocessing.resource_tracker.ensure_running()  # started later, it would let Ctrl-C through again
        before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
        try:
            self.thread.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> Loop:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(TimeoutError):
            self.submit(_cancel_others()).result(STOP_SECONDS)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(STOP_SECONDS)
        if not self.thread.is_alive():
            self.loop.close()

    def submit(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Run `work` on the loop."""
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Return the result of `work`, which is cancelled after `seconds`, or when this thread is interrupted."""
        future = self.submit(asyncio.wait_for(work, seconds))
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


async def _cancel_others() -> None:
    """Cancel all other tasks on this loop."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def started(cluster: Any) -> None:
    """Start a cluster."""
    await cluster


def hush(client: Client) -> None:
    """Keep the client's loop from printing errors that an interrupt leaves behind."""
    asyncio_loop: asyncio.AbstractEventLoop = client.loop.asyncio_loop  # type: ignore[union-attr]
    asyncio_loop.set_exception_handler(lambda *_: None)


def dashboard(link: str) -> str:
    """Return where the dashboard is, or how to get one."""
    return (
        f"dashboard: {link}" if find_spec("bokeh") else "dashboard: install it with pip install 'dask-rac[dashboard]'"
    )
