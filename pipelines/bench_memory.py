"""Time and memory of clustering in memory, compared with scipy, igraph and scikit-learn in one run.

Uniform points in three dimensions, each joined to its 15 nearest neighbours; then graphs with hubs: a recursive-matrix
graph of about as many edges, words that occur together, and stars. Everything is compiled and memory is
touched before anything is timed. Times are the best of `--repeats`, measured in turn; ratios compare within this run.

    python pipelines/bench_memory.py                          everything, about seven minutes
    python pipelines/bench_memory.py --nodes 200000 --quick   without scikit-learn, igraph and the four-fold graph
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import numpy as np
import psutil
import scipy.sparse as sp
from graphs import as_similarities, neighbour_graph
from hubs import recursive_graph, star, word_graph
from rich.console import Console
from rich.table import Table
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

import dask_rac

SKLEARN_NODES = 50_000
RUNS: dict[str, dict[str, Any]] = {
    "similarity average": {"weights": "similarity"},
    "average, ignore": {"missing": "ignore"},
    "complete, ignore": {"linkage": "complete", "missing": "ignore"},
    "single": {"linkage": "single"},
}


@click.command(help=__doc__)
@click.option("--nodes", default=1_000_000, show_default=True)
@click.option("--repeats", default=5, show_default=True)
@click.option("--quick", is_flag=True, help="Skip what takes minutes.")
@click.option("--measure-memory", type=(str, str), hidden=True, help="A graph and a run, in a separate process.")
@click.option("--measure-start", is_flag=True, hidden=True, help="First calls, in a separate process.")
def main(nodes: int, repeats: int, quick: bool, measure_memory: tuple[str, str] | None, measure_start: bool) -> None:
    """Print the tables."""
    if measure_memory:
        print(json.dumps(peak_memory(*measure_memory)))
    elif measure_start:
        print(json.dumps(first_calls()))
    else:
        report(Console(width=120), nodes, repeats, quick)


def report(console: Console, nodes: int, repeats: int, quick: bool) -> None:
    """Run everything and print the results."""
    for name, seconds in compare_starts().items():
        console.print(f"{name}: {seconds:.1f} s")
    graph = uniform_graph(nodes)
    similar = as_similarities(graph)
    console.print(f"{nodes:,} nodes, {graph.nnz // 2:,} edges; {os.cpu_count()} cores")
    jobs: dict[str, Callable[[], object]] = {
        "scipy connected_components": lambda: connected_components(graph),
        "scipy minimum_spanning_tree": lambda: minimum_spanning_tree(graph),
    }
    for name, options in RUNS.items():
        jobs[f"dask_rac {name}"] = lambda options=options: cluster(graph, similar, options)  # type: ignore[misc]
    hubs = recursive_graph((nodes // 2).bit_length(), 8 * nodes + nodes // 2)
    console.print(f"R-MAT: {hubs.shape[0]:,} nodes, {hubs.nnz // 2:,} edges")
    jobs["dask_rac similarity average, R-MAT"] = lambda: cluster(hubs, hubs, RUNS["similarity average"])
    warm_up()
    times = best_times(jobs, repeats)
    against_spanning_tree(console, repeats)
    if not quick:
        stars(console)
        times |= best_times({"igraph Leiden": leiden(similar)}, 1)
    peers = {
        "components": "scipy connected_components",
        "spanning tree": "scipy minimum_spanning_tree",
        "similarity": "dask_rac similarity average",
    }
    table = Table("", "seconds", *(f"/ {peer}" for peer in peers), "peak memory / CSR")
    with tempfile.TemporaryDirectory() as folder:
        sp.save_npz(Path(folder) / "graph.npz", graph, compressed=False)
        for name, seconds in times.items():
            ratios = [f"{seconds / times[peer]:.2f}" for peer in peers.values()]
            run = name.removeprefix("dask_rac ")
            memory = f"{child('--measure-memory', folder + '/graph.npz', run)['ratio']:.2f}" if run in RUNS else ""
            table.add_row(name, f"{seconds:.2f}", *ratios, memory)
    console.print(table)
    if not quick:
        grown = growth(nodes, repeats)
        console.print(
            f"{4 * nodes:,} nodes: similarity average takes {grown['ours']:.2f} times as long, scipy "
            f"connected_components {grown['scipy']:.2f} times"
        )
        against_sklearn(console)


def uniform_graph(nodes: int) -> sp.csr_array:
    """Return uniform points in the unit cube, joined to their 15 nearest."""
    return neighbour_graph(np.random.default_rng(0).random((nodes, 3)), 15)


def cluster(graph: Any, similar: Any, options: dict[str, Any]) -> dask_rac.Clustering:
    """Run dask_rac once."""
    edges = similar if options.get("weights") == "similarity" else graph
    clustering: dask_rac.Clustering = dask_rac.cluster(edges, progress=False, **options)
    return clustering


def warm_up() -> None:
    """Compile, and touch memory once."""
    graph = uniform_graph(3000)
    for options in RUNS.values():
        cluster(graph, as_similarities(graph), options)
    np.ones(500_000_000, np.float32)


def best_times(
    jobs: dict[str, Callable[[], object]], repeats: int, clock: Callable[[], float] = perf_counter
) -> dict[str, float]:
    """Return the shortest of several times for each job, measured in turn."""
    times = dict.fromkeys(jobs, np.inf)
    for _ in range(repeats):
        for name, job in jobs.items():
            started = clock()
            job()
            times[name] = min(times[name], clock() - started)
    return times


def leiden(similar: sp.csr_array) -> Callable[[], object]:
    """Return the job that runs igraph's Leiden on the same graph."""
    import igraph

    upper = sp.triu(similar).tocoo()
    graph = igraph.Graph(similar.shape[0], np.column_stack((upper.row, upper.col)))
    weights = upper.data.tolist()
    return lambda: graph.community_leiden("modularity", weights=weights)


