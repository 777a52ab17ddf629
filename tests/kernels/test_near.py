"""The kernels of certain rounds: after every round, entries and radii are what the proof in the docs says they are."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import squareform

from dask_rac.engines.certain.round import certain_round
from dask_rac.engines.certain.state import CertainState, first_state
from dask_rac.engines.near import NearPairs
from dask_rac.engines.start import Start, single_nodes
from dask_rac.kernels.arrays import empty_merges
from dask_rac.kernels.matrix.weights import LARGEST, MEAN, WEIGHTED
from dask_rac.kernels.near.arrays import Arena, Rows
from dask_rac.kernels.near.fold import close_gaps
from dask_rac.kernels.near.given import Clustered, count_within, reduce_band, take_within
from dask_rac.tasks.team import Team
from tests.reference import edge_tie
from tests.support.certain import LINKAGES, any_distances, any_reach, settings_of
from tests.support.effort import examples

pytestmark = pytest.mark.kernels

SEEDS = st.integers(0, 2**32 - 1)


def true_height(state: CertainState, square: NDArray[np.float64], a: list[int], b: list[int]) -> float:
    """W of two clusters, given by their nodes."""
    block = square[np.ix_(a, b)]
    if state.code == LARGEST:
        return float(block.max())
    if state.code == MEAN:
        return float(block.mean())
    return float(state.share[a] @ block @ state.share[b])


def entries_of(state: CertainState) -> dict[tuple[int, int], tuple[float, bool, int]]:
    """Value, exactness and tie of all entries, by the slots of their row and of the other cluster."""
    found = {}
    for i in state.live.tolist():
        for e in range(state.rows.start[i], state.rows.start[i] + state.rows.length[i]):
            other, value, tie = (column[e].item() for column in state.arena)
            found[i, other if other >= 0 else ~other] = value, other >= 0, tie
    return found


def assert_sound(state: CertainState, square: NDArray[np.float64]) -> None:
    """Every pair of clusters has an entry that does not say too much, or is as far apart as its radii say."""
    entries, slack = entries_of(state), 1 + (0.0 if state.code == LARGEST else 1e-9)
    nodes = {i: np.flatnonzero(state.label == i).tolist() for i in state.live.tolist()}
    for a, b in combinations(nodes, 2):
        height = true_height(state, square, nodes[a], nodes[b])
        assert ((a, b) in entries) == ((b, a) in entries)
        if (a, b) not in entries:
            assert height * slack >= max(state.field.radius[a], state.field.radius[b])
            continue
        (value, exact, tie), mirrored = entries[a, b], entries[b, a]
        assert mirrored[1:] == (exact, tie)
        least = value / (len(nodes[a]) * len(nodes[b])) if state.code == MEAN else value
        true_tie = max(edge_tie(u, v) for u in nodes[a] for v in nodes[b])
        if exact:
            assert mirrored[0] == value
            assert (least == height) if state.code == LARGEST else np.isclose(least, height, rtol=1e-12, atol=0)
            assert tie == true_tie
        else:
            assert least <= height * slack
            assert tie <= true_tie


@pytest.mark.parametrize("linkage", LINKAGES)
def test_after_every_round_entries_and_radii_are_bounds(linkage: str) -> None:
    @examples(80)
    @given(SEEDS)
    def check(seed: int) -> None:
        condensed = any_distances(seed, 14)
        square = squareform(condensed)
        near, reach = any_reach(condensed, seed)
        with Team(1) as team:
            state = first_state(near, single_nodes(len(square)), reach, settings_of(linkage), team)
            assert_sound(state, square)
            while certain_round(state, np.inf, team, empty_merges(len(square), np.dtype(np.int64))) is not None:
                assert_sound(state, square)

    check()


@pytest.mark.parametrize("linkage", LINKAGES)
def test_clusters_to_start_from_count_with_all_their_nodes(linkage: str) -> None:
    start = Start(np.array([0, 1, 4]), np.array([2.0, 3.0, 1.0]), np.array([0, 3, 1, 2, 5, 4]), np.array([0, 2, 5, 6]))
    near = NearPairs(np.array([0], np.int32), np.array([1], np.int32), np.array([2.5]))
    with Team(1) as team:
        state = first_state(near, start, any_reach(np.array([2.5, 3.0, 4.0]), 2)[1], settings_of(linkage), team)
    (value, exact, tie) = entries_of(state)[0, 1]
    assert value == (15.0 if linkage == "average" else 2.5)
    assert exact
    assert tie == max(edge_tie(u, v) for u in (0, 3) for v in (1, 2, 5))


def test_rows_move_to_the_front_in_their_order() -> None:
    arena = Arena(np.arange(10, dtype=np.int32), np.arange(10.0), np.arange(10, dtype=np.uint16))
    rows = Rows(np.array([7, 1, 5, 0]), np.array([2, 2, 0, 1]))
    order = np.argsort(rows.start)
    assert close_gaps(arena, rows, order) == 5
    assert arena.neighbour[:5].tolist() == arena.value[:5].tolist() == arena.tie[:5].tolist() == [0, 1, 2, 7, 8]
    assert [rows.start[i] for i in (3, 1, 0)] == [0, 1, 3]


@examples(40)
@given(SEEDS, st.sampled_from([MEAN, LARGEST, WEIGHTED]))
def test_bands_of_given_distances_are_reduced_to_clusters(seed: int, code: int) -> None:
    random = np.random.default_rng(seed)
    nodes, clusters = int(random.integers(3, 15)), int(random.integers(2, 5))
    square = squareform(random.integers(1, 50, nodes * (nodes - 1) // 2).astype(float))
    label = random.integers(-1, clusters, nodes)  # by slot, as the triangle has them
    share = random.choice([0.25, 0.5, 1.0, 3.0], nodes)
    triangle = np.concatenate([square[s, :s] for s in range(nodes)])
    out = np.full(clusters * (clusters - 1) // 2, -np.inf if code == LARGEST else 0.0)
    cut = int(random.integers(1, nodes + 1))
    for first, last in ((0, cut), (cut, nodes)):
        entries = triangle[first * (first - 1) // 2 if first else 0 : last * (last - 1) // 2]
        for own in ((0, 2), (2, clusters)):
            reduce_band(code, entries, (first, last), Clustered(label, share, 0, out), own)
    for a, b in combinations(range(clusters), 2):
        block = square[np.ix_(label == a, label == b)]
        if code == LARGEST:
            assert out[b * (b - 1) // 2 + a] == block.max(initial=-np.inf)
        else:
            assert out[b * (b - 1) // 2 + a] == pytest.approx(share[label == a] @ block @ share[label == b])


def test_near_pairs_of_a_band_are_listed_by_node() -> None:
    square = squareform(np.array([3.0, 1.0, 2.0, 5.0, 1.0, 4.0]))[::-1, ::-1]  # by slot
    entries = np.concatenate([square[s, :s] for s in range(2, 4)])
    found = NearPairs(*(np.empty(count_within(entries, 2.0), kind) for kind in (np.int32, np.int32, np.float64)))
    take_within(entries, (2, 4, 4), 2.0, found)
    pairs = sorted(zip(*(column.tolist() for column in found), strict=True))
    assert pairs == [(0, 2, 1.0), (0, 3, 2.0), (1, 3, 1.0)]
