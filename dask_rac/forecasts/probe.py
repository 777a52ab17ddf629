"""A probe of this machine, at most about a minute: disk, memory, an object store, and clusterings of small graphs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np

from dask_rac.api.cluster import cluster
from dask_rac.base.names import temporary_name
from dask_rac.base.text import size_text
from dask_rac.datasets import lattice
from dask_rac.files.buffers import REQUEST
from dask_rac.files.folder import Folder
from dask_rac.forecasts.calibrate import calibrated
from dask_rac.forecasts.machine import Machine
from dask_rac.forecasts.observe import Place, Run, observe
from dask_rac.forecasts.waiting import Waiting
from dask_rac.tasks.machine import new_team

DEGREE = 40
SHARDS = 17
DISK_BYTES = 2**29
MEMORY_BYTES = 2**27
REQUESTS = 16


@dataclass(frozen=True)
class Effort:
    """How much a probe does."""

    nodes: tuple[int, ...] = (20_000, 150_000, 600_000)
    """Of the graphs that are clustered; the first only warms everything up."""
    disk_bytes: int = DISK_BYTES
    requests: int = REQUESTS


def probed(
    folder: str | None = None, url: str | None = None, effort: Effort | None = None
) -> tuple[Machine, list[Run]]:
    """Return the constants of this machine, and the runs that they are from.

    `folder` is on the disk that is to be measured, by default where temporary files are; `url` is a folder of an object
    store.
    """
    effort = effort or Effort()
    with TemporaryDirectory(dir=folder, prefix="dask-rac-probe-") as scratch:
        machine = _with_disk(Machine(memory=memory_rate()), Path(scratch), effort.disk_bytes)
        runs = small_runs(Path(scratch), effort.nodes)
    if url is not None:
        machine = with_store(machine, url, effort.requests)
    return calibrated(runs, machine), runs


def small_runs(scratch: Path, nodes: tuple[int, ...]) -> list[Run]:
    """Cluster small graphs through a store, the first only to warm everything up; return what they show."""
    runs = []
    for count in nodes:
        edges = lattice(count, DEGREE, 0, scratch / f"edges-{count}", weights="similarity")
        store = scratch / f"run-{count}"
        run = measured_run(Path(edges), store, max(4_000_000, 200 * count))
        runs.append(run)
    return runs[1:] or runs


def measured_run(edges: Path, store: Path, memory: int) -> Run:
    """Cluster similarities through a store in the threads of this process, and return what the run shows.

    Other programs may use the processors, too; as far as threads have waited for one, the seconds of the run are taken
    to be longer than they should be.
    """
    with Waiting().watching() as waiting:
        cluster(edges, weights="similarity", store=store, memory=memory, progress=False)
    with new_team() as team:
        return observe(store, Place(1, team.threads, waiting.slowdown))


def memory_rate() -> float:
    """Return the bytes per second that one thread copies."""
    block, out = np.ones(MEMORY_BYTES // 8), np.empty(MEMORY_BYTES // 8)
    np.copyto(out, block)  # the first copy takes new memory from the system
    return MEMORY_BYTES / _fastest(lambda: np.copyto(out, block), 3)


def _with_disk(machine: Machine, scratch: Path, size: int) -> Machine:
    """Measure writing a file, flushed, and reading it again, past the page cache."""
    path, block = scratch / "disk", np.random.default_rng(0).integers(0, 256, 2**24, np.uint8)

    def write() -> None:
        with path.open("wb", buffering=0) as file:
            for _ in range(0, size, len(block)):
                file.write(block.data)
            os.fsync(file.fileno())

    written = _fastest(write, 1)
    handle = os.open(path, os.O_RDONLY)
    try:
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)

        def read() -> None:
            while os.readv(handle, [block.data]):
                pass

        spent = _fastest(read, 1)
        size = path.stat().st_size
    finally:
        os.close(handle)
        path.unlink()
    return replace(
        machine,
        disk_write=size / written,
        disk_read=size / spent,
        sources=(*machine.sources, f"a disk that wrote and read {size_text(size)}"),
    )


def with_store(machine: Machine, url: str, requests: int = REQUESTS) -> Machine:
    """Measure how long a small request to an object store takes, and how fast a large one is."""
    folder = Folder(url)
    name = temporary_name("probe")
    data = np.random.default_rng(0).integers(0, 256, REQUEST, np.uint8).tobytes()
    try:
        folder.write(name, data)
        small = sorted(_fastest(lambda: folder.read(name, 0, 1), 1) for _ in range(requests))
        latency = small[len(small) // 2]
        large = _fastest(lambda: folder.read(name, 0, len(data)), 2)
    finally:
        folder.remove(name)
    rate = len(data) / max(1e-9, large - latency)
    return replace(machine, latency=latency, connection=rate, sources=(*machine.sources, f"requests to {folder.url}"))


def _fastest(do: Callable[[], object], times: int) -> float:
    """Return the least seconds that something has taken."""
    spent = []
    for _ in range(times):
        began = perf_counter()
        do()
        spent.append(perf_counter() - began)
    return max(1e-9, min(spent))
