"""The machine and the process that runs here: threads, memory, versions."""

from __future__ import annotations

import importlib.metadata

import dask
from dask.system import CPU_COUNT
from distributed.system import MEMORY_LIMIT

from dask_rac.base.errors import InputError
from dask_rac.tasks.team import Team


def new_team() -> Team:
    """Return as many threads as Dask's setting `num_workers` states, else all that this process may use."""
    threads = dask.config.get("num_workers", None) or CPU_COUNT
    if not isinstance(threads, int) or threads < 1:
        raise InputError(f"Dask's setting num_workers={threads!r} is not a number of threads: use 1 or more")
    return Team(threads)


def memory_limit() -> int:
    """Return the bytes of memory that this process may use."""
    return int(MEMORY_LIMIT)


PACKAGES = ("dask-rac", "dask", "distributed", "numba", "numpy", "zarr", "pyarrow")


def versions() -> dict[str, str]:
    """Return the versions of the packages that must be the same everywhere."""
    return {package: importlib.metadata.version(package) for package in PACKAGES}
