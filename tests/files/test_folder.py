"""A folder of ours: what happens when several processes use it at the same moment."""

import os
from pathlib import Path

import pytest

from dask_rac.files.folder import Folder


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_what_another_run_deletes_at_the_same_moment_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    path = tmp_path / "part"
    if kind == "folder":
        path.mkdir()
        path = path / "inside"
    path.write_text("x")
    unlink = os.unlink

    def second(*arguments: object, **options: object) -> None:
        unlink(*arguments, **options)  # type: ignore[arg-type]
        unlink(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "unlink", second)
    Folder(tmp_path).remove("part")
    assert not path.exists()
    Folder(tmp_path).remove("part")


@pytest.mark.parametrize("kind", ["file", "folder", "nothing"])
def test_of_a_link_only_the_link_is_deleted(tmp_path: Path, kind: str) -> None:
    target = tmp_path / "target"
    if kind == "file":
        target.write_text("mine")
    elif kind == "folder":
        target.mkdir()
        (target / "thesis.txt").write_text("years of work")
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "ours").mkdir()
    (tmp_path / "ours/link").symlink_to(target)
    Folder(tmp_path).remove("link")
    Folder(tmp_path).remove("ours")
    assert os.listdir(tmp_path) == ([] if kind == "nothing" else ["target"])
    assert kind != "folder" or os.listdir(target) == ["thesis.txt"]


def test_several_files_are_deleted_whether_they_exist_or_not(tmp_path: Path) -> None:
    for name in ("one", "two", "three"):
        (tmp_path / name).write_text("x")
    Folder(tmp_path).remove_files(["one", "none", "two"])
    assert os.listdir(tmp_path) == ["three"]
