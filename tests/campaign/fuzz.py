"""Malformed inputs: every reader of data must read what is there or refuse it with an error that says what to do."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.campaign.campaign import Campaign
from tests.support.folders import quick_folder
from tests.support.inputs import READERS, warm
from tests.support.mutation import mutate
from tests.support.nursery import Nursery, Outcome

TYPED = frozenset({"InputError", "StoreError", "ResourceError", "AuditError"})
MOST = 4 * 10**8  # bytes that a child may take to read some kilobytes
LONGEST = 2_000  # characters of a message


@dataclass(frozen=True)
class Scene:
    """Valid inputs, by kind, and a nursery for those who read them."""

    folder: Path
    inputs: tuple[tuple[str, Path], ...]
    nursery: Nursery


@contextmanager
def scene(_: Path) -> Iterator[Scene]:
    """Write a valid input of every format."""
    with quick_folder() as folder:
        for kind, (write, _read) in READERS.items():
            (folder / kind).mkdir()
            write(folder / kind)
        inputs = tuple((kind, path) for kind in READERS for path in sorted((folder / kind).iterdir()))
        nursery = Nursery(warm)
        try:
            yield Scene(folder, inputs, nursery)
        finally:
            nursery.close()


def trial(place: Scene, chance: Random, _: int) -> None:
    """Damage one input, and read it in a child."""
    kind, valid = chance.choice(place.inputs)
    work = place.folder / "trial"
    work.mkdir()
    try:
        given = work / valid.name
        (shutil.copytree if valid.is_dir() else shutil.copy)(valid, given)
        done = mutate(given, chance)
        outcome = place.nursery.run(READERS[kind][1], given, work, chance.random() < 0.1)
    finally:
        shutil.rmtree(work)
    if fault := judge(outcome):
        raise AssertionError(f"{kind}, {done}: {fault}\n{outcome.trace}")


def judge(outcome: Outcome) -> str:
    """Return what is wrong with an outcome; empty if it is a right result or a good error."""
    if outcome.end:
        return f"the process {outcome.end}"
    if outcome.acts:
        return f"the process did {', '.join(outcome.acts)}"
    if outcome.grown > MOST:
        return f"it took {outcome.grown / 1e6:.0f} MB"
    if outcome.answer == "read":
        return ""
    if not TYPED.intersection(outcome.error):
        return f"{outcome.error[0]}: {outcome.text}"
    return "" if 0 < len(outcome.text) <= LONGEST else f"a message of {len(outcome.text)} characters"


CAMPAIGN = Campaign(
    name="fuzz",
    trial_is="a malformed input of data, read in a process of its own",
    scene=scene,
    trial=trial,
    goal=10_000,
    share=20,
)
