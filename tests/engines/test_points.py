"""The points engine in memory: the merges of the matrix engine, or valid ones where ties leave a choice."""

from __future__ import annotations

from typing import Any
from unittest import mock

import fastcluster
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

import dask_rac
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.base.events import Event
from dask_rac.engines.contract import Expected, Limits, MergeList
from dask_rac.engines.given import GivenPairs
from dask_rac.engines.points.engine import PointsEngine
from dask_rac.engines.points.needs import points_bytes
from dask_rac.engines.start import Start, single_nodes
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.team import Team
from tests.support.effort import examples
from tests.support.points import (
    KINDS,
    PATHS,
    WAYS,
    as_seen,
    assert_same,
    merged,
    merged_points,
    pairs_of,
    rows_of,
    settings_of,
)
from tests.support.results import merges_frame

LIMITS = st.builds(
    Limits,
    alike=st.sampled_from([0, 2048, 2048, 2048]),
    near=st.integers(1, 6),
    lists=st.integers(1, 6),
    close_share=st.sampled_from([0.0, 0.7, 1.0]),
    query_rows=st.sampled_from([1, 5, 512]),
    query_tile=st.sampled_from([1, 40, 2**19]),
)


def by_matrix(points: NDArray[Any], way: tuple[str, str]) -> list[tuple[int, int, int, float]]:
    """The merges of the matrix engine."""
    weights = "similarity" if way[1] == "inner_product" else "distance"
    found = dask_rac.cluster(points, way[0], weights=weights, metric=way[1])
    frame = merges_frame(found)[["left", "right", "size", "height"]]
    return sorted(frame.itertuples(index=False, name=None))


def assert_close(found: MergeList, expected: list[tuple[int, int, int, float]], scale: float = 0.0) -> None:
    """The same merges, heights but for rounding."""
    rows = rows_of(found)
    assert [row[:3] for row in rows] == [row[:3] for row in expected]
    heights, wanted = ([row[3] for row in some] for some in (rows, expected))
    np.testing.assert_allclose(heights, wanted, rtol=1e-9, atol=1e-9 * scale)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_merges_are_those_of_the_matrix(kind: str, way: tuple[str, str]) -> None:
    @examples(40)
    @given(st.integers(1, 90), st.integers(1, 12), st.integers(0, 2**32 - 1), LIMITS, st.sampled_from([1, 2, 3]))
    def check(nodes: int, dimensions: int, seed: int, limits: Limits, threads: int) -> None:
        dimensions = max(dimensions, 2 + (kind == "line")) if way[1] == "cosine" else dimensions
        points = KINDS[kind](nodes, dimensions, np.random.default_rng(seed))
        if seed % 2 and kind != "far from zero":
            points = (points * (1e20 if kind == "small" else 1.0)).astype(np.float32)
        far = float(np.square(points.astype(np.float64)).sum(axis=1).max())
        offset = kind == "far from zero" and way[1] in ("cosine", "inner_product")
        if not offset:  # differences are in the last digits: rounding decides, and both results are valid
            assert_close(merged_points(points, way, limits, threads), by_matrix(points, way), 1e-6 * far)

    check()


@pytest.mark.parametrize("dimensions", [1, 2, 8, 9, 64, 300])
def test_any_number_of_dimensions(dimensions: int) -> None:
    random = np.random.default_rng(dimensions)
    for way in WAYS:
        if dimensions > 1 or way[1] != "cosine":
            points = random.standard_normal((150, dimensions)).astype(np.float32)
            assert_close(merged_points(points, way, threads=2), by_matrix(points, way), 1.0)


@pytest.mark.parametrize("kind", ["one cloud", "densities", "outliers"])
def test_heights_are_those_of_fastcluster(kind: str) -> None:
    points = KINDS[kind](600, 10, np.random.default_rng(1))
    found = merged_points(points, ("ward", "euclidean"), threads=2)
    expected = fastcluster.linkage_vector(points, "ward")[:, 2]
    np.testing.assert_allclose(np.sort(found.merges.height), expected, rtol=1e-9)
    found = merged_points(points, ("average", "sqeuclidean"), threads=2)
    expected = fastcluster.linkage(pdist(points, "sqeuclidean"), "average")[:, 2]
    np.testing.assert_allclose(np.sort(found.merges.height), expected, rtol=1e-9)


@pytest.mark.parametrize("way", WAYS)
def test_bits_do_not_depend_on_limits_or_threads(way: tuple[str, str]) -> None:
    """Where ties are, rounding decides: all the more every path must round in the same way."""
    random = np.random.default_rng(2)
    for points in (
        random.integers(0, 5, (90, 3)) + 1.0,
        random.integers(1, 4, (90, 5)) * 0.1,
        np.repeat(random.standard_normal((50, 3)), 2, axis=0),
        KINDS["densities"](150, 4, random),
    ):
        expected = merged_points(points, way)
        for threads, limits in enumerate(PATHS.values(), 1):
            assert_same(merged_points(points, way, limits, threads), expected)


