"""One core for each matrix product: tasks run in parallel and would compete for the threads of the linear algebra.

Some libraries keep the number of threads per process, others per thread. So every thread sets it. The last of the
threads now at work restores what the first one found: an earlier one would let the others compete again. Newer
versions of threadpoolctl let only the thread that first set a limit for the process change it, until it gives that up;
whoever is the last to leave gives it up for all.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import threadpoolctl

_lock = threading.Lock()
_held: dict[str, Any] = {"tasks": 0, "before": None}


@contextmanager
def one_core() -> Iterator[None]:
    """Restrict matrix products in this thread to one core."""
    with _lock:
        limits = threadpoolctl.threadpool_limits(1, "blas")
        if not _held["tasks"]:
            _held["before"] = limits
        _held["tasks"] += 1
    try:
        yield
    finally:
        with _lock:
            _held["tasks"] -= 1
            if not _held["tasks"]:
                _give_up_control()
                _held["before"].restore_original_limits()
                _give_up_control()


def _give_up_control() -> None:
    """Let any thread set the number of threads of the process, where threadpoolctl has a say in that."""
    openblas = getattr(threadpoolctl, "OpenBLASController", None)
    give_up = getattr(openblas, "clear_controlling_thread", None)
    if give_up is not None:
        give_up(force=True)
