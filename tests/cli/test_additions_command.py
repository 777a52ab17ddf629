"""New points and new edges from the command line."""

from contextlib import chdir
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import dask_rac
from dask_rac.cli.entry import main
from tests.support.graphs import as_frame, tangled_edges

OLD, NEW = np.random.default_rng(5).normal(size=(90, 3)), np.random.default_rng(6).normal(size=(20, 3))
EDGES = as_frame(tangled_edges(300, 900, 9, seed=5))


def said(*words: str, cwd: Path) -> Result:
    """What a command says, run in this process."""
    with chdir(cwd):
        return CliRunner(env={"COLUMNS": "200"}).invoke(main, words, prog_name="dask-rac")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Vectors, and two runs on them: all pairs, and a graph."""
    folder = tmp_path_factory.mktemp("runs")
    np.save(folder / "old.npy", OLD)
    np.save(folder / "new.npy", NEW)
    dask_rac.cluster(folder / "old.npy", "ward", store=folder / "run")
    dask_rac.cluster(dask_rac.knn_graph(OLD, 9), store=folder / "near")
    EDGES.iloc[:400].to_parquet(folder / "first.parquet")
    EDGES.iloc[400:].to_parquet(folder / "more.parquet")
    return folder


def test_assign(folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.parquet"
    ended = said("assign", "run", "new.npy", "--n-clusters", "5", "-o", str(labels), cwd=folder)
    assert (ended.exit_code, ended.stdout) == (0, f"{labels}\n")
    expected = dask_rac.cluster(OLD, "ward").assign(NEW, n_clusters=5)
    found = pd.read_parquet(labels)
    assert found["label"].tolist() == expected.tolist()
    assert found["node"].tolist() == list(range(20))
    again = said("assign", "run", "new.npy", "--n-clusters", "5", "-o", str(labels), cwd=folder)
    assert again.exit_code == 2
    assert "exists" in again.stderr


def test_assign_after_a_graph_and_too_far(folder: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.csv"
    words = ["assign", "near", "new.npy", "--height", "1.0", "--max-height", "1.5", "-o", str(labels)]
    refused = said(*words, cwd=folder)
    assert refused.exit_code == 2
    assert "give --metric" in refused.stderr
    assert "--points" in refused.stderr
    ended = said(*words, "--points", "old.npy", "--metric", "euclidean", cwd=folder)
    assert ended.exit_code == 0, ended.output
    of_graph = dask_rac.open(folder / "near")
    expected = of_graph.assign(NEW, height=1.0, max_height=1.5, points=OLD, metric="euclidean")
    assert -1 in expected
    assert pd.read_csv(labels)["label"].tolist() == expected.tolist()


def test_assign_takes_one_cut(folder: Path) -> None:
    ended = said("assign", "run", "new.npy", "-o", "x.csv", cwd=folder)
    assert ended.exit_code == 2
    assert "pass either --height or --n-clusters" in ended.stderr


def test_extend(folder: Path, tmp_path: Path) -> None:
    run, longer = str(tmp_path / "run"), str(tmp_path / "longer")
    assert said("cluster", "first.parquet", "--linkage", "single", "-o", run, cwd=folder).exit_code == 0
    ended = said("extend", run, "more.parquet", "-o", longer, "--memory", "50MB", cwd=folder)
    assert ended.exit_code == 0, ended.output
    columns = ["left", "right", "height", "size"]
    found = dask_rac.open(longer).merges.compute()[columns].reset_index(drop=True)
    pd.testing.assert_frame_equal(found, dask_rac.cluster(EDGES, "single").merges[columns])
    refused = said("extend", "near", "more.parquet", "-o", str(tmp_path / "other"), cwd=folder)
    assert refused.exit_code == 2
    assert "by single linkage only" in refused.stderr
