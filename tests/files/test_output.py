"""New files and folders appear whole or not at all, and nothing that exists is replaced."""

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dask_rac.base.errors import InputError, ResourceError, StoreError
from dask_rac.base.names import HEADER, INCOMPLETE, PARTIAL
from dask_rac.files.folder import Folder
from dask_rac.files.output import (
    new_output,
    refuse_left_over,
    refuse_taken,
    refuse_taken_folder,
    unfinished,
    written_whole,
)
from dask_rac.store.advice import refuse_taken_store


@pytest.fixture(params=["disk", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    """A folder to create, on a local disk and on what is accessed like an object store."""
    yield Folder(tmp_path / "new" if request.param == "disk" else f"memory://{tmp_path.name}/new")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def test_a_folder_is_not_complete_until_the_end(target: Folder) -> None:
    with written_whole(target) as new:
        assert new.url == unfinished(target).url
        assert new.url == (f"{target.url}{PARTIAL}" if target.local else target.url)
        new.write("file", b"x")
        assert not target.exists() if target.local else target.exists(INCOMPLETE)
        with pytest.raises(InputError, match="was left by a run that was killed, or is being written by another run"):
            refuse_left_over(target)
    assert target.names() == ["file"]
    assert not Folder(f"{target.url}{PARTIAL}").exists()
    refuse_left_over(target)


@pytest.mark.parametrize("error", [OSError("disk on fire"), KeyboardInterrupt()])
def test_what_fails_leaves_nothing(target: Folder, error: BaseException) -> None:
    with pytest.raises(type(error)) as caught, written_whole(target) as new:  # noqa: PT012
        new.write("file", b"x")
        raise error
    assert caught.value is error
    assert not new.exists()
    assert not target.exists()


def test_what_fails_stays_where_work_would_be_lost(target: Folder) -> None:
    with pytest.raises(KeyboardInterrupt), written_whole(target, resume=True, keep=lambda _: True) as new:  # noqa: PT012
        new.write("file", b"x")
        raise KeyboardInterrupt
    assert new.exists("file")
    with pytest.raises(InputError, match="was left by a run that was killed"):
        refuse_left_over(target)
    with written_whole(target, resume=True) as again:
        assert again.read("file") == b"x"
    assert target.names() == ["file"]


def test_of_two_that_begin_at_once_one_is_refused(target: Folder) -> None:
    with written_whole(target) as new:
        new.write("file", b"x")
        with pytest.raises(InputError), written_whole(target):
            pytest.fail("both have begun")
        assert new.exists("file")
    assert target.names() == ["file"]


def test_a_complete_folder_is_kept_if_its_name_is_taken(tmp_path: Path) -> None:
    text = r"new\.partial is complete but cannot be renamed: .*; rename it"
    with pytest.raises(InputError, match=text), written_whole(Folder(tmp_path / "new")) as new:  # noqa: PT012
        new.write("file", b"x")
        (tmp_path / "new").mkdir()
        (tmp_path / "new/precious").touch()
    assert os.listdir(tmp_path / "new") == ["precious"]
    assert os.listdir(tmp_path / "new.partial") == ["file"]


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.ENOSPC, ResourceError, r"the disk of \S+/new is full: make room, or use another disk"),
        (errno.EROFS, InputError, r"/new cannot be written: .*; give a folder that can be created"),
    ],
)
def test_a_folder_that_cannot_be_made(number: int, kind: type[Exception], text: str, tmp_path: Path) -> None:
    failing = mock.patch.object(os, "makedirs", side_effect=OSError(number, os.strerror(number)))
    with failing, pytest.raises(kind, match=text), written_whole(Folder(tmp_path / "new")):
        pytest.fail("it was made")


def test_only_an_empty_folder_may_be_filled(target: Folder) -> None:
    refuse_taken_folder(target)
    if target.local:
        os.makedirs(target.path)
        refuse_taken_folder(target)
    target.write("file", b"x")
    with pytest.raises(InputError, match=r"/new exists and is not empty: delete it or choose another path"):
        refuse_taken_folder(target)
    with pytest.raises(InputError, match=r"/new/file is a file: give the path of a new folder"):
        refuse_taken_folder(Folder(f"{target.url}/file"))
    refuse_taken_folder(target, own=lambda name: name == "file")
    with pytest.raises(StoreError, match=r"^/?\S*/new: mine$"):
        refuse_taken_folder(target, kind=StoreError, text=lambda folder: f"{folder.url}: mine")


def test_a_folder_that_cannot_be_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "is a mount point or the working directory and cannot be replaced: give a folder in it"
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=text), written_whole(Folder(tmp_path)):
        pytest.fail("it was made")
    monkeypatch.chdir("/")
    with (
        mock.patch.object(os.path, "ismount", return_value=True),
        pytest.raises(InputError, match=text),
        written_whole(Folder(tmp_path)),
    ):
        pytest.fail("it was made")
    assert not tmp_path.with_name(f"{tmp_path.name}.partial").exists()


def test_stores_are_refused_by_the_same_rule(target: Folder) -> None:
    refuse_taken_store(target)
    target.write("lock", b"")
    target.write("some.new", b"")
    refuse_taken_store(target)
    target.write("file", b"x")
    with pytest.raises(StoreError, match="is not empty and does not hold a run, and was left untouched"):
        refuse_taken_store(target)
    with pytest.raises(StoreError, match="is a file: give the path of a new folder"):
        refuse_taken_store(Folder(f"{target.url}/file"))
    target.write(HEADER, b"{}")
    with pytest.raises(StoreError, match="already holds a run: resume with"):
        refuse_taken_store(target)


@pytest.mark.parametrize("several", [False, True])
def test_outputs_replace_nothing(target: Folder, several: bool) -> None:
    with new_output(target.url, several) as new:
        new.write("file" if several else "", b"x")
    assert target.read("file" if several else "") == b"x"
    assert not target.exists(INCOMPLETE)
    with pytest.raises(InputError, match="exists and is never overwritten: choose another name or remove it"):
        refuse_taken(target.url)
    with pytest.raises(InputError, match="exists and is never overwritten"), new_output(target.url, several):
        pytest.fail("it was begun")


@pytest.mark.parametrize("several", [False, True])
def test_outputs_leave_nothing_if_they_fail(target: Folder, several: bool) -> None:
    with pytest.raises(KeyboardInterrupt), new_output(target.url, several) as new:  # noqa: PT012
        new.write("file" if several else "", b"x")
        raise KeyboardInterrupt
    assert not target.exists()
    assert not new.exists()


def test_a_partial_output_of_a_killed_process_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "new.partial").write_text("half")
    with new_output(tmp_path / "new") as new:
        assert not new.exists()
        new.write("", b"whole")
    assert (tmp_path / "new").read_text() == "whole"
    assert os.listdir(tmp_path) == ["new"]


def test_an_output_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists and is never overwritten"), new_output(tmp_path / "new") as new:  # noqa: PT012
        new.write("", b"x")
        (tmp_path / "new").write_text("precious")
    assert (tmp_path / "new").read_text() == "precious"
    assert os.listdir(tmp_path) == ["new"]
