"""New files and folders appear whole or not at all, and nothing that exists is replaced."""

import errno
import os
import re
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dask_rac.base.errors import InputError, ResourceError, StoreError
from dask_rac.base.names import GRAPH_HEADER, HEADER, INCOMPLETE, PARTIAL
from dask_rac.files.folder import Folder
from dask_rac.files.output import (
    continued,
    new_output,
    refuse_left_over,
    refuse_taken,
    refuse_taken_folder,
    remove_unfinished,
    unfinished,
    written_whole,
)
from dask_rac.store.advice import refuse_taken_store
from tests.support.folders import snapshot


@pytest.fixture(params=["disk", "memory"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    """A folder to create, on a local disk and on what is accessed like an object store."""
    yield Folder(tmp_path / "new" if request.param == "disk" else f"memory://{tmp_path.name}/new")
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def mark(folder: Folder) -> None:
    """Write the file by which a folder that is continued is recognised."""
    folder.write(GRAPH_HEADER, b"{}")


def never(_: Folder) -> None:
    """Fail if a folder is marked that was begun before."""
    pytest.fail("it was begun again")


def test_a_folder_is_not_complete_until_the_end(target: Folder) -> None:
    with written_whole(target) as new:
        if target.local:
            assert re.fullmatch(rf"{target.url}\.[0-9a-f]{{8}}{PARTIAL}", new.url)
            assert not target.exists()
        else:
            assert new.url == target.url
            with pytest.raises(InputError, match="was left by a run that was killed, or is being written by another"):
                refuse_left_over(target)
        new.write("file", b"x")
    assert target.names() == ["file"]
    assert new.exists() == (not target.local)
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
    with pytest.raises(KeyboardInterrupt), continued(target, mark, lambda _: True) as new:  # noqa: PT012
        assert new.url == unfinished(target).url == (f"{target.url}{PARTIAL}" if target.local else target.url)
        new.write("file", b"x")
        raise KeyboardInterrupt
    assert new.exists("file")
    with pytest.raises(KeyboardInterrupt), continued(target, never, lambda _: False):
        raise KeyboardInterrupt
    with continued(target, never, lambda _: False) as again:
        assert again.read("file") == b"x"
        again.remove("work")
    assert target.names() == ["file"]
    assert new.exists() == (not target.local)


def test_a_new_folder_that_fails_is_deleted_if_it_holds_no_work(target: Folder) -> None:
    with pytest.raises(KeyboardInterrupt), continued(target, mark, lambda _: False) as new:
        raise KeyboardInterrupt
    assert not new.exists()
    assert not target.exists()


@pytest.mark.parametrize("kind", ["empty folder", "folder", "file", "link", "dangling link"])
def test_what_others_call_partial_is_neither_continued_nor_deleted(tmp_path: Path, kind: str) -> None:
    other, mine = tmp_path / "new.partial", tmp_path / "mine"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    if kind == "file":
        other.write_text("mine")
    elif kind == "empty folder":
        other.mkdir()
    elif kind == "folder":
        mine.rename(other)
    else:
        other.symlink_to(mine if kind == "link" else tmp_path / "nowhere")
    before = snapshot(tmp_path)
    target = Folder(tmp_path / "new")
    text = r"new\.partial exists and was not made by dask_rac: move it, or choose another name"
    with pytest.raises(InputError, match=text), continued(target, mark, lambda _: False):
        pytest.fail("it was begun")
    remove_unfinished(target)
    assert snapshot(tmp_path) == before


def test_another_unfinished_folder_on_an_object_store_is_not_continued(tmp_path: Path) -> None:
    target = Folder(f"memory://{tmp_path.name}/new")
    target.write(INCOMPLETE, b"")
    target.write("part-0.parquet", b"of other edges")
    with (
        pytest.raises(InputError, match=r"/new exists and was not made by dask_rac"),
        continued(target, mark, lambda _: False),
    ):
        pytest.fail("it was begun")
    assert target.names() == [INCOMPLETE, "part-0.parquet"]


def test_leftovers_are_removed_by_their_names_and_marks(tmp_path: Path) -> None:
    for name in ("new.partial", "other.partial", "new.01234567.partial", "new.0123456.partial", "new.x.partial"):
        (tmp_path / name).mkdir()
    mark(Folder(tmp_path / "new.partial"))
    remove_unfinished(Folder(tmp_path / "new"))
    assert sorted(os.listdir(tmp_path)) == ["new.0123456.partial", "new.x.partial", "other.partial"]


def test_a_folder_of_ours_with_a_link_in_it_is_not_continued(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    mark(Folder(tmp_path / "mine"))
    (tmp_path / "new.partial").mkdir()
    (tmp_path / "new.partial/work").symlink_to(tmp_path / "mine/work")
    before = snapshot(tmp_path)
    text = r"new\.partial/work is a symbolic link.*: put the file or folder itself in its place"
    with (
        pytest.raises(StoreError, match=text),
        continued(Folder(tmp_path / "new"), mark, lambda _: False),
    ):
        pytest.fail("it was begun")
    assert snapshot(tmp_path) == before


def test_of_two_that_begin_at_once_none_disturbs_the_other(target: Folder) -> None:
    with written_whole(target) as new:
        new.write("file", b"x")
        if not target.local:
            with pytest.raises(InputError, match="is being written by another run"), written_whole(target):
                pytest.fail("both have begun")
        else:
            with pytest.raises(KeyboardInterrupt), written_whole(target):
                raise KeyboardInterrupt
        assert new.exists("file")
    assert target.names() == ["file"]


def test_a_folder_that_another_process_begins_at_the_same_moment_is_shared(tmp_path: Path) -> None:
    target = Folder(tmp_path / "new")

    def second(folder: Folder) -> None:
        mark(folder)
        mark(unfinished(target))

    with pytest.raises(KeyboardInterrupt), continued(target, second, lambda _: False):
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["new.partial"]


def test_a_complete_folder_is_kept_if_its_name_is_taken(tmp_path: Path) -> None:
    text = r"new\.[0-9a-f]{8}\.partial is complete but cannot be renamed: .*; rename it"
    with pytest.raises(InputError, match=text), written_whole(Folder(tmp_path / "new")) as new:  # noqa: PT012
        new.write("file", b"x")
        (tmp_path / "new").mkdir()
        (tmp_path / "new/precious").touch()
    assert os.listdir(tmp_path / "new") == ["precious"]
    assert os.listdir(new.path) == ["file"]


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
    target.write("rac.json.0123abcd.new", b"")
    refuse_taken_store(target)
    target.write("mine.new", b"")
    with pytest.raises(StoreError, match="is not empty and does not hold a run, and was left untouched"):
        refuse_taken_store(target)
    target.remove("mine.new")
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


@pytest.mark.parametrize("several", [False, True])
def test_what_others_call_partial_is_not_an_output_of_ours(tmp_path: Path, several: bool) -> None:
    (tmp_path / "new.partial").write_text("mine")
    with new_output(tmp_path / "new", several) as new:
        new.write("file" if several else "", b"whole")
    assert sorted(os.listdir(tmp_path)) == ["new", "new.partial"]
    assert (tmp_path / "new.partial").read_text() == "mine"


def test_a_link_to_nowhere_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "new").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="exists and is never overwritten"), new_output(tmp_path / "new"):
        pytest.fail("it was begun")
    assert (tmp_path / "new").is_symlink()


def test_an_output_that_appears_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exists and is never overwritten"), new_output(tmp_path / "new") as new:  # noqa: PT012
        new.write("", b"x")
        (tmp_path / "new").write_text("precious")
    assert (tmp_path / "new").read_text() == "precious"
    assert os.listdir(tmp_path) == ["new"]
