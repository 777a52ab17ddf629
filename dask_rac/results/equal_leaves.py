"""Equal vectors in an audit: leaves below one merge whose vectors are all equal are weighed against others as one.

The weights between them are 0, and their weights to any other leaf are the same. So a sum takes each as often as there
are leaves, the largest and the smallest take it once. By weighted linkage what is left of 1 over all leaves below a
merge adds up to what is left above it, so that merge stands for them without a factor.

Only merges of the audit decide what is one: where they tear equal vectors apart, each part is a leaf of its own. So
wrong merges are found as well as among all pairs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.engines.start import Start
from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.pairs_audit import Climb


class EqualLeaves(NamedTuple):
    """Leaves, of which those that are equal and next to each other in the tree are one."""

    nodes: NDArray[np.int64]
    """A node of each, in the order of leaves."""
    times: NDArray[np.float64]
    """How many leaves each stands for; empty if each is a single one."""
    climb: Climb
    """The merges as intervals of them; those below a leaf are in none."""
    inside: NDArray[np.bool_]
    """Which merges join only equal vectors."""


def all_leaves(climb: Climb, position: Ids) -> EqualLeaves:
    """Return every leaf on its own."""
    return EqualLeaves(np.argsort(position), np.empty(0), climb, np.zeros(len(climb.above), np.bool_))


def equal_leaves(climb: Climb, position: Ids, start: Start) -> EqualLeaves:
    """Return the leaves of a tree, given which vectors are equal."""
    if len(start.ids) == start.nodes:
        return all_leaves(climb, position)
    order, inside = np.argsort(position), _joins_equals(climb, position, start)
    tops = np.flatnonzero(inside)
    tops = tops[~np.append(inside, False)[climb.above[tops]]]
    within = np.zeros(len(order) + 1, np.int64)
    within[climb.low[tops] + 1] += 1
    within[climb.high[tops]] -= 1
    single = np.cumsum(within[:-1]) == 0
    place = np.append(0, np.cumsum(single))  # of a leaf that begins, how many begin before it
    begins = np.flatnonzero(single)
    first = climb.first[begins]
    first[place[climb.low[tops]]] = climb.above[tops]
    low, middle, high = (place[border].astype(border.dtype) for border in (climb.low, climb.middle, climb.high))
    return EqualLeaves(
        order[begins],
        np.diff(np.append(begins, len(order))).astype(np.float64),
        Climb(first, climb.above, low, middle, high, climb.level),
        inside,
    )


def _joins_equals(climb: Climb, position: Ids, start: Start) -> NDArray[np.bool_]:
    """Tell which merges have only equal vectors below them."""
    group = np.empty(len(position), np.int64)
    group[position[start.member]] = np.repeat(np.arange(len(start.ids)), np.diff(start.begin))
    changes = np.append(0, np.cumsum(group[1:] != group[:-1]))
    joined = climb.high > climb.low
    inside: NDArray[np.bool_] = joined & (changes[climb.low] == changes[np.maximum(climb.high, 1) - 1])
    return inside
