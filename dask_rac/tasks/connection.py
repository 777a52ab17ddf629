"""The connection to a scheduler: what it knows of its workers, and what is raised when it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import CancelledError
from contextlib import contextmanager
from typing import Any

from distributed import Client
from distributed.comm.core import CommClosedError

from dask_rac.base.errors import StoppedError


def identity_of(client: Client) -> dict[str, Any]:
    """Return what the scheduler reports about itself; `scheduler_info` may return a reply without workers."""
    scheduler: Any = client.scheduler
    with while_open(client, OSError):
        known: dict[str, Any] = client.sync(scheduler.identity, n_workers=-1)
    return known


def workers_of(client: Client) -> dict[str, Any]:
    """Return what the scheduler knows about each worker."""
    known: dict[str, Any] = identity_of(client)["workers"]
    return known


@contextmanager
def while_open(client: Client, *lost: type[Exception]) -> Iterator[None]:
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
