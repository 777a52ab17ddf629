"""Suggested cuts: scales, strays, what is clear and what is not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris, load_wine, make_blobs

import dask_rac
from dask_rac.tree.suggestions import Scale, most_clusters, stray_size
from tests.support.graphs import run
from tests.support.strategies import Graph, graphs


def with_far_pairs(points: Any) -> dask_rac.Clustering:
    """Cluster points along their neighbours, with absent pairs at twice the largest distance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # several components
        edges = dask_rac.knn_graph(points, 15)
    found: dask_rac.Clustering = dask_rac.cluster(edges, missing=2 * float(edges["weight"].max()))
    return found


@given(graphs(), st.integers(2, 4))
def test_far_pairs_are_measured_by_how_far_below_they_are(graph: Graph, min_size: int) -> None:
    far = 2.0 + max((weight for *_, weight in graph.edges), default=0.0)
    found = run(graph, missing=far)
    cuts = found.suggest_cuts(100, min_size=min_size, max_clusters=max(2, graph.n_nodes))
    assert cuts["lifetime"].is_monotonic_decreasing
    assert cuts["large_clusters"].is_unique
    for cut in cuts.to_dict("records"):
        below = far - cut["start"], max(0.0, far - cut["end"]) if np.isfinite(cut["end"]) else 0.0
        if below[1] > 1e-9:
            assert np.isclose(cut["lifetime"], np.log(below[0] / below[1]))
        else:
            assert np.isinf(cut["lifetime"])
        assert cut["start"] <= cut["height"] <= cut["end"]
        labels = found.cut(height=cut["height"], min_size=min_size)
        assert labels.max() + 1 == cut["large_clusters"]
        assert 2 * np.count_nonzero(labels >= 0) >= graph.n_nodes
        assert found.cut(height=cut["start"], min_size=min_size).max() + 1 == cut["large_clusters"]


@pytest.mark.parametrize(("load", "classes"), [(load_wine, 3), (load_iris, 3)])
def test_real_classes_are_among_the_first_three(load: Any, classes: int) -> None:
    points = load().data
    if load is load_wine:
        points = (points - points.mean(axis=0)) / points.std(axis=0)
    found = with_far_pairs(points)
    assert classes in found.suggest_cuts(3)["large_clusters"].tolist()


@pytest.mark.parametrize("classes", [5, 12])
@pytest.mark.parametrize("linkage", ["ward", "far"])
def test_mixtures_are_found(classes: int, linkage: str) -> None:
    points = make_blobs(1_200, 8 if classes > 5 else 2, centers=classes, random_state=1)[0]
    found = with_far_pairs(points) if linkage == "far" else dask_rac.cluster(points, linkage)
    cuts = found.suggest_cuts(3)
    assert classes in cuts["large_clusters"].tolist()
    assert cuts["clear"].any()


def test_digits_are_about_ten() -> None:
    found = with_far_pairs(load_digits().data)
    assert found.suggest_cuts(2)["large_clusters"].between(9, 11).all()
    assert found.suggest_cuts(3, by="difference", min_size=1)["n_clusters"].min() > 50  # as all heights are near far


def test_points_without_clusters_have_no_clear_cut() -> None:
    points = np.random.default_rng(0).normal(size=(800, 5))
    for found in (with_far_pairs(points), dask_rac.cluster(points, "ward"), dask_rac.cluster(points, "average")):
        cuts = found.suggest_cuts()
        assert len(cuts)
        assert not cuts["clear"].any()


def test_the_trees_of_a_forest_come_first() -> None:
    edges = [0, 1, 2, 4, 5, 6], [1, 2, 3, 5, 6, 7], [1.0, 2.0, 3.0, 1.0, 2.5, 3.0]
    for weights, endless in (("distance", np.inf), ("similarity", -np.inf)):
        first = dask_rac.cluster(edges, "single", weights=weights).suggest_cuts().iloc[0]
        assert (first["n_clusters"], first["end"], first["lifetime"], first["clear"]) == (2, endless, np.inf, True)


def test_the_scale_follows_from_the_settings() -> None:
    edges = [0, 1, 2], [1, 2, 3], [1.0, 5.0, 9.0]
    assert dask_rac.cluster(edges, missing="ignore")._scale(None) == Scale("difference")
    assert dask_rac.cluster(edges, weights="similarity")._scale(None) == Scale("ratio")
    assert dask_rac.cluster(edges, "average", missing=20.0)._scale(None) == Scale("far", 20.0)
    assert dask_rac.cluster(edges, "single", missing=20.0)._scale(None) == Scale("difference")


def test_sizes_that_count() -> None:
    assert [stray_size(nodes) for nodes in (0, 3, 15, 16, 150, 1_797, 10**8)] == [1, 1, 1, 2, 6, 21, 50]
    assert [most_clusters(nodes) for nodes in (0, 3, 150, 10**8)] == [2, 2, 75, 5_000]
