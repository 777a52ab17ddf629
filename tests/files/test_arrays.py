"""zarr can read our arrays on disk, and any change to them is noticed."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays, floating_dtypes, integer_dtypes, unsigned_integer_dtypes
from numpy.typing import NDArray

import dask_rac
from dask_rac.files import arrays as store_arrays
from dask_rac.files.arrays import array_dtype, check_array, read_array, write_group
from dask_rac.files.folder import FileRecord, Folder
from tests.support.effort import examples
from tests.support.folders import quick_folder

DTYPES = st.one_of(
    integer_dtypes(endianness="<"),
    unsigned_integer_dtypes(endianness="<"),
    floating_dtypes(endianness="<", sizes=(32, 64)),
)
CHUNK = 5
LENGTHS = st.sampled_from([0, 1, 2, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK - 1, 3 * CHUNK, 3 * CHUNK + 1, 300 * CHUNK])


@pytest.fixture
def folder() -> Iterator[Folder]:
    with quick_folder() as made:
        yield Folder(made)


@examples(60)
@given(st.data(), LENGTHS)
def test_zarr_reads_what_is_written(data: st.DataObject, length: int) -> None:
    # 300 chunks are more than one system call takes.
    drawn = {name: data.draw(arrays(data.draw(DTYPES), min(length, 40))) for name in ("neighbour", "weight")}
    columns = {name: np.resize(column, length) for name, column in drawn.items()}
    with quick_folder() as made:
        records = write_group(Folder(made), "group", columns, CHUNK)
        group: Any = zarr.open_group(str(made / "group"), mode="r")
        assert sorted(group.array_keys()) == sorted(columns)
        for record, (name, column) in zip(records, columns.items(), strict=True):
            assert group[name].dtype == array_dtype(Folder(made), f"group/{name}") == column.dtype
            np.testing.assert_array_equal(group[name][:], column)
            np.testing.assert_array_equal(read_array(Folder(made), f"group/{name}"), column)
            check_array(Folder(made), record)
            files = [file for file in (made / record.name).rglob("*") if file.is_file()]
            assert record.bytes == sum(file.stat().st_size for file in files)
            start, stop = sorted(data.draw(st.tuples(st.integers(0, length), st.integers(0, length))))
            part = np.empty(stop - start, column.dtype)
            read_array(Folder(made), f"group/{name}", start, stop, part)
            np.testing.assert_array_equal(part, column[start:stop])
            np.testing.assert_array_equal(group[name][start:stop], column[start:stop])


@pytest.mark.parametrize("length", [0, 1, 12])
def test_every_range_is_read_right(length: int, folder: Folder) -> None:
    column = np.arange(length, dtype=np.int32)
    write_group(folder, "group", {"ids": column}, CHUNK)
    for start in range(length + 1):
        for stop in range(start, length + 1):
            np.testing.assert_array_equal(read_array(folder, "group/ids", start, stop), column[start:stop])


def test_chunks_of_the_usual_size(folder: Folder) -> None:
    size = store_arrays.CHUNK
    for number, length in enumerate((size - 1, size, size + 1, 130 * size + 7)):
        column = np.arange(length, dtype=np.int64)
        (record,) = write_group(folder, f"group{number}", {"ids": column})
        array: Any = zarr.open_array(folder.at(record.name), mode="r")
        np.testing.assert_array_equal(array[:], column)
        np.testing.assert_array_equal(read_array(folder, record.name), column)
        np.testing.assert_array_equal(read_array(folder, record.name, length - 3, length), column[-3:])
        check_array(folder, record)


def test_arrays_on_other_file_systems() -> None:
    folder = Folder("memory://arrays")
    column = np.arange(13, dtype=np.uint16)
    (record,) = write_group(folder, "group", {"ids": column}, CHUNK)
    np.testing.assert_array_equal(read_array(folder, "group/ids", 3, 11), column[3:11])
    check_array(folder, record)
    data = folder.read("group/ids/0")
    folder.filesystem.pipe_file(folder.at("group/ids/0"), data[:30])
    with pytest.raises(dask_rac.DamagedStoreError, match="is cut short"):
        check_array(folder, record)
    folder.remove("")


def test_arrays_that_are_not_in_one_piece_are_written_right(folder: Folder) -> None:
    column = np.arange(40)[::3]
    write_group(folder, "group", {"ids": column}, CHUNK)
    np.testing.assert_array_equal(read_array(folder, "group/ids"), column)


def test_nothing_is_written_over(folder: Folder) -> None:
    write_group(folder, "group", {"ids": np.arange(3)})
    with pytest.raises(FileExistsError):
        write_group(folder, "group", {"ids": np.arange(4)})


# Damage: a group of 13 items in three chunks, the last one padded.

COLUMN = np.array([0, 1, -1, 7, 2**30, 5, 6, 7, 8, 9, 10, 11, -12], np.int32)
DATA, METADATA = "0", "zarr.json"
CHUNK_BYTES = 3 * (4 * CHUNK + 4)  # with their checksums; the index follows


def written(folder: Folder, column: NDArray[Any] = COLUMN, name: str = "group") -> tuple[FileRecord, Path]:
    """Write a group with one array, and return where the array is."""
    (record,) = write_group(folder, name, {"ids": column}, CHUNK)
    return record, Path(folder.at(record.name))


def assert_found(folder: Folder, record: FileRecord, message: str | None = None) -> None:
    """Check that the damage is found and the file named."""
    with pytest.raises(dask_rac.DamagedStoreError, match=message) as caught:
        check_array(folder, record)
    assert folder.at(record.name) in str(caught.value)


def flips(data: bytes, places: range) -> Iterator[bytes]:
    """Yield the data with each bit of the given bytes flipped, one at a time."""
    for place in places:
        for bit in range(8):
            yield data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]


def test_every_flipped_bit_of_the_items_is_found(folder: Folder) -> None:
    record, home = written(folder)
    data = (home / DATA).read_bytes()
    for damaged in flips(data, range(CHUNK_BYTES)):
        (home / DATA).write_bytes(damaged)
        assert_found(folder, record, "is damaged: the checksum of chunk [012] does not match")
        with pytest.raises(dask_rac.DamagedStoreError):
            read_array(folder, record.name)
    (home / DATA).write_bytes(data)
    check_array(folder, record)


def test_every_flipped_bit_of_the_index_is_found(folder: Folder) -> None:
    record, home = written(folder)
    data = (home / DATA).read_bytes()
    for damaged in flips(data, range(CHUNK_BYTES, len(data))):
        (home / DATA).write_bytes(damaged)
        assert_found(folder, record)


def test_every_flipped_bit_of_the_metadata_is_found(folder: Folder) -> None:
    record, home = written(folder)
    data = (home / METADATA).read_bytes()
    for damaged in flips(data, range(len(data))):
        (home / METADATA).write_bytes(damaged)
        assert_found(folder, record)
    (home / METADATA).write_bytes(data)
    check_array(folder, record)


@pytest.mark.parametrize("file", [DATA, METADATA])
def test_every_truncation_is_found(file: str, folder: Folder) -> None:
    record, home = written(folder)
    data = (home / file).read_bytes()
    for length in range(CHUNK_BYTES if file == DATA else len(data)):
        (home / file).write_bytes(data[:length])
        assert_found(folder, record)


@pytest.mark.parametrize("more", [-1, -30, 1])
def test_an_index_cut_short_or_something_behind_it_is_found(more: int, folder: Folder) -> None:
    record, home = written(folder)
    data = (home / DATA).read_bytes()
    (home / DATA).write_bytes(data[:more] if more < 0 else data + b"\0" * more)
    assert_found(folder, record)


def test_a_file_that_goes_while_it_is_checked_is_missing(folder: Folder) -> None:
    (record,) = write_group(folder, "group", {"column": np.arange(9)})
    read = os.preadv

    def read_and_delete(*arguments: Any) -> int:
        size = read(*arguments)
        os.unlink(folder.at("group/column/0"))
        return size

    with (
        mock.patch.object(os, "preadv", read_and_delete),
        pytest.raises(dask_rac.DamagedStoreError, match=r"group/column/0 is missing"),
    ):
        check_array(folder, record)


@pytest.mark.parametrize("file", [DATA, METADATA, ""])
def test_a_missing_file_is_found(file: str, folder: Folder) -> None:
    record, home = written(folder)
    shutil.rmtree(home) if not file else (home / file).unlink()
    assert_found(folder, record, "is missing")
    with pytest.raises(dask_rac.DamagedStoreError, match="is missing"):
        read_array(folder, record.name)


@pytest.mark.parametrize(
    "other", [COLUMN[::-1], COLUMN[:12], COLUMN.astype(np.uint32), COLUMN.astype(np.int64), COLUMN[:0], COLUMN + 1]
)
@pytest.mark.parametrize("files", [(DATA,), (METADATA,), (DATA, METADATA)])
def test_a_file_of_another_array_is_found(other: NDArray[Any], files: tuple[str, ...], folder: Folder) -> None:
    record, home = written(folder)
    _, elsewhere = written(folder, other, "other")
    same = [file for file in files if _contents(home / file) == _contents(elsewhere / file)]
    for file in files:
        (home / file).unlink()
        if (elsewhere / file).exists():
            shutil.copy(elsewhere / file, home / file)
    if len(same) == len(files):
        check_array(folder, record)
    else:
        assert_found(folder, record)


def _contents(file: Path) -> bytes | None:
    return file.read_bytes() if file.exists() else None


def test_two_chunks_that_changed_places_are_found(folder: Folder) -> None:
    record, home = written(folder)
    data, size = (home / DATA).read_bytes(), 4 * CHUNK + 4
    (home / DATA).write_bytes(data[size : 2 * size] + data[:size] + data[2 * size :])
    assert_found(folder, record, "is not what was written: another file was put in its place")


def test_reading_more_than_there_is_or_as_something_else(folder: Folder) -> None:
    record, _ = written(folder)
    for out in (np.empty(13, np.int64), np.empty(12, np.int32), np.empty(13, np.float32)):
        with pytest.raises(
            dask_rac.DamagedStoreError, match="holds 13 items of int32: another file was put in its place"
        ):
            read_array(folder, record.name, out=out)
    with pytest.raises(dask_rac.DamagedStoreError, match="holds 13 items"):
        read_array(folder, record.name, 10, 14)
