"""Runs that are killed anywhere, damaged anywhere, or two at a time: the same merges, or a plain refusal."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import dask_rac
from dask_rac.store import arrays, manifest
from dask_rac.store.files import Folder
from dask_rac.stored import StoredRun
from tests import crash
from tests.crash import Child, Kill, begin, kill_run, layout, manifests, result_hash
from tests.effort import examples

INTAKE = ["dask_rac.intake.scan", "dask_rac.intake.route", "dask_rac.intake.build"]
ROUND = ["dask_rac.steps.match", "dask_rac.steps.cut", "dask_rac.steps.split", "dask_rac.steps.fold"]
REST = ["dask_rac.stored.finish_rest", "dask_rac.rest.merge_rounds", "dask_rac.rest.write_round"]
FILES = ["os.writev", "dask_rac.steps.write_group", "dask_rac.steps.write_merges", "os.replace", "os.link"]
COMMIT = ["dask_rac.store.manifest.parent_digest", "dask_rac.stored.write_statistics", "dask_rac.store.manifest.commit"]
CLEAN = ["dask_rac.stored.StoredRun.clean", "dask_rac.store.files.Folder.remove", "os.unlink", "os.rmdir"]
PHASES = (Phase.explicit, Phase.generate)  # an example takes too long to look for smaller ones
FEW = settings(examples(8), phases=PHASES)
POINTS = INTAKE + ROUND + REST + FILES + COMMIT + CLEAN


KILLS = [
    pytest.param(target, after, id=f"{'after' if after else 'before'} {target}")
    for target in POINTS
    for after in (False, True)
]


@dataclass(frozen=True)
class Undisturbed:
    """A run that nothing stops."""

    folder: Path
    edges: Path
    hash: str
    layout: list[str] = field(repr=False)
    calls: dict[str, list[int]] = field(repr=False)


@pytest.fixture(scope="module")
def whole() -> Iterator[Undisturbed]:
    with crash.memory_folder() as folder, crash.no_fsync():
        edges = crash.write_edges(folder / "edges", crash.path_edges())
        store = folder / "whole"
        calls = crash.count_calls(POINTS, lambda: begin(edges, store))
        yield Undisturbed(folder, edges, result_hash(dask_rac.open(store)), layout(store), calls)


@pytest.fixture
def store(whole: Undisturbed) -> Iterator[Path]:
    path = whole.folder / "run"
    yield path
    shutil.rmtree(path, ignore_errors=True)


def check_resumed(whole: Undisturbed, store: Path, kept: list[bytes]) -> None:
    """Resume, and find what a run that nothing stopped leaves; no step that counted is done again."""
    assert result_hash(dask_rac.resume(store)) == whole.hash
    assert manifests(store)[: len(kept)] == kept
    assert layout(store) == whole.layout


@pytest.mark.parametrize(("target", "after"), KILLS)
def test_a_kill_costs_at_most_the_round_under_way(whole: Undisturbed, store: Path, target: str, after: bool) -> None:
    calls = whole.calls[target]
    assert calls
    for step in sorted(set(calls)):
        some = [call for call, when in enumerate(calls) if when == step]
        call = some[len(some) * (2 if after else 1) // 3]
        if target == "os.link" and not call:
            continue  # the header's: there is no run yet
        assert kill_run(whole.edges, store, Kill(target, after, call)) == signal.SIGKILL
        kept = manifests(store)
        assert len(kept) in {step, step + 1}
        check_resumed(whole, store, kept)
        shutil.rmtree(store)


def test_killed_before_there_is_a_header_a_run_can_begin_in_the_same_folder(whole: Undisturbed, store: Path) -> None:
    assert kill_run(whole.edges, store, Kill("os.link", False, 0)) == signal.SIGKILL
    with pytest.raises(dask_rac.StoreError, match="is no store"):
        dask_rac.resume(store)
    assert result_hash(begin(whole.edges, store)) == whole.hash
    assert layout(store) == whole.layout


def kills() -> st.SearchStrategy[Kill]:
    """Some call of any point but the header's; in a run that goes on there may be fewer."""
    return st.builds(Kill, st.sampled_from(POINTS), st.booleans(), st.integers(1, 12))


