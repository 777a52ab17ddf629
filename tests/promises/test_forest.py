"""Promise 10: a forest stays a forest."""

from __future__ import annotations

import numpy as np
import pytest

import dask_rac


def test_a_forest_is_joined_only_on_request() -> None:
    found = dask_rac.cluster(([0, 2], [1, 3], [1.0, 2.0]), n_nodes=5)
    assert found.n_trees == 3
    with pytest.raises(dask_rac.InputError, match=r"the hierarchy has 3 trees, .* to_scipy\(join=True\)"):
        found.to_scipy()
    expected = [[0, 1, 1, 2], [2, 3, 2, 2], [5, 6, np.inf, 4], [4, 7, np.inf, 5]]
    assert found.to_scipy(join=True).tolist() == expected
