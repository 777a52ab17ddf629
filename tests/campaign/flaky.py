"""Runs on an object store whose requests fail, whose answers get lost and whose lists are late."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random
from unittest import mock

import dask

from dask_rac.files import patience
from tests.campaign.campaign import Campaign
from tests.support.flaky import FlakyRuns, flaky_store

SECONDS = "0.02s"  # pauses between requests take no time here


@contextmanager
def scene(_: Path) -> Iterator[FlakyRuns]:
    """Write edges, and run once in calm weather; one thread, so that a seed gives the same order of requests."""
    with ExitStack() as stack:
        runs = stack.enter_context(flaky_store())
        pool = stack.enter_context(ThreadPoolExecutor(1))
        stack.enter_context(dask.config.set({"pool": pool, "num_workers": 1, "rac.store-timeout": SECONDS}))
        stack.enter_context(mock.patch.object(patience, "sleep"))
        runs.prepare()
        yield runs


def trial(runs: FlakyRuns, chance: Random, number: int) -> None:
    """Run and resume in bad weather, then in calm weather."""
    runs.disturb(f"run-{number}", chance)


CAMPAIGN = Campaign(
    name="flaky",
    trial_is="a run on an object store in memory whose requests fail, get no answer or list late names",
    scene=scene,
    trial=trial,
    goal=1000,
    share=10,
)
