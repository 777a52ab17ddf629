"""Workers, nannies and the scheduler of a cluster of real processes, killed in the middle of a run."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import dask
from distributed import Client

import dask_rac
from tests.campaign.campaign import Campaign
from tests.support.crash import PATIENCE, begin, path_edges, result_hash, write_edges
from tests.support.mortal_cluster import mortal_cluster
from tests.support.subjects import Run, quick_scene

VICTIMS = ("worker", "worker", "nanny", "scheduler")
EVENTS = 60  # of an undisturbed run, about
GIVE_UP = "5s"
"""How long a run waits for workers."""


@dataclass(frozen=True)
class Scene:
    """Runs of both engines."""

    folder: Path
    runs: list[Run]


@contextmanager
def scene(_: Path) -> Iterator[Scene]:
    """Make the runs once undisturbed."""
    with quick_scene() as folder:
        edges = write_edges(folder / "edges", path_edges())
        runs = [Run("rounds", edges, {}), Run("single", edges, {"linkage": "single"})]
        yield Scene(folder, [run.undisturbed(folder / run.name) for run in runs])


def trial(scene: Scene, chance: Random, number: int) -> None:
    """Kill processes at chosen events of a run; it is right, or says what to do, and then it can be resumed."""
    run, folder = chance.choice(scene.runs), scene.folder / f"trial {number}"
    deaths = {chance.randrange(EVENTS): chance.choice(VICTIMS) for _ in range(chance.choice((1, 1, 2, 3)))}
    store = folder / run.name
    folder.mkdir()
    try:
        _disturb(run, store, deaths)
        run.check(store)
    except BaseException as error:
        error.add_note(f"{run.name}, {deaths}")
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)  # processes that die may still be writing


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what a client says about a scheduler that was killed out of the table."""
    log = logging.getLogger("distributed")
    before = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(before)


def _disturb(run: Run, store: Path, deaths: dict[int, str]) -> None:
    """Run on a cluster of which some processes are killed, each at an event."""
    seen = 0
    with (
        _quiet(),
        dask.config.set({"distributed.comm.timeouts.connect": GIVE_UP}),
        mortal_cluster(store.parent) as cluster,
        Client(cluster.address, set_as_default=False, timeout=PATIENCE) as client,
    ):
        client.wait_for_workers(2, timeout=PATIENCE)

        def progress(event: dask_rac.Event) -> None:
            nonlocal seen
            seen += 1
            if seen in deaths:
                cluster.kill(deaths[seen], seen)

        try:
            assert result_hash(begin(run.given, store, **run.options, client=client, progress=progress)) == run.hash
        except (dask_rac.StoreError, dask_rac.ResourceError) as error:
            if "resume" not in str(error):
                raise


CAMPAIGN = Campaign(
    name="workers",
    trial_is="SIGKILL of workers, nannies or the scheduler in the middle of a run",
    scene=scene,
    trial=trial,
    goal=60,
    share=1,
)
