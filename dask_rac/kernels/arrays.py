"""The bundles of arrays that kernels read and write."""

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.signedinteger]  # int32 while the ids fit, int64 beyond
Bundle = TypeVar("Bundle", bound=tuple[NDArray[Any], ...])


def part(bundle: Bundle, start: int | None, stop: int | None) -> Bundle:
    """Return rows `start` to `stop` of every array."""
    return type(bundle)(*(array[start:stop] for array in bundle))


class Rows(NamedTuple):
    """Adjacency: row `i` is `neighbour[start[i]:stop[i]]` and its companions, every edge in both its rows."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    neighbour: Ids  # position of a cluster, not its id
    weight: NDArray[np.float64]  # a sum for average linkage, a maximum for complete, W for weighted
    edges: Ids  # how many are folded into the entry; empty if all are 1 or the rule does not need them
    tie: NDArray[np.uint16]


class Clusters(NamedTuple):
    """The live clusters in order of id, each with its nearest."""

    ids: Ids
    size: Ids
    nearest: Ids  # position of a cluster, -1 if no edge lies within the ceiling
    height: NDArray[np.float64]  # W to the nearest


class Pairs(NamedTuple):
    """Which old rows make up each new row, and what became of each old cluster."""

    first: Ids
    second: Ids  # -1 where the cluster did not merge
    offset: NDArray[np.int64]  # entries of all old rows before this one: where the new row may start
    fate: Ids  # two per old cluster: new position << 2 | fate, and the new size


class Merges(NamedTuple):
    """Merges, one row each; `left < right` are the ids of the two clusters."""

    left: Ids
    right: Ids
    height: NDArray[np.float64]
    size: Ids


class Ends(NamedTuple):
    """By single linkage, the two nodes of the edge that made each merge: with the heights, the spanning forest."""

    source: Ids
    target: Ids


class Rule(NamedTuple):
    """How an entry becomes W."""

    code: int  # one of those in `rule.py`
    fill: float  # the weight of a missing pair; NaN if every pair needs an edge
    ceiling: float  # no merge above it
    scale: float  # factor applied to weights as they are read: -1 for similarities as given, else 1


def empty_merges(count: int, ids: np.dtype[np.signedinteger]) -> Merges:
    """Return room for merges."""
    return Merges(np.empty(count, ids), np.empty(count, ids), np.empty(count), np.empty(count, ids))
