"""The process that drives runs on a cluster, for tests in which it lives on a host of its own.

It reads a line of JSON for each run, prints a line for each event, and one for the outcome:

    {"call": "cluster", "arguments": ["s3://graphs/edges"], "options": {"store": "s3://graphs/run"}, "scheduler": "tcp://..."}
"""

from __future__ import annotations

import json
import sys
from typing import Any

from distributed import Client

import dask_rac
from tests.support.crash import result_hash

TYPED = (dask_rac.InputError, dask_rac.StoreError, dask_rac.ResourceError)
CONNECT_SECONDS = 120


def say(**fields: Any) -> None:
    """Print a line."""
    print(json.dumps(fields), flush=True)  # noqa: T201 - whoever started this process reads it


def run(wanted: dict[str, Any]) -> None:
    """Make a run, and say what came of it."""

    def progress(event: dask_rac.Event) -> None:
        say(event=event.stage)

    call: Any = {"cluster": dask_rac.cluster, "resume": dask_rac.resume}[wanted["call"]]
    try:
        with Client(wanted["scheduler"], timeout=CONNECT_SECONDS, set_as_default=False) as client:
            client.wait_for_workers(wanted["workers"], timeout=CONNECT_SECONDS)
            say(event="connected")
            found: Any = call(*wanted["arguments"], client=client, progress=progress, **wanted["options"])
            if wanted["verify"]:
                found.verify(client=client)
        say(hash=result_hash(found))
    except Exception as error:
        say(error=type(error).__name__, text=str(error), typed=isinstance(error, TYPED))


def main() -> None:
    """Make runs until standard input ends."""
    say(event="ready")
    for line in sys.stdin:
        run(json.loads(line))


if __name__ == "__main__":
    main()
