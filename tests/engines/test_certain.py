"""Certain rounds: whatever they are told of the pairs, they merge what the matrix merges and nothing else."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from dask_rac.base.errors import InputError, ResourceError
from dask_rac.engines.certain import in_memory
from dask_rac.engines.certain.in_memory import merge_certain
from dask_rac.engines.certain.state import Reach, up_to
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.matrix.in_memory import pairs_bytes
from dask_rac.engines.near import NearPairs
from dask_rac.engines.start import single_nodes
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.opening import open_distances
from tests.support.all_pairs import in_threads, oracle
from tests.support.certain import (
    LINKAGES,
    METRICS,
    POINT_KINDS,
    any_distances,
    any_points,
    any_reach,
    by_matrix,
    certain_run,
    fixed,
    merge_set,
    near_lists,
    near_up_to,
    rounds_on,
    settings_of,
    vector_pairs,
)
from tests.support.effort import examples

EXACT_SUMS = ("sqeuclidean", "inner_product", "manhattan")
"""Of points with whole coordinates."""
SEEDS = st.integers(0, 2**32 - 1)


def whole(condensed: NDArray[np.float64], linkage: str, max_height: float | None = None) -> MergeList:
    """The merges of the matrix engine."""
    settings = settings_of(linkage, max_height=max_height)
    with Team(1) as team:
        return by_matrix(open_distances(condensed.copy()), settings, team)


def strangers(
    found: MergeList, expected: MergeList, linkage: str, rounding: float = 1e-12
) -> list[tuple[int, int, int]]:
    """Merges that are not among those expected, or at another height; by complete linkage heights are weights."""
    known = merge_set(expected)
    rounding = 0.0 if linkage == "complete" else rounding
    return [
        merge
        for merge, height in merge_set(found).items()
        if merge not in known or abs(known[merge] - height) > rounding * abs(height)
    ]


def assert_same(found: MergeList, expected: MergeList, linkage: str) -> None:
    """The same merges, by complete linkage to the last bit."""
    assert len(found.round) == len(expected.round)
    assert strangers(found, expected, linkage, 1e-9) == []


@pytest.mark.kernels
@pytest.mark.parametrize("linkage", LINKAGES)
def test_whatever_is_known_only_merges_of_the_matrix_are_certain(linkage: str) -> None:
    @examples(300)
    @given(SEEDS)
    def check(seed: int) -> None:
        condensed = any_distances(seed, 30)
        near, reach = any_reach(condensed, seed)
        nodes = len(squareform(condensed))
        with Team(1) as team:
            state, found = rounds_on(near, reach, nodes, linkage, team)
        assert len(state.live) == nodes - len(found.round)
        assert strangers(found, whole(condensed, linkage), linkage) == []

    check()


@pytest.mark.kernels
@examples(60)
@given(SEEDS, st.sampled_from(LINKAGES))
def test_with_all_pairs_rounds_give_the_whole_tree_of_naive_hac(seed: int, linkage: str) -> None:
    condensed = any_distances(seed, 14)
    nodes = len(squareform(condensed))
    for near, reach in (
        (near_up_to(condensed, condensed.max()), up_to(condensed.max())),
        (near_lists(condensed, nodes - 1), Reach(nodes - 1, np.inf)),
    ):
        with Team(1) as team:
            state, found = rounds_on(near, reach, nodes, linkage, team)
        assert len(state.live) == 1
        assert state.ended(np.inf)
    expected = {(m.left, m.right, m.size): float(m.height) for m in oracle(condensed, linkage)}
    if linkage == "complete":
        assert merge_set(found) == expected
    np.testing.assert_allclose(sorted(merge_set(found).values()), sorted(expected.values()), rtol=1e-12, atol=1e-12)


@pytest.mark.kernels
@examples(60)
@given(SEEDS, st.sampled_from(LINKAGES))
def test_certain_merges_end_at_the_largest_height(seed: int, linkage: str) -> None:
    condensed = any_distances(seed, 20)
    nodes, highest = len(squareform(condensed)), float(np.median(condensed))
    near, reach = any_reach(condensed, seed)
    with Team(1) as team:
        state, found = rounds_on(near, reach, nodes, linkage, team, highest)
    expected = whole(condensed, linkage, highest)
    assert strangers(found, expected, linkage) == []
    if state.ended(highest):
        assert len(found.round) == len(expected.round)


@pytest.mark.parametrize("linkage", LINKAGES)
def test_any_number_of_threads_gives_the_same_bits(linkage: str) -> None:
    points = any_points(3, 300, "densities", 3)
    condensed = pdist(points)
    for near, reach in (
        (near_up_to(condensed, float(np.quantile(condensed, 0.2))), up_to(float(np.quantile(condensed, 0.2)))),
        (near_lists(condensed, 40), Reach(40, np.inf)),
    ):
        bits = []
        for threads in (1, 2, 3, 7):
            with in_threads(threads), Team(threads) as team:
                found = rounds_on(near, reach, 300, linkage, team)[1]
            bits.append([column.tobytes() for column in (*found.merges, found.round)])
        assert len(found.round) > 30
        assert all(other == bits[0] for other in bits)


def wrong_merges(linkage: str, factor: float, more: int, lost: float) -> dict[str, int]:
    """How many runs merge wrongly: with radii times a factor, with lists said to be longer, with pairs lost."""
    wrong = dict.fromkeys(("factor", "more", "lost"), 0)
    for seed in range(60):
        condensed = pdist(any_points(seed, 40, "points", 2))
        expected, radius = whole(condensed, linkage), float(np.quantile(condensed, 0.2))
        near = near_up_to(condensed, radius)
        kept = np.random.default_rng(seed).random(len(near.weight)) >= lost
        told = {
            "factor": (near, up_to(factor * radius)),
            "more": (near_lists(condensed, 8), Reach(8 + more, 99.0)),
            "lost": (part(near, kept), up_to(radius)),
        }
        with Team(1) as team:
            for kind, (pairs, reach) in told.items():
                found = rounds_on(pairs, reach, 40, linkage, team)[1]
                wrong[kind] += bool(strangers(found, expected, linkage))
    return wrong


def part(near: NearPairs, kept: NDArray[np.bool_]) -> NearPairs:
    """Some near pairs."""
    return NearPairs(near.source[kept], near.target[kept], near.weight[kept])


@pytest.mark.parametrize("linkage", LINKAGES)
def test_bounds_that_are_wrong_would_be_noticed(linkage: str) -> None:
    """Tests that compare with the matrix are worth nothing if they pass with wrong bounds as well."""
    assert not any(wrong_merges(linkage, 1.0, 0, 0.0).values())
    wrong = wrong_merges(linkage, 1.2, 2, 0.05)
    if linkage == "complete":  # the largest of pairs up to a radius is not above it, so this changes nothing
        assert wrong.pop("factor") == 0
    assert min(wrong.values()) > 3


class TestWholeRuns:
    """Vectors to all merges, through near pairs, rounds, stages and the matrix."""

    @pytest.mark.parametrize("linkage", LINKAGES)
    @pytest.mark.parametrize("metric", METRICS)
    def test_merges_are_those_of_the_matrix(self, metric: str, linkage: str) -> None:
        settings = settings_of(linkage, metric)
        for seed, kind in enumerate(POINT_KINDS):
            points = any_points(seed, 80, kind)
            pairs = vector_pairs(points, metric)
            with Team(2) as team:
                expected = by_matrix(vector_pairs(points, metric), settings, team)
                triangle = np.empty(80 * 79 // 2)
                pairs.fill(triangle, team, lambda _: None)
                top = 0.0 if metric == "inner_product" else np.inf
                radius = min(float(np.quantile(triangle, 0.15)), top)
                for survey in (fixed(radius), fixed(k=9)):
                    found = certain_run(pairs, survey, settings, team)
                    if kind != "grid" or linkage == "complete" or metric in EXACT_SUMS:
                        assert_same(found, expected, linkage)
                    else:  # rounding decides between ties, and one leads to other heights than the other
                        assert len(found.round) == 79

    @pytest.mark.parametrize("linkage", LINKAGES)
    def test_stages_give_the_same_merges(self, linkage: str) -> None:
        settings = settings_of(linkage, "manhattan")
        limits = Limits(certain_share=0.0, stage_share=0.01, stage_sample=100)
        stages: list[int] = []
        stage = in_memory.CertainRun._stage

        def counted(run: in_memory.CertainRun) -> bool:
            stages.append(1)
            return stage(run)

        for seed, kind in enumerate(POINT_KINDS):
            points = any_points(seed, 400, kind, 3)
            with (
                Team(2) as team,
                mock.patch.object(in_memory.CertainRun, "_stage", counted),
            ):
                pairs = vector_pairs(points, "manhattan")
                expected = by_matrix(vector_pairs(points, "manhattan"), settings, team)
                found = certain_run(pairs, fixed(k=2), settings, team, pairs_bytes(180), limits)
            assert_same(found, expected, linkage)
        assert len(stages) >= 3

    @pytest.mark.parametrize("linkage", LINKAGES)
    def test_distances_at_a_path_are_read_in_bands(self, linkage: str, tmp_path: Path) -> None:
        condensed = pdist(any_points(5, 300, "densities", 3))
        np.save(tmp_path / "square.npy", squareform(condensed))
        np.save(tmp_path / "condensed.npy", condensed)
        settings, expected = settings_of(linkage), whole(condensed, linkage)
        limits = Limits(certain_share=0.0, stage_share=0.01, stage_sample=100)
        for name in ("square.npy", "condensed.npy"):
            for rest in (2**30, pairs_bytes(140)):
                with mock.patch("dask_rac.engines.certain.given_pairs.BAND_ENTRIES", 5_000), Team(2) as team:
                    pairs = open_distances(tmp_path / name)
                    survey = fixed(float(np.quantile(condensed, 0.05)))
                    assert_same(certain_run(pairs, survey, settings, team, rest, limits), expected, linkage)

    def test_distances_that_are_not_valid_are_refused_with_their_place(self, tmp_path: Path) -> None:
        for place, value in (((3, 7), np.nan), ((40, 20), -1.0), ((50, 10), 2.0)):
            square = squareform(pdist(any_points(5, 60, "points", 3)))
            square[place] = value
            np.save(tmp_path / "square.npy", square)
            pairs, settings = open_distances(tmp_path / "square.npy"), settings_of("complete")
            row = min(place) if value == 2 else place[0]
            with Team(1) as team, pytest.raises(InputError, match=f"row {row}, "):
                merge_certain(pairs, single_nodes(60), 2**26, settings, team, lambda _: None, Limits())

    @pytest.mark.parametrize("linkage", LINKAGES)
    @pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner_product"])
    def test_sparse_vectors(self, metric: str, linkage: str) -> None:
        random = np.random.default_rng(9)
        dense = random.random((90, 30)) * (random.random((90, 30)) < 0.2)
        dense[np.arange(90), random.integers(0, 30, 90)] = random.random(90) + 0.1
        sparse, settings = sp.csr_array(dense), settings_of(linkage, metric)
        with Team(2) as team:
            expected = by_matrix(vector_pairs(sparse, metric), settings, team)
            assert_same(certain_run(vector_pairs(sparse, metric), fixed(k=12), settings, team), expected, linkage)

    def test_nothing_is_reduced_where_the_largest_height_is_below_all_radii(self) -> None:
        settings = settings_of("complete", "euclidean", 0.5)
        points = any_points(1, 100, "points", 2)
        with Team(1) as team, mock.patch.object(in_memory, "reduced_triangle", mock.Mock(side_effect=AssertionError)):
            found = certain_run(vector_pairs(points, "euclidean"), fixed(0.7), settings, team)
            expected = by_matrix(vector_pairs(points, "euclidean"), settings, team)
        assert_same(found, expected, "complete")

    def test_clusters_that_never_merge_within_memory_are_refused_with_their_number(self) -> None:
        settings = settings_of("complete")
        equal = open_distances(np.ones(60 * 59 // 2))
        with Team(1) as team, pytest.raises(ResourceError, match=r"60 clusters are left .* set memory="):
            certain_run(equal, fixed(0.5), settings, team, pairs_bytes(20))
