"""Graphs with `weights="similarity"`: the cosines of the same pairs, by brute force."""

import json
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dask_rac
from tests.support.command import rac
from tests.support.results import assert_same

VECTORS = np.random.default_rng(3).normal(size=(80, 5)) + 0.7
GRAPHS: dict[str, dict[str, Any]] = {"knn": {"k": 6}, "eps": {"eps": 0.6}, "complete": {}}


def quietly(kind: str, vectors: Any, **options: Any) -> pd.DataFrame:
    """Build a graph; warnings about components and negative cosines are for another test."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        frame: pd.DataFrame = getattr(dask_rac, f"{kind}_graph")(vectors, metric="cosine", **options)
    return frame


def cosines(vectors: NDArray[np.float64], edges: pd.DataFrame) -> NDArray[np.float64]:
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    found: NDArray[np.float64] = (unit[edges["source"]] * unit[edges["target"]]).sum(axis=1)
    return found


@pytest.mark.parametrize("kind", ["knn", "complete"])
@pytest.mark.parametrize("form", [np.asarray, sp.csr_array, np.float32])
def test_weights_are_the_cosines_of_the_same_pairs(kind: str, form: Any) -> None:
    given = form(VECTORS)
    similar = quietly(kind, given, weights="similarity", **GRAPHS[kind])
    apart = quietly(kind, given, **GRAPHS[kind])
    near = apart[apart["weight"] <= 1].reset_index(drop=True)
    pd.testing.assert_frame_equal(similar.assign(weight=1 - similar["weight"]), near, check_exact=False, rtol=1e-9)
    np.testing.assert_array_equal(similar["weight"], 1 - near["weight"])
    np.testing.assert_allclose(similar["weight"], cosines(VECTORS, similar), atol=1e-6)
    assert similar.attrs["weights"] == similar.attrs["graph"]["weights"] == "similarity"
    assert similar.attrs["graph"]["dropped"] == len(apart) - len(near)


@given(st.integers(2, 9), st.integers(0, 10**6))
def test_eps_is_the_smallest_similarity(nodes: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).normal(size=(nodes, 3))
    edges = quietly("eps", vectors, eps=0.3, weights="similarity")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    wanted = [pair for pair in combinations(range(nodes), 2) if unit[pair[0]] @ unit[pair[1]] >= 0.3]
    assert list(zip(edges["source"], edges["target"], strict=True)) == wanted
    assert (edges["weight"] >= 0.3 - 1e-12).all()


def test_equal_vectors_have_exactly_one() -> None:
    edges = quietly("complete", np.array([[1.0, 2.0, 5.0]] * 3), weights="similarity")
    assert edges["weight"].tolist() == [1.0, 1.0, 1.0]


def test_pairs_with_a_negative_cosine_get_no_edge_and_a_warning() -> None:
    vectors = np.array([[1.0, 0.0], [-1.0, 0.1], [0.9, 0.1]])
    with (
        pytest.warns(UserWarning, match="the graph has 2 components"),
        pytest.warns(UserWarning, match="2 pairs have a negative cosine and got no edge"),
    ):
        edges = dask_rac.complete_graph(vectors, metric="cosine", weights="similarity")
    assert len(edges) == 1
    assert dask_rac.cluster(edges, weights="similarity").n_trees == 2


@pytest.mark.parametrize("kind", GRAPHS)
def test_what_the_metric_gives_is_the_default(kind: str) -> None:
    pd.testing.assert_frame_equal(
        quietly(kind, VECTORS, weights="distance", **GRAPHS[kind]), quietly(kind, VECTORS, **GRAPHS[kind])
    )


@pytest.mark.parametrize("kind", GRAPHS)
@pytest.mark.parametrize(
    ("metric", "weights", "message"),
    [
        ("euclidean", "similarity", "metric='euclidean' is a distance.*use metric='cosine'"),
        ("manhattan", "similarity", "metric='manhattan' is a distance"),
        ("inner_product", "distance", "metric='inner_product' is a similarity.*leave weights out"),
        ("cosine", "closeness", "weights='closeness' is unknown: use one of 'distance', 'similarity'"),
    ],
)
def test_what_a_metric_does_not_give_is_refused(kind: str, metric: str, weights: str, message: str) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        getattr(dask_rac, f"{kind}_graph")(VECTORS, metric=metric, weights=weights, **GRAPHS[kind])


def test_cluster_at_once(folder: Path) -> None:
    graph = {"k": 6, "metric": "cosine", "weights": "similarity"}
    expected = dask_rac.cluster(quietly("knn", VECTORS, k=6, weights="similarity"), weights="similarity")
    assert_same(dask_rac.cluster(VECTORS, graph=graph, weights="similarity"), expected)
    stored = dask_rac.cluster(VECTORS, graph=graph, weights="similarity", store=folder / "run")
    assert stored.verify().merges == len(expected.merges)
    with pytest.raises(dask_rac.InputError, match="weights='distance', but these edges have similarities: set weights"):
        dask_rac.cluster(VECTORS, graph=graph)
    with pytest.raises(dask_rac.InputError, match=r"have distances.*or weights='similarity' in graph=dict\(...\) as"):
        dask_rac.cluster(VECTORS, graph={"k": 6, "metric": "cosine"}, weights="similarity")


def test_an_error_never_advises_what_inverts_the_result() -> None:
    edges = dask_rac.knn_graph(np.abs(VECTORS), k=6, metric="cosine")
    turned = edges.assign(weight=1 - edges["weight"])
    message = (
        r"if you have turned the weights into similarities since, set edges.attrs\['weights'\] = 'similarity'; if not"
    )
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(turned, weights="similarity")
    turned.attrs["weights"] = "similarity"
    similar = dask_rac.knn_graph(np.abs(VECTORS), k=6, metric="cosine", weights="similarity")
    assert_same(dask_rac.cluster(turned, weights="similarity"), dask_rac.cluster(similar, weights="similarity"))


def test_a_graph_on_disk_states_its_weights(folder: Path) -> None:
    options: dict[str, Any] = {"k": 6, "metric": "cosine", "store": folder / "edges"}
    made = dask_rac.knn_graph(VECTORS, weights="similarity", **options)
    again = dask_rac.knn_graph(VECTORS, weights="similarity", **options)
    assert made.attrs["weights"] == again.attrs["weights"] == "similarity"
    with pytest.raises(dask_rac.InputError, match=r"another graph \(weights was 'similarity', is now 'distance'"):
        dask_rac.knn_graph(VECTORS, **options)
    with pytest.raises(dask_rac.InputError, match="these edges have similarities"):
        dask_rac.cluster(folder / "edges")


def test_graphs_of_earlier_versions_are_the_same_graphs(folder: Path) -> None:
    options: dict[str, Any] = {"k": 6, "metric": "cosine", "store": folder / "edges"}
    dask_rac.knn_graph(VECTORS, **options)
    record = json.loads((folder / "edges/_graph.json").read_text())
    assert "weights" not in json.loads(record["identity"])[0]
    del record["weights"]
    (folder / "edges/_graph.json").write_text(json.dumps(record))
    assert dask_rac.knn_graph(VECTORS, **options).attrs["weights"] == "distance"


def test_on_the_command_line_and_in_recipes(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS)
    done = rac("graph", "knn", "v.npy", "-o", "edges", "--metric", "cosine", "--weights", "similarity", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (tmp_path / "r.yaml").write_text(
        "folder: out\nsteps:\n  graph: {vectors: v.npy, k: 6, metric: cosine, weights: similarity}\n"
        "  cluster: {weights: similarity}\n"
    )
    done = rac("run", "r.yaml", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    recipe = (tmp_path / "r.yaml").read_text()
    (tmp_path / "r.yaml").write_text(recipe.replace("cluster: {weights: similarity}", "cluster: {}"))
    assert "weights: distance, but these edges have similarities" in rac("run", "r.yaml", cwd=tmp_path).stderr
