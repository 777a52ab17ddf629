"""The statistics of rounds, left in the store for others to look at while the run goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from time import monotonic

from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.names import statistics_name
from dask_rac.files.folder import Folder
from dask_rac.tasks import messages

STATISTICS_SECONDS = 1  # between two records on an object store, where each is a request


@contextmanager
def reporting(store: Folder, token: str) -> Iterator[Listener]:
    """Give a listener that leaves the statistics of each round in the store, and sends events to whoever waits."""
    written = 0.0
    with messages.sending(token) as send:

        def report(event: Event) -> None:
            nonlocal written
            if event.record is not None and (store.local or monotonic() - written > STATISTICS_SECONDS):
                write_statistics(store, event.record)
                written = monotonic()
            send(event)

        yield report


def write_statistics(store: Folder, record: RoundRecord) -> None:
    """Write the record of a round where other processes can read it."""
    store.write(statistics_name(record.round), json.dumps(asdict(record)).encode())
