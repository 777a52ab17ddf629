"""A pass over dense vectors by their differences in float64: any metric, the bits of the matrix engine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dask_rac.engines.certain.order import Job, parts_of
from dask_rac.kernels.certain.arrays import Order
from dask_rac.kernels.certain.differences import fold_differences
from dask_rac.kernels.vectors.pairs import COSINE
from dask_rac.vectors.compare.search import squares
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

ROWS = 256  # of a part
VALUES = 2**20  # of its vectors, at most


class Differences:
    """Reduces dense vectors by the differences of their values."""

    def __init__(self, pairs: VectorPairs, order: Order, code: int) -> None:
        vectors = pairs.source.read(0, pairs.nodes)
        lengths = np.sqrt(squares(vectors)) if pairs.metric.code == COSINE else np.empty(0)
        self.begin = order.begin
        self._given, self._rule, self._order = (vectors, lengths), (code, pairs.metric.code), order

    def fill(self, job: Job, base: int, out: NDArray[np.float64]) -> None:
        """Write a part of the triangle of clusters."""
        rows = max(1, min(ROWS, VALUES // self._given[0].shape[1]))
        for part in parts_of(self._order, job, base, rows):
            fold_differences(self._given, self._rule, self._order, part, out)
