"""Small inputs of every format, read by the package and, independently, by the libraries that wrote them."""

from __future__ import annotations

import csv
import gzip
import re
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
import zarr
from numpy.typing import NDArray

import dask_rac
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.tasks import machine
from dask_rac.vectors.sources.opening import open_vectors, write_vectors
from tests.support.graphs import random_edges

MEMORY = 2 * 10**8  # bytes: an input whose largest id was changed to a billion must be refused
NODES, EDGES, ROWS, DIMENSIONS = 14, 40, 23, 3


def write_edges(folder: Path) -> None:
    """Write edges in all formats that `cluster` reads."""
    columns = random_edges(NODES, EDGES, 3)
    frame = pd.DataFrame(dict(zip(EDGE_COLUMNS, columns, strict=True))).drop_duplicates(list(EDGE_COLUMNS[:2]))
    frame.to_parquet(folder / "plain.parquet", index=False, row_group_size=15)
    (folder / "many").mkdir()
    for number in range(3):
        frame.iloc[number::3].to_parquet(folder / f"many/{number}.parquet", index=False, write_page_checksum=True)
    frame.to_csv(folder / "given.csv", index=False)
    dask_rac.ingest(folder / "given.csv", folder / "ours", progress=False)
    (folder / "given.csv").unlink()
    layouts: dict[str, dict[str, Any]] = {
        "three": {"chunks": (16,)},
        "shards": {"chunks": (8,), "shards": (24,)},
        "bare": {"chunks": (64,), "compressors": None},
        "two": {"chunks": (16,), "zarr_format": 2},
    }
    for name, layout in layouts.items():
        with zarr.config.set({"array.write_empty_chunks": True}):
            group = zarr.create_group(folder / f"{name}.zarr", zarr_format=layout.get("zarr_format", 3))
            for column in EDGE_COLUMNS:
                group.create_array(
                    column,
                    data=frame[column].to_numpy(),
                    **{key: value for key, value in layout.items() if key != "zarr_format"},
                )


def write_texts(folder: Path) -> None:
    """Write edges in all formats that `ingest` reads."""
    columns = random_edges(NODES, EDGES, 4)
    frame = pd.DataFrame(dict(zip(EDGE_COLUMNS, columns, strict=True)))
    frame["remark"] = "a remark"
    frame.to_csv(folder / "edges.csv", index=False)
    frame.to_csv(folder / "edges.tsv", index=False, sep="\t", lineterminator="\r\n")
    frame.drop(columns="remark").to_csv(folder / "edges.txt", index=False, sep=" ")
    frame.to_csv(folder / "edges.csv.gz", index=False)
    frame.to_parquet(folder / "edges.parquet", index=False)


def write_vector_files(folder: Path) -> None:
    """Write vectors in all formats that graphs are made from."""
    values = np.random.default_rng(5).random((ROWS, DIMENSIONS)).astype(np.float32) + 0.01
    sparse: Any = sp.random_array((ROWS, 9), density=0.3, rng=np.random.default_rng(6), dtype=np.float64, format="csr")
    np.save(folder / "v.npy", values)
    (folder / "parts").mkdir()
    for number in range(3):
        np.save(folder / f"parts/{number}.npy", values[number * 8 : number * 8 + 8].astype(np.float64))
    write_vectors(folder / "v.fvecs", [values], ROWS, DIMENSIONS, "float32")
    write_vectors(folder / "v.bvecs", [(values * 200).astype(np.uint8)], ROWS, DIMENSIONS, "uint8")
    for form in ("csr", "csc", "coo", "bsr", "dia"):
        sp.save_npz(folder / f"{form}.npz", sparse.asformat(form), compressed=form != "csr")
    lists = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), DIMENSIONS)
    pq.write_table(pa.table({"vector": lists.cast(pa.list_(pa.float32()))}), folder / "lists.parquet", row_group_size=9)
    pq.write_table(pa.table({f"x{k}": pa.array(values[:, k]) for k in range(DIMENSIONS)}), folder / "columns.parquet")
    zarr.create_array(folder / "v.zarr", data=values, chunks=(8, 2))
    write_vectors(folder / "ours.zarr", [values], ROWS, DIMENSIONS, "float32")
    write_vectors(folder / "sparse.zarr", [sparse], ROWS, 9, "float64")


def warm() -> None:
    """Import and compile what reading takes; no thread is left running. This process has little memory from now on."""
    values = np.random.default_rng(0).random((20, 3))
    single = dask.config.set(scheduler="sync", num_workers=1)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool, single, dask.config.set(pool=pool):
        frame = pd.DataFrame({"source": np.arange(30), "target": np.arange(1, 31), "weight": np.arange(30.0) % 7})
        frame.to_parquet(f"{folder}/edges.parquet", index=False)
        clustered(Path(folder) / "edges.parquet", Path(folder), True)
        for some in (values, values.astype(np.float32), (values * 255).astype(np.uint8), sp.csr_array(values)):
            dask_rac.knn_graph(some, k=2, progress=False)
    setattr(machine, "MEMORY_LIMIT", MEMORY)  # noqa: B010 - it is Dask's


def clustered(path: Path, scratch: Path, stored: bool) -> str:
    """Cluster the edges at a path; raise unless that gives the merges of the same edges read by other libraries."""
    with dask.config.set(num_workers=1, scheduler="sync"):
        options: dict[str, Any] = {"store": scratch / "run", "shards": 2, "memory": MEMORY} if stored else {}
        tree = dask_rac.cluster(path, progress=False, **options)
        merges = tree.merges.compute() if stored else tree.merges
        if stored:
            tree.verify()
        plain = dask_rac.cluster(_plain_edges(path), progress=False).merges
    names = ["left", "right", "height", "size"]
    ours, theirs = (frame[names].sort_values(names).to_numpy() for frame in (merges, plain))
    assert np.array_equal(ours, theirs), "another tree"
    return "read"


