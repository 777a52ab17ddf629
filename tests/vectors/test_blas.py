"""Products of tasks that run in parallel use one core each, whoever comes and goes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event

import numpy as np
import pytest
import threadpoolctl

from dask_rac.vectors.compare.blas import one_core


def _threads() -> int:
    """How many threads a product may use here."""
    np.ones((2, 2)) @ np.ones((2, 2))
    return max(
        (pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"), default=1
    )


def test_products_have_one_core_until_the_last_task_leaves() -> None:
    before = _threads()
    if before == 1:
        pytest.skip("there is one core in any case")
    for first_to_leave in (0, 1, 0):
        both, left = Barrier(2), Event()

        def task(number: int, first: int = first_to_leave, both: Barrier = both, left: Event = left) -> int:
            with one_core():
                both.wait(30)
                if number == first:
                    found = _threads()
                else:
                    assert left.wait(30)
                    found = _threads()
            left.set()
            return found

        with ThreadPoolExecutor(2) as pool:
            assert list(pool.map(task, range(2))) == [1, 1]
        assert _threads() == before
        with one_core():
            assert _threads() == 1
        assert _threads() == before
