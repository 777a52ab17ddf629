"""How a run is sped up by workers: the same run through a store on one worker process and on two."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from logging import ERROR
from pathlib import Path
from time import perf_counter
from typing import Any

import dask_rac

Numbers = dict[str, Any]
WORKERS = (1, 2)


def worker_numbers(folder: Path, scale: float) -> list[Numbers]:
    """Measure a graph of edges and all pairs of vectors; `scale` makes both smaller."""
    nodes, vectors = max(5_000, int(1_000_000 * scale)), max(2_000, int(40_000 * scale**0.5))
    edges = dask_rac.datasets.lattice(nodes, 40, store=folder / "edges", weights="similarity", progress=False)
    small = dask_rac.datasets.lattice(2_000, 40, store=folder / "small", weights="similarity", progress=False)
    sift = dask_rac.datasets.sift(vectors, store=folder / "sift.npy", progress=False)
    few = dask_rac.datasets.sift(1_000, store=folder / "few.npy", progress=False)
    graph = partial(dask_rac.cluster, weights="similarity", progress=False)
    pairs = partial(dask_rac.cluster, linkage="complete", metric="euclidean", engine="certain", progress=False)
    memory = f"{max(60, 250 * nodes // 1_000_000)}MB"
    found = []
    for count in WORKERS:
        with workers(count) as client:
            run = Run(client, folder)
            run.once(partial(graph, small, shards=3))
            numbers = run.once(partial(graph, edges, memory=memory))
            found.append({"what": "edges", "nodes": nodes, "workers": count, **numbers})
            run.once(partial(pairs, few))
            numbers = run.once(partial(pairs, sift, memory="2GB"))
            found.append({"what": "pairs", "nodes": vectors, "workers": count, **numbers})
    return found


@contextmanager
def workers(count: int) -> Iterator[Any]:
    """Start worker processes of one thread each."""
    import dask
    from distributed import Client, LocalCluster

    quiet = {"distributed.admin.system-monitor.gil.enabled": False}  # it warns when a busy machine keeps it waiting
    with (
        dask.config.set(quiet),
        LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=None, silence_logs=ERROR) as cluster,
        Client(cluster) as client,
    ):
        yield client


class Run:
    """Runs on the workers of a client, each through a store of its own."""

    def __init__(self, client: Any, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.number = 0

    def once(self, call: Callable[..., dask_rac.Clustering]) -> Numbers:
        """Run once; return seconds, and the processor seconds of the scheduler's process and of each worker."""
        self.number += 1
        store = self.folder / f"store-{len(self.client.nthreads())}-{self.number}"
        before, own, started = self.spent(), time.process_time(), perf_counter()
        tree = call(store=store, client=self.client)
        seconds, own = perf_counter() - started, time.process_time() - own
        spent = [after - before[worker] for worker, after in self.spent().items()]
        load = os.getloadavg()[0]
        return {"rounds": len(tree.rounds), "seconds": seconds, "scheduler": own, "each": spent, "load": load}

    def spent(self) -> dict[str, float]:
        """Return the processor seconds of each worker so far."""
        found: dict[str, float] = self.client.run(time.process_time)
        return found
