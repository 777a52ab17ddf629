"""The top of a hierarchy: its last merges as trees, from two passes over the merges.

1. The last merges, in the order of `tree.order`, contain, with each merge, all merges above it.
2. A cluster that none of them created was created by the largest earlier merge whose union has the same smallest node,
   or is a single node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.tree.order import COLUMNS, before, last_in_order

Parts = Callable[[], Iterable[Mapping[str, NDArray[Any]]]]
"""Returns the merges in parts, each time from the start."""


@dataclass(frozen=True)
class Branch:
    """A cluster near the top of a tree."""

    node: int
    """Its smallest node."""
    size: int
    """The number of its nodes."""
    height: float
    """The height of the merge that created it; NaN for a single node."""
    children: tuple[Branch, ...] = ()
    """The two branches that merged into it; none if the tree is cut off here, or for a single node."""

    def leaves(self) -> Iterator[Branch]:
        """Yield the branches inside it that have no children."""
        waiting = [self]
        while waiting:
            branch = waiting.pop()
            waiting += branch.children
            if not branch.children:
                yield branch


def treetop(parts: Parts, count: int, sign: float) -> list[Branch]:
    """Return the last `count` merges as trees, the largest first; `sign` is -1 if large heights are close."""
    last = _last_merges(parts, count, sign)
    made: dict[int, Branch] = {}
    wanted = np.union1d(last["left"], last["right"])
    size, height = _below(parts, last, wanted, sign)
    below = {
        node: Branch(node, nodes, at)
        for node, nodes, at in zip(wanted.tolist(), size.tolist(), height.tolist(), strict=True)
    }
    for left, right, at, nodes in zip(*(last[name].tolist() for name in COLUMNS), strict=True):
        two = tuple(made.pop(node, below[node]) for node in (left, right))
        made[left] = Branch(left, nodes, at, two)
    return sorted(made.values(), key=lambda branch: (-branch.size, branch.node))


def _last_merges(parts: Parts, count: int, sign: float) -> dict[str, NDArray[Any]]:
    """Return the last merges, in order."""
    last: dict[str, NDArray[Any]] = {
        name: np.empty(0, np.float64 if name == "height" else np.int64) for name in COLUMNS
    }
    for part in parts():
        both = {name: np.concatenate((last[name], part[name])) for name in COLUMNS}
        place = last_in_order(both["left"], both["size"], sign * both["height"], count)
        last = {name: column[place] for name, column in both.items()}
    return last


def _below(
    parts: Parts, last: Mapping[str, NDArray[Any]], wanted: NDArray[np.int64], sign: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return size and height of each wanted cluster before the last merges."""
    size, height = np.ones(len(wanted), np.int64), np.full(len(wanted), np.nan)
    if not len(wanted):
        return size, height
    first = last["left"][0], last["size"][0], sign * last["height"][0]
    for part in parts():
        mine = np.flatnonzero(np.isin(part["left"], wanted))
        left, nodes, at = (part[name][mine] for name in ("left", "size", "height"))
        earlier = before(left, nodes, sign * at, first)
        order = np.argsort(nodes[earlier], kind="stable")
        place = np.searchsorted(wanted, left[earlier][order])
        larger = nodes[earlier][order] > size[place]
        size[place[larger]], height[place[larger]] = nodes[earlier][order][larger], at[earlier][order][larger]
    return size, height
