"""The bundles of arrays of the matrix engine's kernels.

A slot is the place of a cluster. Slots are in the reverse order of nodes: slot `s` begins as node `n - 1 - s`, so that
the triangle is scipy's condensed vector of distances backwards. A merged cluster keeps the lower one of its two slots.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Triangle(NamedTuple):
    """What is known of every pair of clusters; row `s` has one entry for each slot below `s`."""

    entry: NDArray[np.float64]  # a sum, a maximum or a mean of distances, as the linkage needs; inf for a dead slot
    start: NDArray[np.int64]  # where each row begins, -1 if its cluster is dead


class Groups(NamedTuple):
    """The clusters, one per slot."""

    ids: NDArray[np.int64]
    size: NDArray[np.float64]
    within: NDArray[np.float64]  # ward: the sum of the squared distances within the cluster; otherwise 0
    inner: NDArray[np.float64]  # the same over the size of the cluster
    nearest: NDArray[np.int64]  # a slot
    height: NDArray[np.float64]  # W to the nearest
    head: NDArray[np.int64]  # first and last node of the cluster, in a list that `Match.after` continues
    tail: NDArray[np.int64]


class Match(NamedTuple):
    """The reciprocal pairs of a round, and what follows from them."""

    lower: NDArray[np.int64]  # the slots of each pair, in ascending order of the lower one
    upper: NDArray[np.int64]
    partner: NDArray[np.int64]  # of each slot, -1 if it has none
    search: NDArray[np.int64]  # slots whose nearest must be searched for, ascending
    after: NDArray[np.int64]  # the node that follows a node in its cluster


class State(NamedTuple):
    """Everything that a round works on."""

    code: int  # of the linkage, one of those in `weights.py`
    triangle: Triangle
    groups: Groups
    found: Match


class Wanted(NamedTuple):
    """The slots whose nearest is searched for, and what else the search finds."""

    slot: NDArray[np.int64]  # ascending
    where: NDArray[np.int64]  # the place of each slot among these, -1 if it is not there
    disturbed: NDArray[np.bool_]  # slots, not among these, that a merged cluster came nearer to than their nearest


class Best(NamedTuple):
    """The nearest found so far, for some slots."""

    height: NDArray[np.float64]
    nearest: NDArray[np.int64]  # -1 if there is none yet
    tie: NDArray[np.int64]  # of the pair, -1 if it was not needed yet
