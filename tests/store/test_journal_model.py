"""A model of the journal: whatever stops a run and whatever happens to its files, a resumed run gives the same bits.

The machine begins a run, stops it, damages it, copies it, looks at it and resumes it, in any order. Its model knows
the result of a run in memory, the steps that were committed, and the files that were damaged since.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pandas as pd
import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

import dask_rac
from dask_rac.store import manifest
from dask_rac.store.overview import overview
from tests.support import crash
from tests.support.damage import Strike, needed_files, strikes
from tests.support.effort import examples
from tests.support.folders import no_fsync, quick_folder, snapshot
from tests.support.results import assert_same, merges_frame, untimed_rounds
from tests.support.stored import steps_of
from tests.support.undisturbed import PHASES

SHARDS = 3
STEPS = 12


class StopError(Exception):
    """An error in the process of a run."""


class KilledError(BaseException):
    """The end of a process, after which nothing is put in order: no `except Exception` sees it."""


@dataclass(frozen=True)
class Stop:
    """Where a run is stopped."""

    commits: int
    """Steps that it may commit."""
    place: str
    error: type[BaseException]


STOPS = st.builds(
    Stop,
    st.sampled_from([0, 1, 2, 2, 3, 3, 4]),
    st.sampled_from(["at an event", "before the next commit", "after the commit"]),
    st.sampled_from([StopError, KilledError]),
)


@contextmanager
def stopping(stop: Stop) -> Iterator[Callable[[Any], None]]:
    """Stop a run that is begun or resumed in the block; gives its progress function."""
    commit, done = manifest.commit, 0

    def counted(folder: Any, step: manifest.Manifest) -> bool:
        nonlocal done
        if stop.place == "before the next commit" and done == stop.commits:
            raise stop.error
        made = commit(folder, step)
        done += made
        if stop.place == "after the commit" and done == max(1, stop.commits):
            raise stop.error
        return made

    def watch(_: dask_rac.Event) -> None:
        if stop.place == "at an event" and done >= stop.commits:
            raise stop.error

    with mock.patch.object(manifest, "commit", counted):
        yield watch


@cache
def oracle(linkage: str, nodes: int, seed: int) -> dask_rac.Clustering:
    """The result in memory."""
    return dask_rac.cluster(crash.path_edges(nodes, seed), linkage, finisher=False)


@dataclass
class Run:
    """What the model knows of a store."""

    path: Path
    given: Any
    """The edges, or their path."""
    linkage: str
    expected: dask_rac.Clustering = field(repr=False)
    kept: list[bytes] = field(default_factory=list, repr=False)
    """The manifests that were committed."""
    damaged: set[str] = field(default_factory=set)
    """Files that a run needs and that may not be what was written."""
    seen: dict[str, Any] = field(default_factory=dict, repr=False)
    """All files after the last rule that may change them."""

    @property
    def resumable(self) -> bool:
        """Whether an undamaged run has what it needs to go on."""
        return bool(self.kept) or (isinstance(self.given, Path) and (self.path / "rac.json").exists())

    def take_note(self) -> None:
        """Remember what is in the store now; committed steps stay as they are unless files were damaged."""
        now = crash.manifests(self.path)
        assert self.damaged or now[: len(self.kept)] == self.kept, "a committed step was done again"
        self.kept, self.seen = now, contents(self.path)

    def check_named(self, error: dask_rac.StoreError) -> None:
        """An error names the store or a file in it, and only a run that is damaged or has nothing is refused."""
        assert str(self.path) in str(error), error
        assert self.damaged or not self.resumable, f"an undamaged run was refused: {error}"
        event("refused")

    def check_not_shown(self, error: dask_rac.StoreError) -> None:
        """Only a run that is damaged or has committed nothing is not shown."""
        assert str(self.path) in str(error), error
        assert self.damaged or not self.kept, f"an undamaged run was not shown: {error}"
        event("not shown")

    def check_finished(self, found: dask_rac.StoredClustering) -> None:
        """A result is that of the run in memory, and its store is whole again."""
        assert found.finished
        assert_same(found, self.expected)
        event("mended" if self.damaged else "resumed")
        self.take_note()
        self.damaged = set()


def contents(path: Path) -> dict[str, Any]:
    """All files of a store except its lock, whatever holds it."""
    found = snapshot(path) if path.exists() else {}
    return {name: file for name, file in found.items() if name not in {str(path / "lock"), str(path)}}


class Journal(RuleBasedStateMachine):
    """Runs that are begun, stopped, damaged, copied and resumed."""

    runs = Bundle("runs")

    def __init__(self) -> None:
        super().__init__()
        self.open = ExitStack()
        self.open.enter_context(no_fsync())
        self.folder = self.open.enter_context(quick_folder())
        self.known: list[Run] = []
        (self.folder / "bystander").write_text("mine")
        self.outside: dict[str, Any] = {}

    def teardown(self) -> None:
        self.open.close()

    def add(self, run: Run) -> Run:
        self.known.append(run)
        return run

    @initialize(
        target=runs,
        linkage=st.sampled_from(["average", "complete", "single"]),
        nodes=st.sampled_from([60, 30]),
        on_disk=st.booleans(),
        stop=STOPS,
    )
    def begin(self, linkage: str, nodes: int, on_disk: bool, stop: Stop) -> Run:
        frame = crash.path_edges(nodes)
        edges = crash.write_edges(self.folder / "edges", frame)
        self.outside = self.bystanders()
        run = Run(self.folder / "run0", edges if on_disk else frame, linkage, oracle(linkage, nodes, 0))
        self.go(run, stop, lambda progress: self.cluster(run, progress))
        run.take_note()
        if stop.error is StopError and not run.kept:
            assert not run.path.exists(), "an error before the first step leaves nothing"
        return self.add(run)

    def cluster(self, run: Run, progress: Any = False) -> dask_rac.StoredClustering:
        options: dict[str, Any] = {"shards": SHARDS, "finisher": False, "progress": progress}
        found: dask_rac.StoredClustering = dask_rac.cluster(run.given, run.linkage, store=run.path, **options)
        return found

    def go(self, run: Run, stop: Stop, work: Callable[[Any], dask_rac.StoredClustering]) -> None:
        """Begin or resume a run that is stopped, unless it ends before that."""
        try:
            with stopping(stop) as progress:
                found = work(progress)
        except stop.error:
            event("stopped")
        except dask_rac.StoreError as error:
            run.check_named(error)
        else:
            run.check_finished(found)

    @rule(run=runs, stop=STOPS)
    def advance(self, run: Run, stop: Stop) -> None:
        before = len(run.kept)
        self.go(run, stop, lambda progress: dask_rac.resume(run.path, progress=progress))
        run.take_note()
        if not run.damaged and run.resumable and stop.place != "at an event":
            assert len(run.kept) in range(before, before + max(1, stop.commits) + 1)

    @rule(run=runs)
    def resume(self, run: Run) -> None:
        try:
            found = dask_rac.resume(run.path, progress=False)
        except dask_rac.StoreError as error:
            run.check_named(error)
        else:
            run.check_finished(found)
        run.take_note()

    @rule(run=runs)
    def resume_twice_at_the_same_time(self, run: Run) -> None:
        refused: list[str] = []

        def try_too(now: dask_rac.Event) -> None:
            if not refused and now.stage != "done":
                with pytest.raises(dask_rac.StoreInUseError) as caught:
                    dask_rac.resume(run.path, progress=False)
                refused.append(str(caught.value))
                assert overview(run.path).status == "running"

        ended = bool(run.kept) and steps_of(run.path)[-1:] and steps_of(run.path)[-1].state is None
        try:
            found = dask_rac.resume(run.path, progress=try_too)
        except dask_rac.StoreError as error:
            run.check_named(error)
        else:
            run.check_finished(found)
            assert refused or ended
        assert all(str(run.path) in text for text in refused)
        run.take_note()

    @rule(run=runs)
    def look(self, run: Run) -> None:
        try:
            found = dask_rac.open(run.path, progress=False)
            merges, rounds = merges_frame(found), untimed_rounds(found)
        except dask_rac.StoreError as error:
            run.check_not_shown(error)
            return
        whole = run.expected.merges
        pd.testing.assert_frame_equal(merges, whole[: len(merges)])
        if len(rounds):
            pd.testing.assert_frame_equal(rounds, untimed_rounds(run.expected)[: len(rounds)])
        if not run.damaged:
            assert len(steps_of(run.path)) == len(run.kept)
            waits = run.linkage == "single" and not found.finished
            assert len(merges) == (0 if waits else rounds["merges"].sum() if len(rounds) else 0)

    @rule(run=runs)
    def begin_where_a_run_is(self, run: Run) -> None:
        if contents(run.path):
            with pytest.raises(dask_rac.StoreError, match=str(run.path)):
                self.cluster(run)

    @rule(run=runs, strike=strikes())
    def damage(self, run: Run, strike: Strike) -> None:
        needed = needed_files(steps_of(run.path)) if not run.damaged else None
        hit = strike.hit(run.path)
        run.damaged |= hit if needed is None else hit & needed
        event("damaged" if run.damaged else "damaged what no step needs")
        run.kept, run.seen = crash.manifests(run.path), contents(run.path)

    @rule(run=runs, strike=strikes(), stop=STOPS)
    def damage_and_go_on(self, run: Run, strike: Strike, stop: Stop) -> None:
        """What a user would do: rules are drawn one by one, and this sequence matters most."""
        self.damage(run, strike)
        self.look(run)
        self.advance(run, stop)
        self.resume(run)

    @rule(target=runs, run=runs)
    def copy(self, run: Run) -> Run:
        path = self.folder / f"run{len(self.known)}"
        if run.path.exists():
            shutil.copytree(run.path, path)
        copied = replace(run, path=path, damaged=set(run.damaged), kept=list(run.kept))
        copied.take_note()
        return self.add(copied)

    def bystanders(self) -> dict[str, Any]:
        """Everything that is not a store."""
        return {**snapshot(self.folder / "edges"), **snapshot(self.folder / "bystander")}

    @invariant()
    def nothing_else_changes(self) -> None:
        if self.known:
            assert self.bystanders() == self.outside
            assert {path.name for path in self.folder.iterdir()} <= {
                "bystander",
                "edges",
                *(run.path.name for run in self.known),
            }
        for run in self.known:
            assert contents(run.path) == run.seen


TestJournal = Journal.TestCase
TestJournal.settings = settings(examples(60), stateful_step_count=STEPS, phases=PHASES)