def greedy_excess(found: MergeList, points: NDArray[np.floating], way: tuple[str, str]) -> float:
    """By how much the pair of any merge is farther than the nearest pair at that moment, from the definitions."""
    metric: Any = "sqeuclidean" if way[0] == "ward" else way[1]
    weights = -(points @ points.T) if metric == "inner_product" else squareform(pdist(points, metric))
    member = {node: np.eye(len(points))[node] for node in range(len(points))}
    worst = 0.0
    merges = sorted(rows_of(found), key=lambda row: (-row[3] if metric == "inner_product" else row[3], row[2]))
    for left, right, size, height in merges:
        names, sets = list(member), np.array(list(member.values()))
        sums, sizes = sets @ weights @ sets.T, sets.sum(axis=1)
        if way[0] == "ward":
            inner = np.diag(sums) / (2 * sizes)
            between = 2 * (sums - np.outer(inner, sizes) - np.outer(sizes, inner)) / np.add.outer(sizes, sizes)
        else:
            between = sums / np.outer(sizes, sizes)
        least = between[np.triu_indices(len(names), 1)].min()
        own = between[names.index(left), names.index(right)]
        seen = height**2 if way[0] == "ward" else -height if metric == "inner_product" else height
        worst = max(worst, abs(own - least), abs(own - seen))
        member[left] = member[left] + member.pop(right)
        assert member[left].sum() == size
    return worst / max(1.0, float(np.abs(weights).max()))


@pytest.mark.kernels
@pytest.mark.parametrize("way", WAYS)
def test_on_grids_each_merge_is_of_a_nearest_pair(way: tuple[str, str]) -> None:
    @examples(40)
    @given(st.integers(2, 24), st.integers(1, 3), st.integers(0, 2**32 - 1), LIMITS)
    def check(nodes: int, dimensions: int, seed: int, limits: Limits) -> None:
        points = np.random.default_rng(seed).integers(0, 4, (nodes, dimensions)) + float(way[1] == "cosine")
        found = merged_points(points, way, limits)
        assert len(found.round) == nodes - 1
        assert greedy_excess(found, points, way) < 1e-9

    check()


@pytest.mark.parametrize("linkage", ["ward", "average"])
def test_clusters_of_several_nodes_merge_as_copies_of_a_vector_would(linkage: str) -> None:
    way = ("ward", "euclidean") if linkage == "ward" else ("average", "sqeuclidean")

    @examples(40)
    @given(st.integers(2, 40), st.integers(1, 5), st.integers(0, 2**32 - 1), LIMITS)
    def check(clusters: int, dimensions: int, seed: int, limits: Limits) -> None:
        random = np.random.default_rng(seed)
        points = random.standard_normal((clusters, dimensions))
        nodes = random.permutation(np.repeat(np.arange(clusters), random.integers(1, 9, clusters)))
        found = merged_points(points[nodes], way, limits)
        expected = by_matrix(points[nodes], way)
        if linkage == "average":
            assert_close(found, expected, 1.0)
        else:  # the matrix engine leaves W of copies a last bit above 0
            heights = np.sort([row[3] for row in expected])
            np.testing.assert_allclose(np.sort(found.merges.height), heights, rtol=1e-6, atol=1e-6)

    check()


def test_a_start_names_clusters_by_their_smallest_node() -> None:
    points = np.array([[0.0], [10.0], [11.0]])
    start = Start(np.array([0, 1, 4]), np.array([2.0, 3.0, 1.0]), np.array([0, 5, 1, 2, 3, 4]), np.array([0, 2, 5, 6]))
    found = merged(pairs_of(points, "average", "sqeuclidean"), settings_of("average", "sqeuclidean"), start)
    assert rows_of(found) == [(0, 1, 6, (3 * 100 + 121) / 4), (1, 4, 4, 1.0)]
    assert (found.nodes, found.round.tolist()) == (6, [1, 2])


@pytest.mark.kernels
@pytest.mark.parametrize("way", WAYS)
def test_one_two_and_three_vectors(way: tuple[str, str]) -> None:
    for nodes in (1, 2, 3):
        points = np.random.default_rng(nodes).random((nodes, 2))
        for limits in PATHS.values():
            found = merged(pairs_of(points, *way), settings_of(*way), limits=limits)
            assert_close(found, by_matrix(points, way) if nodes > 1 else [])


