"""Edges that are given with two weights, where that is an error."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.edges.checks import describe_conflict
from dask_rac.edges.numbering import ENDS, equal_text
from dask_rac.edges.source import BATCH_ROWS, Columns, EdgeSource
from dask_rac.files.node_names import NodeNames


class ConflictError(InputError):
    """An edge with two weights; `find_conflict` finds its rows."""

    def __init__(self, edge: tuple[int, int]) -> None:
        super().__init__(f"edge {edge[0]}-{edge[1]} has two weights")
        self.edge = edge

    def __reduce__(self) -> tuple[Any, ...]:
        return ConflictError, (self.edge,)


def find_conflict(source: EdgeSource, edge: tuple[int, int], names: NodeNames | None = None) -> str:
    """Which rows give an edge two weights; the input is read again, as few inputs have such an edge.

    Where its ids are text, `names` has those of the nodes.
    """
    found: list[tuple[int, int, float]] = []
    places: list[str] = []
    for unit in source.units(BATCH_ROWS):
        for columns, where in source.read(unit):
            for row in np.flatnonzero(_matches(columns, edge, names)).tolist():
                found.append((*edge, float(columns["weight"][row])))
                places.append(where(row))
    low, high, weight = np.array(found).T
    ends = low.astype(np.int64), high.astype(np.int64)
    return describe_conflict((*ends, weight), lambda row: places[row], names)


def _matches(columns: Columns, edge: tuple[int, int], names: NodeNames | None) -> NDArray[np.bool_]:
    """Which rows give an edge, in either direction."""
    if names is None:
        ends: list[NDArray[np.int64]] = [columns[name].astype(np.int64) for name in ENDS]
        found: NDArray[np.bool_] = (np.minimum(*ends) == edge[0]) & (np.maximum(*ends) == edge[1])
        return found
    first, last = (names[node] for node in edge)
    from_first, from_last = equal_text(columns["source"], first), equal_text(columns["source"], last)
    to_first, to_last = equal_text(columns["target"], first), equal_text(columns["target"], last)
    return (from_first & to_last) | (from_last & to_first)
