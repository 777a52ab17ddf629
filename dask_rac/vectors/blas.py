"""One core for each product: tasks run beside each other, and would fight for the threads of the linear algebra.

Some libraries keep the number of threads for the process, others for each thread: it is set and put back in every
thread, to what it was before the first of those that are at work.
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
    """Have matrix products in this thread use no other."""
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
