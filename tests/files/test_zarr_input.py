"""Zarr inputs: a chunk that is lost is not read as zeros, and metadata is not believed beyond the files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import dask_rac
from dask_rac.edges.source import open_edges, read_edges
from dask_rac.vectors.sources.opening import open_vectors
from tests.support.graphs import random_edges

COLUMNS = dict(zip(("source", "target", "weight"), random_edges(20, 64), strict=True))
LAYOUTS: dict[str, dict[str, Any]] = {
    "version 3": {"chunks": (16,)},
    "version 2": {"chunks": (16,)},
    "shards": {"chunks": (8,), "shards": (32,)},
}


def group(path: Path, layout: str = "version 3") -> Path:
    """Edges as a Zarr group."""
    made = zarr.create_group(path, zarr_format=2 if layout == "version 2" else 3)
    with zarr.config.set({"array.write_empty_chunks": True}):
        for name, column in COLUMNS.items():
            made.create_array(name, data=column, **LAYOUTS[layout])
    return path


def edit(path: Path, **facts: Any) -> None:
    """Change the metadata of an array."""
    metadata = json.loads(path.read_text())
    path.write_text(json.dumps(metadata | facts))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", COLUMNS)
def test_a_lost_chunk(layout: str, name: str, tmp_path: Path) -> None:
    edges = group(tmp_path / "edges", layout)
    expected = dask_rac.cluster(tuple(COLUMNS.values())).merges
    assert dask_rac.cluster(edges).merges.equals(expected)
    chunks = sorted(path for path in (edges / name).rglob("*") if path.is_file() and path.name.isdigit())
    chunks[1].unlink()
    key = chunks[1].relative_to(edges / name)
    for store in (None, tmp_path / "run"):
        with pytest.raises(dask_rac.InputError, match=f"chunk {key} of array '{name}' of .*edges is missing"):
            dask_rac.cluster(edges, store=store)


def test_a_chunk_that_is_lost_after_the_edges_were_opened(tmp_path: Path) -> None:
    source = open_edges(group(tmp_path / "edges"))
    (tmp_path / "edges/weight/c/2").unlink()
    with pytest.raises(dask_rac.InputError, match="edges no longer exists: restore it; chunk weight/c/2 is missing"):
        read_edges(source)


def test_chunks_of_zeros_that_zarr_leaves_out(tmp_path: Path) -> None:
    for empty, path in ((False, tmp_path / "a"), (True, tmp_path / "b")):
        made = zarr.create_group(path)
        with zarr.config.set({"array.write_empty_chunks": empty}):
            for name, column in (
                ("source", np.zeros(8, np.int64)),
                ("target", np.arange(1, 9)),
                ("weight", np.ones(8)),
            ):
                made.create_array(name, data=column, chunks=(4,))
    with pytest.raises(dask_rac.InputError, match=r"chunk c/0 .* 'source' .*write_empty_chunks': True"):
        dask_rac.cluster(tmp_path / "a")
    assert dask_rac.cluster(tmp_path / "b").n_nodes == 9


@pytest.mark.parametrize("shape", [2**40, 2**62, 2**70])
def test_absurd_shapes(shape: int, tmp_path: Path) -> None:
    edges = group(tmp_path / "edges")
    for name in COLUMNS:
        edit(edges / name / "zarr.json", shape=[shape])
    with pytest.raises((dask_rac.InputError, dask_rac.ResourceError), match="edges"):
        dask_rac.cluster(edges)
    grid = {"name": "regular", "configuration": {"chunk_shape": [shape]}}
    for name in COLUMNS:
        edit(edges / name / "zarr.json", shape=[shape], chunk_grid=grid)
    with pytest.raises((dask_rac.InputError, dask_rac.ResourceError), match="edges"):
        dask_rac.cluster(edges)


def test_a_shard_with_more_chunks_than_its_index_could_name(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "v", data=np.ones((8, 2)), chunks=(2, 2), shards=(4, 2))
    edit(
        tmp_path / "v/zarr.json",
        chunk_grid={"name": "regular", "configuration": {"chunk_shape": [2**24, 2]}},
        shape=[2**24, 2],
    )
    with pytest.raises(dask_rac.InputError, match=r"chunk c/0/0 of array .*v has \d+ bytes, too few for the 0.268 GB"):
        open_vectors(tmp_path / "v")


@pytest.mark.parametrize("damage", [b"", b"{", b"[" * 100_000, b"null", b'{"zarr_format": 3}', b"\xff\xfe"])
def test_damaged_metadata(damage: bytes, tmp_path: Path) -> None:
    edges = group(tmp_path / "edges")
    (edges / "weight/zarr.json").write_bytes(damage)
    with pytest.raises(dask_rac.InputError, match="edges"):
        dask_rac.cluster(edges)
    (edges / "zarr.json").write_bytes(damage)
    with pytest.raises(dask_rac.InputError, match="edges"):
        dask_rac.cluster(edges)


def test_an_array_is_not_a_group_of_edges(tmp_path: Path) -> None:
    zarr.create_array(tmp_path / "v", data=np.ones((8, 2)))
    with pytest.raises(dask_rac.InputError, match="v is a Zarr array: edges are a group"):
        dask_rac.cluster(tmp_path / "v")
