"""Sparse vectors in .npz: nothing in the file is believed before it is checked, and no code in it is run."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp

import dask_rac
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.vectors.sources import memory, npz_files
from dask_rac.vectors.sources.opening import open_vectors

MATRIX = sp.csr_array(np.random.default_rng(1).integers(0, 3, (9, 5)).astype(np.float64))


def saved(path: Path, form: str = "csr", **changed: Any) -> Path:
    """A matrix as scipy saves it, with some arrays changed."""
    matrix: Any = MATRIX
    sp.save_npz(path, matrix.asformat(form))
    with np.load(path) as arrays:
        members = {name: arrays[name] for name in arrays.files} | changed
    np.savez_compressed(path, **members)
    return path


def packed(path: Path, **members: bytes) -> Path:
    """A zip of any bytes."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
        for name, data in members.items():
            bundle.writestr(f"{name}.npy", data)
    return path


def header(shape: tuple[int, ...], descr: str) -> bytes:
    """The header of a .npy."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": descr, "fortran_order": False, "shape": shape})
    return file.getvalue()


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize("index", [-1, 9, 2**20, 2**31 - 1])
def test_columns_out_of_range(form: str, index: int, tmp_path: Path) -> None:
    matrix: Any = MATRIX
    indices = matrix.asformat(form).indices.copy()
    indices[3] = index
    path = saved(tmp_path / "v.npz", form, indices=indices)
    with pytest.raises(InputError, match=rf"v\.npz is damaged: indices holds {index} at position 3"):
        dask_rac.knn_graph(path, k=2)


@pytest.mark.parametrize(
    ("form", "name"), [("csr", "indices"), ("csc", "indptr"), ("coo", "row"), ("coo", "col"), ("dia", "offsets")]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, bool])
def test_places_that_are_not_integers(form: str, name: str, dtype: Any, tmp_path: Path) -> None:
    matrix: Any = MATRIX
    places = getattr(matrix.asformat(form), name)
    path = saved(tmp_path / "v.npz", form, **{name: (places / 2).astype(dtype)})
    with pytest.raises(InputError, match=rf"{name}\.npy in .*v\.npz holds {np.dtype(dtype)} instead of integers"):
        open_vectors(path)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dia"])
@pytest.mark.parametrize("rows", [2**40, 2**62])
def test_absurd_shapes(form: str, rows: int, tmp_path: Path) -> None:
    path = saved(tmp_path / "v.npz", form, shape=np.array([rows, 5]))
    with pytest.raises((InputError, ResourceError), match=r"v\.npz"):
        open_vectors(path)


def test_more_rows_than_memory_holds(tmp_path: Path) -> None:
    path = saved(tmp_path / "v.npz", "coo", shape=np.array([10**6, 5]))
    assert open_vectors(path).rows == 10**6
    with (
        mock.patch.object(memory, "memory_limit", return_value=10**6),
        pytest.raises(ResourceError, match=r"the 1000000 rows of .*v\.npz need 8 MB of memory even if they are empty"),
    ):
        open_vectors(path)
    with (
        mock.patch.object(npz_files, "memory_limit", return_value=100),
        pytest.raises(ResourceError, match=r"v\.npz takes .* of memory, and there are .*as a Zarr group"),
    ):
        open_vectors(path)


def test_headers_that_state_more_than_there_is(tmp_path: Path) -> None:
    path = packed(tmp_path / "v.npz", data=header((2**40,), "<f8") + b"\0" * 64)
    with pytest.raises(InputError, match=r"data\.npy in .*v\.npz has \d+ bytes, and its header states 8796093022"):
        open_vectors(path)


def test_sizes_that_cannot_be(tmp_path: Path) -> None:
    path = saved(tmp_path / "v.npz")
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02") + 24
    data[at : at + 4] = (2**31).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"v\.npz claims to have 2147483648 bytes, more than its"):
        open_vectors(path)


class Act:
    """What runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


def test_objects_are_never_loaded(tmp_path: Path) -> None:
    path = packed(tmp_path / "v.npz", data=header((1,), "|O") + pickle.dumps(Act()))
    with mock.patch("os.system") as system, pytest.raises(InputError, match="holds Python objects, which are never"):
        open_vectors(path)
    system.assert_not_called()
    (tmp_path / "v.npy").write_bytes(header((1, 1), "|O") + pickle.dumps(Act()))
    with mock.patch("os.system") as system, pytest.raises(InputError, match=r"v\.npy are object"):
        open_vectors(tmp_path / "v.npy")
    system.assert_not_called()


@pytest.mark.parametrize("shape", [(-2, -3), (-6, 1), (2**40, 3), (2**62, 2**62)])
def test_npy_of_a_shape_that_the_file_does_not_hold(shape: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "v.npy").write_bytes(header(shape, "<f8") + b"\0" * 48)
    with pytest.raises(InputError, match=r"v\.npy (cannot be read as \.npy: its shape is|is \d+ bytes, not)"):
        open_vectors(tmp_path / "v.npy")
