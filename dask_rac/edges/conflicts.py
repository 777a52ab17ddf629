"""Edges that are given with two weights, where that is an error."""

from __future__ import annotations

from typing import Any

import numpy as np

from dask_rac.base.errors import InputError
from dask_rac.edges.checks import describe_conflict
from dask_rac.edges.source import BATCH_ROWS, EdgeSource


class ConflictError(InputError):
    """An edge with two weights; `find_conflict` finds its rows."""

    def __init__(self, edge: tuple[int, int]) -> None:
        super().__init__(f"edge {edge[0]}-{edge[1]} has two weights")
        self.edge = edge

    def __reduce__(self) -> tuple[Any, ...]:
        return ConflictError, (self.edge,)


def find_conflict(source: EdgeSource, edge: tuple[int, int]) -> str:
    """Which rows give an edge two weights; the input is read again, as few inputs have such an edge."""
    found: list[tuple[int, int, float]] = []
    places: list[str] = []
    for unit in source.units(BATCH_ROWS):
        for columns, where in source.read(unit):
            ends = columns["source"].astype(np.int64), columns["target"].astype(np.int64)
            lo, hi = np.minimum(*ends), np.maximum(*ends)
            for row in np.flatnonzero((lo == edge[0]) & (hi == edge[1])).tolist():
                found.append((*edge, float(columns["weight"][row])))
                places.append(where(row))
    low, high, weight = np.array(found).T
    return describe_conflict((low.astype(np.int64), high.astype(np.int64), weight), lambda row: places[row])
