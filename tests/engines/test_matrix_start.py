"""The matrix engine from clusters of several nodes: the same merges as from single nodes, less those made before."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import MergeList
from dask_rac.engines.matrix.in_memory import merge_reduced, merge_triangle
from dask_rac.engines.start import Start, single_nodes
from dask_rac.tasks.team import Team
from tests.reference import Merge, hash64
from tests.support.all_pairs import LINKAGES, PATHS, condensed_distances, in_threads, oracle
from tests.support.effort import examples

SEEDS = st.integers(0, 2**32 - 1)
WAYS = st.sampled_from([*PATHS.values()])


def start_of(label: NDArray[Any]) -> Start:
    """The clusters of nodes with the same label."""
    _, first, inverse = np.unique(label, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first))[inverse]
    size = np.bincount(rank)
    begin = np.concatenate(([0], np.cumsum(size)))
    return Start(np.sort(first), size.astype(float), np.argsort(rank, kind="stable"), begin)


def labels_after(nodes: int, merges: list[Merge]) -> NDArray[np.int64]:
    """The smallest node of the cluster of each node after some merges."""
    label = np.arange(nodes)
    for merge in merges:
        label[label == merge.right] = merge.left
    return label


def assert_merges(found: MergeList, linkage: str, expected: list[Merge]) -> None:
    """Whether these are the expected merges, in any order."""
    height = found.merges.height**2 if linkage == "ward" else found.merges.height
    columns = found.merges.left, found.merges.right, found.merges.size, height
    rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
    wanted = sorted((merge.left, merge.right, merge.size, float(merge.height)) for merge in expected)
    assert [row[:3] for row in rows] == [row[:3] for row in wanted]
    np.testing.assert_allclose([row[3] for row in rows], [row[3] for row in wanted], rtol=1e-12)


def shares_of(nodes: int, merges: list[Merge]) -> NDArray[np.float64]:
    """What each node counts for in its cluster by weighted linkage."""
    share, label = np.ones(nodes), np.arange(nodes)
    for merge in merges:
        united = (label == merge.left) | (label == merge.right)
        share[united] /= 2
        label[united] = merge.left
    return share


def reduced(
    condensed: NDArray[np.float64], start: Start, linkage: str, share: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The triangle of clusters."""
    square = squareform(condensed, checks=False)
    sets = np.split(start.member, start.begin[1:-1])

    def entry(a: NDArray[Any], b: NDArray[Any]) -> float:
        between = square[np.ix_(a, b)]
        if linkage in ("average", "weighted"):
            weight = share if linkage == "weighted" else np.ones(len(share))
            return float(weight[a] @ between @ weight[b])
        return float(between.max())

    last = len(sets) - 1
    entries = [entry(sets[last - s], sets[last - t]) for s in range(len(sets)) for t in range(s)]
    return np.array(entries, float)


@pytest.mark.kernels
@pytest.mark.parametrize("linkage", ["average", "complete", "weighted"])
def test_rounds_go_on_from_the_clusters_of_earlier_merges(linkage: str) -> None:
    @examples(60)
    @given(condensed_distances(25), st.floats(0, 1), WAYS, st.sampled_from([1, 3]))
    def check(condensed: NDArray[np.float64], done: float, limits: Any, threads: int) -> None:
        merges = oracle(condensed, linkage)
        nodes = len(merges) + 1
        made = merges[: int(done * len(merges))]
        start = start_of(labels_after(nodes, made))
        triangle = reduced(condensed, start, linkage, shares_of(nodes, made))
        settings = checked_settings(linkage, None, "distance", metric="precomputed")
        with in_threads(threads), Team(threads) as team:
            found = merge_reduced(triangle, start, settings, team, lambda _: None, limits)
        assert found.nodes == nodes
        assert_merges(found, linkage, merges[len(made) :])

    check()


@pytest.mark.kernels
@pytest.mark.parametrize("linkage", LINKAGES)
def test_equal_vectors_may_be_merged_before(linkage: str) -> None:
    @examples(60)
    @given(SEEDS, st.integers(2, 30), WAYS, st.sampled_from([1, 3]))
    def check(seed: int, nodes: int, limits: Any, threads: int) -> None:
        random = np.random.default_rng(seed)
        points = random.integers(0, 4, (nodes, random.integers(1, 4)))
        condensed = pdist(points, "cityblock")
        _, label = np.unique(points, axis=0, return_inverse=True)
        start = start_of(label)
        triangle = pdist(points[start.ids], "cityblock")[::-1] ** (2 if linkage == "ward" else 1)
        settings = checked_settings(linkage, None, "distance", metric="precomputed")
        with in_threads(threads), Team(threads) as team:
            found = merge_triangle(triangle.copy(), start, settings, team, lambda _: None, limits)
        made = len(points) - len(start.ids)
        rest = [merge for merge in oracle(condensed, linkage) if merge.height > 0]
        assert len(rest) == len(points) - 1 - made
        assert_merges(found, linkage, rest)
        if linkage == "single":
            check_ends(found, condensed, label)

    def check_ends(found: MergeList, condensed: NDArray[np.float64], label: NDArray[np.int64]) -> None:
        """Each end is in its cluster, and no edge between the two clusters comes before."""
        assert found.ends is not None
        square, live = squareform(condensed), label.copy()
        for source, target, height in zip(*found.ends, found.merges.height, strict=True):
            one, other = np.flatnonzero(live == live[source]), np.flatnonzero(live == live[target])
            edges = [(square[u, v], hash64(u, v), {u, v}) for u in one.tolist() for v in other.tolist()]
            assert square[source, target] == height
            assert min(edges, key=lambda edge: edge[:2])[2] == {source, target}
            live[other] = live[source]

    check()


def test_ward_from_equal_vectors_weighs_them_by_their_number() -> None:
    start = start_of(np.array([0, 0, 0, 1]))
    settings = checked_settings("ward", None, "distance", metric="precomputed")
    with Team(1) as team:
        found = merge_triangle(np.array([4.0]), start, settings, team, lambda _: None, PATHS["threads"])
    assert found.merges.height[0] ** 2 == pytest.approx(float(Fraction(2 * 3 * 4, 4)))
    assert (found.merges.left[0], found.merges.right[0], found.merges.size[0]) == (0, 3, 4)


def test_one_cluster_needs_no_round() -> None:
    for linkage in LINKAGES:
        settings = checked_settings(linkage, None, "distance", metric="precomputed")
        for start in (single_nodes(1), start_of(np.zeros(5, int))):
            with Team(1) as team:
                found = merge_triangle(np.empty(0), start, settings, team, lambda _: None, PATHS["threads"])
            assert (found.nodes, len(found.merges.left), len(found.records)) == (start.nodes, 0, 0)
