"""What is flushed survives a power failure, with every name that leads to it."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from dask_rac.files import flushing
from dask_rac.files.flushing import make_folders
from dask_rac.files.folder import Folder
from tests.support.disk_log import DiskLog
from tests.support.power import Disk, Failure

WORST = Failure("none", "lost")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[DiskLog]:
    log = DiskLog(tmp_path / "disk")
    log.root.mkdir()
    with log.recording():
        yield log


def left(log: DiskLog) -> dict[str, bytes]:
    """The files that the worst power failure leaves."""
    target = log.root.parent / "left"
    Disk(log.operations).rebuild(target, WORST, Random(0))
    return {str(path.relative_to(target)): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def put(folder: Folder, name: str, data: bytes) -> None:
    """Write a file as arrays are written: not flushed."""
    os.makedirs(os.path.dirname(folder.at(name)), exist_ok=True)
    handle = os.open(folder.at(name), os.O_CREAT | os.O_WRONLY)
    os.writev(handle, [data])
    os.close(handle)


def test_what_is_not_flushed_is_lost(log: DiskLog) -> None:
    put(Folder(log.root), "rounds/1/shard/0", b"data")
    assert left(log) == {}


def test_a_file_is_flushed_with_all_folders_above_it(log: DiskLog) -> None:
    folder = Folder(log.root)
    put(folder, "rounds/1/shard/0", b"data")
    put(folder, "rounds/1/shard/1", b"other")
    folder.flush(["rounds/1/shard/0", "rounds/1/absent/0"])
    assert left(log) == {"rounds/1/shard/0": b"data", "rounds/1/shard/1": b""}


def test_a_created_file_survives_with_its_new_folder(log: DiskLog) -> None:
    assert Folder(log.root).create("manifests/00000.json", b"{}")
    assert left(log) == {"manifests/00000.json": b"{}"}


@pytest.mark.parametrize("made", ["", "a", "a/b", "a/b/run"])
def test_a_new_folder_survives_whatever_a_killed_process_has_made_of_it(log: DiskLog, made: str) -> None:
    """One that is killed has flushed all names but the last one."""
    for level in Path(made).parents[-2::-1] if made else ():
        (log.root / level).mkdir()
        Folder(log.root).flush([str(level)])
    (log.root / made).mkdir(exist_ok=True)
    make_folders(str(log.root / "a/b/run"))
    assert Folder(log.root / "a/b/run").create("rac.json", b"{}")
    assert left(log) == {"a/b/run/rac.json": b"{}"}


def test_a_folder_above_that_may_not_be_read_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(flushing, "flush_file", refuse)
    make_folders(str(tmp_path / "a/b"))
    assert (tmp_path / "a/b").is_dir()
