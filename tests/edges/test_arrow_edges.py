"""Whatever offers an Arrow stream gives the edges and vectors of the same numbers in arrays."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from distributed import Client
from hypothesis import given

import dask_rac
from dask_rac.edges import streams
from dask_rac.files import tables
from dask_rac.files.arrow_streams import as_table
from tests.support.clients import local_client
from tests.support.graphs import as_frame, columns, tangled_edges
from tests.support.results import assert_same, merge_set
from tests.support.strategies import Graph, graphs

NODES = 120
EDGES = as_frame(tangled_edges(NODES, 300, 50, seed=4))
VECTORS = np.random.default_rng(5).random((60, 3))


class Foreign:
    """A table of a library that nobody has heard of."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        stream: object = self._table.__arrow_c_stream__(requested_schema)
        return stream


def in_pieces(frame: pd.DataFrame) -> pa.RecordBatchReader:
    table = pa.Table.from_pandas(frame, preserve_index=False)
    return pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=7))


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "Polars": pl.DataFrame,
    "Polars, narrow": lambda frame: pl.DataFrame(frame).with_columns(
        pl.col("source", "target").cast(pl.UInt16), pl.col("weight").cast(pl.Float32)
    ),
    "Arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "a batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "a reader": in_pieces,
    "DuckDB": lambda frame: duckdb.sql("select weight, target, source, 'x' as note from frame"),
    "another library": lambda frame: Foreign(pa.Table.from_pandas(frame, preserve_index=False)),
}


@pytest.fixture(scope="module")
def workers() -> Iterator[Client]:
    with local_client(1, processes=False, memory_limit="8GB") as made:
        yield made


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_tree(form: str, workers: Client, folder: Path) -> None:
    expected = dask_rac.cluster(EDGES)
    assert_same(dask_rac.cluster(FORMS[form](EDGES)), expected)
    assert_same(dask_rac.cluster(FORMS[form](EDGES), client=workers), expected)
    stored = dask_rac.cluster(FORMS[form](EDGES), store=folder / "run", shards=3)
    assert merge_set(stored) == merge_set(expected)
    for tree in (expected, stored):
        assert tree.verify(FORMS[form](EDGES)).merges == len(expected.merges)
    assert not (folder / "run/input").exists()


@given(graphs())
def test_a_frame_of_polars_is_its_columns(graph: Graph) -> None:
    ends = dict(zip(("source", "target", "weight"), columns(graph), strict=True))
    found = dask_rac.cluster(pl.DataFrame(ends), n_nodes=graph.n_nodes)
    assert merge_set(found) == merge_set(dask_rac.cluster(columns(graph), n_nodes=graph.n_nodes))


def test_a_stream_is_written_in_pieces(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "ROW_GROUP", 40)
    written: list[int] = []
    write = tables.write_partition

    def counted(table: pa.Table, *place: Any) -> None:
        written.append(len(table))
        write(table, *place)

    monkeypatch.setattr(streams, "write_partition", counted)
    stored = dask_rac.cluster(in_pieces(EDGES), store=folder / "run")
    assert sum(written) == len(EDGES)
    assert max(written) < 40 + 7
    assert len(written) == 4
    assert merge_set(stored) == merge_set(dask_rac.cluster(EDGES))


def test_a_stream_without_edges(folder: Path) -> None:
    empty = EDGES.iloc[:0]
    assert dask_rac.cluster(in_pieces(empty), n_nodes=3).n_trees == 3
    assert dask_rac.cluster(in_pieces(empty), n_nodes=3, store=folder / "run").n_trees == 3


def broken() -> pa.RecordBatchReader:
    def batches() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pandas(EDGES.iloc[:5], preserve_index=False)
        raise OSError("the network is gone")

    schema = pa.RecordBatch.from_pandas(EDGES, preserve_index=False).schema
    return pa.RecordBatchReader.from_batches(schema, batches())


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: pl.DataFrame({"source": [0], "weight": [1.0]}), "the table has no column 'target'"),
        (lambda: pl.DataFrame({"source": [0], "target": [1], "weight": ["far"]}), "column 'weight' of the table is"),
        (lambda: pl.DataFrame({"source": [0, 1], "target": [1, None], "weight": [1.0, 2.0]}), "target.*null"),
        (lambda: pl.DataFrame({"source": [0, 1], "target": [1, 0], "weight": [1.0, 2.0]}), "two values for 1 edge"),
        (lambda: pl.Series([1, 2]), "the table has no column 'source'|cannot be read"),
    ],
    ids=["no target", "text", "null", "conflict", "a column"],
)
def test_faults_are_named(given: Callable[[], Any], message: str, stored: bool, folder: Path) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(given(), store=folder / "run" if stored else None)
    assert not stored or not (folder / "run").exists()


