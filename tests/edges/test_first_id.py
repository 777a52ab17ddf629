"""Ids that begin above 0 leave nodes without an edge: every way to cluster says so, once."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.edges.first_id import smallest_id
from tests.support.command import rac

FRAME = pd.DataFrame({"source": [1, 2, 3], "target": [2, 3, 4], "weight": [1.0, 2.0, 3.0]})
ONE = r"^ids begin at 1, so node 0 is a tree of its own: subtract 1 from all ids, or pass n_nodes=5 if that is meant$"


def given_as(form: str, frame: pd.DataFrame, folder: Path) -> Any:
    """Edges in memory or on disk."""
    if form == "frame":
        return frame
    if form == "arrays":
        return tuple(frame[name].to_numpy() for name in frame)
    frame.to_parquet(folder / "edges.parquet")
    return folder / "edges.parquet"


@pytest.mark.parametrize("form", ["frame", "arrays", "path"])
@pytest.mark.parametrize("linkage", ["average", "single"])
@pytest.mark.parametrize("options", [{}, {"shards": 1}, {"shards": 2}], ids=str)
def test_one_warning(form: str, linkage: str, options: dict[str, Any], tmp_path: Path) -> None:
    options = {**options, "store": tmp_path / "run"} if options else {}
    with pytest.warns(UserWarning, match=ONE) as warned:
        found = dask_rac.cluster(given_as(form, FRAME, tmp_path), linkage, **options)
    assert len(warned) == 1
    assert (found.n_nodes, found.n_trees) == (5, 2)
    if options:
        assert dask_rac.open(tmp_path / "run").n_nodes == 5


def test_more_nodes_before_the_first() -> None:
    with pytest.warns(UserWarning, match="ids begin at 1,000, so nodes 0 to 999 are trees of their own: subtract"):
        dask_rac.cluster(FRAME.assign(source=FRAME.source + 999, target=FRAME.target + 999))


@pytest.mark.parametrize("form", ["frame", "path"])
@pytest.mark.parametrize("stored", [False, True])
def test_no_warning_where_the_nodes_are_known(form: str, stored: bool, tmp_path: Path) -> None:
    options: dict[str, Any] = {"store": tmp_path / "run"} if stored else {}
    dask_rac.cluster(given_as(form, FRAME, tmp_path), n_nodes=5, **options)


def test_no_warning_for_a_graph_of_vectors_or_an_id_0_with_a_self_loop_only(tmp_path: Path) -> None:
    vectors = np.array([[50.0], [0.0], [1.0], [2.0]])
    with pytest.warns(UserWarning, match="components"):
        graph = dask_rac.eps_graph(vectors, 1.5, store=tmp_path / "graph")
    assert dask_rac.cluster(graph).n_trees == 2
    assert dask_rac.cluster(tmp_path / "graph").n_trees == 2
    loop = pd.concat([FRAME, pd.DataFrame({"source": [0], "target": [0], "weight": [1.0]})])
    with pytest.warns(UserWarning, match="dropped 1 self loop") as warned:
        dask_rac.cluster(loop)
    assert len(warned) == 1


def test_a_run_in_the_background_warns_when_its_result_is_taken(tmp_path: Path) -> None:
    handle = dask_rac.cluster(FRAME, store=tmp_path / "run", wait=False)
    with pytest.warns(UserWarning, match=ONE):
        handle.result()


def test_ingest(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "edges.csv", index=False)
    with pytest.warns(UserWarning, match="node 0 is a tree of its own: .* or pass text_ids=True to keep") as warned:
        dask_rac.ingest(tmp_path / "edges.csv", tmp_path / "edges")
    assert len(warned) == 1
    FRAME.assign(source=[0, 2, 3]).to_csv(tmp_path / "zero.csv", index=False)
    dask_rac.ingest(tmp_path / "zero.csv", tmp_path / "zero")


def test_on_the_command_line(tmp_path: Path) -> None:
    FRAME.to_csv(tmp_path / "edges.csv", index=False)
    said = rac("ingest", "edges.csv", "-o", "edges", cwd=tmp_path)
    expected = "dask-rac: warning: ids begin at 1, so node 0 is a tree of its own: subtract 1 from all ids, or pass "
    assert (said.returncode, said.stderr) == (0, f"{expected}--text-ids to keep them as names\n")


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 99)), max_size=20))
def test_the_smallest_id(pairs: list[tuple[int, int]]) -> None:
    columns = np.array(pairs, np.int64).reshape(-1, 2).T
    assert smallest_id(list(columns)) == min((id_ for pair in pairs for id_ in pair), default=0)
