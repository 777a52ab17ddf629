"""The k-th call of the file layer fails: every call of two tiny runs, and a sample of larger runs and outputs."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import gcd
from pathlib import Path
from random import Random
from typing import Any

import dask_rac
from tests.campaign.campaign import Campaign
from tests.support.calls import CREATES, CUT, DELETES, READS, Call, watched
from tests.support.subjects import Subject, calls_of, quick_scene, small_outputs, small_runs, tiny_runs

ACCEPTED = (dask_rac.InputError, dask_rac.StoreError, dask_rac.ResourceError)
"""What may be raised when a call fails."""

LEAST_CALLS = 500  # of a run whose every call fails
SHORT = 0  # in place of an error: half of the bytes are written
WRITING = CREATES | DELETES
FAILING: dict[int, frozenset[str]] = {
    errno.ENOSPC: CREATES,
    errno.EDQUOT: CREATES,
    errno.EROFS: WRITING,
    errno.EIO: READS | WRITING,
    errno.ESTALE: READS | WRITING,
    errno.EACCES: READS | WRITING,
    SHORT: CUT,
}
"""Which calls can fail how."""


@dataclass(frozen=True)
class Fault:
    """What fails, where."""

    subject: Subject
    call: int
    """Counted from 0."""
    kind: int
    lasts: bool
    """Whether all later calls fail as well."""

    def __str__(self) -> str:
        kind = errno.errorcode.get(self.kind, "short")
        return f"{self.subject.name}, call {self.call}{' and all later ones' if self.lasts else ''}: {kind}"


class Failing:
    """Lets calls fail."""

    def __init__(self, fault: Fault) -> None:
        self._fault, self._calls, self.failed = fault, 0, ""

    def act(self, call: Call) -> Any:
        """Count a call, and let it fail if it is due."""
        number, fault = self._calls, self._fault
        self._calls += 1
        due = number == fault.call or (fault.lasts and number > fault.call)
        if not due or call.name not in FAILING[fault.kind]:
            return call.go()
        self.failed = self.failed or f"{call.name} {call.path}"
        if fault.kind == SHORT:
            return call.go_short() if call.go_short else call.go()
        if call.name == "close":
            call.go()  # a file is closed even if that fails
        raise OSError(fault.kind, os.strerror(fault.kind), call.path)


@dataclass(frozen=True)
class Scene:
    """All faults to try."""

    folder: Path
    sweep: list[Fault]
    """At every call of the tiny runs: these come first."""
    others: list[Fault]

    def fault(self, number: int) -> Fault:
        """Return a fault; after the sweep, consecutive numbers are far apart: any part of them is an even sample."""
        if number < len(self.sweep):
            return self.sweep[number]
        total = len(self.others)
        step = next(step for step in range(int(total * 0.618), total) if gcd(step, total) == 1)
        return self.others[(number - len(self.sweep)) * step % total]

    def __len__(self) -> int:
        return len(self.sweep) + len(self.others)


@contextmanager
def scene(_: Path) -> Iterator[Scene]:
    """Count the calls of undisturbed runs and outputs."""
    with quick_scene() as folder:
        rounds, single = tiny_runs(folder)
        sweep = [*faults_of(rounds, folder, [errno.EIO], [False]), *faults_of(single, folder)]
        for run in (rounds, single):
            assert len({fault.call for fault in sweep if fault.subject is run}) >= LEAST_CALLS
        runs = small_runs(folder)
        subjects: list[Subject] = [rounds, *runs, *small_outputs(folder, folder / runs[0].name)]
        others = [fault for subject in subjects for fault in faults_of(subject, folder)]
        yield Scene(folder, sweep, others)


def faults_of(
    subject: Subject, folder: Path, kinds: Sequence[int] = tuple(FAILING), lasts: Sequence[bool] = (False, True)
) -> list[Fault]:
    """Every fault of some kinds that can happen to a subject."""
    return [
        Fault(subject, call, kind, last)
        for call, name in enumerate(calls_of(subject, folder))
        for kind in kinds
        for last in lasts
        if name in FAILING[kind]
    ]


def trial(scene: Scene, chance: Random, number: int) -> None:
    """Let a call fail; then, without the fault, the run or the output comes to what it must."""
    fault = scene.fault(number)
    subject, failing = fault.subject, Failing(fault)
    folder = scene.folder / f"trial {number}"
    folder.mkdir()
    target = folder / subject.name
    try:
        try:
            with watched(target, failing.act):
                subject.make(target)
        except ACCEPTED:
            pass
        assert failing.failed, "no call failed"
        subject.check(target)
    except BaseException as error:
        error.add_note(f"{fault}, {failing.failed}")
        raise
    finally:
        shutil.rmtree(folder)


CAMPAIGN = Campaign(
    name="calls",
    trial_is="a call of the file layer that fails, once or from then on, in a run or an output",
    scene=scene,
    trial=trial,
    goal=LEAST_CALLS,
    share=12,
    count=len,
)
