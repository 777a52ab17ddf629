"""Pieces in one file: read one by one, straight into arrays, with a checksum each."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_rac.base.errors import DamagedStoreError
from dask_rac.files import pieces as module
from dask_rac.files.folder import Folder
from dask_rac.files.pieces import CHECKSUM, read_piece, read_pieces, write_pieces
from tests.support.folders import quick_folder
from tests.support.object_store import ObjectStore

KINDS = st.sampled_from(["int32", "int64", "float64", "uint16", "uint8"])
ARRAYS = st.tuples(KINDS, st.integers(0, 50)).map(lambda drawn: np.arange(drawn[1]).astype(drawn[0]))
PIECES = st.lists(st.lists(ARRAYS, max_size=4), min_size=1, max_size=6)


def read_back(folder: Folder, name: str, written: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
    """Read all pieces, the last one first."""
    sizes = [sum(array.nbytes for array in piece) + CHECKSUM for piece in written]
    offsets = np.concatenate(([0], np.cumsum(sizes)))[:-1].tolist()
    found = []
    for piece, offset in reversed(list(zip(written, offsets, strict=True))):
        out = [np.zeros_like(array) for array in piece]
        read_piece(folder, name, offset, out)
        found.append(out)
    return found[::-1]


@given(PIECES, st.sampled_from([16, 100, 2**25]))
def test_every_piece_is_read_as_it_was_written(written: list[list[np.ndarray]], request_bytes: int) -> None:
    with quick_folder() as folder, mock.patch.object(module, "REQUEST", request_bytes):
        store = Folder(folder)
        size = write_pieces(store, "some/pieces", written)
        assert size == (folder / "some" / "pieces").stat().st_size
        for piece, found in zip(written, read_back(store, "some/pieces", written), strict=True):
            for one, other in zip(piece, found, strict=True):
                assert one.tobytes() == other.tobytes()


@given(PIECES, st.data(), st.sampled_from([16, 100, 2**25]))
def test_successive_pieces_are_read_together(
    written: list[list[np.ndarray]], data: st.DataObject, request_bytes: int
) -> None:
    first = data.draw(st.integers(0, len(written) - 1))
    stop = data.draw(st.integers(first + 1, len(written)))
    offset = sum(array.nbytes for piece in written[:first] for array in piece) + CHECKSUM * first
    with quick_folder() as folder, mock.patch.object(module, "REQUEST", request_bytes):
        write_pieces(Folder(folder), "pieces", written)
        found = [[np.zeros_like(array) for array in piece] for piece in written[first:stop]]
        read_pieces(Folder(folder), "pieces", offset, found)
    for piece, read in zip(written[first:stop], found, strict=True):
        for one, other in zip(piece, read, strict=True):
            assert one.tobytes() == other.tobytes()


def test_pieces_on_an_object_store(object_store: ObjectStore) -> None:
    store = Folder(object_store.url("pieces"))
    written: list[list[np.ndarray]] = [[np.arange(5)], [np.arange(3.0), np.arange(7, dtype=np.uint16)]]
    write_pieces(store, "moved", written)
    assert all(
        (a == b).all()
        for one, other in zip(written, read_back(store, "moved", written), strict=True)
        for a, b in zip(one, other, strict=True)
    )


@pytest.mark.parametrize("place", [0, 39, 40, 43, 60])
def test_a_changed_byte_is_found_by_those_who_read_it(tmp_path: Path, place: int) -> None:
    store, written = Folder(tmp_path), [[np.arange(5)], [np.arange(7)]]
    write_pieces(store, "moved", written)
    data = bytearray((tmp_path / "moved").read_bytes())
    data[place] ^= 1
    (tmp_path / "moved").write_bytes(data)
    for number, offset in enumerate((0, 44)):
        out = [np.zeros_like(written[number][0])]
        if number == (place >= 44):
            with pytest.raises(DamagedStoreError, match="the checksum of a piece does not match"):
                read_piece(store, "moved", offset, out)
        else:
            read_piece(store, "moved", offset, out)


def test_a_file_that_was_cut_or_is_gone_is_named(tmp_path: Path) -> None:
    store = Folder(tmp_path)
    write_pieces(store, "moved", [[np.arange(5)]])
    (tmp_path / "moved").write_bytes((tmp_path / "moved").read_bytes()[:-1])
    with pytest.raises(DamagedStoreError, match="moved is cut short"):
        read_piece(store, "moved", 0, [np.arange(5)])
    (tmp_path / "moved").unlink()
    with pytest.raises(DamagedStoreError, match="moved is missing"):
        read_piece(store, "moved", 0, [np.arange(5)])
