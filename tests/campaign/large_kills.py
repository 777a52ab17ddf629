"""Kills of runs with states of several hundred megabytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

from tests.campaign.campaign import Campaign
from tests.campaign.kills import Scene, kill_one, large_runs
from tests.support.subjects import quick_scene

NODES = 1_000_000


@contextmanager
def scene(_: Path) -> Iterator[Scene]:
    """Make the runs once undisturbed."""
    with quick_scene() as folder:
        yield Scene(folder, large_runs(folder, NODES))


def trial(scene: Scene, chance: Random, number: int) -> None:
    """Kill one of the runs, and what goes on after it."""
    kill_one(scene.folder / f"trial {number}", *chance.choice(scene.small), chance)


CAMPAIGN = Campaign(
    name="large_kills",
    trial_is="the same with states of several hundred megabytes",
    scene=scene,
    trial=trial,
    goal=20,
    share=0,
)