@settings(examples(8), phases=PHASES)
@given(st.lists(kills(), min_size=2, max_size=5))
def test_killed_again_and_again(whole: Undisturbed, deaths: list[Kill]) -> None:
    with tempfile.TemporaryDirectory(dir=whole.folder) as name:
        store = Path(name, "run")
        kept: list[bytes] = []
        for kill in deaths:
            assert kill_run(whole.edges, store, kill) in {signal.SIGKILL, whole.hash}
            assert manifests(store)[: len(kept)] == kept
            kept = manifests(store)
        check_resumed(whole, store, kept)


@pytest.mark.parametrize(
    "target",
    ["dask_rac.session.newest_sound", "dask_rac.stored.StoredRun.clean_attempt", "dask_rac.store.manifest.check_files"],
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_while_it_resumes(whole: Undisturbed, store: Path, target: str, after: bool) -> None:
    assert kill_run(whole.edges, store, Kill("dask_rac.steps.fold", True, 4)) == signal.SIGKILL
    for _ in range(2):
        kept = manifests(store)
        assert kill_run(whole.edges, store, Kill(target, after, 0)) == signal.SIGKILL
        assert manifests(store) == kept
    check_resumed(whole, store, kept)


class StopError(Exception):
    """What a test raises to stop a run."""


def stop_after(round_: int) -> Any:
    """A progress that stops a run after a round."""

    def progress(event: dask_rac.Event) -> None:
        if event.stage == "round" and event.record is not None and event.record.round == round_:
            raise StopError

    return progress


@pytest.fixture(scope="module")
def stopped(whole: Undisturbed) -> Path:
    store = whole.folder / "stopped"
    with pytest.raises(StopError):
        begin(whole.edges, store, progress=stop_after(2))
    assert len(manifests(store)) == 3
    return store


@pytest.fixture(scope="module")
def stranger(whole: Undisturbed) -> Path:
    """A run of other edges, stopped as well."""
    store, edges = whole.folder / "stranger", whole.folder / "other edges"
    crash.write_edges(edges, crash.path_edges(seed=1))
    with pytest.raises(StopError):
        begin(edges, store, progress=stop_after(2))
    return store


@dataclass(frozen=True)
class Damage:
    """What befalls a file of a store."""

    kind: str
    file: int
    """Which, of those that are asked for, counted round and round."""
    place: float
    """In the file, from 0 to 1."""
    bit: int
    other: int
    """Which file it is swapped with."""

    def strike(self, store: Path, pattern: str, stranger: Path) -> list[str]:
        """Damage a file; the names of those that are not what they were."""
        files = files_like(store, pattern)
        path, other = files[self.file % len(files)], files[self.other % len(files)]
        data = path.read_bytes()
        at = int(self.place * len(data))
        if self.kind == "flip":
            path.write_bytes(data[:at] + bytes([data[at] ^ 1 << self.bit]) + data[at + 1 :])
        elif self.kind == "truncate":
            path.write_bytes(data[:at])
        elif self.kind == "delete":
            path.unlink()
        elif self.kind == "swap":
            path.write_bytes(other.read_bytes())
            other.write_bytes(data)
            return [str(path), str(other)]
        else:
            strangers = files_like(stranger, pattern)
            path.write_bytes(strangers[self.file % len(strangers)].read_bytes())
        return [str(path)]


DAMAGES = st.builds(
    Damage,
    st.sampled_from(["flip", "flip", "flip", "truncate", "delete", "swap", "replace"]),
    st.integers(0, 999),
    st.floats(0, 1, exclude_max=True),
    st.integers(0, 7),
    st.integers(0, 999),
)
STATE, MERGES, HEADER = "rounds/*/shard*/*/*", "merges/*", "rac.json"
OLD, NEWEST = "manifests/0000[01].json", "manifests/00002.json"


def files_like(store: Path, pattern: str) -> list[Path]:
    """Some files of a store."""
    return sorted(path for path in store.glob(pattern) if path.is_file())


def resumed_hash(store: Path) -> str:
    """What resume comes to."""
    return result_hash(dask_rac.resume(store))


def merges_hash(store: Path) -> str:
    """What looking at the merges comes to."""
    return result_hash(dask_rac.open(store))


def struck(whole: Undisturbed, runs: tuple[Path, Path], pattern: str, damage: Damage, look: Any) -> None:
    """Damage a copy of a run, then look at it: what comes is right, or an error that names the file."""
    with tempfile.TemporaryDirectory(dir=whole.folder) as name:
        store = Path(name, "run")
        shutil.copytree(runs[0], store)
        damaged = damage.strike(store, pattern, runs[1])
        answer = Child(look, store).join()
        if answer == whole.hash:
            return
        assert isinstance(answer, tuple), answer
        error, text = answer
        assert error in {"DamagedStoreError", "StoreError"}, answer
        if pattern in {HEADER, OLD, NEWEST}:  # what does not fit together may be either of two
            assert re.search(f"{store}(/manifests/0000.|/rac).json| has format| has no rac.json", text), answer
        else:
            columns = [path.removesuffix("/0").removesuffix("/zarr.json") for path in damaged]
            assert any(path in text for path in columns), answer


@pytest.mark.parametrize(
    "pattern",
    [
        STATE,
        MERGES,
        OLD,
        NEWEST,
        HEADER,
        "statistics/*",
    ],
)
@FEW
@given(damage=DAMAGES)
def test_damage_is_mended_or_named(
    whole: Undisturbed, stopped: Path, stranger: Path, pattern: str, damage: Damage
) -> None:
    struck(whole, (stopped, stranger), pattern, damage, resumed_hash)


def change_numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Each number in JSON with one added to it: where, and all of it."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        changed = (
            [(f"{path}/{key}", inner + 1)] if type(inner) in {int, float} else change_numbers(inner, f"{path}/{key}")
        )
        for where, other in changed:
            copied = value.copy()
            copied[key] = other
            yield where, copied


