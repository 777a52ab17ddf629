"""Which integers hold ids."""

from __future__ import annotations

import numpy as np
import pytest

from dask_rac.base.ids import cluster_id_dtype, edge_id_dtype
from dask_rac.kernels.rows.match import JOINS, LEADS, LEAVES, STAYS


@pytest.mark.parametrize(("count", "kind"), [(0, "int32"), (2**29, "int32"), (2**29 + 1, "int64")])
def test_ids_in_rounds(count: int, kind: str) -> None:
    assert cluster_id_dtype(count) == np.dtype(kind)


@pytest.mark.parametrize(("nodes", "kind"), [(0, "int32"), (2**31 - 1, "int32"), (2**31, "int64")])
def test_ids_of_edges(nodes: int, kind: str) -> None:
    assert edge_id_dtype(nodes) == np.dtype(kind)


def test_every_fate_fits() -> None:
    """The last position of the largest graph with short ids, with each kind of fate; one more would not fit."""
    most = np.iinfo(cluster_id_dtype(2**29)).max
    assert max((2**29 - 1) << 2 | fate for fate in (STAYS, LEADS, JOINS, LEAVES)) == most
    assert most < 2**29 << 2