def ingested(path: Path, scratch: Path, _: bool) -> str:
    """Convert the edges at a path; raise unless a plain reading gives the same."""
    dask_rac.ingest(path, scratch / "edges", progress=False)
    ours = pq.read_table(scratch / "edges", columns=list(EDGE_COLUMNS))
    theirs = _plain_edges(path) if path.suffix == ".parquet" else _plain_text(path)
    for column, name in zip(theirs, EDGE_COLUMNS, strict=True):
        assert np.array_equal(ours[name].to_numpy(), column), f"another {name}"
    return "read"


def compared(path: Path, _: Path, graph: bool) -> str:
    """Read the vectors at a path; raise unless other libraries read the same. Make a graph of them if that is asked."""
    source = open_vectors(path)
    values = source.read(0, source.rows)
    plain = _plain_vectors(path)
    same = _same_matrix(values, plain) if source.sparse else np.array_equal(values, plain, equal_nan=True)
    assert same, "other vectors"
    if graph:
        with dask.config.set(num_workers=1, scheduler="sync"):
            found = dask_rac.knn_graph(path, k=2, progress=False)
        assert np.isfinite(found["weight"]).all(), "not a graph"
    return "read"


READERS: dict[str, tuple[Callable[[Path], None], Callable[[Path, Path, bool], str]]] = {
    "edges": (write_edges, clustered),
    "texts": (write_texts, ingested),
    "vectors": (write_vector_files, compared),
}
"""What writes inputs of a kind, and what reads one."""


def _plain_edges(path: Path) -> tuple[NDArray[Any], ...]:
    """Read edges with nothing of ours."""
    if path.suffix == ".zarr":
        group = zarr.open_group(path, mode="r")
        return tuple(np.asarray(group[name]) for name in EDGE_COLUMNS)
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*.parquet"))
    tables = [pq.ParquetFile(file).read(columns=list(EDGE_COLUMNS), use_threads=False) for file in files]
    return tuple(np.concatenate([table[name].to_numpy() for table in tables]) for name in EDGE_COLUMNS)


def _plain_text(path: Path) -> tuple[NDArray[Any], ...]:
    """Parse text line by line."""
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = [line.rstrip("\r") for line in data.removeprefix(b"\xef\xbb\xbf").decode(errors="replace").split("\n")]
    mark = {".csv": ",", ".gz": ",", ".tsv": "\t"}.get(path.suffix, " ")
    first = next(k for k, line in enumerate(lines) if line.strip() and not line.strip().startswith(("#", "%")))
    if mark == " ":
        mark = next((sign for sign in "\t,;| " if sign in lines[first]), " ")
    rows = [line.split() if mark == " " else next(csv.reader([line], delimiter=mark)) for line in lines[first:] if line]
    places = [[field.strip() for field in rows[0]].index(name) for name in EDGE_COLUMNS]
    found = [[row[place].strip() for row in rows[1:] if row] for place in places]
    return _whole(found[0]), _whole(found[1]), np.array([float(text) for text in found[2]])


def _whole(texts: list[str]) -> NDArray[np.int64]:
    """Parse ids."""
    hexadecimal = re.compile(r"0[xX][0-9a-fA-F]+")
    plain = [str(int(text, 16)) if hexadecimal.fullmatch(text) else text for text in texts]
    return np.array([int(text) if re.fullmatch(r"[-+]?\d+", text) else int(float(text)) for text in plain], np.int64)


def _same_matrix(ours: Any, theirs: Any) -> bool:
    """Whether two sparse matrices, of any number of columns, are equal; values of one place are summed in any order."""
    first, second = (sp.coo_array(matrix) for matrix in (ours, theirs))
    for matrix in (first, second):
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
    places = all(map(np.array_equal, first.coords, second.coords))
    return places and first.shape == second.shape and np.allclose(first.data, second.data, 1e-12, 0, equal_nan=True)


def _plain_vectors(path: Path) -> Any:
    """Read vectors with nothing of ours, as a dense array or a sparse matrix."""
    if path.is_dir() and not path.suffix:
        return np.concatenate([np.load(file) for file in sorted(path.glob("*.npy"))])
    read: dict[str, Callable[[Path], Any]] = {
        ".npy": np.load,
        ".npz": sp.load_npz,
        ".fvecs": lambda file: _plain_records(file.read_bytes(), np.dtype("<f4")),
        ".bvecs": lambda file: _plain_records(file.read_bytes(), np.dtype("u1")),
        ".parquet": _plain_table,
        ".zarr": _plain_zarr,
    }
    return read[path.suffix](path)


def _plain_records(data: bytes, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Read vectors that begin with their length."""
    count = int.from_bytes(data[:4], "little")
    step = 4 + count * dtype.itemsize
    rows = [data[at + 4 : at + step] for at in range(0, len(data), step)]
    return np.frombuffer(b"".join(rows), dtype).reshape(-1, count)


def _plain_table(path: Path) -> NDArray[Any]:
    """Read vectors in Parquet."""
    table = pq.ParquetFile(path).read(use_threads=False)
    return np.column_stack([np.array(column.to_pylist()) for column in table.columns])


def _plain_zarr(path: Path) -> Any:
    """Read vectors in Zarr."""
    node: Any = zarr.open(path, mode="r")
    if isinstance(node, zarr.Array):
        return np.asarray(node)
    arrays: Any = tuple(np.asarray(node[name]) for name in ("data", "indices", "indptr"))
    return sp.csr_array(arrays, shape=tuple(node.attrs["shape"]))
