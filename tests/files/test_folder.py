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
