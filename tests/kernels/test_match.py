"""What becomes of clusters in a round, in place and not, against plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_rac.kernels.rows.match import JOINS, LEADS, LEAVES, STAYS, find_fates
from tests.support.effort import examples

pytestmark = pytest.mark.kernels


@st.composite
def nearest_lists(draw: st.DrawFn) -> list[int]:
    """The nearest of each cluster, -1 for those without an edge; pairs are reciprocal more often than by chance."""
    count = draw(st.integers(0, 40))
    live = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    places = [place for place in range(count) if live[place]]
    nearest = [-1] * count
    if len(places) < 2:
        return nearest
    for place in places:
        nearest[place] = draw(st.sampled_from([other for other in places if other != place]))
    for place in places:
        if draw(st.booleans()):
            nearest[nearest[place]] = place
    return nearest


def fates_in_python(nearest: list[int], ids: list[int], size: list[int]) -> tuple[list[int], list[tuple[int, int]]]:
    """The fate of each cluster and its size after the round, then the ids and sizes of those that are left."""
    fate = [0] * (2 * len(nearest))
    left: list[tuple[int, int]] = []
    for place, other in enumerate(nearest):
        reciprocal = other >= 0 and nearest[other] == place
        if other < 0:
            fate[2 * place] = LEAVES
        elif not reciprocal or place < other:
            total = size[place] + (size[other] if reciprocal else 0)
            fate[2 * place : 2 * place + 2] = len(left) << 2 | (LEADS if reciprocal else STAYS), total
            if reciprocal:
                fate[2 * other : 2 * other + 2] = len(left) << 2 | JOINS, total
            left.append((ids[place], total))
    return fate, left


@given(nearest_lists(), st.sampled_from(["int32", "int64"]), st.data())
@examples(200)
def test_fates_are_the_same_in_place(nearest: list[int], kind: str, data: st.DataObject) -> None:
    count = len(nearest)
    size = data.draw(st.lists(st.integers(1, 1000), min_size=count, max_size=count))
    ids = [3 * place + 1 for place in range(count)]
    found = []
    for in_place in (False, True):
        old = np.array(ids, kind), np.array(size, kind)
        merged = old if in_place else (np.zeros(count, kind), np.zeros(count, kind))
        fate = np.zeros(2 * count, kind)
        after = find_fates(np.array(nearest, kind), *old, merged, fate, (0, count, 0))
        found.append((fate.tolist(), list(zip(*(column[:after].tolist() for column in merged), strict=True))))
        assert in_place or [column.tolist() for column in old] == [ids, size]
    assert found[0] == found[1] == fates_in_python(nearest, ids, size)
