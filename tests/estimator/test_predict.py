"""New samples get the label of the nearest cluster of the fit."""

from __future__ import annotations

from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.metrics import pairwise_distances
from sklearn.neighbors import KNeighborsClassifier, kneighbors_graph
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dask_rac import RAC, InputError
from tests.support.estimators import samples

pytestmark = pytest.mark.filterwarnings("ignore:one cluster holds")  # most samples here are noise, without clusters

OLD, NEW = samples(120), samples(40, seed=1)


def means(fitted: RAC, distances: Any) -> list[int]:
    """The cluster with the smallest mean distance."""
    columns = [distances[:, fitted.labels_ == label].mean(axis=1) for label in range(fitted.n_clusters_)]
    labels: list[int] = np.column_stack(columns).argmin(axis=1).tolist()
    return labels


def test_far_blobs_are_found_again_by_every_linkage() -> None:
    X, y = make_blobs(300, centers=4, cluster_std=0.3, random_state=3)
    for linkage in ("single", "complete", "average", "weighted", "ward"):
        fitted = RAC(4, linkage=linkage).fit(X[:200])
        names = {label: y[:200][fitted.labels_ == label][0] for label in range(4)}
        assert [names[label] for label in fitted.predict(X[200:])] == y[200:].tolist()


def test_single_linkage_is_the_nearest_neighbour() -> None:
    fitted = RAC(12, linkage="single").fit(OLD)
    neighbour = KNeighborsClassifier(1).fit(OLD, fitted.labels_)
    assert fitted.predict(NEW).tolist() == neighbour.predict(NEW).tolist()
    assert fitted.predict(OLD).tolist() == fitted.labels_.tolist()


@pytest.mark.parametrize("metric", ["euclidean", "l1", "cosine", "chebyshev"])
def test_average_linkage_by_any_metric(metric: str) -> None:
    fitted = RAC(6, linkage="average", metric=metric).fit(OLD)
    assert fitted.predict(NEW).tolist() == means(fitted, pairwise_distances(NEW, OLD, metric=metric))


@pytest.mark.parametrize(
    "more",
    [{"n_neighbors": 12}, {"eps": 2.5}, {"connectivity": kneighbors_graph(OLD, 12)}],
    ids=lambda more: next(iter(more)),
)
def test_after_a_graph_all_samples_of_a_cluster_count(more: dict[str, Any]) -> None:
    fitted = RAC(5, linkage="average", **more).fit(OLD)
    assert fitted.predict(NEW).tolist() == means(fitted, pairwise_distances(NEW, OLD))


def test_distances_to_the_samples_of_the_fit() -> None:
    fitted = RAC(6, linkage="average", metric="precomputed").fit(pairwise_distances(OLD))
    assert (
        fitted.predict(pairwise_distances(NEW, OLD)).tolist()
        == RAC(6, linkage="average").fit(OLD).predict(NEW).tolist()
    )
    with pytest.raises(ValueError, match="40 features, but RAC is expecting 120 features"):
        fitted.predict(pairwise_distances(NEW))
    near = kneighbors_graph(OLD, 15, mode="distance")
    along = RAC(6, linkage="average", metric="precomputed").fit(near.maximum(near.T))
    assert along.predict(pairwise_distances(NEW, OLD)).tolist() == means(along, pairwise_distances(NEW, OLD))
    with pytest.raises(InputError, match="X is sparse, and a new sample needs its distance to every sample of fit"):
        along.predict(near)


def test_a_threshold_numbers_clusters_as_the_fit_does() -> None:
    fitted = RAC(None, distance_threshold=1.5, linkage="average").fit(OLD)
    assert fitted.n_clusters_ > 3
    assert fitted.predict(NEW).tolist() == means(fitted, pairwise_distances(NEW, OLD))


def test_sparse_dask_and_single_precision() -> None:
    dense = RAC(5).fit(OLD)
    expected = dense.predict(NEW).tolist()
    sparse = RAC(5).fit(sp.csr_array(OLD))
    assert sparse.predict(sp.csr_array(NEW)).tolist() == sparse.predict(NEW).tolist() == expected
    assert dense.predict(sp.csr_array(NEW)).tolist() == expected
    assert RAC(5).fit(da.from_array(OLD, chunks=50)).predict(da.from_array(NEW, chunks=9)).tolist() == expected
    single = RAC(5).fit(OLD.astype(np.float32))
    assert single.predict(NEW.astype(np.float32)).dtype == np.int64


def test_in_a_pipeline() -> None:
    model = make_pipeline(StandardScaler(), RAC(4)).fit(OLD)
    assert model.predict(NEW).tolist() == model[-1].predict(model[0].transform(NEW)).tolist()


def test_refusals() -> None:
    with pytest.raises(NotFittedError):
        RAC().predict(NEW)
    with pytest.raises(ValueError, match="2 features, but RAC is expecting 3 features"):
        RAC().fit(OLD).predict(NEW[:, :2])
    with pytest.raises(InputError, match="metric is a function"):
        RAC(linkage="average", metric=pairwise_distances).fit(OLD).predict(NEW)
