"""How far flat cuts agree with known classes, from sums over pairs of nodes and over n log n.

With `f(n) = n log n`, summed over the nodes of one class in one cluster, over clusters, over classes, and of all N
nodes, the mutual information is `(joint - own - classes + f(N)) / N`, and the entropy of clusters `log N - own / N`.
The adjusted Rand index needs pairs: those of one class in one cluster, in one cluster, in one class, and all.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.tree.scores import Sums

Values = NDArray[np.float64]


@dataclass(frozen=True)
class Agreement:
    """Measures of some flat cuts; each is an array with one value per cut.

    Where a cut and the classes are the same partition, all but the mutual information are exactly 1.
    """

    sums: Sums
    """The sums after the merges of each cut."""
    class_sizes: NDArray[np.int64]

    @cached_property
    def _nodes(self) -> int:
        return int(self.class_sizes.sum())

    @cached_property
    def _all_pairs(self) -> float:
        return self._nodes * (self._nodes - 1) / 2

    @cached_property
    def _same(self) -> NDArray[np.bool_]:
        """Whether a cut is the same partition as the classes."""
        alike = pairs_of(self.class_sizes)
        same: NDArray[np.bool_] = (self.sums.pairs == alike) & (self.sums.together == alike)
        return same

    @cached_property
    def _single(self) -> NDArray[np.bool_]:
        """Whether there is one class or one cluster only, so that nothing can be learned of the other."""
        single: NDArray[np.bool_] = (self.sums.together == self._all_pairs) | (len(self.class_sizes) == 1)
        return single

    def ari(self) -> Values:
        """Return the adjusted Rand index."""
        alike, together = float(pairs_of(self.class_sizes)), self.sums.together.astype(np.float64)
        chance = together * (alike / max(self._all_pairs, 1.0))
        with np.errstate(invalid="ignore", divide="ignore"):
            index: Values = (self.sums.pairs - chance) / ((together + alike) / 2 - chance)
        return np.where(self._same, 1.0, index)

    def mi(self) -> Values:
        """Return the mutual information, in nats."""
        of_classes = n_log_n(self.class_sizes) - n_log_n(np.array([self._nodes]))
        learned = (self.sums.joint - self.sums.own - of_classes) / self._nodes
        return np.where(self._single, 0.0, np.maximum(learned, 0.0))

    def nmi(self) -> Values:
        """Return the mutual information over the mean of both entropies."""
        with np.errstate(invalid="ignore", divide="ignore"):
            shared = self.mi() / self._mean_entropy
        return np.where(self._same, 1.0, np.where(self._single, 0.0, shared))

    def ami(self) -> Values:
        """Return the mutual information beyond chance, over the mean of both entropies beyond chance."""
        room = self._mean_entropy - self.sums.chance
        with np.errstate(invalid="ignore", divide="ignore"):
            beyond = (self.mi() - self.sums.chance) / room
        # If every cluster is one node, each class is known for certain and by chance alone.
        alone = self._single | (self.sums.together == 0)
        return np.where(self._same, 1.0, np.where(alone, 0.0, beyond))

    @property
    def _mean_entropy(self) -> Values:
        """The mean of the entropies of classes and clusters."""
        mean: Values = np.log(self._nodes) - (n_log_n(self.class_sizes) + self.sums.own) / (2 * self._nodes)
        return mean


def pairs_of(sizes: NDArray[np.int64]) -> int:
    """Return the number of pairs within groups of some sizes."""
    return int((sizes * (sizes - 1) // 2).sum())


def n_log_n(sizes: NDArray[np.int64]) -> float:
    """Return the sum of n log n over groups of some sizes, none empty."""
    return float((sizes * np.log(sizes)).sum())
