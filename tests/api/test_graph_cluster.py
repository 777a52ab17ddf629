"""From vectors to a tree in one call, and what edges record about the vectors they were built from."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dask_rac
from dask_rac.base.events import Event
from tests.support.command import rac
from tests.support.results import assert_same

VECTORS = np.random.default_rng(0).random((300, 4)).astype(np.float32)

SHAPES: list[dict[str, Any]] = [
    {"k": 5},
    {"k": 4, "metric": "cosine", "mode": "mutual"},
    {"eps": 0.3},
    {"kind": "complete", "metric": "manhattan"},
]


def edges_of(graph: dict[str, Any]) -> pd.DataFrame:
    options = dict(graph)
    kind = options.pop("kind", "knn" if "k" in options else "eps")
    frame: pd.DataFrame = getattr(dask_rac, f"{kind}_graph")(VECTORS, **options)
    return frame


@pytest.mark.parametrize("graph", SHAPES)
@pytest.mark.filterwarnings("ignore:the graph has")
def test_in_one_call(graph: dict[str, Any], tmp_path: Path) -> None:
    edges = edges_of(graph)
    expected = dask_rac.cluster(edges, n_nodes=300)
    assert_same(dask_rac.cluster(VECTORS, graph=graph), expected)
    run = dask_rac.cluster(VECTORS, graph=graph, store=tmp_path / "run", shards=2)
    assert_same(run, expected)
    assert run.verify().ok
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "run.graph"), edges)
    assert (edges.source < edges.target).all()


def test_stopped_the_same_call_goes_on(tmp_path: Path) -> None:
    def stop(event: Event) -> None:
        if event.stage == "edges":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dask_rac.cluster(VECTORS, graph={"k": 5}, store=tmp_path / "run", progress=stop)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.graph.partial"]
    run = dask_rac.cluster(VECTORS, graph={"k": 5}, store=tmp_path / "run")
    assert_same(run, dask_rac.cluster(VECTORS, graph={"k": 5}))
    with pytest.raises(dask_rac.StoreError, match="already holds a run"):
        dask_rac.cluster(VECTORS, graph={"k": 5}, store=tmp_path / "run")


def test_edges_that_are_there_serve_another_run_of_the_same(tmp_path: Path) -> None:
    dask_rac.knn_graph(VECTORS, 5, store=tmp_path / "run.graph")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run.graph").iterdir()}
    dask_rac.cluster(VECTORS, graph={"k": 5}, store=tmp_path / "run")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "run.graph").iterdir()} == before
    (tmp_path / "run.graph").rename(tmp_path / "run2.graph")
    with pytest.raises(dask_rac.InputError, match=r"run2\.graph belongs to another graph \(k was 5, is now 6\)"):
        dask_rac.cluster(VECTORS, graph={"k": 6}, store=tmp_path / "run2")


@pytest.mark.parametrize(
    ("graph", "message"),
    [
        ({"kk": 5}, "has neither k nor eps nor kind"),
        ({}, "has neither k nor eps nor kind"),
        ({"kind": "ring"}, "kind='ring' is unknown"),
        ({"k": 5, "memory": "1GB"}, "pass that to cluster itself"),
        (
            {"k": 5, "eps": 1.0},
            "'eps', which is not an option of knn: it takes metric, columns, k, mode, method, weights, seed",
        ),
        ({"kind": "eps"}, "has no eps"),
        ({"k": 5, "metric": "inner_product"}, "these edges have similarities: set weights='similarity'"),
        (15, "is not a dict"),
    ],
)
def test_refusals(graph: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(VECTORS, graph=graph, store=tmp_path / "run")
    assert not list(tmp_path.iterdir())


def test_inner_products_are_not_taken_for_distances(tmp_path: Path) -> None:
    inner = dask_rac.knn_graph(VECTORS, 5, "inner_product")
    stored = dask_rac.knn_graph(VECTORS, 5, "inner_product", store=tmp_path / "edges")
    for edges in (inner, stored, tmp_path / "edges"):
        for store in (None, tmp_path / "run"):
            with pytest.raises(dask_rac.InputError, match=r"weights='distance', but .* set weights='similarity'$"):
                dask_rac.cluster(edges, store=store)
            with pytest.raises(dask_rac.InputError, match="weights='distance', but"):
                dask_rac.cluster(edges, n_nodes=300, store=store)
        assert dask_rac.cluster(edges, weights="similarity").n_nodes == 300


def test_a_frame_whose_weights_were_turned_into_the_others_is_not_told_to_invert_them() -> None:
    near = dask_rac.knn_graph(VECTORS, 5)
    alike = near.assign(weight=near["weight"].max() - near["weight"])
    message = (
        r"edges.attrs\['weights'\] is 'distance', as the graph was made: if you have turned the weights into "
        r"similarities since, set edges.attrs\['weights'\] = 'similarity'; if not, set weights='distance'$"
    )
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(alike, weights="similarity")
    alike.attrs["weights"] = "similarity"
    assert dask_rac.cluster(alike, weights="similarity").n_nodes == 300
    near.attrs["weights"] = "kg"  # the user's own
    assert dask_rac.cluster(near).n_nodes == 300


@pytest.mark.filterwarnings("ignore:the graph has")
def test_vectors_without_an_edge_are_nodes(tmp_path: Path) -> None:
    far = np.vstack([VECTORS, [[1e3] * 4, [2e3] * 4]])
    frame = dask_rac.eps_graph(far, 0.3)
    stored = dask_rac.eps_graph(far, 0.3, store=tmp_path / "edges")
    for edges in (frame, stored, tmp_path / "edges"):
        assert dask_rac.cluster(edges).n_nodes == 302
        run = dask_rac.cluster(edges, store=tmp_path / f"run-{type(edges).__module__}")
        assert run.n_nodes == 302
    assert dask_rac.plan(tmp_path / "edges").nodes == 302


def test_the_same_call_gives_what_is_there(tmp_path: Path) -> None:
    first = dask_rac.knn_graph(VECTORS, 5, store=tmp_path / "edges").compute()
    events: list[Event] = []
    again = dask_rac.knn_graph(VECTORS, 5, store=tmp_path / "edges", progress=events.append)
    assert not events
    pd.testing.assert_frame_equal(again.compute(), first)


def test_edges_among_the_files_of_the_vectors(tmp_path: Path) -> None:
    for number in (0, 1, 10, 2):
        np.save(tmp_path / f"{number}.npy", VECTORS[number * 20 : number * 20 + 20])
    with pytest.raises(dask_rac.InputError, match="is inside the folder of the vectors"):
        dask_rac.knn_graph(tmp_path, 5, store=tmp_path / "edges")
    rows = np.concatenate([VECTORS[number * 20 : number * 20 + 20] for number in (0, 1, 2, 10)])
    pd.testing.assert_frame_equal(dask_rac.knn_graph(tmp_path, 5), dask_rac.knn_graph(rows, 5))


def test_a_recipe_refuses_inner_products_as_distances_before_it_starts(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS)
    text = "steps:\n  graph: {vectors: v.npy, k: 5, metric: inner_product}\n  cluster:\n"
    (tmp_path / "recipe.yaml").write_text(text)
    result = rac("run", "recipe.yaml", cwd=tmp_path)
    assert result.returncode == 2
    assert (
        "step 'cluster': weights: distance, but these edges have similarities: set weights: similarity" in result.stderr
    )
    assert not (tmp_path / "recipe").exists()
