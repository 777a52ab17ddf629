"""The k-th call of the file layer fails, for every k of small runs and of what is written from them."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import compress
from math import gcd
from operator import not_
from pathlib import Path
from random import Random
from typing import Any

import dask_rac
from tests.campaign.campaign import Campaign
from tests.support.calls import CREATES, CUT, DELETES, READS, Call, watched
from tests.support.subjects import Subject, calls_of, quick_scene, small_outputs, small_runs

ACCEPTED = (dask_rac.InputError, dask_rac.StoreError, dask_rac.ResourceError)
"""What may be raised when a call fails."""

LEAST_CALLS = 500  # of the run whose every call fails once
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
    """An I/O error at every call of one run: these come first."""
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
        runs = small_runs(folder)
        subjects: list[Subject] = [*runs, *small_outputs(folder, folder / runs[0].name)]
        faults = [
            Fault(subject, call, kind, lasts)
            for subject in subjects
            for call, name in enumerate(calls_of(subject, folder))
            for kind, failing in FAILING.items()
            for lasts in (False, True)
            if name in failing
        ]
        first = [fault.subject is runs[0] and fault.kind == errno.EIO and not fault.lasts for fault in faults]
        sweep, others = list(compress(faults, first)), list(compress(faults, map(not_, first)))
        assert len(sweep) >= LEAST_CALLS
        yield Scene(folder, sweep, others)


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
    share=25,
    count=len,
)
