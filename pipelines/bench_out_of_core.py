"""Out of core versus in memory on one graph: time, memory, disk, and where the time goes.

python pipelines/bench_out_of_core.py [--nodes 5000000] [--memory 1GB] [--folder bench-out-of-core]

Each measurement runs in a separate process, after a small graph has warmed it up.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from time import perf_counter

import click
import numpy as np
from rich.console import Console
from rich.table import Table

MODES = {
    "memory": "in memory, 2 threads",
    "threads": "out of core, 2 threads of one process",
    "worker": "out of core, 1 worker of 1 thread",
    "workers": "out of core, 2 workers of 1 thread",
    "crowd": "out of core, 4 workers of 1 thread",
}
WORKERS = {"worker": 1, "workers": 2, "crowd": 4}
DISK_BYTES = 400  # per node, for measuring the disk


@click.command(help=__doc__)
@click.option("--nodes", default=5_000_000, show_default=True, help="Nodes of the lattice, with 40 edges each.")
@click.option("--memory", default="1GB", show_default=True, help="The memory budget.")
@click.option("--folder", default="bench-out-of-core", show_default=True, help="A scratch folder, deleted at the end.")
@click.option("--repeat", default=2, show_default=True, help="Times each measurement is repeated; the fastest counts.")
@click.option(
    "--mode", type=click.Choice(list(MODES)), help="Measure only this mode, in this process; used internally."
)
def main(nodes: int, memory: str, folder: str, repeat: int, mode: str | None) -> None:
    """Measure all modes, or only one."""
    if mode is not None:
        print(json.dumps(measure(mode, Path(folder), memory)))
        return
    import dask_rac

    console, scratch = Console(), Path(folder)
    scratch.mkdir(parents=True)
    try:
        dask_rac.datasets.lattice(nodes, 40, 0, scratch / "edges", weights="similarity")
        dask_rac.datasets.lattice(2000, 40, 0, scratch / "small", weights="similarity")
        disk = disk_speed(scratch, DISK_BYTES * nodes)
        results: dict[str, dict[str, float]] = {}
        for _ in range(repeat):
            for name, text in MODES.items():
                result = run_alone(name, scratch, memory)
                console.print(f"{text}: {result['seconds']:.1f} s, {result['rss'] / 1e9:.2f} GB resident")
                if name not in results or result["seconds"] < results[name]["seconds"]:
                    results[name] = result
        console.print(summary(results, 20 * nodes))
        console.print(
            f"two workers are {results['worker']['seconds'] / results['workers']['seconds']:.2f} times as fast as one, "
            f"four {results['workers']['seconds'] / results['crowd']['seconds']:.2f} times as fast as two"
        )
        for name in ("threads", *WORKERS):
            console.print(phases(MODES[name], results[name], disk))
    finally:
        shutil.rmtree(scratch)


def run_alone(mode: str, scratch: Path, memory: str) -> dict[str, float]:
    """Measure one mode in a separate process."""
    command = [sys.executable, __file__, "--mode", mode, "--folder", str(scratch), "--memory", memory]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(mode: str, scratch: Path, memory: str) -> dict[str, float]:
    """Cluster once, after a small graph has warmed everything up."""
    import dask
    from distributed import Client, LocalCluster
    from watch import watched

    import dask_rac

    dask.config.set(num_workers=2)
    client = None
    if mode in WORKERS:
        options = {"threads_per_worker": 1, "dashboard_address": ":0", "memory_limit": "3GB"}
        cluster = LocalCluster(n_workers=WORKERS[mode], **options)
        client = Client(cluster)
    store = scratch / "run"
    if mode == "memory":
        dask_rac.cluster(scratch / "small", weights="similarity")
        with watched() as usage:
            dask_rac.cluster(scratch / "edges", weights="similarity")
        return {"seconds": usage.seconds, "rss": usage.rss}
    dask_rac.cluster(scratch / "small", weights="similarity", store=store, shards=3)
    shutil.rmtree(store)
    with watched() as usage:
        clustering = dask_rac.cluster(scratch / "edges", weights="similarity", store=store, memory=memory)
    shutil.rmtree(store)
    if client is not None:
        client.close()
        cluster.close()
    input_bytes = sum(file.stat().st_size for file in (scratch / "edges").iterdir())
    totals = clustering.phases.drop(columns=["step", "round", "shards"]).sum()
    found = {"seconds": usage.seconds, "rss": usage.rss, "disk": clustering.peak_disk / input_bytes}
    return found | {str(name): float(total) for name, total in totals.items()}


def disk_speed(scratch: Path, size: int) -> dict[str, float]:
    """Return the GB/s of writing a file and of reading it again, with and without the page cache."""
    block = np.random.default_rng(0).integers(0, 256, 16_000_000, np.uint8)
    path, speed = scratch / "disk", {}
    for name in ("first write", "write"):
        started = perf_counter()
        with path.open("wb") as file:
            for start in range(0, size, len(block)):
                file.write(block[: size - start].data)
            file.flush()
            os.fsync(file.fileno())
        speed[name] = size / (perf_counter() - started) / 1e9
    for name in ("read from disk", "read from cache"):
        handle = os.open(path, os.O_RDONLY)
        if name == "read from disk":
            os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        started = perf_counter()
        while os.readv(handle, [block.data]):
            pass
        speed[name] = size / (perf_counter() - started) / 1e9
        os.close(handle)
    path.unlink()
    return speed


def summary(results: dict[str, dict[str, float]], edges: int) -> Table:
    """Return a table with one row per mode."""
    table = Table("", "seconds", "/ in memory", "peak RSS, GB", "peak disk / edges", title=f"{edges:,} edges")
    for name, found in results.items():
        ratio = found["seconds"] / results["memory"]["seconds"]
        disk = f"{found['disk']:.2f}" if "disk" in found else ""
        table.add_row(MODES[name], f"{found['seconds']:.1f}", f"{ratio:.2f}", f"{found['rss'] / 1e9:.2f}", disk)
    return table


def phases(title: str, found: dict[str, float], disk: dict[str, float]) -> Table:
    """Return a table of where the time of all threads went, with the speed of the disk."""
    speeds = ", ".join(f"{name} {speed:.2f}" for name, speed in disk.items())
    title = f"{title}: phases; the disk in GB/s: {speeds}"
    table = Table("phase", "thread seconds", "GB", "GB/s per thread", title=title)
    for name in ("read", "relabel", "route", "fold", "write"):
        seconds, size = found.get(f"{name}_seconds", 0.0), found.get(f"{name}_bytes", 0.0) / 1e9
        table.add_row(name, f"{seconds:.1f}", *(("", "") if not size else (f"{size:.1f}", f"{size / seconds:.2f}")))
    return table


if __name__ == "__main__":
    main()
