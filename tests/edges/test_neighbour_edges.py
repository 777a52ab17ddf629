"""`(indices, distances)` of libraries that search for neighbours are edges between each vector and its neighbours."""

from typing import Any

import faiss
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pynndescent import NNDescent
from sklearn.neighbors import NearestNeighbors

import dask_rac
from dask_rac.edges.neighbours import neighbour_edges
from tests.support.results import assert_same, merge_set
from tests.support.stored import Columns

VECTORS = np.random.default_rng(7).random((200, 6))
K = 5


@st.composite
def lists(draw: st.DrawFn) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Lists of neighbours with ties, gaps, loops, the same neighbour twice, and directions that disagree."""
    nodes, k = draw(st.integers(1, 7)), draw(st.integers(1, 4))
    index = draw(st.lists(st.integers(-1, nodes - 1), min_size=nodes * k, max_size=nodes * k))
    distance = draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 1.25]), min_size=nodes * k, max_size=nodes * k))
    return np.array(index, np.int64).reshape(nodes, k), np.array(distance).reshape(nodes, k)


def plain(index: NDArray[np.int64], distance: NDArray[np.float64]) -> dict[tuple[int, int], float]:
    """The smallest distance of each pair, entry by entry."""
    found: dict[tuple[int, int], float] = {}
    for (own, column), other in np.ndenumerate(index):
        if other not in (-1, own):
            pair = min(own, int(other)), max(own, int(other))
            found[pair] = min(found.get(pair, np.inf), float(distance[own, column]))
    return found


@given(lists())
def test_each_pair_once_with_its_smaller_distance(given: tuple[NDArray[np.int64], NDArray[np.float64]]) -> None:
    frame = neighbour_edges(given)
    expected = plain(*given)
    assert list(zip(frame["source"], frame["target"], strict=True)) == sorted(expected)
    assert frame["weight"].tolist() == [expected[pair] for pair in sorted(expected)]
    assert frame.attrs == {"n_nodes": len(given[0])}
    tree = dask_rac.cluster(given)
    assert tree.n_nodes == len(given[0])
    assert merge_set(tree) == merge_set(dask_rac.cluster(frame, n_nodes=len(given[0])))


@given(lists())
def test_what_stands_beside_no_neighbour_does_not_matter(given: tuple[NDArray[np.int64], NDArray[np.float64]]) -> None:
    index, distance = given
    other = np.where(index < 0, np.nan, distance)
    pd.testing.assert_frame_equal(neighbour_edges((index, other)), neighbour_edges(given))


def searched() -> dict[str, Any]:
    """What libraries return for the K nearest of each vector; some count the vector itself."""
    float32 = VECTORS.astype(np.float32)
    index = faiss.IndexFlatL2(VECTORS.shape[1])
    index.add(float32)
    squared, found = index.search(float32, K + 1)
    nearest = NearestNeighbors(n_neighbors=K).fit(VECTORS)
    return {
        "scikit-learn, with itself": NearestNeighbors(n_neighbors=K + 1).fit(VECTORS).kneighbors(VECTORS),
        "scikit-learn, others only": nearest.kneighbors(),
        "faiss": (found, np.sqrt(squared)),
    }


@pytest.mark.parametrize("library", searched())
def test_libraries_give_the_graph_of_the_nearest(library: str) -> None:
    exact = dask_rac.knn_graph(VECTORS, k=K)
    frame = neighbour_edges(searched()[library])
    pd.testing.assert_frame_equal(frame[["source", "target"]], _sorted(exact)[["source", "target"]], check_dtype=False)
    np.testing.assert_allclose(frame["weight"], _sorted(exact)["weight"], rtol=1e-3)
    tree = dask_rac.cluster(searched()[library])
    np.testing.assert_allclose(np.sort(tree.merges["height"]), np.sort(dask_rac.cluster(exact).merges["height"]), 1e-3)


def _sorted(edges: pd.DataFrame) -> pd.DataFrame:
    return edges.sort_values(["source", "target"], ignore_index=True)


@pytest.mark.soak
def test_pynndescent() -> None:
    tree = dask_rac.cluster(NNDescent(VECTORS, n_neighbors=K + 1, random_state=0).neighbor_graph)
    assert tree.n_nodes == len(VECTORS)


def test_order_of_the_two_and_width_of_their_numbers_do_not_matter(folder: Any) -> None:
    index, distance = searched()["scikit-learn, with itself"][::-1]
    expected = dask_rac.cluster((index, distance))
    assert_same(dask_rac.cluster((distance, index)), expected)
    assert_same(dask_rac.cluster((index.astype(np.uint32), distance)), expected)
    assert_same(dask_rac.cluster((index.tolist(), distance.tolist())), expected)
    stored = dask_rac.cluster((index, distance), store=folder / "run")
    assert merge_set(stored) == merge_set(expected)
    assert expected.verify((index, distance)).merges == stored.verify((index, distance)).merges


def test_similarities() -> None:
    index = np.array([[1, 2], [0, -1], [0, 1]])
    tree = dask_rac.cluster((index, np.array([[0.9, 0.2], [0.9, 0.0], [0.2, 0.3]])), weights="similarity")
    assert tree.merges["height"].tolist() == [0.9, 0.25]


FAULTS: dict[str, tuple[tuple[Any, Any], str]] = {
    "two columns": (([0, 1], [1, 2]), r"weights are missing: give \(source, target, weight\).*numpy.ones"),
    "two shapes": ((np.zeros((3, 2), int), np.zeros((3, 1))), r"two arrays of shapes \(3, 2\) and \(3, 1\) are not"),
    "ragged": (([[0], [1, 2]], [[1.0], [2.0]]), "rows of equal length"),
    "no indices": ((np.zeros((3, 2)), np.zeros((3, 2))), "indices must be integers"),
    "text": ((np.zeros((3, 2), int), np.full((3, 2), "a")), "distances numbers"),
    "of another set": (
        (np.array([[1], [7]]), np.zeros((2, 1))),
        "1 neighbours are not among the 2 vectors, first 7 in row 1",
    ),
    "below -1": ((np.array([[-2], [0]]), np.zeros((2, 1))), "first -2 in row 0, column 0"),
    "NaN": (
        (np.array([[1], [0]]), np.array([[np.nan], [1.0]])),
        "1 distances of neighbours are NaN, first that of 0 and 1",
    ),
    "negative": ((np.array([[1], [0]]), np.array([[-1.0], [1.0]])), "are negative, first that of 0 and 1"),
    "infinite": ((np.array([[1], [0]]), np.array([[np.inf], [1.0]])), "are infinite.*the index -1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_named(fault: str) -> None:
    given, message = FAULTS[fault]
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(given)


def test_three_columns_are_still_edges() -> None:
    edges: Columns = np.array([0]), np.array([1]), np.array([2.0])
    assert dask_rac.cluster(edges).merges["height"].tolist() == [2.0]
