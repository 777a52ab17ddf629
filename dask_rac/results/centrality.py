"""The most central nodes of flat clusters, from one pass over the edges or all pairs.

The mean weight between a node and the other nodes of its cluster says how central it is. A pair without an edge counts
as `missing`; where that is not a number, as twice the largest weight of an edge, or for similarities as 0.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dask_rac.base.settings import Settings

Labels = NDArray[np.int64]


class Centrality:
    """The edges inside of clusters, added up for each node."""

    def __init__(self, labels: Labels) -> None:
        self.n_nodes, self._labels = len(labels), labels
        self._edges = np.zeros(self.n_nodes, np.int64)
        self._total = np.zeros(self.n_nodes)
        self._largest = 0.0

    def add(self, source: ArrayLike, target: ArrayLike, weight: ArrayLike) -> None:
        """Add some edges."""
        source, target, weight = np.asarray(source), np.asarray(target), np.asarray(weight)
        self._largest = max(self._largest, float(weight.max(initial=0.0)))
        label = self._labels[source]
        inside = (label >= 0) & (label == self._labels[target])
        for ends in (source[inside], target[inside]):
            np.add.at(self._edges, ends, 1)
            np.add.at(self._total, ends, weight[inside])

    def most_central(self, settings: Settings, count: int) -> pd.DataFrame:
        """Return the `count` most central nodes of each cluster, the most central first, equal ones by their number."""
        nodes = np.flatnonzero(self._labels >= 0)
        label = self._labels[nodes]
        size = np.bincount(label)[label] if len(label) else label
        mean = self._means(nodes, size, self._missing(settings))
        order = np.lexsort((nodes, settings.sign * mean, label))
        first = np.searchsorted(label[order], label[order])
        chosen = order[np.arange(len(order)) - first < count]
        columns = {"label": label[chosen], "node": nodes[chosen], "size": size[chosen], "mean_weight": mean[chosen]}
        return pd.DataFrame(columns)

    def _means(self, nodes: NDArray[np.intp], size: Labels, missing: float) -> NDArray[np.float64]:
        """Return the mean weight between some nodes and the others of their clusters; NaN for a node that is alone."""
        others = size - 1
        mean = np.full(len(nodes), np.nan)
        np.divide(self._total[nodes] + missing * (others - self._edges[nodes]), others, out=mean, where=others > 0)
        return mean

    def _missing(self, settings: Settings) -> float:
        """Return the weight of a pair without an edge."""
        if not isinstance(settings.absent, str):
            return float(settings.absent)
        return 0.0 if settings.sign < 0 else 2 * self._largest
