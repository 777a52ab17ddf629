"""The order of merges, whole and in parts, against Python's order of tuples."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from dask_rac.tree.order import before, first_in_order, last_in_order, merge_order

Keys = list[tuple[float, int, int]]
DISTANCES = st.sampled_from([-1.0, 0.0, 0.5, 2.0, np.inf])


def merges(least: int = 0) -> st.SearchStrategy[Keys]:
    """Some merges as distance, size and smallest node, all different, with many ties."""
    return st.lists(st.tuples(DISTANCES, st.integers(2, 4), st.integers(0, 5)), min_size=least, unique=True)


def columns(keys: Keys) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """Smallest nodes, sizes and distances."""
    left, size = (np.array([key[k] for key in keys], np.int32) for k in (2, 1))
    return left, size, np.array([key[0] for key in keys], np.float64)


@given(merges())
def test_all(keys: Keys) -> None:
    assert [keys[k] for k in merge_order(*columns(keys))] == sorted(keys)


@given(merges(1), st.data())
def test_the_first(keys: Keys, data: st.DataObject) -> None:
    """Also if some are not merges: those have size 0, and an infinite distance."""
    count = data.draw(st.integers(0, len(keys)))
    mixed = data.draw(st.permutations([*keys, (np.inf, 0, 0), (np.inf, 0, 3)]))
    first = first_in_order(*columns(mixed), count)
    assert sorted(mixed[k] for k in np.flatnonzero(first)) == sorted(keys)[:count]


@given(merges(), st.integers(1, 40))
def test_the_last(keys: Keys, count: int) -> None:
    assert [keys[k] for k in last_in_order(*columns(keys), count)] == sorted(keys)[-count:]


@given(merges(), merges(1))
def test_those_before_another(keys: Keys, others: Keys) -> None:
    distance, size, left = others[0]
    assert before(*columns(keys), (left, size, distance)).tolist() == [key < others[0] for key in keys]
