"""The process that drives runs on a cluster, for tests in which it lives on a host of its own.

It reads a line of JSON for each run, prints a line for each event, and one for the outcome:

    {"call": "cluster", "arguments": ["s3://graphs/edges"], "options": {"store": "s3://graphs/run"}, "scheduler": "tcp://..."}

Without a scheduler, a run takes place in this process. `plan` says what the budget is, and `lattice` writes edges.
"""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import asdict
from functools import partial
from time import perf_counter
from typing import Any

from distributed import Client

import dask_rac

CALLS: dict[str, Any] = {"cluster": dask_rac.cluster, "resume": dask_rac.resume, "plan": dask_rac.plan}
TYPED = (dask_rac.InputError, dask_rac.StoreError, dask_rac.ResourceError)
CONNECT_SECONDS = 120


def say(**fields: Any) -> None:
    """Print a line."""
    print(json.dumps(fields), flush=True)  # noqa: T201 - whoever started this process reads it


def run(wanted: dict[str, Any]) -> None:
    """Make a run, and say what came of it."""

    def progress(event: dask_rac.Event) -> None:
        say(event=event.stage, round=event.record.round if event.record else 0)

    try:
        if wanted["call"] == "lattice":
            say(edges=dask_rac.datasets.lattice(*wanted["arguments"], **wanted["options"]))
            return
        if wanted["scheduler"] is None:
            say(hash=merges_hash(dask_rac.cluster(*wanted["arguments"], **wanted["options"])))
            return
        with Client(wanted["scheduler"], timeout=CONNECT_SECONDS, set_as_default=False) as client:
            client.wait_for_workers(wanted["workers"], timeout=CONNECT_SECONDS)
            say(event="connected")
            call = partial(CALLS[wanted["call"]], *wanted["arguments"], client=client, **wanted["options"])
            if wanted["call"] == "plan":
                say(budget=asdict(call().budget))
                return
            started = perf_counter()
            found = call(progress=progress)
            seconds = perf_counter() - started
            if wanted["verify"]:
                found.verify(client=client)
        rounds = found.rounds[["clusters", "edges", "merges"]].to_dict("records")
        say(hash=merges_hash(found), seconds=seconds, rounds=rounds, shards=found.phases["shards"].tolist())
    except Exception as error:
        say(error=type(error).__name__, text=str(error), typed=isinstance(error, TYPED))


def merges_hash(found: Any) -> str:
    """Return one hash over all columns of the merges, in an order that does not depend on how they are kept."""
    merges = found.merges.compute(scheduler="sync") if isinstance(found, dask_rac.StoredClustering) else found.merges
    ordered = merges.sort_values("right")
    return hashlib.sha256(b"".join(column.to_numpy().tobytes() for _, column in ordered.items())).hexdigest()


def main() -> None:
    """Make runs until standard input ends."""
    say(event="ready")
    for line in sys.stdin:
        run(json.loads(line))


if __name__ == "__main__":
    main()