MATTERS = re.compile(
    r"/facts|/state(?!.*/files)|/state/shards/0/files/0|/merges/0|/records/0/(round|clusters|edges|merges)"
)


def resume_changed(stopped: Path, folder: Path, name: str) -> list[tuple[str, Any]]:
    """What resume comes to when a number in a manifest is another one: those where it is not as it should be."""
    wrong = []
    for where, changed in change_numbers(json.loads((stopped / name).read_text())):
        if not MATTERS.search(where):
            continue
        store = folder / "changed"
        shutil.copytree(stopped, store)
        (store / name).write_text(json.dumps(changed, indent=1))
        answer = Child(resumed_hash, store).join()
        shutil.rmtree(store)
        wrong.append((where, answer))
    return wrong


def test_no_number_in_the_newest_manifest_can_change(whole: Undisturbed, stopped: Path) -> None:
    answers = resume_changed(stopped, whole.folder, "manifests/00002.json")
    refused = [answer for _, answer in answers if isinstance(answer, tuple) and answer[0] == "DamagedStoreError"]
    assert not [(where, answer) for where, answer in answers if answer != whole.hash and answer not in refused]


def check_header(stopped: Path, store: Path, key: str) -> None:
    """A header with another name for something is refused."""
    shutil.copytree(stopped, store)
    header = store / "rac.json"
    header.write_text(header.read_text().replace(f'"{key}"', f'"{key[:-1]}#"'))
    for use in (dask_rac.resume, dask_rac.open):
        with pytest.raises(dask_rac.StoreError, match=str(store)):
            use(store)


def test_another_name_for_the_format_is_refused(stopped: Path, store: Path) -> None:
    check_header(stopped, store, "format")


@pytest.mark.parametrize("key", ["settings", "linkage", "source", "n_nodes", "versions"])
def test_no_name_in_the_header_can_change(stopped: Path, store: Path, key: str) -> None:
    check_header(stopped, store, key)


