"""Power failures, by replay: small runs are recorded, and the disk is rebuilt as a failure at any moment may leave it.

Every run must be resumed, its merges must be those of a run that nothing stopped, and steps that were promised to
survive must not be done again. A run records what it does to the folder that its store is made in, so the name of the
store itself can be lost, too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from random import Random
from typing import Any
from unittest import mock

import dask
import pandas as pd
from dask.local import SynchronousExecutor

import dask_rac
from dask_rac.base.settings import MERGE_COLUMNS
from dask_rac.engines.contract import Limits
from dask_rac.files import deleting, flushing
from dask_rac.runs import loop
from dask_rac.store import manifest
from tests.campaign.campaign import Campaign
from tests.support import crash
from tests.support.disk_log import DiskLog, KilledError
from tests.support.folders import quick_folder
from tests.support.limits import cluster_within, resume_within
from tests.support.power import FAILURES, Disk, replayed

NODES, SHARDS = 16, 2
PLACE = "runs/run"  # of the store: two folders that are new


@dataclass(frozen=True)
class Case:
    """A run to be recorded."""

    linkage: str
    durable: float
    """After how many steps one must survive; 0: each of them."""
    tight: bool = False
    """Whether there is room for one state only."""
    kills: tuple[float, ...] = ()
    """Where the process is killed, as a share of the operations of a whole run; the next process resumes the run."""
    in_memory: bool = False
    """Whether the edges are in memory, and not on disk."""

    @property
    def limits(self) -> Limits:
        """What the run gets."""
        tight = {"disk_share": 0.0, "small_states": 0} if self.tight else {}
        return Limits(durable_seconds=self.durable, **tight)  # type: ignore[arg-type]


CASES = (
    Case("average", inf),
    Case("average", 0),
    Case("average", 3, tight=True),
    Case("average", 3, kills=(0.3, 0.5, 0.8)),
    Case("complete", 2, kills=(0.6,), in_memory=True),
    Case("single", inf),
    Case("single", inf, tight=True),
    Case("single", 2, kills=(0.4, 0.7)),
)


@dataclass
class Recorded:
    """A run and what it did, operation by operation."""

    case: Case
    edges: Any
    merges: pd.DataFrame = field(repr=False)
    """What it must come to."""
    log: DiskLog = field(repr=False)

    def promised(self, moment: int) -> tuple[list[bytes], int]:
        """Return the manifests of the steps committed before a moment, and how many of them must survive."""
        marks = [operation for operation in self.log.operations[:moment] if operation.kind == "mark"]
        steps: list[bytes] = marks[-1].facts if marks else []
        clock = bool(self.case.kills)  # it ticks once more when a run is resumed
        behind = max(0, self.case.durable - 1 + clock) if self.case.durable else 0
        return steps, len(steps) - int(min(behind, max(0, len(steps) - 1)))


@contextmanager
def recording(log: DiskLog) -> Iterator[None]:
    """Record a run that knows the time by its steps, and mark each step that it has committed."""
    commit = manifest.commit
    store = log.root / PLACE

    def committed(folder: Any, step: manifest.Manifest) -> bool:
        made = commit(folder, step)
        log.mark(crash.manifests(store))
        return made

    def now() -> float:
        return float(len(crash.manifests(store)))

    with (
        log.recording(),
        mock.patch.object(manifest, "commit", committed),
        mock.patch.object(loop, "monotonic", now),
        mock.patch.object(flushing, "FLUSHERS", 1),
        mock.patch.object(deleting, "DELETERS", 1),
    ):
        yield


def record(case: Case, edges: Any, root: Path, merges: pd.DataFrame) -> Recorded:
    """Record a run from its beginning to its end, with all the deaths on the way."""
    whole = _record(case, edges, root / "whole", ())
    kills = [int(share * len(whole.operations)) for share in case.kills]
    log = _record(case, edges, root / "killed", tuple(kills)) if kills else whole
    there = {
        "" if path == log.root else str(path.relative_to(log.root)): path.read_bytes() if path.is_file() else None
        for path in (log.root, *log.root.rglob("*"))
    }
    assert replayed(Disk(log.operations)) == there, "something was written that the log has not seen"
    return Recorded(case, edges, merges, log)


def _record(case: Case, edges: Any, root: Path, kills: tuple[int, ...]) -> DiskLog:
    """Record a run, which is killed at some operations."""
    root.mkdir()
    log = DiskLog(root)
    for kill in (*kills, None):
        log.kill_at = kill
        with recording(log):
            try:
                go_on(case, edges, root / PLACE)
            except KilledError:
                assert kill is not None
    return log


def go_on(case: Case, edges: Any, store: Path) -> dask_rac.StoredClustering:
    """Resume a run, or begin it."""
    if (store / "rac.json").exists():
        return resume_within(case.limits, store)
    found: dask_rac.StoredClustering = cluster_within(
        case.limits, edges, case.linkage, shards=SHARDS, finisher=False, store=store
    )
    return found


@dataclass
class Scene:
    """All recorded runs."""

    folder: Path
    moments: list[tuple[Recorded, int]]
    """Every moment of every run, in an order that treats all alike if there is no time for all."""


@contextmanager
def scene(_: Path) -> Iterator[Scene]:
    """Record all runs."""
    with quick_folder() as folder, dask.config.set(num_workers=1, pool=SynchronousExecutor()):
        frame = crash.path_edges(NODES)[["source", "target", "weight"]]
        edges = crash.write_edges(folder / "edges", frame)
        runs = []
        for number, case in enumerate(CASES):
            root = folder / f"case{number}"
            root.mkdir()
            given = frame if case.in_memory else edges
            undisturbed = dask_rac.cluster(given, case.linkage, finisher=False, progress=False)
            runs.append(record(case, given, root, undisturbed.merges))
        moments = [(run, moment) for run in runs for moment in range(len(run.log.operations) + 1)]
        Random(0).shuffle(moments)
        yield Scene(folder, moments)


def trial(scene: Scene, chance: Random, number: int) -> None:
    """The power fails at one moment of one run."""
    run, moment = scene.moments[number]
    root = scene.folder / f"trial{number}"
    failure = chance.choice(FAILURES)
    try:
        Disk(run.log.operations[:moment]).rebuild(root, failure, chance)
        check(run, moment, root / PLACE)
    except Exception as error:
        error.add_note(f"{run.case} after {moment} of {len(run.log.operations)} operations, {failure}")
        raise
    finally:
        shutil.rmtree(root, ignore_errors=True)


def check(run: Recorded, moment: int, store: Path) -> None:
    """Resume what a failure has left, and see that nothing is wrong and nothing is lost that must not be."""
    steps, safe = run.promised(moment)
    begun = (store / "rac.json").exists()
    assert begun or not steps, "the run itself was lost"
    try:
        found = go_on(run.case, run.edges, store)
    except dask_rac.StoreError:
        if steps or not (run.case.in_memory and begun):
            raise
        return  # the edges were in memory, and had not been saved yet
    assert found.finished
    pd.testing.assert_frame_equal(written_merges(store), run.merges)
    assert crash.manifests(store)[:safe] == steps[:safe], "a step that had survived was done again"


def written_merges(store: Path) -> pd.DataFrame:
    """Return the merges of a run as its manifests name them, without the edges that made them."""
    steps = map(json.loads, crash.manifests(store))
    tables = [store / table["name"] for step in steps for table in step["merges"]]
    return pd.concat([pd.read_parquet(table, columns=list(MERGE_COLUMNS)) for table in tables], ignore_index=True)


CAMPAIGN = Campaign(
    name="power",
    trial_is="the power fails at one moment of a small run; the run is resumed from what the disk may have kept",
    scene=scene,
    trial=trial,
    goal=5_000,
    share=8,
    count=lambda scene: len(scene.moments),
)
