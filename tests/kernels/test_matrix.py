"""The kernels of the matrix engine against plain loops over sets of nodes."""

from __future__ import annotations

from itertools import combinations_with_replacement
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dask_rac.base.settings import checked_settings
from dask_rac.engines.forest.state import ForestEdges, tree_order
from dask_rac.engines.matrix.state import CODES, Matrix, first_matrix, members_of
from dask_rac.engines.start import single_nodes
from dask_rac.kernels.arrays import empty_merges
from dask_rac.kernels.matrix.fold import fold_ending, fold_rows
from dask_rac.kernels.matrix.match import live_slots, match, unite
from dask_rac.kernels.matrix.rounds import merge_alone, new_best
from dask_rac.kernels.matrix.search import (
    join_scans,
    join_searches,
    scan_rows,
    search_rows,
    take_scans,
    take_searches,
    wanted_slots,
)
from dask_rac.kernels.matrix.spanning import name_ends, span_groups, unite_spans
from dask_rac.kernels.matrix.ties import list_members, pair_tie, prefers
from dask_rac.kernels.matrix.weights import least
from tests.reference import edge_tie, hash64
from tests.support.all_pairs import KINDS, condensed_distances, edges_of, oracle
from tests.support.effort import examples

pytestmark = pytest.mark.kernels

FOLDED = ("average", "complete", "ward", "weighted")
SEEDS = st.integers(0, 2**32 - 1)


def matrix_of(condensed: NDArray[np.float64], linkage: str = "average") -> Matrix:
    """Clusters of one node each; for ward the distances are taken as squares."""
    settings = checked_settings(linkage, None, "distance", metric="precomputed")
    return first_matrix(condensed[::-1].copy(), single_nodes(edges_of(condensed)[0]), settings)


