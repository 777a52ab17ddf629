"""Promise 2: threads and the order of rows never show."""

from __future__ import annotations

from typing import Any

import dask
import numpy as np
import pytest

import dask_rac
from tests.support.graphs import tangled_edges
from tests.support.results import fingerprint


@pytest.mark.parametrize("linkage", ["average", "complete", "single", "weighted"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("finisher", [True, False])
def test_threads_and_order_of_rows_never_show(linkage: str, weights: str, finisher: bool) -> None:
    u, v, _ = tangled_edges(20_000, 60_000, 1, seed=0)
    rng = np.random.default_rng(0)
    weight = np.where(rng.random(len(u)) < 0.5, rng.integers(1, 4, len(u)) / 10, rng.random(len(u)))
    options: dict[str, Any] = {"linkage": linkage, "weights": weights, "finisher": finisher, "max_height": 0.2}
    if linkage == "weighted" and weights == "distance":
        options |= {"missing": 1.0, "max_height": 0.9}
    hashes = set()
    for threads in (1, 2, 3, 7):
        order = rng.permutation(len(u))
        swap = rng.random(len(u)) < 0.5
        ends = np.where(swap, u, v)[order], np.where(swap, v, u)[order]
        with dask.config.set(num_workers=threads):
            hashes.add(fingerprint(dask_rac.cluster((*ends, weight[order]), n_nodes=20_000, **options)))
    assert len(hashes) == 1
