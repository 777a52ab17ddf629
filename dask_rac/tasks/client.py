"""Which scheduler a `client=` means."""

from __future__ import annotations

from typing import Any

import dask
from distributed import Client, default_client

from dask_rac.base.errors import InputError
from dask_rac.tasks import messages
from dask_rac.tasks.threads import Threads
from dask_rac.tasks.workers import Workers

ON_CLIENTS = ("dask.distributed", "distributed")  # values of Dask's setting `scheduler` that mean a client


def choose_scheduler(client: Any) -> Threads | Workers:
    """Return the given client, else the current one, else threads; an earlier choice is returned unchanged."""
    if isinstance(client, Threads | Workers):
        return client
    if client is None:
        client = _current_client()
    if client is None:
        return Threads()
    if not isinstance(client, Client):
        raise InputError(
            f"client={client!r} is not a distributed.Client: leave it out to use the threads of this process"
        )
    if client.status == "closed":
        raise InputError(f"client={client!r} is closed: give another one, or leave it out")
    if client.asynchronous:
        raise InputError(
            f"client={client!r} is asynchronous, and runs wait for their tasks: give one without asynchronous=True, or "
            "use the threads of this process with dask.config.set(scheduler='threads')"
        )
    return Workers(client)


def _current_client() -> Client | None:
    """Return the client that Dask would use; None within a task, which may occupy the thread that it would wait for."""
    named = dask.config.get("scheduler", None)
    if messages.current_worker() is not None or (isinstance(named, str) and named.lower() not in ON_CLIENTS):
        return None
    try:
        client: Client = default_client()
    except ValueError:
        return None
    return client