def draw_pairs(matrix: Matrix, random: np.random.Generator) -> int:
    """Put any disjoint pairs in place of reciprocal ones; return their number."""
    slots = random.permutation(matrix.slots)[: 2 * random.integers(1, matrix.slots // 2 + 1)]
    pairs = sorted(sorted(pair) for pair in slots.reshape(-1, 2).tolist())
    matrix.found.partner[:] = -1
    for number, (lower, upper) in enumerate(pairs):
        matrix.found.lower[number], matrix.found.upper[number] = lower, upper
        matrix.found.partner[lower], matrix.found.partner[upper] = upper, lower
    return len(pairs)


@pytest.mark.parametrize("linkage", FOLDED)
@pytest.mark.parametrize("spans", [1, 3])
def test_folded_entries_are_those_of_the_sets(linkage: str, spans: int) -> None:
    combined: Any = {"complete": max, "weighted": lambda values: sum(values) / len(values)}.get(linkage, sum)

    @examples(60)
    @given(st.integers(2, 40), SEEDS)
    def check(nodes: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        matrix = matrix_of(random.integers(0, 100, nodes * (nodes - 1) // 2).astype(float), linkage)
        before, found, triangle = matrix.triangle.entry.copy(), matrix.found, matrix.triangle
        pairs, code = draw_pairs(matrix, random), CODES[linkage]
        rows = live_slots(triangle, found)
        for first, last in cuts(pairs, spans):
            fold_ending(code, triangle, found, pairs, (first, last))
        for first, last in cuts(len(rows), spans):
            fold_rows(code, triangle, rows, found, pairs, (first, last))
        members = {slot: {slot, found.partner[slot]} - {-1} for slot in rows.tolist()}
        for upper in rows.tolist():
            for lower in range(upper):
                entry = triangle.entry[triangle.start[upper] + lower]
                if lower not in members:
                    assert entry == np.inf
                    continue
                places = [(max(a, b), min(a, b)) for a in members[upper] for b in members[lower]]
                assert entry == combined([before[s * (s - 1) // 2 + t] for s, t in places])

    check()


def cuts(count: int, parts: int) -> list[tuple[int, int]]:
    """Cut a range into parts, some of which are empty if there are few."""
    return [(count * part // parts, count * (part + 1) // parts) for part in range(parts)]


def found_nearest(matrix: Matrix, spans: int) -> NDArray[np.int64]:
    """The nearest of every slot after a scan and a search for ties, each in several spans."""
    state, groups, found = matrix.state, matrix.groups, matrix.found
    best = new_best(matrix.slots)
    for span in cuts(matrix.slots, spans):
        other = new_best(matrix.slots)
        scan_rows(matrix.code, matrix.triangle, groups, other, span)
        join_scans(best, other)
    ties = take_scans(groups, best, found.search)
    wanted, members = wanted_slots(found.search[:ties], matrix.slots), list_members(state)
    found.partner[:] = -1
    best = new_best(ties)
    for span in cuts(matrix.slots, spans):
        other = new_best(ties)
        search_rows(state, members, wanted, other, span)
        join_searches(members, wanted, best, other)
    take_searches(groups, wanted, best)
    assert not wanted.disturbed.any()
    return groups.nearest


@examples(60)
@given(condensed_distances(20), st.sampled_from([1, 2, 5]))
def test_the_nearest_is_that_of_the_one_order(condensed: NDArray[np.float64], spans: int) -> None:
    nodes, edges = edges_of(condensed)
    key = {(u, v): (w, edge_tie(u, v), hash64(u, v), u, v) for u, v, w in edges}
    key |= {(v, u): value for (u, v), value in key.items()}
    matrix = matrix_of(condensed, "complete")
    nearest = found_nearest(matrix, spans)
    for node in range(nodes):
        expected = min((other for other in range(nodes) if other != node), key=lambda other: key[node, other])
        assert nodes - 1 - nearest[nodes - 1 - node] == expected
        assert matrix.groups.height[nodes - 1 - node] == key[node, expected][0]


@examples(60)
@given(st.integers(6, 40), SEEDS)
def test_ties_are_broken_as_in_the_reference(nodes: int, seed: int) -> None:
    """Clusters are those of a few merges."""
    random = np.random.default_rng(seed)
    matrix = matrix_of(np.zeros(nodes * (nodes - 1) // 2))
    pairs = draw_pairs(matrix, random)
    unite(matrix.code, matrix.triangle, matrix.groups, matrix.found, pairs, empty_merges(nodes, np.dtype(np.int64)))
    members = {
        slot: {nodes - 1 - slot, *([nodes - 1 - mate] if mate >= 0 else [])}
        for slot, mate in enumerate(matrix.found.partner.tolist())
        if not 0 <= mate < slot
    }
    slot, new, old = random.permutation(list(members))[:3].tolist()

    def key(other: int) -> tuple[int, ...]:
        ids = sorted((min(members[slot]), min(members[other])))
        tie = max(edge_tie(u, v) for u in members[slot] for v in members[other])
        return tie, len(members[other]), hash64(*ids), *ids

    matrix.triangle.start[matrix.found.upper[:pairs]] = -1
    listed = list_members(matrix.state)
    expected = key(new) < key(old)
    assert prefers(listed, slot, new, old, -1) == (expected, min(key(new), key(old))[0])
    assert prefers(listed, slot, new, old, key(old)[0])[0] == expected
    assert pair_tie(listed, slot, new, 2**16) == key(new)[0]
    assert pair_tie(listed, new, slot, 2**16) == key(new)[0]


@examples(60)
@given(condensed_distances(16), st.sampled_from([1, 2, 4]), st.sampled_from([np.inf, 1.0]))
def test_spanning_trees_of_parts_give_single_linkage(
    condensed: NDArray[np.float64], parts: int, ceiling: float
) -> None:
    nodes, triangle = edges_of(condensed)[0], condensed[::-1].copy()
    members, forest = members_of(single_nodes(nodes)), (np.arange(nodes), np.ones(nodes, np.int64))
    borders = [span for span in cuts(nodes, parts) if span[0] < span[1]]
    trees = []
    for low, high in combinations_with_replacement(borders, 2):
        tree = ForestEdges(np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.empty(nodes))
        count = span_groups(triangle, members, (*low, *high), tree)
        assert count == (low[1] - low[0] + (high[1] - high[0] if low != high else 0)) - 1
        trees.append(ForestEdges._make(column[:count] for column in tree))
        name_ends(members, trees[-1])
    tree = ForestEdges._make(np.concatenate(columns) for columns in zip(*trees, strict=True))
    merges = empty_merges(nodes, np.dtype(np.int64))
    count = unite_spans(tree_order(tree), tree, forest, ceiling, merges)
    found = list(zip(*(column[:count].tolist() for column in merges), strict=True))
    expected = oracle(condensed, "single", None if ceiling == np.inf else ceiling)
    assert found == [(m.left, m.right, float(m.height), m.size) for m in expected]


@pytest.mark.parametrize("linkage", FOLDED)
@pytest.mark.parametrize("shares", [(2.0, 0.0), (-1.0, 0.0), (-1.0, 1.0), (1 / 8, 0.8)], ids=str)
def test_rounds_alone_give_the_merges_of_naive_hac(linkage: str, shares: tuple[float, float]) -> None:
    for kind in ("halves", "gaps", "all equal"):
        condensed = KINDS[kind](11, np.random.default_rng(2))
        matrix = matrix_of(condensed**2 if linkage == "ward" else condensed, linkage)
        found_nearest(matrix, 2)
        merges, rounds = empty_merges(11, np.dtype(np.int64)), np.empty((11, 3), np.int64)
        count, done = merge_alone(matrix.state, np.inf, shares, merges, rounds)
        assert count == 10 == rounds[:done, 1].sum()
        assert rounds[0, 0] == 11
        if kind == "gaps":
            assert done > 4
        found = sorted(zip(merges.left[:10].tolist(), merges.right[:10].tolist(), strict=True))
        assert found == sorted((m.left, m.right) for m in oracle(condensed, linkage))


def test_a_match_takes_reciprocal_pairs_up_to_the_ceiling() -> None:
    matrix = matrix_of(np.array([1.0, 5.0, 6.0, 4.0, 5.0, 2.0]), "complete")
    found_nearest(matrix, 1)
    assert match(matrix.triangle, matrix.groups, matrix.found, np.inf)[0] == 2
    assert match(matrix.triangle, matrix.groups, matrix.found, 1.5)[0] == 1
    assert (matrix.found.lower[0], matrix.found.upper[0]) == (2, 3)
    assert match(matrix.triangle, matrix.groups, matrix.found, 0.5) == (0, 0)


@given(st.lists(st.floats(allow_nan=False), min_size=1, max_size=20))
def test_the_least_of_floats_is_found_by_their_bits(values: list[float]) -> None:
    assert least(np.array(values)) == min(values)
