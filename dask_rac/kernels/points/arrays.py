"""The bundles of arrays of the points engine's kernels.

A slot is the place of a cluster. Slots are in ascending order of the ids of their clusters. A merged cluster keeps the
lower one of its two slots, and the upper one is dead until all slots are closed up.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Centroids(NamedTuple):
    """What W is computed from, one row per slot."""

    mean: NDArray[np.float64]  # the mean of the vectors of the cluster, of length 1 each for cosines, less the origin
    size: NDArray[np.float64]  # nodes, 0 in a dead slot
    spread: NDArray[np.float64]  # the mean squared distance of these vectors to their mean


class Frame(NamedTuple):
    """How means become rows of float32 for products, and how far rounding may reach."""

    centre: NDArray[np.float64]  # subtracted first
    scale: float  # a power of two: the largest absolute value is then about 1
    slack: float  # fraction of two squared lengths, by half, that bounds the error of a product
    radius: float  # the largest length of a mean


class Screen(NamedTuple):
    """Clusters as products see them, one row per slot; see `screen.py`."""

    row: NDArray[np.float32]
    half: NDArray[np.float32]  # what a product is subtracted from; infinite in a dead slot
    inverse: NDArray[np.float32]  # ward: 1 / size, rounded up; otherwise 0
    square: NDArray[np.float64]  # the squared length of the row


class Lists(NamedTuple):
    """The near clusters of each slot: W with everybody who is not listed is at least the bound."""

    entry: NDArray[np.int32]  # slots, possibly dead ones, which `Groups.root` turns into live ones
    length: NDArray[np.int32]  # how many entries count
    bound: NDArray[np.float64]


class Groups(NamedTuple):
    """The clusters, one per slot, and the nodes of each as a linked list."""

    ids: NDArray[np.int64]
    nearest: NDArray[np.int64]  # a slot; -1 if nobody is near enough to merge
    height: NDArray[np.float64]  # W to the nearest
    root: NDArray[np.int32]  # the live slot that a slot has become part of
    head: NDArray[np.int64]  # first and last node of the cluster
    tail: NDArray[np.int64]
    after: NDArray[np.int64]  # one per node: the next node of the same cluster, -1 at its end


class State(NamedTuple):
    """Everything that a round works on."""

    code: int  # one of those in `weights.py`
    centroids: Centroids
    frame: Frame
    screen: Screen
    lists: Lists
    groups: Groups


class Match(NamedTuple):
    """The reciprocal pairs of a round, and what follows from them."""

    lower: NDArray[np.int64]  # the slots of each pair, in ascending order of the lower one
    upper: NDArray[np.int64]
    search: NDArray[np.int64]  # slots whose nearest must be found again, ascending
    partner: NDArray[np.int64]  # of each slot, -1 if it has none


class Task(NamedTuple):
    """What a thread that looks for nearest clusters needs beside the state."""

    ceiling: float  # clusters farther than this need not be told apart
    rounding: float  # how far means may be from what they would be without rounding, see `weights.floor_of`
