"""Reads that are made together, and the memory that they take on their way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from time import sleep
from uuid import uuid4

import fsspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_rac.base.errors import DamagedStoreError
from dask_rac.engines.rows.columns import read_column
from dask_rac.files.arrays import write_group
from dask_rac.files.folder import Folder
from dask_rac.files.pieces import write_pieces
from dask_rac.files.readers import READERS, Read, array_read, pieces_read, read_all
from dask_rac.store.manifest import ShardRecord
from tests.support.effort import examples


@pytest.fixture
def far() -> Iterator[Folder]:
    """A folder that is not on a disk of this machine."""
    folder = Folder(f"memory://{uuid4()}")
    yield folder
    folder.remove("")


class Watched:
    """Reads that note what is read at the same time."""

    def __init__(self) -> None:
        self.most_held = self.most = self.made = 0
        self._held: list[int] = []
        self._lock = threading.Lock()

    def reads(self, sizes: list[int]) -> list[Read]:
        return [Read(size, self._reading(size)) for size in sizes]

    def _reading(self, size: int) -> Callable[[], None]:
        def make() -> None:
            with self._lock:
                self._held.append(size)
                self.made += 1
                self.most = max(self.most, len(self._held))
                if len(self._held) > 1:
                    self.most_held = max(self.most_held, sum(self._held))
            sleep(0.001)
            with self._lock:
                self._held.remove(size)

        return make


@examples(30)
@given(st.lists(st.integers(0, 30), max_size=40), st.integers(1, 60))
def test_reads_have_room_together_or_are_made_alone(sizes: list[int], room: int) -> None:
    watched = Watched()
    read_all(Folder("memory://any"), watched.reads(sizes), room)
    assert watched.made == len(sizes)
    assert watched.most <= READERS
    assert watched.most_held <= room


def test_as_many_are_made_as_there_are_readers() -> None:
    together = threading.Barrier(READERS)
    read_all(Folder("memory://any"), [Read(2**30, lambda: together.wait(30)) for _ in range(2 * READERS)])


def test_a_disk_is_read_in_turn(tmp_path: Path) -> None:
    watched = Watched()
    read_all(Folder(tmp_path), watched.reads([1] * 20))
    assert (watched.made, watched.most) == (20, 1)


@pytest.mark.parametrize("room", [1, 100])
def test_an_error_ends_all_reads(far: Folder, room: int) -> None:
    def fail() -> None:
        raise ValueError("torn")

    watched = Watched()
    with pytest.raises(ValueError, match="torn"):
        read_all(far, [Read(1, fail), *watched.reads([1] * 500)], room)
    assert watched.made < 500


def test_arrays_and_pieces_are_read_and_checked(far: Folder) -> None:
    arrays = [np.arange(1_000) * k for k in range(5)]
    write_group(far, "group", {str(k): array for k, array in enumerate(arrays)}, chunk=64)
    write_pieces(far, "piece", [arrays])
    found, pieces = np.zeros((5, 300), np.int64), [np.zeros(1_000, np.int64) for _ in arrays]
    reads = [array_read(far, f"group/{k}", (100, 400), row) for k, row in enumerate(found)]
    read_all(far, [*reads, pieces_read(far, "piece", 0, [pieces])])
    assert (found == np.array(arrays)[:, 100:400]).all()
    assert (np.array(pieces) == np.array(arrays)).all()
    fsspec.filesystem("memory").pipe_file(far.at("group/3/0"), b"damaged")
    with pytest.raises(DamagedStoreError, match="cut short"):
        read_all(far, reads)


def test_a_column_that_is_longer_than_its_shards_is_refused(tmp_path: Path) -> None:
    """Another file may have been put in its place."""
    store = Folder(str(tmp_path))
    write_group(store, "shard", {"size": np.arange(10, dtype="int32")})
    with pytest.raises(DamagedStoreError, match="another file"):
        read_column(store, [ShardRecord("shard", 0, 5, 0, ())], "size", np.empty(5, "int32"))


def test_what_has_not_begun_is_not_read_once_a_read_has_failed() -> None:
    begun = []

    def fail() -> None:
        raise OSError("gone")

    def slow(number: int) -> None:
        begun.append(number)
        sleep(0.05)

    reads = [Read(1, lambda: sleep(0.05)), Read(1, fail), *(Read(1, partial(slow, k)) for k in range(200))]
    with pytest.raises(OSError, match="gone"):
        read_all(Folder("memory://any"), reads)
    assert len(begun) < 3 * READERS
