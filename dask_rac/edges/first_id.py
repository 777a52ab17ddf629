"""Ids that do not begin at 0: the nodes before the first one have no edge, and each is a tree of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from numpy.typing import NDArray


def smallest_id(columns: Sequence[NDArray[Any]]) -> int:
    """Return the smallest id of columns of valid ids; 0 if there is none."""
    return min((int(column.min()) for column in columns if len(column)), default=0)


def late_ids_text(first: int, otherwise: str) -> str:
    """Return a warning about ids that begin at `first`, which is above 0."""
    before = "node 0 is a tree of its own" if first == 1 else f"nodes 0 to {first - 1:,} are trees of their own"
    remedy = f"subtract {first:,} from all ids, or {otherwise}"
    return f"ids begin at {first:,}, so {before}: {remedy}"