def growth(nodes: int, repeats: int) -> dict[str, float]:
    """Return how much longer a graph with four times the nodes takes."""
    jobs: dict[str, Callable[[], object]] = {}
    for size in (1, 4):
        similar = as_similarities(uniform_graph(size * nodes))
        jobs[f"ours {size}"] = lambda similar=similar: dask_rac.cluster(similar, weights="similarity")  # type: ignore[misc]
        jobs[f"scipy {size}"] = lambda similar=similar: connected_components(similar)  # type: ignore[misc]
    times = best_times(jobs, repeats)
    return {name: times[f"{name} 4"] / times[f"{name} 1"] for name in ("ours", "scipy")}


def against_spanning_tree(console: Console, repeats: int) -> None:
    """Compare processor time on words that occur together, where the counts are the weights."""
    graph = word_graph()
    jobs: dict[str, Callable[[], object]] = {
        "ours": lambda: cluster(graph, graph, RUNS["similarity average"]),
        "scipy": lambda: minimum_spanning_tree(graph),
    }
    times = best_times(jobs, repeats, process_time)
    console.print(
        f"{graph.shape[0]:,} words, {graph.nnz // 2:,} edges: similarity average takes {times['ours']:.2f} s of the "
        f"processor, {times['ours'] / times['scipy']:.1f} times scipy minimum_spanning_tree"
    )


def stars(console: Console) -> None:
    """Time stars of a million leaves."""
    for name, options in {**RUNS, "weighted": {"linkage": "weighted"}}.items():
        for equal in (False, True):
            edges = star(1_000_000, equal)
            started = perf_counter()
            cluster(edges, edges, options)
            console.print(
                f"star of a million leaves, {name}, {'equal ' * equal}weights: {perf_counter() - started:.1f} s"
            )


def against_sklearn(console: Console) -> None:
    """Compare with scikit-learn on a graph small enough for it."""
    from sklearn.cluster import AgglomerativeClustering

    graph = uniform_graph(SKLEARN_NODES)
    ours = best_times({"ours": lambda: cluster(graph, graph, RUNS["average, ignore"])}, 5)["ours"]
    model = AgglomerativeClustering(n_clusters=2, linkage="average", connectivity=graph, metric="euclidean")
    points = np.random.default_rng(0).random((SKLEARN_NODES, 3))
    theirs = best_times({"theirs": lambda: model.fit(points)}, 1)["theirs"]
    console.print(
        f"{SKLEARN_NODES:,} nodes, average: scikit-learn {theirs:.1f} s, dask_rac {ours:.3f} s, "
        f"{theirs / ours:,.0f} times"
    )


def compare_starts() -> dict[str, float]:
    """Time the first call in a new process, with an empty and with a full kernel cache."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {"NUMBA_CACHE_DIR": folder}
        return {
            "all kernels compiled and run once, empty cache": child("--measure-start", env=environment)["seconds"],
            "the same, full cache": child("--measure-start", env=environment)["seconds"],
        }


def first_calls() -> dict[str, float]:
    """Time one small run for each linkage and each kind of input."""
    graph = uniform_graph(1000)
    coo = graph.tocoo()
    started = perf_counter()
    for options in RUNS.values():
        cluster(graph, as_similarities(graph), options)
    labels = dask_rac.cluster((coo.row, coo.col, coo.data)).cut(n_clusters=5)
    return {"seconds": perf_counter() - started, "clusters": float(labels.max() + 1)}


def peak_memory(path: str, run: str) -> dict[str, float]:
    """Return the peak memory of loading and clustering a graph, less what was used before, relative to the graph."""
    warm = uniform_graph(3000)
    cluster(warm, as_similarities(warm), RUNS[run])
    before = psutil.Process().memory_info().rss
    graph = sp.csr_array(sp.load_npz(path))
    if RUNS[run].get("weights") == "similarity":
        top = 1.0001 * graph.data.max()
        np.subtract(top, graph.data, out=graph.data)
    size = graph.data.nbytes + graph.indices.nbytes + graph.indptr.nbytes
    cluster(graph, graph, RUNS[run])
    status = Path("/proc/self/status").read_text()  # getrusage would include the parent
    peak = 1024 * int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0])
    return {"ratio": (peak - before) / size}


def child(*arguments: str, env: dict[str, str] | None = None) -> dict[str, float]:
    """Run this script in a separate process and return what it prints."""
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **(env or {})})
    result: dict[str, float] = json.loads(done.stdout)
    return result


if __name__ == "__main__":
    main()
