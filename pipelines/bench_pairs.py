"""Time and memory of clustering all pairs of vectors that no matrix could hold, beside the bare products of all pairs.

Vectors are like SIFT's: whole numbers, whose float32 products are exact, or with `--values float` the same with noise.
Each run is a process of its own that loads the vectors and clusters them; its peak is watched from outside. The bare
products of all pairs, n * n / 2 of them by sgemm on as many cores, are timed in the same run, before and after: what is
counted is the ratio. fastcluster's `linkage_vector` is measured with 20,000 vectors and scaled by the square.

    python pipelines/bench_pairs.py                            100,000 vectors, about five minutes
    python pipelines/bench_pairs.py --vectors 20000            fewer
    python pipelines/bench_pairs.py --growth --memory 6GB      50,000, 100,000 and 200,000, about fifteen minutes
    python pipelines/bench_pairs.py --growth --vectors 5000 --vectors 10000 --vectors 20000     growth at other sizes

Growth is the power of n by which time grows; on a machine with other work, processor time tells more. The bare products
are left out there.
"""

from __future__ import annotations

import math
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import click
import numpy as np
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits
from watch import watched

import dask_rac

METHODS = {"ward": "points", "average": "certain", "complete": "certain", "single": "certain"}
CORES = 2
TILE = 1024
COMPARED = 20_000  # vectors for fastcluster
SIZE, GROWING = 100_000, (50_000, 100_000, 200_000)  # vectors, unless others are asked for

RUN = """
import sys, time, dask, numpy, dask_rac
path, method, engine, memory, store, cores = sys.argv[1:]
with dask.config.set(num_workers=int(cores)):
    dask_rac.cluster(numpy.load(path)[:5000], method, metric="euclidean", engine=engine)
    print("ready", flush=True)
    sys.stdin.readline()
    place, began = dict(store=store) if store else {}, time.process_time()
    dask_rac.cluster(path, method, metric="euclidean", engine=engine, memory=memory, **place)
    print(time.process_time() - began)
"""


@dataclass(frozen=True)
class Cost:
    """What one run took."""

    vectors: int
    seconds: float
    processor: float
    """Seconds of all threads together."""
    rss: int

    def growth(self, fewer: Cost) -> str:
        """Return the powers of n by which both times grew."""
        ratio = math.log(self.vectors / fewer.vectors)
        wall, processor = self.seconds / fewer.seconds, self.processor / fewer.processor
        return f"{math.log(wall) / ratio:.2f}, processor n^{math.log(processor) / ratio:.2f}"


@click.command(help=__doc__)
@click.option("--vectors", "counts", multiple=True, type=int, help="How many; several for several sizes.")
@click.option("--growth", is_flag=True, help="Three sizes, by default, and how time grows with them.")
@click.option("--method", "methods", multiple=True, type=click.Choice(list(METHODS)), default=tuple(METHODS)[:3])
@click.option("--values", type=click.Choice(["whole", "float"]), default="whole", show_default=True)
@click.option("--memory", default="3GB", show_default=True, help="The budget of each run.")
@click.option("--store", is_flag=True, help="Through a store, where a run can be resumed.")
def main(
    counts: tuple[int, ...], growth: bool, methods: tuple[str, ...], values: str, memory: str, store: bool
) -> None:
    """Print the table, or how time grows."""
    console = Console(width=120)
    with tempfile.TemporaryDirectory() as name:
        bench = Bench(Path(name), methods, values, memory, store)
        if growth:
            grow(bench, sorted(counts or GROWING), console)
        else:
            compare(bench, sorted(counts or (SIZE,)), console)
    console.print(f"{CORES} of {os.cpu_count()} cores, {values} values, budget {memory}")


@dataclass(frozen=True)
class Bench:
    """What is run."""

    folder: Path
    methods: tuple[str, ...]
    values: str
    memory: str
    store: bool

    def run(self, path: Path, count: int, method: str) -> Cost:
        """Cluster in a process of its own, compiled before the clock starts."""
        store = str(self.folder / f"{method}{count}") if self.store else ""
        words = [str(path), method, METHODS[method], self.memory, store, str(CORES)]
        with subprocess.Popen(
            [sys.executable, "-c", RUN, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdout.readline()
            with watched() as usage:
                process.stdin.write("go\n")
                process.stdin.flush()
                processor = process.stdout.readline()
                failed = process.wait()
        if failed:
            raise SystemExit(f"{method} failed")
        return Cost(count, usage.seconds, float(processor), usage.rss)


def compare(bench: Bench, counts: list[int], console: Console) -> None:
    """Print a table of all runs beside the bare products."""
    table = Table("vectors", "", "engine", "seconds", "processor", "/ bare products", "peak memory")
    for count in counts:
        path = generated(bench.folder, count, bench.values)
        bare = products(path, count)
        costs = [bench.run(path, count, method) for method in bench.methods]
        bare = min(bare, products(path, count))
        table.add_row(f"{count:,} x 128", "bare products (sgemm)", "", f"{bare:.1f}", "", "1.00", "")
        for method, cost in zip(bench.methods, costs, strict=True):
            times = f"{cost.seconds:.1f}", f"{cost.processor:.1f}", f"{cost.seconds / bare:.2f}"
            table.add_row("", method, METHODS[method], *times, f"{cost.rss / 1e9:.2f} GB")
        if "ward" in bench.methods:
            seconds = scaled(path, count)
            table.add_row("", "ward", "fastcluster, scaled", f"{seconds:.0f}", "", f"{seconds / bare:.1f}", "")
        table.add_section()
    console.print(table)


def grow(bench: Bench, counts: list[int], console: Console) -> None:
    """Print each run when it is finished, and by which power of n times grow from one size to the next, and overall."""
    before: dict[str, list[Cost]] = {method: [] for method in bench.methods}
    for count in counts:
        path = generated(bench.folder, count, bench.values)
        for method, runs in before.items():
            cost = bench.run(path, count, method)
            runs.append(cost)
            times = f"{cost.seconds:.1f} s, processor {cost.processor:.1f} s, {cost.rss / 1e9:.2f} GB"
            step = f", n^{cost.growth(runs[-2])}" if len(runs) > 1 else ""
            console.print(f"{count:,} x 128, {method}: {times}{step}", highlight=False)
        path.unlink()
    for method, runs in before.items() if len(counts) > 1 else ():
        overall = runs[-1].growth(runs[0])
        console.print(f"{method}, {counts[0]:,} to {counts[-1]:,}: n^{overall}", highlight=False)


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


def scaled(path: Path, count: int) -> float:
    """Return the seconds that fastcluster would take, from fewer vectors."""
    import fastcluster

    rows = np.load(path)[:COMPARED].astype(np.float64)
    started = perf_counter()
    fastcluster.linkage_vector(rows, "ward")
    return (perf_counter() - started) * (count / len(rows)) ** 2


if __name__ == "__main__":
    main()
