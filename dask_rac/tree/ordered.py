"""Merges in the order of sequential HAC, with the leaves that find the merge above any two nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Merges
from dask_rac.kernels.audit import Leaves
from dask_rac.tree.leaves import ordered_leaves
from dask_rac.tree.order import COLUMNS, gathered, merge_order

Codes = NDArray[np.signedinteger]
"""The class of each node, numbered from 0; -1 if it has none."""


@dataclass(frozen=True)
class OrderedMerges:
    """The merges of a hierarchy in the order of sequential HAC, and its leaves."""

    n_nodes: int
    merges: Merges
    sign: float
    """-1 if large heights are close."""

    @classmethod
    def of(cls, n_nodes: int, parts: Iterable[Mapping[str, NDArray[Any]]], sign: float) -> OrderedMerges:
        """Order merges that are given in parts."""
        whole = gathered(n_nodes, parts)
        order = merge_order(whole["left"], whole["size"], sign * whole["height"])
        merges = Merges(*(whole.pop(name)[order] for name in COLUMNS))
        return cls(n_nodes, merges, sign)

    @cached_property
    def leaves(self) -> Leaves:
        """The nodes as leaves: places in this order are what they find."""
        return ordered_leaves(self.n_nodes, self.merges)

    @property
    def distance(self) -> NDArray[np.float64]:
        """Heights, negated for similarities, so that they never decrease."""
        distance: NDArray[np.float64] = self.sign * self.merges.height
        return distance

    def __len__(self) -> int:
        return len(self.merges.left)
