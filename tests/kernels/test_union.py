"""Sets of nodes against a union-find in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dask_rac.kernels.forest import unite
from dask_rac.kernels.jit import kernel
from dask_rac.kernels.union import find_root
from dask_rac.kernels.vectors.lists import component_sizes, join_ends
from tests.support.effort import examples

pytestmark = pytest.mark.kernels

PAIRS = st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=20)
KINDS = st.sampled_from(["int32", "int64"])


@kernel
def root_of(parent: NDArray[np.signedinteger], x: int) -> int:
    """`find_root`, which can only be called in kernels when they are compiled."""
    root: int = find_root(parent, x)
    return root


def sets_of(pairs: list[tuple[int, int]]) -> list[set[int]]:
    """The set of each of 12 nodes after both ends of each pair were united."""
    sets = [{node} for node in range(12)]
    for i, j in pairs:
        both = sets[i] | sets[j]
        for node in both:
            sets[node] = both
    return sets


@given(PAIRS, KINDS)
@examples(60)
def test_roots(pairs: list[tuple[int, int]], kind: str) -> None:
    """A search finds the root, changes no set, and leaves a path half as long."""
    parent = np.arange(12, dtype=kind)
    for k, (i, j) in enumerate(pairs):
        a, b = root_of(parent, i), root_of(parent, j)
        parent[max(a, b)] = min(a, b)
        assert [root_of(parent.copy(), node) for node in range(12)] == [min(s) for s in sets_of(pairs[: k + 1])]


def test_a_search_halves_its_path() -> None:
    parent = np.array([0, 0, 1, 2, 3, 4, 5, 6, 7])
    assert root_of(parent, 8) == 0
    assert parent.tolist() == [0, 0, 0, 2, 2, 4, 4, 6, 6]


@given(PAIRS, KINDS, KINDS)
@examples(60)
def test_components(pairs: list[tuple[int, int]], kind: str, ends: str) -> None:
    source, target = np.array(pairs, ends).reshape(-1, 2).T.copy()
    parent, size = np.arange(12, dtype=kind), np.zeros(12, kind)
    join_ends(source, target, parent)
    component_sizes(parent, size)
    sets = sets_of(pairs)
    assert parent.tolist() == [min(nodes) for nodes in sets]
    assert size.tolist() == [len(sets[node]) if min(sets[node]) == node else 0 for node in range(12)]


@given(PAIRS, KINDS)
@examples(60)
def test_merges(pairs: list[tuple[int, int]], kind: str) -> None:
    """Each edge of a forest unites two sets, of which the one with the smaller node is on the left."""
    expected: list[tuple[int, int, int]] = []
    tree: list[tuple[int, int]] = []
    for i, j in pairs:
        sets = sets_of(tree)
        if sets[i] is not sets[j]:
            left, right = sorted((min(sets[i]), min(sets[j])))
            expected.append((left, right, len(sets[i] | sets[j])))
            tree.append((i, j))
    source, target = np.array(tree, kind).reshape(-1, 2).T.copy()
    merges = np.empty(len(tree), kind), np.empty(len(tree), kind), np.empty(len(tree)), np.empty(len(tree), kind)
    forest = np.arange(12, dtype=kind), np.ones(12, kind)
    unite(np.arange(len(tree)), (source, target, np.arange(len(tree), dtype=float)), forest, merges)
    assert list(zip(*(merges[k].tolist() for k in (0, 1, 3)), strict=True)) == expected
    assert merges[2].tolist() == list(range(len(tree)))