def test_no_value_in_the_header_can_change_before_the_first_step(whole: Undisturbed, store: Path) -> None:
    assert kill_run(whole.edges, store, Kill("dask_rac.intake.build", False, 0)) == signal.SIGKILL
    header = store / "rac.json"
    changed = header.read_text().replace('"max_height": Infinity', '"max_height": 7.0')
    assert changed != header.read_text()
    header.write_text(changed)
    with pytest.raises(dask_rac.DamagedStoreError, match=r"rac.json"):
        dask_rac.resume(store)


def test_a_chunk_of_no_items_is_damage(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    (record,) = arrays.write_group(folder, "group", {"column": np.arange(4)})
    metadata = tmp_path / "group/column/zarr.json"
    metadata.write_text(metadata.read_text().replace('"chunk_shape": [4], "codecs"', '"chunk_shape": [0], "codecs"'))
    with pytest.raises(dask_rac.DamagedStoreError, match=r"group/column"):
        arrays.check_array(folder, record)


def test_a_run_that_lost_a_step_is_not_shown_as_if_it_had_not_come_so_far(whole: Undisturbed, store: Path) -> None:
    shutil.copytree(whole.folder / "whole", store)
    (store / "manifests/00003.json").write_text("{}")
    with pytest.raises(dask_rac.DamagedStoreError, match=r"manifests/00003.json"):
        dask_rac.open(store)


@FEW
@given(damage=DAMAGES)
def test_damaged_merges_are_never_shown(whole: Undisturbed, stranger: Path, damage: Damage) -> None:
    struck(whole, (whole.folder / "whole", stranger), MERGES, damage, merges_hash)


@pytest.mark.parametrize("column", ["neighbour/0", "nearest/0", "length/zarr.json", "height/0"])
def test_a_damaged_round_is_done_again(whole: Undisturbed, stopped: Path, store: Path, column: str) -> None:
    shutil.copytree(stopped, store)
    kept = manifests(store)[:2]
    victim = sorted(store.glob(f"rounds/00002*/shard-00001*/{column}"))[0]
    victim.write_bytes(victim.read_bytes()[:-30])
    events: list[dask_rac.Event] = []
    assert result_hash(dask_rac.resume(store, progress=events.append)) == whole.hash
    assert [event.record.round for event in events if event.stage == "round" and event.record][:2] == [2, 3]
    assert manifests(store)[:2] == kept
    assert layout(store) == whole.layout


def test_a_run_damaged_twice_over_says_so(stopped: Path, store: Path) -> None:
    shutil.copytree(stopped, store)
    for victim in store.glob("rounds/*/shard*/nearest/0"):
        victim.unlink()
    with pytest.raises(dask_rac.DamagedStoreError, match=r"nearest/0 is missing; no sound round is left"):
        dask_rac.resume(store)


def test_a_gap_among_manifests_is_mended(whole: Undisturbed, store: Path) -> None:
    clean = whole.calls["dask_rac.stored.StoredRun.clean"].index(3)
    assert kill_run(whole.edges, store, Kill("dask_rac.stored.StoredRun.clean", False, clean)) == signal.SIGKILL
    (store / "manifests/00001.json").unlink()  # 0 is still there with its state, and so is 2
    check_resumed(whole, store, manifests(store)[:1])


def race(store: Path, edges: Path, meeting: Path, new: bool) -> str:
    """Begin or resume a run, at work until the other one has given up."""
    (meeting / f"ready {os.getpid()}").touch()
    while len(list(meeting.glob("ready*"))) < 2:
        time.sleep(0.001)

    def wait(after: bool) -> None:
        if not after:
            crash.await_file(meeting / "given up")

    crash.patch_calls("dask_rac.steps.match", wait).start()
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
    """Resume without a lock; the loser has a step done when the winner has committed it."""
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
    """Resume without a lock, and stop before a commit until another run has tidied up."""
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
    """Resume without a lock, and pause when what others have left is deleted."""
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