@pytest.mark.parametrize("way", WAYS)
def test_merges_end_at_the_largest_height(way: tuple[str, str]) -> None:
    random = np.random.default_rng(7)
    points = random.random((80, 4)) + 0.1
    heights = np.sort(merged_points(points, way).merges.height)
    for bound in (heights[0] / 2, heights[30], (heights[40] + heights[41]) / 2, 2 * heights[-1]):
        settings = settings_of(*way, max_height=float(bound))
        expected = None
        for limits in PATHS.values():
            found = merged(pairs_of(points, *way), settings, limits=limits)
            if way[1] == "inner_product":
                assert len(found.round) == np.count_nonzero(heights >= bound)
            elif bound != heights[30] or way[0] != "ward":  # where rounding of the root decides
                assert len(found.round) == np.count_nonzero(heights <= bound)
            expected = expected or found
            assert_same(found, expected)


@pytest.mark.parametrize("way", WAYS[:2])
def test_what_float32_cannot_tell_apart_is_told_apart(way: tuple[str, str]) -> None:
    random = np.random.default_rng(9)
    points = np.concatenate([random.random((60, 2)) * 1e-9, 1e3 + random.random((60, 2)), random.random((5, 2)) * 1e5])
    found = merged_points(points, way, Limits(near=2, lists=2, alike=0))
    assert_close(found, by_matrix(points, way), 1.0)
    low = [row for row in rows_of(found) if row[3] < 1e-6]
    assert len(low) == 59


def test_all_pairs_equally_far_apart_have_one_tree() -> None:
    points = np.eye(40)
    for way in WAYS[:3]:
        found = merged_points(points, way)
        assert len(found.round) == 39
        assert greedy_excess(found, points, way) < 1e-9
        for limits in PATHS.values():
            assert_same(merged_points(points, way, limits), found)


def test_a_far_point_that_takes_every_round_alone() -> None:
    """Gaps that double: each round merges one pair."""
    points = 2.0 ** np.arange(30)[:, None]
    for way in WAYS[:2]:
        found = merged_points(points, way, Limits(near=2, lists=3, alike=0))
        assert_close(found, by_matrix(points, way))
        assert found.round.tolist() == list(range(1, 30))


def test_rounds_are_reported() -> None:
    events: list[Event] = []
    points = np.random.default_rng(3).random((300, 4))
    settings = settings_of("ward", "euclidean")
    found = merged(pairs_of(points, "ward", "euclidean"), settings, report=events.append)
    seen = [event for event in events if event.stage == "round"]
    assert [event.record for event in seen][1:] == list(found.records)[1:]
    assert seen[-1].merges == 299
    assert [record.round for record in found.records] == list(range(1, len(seen) + 1))
    assert sum(record.merges for record in found.records) == 299


def test_what_the_engine_is_for() -> None:
    dense, sparse = (Expected(3, 3, "float64", 0, dimensions=2, sparse=kind) for kind in (False, True))
    suits = PointsEngine().suits
    for way in WAYS:
        assert suits(dense, settings_of(*way))
        assert not suits(sparse, settings_of(*way))
    assert not suits(dense, settings_of("average", "euclidean"))
    assert not suits(dense, settings_of("complete", "cosine"))


def test_too_little_memory_is_refused_before_anything_is_computed() -> None:
    pairs, settings = pairs_of(np.ones((1000, 50)), "ward", "euclidean"), settings_of("ward", "euclidean")
    needed = points_bytes(1000, 50, 1, Limits())
    with Team(1) as team, pytest.raises(ResourceError, match=r"1,000 vectors with 50 dimensions need .* set memory="):
        PointsEngine().in_memory(
            GivenPairs(pairs, single_nodes(1000), needed - 1), settings, team, lambda _: None, Limits()
        )


def test_an_engine_has_the_members_of_one() -> None:
    engine, settings = PointsEngine(), settings_of("ward", "euclidean")
    points = np.random.default_rng(5).random((50, 3))
    with Team(1) as team:
        given_pairs = GivenPairs(pairs_of(points, "ward", "euclidean"), single_nodes(50), 2**28)
        found = as_seen(engine.in_memory(given_pairs, settings, team, lambda _: None, Limits()), settings)
    assert_same(found, merged_points(points, ("ward", "euclidean")))
    sizes = engine.sizes(Expected(10**6, 10**12, "float64", 0, dimensions=128), settings, None, Budget(6 * 10**9, 1, 2))
    assert 2 * 10**9 < sizes.memory < 4 * 10**9
    with pytest.raises(ResourceError, match="set memory="):
        engine.sizes(Expected(10**6, 10**12, "float64", 0, dimensions=128), settings, None, Budget(10**9, 1, 2))
    with pytest.raises(InputError):
        engine.pieces(mock.Mock(), False, mock.Mock())
