"""Whatever goes wrong while an input is read, the error is typed, names the file and states what to do."""

from __future__ import annotations

import errno
import os
import zipfile
import zlib
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from fsspec.implementations.local import LocalFileSystem

import dask_rac
from dask_rac.base.errors import InputError, ResourceError, StoreError
from dask_rac.cli.entry import exit_code
from dask_rac.files.listing import list_files
from dask_rac.files.reading import readable
from dask_rac.vectors.sources.opening import open_vectors

DAMAGE = (
    pa.ArrowInvalid("bad page"),
    pa.ArrowNotImplementedError("no such codec"),
    OSError("Couldn't deserialize thrift"),
    zipfile.BadZipFile("not a zip"),
    zlib.error("invalid block"),
    UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    OverflowError("too large"),
    KeyError("shape"),
    RecursionError("too deep"),
    AssertionError(),
)
FAULTS = (errno.EIO, errno.ESTALE, errno.EACCES, errno.EROFS, errno.ENAMETOOLONG, errno.EISDIR, errno.ENOTDIR)


@pytest.mark.parametrize("error", DAMAGE, ids=lambda error: type(error).__name__)
def test_damage(error: Exception) -> None:
    with pytest.raises(InputError, match=r"^x\.npz cannot be read as numbers: .+; ask again$"):  # noqa: SIM117
        with readable("x.npz", "numbers", remedy="ask again"):
            raise error


@pytest.mark.parametrize("number", FAULTS, ids=lambda number: errno.errorcode[number])
def test_the_system_refuses(number: int) -> None:
    with (
        pytest.raises(
            InputError, match=r"^x\.npz cannot be (used \(.*\): .*(check|choose|disk)|read: .*; restore what was there)"
        ) as caught,
        readable("x.npz"),
    ):
        raise OSError(number, os.strerror(number), "x.npz")
    assert exit_code(caught.value) == 2


def test_memory_and_our_own_errors() -> None:
    with pytest.raises(ResourceError, match="x needs more memory than there is"), readable("x"):
        raise MemoryError("malloc of size 2**60 failed")
    for ours in (InputError("a"), StoreError("b"), ResourceError("c")):
        with pytest.raises(type(ours), match=f"^{ours}$"), readable("x"):
            raise ours


def test_messages_of_libraries_are_cut() -> None:
    with pytest.raises(InputError) as caught, readable("x"):
        raise ValueError("long\n" * 10_000)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("read", [dask_rac.cluster, open_vectors, lambda path: dask_rac.ingest(path, "store")])
def test_paths_with_a_nul(read: Any) -> None:
    with pytest.raises(InputError, match=r"'a\\x00.csv' contains a NUL character"):
        read("a\0.csv")


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES], ids=lambda number: errno.errorcode[number])
def test_folders_that_cannot_be_read_are_not_left_out(number: int, tmp_path: Path) -> None:
    (tmp_path / "edges/more").mkdir(parents=True)
    for file in ("edges/a.parquet", "edges/more/b.parquet"):
        pd.DataFrame({"source": [0], "target": [1], "weight": [1.0]}).to_parquet(tmp_path / file)
    scan = os.scandir

    def refuse(path: Any) -> Any:
        if os.fspath(path).endswith("more"):
            raise OSError(number, os.strerror(number), path)
        return scan(path)

    with mock.patch("os.scandir", refuse), pytest.raises(InputError, match=r"edges/more cannot be used \("):
        dask_rac.cluster(tmp_path / "edges")


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.EACCES], ids=lambda number: errno.errorcode[number])
def test_files_that_cannot_be_read(number: int, tmp_path: Path) -> None:
    frame = pd.DataFrame({"source": [0], "target": [1], "weight": [1.0]})
    frame.to_parquet(tmp_path / "e.parquet")
    frame.to_csv(tmp_path / "e.csv")
    np.save(tmp_path / "v.npy", np.ones((3, 3)))

    def refuse(_: Any, path: str, *__: Any, **___: Any) -> Any:
        raise OSError(number, os.strerror(number), path)

    with mock.patch.object(LocalFileSystem, "open", refuse), mock.patch.object(LocalFileSystem, "cat_file", refuse):
        for read, name in ((dask_rac.cluster, "e.parquet"), (open_vectors, "v.npy")):
            with pytest.raises(InputError, match=rf"{name} cannot be used \("):
                read(tmp_path / name)
        for name in ("e.parquet", "e.csv"):
            with pytest.raises(InputError, match=rf"{name} cannot be used \("):
                dask_rac.ingest(tmp_path / name, tmp_path / "store")


def test_a_folder_in_place_of_a_file_and_the_reverse(tmp_path: Path) -> None:
    (tmp_path / "edges/part.parquet").mkdir(parents=True)
    with pytest.raises(InputError, match=r"edges/part\.parquet is an empty folder in place of a file"):
        dask_rac.cluster(tmp_path / "edges")
    (tmp_path / "v.npy").mkdir()
    with pytest.raises(InputError, match=r"v\.npy holds no vectors"):
        open_vectors(tmp_path / "v.npy")
    (tmp_path / "g.zarr").write_bytes(b"not a folder")
    with pytest.raises(InputError, match=r"g\.zarr cannot be read as Parquet"):
        dask_rac.cluster(tmp_path / "g.zarr")
    with pytest.raises(InputError, match="does not exist: try another"):
        list_files(str(tmp_path / "g.zarr/below"), "try another")


@pytest.mark.parametrize("number", [errno.EIO, errno.EROFS], ids=lambda number: errno.errorcode[number])
def test_outputs_that_cannot_be_written(number: int, tmp_path: Path) -> None:
    pd.DataFrame({"source": [0], "target": [1], "weight": [1.0]}).to_csv(tmp_path / "e.csv")

    def refuse(*_: Any) -> None:
        raise OSError(number, os.strerror(number))

    with mock.patch("dask_rac.edges.writing._write_groups", refuse):
        with pytest.raises(InputError, match=r"store cannot be written: .*; give a folder that can be created"):
            dask_rac.ingest(tmp_path / "e.csv", tmp_path / "store")
        with pytest.raises(StoreError, match=r"graph cannot be written or read: .*run it again with the same"):
            dask_rac.knn_graph(np.arange(12.0).reshape(6, 2), k=2, store=tmp_path / "graph")
    frame = dask_rac.knn_graph(np.arange(12.0).reshape(6, 2), k=2, store=tmp_path / "graph")
    assert len(frame) == frame.attrs["graph"]["edges"]
