"""Promise 7: of two runs on one store one works, and nothing that exists is written over."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from contextlib import ExitStack, nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

import dask_rac
from dask_rac.files.folder import Folder
from dask_rac.runs.loop import StoredRun
from dask_rac.store import manifest
from dask_rac.store.cleanup import intact_end
from tests.support import crash
from tests.support.crash import Child, begin, layout, manifests, result_hash
from tests.support.folders import snapshot
from tests.support.undisturbed import StopError, Undisturbed, check_resumed, stop_after


def race(store: Path, edges: Path, meeting: Path, new: bool) -> str:
    """Begin or resume a run, and keep it running until the other one has given up."""
    (meeting / f"ready {os.getpid()}").touch()
    while len(list(meeting.glob("ready*"))) < 2:
        time.sleep(0.001)

    def wait(after: bool) -> None:
        if not after:
            crash.await_file(meeting / "given up")

    crash.patch_calls("dask_rac.engines.rows.tasks.cut", wait).start()
    try:
        return result_hash(begin(edges, store) if new else dask_rac.resume(store))
    except dask_rac.StoreError:
        (meeting / "given up").touch()
        raise


@pytest.mark.parametrize("new", [False, True], ids=["resume", "cluster"])
def test_of_two_runs_one_works(whole: Undisturbed, stopped: Path, store: Path, tmp_path: Path, new: bool) -> None:
    if not new:
        shutil.copytree(stopped, store)
    answers = [child.join() for child in [Child(race, store, whole.edges, tmp_path, new) for _ in range(2)]]
    answers.sort(key=lambda answer: isinstance(answer, tuple))
    assert answers[0] == whole.hash
    error, text = answers[1]
    assert str(store) in text
    assert error == "StoreInUseError" or (new and error == "StoreError")  # while it runs, or when it has its header
    assert layout(store) == whole.layout


def race_unlocked(store: Path, meeting: Path, step: int, loser: bool) -> str:
    """Resume without a lock; the loser finishes a step after the winner has committed it."""
    mock.patch.object(Folder, "locked", return_value=nullcontext(False)).start()
    go, commit = StoredRun.go, manifest.commit

    def begin_together(*arguments: Any) -> None:
        (meeting / f"ready {os.getpid()}").touch()
        while len(list(meeting.glob("ready*"))) < 2:
            time.sleep(0.001)
        go(*arguments)

    def commit_late(folder: Folder, record: manifest.Manifest) -> bool:
        if record.step == step and loser:
            (meeting / "written").touch()
            crash.await_file(meeting / "committed")
        if record.step == step and not loser:
            crash.await_file(meeting / "written")
        done = commit(folder, record)
        if record.step == step and not loser:
            (meeting / "committed").touch()
        return done

    mock.patch.object(StoredRun, "go", begin_together).start()
    mock.patch.object(manifest, "commit", commit_late).start()
    return result_hash(dask_rac.resume(store))


@pytest.mark.parametrize("step", [3, 5], ids=["round", "rest"])
def test_without_locks_the_manifest_decides(whole: Undisturbed, store: Path, tmp_path: Path, step: int) -> None:
    with pytest.raises(StopError):
        begin(whole.edges, store, progress=stop_after(step - 1))
    runs = [Child(race_unlocked, store, tmp_path, step, loser) for loser in (False, True)]
    answers = [run.join() for run in runs]
    assert answers[0] == whole.hash
    assert answers[1][0] == "StoreInUseError"
    assert f"step {step}" in answers[1][1]
    assert layout(store) == whole.layout


def pause_commit(store: Path, meeting: Path, step: int) -> str:
    """Resume without a lock, and wait before a commit until another run has cleaned up."""
    mock.patch.object(Folder, "locked", return_value=nullcontext(False)).start()
    commit = manifest.commit

    def commit_late(folder: Folder, record: manifest.Manifest) -> bool:
        if record.step == step:
            (meeting / "written").touch()
            crash.await_file(meeting / "tidied")
        return commit(folder, record)

    mock.patch.object(manifest, "commit", commit_late).start()
    return result_hash(dask_rac.resume(store))


def tidy_up(store: Path, meeting: Path, step: int) -> str:
    """Resume without a lock, and pause while leftovers of other runs are deleted."""
    mock.patch.object(Folder, "locked", return_value=nullcontext(False)).start()
    crash.await_file(meeting / "written")
    go = StoredRun.go

    def go_late(*arguments: Any) -> None:
        (meeting / "tidied").touch()
        crash.await_file(Path(store, f"manifests/{step:05d}.json"))
        go(*arguments)

    mock.patch.object(StoredRun, "go", go_late).start()
    return result_hash(dask_rac.resume(store))


@pytest.mark.parametrize("step", [3, 5], ids=["round", "rest"])
def test_without_locks_no_run_deletes_what_another_commits(
    whole: Undisturbed, stopped: Path, store: Path, tmp_path: Path, step: int
) -> None:
    shutil.copytree(stopped, store)
    runs = [Child(work, store, tmp_path, step) for work in (pause_commit, tidy_up)]
    answers = [run.join() for run in runs]
    assert all(answer == whole.hash or answer[0] == "StoreInUseError" for answer in answers), answers
    check_resumed(whole, store, [])


def test_a_new_run_leaves_a_store_alone_that_another_has_locked(whole: Undisturbed, store: Path) -> None:
    store.mkdir()
    with (store / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(dask_rac.StoreInUseError):
            begin(whole.edges, store)
        assert [path.name for path in store.iterdir()] == ["lock"]


def test_a_lock_that_cannot_be_read_is_in_use_by_another_process(whole: Undisturbed, store: Path) -> None:
    refused = PermissionError(errno.EACCES, "Permission denied")
    with (
        mock.patch.object(fcntl, "flock", side_effect=refused),
        mock.patch.object(os, "pread", side_effect=refused),
        pytest.raises(dask_rac.StoreInUseError, match="in use by another process"),
    ):
        begin(whole.edges, store)


def test_a_new_run_leaves_a_store_alone_that_another_begins_at_the_same_moment(whole: Undisturbed, store: Path) -> None:
    with ExitStack() as stack:

        def begin_first(_: Folder) -> None:
            store.mkdir()
            lock = stack.enter_context((store / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)

        with mock.patch("dask_rac.runs.begin.refuse_taken_store", begin_first), pytest.raises(dask_rac.StoreInUseError):
            begin(whole.edges, store)
        assert [path.name for path in store.iterdir()] == ["lock"]


def test_a_run_that_cannot_begin_leaves_alone_what_another_begins_at_the_same_moment(
    whole: Undisturbed, store: Path
) -> None:
    names = Folder.names

    def begin_meanwhile(folder: Folder, name: str = "") -> list[str]:
        found = names(folder, name)
        if found == ["lock"]:
            (store / "rac.json").write_text("of another run")
        return found

    with (
        mock.patch("dask_rac.runs.begin._header", side_effect=dask_rac.ResourceError("the disk is too small")),
        mock.patch.object(Folder, "names", begin_meanwhile),
        pytest.raises(dask_rac.ResourceError, match="too small"),
    ):
        begin(whole.edges, store)
    assert (store / "rac.json").read_text() == "of another run"


def damage_end(store: Path) -> None:
    """Damage the newest merges of a finished run, whose states are still there."""
    newest = max(store.glob("merges/*.parquet"))
    newest.write_bytes(newest.read_bytes()[:-1])


@pytest.fixture
def uncleaned(whole: Undisturbed, store: Path) -> Path:
    """A finished run that was stopped before it deleted its states."""
    with mock.patch.object(StoredRun, "clean"):
        begin(whole.edges, store)
    return store


def test_a_damaged_end_is_not_taken_back_while_another_has_the_lock(uncleaned: Path) -> None:
    damage_end(uncleaned)
    with (uncleaned / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        before = snapshot(uncleaned)
        with pytest.raises(dask_rac.StoreInUseError):
            dask_rac.resume(uncleaned)
        assert snapshot(uncleaned) == before


def test_a_damaged_end_is_done_again(whole: Undisturbed, uncleaned: Path) -> None:
    damage_end(uncleaned)
    check_resumed(whole, uncleaned, manifests(uncleaned)[:-1])


def test_the_end_that_another_does_again_meanwhile_stays(whole: Undisturbed, uncleaned: Path) -> None:
    with ExitStack() as first:

        def found_intact(folder: Folder) -> list[manifest.Manifest]:
            first.close()
            chain = intact_end(folder)
            assert chain[-1].state is None
            damage_end(uncleaned)
            dask_rac.resume(uncleaned)
            return chain

        first.enter_context(mock.patch("dask_rac.runs.resume.intact_end", found_intact))
        dask_rac.resume(uncleaned)
    assert result_hash(dask_rac.open(uncleaned)) == whole.hash
    assert layout(uncleaned) == whole.layout


@pytest.mark.parametrize(
    "names", [["data.csv"], ["sub/inner.txt"], ["merges/00001.parquet"], ["lock", "x"], [".hidden"]]
)
def test_what_is_not_ours_is_not_touched(folder: Path, whole: Undisturbed, names: list[str]) -> None:
    foreign = folder / "foreign"
    for name in names:
        (foreign / name).parent.mkdir(parents=True, exist_ok=True)
        (foreign / name).write_text("mine")
    before = snapshot(foreign)
    with pytest.raises(dask_rac.StoreError, match="does not hold a run, and was left untouched"):
        begin(whole.edges, foreign)
    for use in (dask_rac.resume, dask_rac.open):
        with pytest.raises(dask_rac.StoreError, match="is not a store of dask_rac"):
            use(foreign)
    assert snapshot(foreign) == before


def test_a_finished_run_is_not_written_over(folder: Path, whole: Undisturbed) -> None:
    begin(whole.edges, folder / "run")
    before = snapshot(folder / "run")
    with pytest.raises(dask_rac.StoreError, match=r"already holds a run: resume with dask_rac.resume\("):
        begin(whole.edges, folder / "run")
    assert snapshot(folder / "run") == before
    assert result_hash(dask_rac.resume(folder / "run")) == whole.hash
