"""Vectors of every form give the same rows, and every fault a clear error message."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest import mock

import dask.array as da
import dask.dataframe as dd
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr
from dask.delayed import delayed
from fsspec.implementations.local import LocalFileSystem
from fsspec.implementations.memory import MemoryFileSystem
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.names import INCOMPLETE
from dask_rac.files.folder import Folder
from dask_rac.files.urls import locate
from dask_rac.vectors.sources.opening import (
    VectorSource,
    is_dask_array,
    open_parts,
    open_vectors,
    spool_vectors,
    whole_rows,
    write_part,
    write_vectors,
)
from dask_rac.vectors.sources.writing import SpoolSizes
from dask_rac.vectors.sources.zarr_files import ZarrSizes
from tests.support.effort import examples
from tests.support.object_store import BUCKET, ObjectStore

ROWS, DIMENSIONS = 97, 7
RNG = np.random.default_rng(3)
X = RNG.normal(size=(ROWS, DIMENSIONS)).astype(np.float32)
D = RNG.normal(size=(ROWS, DIMENSIONS))
B = RNG.integers(0, 256, (ROWS, DIMENSIONS), dtype=np.uint8)
S = np.where(RNG.random((ROWS, DIMENSIONS)) < 0.3, X, 0)  # some rows without a value


def cut(array: Any, step: int = 20) -> Iterator[Any]:
    """Return an array in blocks."""
    return (array[start : start + step] for start in range(0, array.shape[0], step))


def written(path: Path, array: Any, step: int = 20, sizes: ZarrSizes | None = None) -> str:
    """Write vectors with our own writer."""
    write_vectors(path, cut(array, step), array.shape[0], array.shape[1], array.dtype.name, sizes)
    return str(path)


def saved(path: Path, array: Any) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, array, allow_pickle=True)
    return str(path)


def by_hand(path: Path, array: NDArray[Any]) -> str:
    """Write records as the format is specified."""
    kind = {"float32": "f", "uint8": "B"}[array.dtype.name]
    path.write_bytes(b"".join(struct.pack(f"<i{len(row)}{kind}", len(row), *row.tolist()) for row in array))
    return str(path)


def npy_folder(folder: Path) -> str:
    (folder / "parts").mkdir(parents=True)
    for number, rows in enumerate(np.split(X, [30, 30, 31])):
        np.save(folder / "parts" / f"part-{number}.npy", rows)
    (folder / "parts" / "README.txt").write_text("not vectors")
    return str(folder / "parts")


def zarr_array(path: Path, array: NDArray[Any], chunks: tuple[int, ...] = (10, 4), **options: Any) -> str:
    zarr.create_array(str(path), data=array, chunks=chunks, **options)
    return str(path)


def csr_group(path: Path, matrix: sp.csr_array, shape: Any = None, **attributes: Any) -> str:
    """Write a CSR matrix as anndata does."""
    group = zarr.create_group(str(path))
    for name in ("data", "indices", "indptr"):
        array = getattr(matrix, name)
        if len(array):
            group.create_array(name, data=array, chunks=(16,))
        else:
            group.create_array(name, shape=(0,), dtype=array.dtype, chunks=(16,))
    group.attrs.update(
        {"encoding-type": "csr_matrix", "encoding-version": "0.1.0", "shape": shape or list(matrix.shape), **attributes}
    )
    return str(path)


def jumbled() -> sp.csr_array:
    """Return the sparse rows with every value split into two halves, from the last column to the first."""
    matrix = sp.csr_array(S)
    rows = [
        np.repeat(np.arange(start, stop)[::-1], 2)
        for start, stop in zip(matrix.indptr[:-1], matrix.indptr[1:], strict=True)
    ]
    order = np.concatenate(rows)
    return sp.csr_array((matrix.data[order] / 2, matrix.indices[order], matrix.indptr * 2), shape=matrix.shape)


def table(array: NDArray[Any]) -> dict[str, Any]:
    return {f"x{number}": column for number, column in enumerate(array.T)}


def lists(array: NDArray[Any], kind: Callable[[Any], Any] = pa.list_) -> Any:
    return pa.array(list(array), kind(pa.from_numpy_dtype(array.dtype)))


def parquet(path: Path, columns: Any, groups: int = 13) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=groups)
    return str(path)


def parquet_folder(folder: Path) -> str:
    for number, rows in enumerate(np.split(X, [40, 40, 41])):
        parquet(folder / "tables" / f"part-{number}.parquet", {"vector": lists(rows)})
    return str(folder / "tables")


def npz(path: Path, matrix: Any) -> str:
    sp.save_npz(path, matrix)
    return str(path)


Form = tuple[NDArray[Any], Callable[[Path], Any]]

FILES: dict[str, Form] = {
    "npy": (X, lambda folder: saved(folder / "a.npy", X)),
    "npy, float64": (D, lambda folder: saved(folder / "d.npy", D)),
    "npy, uint8": (B, lambda folder: saved(folder / "b.npy", B)),
    "npy, big-endian": (X, lambda folder: saved(folder / "be.npy", X.astype(">f4"))),
    "npy, big-endian float64": (D, lambda folder: saved(folder / "bed.npy", D.astype(">f8"))),
    "npy, written": (X, lambda folder: written(folder / "w.npy", X)),
    "folder of npy": (X, npy_folder),
    "fvecs": (X, lambda folder: by_hand(folder / "a.fvecs", X)),
    "bvecs": (B, lambda folder: by_hand(folder / "b.bvecs", B)),
    "fvecs, written": (X, lambda folder: written(folder / "w.fvecs", X)),
    "bvecs, written": (B, lambda folder: written(folder / "w.bvecs", B)),
    "Zarr array": (X, lambda folder: zarr_array(folder / "a.zarr", X)),
    "Zarr array, version 2, big-endian": (
        D,
        lambda folder: zarr_array(folder / "v2.zarr", D.astype(">f8"), zarr_format=2),
    ),
    "Zarr array, written": (X, lambda folder: written(folder / "w.zarr", X)),
    "CSR group": (S, lambda folder: csr_group(folder / "s.zarr", sp.csr_array(S))),
    "CSR group, jumbled": (S, lambda folder: csr_group(folder / "j.zarr", jumbled())),
    "CSR group, uint8": (B, lambda folder: csr_group(folder / "sb.zarr", sp.csr_array(B))),
    "CSR group, written": (S, lambda folder: written(folder / "sw.zarr", jumbled())),
    "Parquet, lists": (X, lambda folder: parquet(folder / "l.parquet", {"id": np.arange(ROWS), "v": lists(X)})),
    "Parquet, large lists": (D, lambda folder: parquet(folder / "ll.parq", {"v": lists(D, pa.large_list)})),
    "Parquet, fixed lists": (
        B,
        lambda folder: parquet(folder / "f.pq", {"v": lists(B, lambda kind: pa.list_(kind, DIMENSIONS))}),
    ),
    "Parquet, columns": (X, lambda folder: parquet(folder / "c.parquet", table(X))),
    "Parquet, one group": (X, lambda folder: parquet(folder / "g.parquet", table(X), 10**6)),
    "folder of Parquet": (X, parquet_folder),
}

MEMORY: dict[str, Form] = {
    "array": (X, lambda _: X),
    "float64": (D, lambda _: D),
    "uint8": (B, lambda _: B),
    "Fortran order": (X, lambda _: np.asfortranarray(X)),
    "every second row": (X, lambda _: np.repeat(X, 2, axis=0)[::2]),
    "big-endian": (X, lambda _: X.astype(">f4")),
    "read-only": (X, lambda _: np.frombuffer(X.tobytes(), np.float32).reshape(X.shape)),
    "lists": (D, lambda _: D.tolist()),
    "masked array without masks": (X, lambda _: np.ma.masked_array(X)),
    "DataFrame": (X, lambda _: pd.DataFrame(table(X))),
    "DataFrame, mixed": (
        np.column_stack((X[:, :2].astype(np.float64), D[:, 2:])),
        lambda _: pd.DataFrame(table(X)).assign(**{f"x{k}": D[:, k] for k in range(2, DIMENSIONS)}),
    ),
    "nullable DataFrame": (D, lambda _: pd.DataFrame(table(D)).convert_dtypes()),
    "Zarr object on disk": (X, lambda folder: zarr.open(zarr_array(folder / "o.zarr", X))),
    "Zarr object in memory": (X, lambda _: zarr.array(X, chunks=(10, 4))),
    "CSR": (S, lambda _: sp.csr_array(S)),
    "CSR, jumbled": (S, lambda _: jumbled()),
    "CSR matrix": (S, lambda _: sp.csr_matrix(S)),
    "CSC": (S, lambda _: sp.csc_matrix(S)),
    "COO": (S, lambda _: jumbled().tocoo()),
    "COO, uint8": (B, lambda _: sp.coo_array(B)),
    "LIL": (S, lambda _: sp.lil_array(S)),
    "npz": (S, lambda folder: npz(folder / "s.npz", sp.csc_array(S))),
}

FORMS = FILES | MEMORY


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("vectors")


@pytest.fixture(scope="module")
def sources(home: Path) -> dict[str, VectorSource]:
    """Every form, opened."""
    return {name: open_vectors(make(home)) for name, (_, make) in FORMS.items()}


@pytest.fixture
def far() -> Iterator[str]:
    """A folder in the memory of this process, accessed like an object store."""
    yield "memory://vectors"
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


def dense(block: Any) -> NDArray[Any]:
    """Rows as an array."""
    return np.asarray(block if isinstance(block, np.ndarray) else block.toarray())


def assert_rows(source: VectorSource, expected: NDArray[Any], start: int = 0, stop: int = ROWS) -> None:
    """Return the rows and their memory layout."""
    block = source.read(start, stop)
    assert block.shape == (stop - start, DIMENSIONS)
    assert block.dtype == np.dtype(source.dtype)
    assert block.dtype.isnative
    np.testing.assert_array_equal(dense(block), expected[start:stop])
    if source.sparse:
        assert isinstance(block, sp.csr_array)
        assert block.indices.dtype == np.int32
        fresh = sp.csr_array((block.data, block.indices, block.indptr), shape=block.shape)
        assert fresh.has_canonical_format
    else:
        assert type(block) is np.ndarray
        assert block.flags.c_contiguous
        assert block.flags.aligned
        assert not block.flags.writeable or not len(block)


@pytest.mark.parametrize("form", FORMS)
@examples(30)
@given(ends=st.tuples(st.integers(0, ROWS), st.integers(0, ROWS)))
def test_every_form_gives_the_same_rows(sources: dict[str, VectorSource], form: str, ends: tuple[int, int]) -> None:
    assert_rows(sources[form], FORMS[form][0], *sorted(ends))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_what_it_is(sources: dict[str, VectorSource], form: str) -> None:
    source, expected = sources[form], FORMS[form][0]
    assert (source.rows, source.dimensions, source.dtype) == (ROWS, DIMENSIONS, expected.dtype.name)
    assert source.sparse == ("CSR" in form or form in ("CSC", "COO", "COO, uint8", "LIL", "npz"))
    if "CSR group, jumbled" not in form:
        assert source.entries == (np.count_nonzero(expected) if source.sparse else expected.size)
    assert source.bytes > 0
    assert source.on_disk == (form in FILES or form == "Zarr object on disk")
    assert len(source.fingerprint) == 64
    assert source.fingerprint == source.fingerprint
    assert source.reachable()
    if form in FILES:
        assert source.where(5).startswith("row 5 of ")
        assert source.name in source.where(5)
    elif not source.on_disk and form != "npz":
        assert source.where(5) == "row 5"
        assert source.name == "the vectors"


def test_rows_are_named_with_their_file(home: Path, sources: dict[str, VectorSource]) -> None:
    assert sources["npy"].where(17) == f"row 17 of {home}/a.npy"
    assert sources["npz"].where(17) == f"row 17 of {home}/s.npz"
    assert sources["folder of npy"].where(29) == f"row 29 of {home}/parts/part-0.npy"
    assert sources["folder of npy"].where(30) == f"row 0 of {home}/parts/part-2.npy"
    assert sources["folder of npy"].where(96) == f"row 65 of {home}/parts/part-3.npy"
    assert sources["folder of Parquet"].where(41) == f"row 0 of {home}/tables/part-3.parquet"


def test_rows_out_of_range_are_refused(sources: dict[str, VectorSource]) -> None:
    for start, stop in ((-1, 3), (4, 3), (0, ROWS + 1)):
        with pytest.raises(IndexError, match=f"rows {start} to {stop}"):
            sources["array"].read(start, stop)


def test_arrays_in_memory_are_not_copied() -> None:
    for array in (X, D, B):
        assert np.shares_memory(open_vectors(array).read(3, 9), array)
        assert array.flags.writeable
    matrix = sp.csr_array(S)
    assert np.shares_memory(open_vectors(matrix).read(3, 60).data, matrix.data)
    assert matrix.data.flags.writeable


def test_input_is_left_as_it_was() -> None:
    matrix = jumbled()
    before = [array.copy() for array in (matrix.data, matrix.indices, matrix.indptr)]
    open_vectors(matrix).read(0, ROWS)
    for array, old in zip((matrix.data, matrix.indices, matrix.indptr), before, strict=True):
        np.testing.assert_array_equal(array, old)


def test_several_threads_read_at_once(sources: dict[str, VectorSource]) -> None:
    ranges = [(name, *sorted(RNG.integers(0, ROWS + 1, 2).tolist())) for name in FORMS for _ in range(12)]
    with ThreadPoolExecutor(8) as pool:
        blocks = pool.map(lambda piece: dense(sources[piece[0]].read(*piece[1:])), ranges)
        for (name, start, stop), block in zip(ranges, blocks, strict=True):
            np.testing.assert_array_equal(block, FORMS[name][0][start:stop])


def test_another_process_reads_what_is_on_disk(home: Path, sources: dict[str, VectorSource], tmp_path: Path) -> None:
    """Opened by a relative path, and read by a process in another folder."""
    with mock.patch("os.getcwd", return_value=str(home)):
        near, zarr_near = open_vectors("a.npy"), open_vectors("a.zarr")
    names = [name for name, source in sources.items() if source.on_disk]
    (tmp_path / "sources").write_bytes(pickle.dumps([near, zarr_near, *(sources[name] for name in names)]))
    program = (
        "import hashlib, pickle, scipy.sparse as sp\n"
        "for source in pickle.load(open('sources', 'rb')):\n"
        "    block = source.read(11, 80)\n"
        "    block = block.toarray() if sp.issparse(block) else block\n"
        "    assert source.reachable()\n"
        "    print(hashlib.sha256(block.tobytes()).hexdigest(), source.fingerprint)\n"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    expected = [(X, near), (X, zarr_near), *((FORMS[name][0], sources[name]) for name in names)]
    assert result.stdout.splitlines() == [
        f"{sha256(array[11:80].tobytes()).hexdigest()} {source.fingerprint}" for array, source in expected
    ]


def test_pickled_sources_are_equal_to_themselves(sources: dict[str, VectorSource]) -> None:
    for source in sources.values():
        if source.on_disk:
            assert pickle.loads(pickle.dumps(source)) == source
            assert len(pickle.dumps(source)) < 3_000


# Object stores


PATHS = {
    "npy": "a.npy",
    "npy, big-endian": "be.npy",
    "folder of npy": "parts",
    "fvecs": "a.fvecs",
    "bvecs": "b.bvecs",
    "Zarr array, written": "w.zarr",
    "CSR group, written": "sw.zarr",
    "Parquet, lists": "l.parquet",
    "Parquet, columns": "c.parquet",
    "folder of Parquet": "tables",
    "npz": "s.npz",
}


def assert_far_rows(root: str) -> None:
    for name, path in PATHS.items():
        source = open_vectors(f"{root}/{path}")
        for start, stop in ((0, ROWS), (25, 45)):
            assert_rows(source, FORMS[name][0], start, stop)
        assert source.name == f"{root}/{path}"
        assert source.where(0).startswith(f"row 0 of {root}/{path}")
        assert source.reachable()
        if source.on_disk:
            assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.usefixtures("sources")
def test_files_in_memory_give_the_same_rows(home: Path, far: str) -> None:
    fsspec.filesystem("memory").put(f"{home}/", "/vectors/", recursive=True)
    assert_far_rows(far)


@pytest.mark.usefixtures("sources")
def test_files_on_an_object_store_give_the_same_rows(home: Path, object_store: ObjectStore) -> None:
    filesystem = object_store.filesystem
    for path in PATHS.values():
        filesystem.put(str(home / path), f"{BUCKET}/forms/{path}", recursive=(home / path).is_dir())
    assert_far_rows(object_store.url("forms"))


@pytest.mark.parametrize("ending", ["npy", "fvecs", "bvecs"])
def test_ranges_of_files_on_an_object_store_are_read(ending: str, object_store: ObjectStore, tmp_path: Path) -> None:
    dtype = np.uint8 if ending == "bvecs" else np.float32
    array = RNG.integers(0, 256, (20_000, 64)).astype(dtype)
    path = written(tmp_path / f"large.{ending}", array, 5_000)
    object_store.filesystem.put(path, f"{BUCKET}/large.{ending}")
    sizes: list[int] = []
    filesystem, _ = locate(object_store.url(""))
    real = filesystem.cat_file

    def counted(path: str, **options: Any) -> bytes:
        data: bytes = real(path, **options)
        sizes.append(len(data))
        return data

    with mock.patch.object(filesystem, "cat_file", counted):
        source = open_vectors(object_store.url(f"large.{ending}"))
        assert sizes == [2**16]
        sizes.clear()
        np.testing.assert_array_equal(source.read(7_000, 7_100), array[7_000:7_100])
    assert sizes == [100 * (64 * array.itemsize + 4 * (ending != "npy"))]


def test_an_object_store_without_the_bucket_is_explained(object_store: ObjectStore) -> None:
    with pytest.raises(InputError, match=r"s3://nobucket/x\.npy.* does not exist"):
        open_vectors("s3://nobucket/x.npy")
    with pytest.raises(InputError, match=f"{object_store.url('none.npy')} does not exist: give a file that ends in"):
        open_vectors(object_store.url("none.npy"))


# What is refused


def cut_short(path: str, left: int) -> str:
    data = Path(path).read_bytes()
    Path(path).write_bytes(data[:left])
    return path


def raw(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path)


def saved_with_names(path: Path) -> str:
    np.savez(path, X)
    return str(path)


def differing(folder: Path, other: NDArray[Any]) -> str:
    saved(folder / "a.npy", X)
    saved(folder / "b.npy", other)
    return str(folder)


def differing_tables(folder: Path, other: Any) -> str:
    parquet(folder / "a.parquet", {"v": lists(X)})
    parquet(folder / "b.parquet", other)
    return str(folder)


def mixed_folder(folder: Path) -> str:
    saved(folder / "a.npy", X)
    parquet(folder / "b.parquet", table(X))
    return str(folder)


def group_of(path: Path, **arrays: NDArray[Any]) -> str:
    group = zarr.create_group(str(path))
    for name, array in arrays.items():
        group.create_array(name, data=array)
    return str(path)


def ragged(row: Any, at: int = 40) -> Any:
    """Return lists, one of which is different."""
    values: list[Any] = X.tolist()
    values[at] = row
    return pa.array(values, pa.list_(pa.float32()))


Refused = tuple[Callable[[Path], Any], Any, tuple[str, ...]]

REFUSED: dict[str, Refused] = {
    "no path": (lambda _: "", None, ("vectors='' is not a path", ".fvecs")),
    "missing": (lambda f: f"{f}/none.npy", None, ("{f}/none.npy does not exist", ".fvecs", "Zarr array")),
    "unknown ending": (lambda f: raw(f / "a.h5", b"x"), None, ("{f}/a.h5 holds no vectors", ".npy, .fvecs")),
    "empty folder": (lambda f: raw(f / "d" / "x.txt", b"x")[:-6], None, ("{f}/d holds no vectors", "give a file")),
    "incomplete folder": (
        lambda f: raw(f / "d" / INCOMPLETE, b"")[: -len(INCOMPLETE) - 1],
        None,
        ("{f}/d is not complete", "delete it"),
    ),
    "two formats": (
        lambda f: mixed_folder(f / "d"),
        None,
        ("{f}/d holds both Parquet", "use a separate folder for each"),
    ),
    "columns of npy": (lambda f: saved(f / "a.npy", X), ["x"], ("{f}/a.npy", "columns=", "leave it out")),
    "columns of an array": (lambda _: X, ["x"], ("the vectors", "columns=", "leave it out")),
    "npy, no header": (lambda f: raw(f / "a.npy", b"nothing"), None, ("{f}/a.npy cannot be read", "numpy.save")),
    "npy, nothing": (lambda f: raw(f / "a.npy", b""), None, ("{f}/a.npy cannot be read", "numpy.save")),
    "npy, cut short": (
        lambda f: cut_short(saved(f / "a.npy", X), 128 + 10 * 28 + 3),
        None,
        ("{f}/a.npy is 411 bytes, not 2844", "97 vectors", "10 whole ones", "copy or write it again"),
    ),
    "npy, Fortran order": (
        lambda f: saved(f / "a.npy", np.asfortranarray(X)),
        None,
        ("{f}/a.npy is in Fortran order", "ascontiguousarray"),
    ),
    "npy, int64": (
        lambda f: saved(f / "a.npy", np.ones((3, 2), np.int64)),
        None,
        ("the values of {f}/a.npy are int64", "not uint8, float32 or float64: "),
    ),
    "npy, objects": (
        lambda f: saved(f / "a.npy", np.array([[None, "x"]])),
        None,
        ("the values of {f}/a.npy are object", "not uint8, float32 or float64: "),
    ),
    "npy, fields": (
        lambda f: saved(f / "a.npy", np.zeros((2, 2), [("a", "f4")])),
        None,
        ("the values of {f}/a.npy are void", "not uint8, float32 or float64: "),
    ),
    "npy, 1 dimension": (
        lambda f: saved(f / "a.npy", X[0]),
        None,
        ("the shape of {f}/a.npy is (7,)", "reshape(-1, 1)"),
    ),
    "npy, 3 dimensions": (
        lambda f: saved(f / "a.npy", X[None]),
        None,
        ("the shape of {f}/a.npy is (1, 97, 7)", "reshape(rows, -1)"),
    ),
    "npy, no rows": (
        lambda f: saved(f / "a.npy", X[:0]),
        None,
        ("there are no rows in {f}/a.npy", "one vector or more"),
    ),
    "npy, no values": (
        lambda f: saved(f / "a.npy", X[:, :0]),
        None,
        ("there are no values in the 97 rows of {f}/a.npy",),
    ),
    "npy folder, dimensions": (
        lambda f: differing(f / "d", X[:, :3]),
        None,
        ("{f}/d/b.npy has 3 dimensions, {f}/d/a.npy 7",),
    ),
    "npy folder, dtypes": (
        lambda f: differing(f / "d", D),
        None,
        ("{f}/d/b.npy is float64, {f}/d/a.npy float32", "astype"),
    ),
    "fvecs, nothing": (lambda f: raw(f / "a.fvecs", b""), None, ("{f}/a.fvecs is empty", "one vector or more")),
    "fvecs, no count": (
        lambda f: raw(f / "a.fvecs", b"\0\0\0\0x"),
        None,
        ("{f}/a.fvecs is not a .fvecs file", "int32"),
    ),
    "fvecs, two bytes": (lambda f: raw(f / "a.fvecs", b"\1\0"), None, ("{f}/a.fvecs is not a .fvecs file",)),
    "fvecs, cut short": (
        lambda f: cut_short(by_hand(f / "a.fvecs", X), 10 * 32 + 5),
        None,
        ("{f}/a.fvecs is cut short", "10 whole vectors of 7 values and 5 extra bytes", "cut it to 320 bytes"),
    ),
    "bvecs, cut short": (
        lambda f: cut_short(by_hand(f / "a.bvecs", B), 10 * 11 + 5),
        None,
        ("{f}/a.bvecs is cut short", "10 whole vectors of 7 values and 5 extra bytes", "cut it to 110 bytes"),
    ),
    "Zarr, int64": (
        lambda f: zarr_array(f / "z", np.ones((9, 9), int)),
        None,
        ("the values of {f}/z are int64", "not uint8, float32 or float64: "),
    ),
    "Zarr, 1 dimension": (
        lambda f: zarr_array(f / "z", X[0], (3,)),
        None,
        ("the shape of {f}/z is (7,)", "reshape(-1, 1)"),
    ),
    "Zarr, damaged": (
        lambda f: raw(f / "z" / "zarr.json", b"{")[:-10],
        None,
        ("{f}/z cannot be read as Zarr", "write it again"),
    ),
    "Zarr group of something": (
        lambda f: group_of(f / "z", X=X, obs=D),
        None,
        ("{f}/z is a Zarr group of X, obs", "give the path of the array"),
    ),
    "CSR, CSC": (
        lambda f: csr_group(f / "z", sp.csr_array(S), **{"encoding-type": "csc_matrix"}),
        None,
        ("{f}/z is a csc_matrix", "tocsr()"),
    ),
    "CSR, no shape": (
        lambda f: group_of(f / "z", data=X[0], indices=np.arange(7), indptr=np.array([0, 7])),
        None,
        ("{f}/z has no shape", "attribute 'shape'"),
    ),
    "CSR, other shape": (
        lambda f: csr_group(f / "z", sp.csr_array(S), [5, 7]),
        None,
        ("{f}/z do not fit its shape [5, 7]", "98 items, not 6", "write it again"),
    ),
    "CSR, no rows": (lambda f: csr_group(f / "z", sp.csr_array(S), [0, 7]), None, ("there are no rows in {f}/z",)),
    "CSR, int64": (
        lambda f: csr_group(f / "z", sp.csr_array(S).astype(np.int64)),
        None,
        ("the values of array 'data' of {f}/z are int64", "not uint8, float32 or float64: "),
    ),
    "CSR, float indices": (
        lambda f: group_of(f / "z", data=X[0], indices=X[0], indptr=np.array([0, 7])) and _with_shape(f / "z"),
        None,
        ("array 'indices' of {f}/z is 1-dimensional float32", "of integers"),
    ),
    "npz of numpy": (
        lambda f: saved_with_names(f / "a.npz"),
        None,
        ("{f}/a.npz cannot be read as .npz of scipy", "save_npz"),
    ),
    "npz, damaged": (
        lambda f: raw(f / "a.npz", b"PK"),
        None,
        ("{f}/a.npz cannot be read as .npz of scipy", "save_npz"),
    ),
    "npz, int64": (
        lambda f: npz(f / "a.npz", sp.csr_array(S).astype(np.int64)),
        None,
        ("the values of {f}/a.npz are int64", "not uint8, float32 or float64: "),
    ),
    "Parquet, damaged": (
        lambda f: raw(f / "a.parquet", b"PAR1"),
        None,
        ("{f}/a.parquet cannot be read", "write it again"),
    ),
    "Parquet, ids": (
        lambda f: parquet(f / "a.parquet", {"id": np.arange(ROWS), **table(X)}),
        None,
        ("columns of {f}/a.parquet are the vectors", "id (int64), x0 (float)", "columns="),
    ),
    "Parquet, two lists": (
        lambda f: parquet(f / "a.parquet", {"u": lists(X), "v": lists(X)}),
        None,
        ("columns of {f}/a.parquet are the vectors", "u (list<element: float>)", "columns="),
    ),
    "Parquet, list and number": (
        lambda f: parquet(f / "a.parquet", {"u": lists(X), "score": D[:, 0]}),
        None,
        ("columns of {f}/a.parquet are the vectors", "score (double)", "columns="),
    ),
    "Parquet, no such column": (
        lambda f: parquet(f / "a.parquet", table(X)),
        ["x0", "y"],
        ("{f}/a.parquet has no column 'y'", "x0, x1", "columns="),
    ),
    "Parquet, integers": (
        lambda f: parquet(f / "a.parquet", {"id": np.arange(ROWS), **table(X)}),
        ["x0", "id"],
        ("column 'id' of {f}/a.parquet is int64", "cast it to float32"),
    ),
    "Parquet, lists of strings": (
        lambda f: parquet(f / "a.parquet", {"v": [["x"]]}),
        "v",
        ("column 'v' of {f}/a.parquet is list<element: string>", "cast it to float32"),
    ),
    "Parquet, list and column": (
        lambda f: parquet(f / "a.parquet", {"u": lists(X), "v": D[:, 0]}),
        ["u", "v"],
        ("columns u, v of {f}/a.parquet are lists and numbers", "choose one column of lists"),
    ),
    "Parquet, no column chosen": (
        lambda f: parquet(f / "a.parquet", table(X)),
        [],
        ("there are no values in the 97 rows of {f}/a.parquet",),
    ),
    "Parquet, no rows": (
        lambda f: parquet(f / "a.parquet", table(X[:0])),
        None,
        ("there are no rows in {f}/a.parquet",),
    ),
    "Parquet, no lists": (
        lambda f: parquet(f / "a.parquet", {"v": lists(X[:0])}),
        None,
        ("there are no rows in {f}/a.parquet",),
    ),
    "Parquet, empty lists": (
        lambda f: parquet(f / "a.parquet", {"v": pa.array([[], []], pa.list_(pa.float32()))}),
        None,
        ("there are no values in the 2 rows of {f}/a.parquet",),
    ),
    "Parquet, first list null": (
        lambda f: parquet(f / "a.parquet", {"v": ragged(None, 0)}),
        None,
        ("column 'v' is null in row 0 of {f}/a.parquet", "drop or fill"),
    ),
    "Parquet, a longer list": (
        lambda f: parquet(f / "a.parquet", {"v": ragged([1.0] * 9)}),
        None,
        ("column 'v' has 9 values in row 40 of {f}/a.parquet", "the first row has 7"),
    ),
    "Parquet, a null list": (
        lambda f: parquet(f / "a.parquet", {"v": ragged(None)}),
        None,
        ("column 'v' is null in row 40 of {f}/a.parquet", "drop or fill"),
    ),
    "Parquet folder, lengths": (
        lambda f: differing_tables(f / "d", {"v": lists(X[:, :3])}),
        None,
        ("column 'v' has 3 values in row 0 of {f}/d/b.parquet", "the first row has 7"),
    ),
    "Parquet folder, columns": (
        lambda f: differing_tables(f / "d", {"w": lists(X)}),
        None,
        ("{f}/d/b.parquet has no column 'v'", "it has w"),
    ),
    "Parquet folder, lists and numbers": (
        lambda f: differing_tables(f / "d", {"v": X[:, 0]}),
        None,
        ("columns v of {f}/d are lists and numbers",),
    ),
    "array, int64": (
        lambda _: [[1, 2]],
        None,
        ("the values of the vectors are int64", "not uint8, float32 or float64: "),
    ),
    "array, float16": (lambda _: X.astype(np.float16), None, ("are float16", "not uint8, float32 or float64: ")),
    "array, bool": (lambda _: X > 0, None, ("are bool", "not uint8, float32 or float64: ")),
    "array, complex": (lambda _: X.astype(complex), None, ("are complex128", "not uint8, float32 or float64: ")),
    "array, strings": (lambda _: [["a", "b"]], None, ("are str", "not uint8, float32 or float64: ")),
    "array, 1 dimension": (lambda _: X[0], None, ("the shape of the vectors is (7,)", "reshape(-1, 1)")),
    "array, number": (lambda _: np.float32(3), None, ("the shape of the vectors is ()",)),
    "array, no rows": (lambda _: X[:0], None, ("there are no rows in the vectors",)),
    "lists of different lengths": (
        lambda _: [[1.0], [1.0, 2.0]],
        None,
        ("not an array of numbers", "rows of equal length"),
    ),
    "masked": (
        lambda _: np.ma.masked_array(X, np.arange(X.size).reshape(X.shape) == 17),
        None,
        ("masked in 1 places, first in row 2", "drop or fill"),
    ),
    "matrix, int64": (
        lambda _: sp.csr_array(S).astype(int),
        None,
        ("the values of the vectors are int64", "not uint8, float32 or float64: "),
    ),
    "matrix, 1 dimension": (lambda _: sp.coo_array(S[0]), None, ("the shape of the vectors is (7,)", "reshape(-1, 1)")),
    "matrix, too much for a byte": (
        lambda _: sp.coo_array((np.array([200, 100], np.uint8), ([0, 0], [1, 1])), shape=(2, 2)),
        None,
        ("duplicate entries in the vectors add up to 300", 'use astype("float32")'),
    ),
    "rows, too much for a byte": (
        lambda _: sp.csr_array((np.array([200, 100], np.uint8), [1, 1], [0, 2]), shape=(1, 2)),
        None,
        ("duplicate entries in the vectors add up to 300", 'use astype("float32")'),
    ),
    "frame, integers": (
        lambda _: pd.DataFrame({"id": [1, 2], "x": [0.5, 0.5]}),
        None,
        ("the values of column 'id' of the vectors are int64", "not uint8, float32 or float64: ", "columns="),
    ),
    "frame, nulls": (
        lambda _: pd.DataFrame({"x": pd.array([0.5, None], "Float64")}),
        None,
        ("column 'x' is null in row 1", "drop or fill"),
    ),
    "frame, no such column": (lambda _: pd.DataFrame(table(X)), ["y"], ("no column 'y'", "x0, x1")),
    "Dask DataFrame": (
        lambda _: dd.from_pandas(pd.DataFrame(table(X))),
        None,
        ("Dask vectors must be an array", "to_dask_array"),
    ),
}


def _with_shape(path: Path) -> str:
    zarr.open_group(str(path)).attrs["shape"] = [1, 7]
    return str(path)


@pytest.mark.parametrize("fault", REFUSED)
def test_what_cannot_be_right_is_refused_when_it_is_opened(fault: str, tmp_path: Path) -> None:
    make, columns, fragments = REFUSED[fault]
    made = make(tmp_path)
    with pytest.raises(InputError) as caught:
        open_vectors(made, columns)
    for fragment in fragments:
        assert fragment.replace("{f}", str(tmp_path)) in str(caught.value)


def fault_in_counts(path: Path, array: NDArray[Any]) -> str:
    """Write a file of the right size in which one row has a wrong count."""
    by_hand(path, array)
    data, record = bytearray(path.read_bytes()), 4 + DIMENSIONS * array.itemsize
    data[50 * record : 50 * record + 4] = struct.pack("<i", 5)
    path.write_bytes(data)
    return str(path)


def fault_in_matrix(path: Path, name: str, at: int, value: int) -> str:
    csr_group(path, sp.csr_array(S))
    array = zarr.open_array(str(path / name))
    array[at] = value
    return str(path)


def nulls(row: int, dimension: int) -> Any:
    values: list[Any] = X.tolist()
    values[row][dimension] = None
    return values


FOUND_LATER: dict[str, tuple[Callable[[Path], str], tuple[str, ...]]] = {
    "fvecs": (
        lambda f: fault_in_counts(f / "a.fvecs", X),
        ("row 50 of {f}/a.fvecs claims to have 5 values, row 0 has 7", "write it again"),
    ),
    "bvecs": (
        lambda f: fault_in_counts(f / "a.bvecs", B),
        ("row 50 of {f}/a.bvecs claims to have 5 values, row 0 has 7", "write it again"),
    ),
    "indptr goes back": (
        lambda f: fault_in_matrix(f / "z", "indptr", 51, 0),
        ("array 'indptr' of {f}/z is wrong at row 50", "write the matrix again"),
    ),
    "indptr beyond the end": (
        lambda f: fault_in_matrix(f / "z", "indptr", 97, 10**6),
        ("array 'indptr' of {f}/z is wrong at row 96", "write the matrix again"),
    ),
    "a column beyond the last": (
        lambda f: fault_in_matrix(f / "z", "indices", int(sp.csr_array(S).indptr[51]) - 1, 7),
        (f"row {int(np.flatnonzero(np.diff(sp.csr_array(S).indptr[:52]))[-1])} of {{f}}/z has a value in column 7",),
    ),
    "null in a list": (
        lambda f: parquet(f / "a.parquet", {"v": pa.array(nulls(50, 3), pa.list_(pa.float32()))}),
        ("column 'v' is null in part in row 50 of {f}/a.parquet", "drop or fill"),
    ),
    "null in a column": (
        lambda f: parquet(f / "a.parquet", {"x": lists(X).values.slice(0, 97), "y": [*X[:50, 0], None, *X[51:, 0]]}),
        ("column 'y' is null in row 50 of {f}/a.parquet", "drop or fill"),
    ),
    "null in a fixed list": (
        lambda f: parquet(f / "a.parquet", {"v": pa.array(nulls(50, 6), pa.list_(pa.float32(), DIMENSIONS))}),
        ("column 'v' is null in part in row 50 of {f}/a.parquet", "drop or fill"),
    ),
}


@pytest.mark.parametrize("fault", FOUND_LATER)
def test_what_is_wrong_in_a_row_is_found_when_it_is_read(fault: str, tmp_path: Path) -> None:
    make, fragments = FOUND_LATER[fault]
    source = open_vectors(make(tmp_path))
    source.read(0, 40)
    with pytest.raises(InputError) as caught:
        source.read(40, ROWS)
    for fragment in fragments:
        assert fragment.replace("{f}", str(tmp_path)) in str(caught.value)


def test_long_row_groups_are_read_in_batches(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", {"v": lists(X)}, 50)
    source: Any = open_vectors(path)
    source = replace(source, batch_values=DIMENSIONS * 8)
    for start, stop in ((0, ROWS), (0, 5), (20, 24), (45, 60), (96, 97)):
        assert_rows(source, X, start, stop)


def test_rows_that_are_not_there_are_refused(tmp_path: Path) -> None:
    source = open_vectors(parquet(tmp_path / "a.parquet", {"v": lists(X)}))
    with (
        mock.patch.object(pq.ParquetFile, "iter_batches", return_value=iter(())),
        pytest.raises(InputError, match=r"a\.parquet ends at row 13, before row 15: write it again"),
    ):
        source.read(14, 16)


def test_damage_in_parquet_is_refused(tmp_path: Path) -> None:
    path = Path(parquet(tmp_path / "a.parquet", {"v": lists(X)}))
    data = path.read_bytes()
    path.write_bytes(data[:4] + bytes(200) + data[204:])
    with pytest.raises(InputError, match=r"(?s)a\.parquet cannot be read: .*write it again"):
        open_vectors(path)


def test_columns_choose_columns(tmp_path: Path) -> None:
    path = parquet(tmp_path / "a.parquet", {"id": np.arange(ROWS), **table(X), "v": lists(D)})
    chosen = open_vectors(path, ["x3", "x0"])
    np.testing.assert_array_equal(chosen.read(5, 60), X[5:60, [3, 0]])
    np.testing.assert_array_equal(open_vectors(path, "v").read(5, 60), D[5:60])
    frame = pd.DataFrame({"id": np.arange(ROWS), **table(X)})
    np.testing.assert_array_equal(open_vectors(frame, ["x3", "x0"]).read(5, 60), X[5:60, [3, 0]])


def test_the_widest_dtype_holds_all_columns(tmp_path: Path) -> None:
    tables: list[tuple[dict[str, Any], str]] = [
        ({"a": B[:, 0], "b": X[:, 1]}, "float32"),
        ({"a": B[:, 0], "b": X[:, 1], "c": D[:, 2]}, "float64"),
        ({"a": B[:, 0], "b": B[:, 1]}, "uint8"),
    ]
    for columns, dtype in tables:
        path = parquet(tmp_path / f"{dtype}.parquet", columns)
        for source in (open_vectors(path), open_vectors(pd.DataFrame(columns))):
            assert source.dtype == dtype
            np.testing.assert_array_equal(source.read(0, ROWS), np.column_stack(tuple(columns.values())))


def test_files_that_may_not_be_read_are_refused(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.npy", X)
    with (
        mock.patch.object(LocalFileSystem, "cat_file", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(InputError, match=r"a\.npy cannot be used \(Permission denied\): check who may read"),
    ):
        open_vectors(path)


def test_matrices_that_may_not_be_read_are_refused(far: str) -> None:
    with fsspec.open(f"{far}/s.npz", "wb") as file:
        sp.save_npz(file, sp.csr_array(S))
    with (
        mock.patch.object(MemoryFileSystem, "open", side_effect=PermissionError(13, "Permission denied")),
        pytest.raises(InputError, match=r"s\.npz: access is denied"),
    ):
        open_vectors(f"{far}/s.npz")


def test_credentials_in_urls_are_refused() -> None:
    with pytest.raises(InputError, match="contains credentials") as caught:
        open_vectors("s3://key:secret@bucket/a.npy")
    assert "secret" not in str(caught.value)


# Files that change


@pytest.mark.parametrize("form", ["npy", "fvecs", "folder of npy", "Zarr array", "CSR group", "Parquet, lists"])
def test_files_that_are_gone_or_others_are_noticed(form: str, tmp_path: Path) -> None:
    path = Path(FILES[form][1](tmp_path / "one" if form.startswith("folder") else tmp_path))
    source = open_vectors(path)
    assert source.reachable()
    last = path if path.is_file() else max(file for file in path.rglob("*") if file.is_file() and file.suffix != ".txt")
    data = last.read_bytes()
    last.write_bytes(data + b"x")
    assert not source.reachable()
    last.write_bytes(data)
    path.rename(tmp_path / "elsewhere")
    assert not source.reachable()
    with pytest.raises(InputError, match="no longer exists: restore it"):
        source.read(0, ROWS)


def test_files_that_were_cut_short_are_refused_when_read(tmp_path: Path, far: str) -> None:
    path = saved(tmp_path / "a.npy", X)
    source = open_vectors(path)
    cut_short(path, 500)
    with pytest.raises(InputError, match=r"a\.npy cannot be read: .*write it again"):
        source.read(0, ROWS)
    with fsspec.open(f"{far}/a.npy", "wb") as file:
        np.save(file, X)
    distant = open_vectors(f"{far}/a.npy")
    fsspec.filesystem("memory").pipe("/vectors/a.npy", b"short")
    with pytest.raises(InputError, match=r"a\.npy cannot be read: .*write it again"):
        distant.read(0, ROWS)


def test_chunks_that_are_gone_are_not_taken_for_zeros(tmp_path: Path) -> None:
    zeros = np.zeros((ROWS, DIMENSIONS), np.float32)
    for path in (written(tmp_path / "a.zarr", zeros), written(tmp_path / "s.zarr", sp.csr_array(S))):
        source = open_vectors(path)
        source.read(0, ROWS)
        chunk = next(file for file in sorted(Path(path).rglob("c/**/0")) if file.is_file())
        chunk.unlink()
        with pytest.raises(InputError, match=r"zarr no longer exists: restore it; chunk .*c/0.* is missing"):
            source.read(0, ROWS)


def test_chunks_that_zarr_leaves_out_are_refused_as_they_could_be_lost(tmp_path: Path) -> None:
    array = X.copy()
    array[10:50] = 0
    with pytest.raises(InputError, match=r"chunk c/1/0 of .*a.zarr is missing, of 20 chunks: .*write_empty_chunks"):
        open_vectors(zarr_array(tmp_path / "a.zarr", array))
    with zarr.config.set({"array.write_empty_chunks": True}):
        assert_rows(open_vectors(zarr_array(tmp_path / "b.zarr", array)), array)


def test_damaged_chunks_are_refused(tmp_path: Path) -> None:
    for path in (
        written(tmp_path / "a.zarr", X),
        written(tmp_path / "s.zarr", sp.csr_array(S)),
        zarr_array(tmp_path / "compressed.zarr", X),
    ):
        source = open_vectors(path)
        for chunk in Path(path).rglob("c/**/0"):
            if chunk.is_file():
                data = bytearray(chunk.read_bytes())
                data[-5] ^= 64
                chunk.write_bytes(data)
        with pytest.raises(InputError, match=r"\.zarr cannot be read: .*; write it again"):
            source.read(0, ROWS)


def test_fingerprints_distinguish_vectors(tmp_path: Path) -> None:
    other = X.copy()
    other[90, 3] += 1
    arrays = [X, other, X[:, :6], X[:90], D, B, sp.csr_array(S), sp.csr_array(X), sp.csr_array(other)]
    assert len({open_vectors(array).fingerprint for array in arrays}) == len(arrays)
    for same in (np.asfortranarray(X), X.astype(">f4"), pd.DataFrame(table(X)), zarr.array(X, chunks=(10, 4))):
        assert open_vectors(same).fingerprint == open_vectors(X).fingerprint
    for matrix in (jumbled(), sp.coo_array(S), sp.csc_matrix(S)):
        assert open_vectors(matrix).fingerprint == open_vectors(sp.csr_array(S)).fingerprint
    paths = [saved(tmp_path / "a.npy", X), saved(tmp_path / "b.npy", other), by_hand(tmp_path / "a.fvecs", X)]
    assert len({open_vectors(path).fingerprint for path in paths}) == 3
    path = parquet(tmp_path / "a.parquet", table(X))
    assert open_vectors(path, ["x0", "x1"]).fingerprint != open_vectors(path, ["x1", "x0"]).fingerprint
    before = open_vectors(npz(tmp_path / "s.npz", sp.csr_array(S))).fingerprint
    assert open_vectors(tmp_path / "s.npz").fingerprint == before
    assert open_vectors(npz(tmp_path / "t.npz", sp.csr_array(X))).fingerprint != before


# Spooled vectors


@pytest.mark.parametrize("form", ["array", "uint8", "big-endian", "CSR, jumbled", "npz", "Zarr object in memory"])
@pytest.mark.parametrize("distant", [False, True])
def test_spooled_vectors_are_read_from_disk(
    sources: dict[str, VectorSource], form: str, distant: bool, tmp_path: Path, far: str
) -> None:
    folder = Folder(far if distant else tmp_path / "store")
    source = sources[form]
    folder.write("input/part-99999999.npy", b"left of a run that was killed")
    sizes = SpoolSizes(block_bytes=source.bytes // 4)
    spooled = pickle.loads(pickle.dumps(spool_vectors(source, folder, "input", sizes)))
    assert spooled.on_disk
    assert spooled.reachable()
    assert spooled.where(17) == source.where(17)
    assert (spooled.rows, spooled.entries, spooled.dtype) == (source.rows, source.entries, source.dtype)
    for start, stop in ((0, ROWS), (20, 30), (5, 90)):
        assert_rows(spooled, FORMS[form][0], start, stop)


def test_vectors_are_spooled_to_an_object_store(sources: dict[str, VectorSource], object_store: ObjectStore) -> None:
    folder = Folder(object_store.url("spool"))
    for form in ("array", "CSR"):
        assert_rows(spool_vectors(sources[form], folder, form), FORMS[form][0])


# Dask arrays


def test_blocks_of_a_dask_array_become_one_source(tmp_path: Path, far: str) -> None:
    array = da.from_array(X, chunks=((30, 0, 60, 7), (4, 3)))
    assert is_dask_array(array)
    rows = whole_rows(array)
    assert rows.chunks == ((30, 0, 60, 7), (7,))
    for root in (tmp_path, far):
        folder = Folder(root)
        blocks = rows.to_delayed().ravel()
        tasks = [delayed(write_part)(block, folder, "input", number) for number, block in enumerate(blocks)]
        delayed(tasks).compute(scheduler="threads", num_workers=3)
        write_part(X[:30], folder, "input", 0)  # a task that ran twice
        source = open_parts(folder, "input")
        assert source.where(35) == "row 35"
        for start, stop in ((0, ROWS), (25, 95), (30, 31)):
            assert_rows(source, X, start, stop)


def test_whole_rows_stay_what_they_are() -> None:
    array = da.from_array(X.astype(">f4"), chunks=(10, -1))
    assert whole_rows(array) is array


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (lambda: da.from_array(X)[da.from_array(X)[:, 0] > 0], r"unknown size: call compute_chunk_sizes\(\) first"),
        (lambda: da.from_array(X[0]), r"is \(7,\).*reshape\(-1, 1\)"),
        (lambda: da.from_array(X[None]), r"is \(1, 97, 7\)"),
        (lambda: da.from_array(X[:0]), "there are no rows"),
        (lambda: da.from_array(X).astype(int), r'are int64.*astype\("float64"\)'),
        (lambda: da.from_array(X).map_blocks(sp.csr_array, meta=sp.csr_array((0, 0), dtype="f4")), "sparse blocks"),
    ],
)
def test_dask_arrays_that_cannot_be_used_are_refused(array: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        whole_rows(array())


def test_other_things_are_no_dask_arrays() -> None:
    for other in (X, "a.npy", pd.DataFrame(table(X)), delayed(X), sp.csr_array(S)):
        assert not is_dask_array(other)


def test_parts_that_are_missing_or_wrong_are_refused(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with pytest.raises(InputError, match="input holds no parts"):
        open_parts(folder, "input")
    with pytest.raises(InputError, match="part 3 of the vectors are int64"):
        write_part(np.ones((2, 2), int), folder, "input", 3)
    write_part(X, folder, "input", 0)
    write_part(X[:, :2], folder, "input", 1)
    with pytest.raises(InputError, match=r"part-00000001\.npy has 2 dimensions"):
        open_parts(folder, "input")


# New files


def tree(path: Path) -> dict[str, bytes]:
    """Return the contents of a file, or of all files below a folder."""
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.mark.parametrize(
    ("ending", "array"),
    [
        ("npy", X),
        ("npy", D),
        ("npy", B),
        ("fvecs", X),
        ("bvecs", B),
        ("zarr", X),
        ("zarr", B),
        ("zarr", sp.csr_array(S)),
        ("zarr", sp.csr_array(B)),
    ],
)
def test_equal_vectors_give_equal_files(ending: str, array: Any, tmp_path: Path) -> None:
    sizes = ZarrSizes(chunk_items=64, flush_chunks=3)
    files = [written(tmp_path / f"{step}.{ending}", array, step, sizes) for step in (1, 10, ROWS)]
    assert tree(Path(files[0])) == tree(Path(files[1])) == tree(Path(files[2]))
    source = open_vectors(files[0])
    assert_rows(source, dense(array))
    assert source.sparse == sp.issparse(array)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(Path(file).name for file in files)


def test_others_read_what_is_written(tmp_path: Path) -> None:
    np.testing.assert_array_equal(np.load(written(tmp_path / "a.npy", X)), X)
    np.testing.assert_array_equal(np.asarray(zarr.open_array(written(tmp_path / "a.zarr", X))[:]), X)
    assert Path(written(tmp_path / "a.fvecs", X)).read_bytes() == Path(by_hand(tmp_path / "h.fvecs", X)).read_bytes()
    assert Path(written(tmp_path / "b.bvecs", B)).read_bytes() == Path(by_hand(tmp_path / "h.bvecs", B)).read_bytes()
    group = zarr.open_group(written(tmp_path / "s.zarr", sp.csr_array(S)), mode="r")
    arrays = [np.asarray(zarr.open_array(tmp_path / "s.zarr" / name)[:]) for name in ("data", "indices", "indptr")]
    assert [array.dtype.name for array in arrays] == ["float32", "int32", "int64"]
    assert dict(group.attrs) == {
        "encoding-type": "csr_matrix",
        "encoding-version": "0.1.0",
        "shape": [ROWS, DIMENSIONS],
    }
    np.testing.assert_array_equal(sp.csr_array(tuple(arrays), shape=(ROWS, DIMENSIONS)).toarray(), S)


def test_matrices_without_a_value_are_written_and_read(tmp_path: Path) -> None:
    empty = sp.csr_array((ROWS, DIMENSIONS), dtype=np.float32)
    for source in (
        open_vectors(empty),
        open_vectors(written(tmp_path / "a.zarr", empty)),
        spool_vectors(open_vectors(empty), Folder(tmp_path), "spool"),
    ):
        assert source.entries == 0
        assert_rows(source, np.zeros((ROWS, DIMENSIONS), np.float32), 5, 50)


def test_blocks_may_be_made_in_the_same_memory(tmp_path: Path) -> None:
    room = np.empty((10, DIMENSIONS), np.float32)

    def blocks() -> Iterator[NDArray[Any]]:
        for block in cut(X, 10):
            room[: len(block)] = block
            yield room[: len(block)]

    for ending in ("npy", "fvecs", "zarr"):
        write_vectors(tmp_path / f"a.{ending}", blocks(), ROWS, DIMENSIONS, "float32")
        assert_rows(open_vectors(tmp_path / f"a.{ending}"), X)


def test_zarr_is_written_to_object_stores(far: str) -> None:
    for name, array in (("dense.zarr", X), ("sparse.zarr", sp.csr_array(S))):
        write_vectors(f"{far}/{name}", cut(array), ROWS, DIMENSIONS, "float32")
        assert_rows(open_vectors(f"{far}/{name}"), dense(array))


@pytest.mark.parametrize(
    ("name", "blocks", "dtype", "message"),
    [
        ("taken.npy", [X], "float32", r"taken\.npy exists and is never overwritten"),
        ("a.csv", [X], "float32", r"a\.csv has an unknown ending: it must be one of \.npy, \.fvecs"),
        ("a.npy", [X], "int64", r"a\.npy are int64"),
        ("a.fvecs", [D], "float64", r"a\.fvecs cannot hold float64: \.fvecs files are float32"),
        ("a.npy", [X], "float64", r"a block of .*a\.npy is float32 of shape \(97, 7\), not float64 of 7"),
        ("a.npy", [X[:, :3]], "float32", r"is float32 of shape \(97, 3\), not float32 of 7 dimensions"),
        ("a.npy", [X[:90]], "float32", "hold 90 rows, not 97"),
        ("a.zarr", [X, X], "float32", "hold 194 rows, not 97"),
        ("a.zarr", [], "float32", "hold 0 rows, not 97"),
        ("a.npy", [sp.csr_array(X)], "float32", r"cannot hold sparse rows: choose a name that ends in \.zarr"),
        ("a.zarr", [X[:50], sp.csr_array(X[50:])], "float32", "partly sparse"),
    ],
)
def test_what_cannot_be_written_is_refused(
    name: str, blocks: list[Any], dtype: str, message: str, tmp_path: Path
) -> None:
    (tmp_path / "taken.npy").touch()
    with pytest.raises(InputError, match=message):
        write_vectors(tmp_path / name, blocks, ROWS, DIMENSIONS, dtype)
    assert [path.name for path in tmp_path.iterdir()] == ["taken.npy"]


def test_flat_files_are_written_to_local_disks_only(far: str) -> None:
    with pytest.raises(
        InputError, match=r"a\.npy is not on a local disk: write it to one and copy it, or write a \.zarr"
    ):
        write_vectors(f"{far}/a.npy", [X], ROWS, DIMENSIONS, "float32")
    assert not fsspec.filesystem("memory").exists("/vectors/a.npy")
