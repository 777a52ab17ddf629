"""The bundles of arrays of the kernels for certain rounds.

A slot is the place of a cluster: that of the cluster it began as, in ascending order of ids. A merged cluster keeps the
lower one of its two slots, so its id, which is its smallest node, stays that of the slot. The rows of all clusters lie
in one arena, in any order and with gaps.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Ids


class Arena(NamedTuple):
    """Entries, one for each pair of clusters of which some node pairs are known, in the rows of both."""

    neighbour: Ids  # a slot s, or ~s if some of the node pairs are not known
    value: NDArray[np.float64]  # as in `matrix.weights`, with the least that pairs can be where they are not known
    tie: NDArray[np.uint16]  # the largest of the node pairs that are known


class Rows(NamedTuple):
    """Where the entries of each slot are."""

    start: NDArray[np.int64]
    length: NDArray[np.int64]


class Field(NamedTuple):
    """The clusters, one per slot."""

    ids: NDArray[np.int64]
    size: NDArray[np.float64]  # in nodes
    radius: NDArray[np.float64]  # W with a cluster to which there is no entry is not below it
    within: NDArray[np.float64]  # average: the sum of the radii of all nodes; otherwise unused


class Nearest(NamedTuple):
    """The nearest of each slot by what is known."""

    slot: NDArray[np.int64]  # -1 if there is none, or if it is not certain
    seen: NDArray[np.int64]  # the same whether it is certain or not
    height: NDArray[np.float64]  # W of the two


class Match(NamedTuple):
    """The pairs of a round."""

    lower: NDArray[np.int64]  # the slots of each pair, in ascending order of the lower one
    upper: NDArray[np.int64]
    partner: NDArray[np.int64]  # of each slot, -1 if it has none


class Folding(NamedTuple):
    """All that the rows of a round are folded by."""

    code: int  # of the linkage, one of those in `matrix.weights`
    arena: Arena
    rows: Rows
    before: Field  # the clusters before the round
    after: Field  # the same slots after it
    partner: NDArray[np.int64]  # of each slot, -1 if it has none
    nearest: Nearest
    tail: NDArray[np.int64]  # where there is room in the arena for the row of each slot that merges, if it needs any


class Room(NamedTuple):
    """What a thread folds a row in."""

    place: NDArray[np.int64]  # of each slot in this room, -1 if it is not there
    slot: NDArray[np.int64]  # then as `Arena.neighbour`
    straight: NDArray[np.float64]  # first with first and second with second of two pairs, combined; then the value
    crossed: NDArray[np.float64]  # first with second and second with first
    parts: NDArray[np.uint8]  # which of the four are there, one bit each, and a bit if one of them is not exact
    tie: NDArray[np.uint16]
