"""Two or three processes on one store, interleaved call by call as a seeded generator decides, locked or not."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from unittest import mock

import dask_rac
from dask_rac.files.folder import Folder
from dask_rac.results.stored import StoredClustering
from dask_rac.store.header import read_header
from dask_rac.store.journal import Journal
from dask_rac.store.manifest import read_chain
from tests.campaign.campaign import Campaign
from tests.support.crash import result_hash
from tests.support.results import fingerprint
from tests.support.subjects import Run, quick_scene, small_runs
from tests.support.turns import take_turns
from tests.support.undisturbed import StopError, stop_after

BEGINNINGS = (("begin", "begin"), ("begin", "begin", "resume"), ("begin", "read"), ("begin", "resume"))
MIDDLES = (
    ("resume", "resume"),
    ("resume", "resume"),
    ("resume", "resume", "resume"),
    ("resume", "read"),
    ("resume", "begin"),
    ("resume", "resume", "read"),
)
ENDS = (("resume", "resume"), ("resume", "verify"), ("verify", "verify"), ("resume", "verify", "read"))
REFUSALS = {"StoreInUseError", "StoreError"}


@dataclass(frozen=True)
class Scene:
    """Runs, those that were stopped, and what a reader may see of each."""

    folder: Path
    runs: list[Run]
    stopped: dict[str, Path]
    seen: dict[str, set[str]]


@contextmanager
def scene(_: Path) -> Iterator[Scene]:
    """Make runs, and stop each after a round."""
    with quick_scene() as folder:
        runs = [run for run in small_runs(folder) if isinstance(run.given, Path)]
        stopped, seen = {}, {}
        for run in runs:
            stopped[run.name] = folder / f"{run.name} stopped"
            with suppress(StopError):
                Run(run.name, run.given, {**run.options, "progress": stop_after(1)}).begin(stopped[run.name])
            seen[run.name] = set(_prefixes(Folder(folder / run.name)))
        yield Scene(folder, runs, stopped, seen)


def _prefixes(store: Folder) -> Iterator[str]:
    """What a run shows after each of its steps."""
    header, chain = read_header(store), read_chain(store)
    for steps in range(1, len(chain) + 1):
        yield fingerprint(StoredClustering(Journal(store, header, chain[:steps]), lambda _: None))


def act(role: str, run: Run, store: Path, locks: bool) -> str:
    """Play a role in a process."""
    with nullcontext() if locks else mock.patch.object(Folder, "locked", return_value=nullcontext(False)):
        if role == "begin":
            return result_hash(run.begin(store))
        if role == "resume":
            return result_hash(dask_rac.resume(store))
        if role == "read":
            return fingerprint(dask_rac.open(store))
        return str(dask_rac.open(store).verify().ok)


def trial(scene: Scene, chance: Random, number: int) -> None:
    """Interleave processes; each is right or refused, one at least is right, and so is the store in the end."""
    run, locks = chance.choice(scene.runs), chance.random() < 0.5
    folder = scene.folder / f"trial {number}"
    folder.mkdir()
    store = folder / run.name
    roles = chance.choice(chance.choice((BEGINNINGS, MIDDLES, ENDS)))
    if roles in MIDDLES + ENDS:
        shutil.copytree(scene.stopped[run.name] if roles in MIDDLES else scene.folder / run.name, store)
    try:
        answers = take_turns(chance, store, [(act, role, run, store, locks) for role in roles])
        for role, answer in zip(roles, answers, strict=True):
            right = {"read": scene.seen[run.name], "verify": {"True"}}.get(role, {run.hash})
            assert (answer[0] in REFUSALS and str(store) in answer[1]) or answer in right, (role, answer)
        assert any(isinstance(answer, str) for answer in answers), answers
        run.check(store)
    except BaseException as error:
        error.add_note(f"{run.name}, {roles}, {locks=}")
        raise
    finally:
        shutil.rmtree(folder)


CAMPAIGN = Campaign(
    name="races",
    trial_is="two or three processes on one store, interleaved call by call, with locks or without",
    scene=scene,
    trial=trial,
    goal=500,
    share=10,
)
