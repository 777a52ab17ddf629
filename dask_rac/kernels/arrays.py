"""The bundles of arrays that kernels take and give."""

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.signedinteger]  # int32 while the ids fit, int64 beyond
Bundle = TypeVar("Bundle", bound=tuple[NDArray[Any], ...])


def part(bundle: Bundle, start: int | None, stop: int | None) -> Bundle:
    """Rows `start` to `stop` of every array."""
    return type(bundle)(*(array[start:stop] for array in bundle))


class Rows(NamedTuple):
    """Adjacency: row `i` is `neighbour[start[i]:stop[i]]` and its companions, every edge in both its rows."""

    start: NDArray[np.int64]
    stop: NDArray[np.int64]
    neighbour: Ids  # position of a cluster, not its id
    weight: NDArray[np.float64]  # a sum for average linkage, a maximum for complete
    edges: Ids  # how many are folded into the entry; empty where all are 1 or the rule needs none
    tie: NDArray[np.uint16]


class Clusters(NamedTuple):
    """The live clusters in the order of their ids, each with its nearest."""

    ids: Ids
    size: Ids
    nearest: Ids  # position of a cluster, -1 without an edge up to the ceiling
    height: NDArray[np.float64]  # W to the nearest


class Pairs(NamedTuple):
    """Which old rows make up each new row, and what became of each old cluster."""

    first: Ids
    second: Ids  # -1 where the cluster did not merge
    offset: NDArray[np.int64]  # entries of the old rows before this one: where the new row may start
    fate: Ids  # two for each old cluster: new position << 2 | fate, and the size there


class Merges(NamedTuple):
    """Merges, a row each; `left < right` are the two clusters' ids."""

    left: Ids
    right: Ids
    height: NDArray[np.float64]
    size: Ids


class Rule(NamedTuple):
    """How an entry becomes W."""

    code: int  # of `rule.py`
    fill: float  # the weight of a missing pair
    ceiling: float  # no merge above it
    scale: float  # by which weights are multiplied as they are read: -1 for similarities as given, else 1
