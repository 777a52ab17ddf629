"""Promise 9: heights never fall from leaf to root."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from scipy.cluster import hierarchy

import dask_rac
from tests.support.graphs import tangled_edges


@pytest.mark.parametrize(
    ("linkage", "missing"), [*product(["average", "complete", "single"], ["ignore", 0.7]), ("weighted", 0.7)]
)
def test_heights_never_fall_though_sums_are_rounded(linkage: str, missing: str | float) -> None:
    u, v, weight = tangled_edges(2000, 8000, 7, seed=3)
    found = dask_rac.cluster((u, v, weight / 10), linkage, missing)
    top = np.zeros(found.n_nodes)
    for left, right, height in found.merges[["left", "right", "height"]].itertuples(index=False):
        assert height >= max(top[left], top[right])
        top[left] = height
    Z = found.to_scipy(join=True)
    assert hierarchy.is_valid_linkage(Z)
    assert hierarchy.is_monotonic(Z)
