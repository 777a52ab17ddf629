"""New points whose distances to the nodes are given, one row per new point and one column per node."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.kernels.vectors.members import fold_given
from dask_rac.tasks.team import Team
from dask_rac.vectors.assign.clusters import FlatClusters
from dask_rac.vectors.assign.contract import AssignLimits, row_spans
from dask_rac.vectors.pairs.numbers import Numbers, open_numbers


class GivenWeights:
    """New points with their distances to all nodes."""

    def __init__(self, numbers: Numbers, clusters: FlatClusters, limits: AssignLimits) -> None:
        self.rows, self.limits = numbers.shape[0], limits
        self._numbers, self._clusters = numbers, clusters

    def check(self, team: Team) -> None:
        """Do nothing: shape and dtype were checked when the distances were opened, values are while they are read."""

    def weigh(self, first: int, last: int, team: Team) -> NDArray[np.float64]:
        """Return W of the points `first` to `last` and each cluster."""
        nodes = self._numbers.shape[1]
        table = self._clusters.empty_table(last - first)
        step = max(1, self.limits.block_values // nodes)
        for start in range(first, last, step):
            stop = min(start + step, last)
            weights = self._read(start, stop)
            part = table[start - first : stop - first]
            team.run(fold_given, row_spans(stop - start, team), weights, self._clusters.members((0, nodes)), part)
        self._clusters.close(table)
        return table

    def _read(self, start: int, stop: int) -> NDArray[np.float64]:
        """Read rows; raise unless they are distances. Ward linkage takes squares."""
        weights = np.array(self._numbers.read((start, stop), (0, self._numbers.shape[1])))
        bad = ~((weights >= 0) & np.isfinite(weights))
        if bad.any():
            row, column = divmod(int(bad.ravel().argmax()), weights.shape[1])
            raise InputError(
                f"row {start + row}, column {column} of {self._numbers.name} is {weights[row, column]:g}, which is not "
                "a distance: all must be finite, 0 or more"
            )
        return np.square(weights, out=weights) if self._clusters.linkage == "ward" else weights


def open_given(distances: Any, nodes: int, clusters: FlatClusters, limits: AssignLimits) -> GivenWeights:
    """Open distances of new points to the nodes; raise unless there is one column for each node."""
    numbers = open_numbers(distances)
    if len(numbers.shape) != 2 or numbers.shape[1] != nodes:
        raise InputError(
            f"the shape of {numbers.name} is {numbers.shape}: give one row for each new point and one column for each "
            f"of the {nodes:,} points that were clustered, in their order"
        )
    if not numbers.shape[0]:
        raise InputError(f"there are no rows in {numbers.name}: give one new point or more")
    return GivenWeights(numbers, clusters, limits)
