"""All pairs through a store, when workers die and disks fill up."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from distributed import Client

import dask_rac
from dask_rac.files.folder import Folder
from tests.support import crash
from tests.support.results import assert_same

RNG = np.random.default_rng(3)
POINTS = RNG.normal(RNG.normal(size=(8, 5))[RNG.integers(0, 8, 300)] * 4).astype(np.float32)
WAYS = [
    ("ward", "points"),
    ("average", "certain"),
    ("complete", "certain"),
    ("single", "certain"),
]

pytestmark = pytest.mark.filterwarnings("ignore:one cluster holds")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors in a file."""
    made = tmp_path_factory.mktemp("vectors") / "vectors.npy"
    np.save(made, POINTS)
    return made


def clustered(path: Path, way: tuple[str, str], store: Path, **where: object) -> dask_rac.Clustering:
    """Cluster through a store."""
    linkage, engine = way
    return dask_rac.cluster(path, linkage, metric="euclidean", engine=engine, store=store, **where)  # type: ignore[call-overload,no-any-return]


@pytest.mark.parametrize("way", WAYS)
def test_workers_that_die_change_no_bit(way: tuple[str, str], path: Path, tmp_path: Path, client: Client) -> None:
    expected = clustered(path, way, tmp_path / "whole")
    client.wait_for_workers(2, timeout=crash.PATIENCE)
    deaths, seen = [1, 2], 0

    def progress(event: dask_rac.Event) -> None:
        nonlocal seen
        seen += event.stage == "tasks"
        if deaths and seen == deaths[0]:
            del deaths[0]
            os.kill(next(iter(client.run(os.getpid, on_error="ignore").values())), signal.SIGKILL)

    found = clustered(path, way, tmp_path / "run", client=client, progress=progress)
    assert not deaths
    assert_same(found, expected)


@contextlib.contextmanager
def disk_full_after(bytes_written: int) -> Iterator[None]:
    """A disk on which so many bytes have room, of all that a run writes."""
    left, write = bytes_written, Folder.write

    def counted(folder: Folder, name: str, data: bytes, **options: bool) -> None:
        nonlocal left
        left -= len(data)
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(folder, name, data, **options)

    with mock.patch.object(Folder, "write", counted):
        yield
    assert left < 0, "the disk was large enough"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("room", [1_000, 5_000])
def test_a_disk_that_fills_up_says_how_to_go_on(way: tuple[str, str], room: int, path: Path, tmp_path: Path) -> None:
    expected = clustered(path, way, tmp_path / "whole")
    store = tmp_path / "run"
    with disk_full_after(room), pytest.raises(dask_rac.ResourceError, match=r"full: make room"):
        clustered(path, way, store)
    found = dask_rac.resume(store) if store.exists() else clustered(path, way, store)
    assert_same(found, expected)
