"""The laws of engines for the one of all pairs: every path through a matrix gives the merges of naive HAC."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

import dask_rac
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.kernels.arrays import Merges
from dask_rac.results.clustering import Clustering
from tests.support.all_pairs import (
    KINDS,
    LINKAGES,
    PATHS,
    condensed_distances,
    grid_points,
    in_threads,
    merge_rows,
    oracle,
    pairs_within,
)
from tests.support.effort import examples
from tests.support.folders import no_fsync
from tests.support.results import assert_same, merges_frame

pytestmark = pytest.mark.usefixtures("compiled")

THREADS = st.sampled_from([1, 2, 3, 7])
EXACT = ("complete", "single")
"""Heights are weights of the input."""


@pytest.fixture(scope="module")
def compiled() -> None:
    """Compile before hypothesis looks at the time."""
    for linkage in LINKAGES:
        dask_rac.cluster(np.ones(3), linkage, metric="precomputed")


def heights_of(condensed: NDArray[np.float64], linkage: str, **options: Any) -> list[tuple[int, int, int, float]]:
    """The merges of naive HAC, heights as users see them."""
    unit = 0.5 if linkage == "ward" else 1.0
    merges = oracle(condensed, linkage, **options)
    return sorted((m.left, m.right, m.size, float(m.height) ** unit) for m in merges)


def assert_as_oracle(found: Clustering, condensed: NDArray[np.float64], linkage: str, **options: Any) -> None:
    """The same merges at the same heights; for ward, whose W is rounded, what is nearest but for the last bits."""
    rows, expected = merge_rows(found), heights_of(condensed, linkage, **options)
    if linkage == "ward":
        assert_greedy(found, condensed)
        assert len(rows) == len(expected)
    else:
        assert [row[:3] for row in rows] == [row[:3] for row in expected]
    heights, wanted = (sorted(row[3] for row in some) for some in (rows, expected))
    if linkage in EXACT:
        assert heights == wanted
    np.testing.assert_allclose(heights, wanted, rtol=1e-12, atol=1e-12)


def assert_greedy(found: Clustering, condensed: NDArray[np.float64]) -> None:
    """Each merge of ward linkage is one of the nearest two clusters, or would be without rounding."""
    squared = squareform(condensed**2)
    member = {node: np.eye(len(squared))[node] for node in range(len(squared))}
    for left, right, _, height in sorted(merge_rows(found), key=lambda row: (row[3], row[2])):
        names, sets = list(member), np.array(list(member.values()))
        sums, size = sets @ squared @ sets.T, sets.sum(axis=1)
        inner = np.diag(sums) / (2 * size)
        weights = 2 * (sums - np.outer(inner, size) - np.outer(size, inner)) / np.add.outer(size, size)
        least = weights[np.triu_indices(len(names), 1)].min()
        for seen in (height**2, weights[names.index(left), names.index(right)]):
            assert abs(seen - least) <= 1e-9 * condensed.max() ** 2
        member[left] = member[left] + member.pop(right)


@pytest.mark.kernels
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("linkage", LINKAGES)
def test_merges_are_those_of_naive_hac(linkage: str, path: str) -> None:
    @examples(20)
    @given(condensed_distances(18), THREADS)
    def check(condensed: NDArray[np.float64], threads: int) -> None:
        with in_threads(threads):
            assert_as_oracle(pairs_within(PATHS[path], condensed, linkage), condensed, linkage)

    check()


@pytest.mark.parametrize("linkage", LINKAGES)
@pytest.mark.parametrize("kind", KINDS)
def test_thirty_points_of_every_kind_merge_as_in_naive_hac(kind: str, linkage: str) -> None:
    condensed = KINDS[kind](30, np.random.default_rng(5))
    expected = pairs_within(PATHS["alone, few rows"], condensed, linkage)
    assert_as_oracle(expected, condensed, linkage)
    for limits in PATHS.values():
        with in_threads(3):
            assert merge_rows(pairs_within(limits, condensed, linkage)) == merge_rows(expected)


@pytest.mark.kernels
@pytest.mark.parametrize("linkage", LINKAGES)
def test_where_rounding_parts_ties_every_path_goes_on_to_the_same_tree(linkage: str) -> None:
    """A rounded W may fall in a merge; a nearest that is not searched for again would leave no pair reciprocal."""

    @examples(30)
    @given(st.integers(3, 40), st.integers(0, 2**32 - 1), st.sampled_from([0.1, 0.3, 1 + 2**-52]))
    def check(nodes: int, seed: int, unit: float) -> None:
        condensed = np.random.default_rng(seed).integers(1, 4, nodes * (nodes - 1) // 2) * unit
        found = []
        for limits in PATHS.values():
            with in_threads(2):
                found.append(pairs_within(limits, condensed, linkage))
        assert all(merge_rows(other) == merge_rows(found[0]) for other in found)
        assert found[0].n_trees == 1
        assert found[0].verify().merges == nodes - 1

    check()


@pytest.mark.parametrize("kind", ["grid", "gaps", "eighths"])
def test_ward_merges_as_naive_hac_where_rounding_decides_nothing(kind: str) -> None:
    for seed in range(8):
        condensed = KINDS[kind](14, np.random.default_rng(seed))
        for limits in PATHS.values():
            with in_threads(2):
                rows = merge_rows(pairs_within(limits, condensed, "ward"))
            assert [row[:3] for row in rows] == [row[:3] for row in heights_of(condensed, "ward")]


@pytest.mark.kernels
@examples(40)
@given(condensed_distances(16), st.sampled_from([0.0, 0.5, 1.0, 1.5, 4.0]), st.sampled_from(sorted(PATHS)))
def test_merges_end_at_the_largest_height(condensed: NDArray[np.float64], highest: float, path: str) -> None:
    for linkage in LINKAGES:
        bound = highest + 0.01 if linkage == "ward" else highest  # where no height is, as heights are rounded
        with in_threads(2):
            found = pairs_within(PATHS[path], condensed, linkage, max_height=bound)
        rows, expected = merge_rows(found), heights_of(condensed, linkage, max_height=bound)
        assert [row[:3] for row in rows] == [row[:3] for row in expected] or linkage == "ward"
        assert len(rows) == len(expected)
        assert all(row[3] <= bound for row in rows)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("linkage", LINKAGES)
def test_bits_are_those_of_one_thread(linkage: str, path: str) -> None:
    """Distances with all their bits, so that the order of additions would show; some are equal."""
    random = np.random.default_rng(3)
    points = random.standard_normal((160, 3))[random.integers(0, 160, 200)]
    with in_threads(1):
        expected = pairs_within(PATHS[path], points, linkage, metric="euclidean")
    for threads in (2, 3, 7):
        with in_threads(threads):
            assert_same(pairs_within(PATHS[path], points, linkage, metric="euclidean"), expected)


@pytest.mark.parametrize("linkage", LINKAGES)
def test_two_thousand_points_have_the_same_bits_in_any_number_of_threads(linkage: str) -> None:
    points = np.random.default_rng(4).standard_normal((2000, 2))
    points[1500:] = points[:500]
    found = []
    for threads in (1, 2, 3):
        with dask.config.set(num_workers=threads):
            found.append(dask_rac.cluster(points, linkage))
    assert_same(found[1], found[0])
    assert_same(found[2], found[0])
    assert sorted(found[0].merges["height"])[:500] == [0.0] * 500


@pytest.mark.parametrize("linkage", LINKAGES)
def test_in_a_store_and_on_workers_bits_are_the_same(linkage: str, client: Client, folder: Path) -> None:
    random = np.random.default_rng(8)
    for number, kind in enumerate(("grid", "eighths")):
        condensed = KINDS[kind](60, random)
        for limits in (Limits(), Limits(alone=1)):
            expected = pairs_within(limits, condensed, linkage)
            assert_same(pairs_within(limits, condensed, linkage, client=client), expected)
            for where in (None, client):
                with no_fsync(), tempfile.TemporaryDirectory(dir=folder) as name:
                    path = Path(name, f"{number}.npy")
                    np.save(path, squareform(condensed))
                    stored = pairs_within(limits, path, linkage, client=where, store=Path(name, "run"))
                    assert_same(stored, expected)
                    assert stored.verify().merges == 59


@pytest.mark.kernels
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_cluster_is_its_smallest_node_after_its_parts_and_no_lower(linkage: str, path: str) -> None:
    condensed = pdist(np.random.default_rng(6).standard_normal((120, 2)))
    with in_threads(3):
        found = pairs_within(PATHS[path], condensed, linkage)
    live, below = {node: {node} for node in range(120)}, dict.fromkeys(range(120), 0.0)
    for left, right, height, size in merges_frame(found)[["left", "right", "height", "size"]].itertuples(index=False):
        live[left] |= live.pop(right)
        assert (left, size) == (min(live[left]), len(live[left]))
        assert height >= max(below[left], below[right])
        below[left] = height
    assert found.n_trees == len(live) == 1


def changed(found: Clustering, place: int) -> Clustering:
    """The same with the height of one merge farther."""
    frame = merges_frame(found)
    merges = Merges(*(frame[name].to_numpy().copy() for name in Merges._fields))
    merges.height[place] += 0.25
    return Clustering(MergeList(found.n_nodes, merges, frame["round"].to_numpy(), []), found._settings)


@pytest.mark.parametrize("linkage", LINKAGES)
def test_an_audit_accepts_it_and_rejects_a_changed_height(linkage: str) -> None:
    @examples(20)
    @given(condensed_distances(25))
    def check(condensed: NDArray[np.float64]) -> None:
        found = dask_rac.cluster(condensed, linkage, metric="precomputed")
        assert found.verify().merges == found.verify(squareform(condensed)).merges == found.n_nodes - 1
        for place in (0, found.n_nodes - 2):
            with pytest.raises(dask_rac.AuditError):
                changed(found, place).verify(condensed)

    check()


def missing_for(linkage: str, weights: str) -> float | None:
    """The weight of missing pairs that a linkage asks for, though none is missing."""
    return {"distance": 1e6, "similarity": 0.0}[weights] if linkage == "weighted" else None


@pytest.mark.parametrize("linkage", ["average", "complete", "single", "weighted"])
@pytest.mark.parametrize("metric", ["manhattan", "sqeuclidean", "inner_product"])
def test_merges_on_a_grid_are_those_of_the_complete_graph(metric: str, linkage: str) -> None:
    """Sums of whole numbers are exact, so that ties are ties in both engines."""
    weights = "similarity" if metric == "inner_product" else "distance"
    for seed in range(4):
        points = grid_points(30, np.random.default_rng(seed)).astype(float)
        graph = dask_rac.complete_graph(points, metric)
        expected = merge_rows(dask_rac.cluster(graph, linkage, missing_for(linkage, weights), weights))
        for limits in PATHS.values():
            with in_threads(2):
                assert merge_rows(pairs_within(limits, points, linkage, metric=metric, weights=weights)) == expected


@pytest.mark.parametrize("linkage", ["average", "complete", "single", "weighted"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "inner_product"])
def test_merges_without_ties_are_those_of_the_complete_graph(metric: str, linkage: str) -> None:
    weights = "similarity" if metric == "inner_product" else "distance"
    points = np.random.default_rng(11).random((150, 4))
    graph = dask_rac.complete_graph(points, metric)
    expected = merge_rows(dask_rac.cluster(graph, linkage, missing_for(linkage, weights), weights))
    found = merge_rows(dask_rac.cluster(points, linkage, weights=weights, metric=metric))
    assert [row[:3] for row in found] == [row[:3] for row in expected]
    np.testing.assert_allclose([row[3] for row in found], [row[3] for row in expected], rtol=1e-12)


def test_one_point_and_two_equal_points_are_clustered() -> None:
    for linkage in LINKAGES:
        alone = dask_rac.cluster([[0.0]], linkage, metric="precomputed")
        assert (alone.n_nodes, alone.n_trees, len(alone.merges)) == (1, 1, 0)
        assert alone.verify().merges == 0
        assert alone.cut(n_clusters=1).tolist() == [0]
        assert len(dask_rac.cluster([[1.0, 2.0]], linkage).merges) == 0
        for given_points in ([[1.0, 2.0], [1.0, 2.0]], np.ones((2, 3), np.float32)):
            assert merge_rows(dask_rac.cluster(given_points, linkage)) == [(0, 1, 2, 0.0)]
