"""Damage to files of finished and unfinished runs: they give the right answer or name a file, never another tree."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import dask_rac
from tests.campaign.campaign import Campaign
from tests.support.crash import manifests, path_edges, write_edges
from tests.support.damage import FOREIGN, KINDS, PATTERNS, Strike
from tests.support.results import fingerprint
from tests.support.subjects import Run, quick_scene, small_runs
from tests.support.undisturbed import StopError, stop_after

TWICE = 0.3  # of all trials damage two files
EVERYWHERE = (*PATTERNS, "statistics/*.json")


def digest(values: Any) -> str:
    """One hash over an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()


def half_cut(run: dask_rac.StoredClustering) -> Any:
    """The labels after half of the merges."""
    return run.cut(n_clusters=(run.n_trees + run.n_nodes) // 2)


LOOKS: dict[str, Callable[[Path], Any]] = {
    "merges": lambda store: fingerprint(dask_rac.open(store)),
    "labels": lambda store: digest(dask_rac.open(store).labels),
    "cut": lambda store: digest(half_cut(dask_rac.open(store))),
    "heights": lambda store: digest(dask_rac.open(store).cut(height=60.0)),
    "tree": lambda store: digest(dask_rac.open(store).to_scipy(join=True)),
    "verify": lambda store: dask_rac.open(store).verify().ok,
    "resume": lambda store: fingerprint(dask_rac.resume(store)),
}
"""What is asked of a store. An unfinished one is not asked for its tree."""

SO_FAR = ("merges", "labels", "cut", "heights")
UNFINISHED = (*SO_FAR, "resume", "resume", "resume")


@dataclass(frozen=True)
class Stored:
    """A store, and its right answers."""

    path: Path
    answers: dict[str, list[Any]]
    """By question. An unfinished run may have come less far, as its newest manifests may never have been written."""


@dataclass(frozen=True)
class Scene:
    """Stores to damage, and one whose files are put in their place."""

    folder: Path
    stores: list[Stored]
    stranger: Path


@contextmanager
def scene(_: Path) -> Iterator[Scene]:
    """Make runs, and stop others after some of their rounds."""
    with quick_scene() as folder:
        runs = small_runs(folder)
        edges = write_edges(folder / "other edges", path_edges(20, seed=1))
        stranger = Run("stranger", edges, {"shards": 2}).undisturbed(folder / "stranger").name
        paths = [folder / run.name for run in runs]
        paths += [stopped for run in runs for rounds in (1, 2) for stopped in _stopped(run, folder, rounds)]
        yield Scene(folder, [Stored(path, _answers(path, folder)) for path in paths], folder / stranger)


def _stopped(run: Run, folder: Path, rounds: int) -> Iterator[Path]:
    """A run that stopped after some rounds, unless it has fewer."""
    store = folder / f"{run.name} {rounds}"
    with suppress(StopError):
        Run(run.name, run.given, {**run.options, "progress": stop_after(rounds)}).begin(store)
    if not dask_rac.open(store).finished:
        yield store


def _answers(store: Path, folder: Path) -> dict[str, list[Any]]:
    """What an undamaged store answers."""
    run = dask_rac.open(store)
    looks = list(LOOKS) if run.finished else sorted(set(UNFINISHED))
    if run.finished and store.name == "memory":
        looks.remove("verify")  # its edges were in memory
    last = len(manifests(store))
    steps = [last] if run.finished else range(1, last + 1)
    return {
        look: [_answer(store, folder, look, step) for step in (steps if look in SO_FAR else [last])] for look in looks
    }


def _answer(store: Path, folder: Path, look: str, steps: int) -> Any:
    """What a store answers after some of its steps."""
    copy = folder / "copy"
    shutil.copytree(store, copy)
    for manifest in sorted(copy.glob("manifests/*"))[steps:]:
        manifest.unlink()
    answer = LOOKS[look](copy)
    shutil.rmtree(copy)
    return answer


def trial(scene: Scene, chance: Random, number: int) -> None:
    """Damage a copy of a store, and ask it something."""
    stored = chance.choice(scene.stores)
    look = chance.choice([*stored.answers] if "tree" in stored.answers else UNFINISHED)
    strikes = [_strike(chance) for _ in range(1 + (chance.random() < TWICE))]
    store = scene.folder / f"trial {number}"
    shutil.copytree(stored.path, store)
    damaged = [(strike.kind, strike.hit(store, EVERYWHERE, scene.stranger)) for strike in strikes]
    try:
        answer = LOOKS[look](store)
        assert answer in stored.answers[look], "another answer"
    except BaseException as error:
        if not isinstance(error, dask_rac.StoreError) or str(store) not in str(error):
            error.add_note(f"{look} of {stored.path.name}, {damaged}")
            raise
    finally:
        shutil.rmtree(store)


def _strike(chance: Random) -> Strike:
    kind = chance.choice([*KINDS, "flip", "flip", FOREIGN])
    return Strike(kind, chance.random(), chance.random(), chance.random(), chance.randrange(8))


CAMPAIGN = Campaign(
    name="damage",
    trial_is="one or two damaged files of a finished or unfinished run, which is then read or resumed",
    scene=scene,
    trial=trial,
    goal=10_000,
    share=60,
)
