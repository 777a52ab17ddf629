"""Matrices of distances that are given as vectors or edges are refused, or warned about, with the remedy."""

import warnings
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

import dask_rac
from dask_rac.api.likeness import zeros_text

RNG = np.random.default_rng(0)
POINTS = RNG.random((30, 3))
TWINS = POINTS.copy()
TWINS[[5, 7]] = TWINS[4]
DISTANCES = squareform(pdist(TWINS))
REMEDY = r"looks like distances: pass metric='precomputed' if it is, or metric='euclidean' if its rows are vectors"


def in_forms(folder: Path) -> dict[str, Any]:
    """The matrix in all forms that are taken for vectors."""
    np.save(folder / "D.npy", DISTANCES)
    return {
        "array": DISTANCES,
        "list": DISTANCES.tolist(),
        "dask": da.from_array(DISTANCES, chunks=10),
        "zarr": zarr.array(DISTANCES),
        "npy": str(folder / "D.npy"),
    }


@pytest.mark.parametrize("form", ["array", "list", "dask", "zarr", "npy"])
def test_distances_are_not_taken_for_vectors(form: str, tmp_path: Path) -> None:
    matrix = in_forms(tmp_path)[form]
    with pytest.raises(dask_rac.InputError, match=REMEDY):
        dask_rac.cluster(matrix)
    expected = dask_rac.cluster(DISTANCES, metric="precomputed").merges
    pd.testing.assert_frame_equal(dask_rac.cluster(matrix, metric="precomputed").merges, expected)


@pytest.mark.parametrize("square", [RNG.random((30, 30)), np.ones((30, 30)), -DISTANCES])
def test_other_square_arrays_are_vectors(square: NDArray[np.float64]) -> None:
    assert dask_rac.cluster(da.from_array(square, chunks=10)).n_nodes == 30


def test_a_square_data_frame_is_not_taken_for_edges() -> None:
    names = [f"p{k}" for k in range(30)]
    frame = pd.DataFrame(DISTANCES, index=names, columns=names)
    with pytest.raises(dask_rac.InputError, match=r"looks like the distances of all pairs.*metric='precomputed'"):
        dask_rac.cluster(frame)
    expected = dask_rac.cluster(DISTANCES, metric="precomputed").merges
    pd.testing.assert_frame_equal(dask_rac.cluster(frame, metric="precomputed").merges, expected)


@pytest.mark.parametrize("form", [sp.csr_matrix, sp.csc_matrix, sp.coo_matrix, sp.lil_matrix])
@pytest.mark.parametrize("stored", [False, True])
def test_zeros_that_a_sparse_matrix_drops(form: Any, stored: bool, tmp_path: Path) -> None:
    matrix = form(DISTANCES)
    with pytest.warns(UserWarning, match=r"all but 3 of the 435 pairs.*metric='precomputed'"):
        dask_rac.cluster(matrix, store=tmp_path / "run" if stored else None)


@pytest.mark.parametrize(
    ("matrix", "options"),
    [
        pytest.param(sp.csr_matrix(squareform(pdist(POINTS))), {}, id="all pairs"),
        pytest.param(sp.csr_matrix(DISTANCES), {"weights": "similarity"}, id="similarities"),
        pytest.param(sp.csr_matrix(np.where(DISTANCES < 0.3, DISTANCES, 0)), {}, id="neighbours"),
        pytest.param(
            sp.csr_matrix(np.where(DISTANCES < 1.1, DISTANCES, 0) + np.eye(30)), {}, id="without the farthest"
        ),
    ],
)
def test_other_sparse_matrices_are_edges(matrix: sp.csr_matrix, options: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "dropped")
        dask_rac.cluster(matrix, **options)


@given(st.integers(0, 2**32 - 1), st.integers(12, 40), st.integers(0, 4))
def test_the_absent_pairs_are_those_at_distance_0(seed: int, n: int, copies: int) -> None:
    rng = np.random.default_rng(seed)
    points = rng.random((n, 2))
    points[rng.choice(n, copies, replace=False)] = points[0]
    distances = squareform(pdist(points))
    zeros = int((pdist(points) == 0).sum())
    text = zeros_text(sp.csr_array(distances), "distance")
    assert (f"all but {zeros:,} of" in text) == (zeros > 0)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_nearly_full_distances_are_no_sparse_vectors(metric: str) -> None:
    with pytest.raises(dask_rac.InputError, match=r"looks like distances: pass its toarray\(\)"):
        dask_rac.cluster(sp.csr_matrix(DISTANCES), metric=metric)
    with pytest.raises(dask_rac.InputError, match=r"toarray\(\)"):
        dask_rac.cluster(sp.csr_matrix(DISTANCES), metric="precomputed")
    with pytest.raises(dask_rac.InputError, match=r"y is a sparse matrix: pass y.toarray\(\)"):
        dask_rac.linkage(sp.csr_matrix(DISTANCES))


def test_the_rows_of_a_sparse_graph_may_be_vectors() -> None:
    graph = sp.csr_matrix(np.where(DISTANCES < 0.5, DISTANCES, 0))
    assert dask_rac.cluster(graph, metric="euclidean").n_trees == 1
    damaged = sp.csr_matrix(DISTANCES)
    damaged.indices[3] = 99
    with pytest.raises(dask_rac.InputError, match="damaged"):
        dask_rac.cluster(damaged, metric="euclidean")


def test_the_estimator_warns() -> None:
    estimator = dask_rac.RAC(linkage="average")
    with pytest.warns(UserWarning, match="rows are taken as samples: if it holds distances, set metric='precomputed'"):
        estimator.fit(DISTANCES)
    with pytest.raises(dask_rac.InputError, match="X is square and symmetric"):
        estimator.fit(sp.csr_matrix(DISTANCES))
    with pytest.warns(UserWarning, match="all but 3 of the 435 pairs"):
        dask_rac.RAC(linkage="average", metric="precomputed").fit(sp.csr_matrix(DISTANCES))


def test_similarities_and_condensed_distances_are_not_taken_for_vectors() -> None:
    points = np.random.default_rng(0).normal(size=(12, 4))
    for alike in (np.asarray(np.corrcoef(points)), 1 - squareform(pdist(points)) / 9):
        with pytest.raises(dask_rac.InputError, match=r"looks like similarities S: pass distances, S.max\(\) - S"):
            dask_rac.cluster(alike)
        assert dask_rac.cluster(alike, metric="euclidean").n_nodes == 12
    with pytest.raises(dask_rac.InputError, match="66 values are the distances of all pairs of 12 points"):
        dask_rac.cluster(pdist(points))
    assert dask_rac.cluster(np.eye(12)).n_nodes == 12
    with pytest.raises(dask_rac.InputError, match="does not go with metric='precomputed'"):
        dask_rac.cluster(alike, metric="precomputed", weights="similarity")
    with pytest.raises(dask_rac.InputError, match=r"use D \+ D.T if one triangle is empty"):
        dask_rac.cluster(np.tril(squareform(pdist(points))), metric="precomputed")
