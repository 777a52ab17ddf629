"""One core for each product: tasks run beside each other, and would fight for the threads of the linear algebra."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from threadpoolctl import threadpool_limits

_lock = threading.Lock()
_held: dict[str, Any] = {"tasks": 0, "limits": None}


@contextmanager
def one_core() -> Iterator[None]:
    """Have matrix products of this process use one thread each, until the last task that wants it has ended."""
    with _lock:
        if not _held["tasks"]:
            _held["limits"] = threadpool_limits(1, "blas")
        _held["tasks"] += 1
    try:
        yield
    finally:
        with _lock:
            _held["tasks"] -= 1
            if not _held["tasks"]:
                _held["limits"].restore_original_limits()
