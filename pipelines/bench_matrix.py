"""Time and memory of clustering all pairs, compared with scipy, fastcluster and scikit-learn in one run.

Points are in 50 clumps, in 64 dimensions. Every contestant starts from the points: distances are included. Everything
is compiled and warmed up before it is timed. Times are the best of `--repeats`, measured in turn; memory is what the
process used at most beyond what it used before.

    python pipelines/bench_matrix.py                     1,000, 5,000 and 20,000 points, about ten minutes
    python pipelines/bench_matrix.py --points 5000       one size
    python pipelines/bench_matrix.py --without scipy     leaves out a contestant
"""

import gc
import os
from collections.abc import Callable
from functools import partial
from typing import Any

import click
import dask
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist
from watch import resident_bytes, watched

import dask_rac

METHODS = "single", "complete", "average", "weighted", "ward"
CORES = 2
DIMENSIONS = 64
LEAST = 50_000_000  # bytes: below, the difference of two readings says nothing

Jobs = dict[str, Callable[[], object]]


@click.command(help=__doc__)
@click.option("--points", multiple=True, default=(1_000, 5_000, 20_000), show_default=True)
@click.option("--repeats", default=2, show_default=True)
@click.option("--without", multiple=True, help="A contestant to leave out, such as scipy.")
@click.option("--method", "methods", multiple=True, type=click.Choice(METHODS), default=METHODS)
def main(points: tuple[int, ...], repeats: int, without: tuple[str, ...], methods: tuple[str, ...]) -> None:
    """Print the table."""
    console = Console(width=120)
    table = Table("points", "method", "", "seconds", "dask_rac is faster", "memory", "of fastcluster's")
    with dask.config.set(num_workers=CORES):
        for count in points:
            vectors = clumps(count)
            warm_up(vectors)
            for method in methods:
                jobs = {name: job for name, job in contestants(vectors, method).items() if name not in without}
                add_rows(table, f"{count:,}", method, jobs, repeats)
            table.add_section()
    console.print(table)
    console.print(f"{DIMENSIONS} dimensions, {CORES} of {os.cpu_count()} cores; fastcluster includes scipy's pdist")


def clumps(count: int) -> NDArray[np.float64]:
    """Return points around 50 centres."""
    rng = np.random.default_rng(0)
    return rng.normal(rng.normal(size=(50, DIMENSIONS))[rng.integers(0, 50, count)])


def contestants(vectors: NDArray[np.float64], method: str) -> Jobs:
    """Return what is compared, by name."""
    import fastcluster

    jobs: Jobs = {
        "dask_rac": partial(dask_rac.linkage, vectors, method),
        "fastcluster": lambda: fastcluster.linkage(pdist(vectors), method),
        "scipy": lambda: linkage(vectors, method),  # type: ignore[arg-type]
    }
    if method != "weighted":
        jobs |= {"RAC": partial(fit, "dask_rac", vectors, method), "scikit-learn": partial(fit, "", vectors, method)}
    return jobs


def fit(which: str, vectors: NDArray[np.float64], method: str) -> Any:
    """Fit an estimator."""
    from sklearn.cluster import AgglomerativeClustering

    return (dask_rac.RAC if which else AgglomerativeClustering)(linkage=method).fit(vectors)


def warm_up(vectors: NDArray[np.float64]) -> None:
    """Compile all kernels, and touch the memory that the largest contestant needs."""
    for method in METHODS:
        dask_rac.linkage(vectors[:1500], method)
    np.ones(len(vectors) ** 2)


def add_rows(table: Table, points: str, method: str, jobs: Jobs, repeats: int) -> None:
    """Time the jobs in turn, and add a row for each."""
    times, memory = dict.fromkeys(jobs, np.inf), dict.fromkeys(jobs, 0)
    for _ in range(repeats):
        for name, job in jobs.items():
            gc.collect()
            before = resident_bytes()
            with watched() as usage:
                job()
            times[name] = min(times[name], usage.seconds)
            memory[name] = max(memory[name], usage.rss - before)
    for name, seconds in times.items():
        against = times["RAC" if name == "scikit-learn" else "dask_rac"]
        faster = "" if name in ("dask_rac", "RAC") else f"{seconds / against:.1f} x"
        share = f"{memory[name] / memory['fastcluster']:.2f}" if memory.get("fastcluster", 0) > LEAST else ""
        table.add_row(points, method, name, f"{seconds:.3f}", faster, f"{memory[name] / 1e6:,.0f} MB", share)
        points = method = ""


if __name__ == "__main__":
    main()
