"""A full disk is one question and one sentence, and a disk that is too small is refused before anything is written."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest

import dask_rac
from dask_rac import ResourceError
from dask_rac.base.errors import StoppedError
from dask_rac.datasets import documents, lattice, sift
from dask_rac.edges.writing import NewFolder
from dask_rac.files.folder import Folder
from dask_rac.files.full import explain_full, is_disk_full, refuse_small_disk
from dask_rac.files.urls import explained

FULL = (errno.ENOSPC, errno.EDQUOT)


def full(number: int) -> OSError:
    return OSError(number, os.strerror(number))


@pytest.mark.parametrize("number", FULL)
def test_a_full_disk_and_a_full_share_of_it_are_the_same(number: int) -> None:
    assert is_disk_full(full(number))
    text = r"^the disk of here is full: make room$"
    with pytest.raises(StoppedError, match=text), explain_full("here", "make room", StoppedError):
        raise full(number)
    with pytest.raises(OSError, match=os.strerror(number)), explained("s3://bucket/run"):
        raise full(number)


@pytest.mark.parametrize("error", [full(errno.EROFS), ValueError("28"), OSError("no number")])
def test_other_errors_are_left_alone(error: Exception) -> None:
    assert not is_disk_full(error)
    with pytest.raises(type(error)) as caught, explain_full("here", "make room"):
        raise error
    assert caught.value is error


def test_a_small_disk_is_refused(tmp_path: Path) -> None:
    with mock.patch.object(Folder, "free_bytes", return_value=5_000_000):
        refuse_small_disk(Folder(tmp_path), 5_000_000, "make room")
        with pytest.raises(ResourceError, match=r"^\S+ needs 6 MB and 5 MB are free: make room$"):
            refuse_small_disk(Folder(tmp_path), 6_000_000, "make room")
    refuse_small_disk(Folder("memory://small"), 10**18, "an object store has no limit that it would report")


WRITERS: dict[str, Callable[[Path], Any]] = {
    "lattice": lambda path: lattice(100, 4, store=path),
    "sift": lambda path: sift(100, store=path.with_suffix(".bvecs")),
    "documents": lambda path: documents(100, 50, store=path.with_suffix(".zarr")),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_small_disks_are_refused_before_anything_is_written(writer: str, tmp_path: Path) -> None:
    text = r"needs \S+ MB and \S+ MB are free: make room, choose a path on another disk, or use fewer nodes$"
    with mock.patch.object(Folder, "free_bytes", return_value=10), pytest.raises(ResourceError, match=text):
        WRITERS[writer](tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", FULL)
def test_a_disk_that_fills_up_while_edges_are_written(number: int, tmp_path: Path) -> None:
    text = r"^the disk of \S+/new is full: make room, or use another disk$"
    failing = mock.patch.object(NewFolder, "write", side_effect=full(number))
    with failing, pytest.raises(ResourceError, match=text):
        lattice(100, 4, store=tmp_path / "new")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("number", FULL)
def test_a_disk_that_fills_up_while_a_graph_is_built(number: int, tmp_path: Path) -> None:
    vectors = np.arange(20.0).reshape(10, 2)
    text = r"^the disk of \S+/edges is full: make room, then run it again with the same arguments to continue$"
    failing = mock.patch.object(NewFolder, "write", side_effect=full(number))
    with failing, pytest.raises(StoppedError, match=text):
        dask_rac.knn_graph(vectors, 2, store=tmp_path / "edges", progress=False)
    dask_rac.knn_graph(vectors, 2, store=tmp_path / "edges", progress=False)