@pytest.mark.parametrize("stored", [False, True])
def test_a_stream_that_breaks_leaves_nothing(stored: bool, folder: Path) -> None:
    with pytest.raises((dask_rac.InputError, OSError), match="the network is gone"):
        dask_rac.cluster(broken(), store=folder / "run" if stored else None)
    assert not (folder / "run").exists()


def test_text_arrives_in_the_type_that_all_of_arrow_knows() -> None:
    table = as_table(pl.DataFrame({"source": ["a", "b"], "target": ["b", "c"], "weight": [1.0, 2.0]}))
    assert table is not None
    assert table.schema.types == [pa.large_string(), pa.large_string(), pa.float64()]
    names = as_table(pl.Series("name", ["a", "b"]))
    assert names is not None
    assert names.to_pydict() == {"name": ["a", "b"]}


@pytest.mark.parametrize("given", [EDGES, EDGES["source"], EDGES.index, VECTORS, [1, 2], "edges.parquet", None])
def test_what_has_a_path_of_its_own_is_no_stream(given: Any) -> None:
    assert as_table(given) is None


TABLES: dict[str, Callable[[], Any]] = {
    "columns of Polars": lambda: pl.DataFrame(VECTORS),
    "lists of Polars": lambda: pl.DataFrame({"vector": VECTORS.tolist()}),
    "arrays of Polars": lambda: pl.DataFrame({"vector": VECTORS}),
    "a series of Polars": lambda: pl.Series("vector", VECTORS),
    "lists of Arrow": lambda: pa.table({"vector": VECTORS.tolist()}),
    "a reader": lambda: in_pieces(pd.DataFrame(VECTORS, columns=list("xyz"))),
    "DuckDB": lambda: duckdb.from_arrow(pa.table(pl.DataFrame(VECTORS))),
}


@pytest.mark.parametrize("form", TABLES)
def test_vectors_in_tables(form: str, workers: Client) -> None:
    edges = dask_rac.knn_graph(VECTORS, k=4)
    pd.testing.assert_frame_equal(dask_rac.knn_graph(TABLES[form](), k=4), edges)
    assert_same(dask_rac.cluster(TABLES[form](), graph={"k": 4}), dask_rac.cluster(edges))
    pairs = dask_rac.cluster(VECTORS)
    assert_same(dask_rac.cluster(TABLES[form](), metric="euclidean"), pairs)
    assert_same(dask_rac.cluster(TABLES[form](), metric="euclidean", client=workers), pairs)


def test_some_columns_of_a_table_are_the_vectors() -> None:
    table = pl.DataFrame(VECTORS, schema=list("xyz")).with_columns(name=pl.lit("x"))
    pd.testing.assert_frame_equal(
        dask_rac.knn_graph(table, k=4, columns=["z", "x"]), dask_rac.knn_graph(VECTORS[:, [2, 0]], k=4)
    )
    with pytest.raises(dask_rac.InputError, match="it is not clear which of the 4 columns of the table"):
        dask_rac.knn_graph(table, k=4)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"v": [[1.0, 2.0], [3.0]]}, "column 'v' has 1 values in row 1, the first row has 2"),
        ({"v": [None, [3.0]]}, "column 'v' is null in row 0"),
        ({"v": [[1.0], None]}, "column 'v' is null in row 1"),
        ({"v": [[1.0], [None]]}, "column 'v' is null in part"),
        ({"x": [1.0, None]}, "column 'x' is null in row 1"),
        ({"x": [1, 2]}, "it is not clear which of the 1 columns"),
        ({"x": pa.array([], pa.float64())}, "there are no rows in the vectors"),
    ],
)
def test_faults_of_vectors_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.eps_graph(pa.table(given), eps=1.0)
