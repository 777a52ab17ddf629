"""Cuts of nodes that have names: what is returned, and what is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import zarr

import dask_rac
from dask_rac.files.labels import LabelSizes, write_labels
from dask_rac.files.node_names import NamesInMemory

EDGES = [0, 1, 3], [1, 2, 4], [0.5, 2.0, 1.0]
NAMES = ["ann", 'b "x", y', "", "naïve", "ann"]


@pytest.fixture(params=[False, True], ids=["memory", "store"])
def found(request: Any, tmp_path: Path) -> dask_rac.Clustering:
    """A clustering whose nodes have names."""
    made = dask_rac.cluster(EDGES, missing="ignore", store=tmp_path / "run" if request.param else None)
    made.names = NamesInMemory(NAMES)
    return made


def test_a_cut_has_the_names_as_its_index(found: dask_rac.Clustering) -> None:
    one = found.cut(height=1.0)
    expected = pd.Series([0, 0, 1, 2, 2], pd.Index(NAMES, dtype="str", name="name"), name="label")
    pd.testing.assert_series_equal(one, expected)
    several = found.cut(height=[0.5, 2])
    assert several.columns.tolist() == ["height=0.5", "height=2.0"]
    assert several.index.tolist() == NAMES
    assert several.to_numpy().T.tolist() == [[0, 0, 1, 2, 3], [0, 0, 0, 1, 1]]
    assert found.cut(n_clusters=[3]).columns.tolist() == ["n_clusters=3"]
    assert found.cut(method="eom", min_cluster_size=2).tolist() == [0, 0, 0, 1, 1]
    pd.testing.assert_series_equal(found.labels, found.cut(height=np.inf))


def test_names_can_be_left_out(found: dask_rac.Clustering) -> None:
    bare = found.cut(height=1.0, names=False)
    assert isinstance(bare, np.ndarray)
    assert found.cut(height=[1.0], names=False).shape == (1, 5)


@pytest.mark.parametrize("group", [2, 1_000])
def test_files_of_labels_have_the_names(found: dask_rac.Clustering, group: int, tmp_path: Path) -> None:
    def write(name: str, values: Any) -> Path:
        cuts = found.cut(height=np.atleast_1d(values), names=False)
        path = tmp_path / name
        write_labels(path, cuts, "height", values, 5, names=found.names, sizes=LabelSizes(group))
        return path

    one = pq.read_table(write("one.parquet", 1.0)).to_pydict()
    assert one == {"node": [0, 1, 2, 3, 4], "name": NAMES, "label": [0, 0, 1, 2, 2]}
    assert [path.name for path in sorted(write("many.parquet", [0.5, 1.0]).iterdir())] == ["height=0.5", "height=1.0"]
    table = pd.read_csv(write("labels.csv", [0.5, 1.0]), keep_default_na=False)
    assert table.columns.tolist() == ["node", "name", "height=0.5", "height=1.0"]
    assert table["name"].tolist() == NAMES
    assert table["height=1.0"].tolist() == [0, 0, 1, 2, 2]


def test_cut_writes_names_by_itself(found: dask_rac.Clustering, tmp_path: Path) -> None:
    found.cut(height=1.0, min_size=2, store=tmp_path / "labels.csv")
    table = pd.read_csv(tmp_path / "labels.csv", keep_default_na=False)
    assert table["name"].tolist() == NAMES
    assert table["label"].tolist() == [0, 0, -1, 1, 1]
    found.cut(height=1.0, store=tmp_path / "labels.zarr")
    array: Any = zarr.open(tmp_path / "labels.zarr")
    assert array[:].tolist() == [[0, 0, 1, 2, 2]]


def test_labels_of_none_fit_into_small_integers(tmp_path: Path) -> None:
    labels = np.append(np.arange(300), -1)
    write_labels(tmp_path / "labels.csv", [labels], "height", 1.0, 301)
    assert pd.read_csv(tmp_path / "labels.csv")["label"].tolist() == labels.tolist()
