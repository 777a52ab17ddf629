"""The top of a hierarchy: its last merges as a tree, from two passes over the merges.

1. The last merges in the order of height and size have with each merge all merges above it.
2. A cluster that none of them made was made by the largest merge that keeps its smallest node, or is a single node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Parts = Callable[[], Iterable[Mapping[str, NDArray[Any]]]]
"""Gives the merges, some at a time, from the start."""

COLUMNS = ("left", "right", "height", "size")


@dataclass(frozen=True)
class Branch:
    """A cluster near the top of a tree."""

    node: int
    """Its smallest node."""
    size: int
    """Nodes."""
    height: float
    """Of the merge that made it; NaN for a single node."""
    children: tuple[Branch, ...] = ()
    """The two it was made from; none where the tree is cut off, or for a single node."""


def treetop(parts: Parts, count: int, sign: float) -> list[Branch]:
    """The last `count` merges as trees, the largest first; `sign` is -1 where large heights are close."""
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
    """The last merges, in order."""
    last: dict[str, NDArray[Any]] = {
        name: np.empty(0, np.float64 if name == "height" else np.int64) for name in COLUMNS
    }
    for part in parts():
        both = {name: np.concatenate((last[name], part[name])) for name in COLUMNS}
        distance = sign * both["height"]
        if len(distance) > count:
            near = np.flatnonzero(distance >= np.partition(distance, -count)[-count])
            both = {name: column[near] for name, column in both.items()}
        order = np.lexsort((both["left"], both["size"], sign * both["height"]))[-count:]
        last = {name: column[order] for name, column in both.items()}
    return last


def _below(
    parts: Parts, last: Mapping[str, NDArray[Any]], wanted: NDArray[np.int64], sign: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Size and height of each wanted cluster by the merges before the last ones."""
    size, height = np.ones(len(wanted), np.int64), np.full(len(wanted), np.nan)
    if not len(wanted):
        return size, height
    first = sign * last["height"][0], last["size"][0], last["left"][0]
    for part in parts():
        mine = np.flatnonzero(np.isin(part["left"], wanted))
        left, nodes, at = (part[name][mine] for name in ("left", "size", "height"))
        before = _before((sign * at, nodes, left), first)
        order = np.argsort(nodes[before], kind="stable")
        place = np.searchsorted(wanted, left[before][order])
        larger = nodes[before][order] > size[place]
        size[place[larger]], height[place[larger]] = nodes[before][order][larger], at[before][order][larger]
    return size, height


def _before(keys: tuple[NDArray[Any], ...], first: tuple[float, ...]) -> NDArray[np.bool_]:
    """Which of some merges come before another in the order of distance, size and smallest node."""
    before = keys[-1] < first[-1]
    for key, bound in zip(keys[-2::-1], first[-2::-1], strict=True):
        before = (key < bound) | ((key == bound) & before)
    return before
