"""Time and memory of graphs of vectors, beside faiss, scipy's tree and scikit-learn, in one run.

Every contestant finds the k nearest neighbours of all vectors on the same two cores; ours also writes the edges. All
are compiled and warm before anything is timed. Times are the best of `--repeats`, taken in turn; memory is what the
process held beyond what it held before, beside the budget that was given.

    python pipelines/bench_graph.py                    all of it, some five minutes
    python pipelines/bench_graph.py --scale 0.1        a tenth of the vectors
    python pipelines/bench_graph.py --trees            where a tree is faster than products, by vectors and dimensions
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
from dask_rac.store.vectors import open_vectors
from dask_rac.vectors import plan

K = 15
BUDGET = "1GB"
CORES = 2


@click.command(help=__doc__)
@click.option("--scale", default=1.0, show_default=True, help="Of the numbers of vectors.")
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
        console.print(f"k = {K}, {CORES} of {os.cpu_count()} cores; ratio: to the first of each; budget {BUDGET}")


Jobs = dict[str, Callable[[], object]]


def ours(vectors: Any, metric: str = "euclidean") -> Callable[[], object]:
    """Our own graph, within the budget."""
    return partial(dask_rac.knn_graph, vectors, K, metric, memory=BUDGET, progress=False)


def dense(scale: float, folder: Path) -> tuple[str, Jobs]:
    """Many dimensions: products."""
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
    """All products, and nothing made of them."""
    room = np.empty((4096, 8192), np.float32)
    for row in range(0, len(vectors), 4096):
        for column in range(0, len(vectors), 8192):
            left, right = vectors[row : row + 4096], vectors[column : column + 8192]
            np.matmul(left, right.T, out=room[: len(left), : len(right)])


def few(scale: float, _: Path) -> tuple[str, Jobs]:
    """Three dimensions: a tree."""
    count = int(1_000_000 * scale)
    vectors = np.random.default_rng(0).random((count, 3))
    jobs: Jobs = {
        "scipy cKDTree": lambda: cKDTree(vectors).query(vectors, K + 1, workers=CORES),
        "dask_rac": ours(vectors),
    }
    return f"{count:,} x 3 float64", jobs


def sparse(scale: float, folder: Path) -> tuple[str, Jobs]:
    """Bags of words."""
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
    return f"{count:,} x 100,000 tf-idf, {vectors.nnz // count} values a row, cosine", jobs


def add_rows(table: Table, title: str, jobs: Jobs, repeats: int) -> None:
    """Time some contestants in turn."""
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
    """Have all kernels compiled."""
    import scipy.sparse as sp

    some = np.random.default_rng(0).random((300, 40))
    for vectors in (some, some.astype(np.float32), (some * 100).astype(np.uint8), some[:, :3]):
        dask_rac.knn_graph(vectors, 5, progress=False)
    dask_rac.knn_graph(sp.csr_array(some.astype(np.float32)), 5, "cosine", progress=False)


def compare_trees(console: Console, scale: float) -> None:
    """Both ways, for uniform vectors, the hardest for a tree."""
    warm_up()
    table = Table("vectors", "dimensions", "tree", "products", "tree / products")
    limits = plan.TREE_LIMITS
    for count in (int(10_000 * scale), int(100_000 * scale)):
        for dimensions in (3, 5, 6, 7, 8, 9, 10, 12):
            vectors = np.random.default_rng(0).random((count, dimensions))
            seconds = []
            for most in (dimensions, 0):
                plan.TREE_LIMITS = ((np.inf, most),)
                started = perf_counter()
                dask_rac.knn_graph(vectors, K, progress=False)
                seconds.append(perf_counter() - started)
            ratio = f"{seconds[0] / seconds[1]:.2f}"
            table.add_row(f"{count:,}", str(dimensions), *(f"{one:.2f} s" for one in seconds), ratio)
    plan.TREE_LIMITS = limits
    console.print(table)


if __name__ == "__main__":
    main()
