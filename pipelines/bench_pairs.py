"""Time and memory of clustering all pairs of vectors that no matrix could hold, beside the bare products of all pairs.

Vectors are like SIFT's: whole numbers, whose float32 products are exact, or with `--values float` the same with noise.
Each run is a process of its own that loads the vectors and clusters them; its peak is watched from outside. The bare
products of all pairs, n * n / 2 of them by sgemm on as many cores, are timed in the same run, before and after: what is
counted is the ratio. fastcluster's `linkage_vector` is measured with 20,000 vectors and scaled by the square.

    python pipelines/bench_pairs.py                            100,000 vectors, about five minutes
    python pipelines/bench_pairs.py --vectors 20000            fewer
    python pipelines/bench_pairs.py --vectors 50000 --vectors 100000 --vectors 200000 --method complete     growth
"""

import math
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import perf_counter

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits
from watch import Usage, watched

import dask_rac

METHODS = {"ward": "points", "average": "certain", "complete": "certain", "single": "certain"}
CORES = 2
TILE = 1024
COMPARED = 20_000  # vectors for fastcluster

RUN = """
import sys, dask, numpy, dask_rac
path, method, engine, memory, store, cores = sys.argv[1:]
with dask.config.set(num_workers=int(cores)):
    dask_rac.cluster(numpy.load(path)[:5000], method, metric="euclidean", engine=engine)
    print("ready", flush=True)
    sys.stdin.readline()
    place = dict(store=store) if store else {}
    dask_rac.cluster(path, method, metric="euclidean", engine=engine, memory=memory, **place)
"""


@click.command(help=__doc__)
@click.option("--vectors", "counts", multiple=True, default=(100_000,), show_default=True)
@click.option("--method", "methods", multiple=True, type=click.Choice(list(METHODS)), default=tuple(METHODS)[:3])
@click.option("--values", type=click.Choice(["whole", "float"]), default="whole", show_default=True)
@click.option("--memory", default="3GB", show_default=True, help="The budget of each run.")
@click.option("--store", is_flag=True, help="Through a store, where a run can be resumed.")
@click.option("--fastcluster/--no-fastcluster", "compare", default=True, show_default=True)
def main(
    counts: tuple[int, ...], methods: tuple[str, ...], values: str, memory: str, store: bool, compare: bool
) -> None:
    """Print the table."""
    console = Console(width=120)
    table = Table("vectors", "", "engine", "seconds", "/ bare products", "peak memory", "growth: n to the")
    before: dict[str, tuple[int, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for count in sorted(counts):
            path = generated(Path(folder), count, values)
            bare = products(path, count)
            times = {
                method: run(path, method, memory, Path(folder) / f"{method}{count}" if store else None)
                for method in methods
            }
            bare = min(bare, products(path, count))
            table.add_row(f"{count:,} x 128", "bare products (sgemm)", "", f"{bare:.1f}", "1.00", "", "")
            for method, usage in times.items():
                growth = ""
                if method in before:
                    fewer, seconds = before[method]
                    growth = f"{math.log(usage.seconds / seconds) / math.log(count / fewer):.2f}"
                before[method] = count, usage.seconds
                ratio, peak = f"{usage.seconds / bare:.2f}", f"{usage.rss / 1e9:.2f} GB"
                table.add_row("", method, METHODS[method], f"{usage.seconds:.1f}", ratio, peak, growth)
            if compare and "ward" in times:
                seconds = scaled(path, count)
                table.add_row("", "ward", "fastcluster, scaled", f"{seconds:.0f}", f"{seconds / bare:.1f}", "", "")
            table.add_section()
    console.print(table)
    console.print(f"{CORES} of {os.cpu_count()} cores, {values} values, budget {memory}")


def generated(folder: Path, count: int, values: str) -> Path:
    """Write vectors like SIFT's."""
    path = folder / f"{values}{count}.npy"
    dask_rac.datasets.sift(count, store=path, progress=False)
    if values == "float":
        rows = np.load(path)
        rows += np.random.default_rng(0).random(rows.shape, np.float32) - np.float32(0.5)
        np.save(path, rows)
    return path


def products(path: Path, count: int) -> float:
    """Return the seconds for the float32 products of all pairs, with nothing made of them."""
    rows = np.load(path)
    starts = range(0, count, TILE)

    def line(start: int) -> None:
        out = np.empty((TILE, TILE), np.float32)
        own = rows[start : start + TILE]
        for other in range(start, count, TILE):
            columns = rows[other : other + TILE].T
            np.matmul(own, columns, out=out[: len(own), : columns.shape[1]])

    with threadpool_limits(1, "blas"), ThreadPoolExecutor(CORES) as pool:
        line(starts[-1])
        started = perf_counter()
        list(pool.map(line, starts))
        return perf_counter() - started


def run(path: Path, method: str, memory: str, store: Path | None) -> Usage:
    """Cluster in a process of its own, compiled before the clock starts."""
    words = [str(path), method, METHODS[method], memory, str(store or ""), str(CORES)]
    with subprocess.Popen(
        [sys.executable, "-c", RUN, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        with watched() as usage:
            process.stdin.write("go\n")
            process.stdin.flush()
            failed = process.wait()
    if failed:
        raise SystemExit(f"{method} failed")
    return usage


def scaled(path: Path, count: int) -> float:
    """Return the seconds that fastcluster would take, from fewer vectors."""
    import fastcluster

    rows = np.load(path)[:COMPARED].astype(np.float64)
    started = perf_counter()
    fastcluster.linkage_vector(rows, "ward")
    return (perf_counter() - started) * (count / len(rows)) ** 2


if __name__ == "__main__":
    main()
