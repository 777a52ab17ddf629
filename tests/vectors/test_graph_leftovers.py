"""What a build of a graph was writing when it was killed is neither in its way later, nor in the finished graph."""

from pathlib import Path

import numpy as np
import pytest

import dask_rac

VECTORS = np.random.default_rng(0).normal(size=(30, 3))


@pytest.mark.parametrize("left", ["_graph.json.1234abcd.new", "part-0.parquet.1234abcd.new"])
def test_a_build_goes_on_after_a_kill_while_it_wrote_a_file(folder: Path, left: str) -> None:
    dask_rac.knn_graph(VECTORS, 3, store=folder / "other")
    identity = (folder / "other" / "_graph.json").read_text()
    (folder / "graph.partial" / "work").mkdir(parents=True)
    (folder / "graph.partial" / "work" / "header.json").write_text(identity)
    (folder / "graph.partial" / left).write_text("{")
    dask_rac.knn_graph(VECTORS, 3, store=folder / "graph")
    assert sorted(path.name for path in (folder / "graph").iterdir()) == ["_graph.json", "part-0.parquet"]
    assert not (folder / "graph.partial").exists()
