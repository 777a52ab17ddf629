"""A clustering offers its merges as an Arrow stream, file by file where they are on disk."""

from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

import dask_rac
from dask_rac.files import arrow_streams, tables
from tests.support.graphs import columns, tangled_edges
from tests.support.results import merges_frame
from tests.support.strategies import Graph, graphs

EDGES = tangled_edges(150, 500, 100, seed=2)


@pytest.fixture(params=["memory", "store"])
def tree(request: pytest.FixtureRequest, folder: Path) -> dask_rac.Clustering:
    options: dict[str, Any] = {"store": folder / "run", "shards": 3} if request.param == "store" else {}
    found: dask_rac.Clustering = dask_rac.cluster(EDGES, **options)
    return found


def test_other_libraries_read_it(tree: dask_rac.Clustering) -> None:
    expected = merges_frame(tree)
    pd.testing.assert_frame_equal(pa.table(tree).to_pandas(), expected)
    pd.testing.assert_frame_equal(pl.DataFrame(tree).to_pandas(), expected)
    reader = pa.RecordBatchReader.from_stream(tree)
    assert reader.schema == tables.MERGE_SCHEMA
    query: Any = duckdb.sql("select count(*), max(height), sum(size)::bigint from tree")
    (row,) = query.fetchall()
    assert row == (len(expected), expected["height"].max(), expected["size"].sum())


def test_a_schema_can_be_asked_for(tree: dask_rac.Clustering) -> None:
    narrow = pa.schema(
        [field.with_type(pa.int32()) if field.name == "size" else field for field in tables.MERGE_SCHEMA]
    )
    assert pa.table(tree, schema=narrow).schema == narrow


def test_frames_are_streams_as_well(tree: dask_rac.Clustering) -> None:
    assert pl.DataFrame(tree.rounds).shape == tree.rounds.shape
    assert pl.DataFrame(merges_frame(tree)).equals(pl.DataFrame(tree))
    assert pl.DataFrame(dask_rac.knn_graph([[0.0], [1.0], [3.0]], k=1)).columns == ["source", "target", "weight"]


@given(graphs())
def test_any_forest(graph: Graph) -> None:
    tree = dask_rac.cluster(columns(graph), n_nodes=graph.n_nodes)
    pd.testing.assert_frame_equal(pa.table(tree).to_pandas(), tree.merges)


def test_it_is_read_part_by_part(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = dask_rac.cluster(EDGES, store=folder / "run", shards=4, finisher=False)
    read: list[str] = []
    sound = tables._sound

    def noted(place: Any, record: tables.TableRecord) -> bytes:
        read.append(record.name)
        return sound(place, record)

    monkeypatch.setattr(tables, "_sound", noted)
    monkeypatch.setattr(arrow_streams, "MERGE_GROUP", 3)
    reader = pa.RecordBatchReader.from_stream(stored)
    assert not read
    assert len(reader.read_next_batch()) <= 3
    assert len(read) < 4
    rest = reader.read_all()
    assert len(set(read)) == len(read) > 10
    assert len(rest) < len(stored.merges)


def test_damage_is_reported(folder: Path) -> None:
    stored = dask_rac.cluster(EDGES, store=folder / "run")
    for file in (folder / "run/merges").rglob("*.parquet"):
        file.write_bytes(b"no more")
    with pytest.raises(Exception, match="is damaged"):
        pa.table(dask_rac.open(stored.store))
