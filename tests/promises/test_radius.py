"""Promise 11: all pairs up to a radius give the tree of all pairs, up to the radius."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist

import dask_rac


@pytest.mark.parametrize("seed", range(20))
def test_all_pairs_up_to_a_radius_give_the_complete_tree_up_to_it(seed: int) -> None:
    rng = np.random.default_rng(seed)
    distances = pdist(rng.random((80, 3)))
    u, v = np.triu_indices(80, 1)
    for radius in (0.1, 0.4, 0.8):
        near = distances <= radius
        found = dask_rac.cluster((u[near], v[near], distances[near]), "complete", "infinite", n_nodes=80)
        expected = hierarchy.linkage(distances, "complete")[:, 2]
        np.testing.assert_array_equal(np.sort(found.merges["height"]), expected[expected <= radius])
