"""What tests of the estimator share: samples, and whether two results are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

from dask_rac import RAC

Samples = NDArray[np.float64]


def samples(n: int, dimensions: int = 3, seed: int = 0) -> Samples:
    """Return points without ties."""
    return np.random.default_rng(seed).normal(size=(n, dimensions))


def same_partition(left: NDArray[Any], right: NDArray[Any]) -> bool:
    return bool(adjusted_rand_score(left, right) == 1.0)


def same_tree(left: RAC, right: RAC) -> bool:
    """To the last bit."""
    return np.array_equal(left.children_, right.children_) and np.array_equal(left.distances_, right.distances_)


def scikit(linkage: str = "average", **more: Any) -> AgglomerativeClustering:
    """Return scikit-learn's estimator, which is to compute all that ours does."""
    return AgglomerativeClustering(linkage=linkage, compute_distances=True, compute_full_tree=True, **more)
