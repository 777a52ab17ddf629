"""Results that stay on disk are what results in memory are."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.graphs import columns, tangled_edges
from tests.support.named_graphs import SMALL
from tests.support.stored import write_parquet
from tests.support.strategies import (
    WEIGHTS,
    Graph,
    graphs,
)

TIES = tangled_edges(300, 900, 4, seed=12)


@pytest.fixture(scope="module")
def tied_run() -> Iterator[tuple[dask_rac.StoredClustering, dask_rac.Clustering]]:
    """A run with many equal heights, stored and in memory."""
    with quick_folder() as made:
        edges = write_parquet(made / "edges.parquet", TIES)
        found = dask_rac.cluster(edges, "complete", n_nodes=310, shards=3, store=made / "run")
        assert isinstance(found, dask_rac.StoredClustering)
        yield found, dask_rac.cluster(TIES, "complete", n_nodes=310)


TiedRun = tuple[dask_rac.StoredClustering, dask_rac.Clustering]


def test_merges_are_a_dask_dataframe_in_order(tied_run: TiedRun) -> None:
    found, expected = tied_run
    assert isinstance(found.merges, dd.DataFrame)
    kinds = {"left": "int64", "right": "int64", "height": "float64", "size": "int64", "round": "int32"}
    assert {name: str(kind) for name, kind in found.merges.dtypes.items()} == kinds
    frame = found.merges.compute()
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == kinds
    pd.testing.assert_frame_equal(frame.reset_index(drop=True), expected.merges)
    assert found.merges.npartitions > 1
    assert found.merges["height"].max().compute() == expected.merges["height"].max()


def test_cuts_are_those_in_memory(tied_run: TiedRun) -> None:
    found, expected = tied_run
    heights = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, np.inf]
    np.testing.assert_array_equal(found.cut(height=heights), expected.cut(height=heights))
    counts = list(range(found.n_trees, found.n_nodes + 1))
    np.testing.assert_array_equal(found.cut(n_clusters=counts), expected.cut(n_clusters=counts))
    np.testing.assert_array_equal(found.cut(height=2.0), expected.cut(height=2.0))
    np.testing.assert_array_equal(found.cut(n_clusters=100), expected.cut(n_clusters=100))
    assert found.cut(height=[]).shape == (0, found.n_nodes)
    for wrong in (found.n_trees - 1, found.n_nodes + 1):
        with pytest.raises(dask_rac.InputError, match=f"n_clusters={wrong} is not possible"):
            found.cut(n_clusters=wrong)


@examples(20)
@given(graphs(), WEIGHTS, st.data())
def test_generated_cuts_are_those_in_memory(graph: Graph, weights: str, data: st.DataObject) -> None:
    expected = dask_rac.cluster(columns(graph), weights=weights, n_nodes=graph.n_nodes)
    heights = data.draw(st.lists(st.sampled_from([0.0, 0.125, 0.3, 0.5, 1.0, 2.0]), max_size=4))
    counts = data.draw(st.lists(st.integers(expected.n_trees, graph.n_nodes), max_size=4))
    with quick_folder() as folder:
        found = dask_rac.cluster(columns(graph), weights=weights, n_nodes=graph.n_nodes, store=folder / "run", shards=2)
        np.testing.assert_array_equal(found.cut(height=heights), expected.cut(height=heights))
        np.testing.assert_array_equal(found.cut(n_clusters=counts), expected.cut(n_clusters=counts))
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_array_equal(found.to_scipy(join=True), expected.to_scipy(join=True))


@pytest.mark.parametrize("which", [0, 1])
def test_labels_as_parquet(tied_run: TiedRun, which: int, folder: Path) -> None:
    found, expected = tied_run[which], tied_run[1]
    target = folder / "one.parquet"
    assert found.cut(height=2.0, store=target) == str(target)
    frame = pd.read_parquet(target)
    assert frame["node"].tolist() == list(range(found.n_nodes))
    np.testing.assert_array_equal(frame["label"], expected.cut(height=2.0))
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == {"node": "int64", "label": "int64"}
    many = folder / "many.parquet"
    found.cut(n_clusters=[150, 200], store=many)
    parts = dd.read_parquet(many).compute()
    for count in (150, 200):
        part = parts[parts["n_clusters"].astype(int) == count].sort_values("node")
        np.testing.assert_array_equal(part["label"], expected.cut(n_clusters=count))
    assert sorted(os.listdir(folder)) == ["many.parquet", "one.parquet"]


@pytest.mark.parametrize("which", [0, 1])
def test_labels_as_zarr(tied_run: TiedRun, which: int, folder: Path) -> None:
    found, expected = tied_run[which], tied_run[1]
    found.cut(height=[1.0, 2.0], store=folder / "labels.zarr")
    array: Any = zarr.open_array(str(folder / "labels.zarr"), mode="r")
    np.testing.assert_array_equal(array[:], expected.cut(height=[1.0, 2.0]))
    assert array.attrs["height"] == [1.0, 2.0]
    found.cut(n_clusters=150, store=folder / "one.zarr")
    one: Any = zarr.open_array(str(folder / "one.zarr"), mode="r")
    np.testing.assert_array_equal(one[0], expected.cut(n_clusters=150))
    assert sorted(os.listdir(folder)) == ["labels.zarr", "one.zarr"]


def test_labels_are_written_to_new_places_only(tied_run: TiedRun, folder: Path) -> None:
    found = tied_run[0]
    for name in ("taken.parquet", "taken.zarr"):
        (folder / name).write_text("mine")
        with pytest.raises(dask_rac.InputError, match=rf"{name} exists and is never overwritten"):
            found.cut(height=1.0, store=folder / name)
        assert (folder / name).read_text() == "mine"
    for name in ("labels.txt", "labels", "parquet"):
        with pytest.raises(dask_rac.InputError, match=r"must end in .parquet, .zarr, .csv or .csv.gz"):
            found.cut(height=1.0, store=folder / name)
    with pytest.raises(dask_rac.InputError, match="n_clusters=0 is not possible"):
        found.cut(n_clusters=[200, 0], store=folder / "wrong.zarr")
    with pytest.raises(dask_rac.InputError, match="n_clusters=0 is not possible"):
        found.cut(n_clusters=[200, 0], store=folder / "wrong.parquet")
    assert sorted(os.listdir(folder)) == ["taken.parquet", "taken.zarr"]


def test_no_cut_at_all_is_not_written(tied_run: TiedRun, folder: Path) -> None:
    for name in ("none.parquet", "none.zarr"):
        with pytest.raises(dask_rac.InputError, match="there is nothing to write"):
            tied_run[0].cut(height=[], store=folder / name)


def test_the_rest_of_a_result(tied_run: TiedRun) -> None:
    found, expected = tied_run
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert not found.labels.flags.writeable
    assert found.n_trees == expected.n_trees > 1
    np.testing.assert_array_equal(found.to_scipy(join=True), expected.to_scipy(join=True))
    with pytest.raises(dask_rac.InputError, match=r"the hierarchy has \d+ trees"):
        found.to_scipy()
    assert repr(found) == repr(expected)[:-1] + f", store={found.store}>"
    assert f">{found.store}</td>" in found._repr_html_()
    assert found.finished
    assert found.peak_disk > 0


def test_similarities_tell_their_heights_as_in_memory(folder: Path) -> None:
    found = dask_rac.cluster(SMALL, weights="similarity", store=folder / "run", shards=2)
    assert repr(found).startswith(repr(dask_rac.cluster(SMALL, weights="similarity"))[:-1])
