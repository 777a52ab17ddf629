"""One core for each matrix product: tasks run in parallel and would compete for the threads of the linear algebra.

Some libraries keep the number of threads per process, others per thread. So every thread sets it, and restores it to
what it was before the first of the threads now at work set it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_held: dict[str, Any] = {"tasks": 0, "before": None}


@contextmanager
def one_core() -> Iterator[None]:
    """Restrict matrix products in this thread to one core."""
    with _lock:
        limits = threadpool_limits(1, "blas")
        if not _held["tasks"]:
            _held["before"] = limits
        _held["tasks"] += 1
    try:
        yield
    finally:
        with _lock:
            _held["tasks"] -= 1
            _held["before"].restore_original_limits()
