"""Processes killed at any call of the file layer, or in the middle of a write, again and again, and then let go on."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import dask_rac
from tests.campaign.campaign import Campaign
from tests.support.calls import Call, watched
from tests.support.crash import PATIENCE, Child, manifests
from tests.support.subjects import (
    Output,
    Recipe,
    Run,
    Subject,
    calls_of,
    one_thread,
    quick_scene,
    small_outputs,
    small_runs,
)

MOMENTS = ("before", "within", "after")
KILLS = (1, 1, 1, 2, 2, 3, 4)
LARGE = 10  # of as many trials the last has states of tens of megabytes
NODES = 60_000

Counted = tuple[Subject, int]
"""With the number of its calls."""


@dataclass(frozen=True)
class Scene:
    """What is killed."""

    folder: Path
    small: list[Counted]

    @cached_property
    def large(self) -> list[Counted]:
        """Runs with larger states, made when they are needed."""
        return large_runs(self.folder, NODES)

    def choose(self, chance: Random, number: int) -> Counted:
        """Choose what is killed; of what is small at least half are runs."""
        if number % LARGE == LARGE - 1:
            return chance.choice(self.large)
        runs = [counted for counted in self.small if isinstance(counted[0], Run)]
        return chance.choice(runs if chance.random() < 0.5 else self.small)


@contextmanager
def scene(_: Path) -> Iterator[Scene]:
    """Make everything once undisturbed."""
    with quick_scene() as folder:
        runs = small_runs(folder)
        subjects: list[Subject] = [*runs, *small_outputs(folder, folder / runs[0].name)]
        subjects.append(Recipe("recipe").undisturbed(folder / "recipes" / "recipe"))
        yield Scene(folder, [(subject, len(calls_of(subject, folder))) for subject in subjects])


def large_runs(folder: Path, nodes: int) -> list[Counted]:
    """Runs of both engines on a graph with 20 neighbours per node, without their undisturbed stores."""
    edges = folder / "lattice"
    dask_rac.datasets.lattice(nodes, degree=20, store=edges, weights="distance")
    runs: list[Counted] = []
    for linkage in ("average", "single"):
        store = folder / f"large {linkage}"
        run = Run(store.name, edges, {"linkage": linkage}).undisturbed(store)
        shutil.rmtree(store)
        runs.append((run, len(calls_of(run, folder))))
    return runs


def make_to_death(subject: Subject, target: Path, moment: str, at: int) -> str:
    """Make a subject, or go on with it, until this process is killed at a call."""
    calls = 0

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(PATIENCE)

    def act(call: Call) -> Any:
        nonlocal calls
        calls += 1
        if calls - 1 != at:
            return call.go()
        if moment == "within" and call.go_short:
            call.go_short()
            die()
        if moment == "before":
            die()
        result = call.go()
        die()
        return result

    with one_thread(), watched(target, act):
        subject.make(target)
    return "done"


def trial(scene: Scene, chance: Random, number: int) -> None:
    """Kill a process, and those that go on after it; the last one goes on to the end, and nothing is done twice."""
    subject, calls = scene.choose(chance, number)
    kill_one(scene.folder / f"trial {number}", subject, calls, chance)


def kill_one(folder: Path, subject: Subject, calls: int, chance: Random) -> None:
    """Kill a process several times over, and check what it comes to in the end."""
    folder.mkdir()
    target, deaths = folder / subject.name, []
    kept: list[bytes] = []
    try:
        for _ in range(chance.choice(KILLS)):
            deaths.append((chance.choice(MOMENTS), int(calls * chance.random() ** 1.5)))
            answer = Child(make_to_death, subject, target, *deaths[-1]).join()
            now = manifests(target)
            assert now[: len(kept)] == kept, "a committed step was repeated"
            kept = now
            if answer != signal.SIGKILL:
                assert answer == "done" or _excused(answer, subject, target), answer
                break
        subject.check(target)
        assert manifests(target)[: len(kept)] == kept, "a committed step was repeated"
    except BaseException as error:
        error.add_note(f"{subject.name}, killed at {deaths}")
        raise
    finally:
        shutil.rmtree(folder)


def _excused(answer: Any, subject: Subject, target: Path) -> bool:
    """Whether a refusal is right: edges in memory are gone with their process, and an output is never overwritten."""
    if isinstance(subject, Run):
        return not isinstance(subject.given, Path) and not manifests(target) and "another folder" in answer[1]
    return isinstance(subject, Output) and target.exists() and "exists" in answer[1]


CAMPAIGN = Campaign(
    name="kills",
    trial_is="SIGKILL at a call of the file layer or within a write, up to four times in a row, then going on",
    scene=scene,
    trial=trial,
    goal=2000,
    share=12,
)
