"""Time and memory of building graphs from vectors, compared with faiss, scipy's tree and scikit-learn in one run.

Every contestant finds the k nearest neighbours of all vectors on the same two cores; dask_rac also makes the edges.
Everything is compiled and warmed up before it is timed. Times are the best of `--repeats`, measured in turn; memory is
what the process used beyond what it used before, to be compared with the budget.

    python pipelines/bench_graph.py                    everything, about five minutes
    python pipelines/bench_graph.py --scale 0.1        a tenth of the vectors
    python pipelines/bench_graph.py --trees            when a tree is faster than products, by vectors and dimensions
"""

import gc
import os
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import dask
import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.spatial import cKDTree
from watch import resident_bytes, watched

import dask_rac
from dask_rac.api.graphs import Resources, run_graph
from dask_rac.vectors.graph.plan import GraphLimits
from dask_rac.vectors.graph.request import GraphRequest, checked_request
from dask_rac.vectors.sources.opening import open_vectors

K = 15
BUDGET = "1GB"
CORES = 2


@click.command(help=__doc__)
@click.option("--scale", default=1.0, show_default=True, help="Factor for the numbers of vectors.")
@click.option("--repeats", default=2, show_default=True)
@click.option("--trees", is_flag=True, help="Measure the rule by which a tree is chosen.")
def main(scale: float, repeats: int, trees: bool) -> None:
    """Print the tables."""
    warnings.filterwarnings("ignore", "the graph has")
    console = Console(width=120)
    with dask.config.set(num_workers=CORES), tempfile.TemporaryDirectory() as folder:
        if trees:
            compare_trees(console, scale)
            return
        table = Table("vectors", "", "seconds", "ratio", "memory")
        for name, jobs in (("dense", dense), ("few", few), ("sparse", sparse)):
            title, contestants = jobs(scale, Path(folder) / name)
            add_rows(table, title, contestants, repeats)
            gc.collect()
        console.print(table)
        console.print(f"k = {K}, {CORES} of {os.cpu_count()} cores; ratio to the first of each group; budget {BUDGET}")


Jobs = dict[str, Callable[[], object]]


def ours(vectors: Any, metric: str = "euclidean") -> Callable[[], object]:
    """Return the job that builds the graph with dask_rac, within the budget."""
    return partial(dask_rac.knn_graph, vectors, K, metric, memory=BUDGET, progress=False)


def dense(scale: float, folder: Path) -> tuple[str, Jobs]:
    """Return jobs for many dimensions, where dask_rac multiplies matrices."""
    import faiss

    faiss.omp_set_num_threads(CORES)
    count = int(100_000 * scale)
    vectors = np.random.default_rng(0).standard_normal((count, 128), np.float32)
    sift = str(folder.with_suffix(".bvecs"))
    dask_rac.datasets.sift(count, store=sift, progress=False)

    def search() -> object:
        index = faiss.IndexFlatL2(128)
        index.add(vectors)
        return index.search(vectors, K + 1)

    jobs: Jobs = {
        "faiss-cpu, exact": search,
        "bare products (sgemm)": lambda: products(vectors),
        "dask_rac": ours(vectors),
        "dask_rac, SIFT-like, from .bvecs": ours(sift),
    }
    return f"{count:,} x 128 float32", jobs


def products(vectors: np.ndarray[Any, np.dtype[np.float32]]) -> None:
    """Compute all products and discard them."""
    room = np.empty((4096, 8192), np.float32)
    for row in range(0, len(vectors), 4096):
        for column in range(0, len(vectors), 8192):
            left, right = vectors[row : row + 4096], vectors[column : column + 8192]
            np.matmul(left, right.T, out=room[: len(left), : len(right)])


def few(scale: float, _: Path) -> tuple[str, Jobs]:
    """Return jobs for three dimensions, where dask_rac uses a tree."""
    count = int(1_000_000 * scale)
    vectors = np.random.default_rng(0).random((count, 3))
    jobs: Jobs = {
        "scipy cKDTree": lambda: cKDTree(vectors).query(vectors, K + 1, workers=CORES),
        "dask_rac": ours(vectors),
    }
    return f"{count:,} x 3 float64", jobs


def sparse(scale: float, folder: Path) -> tuple[str, Jobs]:
    """Return jobs for bags of words."""
    from sklearn.neighbors import NearestNeighbors

    count = int(50_000 * scale)
    store = str(folder.with_suffix(".zarr"))
    dask_rac.datasets.documents(count, 100_000, store=store, length=150, progress=False)
    vectors = open_vectors(store).read(0, count).copy()
    search = NearestNeighbors(n_neighbors=K + 1, algorithm="brute", metric="cosine", n_jobs=CORES)
    jobs: Jobs = {
        "scikit-learn, brute force": lambda: search.fit(vectors).kneighbors(vectors),
        "dask_rac": ours(vectors, "cosine"),
    }
    return f"{count:,} x 100,000 tf-idf, {vectors.nnz // count} values per row, cosine", jobs


def add_rows(table: Table, title: str, jobs: Jobs, repeats: int) -> None:
    """Time the jobs in turn, and add a row for each."""
    warm_up()
    times = dict.fromkeys(jobs, np.inf)
    memory = dict.fromkeys(jobs, 0)
    for _ in range(repeats):
        for name, job in jobs.items():
            gc.collect()
            before = resident_bytes()
            with watched() as usage:
                job()
            times[name] = min(times[name], usage.seconds)
            memory[name] = max(memory[name], usage.rss - before)
    first = next(iter(times.values()))
    for name, seconds in times.items():
        table.add_row(title, name, f"{seconds:.1f}", f"{seconds / first:.2f}", f"{memory[name] / 1e9:.2f} GB")
        title = ""
    table.add_section()


def warm_up() -> None:
    """Compile all kernels."""
    import scipy.sparse as sp

    points = np.random.default_rng(0).random((300, 40))
    for vectors in (points, points.astype(np.float32), (points * 100).astype(np.uint8), points[:, :3]):
        dask_rac.knn_graph(vectors, 5, progress=False)
    dask_rac.knn_graph(sp.csr_array(points.astype(np.float32)), 5, "cosine", progress=False)


def compare_trees(console: Console, scale: float) -> None:
    """Time both ways on uniform vectors, the hardest for a tree."""
    warm_up()
    table = Table("vectors", "dimensions", "tree", "products", "tree / products")
    request = GraphRequest(checked_request("knn", "euclidean", k=K), None)
    for count in (int(10_000 * scale), int(100_000 * scale)):
        for dimensions in (3, 5, 6, 7, 8, 9, 10, 12):
            vectors = np.random.default_rng(0).random((count, dimensions))
            seconds = []
            for most in (dimensions, 0):
                limits = GraphLimits(tree=((np.inf, most),))
                started = perf_counter()
                run_graph(vectors, request, None, Resources(limits=limits), False)
                seconds.append(perf_counter() - started)
            ratio = f"{seconds[0] / seconds[1]:.2f}"
            table.add_row(f"{count:,}", str(dimensions), *(f"{value:.2f} s" for value in seconds), ratio)
    console.print(table)


if __name__ == "__main__":
    main()
