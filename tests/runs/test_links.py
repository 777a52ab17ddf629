"""A store is its own folder and nothing outside of it: links are refused, and what is not ours is left alone."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import dask_rac
from dask_rac.base.errors import StoreError
from dask_rac.base.names import STORE_FOLDERS, STORE_NAMES
from dask_rac.files.folder import Folder
from tests.support.crash import begin, path_edges, result_hash
from tests.support.folders import no_fsync, quick_folder, snapshot
from tests.support.stored import PlugPulledError, stop_after


@pytest.fixture(scope="module")
def stopped() -> Iterator[Path]:
    """A run that was stopped after two rounds, with all folders that a store can have."""
    with quick_folder() as made, no_fsync():
        path_edges().to_parquet(made / "edges.parquet")
        names = [f"n{number}" for number in range(100)]
        with pytest.raises(PlugPulledError):
            begin(made / "edges.parquet", made / "run", progress=stop_after(2), names=names)
        for name in ("tree", "input"):
            (made / "run" / name).mkdir(exist_ok=True)
        yield made


@pytest.fixture
def run(stopped: Path, folder: Path) -> Iterator[Path]:
    """A copy of it."""
    shutil.copytree(stopped / "run", folder / "run")
    with no_fsync():
        yield folder / "run"


def expected(stopped: Path) -> str:
    with quick_folder() as made:
        return result_hash(begin(stopped / "edges.parquet", made / "run"))


def linked(path: Path) -> Path:
    """Move a file or folder of a store out of it and put a link in its place; return where it is now."""
    outside = path.parents[len(path.parts) - 1 - path.parts.index("run")] / "outside"
    if path.exists():
        path.rename(outside)
    else:
        outside.write_text("mine")
    path.symlink_to(outside)
    return outside


def refused(run: Path, link: Path) -> None:
    """Resume, and check that nothing has happened."""
    before = snapshot(run.parent)
    with pytest.raises(
        StoreError, match=rf"^{link} is a symbolic link, .*: put the file or folder itself in its place"
    ):
        dask_rac.resume(run)
    assert snapshot(run.parent) == before


@pytest.mark.parametrize("name", STORE_NAMES)
def test_a_store_with_a_link_in_place_of_its_own_is_not_resumed(name: str, run: Path) -> None:
    outside = linked(run / name)
    if outside.is_dir():
        (outside / "thesis.txt").write_text("years of work")
        (outside / "99999-01234567").mkdir()
    refused(run, run / name)


@pytest.mark.parametrize("name", [name for name in STORE_FOLDERS if name not in {"tree", "input"}])
def test_nor_with_a_link_inside_of_its_folders(name: str, run: Path) -> None:
    inside = sorted((run / name).iterdir())[0]
    linked(inside)
    refused(run, inside)


def test_a_link_to_nowhere_is_refused(run: Path) -> None:
    (run / "lock").unlink()
    (run / "lock").symlink_to(run.parent / "nowhere")
    refused(run, run / "lock")
    assert not (run.parent / "nowhere").exists()


def test_a_store_that_is_reached_through_a_link_is_resumed(run: Path, stopped: Path) -> None:
    (run.parent / "link").symlink_to(run)
    assert result_hash(dask_rac.resume(run.parent / "link")) == expected(stopped)
    assert (run.parent / "link").is_symlink()


def test_a_run_does_not_begin_with_a_link_for_its_lock(stopped: Path, folder: Path) -> None:
    (folder / "mine").write_text("years of work")
    (folder / "run").mkdir()
    (folder / "run/lock").symlink_to(folder / "mine")
    with pytest.raises(StoreError, match=r"run/lock is a symbolic link"):
        dask_rac.cluster(stopped / "edges.parquet", store=folder / "run")
    assert (folder / "mine").read_text() == "years of work"
    assert not Folder(folder / "run").in_use()
    assert os.listdir(folder / "run") == ["lock"]


def test_an_audit_writes_nothing_through_a_link(run: Path) -> None:
    result = dask_rac.resume(run)
    shutil.rmtree(run / "rounds", ignore_errors=True)
    (run.parent / "outside").mkdir()
    (run / "rounds").symlink_to(run.parent / "outside")
    with pytest.raises(StoreError, match=r"run/rounds is a symbolic link"):
        result.verify()
    assert not os.listdir(run.parent / "outside")


def test_files_of_others_in_a_store_are_left_alone(run: Path, stopped: Path) -> None:
    """Whether the run goes on, is finished, or is resumed when it is finished."""
    mine = [run / folder / name for folder in STORE_FOLDERS for name in ("notes.json", "mine.new", "0-x", "00001-mine")]
    mine.append(run / "mine.0123abcd.new")
    for path in mine:
        path.write_text("mine")
    for _ in range(2):
        assert result_hash(dask_rac.resume(run)) == expected(stopped)
        assert [path.read_text() for path in mine] == ["mine"] * len(mine)


def test_leftovers_of_ours_are_deleted(run: Path) -> None:
    left = ["rounds/00009-01234567", "rounds/verify-00000-01234567", "tree/00009-01234567", "names/00000-01234567"]
    files = [
        "merges/00009-01234567-00001-89abcdef.parquet",
        "manifests/00009.json.01234567.new",
        "rac.json.01234567.new",
    ]
    files += ["statistics/00009.json.01234567.new"]
    files += ["merges/00009-01234567-00001-89abcdef.parquet.01234567.new", "input/partition-00003.parquet"]
    for name in left:
        (run / name).mkdir(parents=True)
        (run / name / "inside").touch()
    for name in files:
        (run / name).touch()
    dask_rac.resume(run)
    assert not [name for name in (*left, *files) if (run / name).exists()]
    assert not (run / "input").exists()
