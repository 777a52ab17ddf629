"""What epsilon costs in quality and saves in time.

Quality: labelled data along their graphs of 15 nearest neighbours, then labelled graphs with hubs, by average linkage,
cut into as many clusters as there are labels. A cell is the adjusted Rand index with the labels, and in brackets with
the same cut of the exact tree. Where features have different units (breast cancer, wine), each is scaled to a deviation
of 1 first.

Time: a recursive-matrix graph (R-MAT, a = 0.57, b = c = 0.19, random similarities), and neighbours of uniform points,
clustered in memory. Everything is compiled before anything is timed; times are the best of `--repeats`, measured in
turn, and ratios compare within this run.

    python pipelines/bench_epsilon.py                              both, about two minutes
    python pipelines/bench_epsilon.py --picture epsilon.svg        also as a picture
    python pipelines/bench_epsilon.py --edges 30000000 --repeats 1
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import click
import numpy as np
import scipy.sparse as sp
from graphs import as_similarities, neighbour_graph
from hubs import recursive_graph
from labelled import DATA, GRAPHS
from numpy.typing import NDArray
from sklearn.metrics import adjusted_rand_score

import dask_rac

EPSILONS = 0.0, 0.01, 0.1, 1.0
NEIGHBOURS = 15
NAMES = "digits", "breast cancer", "wine", "mixture", "mixture, overlapping"


@click.command(help=__doc__)
@click.option("--edges", default=2_000_000, show_default=True, help="Of each graph that is timed, about.")
@click.option("--repeats", default=3, show_default=True)
@click.option("--picture", type=click.Path(path_type=Path), help="Also draw the times, as .svg, .png or .html.")
def main(edges: int, repeats: int, picture: Path | None) -> None:
    """Print a table of each, as Markdown."""
    warnings.simplefilter("ignore", UserWarning)  # of several components
    rows = [[name, *qualities(*neighbours(name), "distance")] for name in NAMES]
    rows += [[name, *qualities(*load(), "similarity")] for name, load in GRAPHS.items()]
    print_table(["", *map(text, EPSILONS)], rows)
    graphs = {"R-MAT": recursive_graph(max(4, round(np.log2(edges / 15))), edges), "neighbours": uniform_graph(edges)}
    times = best_times(graphs, repeats)
    rows = []
    for name, graph in graphs.items():
        seconds = [times[name, epsilon] for epsilon in EPSILONS]
        cells = [f"{one:.2f} s ({one / seconds[0]:.2f})" for one in seconds]
        rows.append([f"{name}, {graph.nnz / 2e6:.1f}M edges", *cells])
    print_table(["", *map(text, EPSILONS)], rows)
    if picture is not None:
        draw(times, list(graphs), picture)


def text(epsilon: float) -> str:
    """Return epsilon as a heading."""
    return f"epsilon = {epsilon:g}" if epsilon else "exact"


def neighbours(name: str) -> tuple[Any, NDArray[np.int64]]:
    """Return the nearest neighbours of labelled points, and the labels."""
    points, label = DATA[name]()
    return dask_rac.knn_graph(points, k=NEIGHBOURS, progress=False), label


def qualities(edges: Any, label: NDArray[np.int64], weights: str) -> list[str]:
    """Cluster labelled edges with each epsilon, and compare cuts with the labels and with the exact one."""
    found = []
    for epsilon in EPSILONS:
        tree = dask_rac.cluster(edges, weights=weights, n_nodes=len(label), epsilon=epsilon, progress=False)
        found.append(tree.cut(n_clusters=max(tree.n_trees, len(set(label)))))
    exact = [float(adjusted_rand_score(found[0], one)) for one in found]
    known = [float(adjusted_rand_score(label, one)) for one in found]
    return [f"{known[0]:.3f}", *(f"{one:.3f} ({same:.3f})" for one, same in zip(known[1:], exact[1:], strict=True))]


def uniform_graph(edges: int) -> sp.csr_array:
    """Return similarities of uniform points in three dimensions to their neighbours."""
    points = np.random.default_rng(0).random((max(NEIGHBOURS + 1, edges // 9), 3))
    return as_similarities(neighbour_graph(points, NEIGHBOURS))


def best_times(graphs: dict[str, sp.csr_array], repeats: int) -> dict[tuple[str, float], float]:
    """Return the seconds of each graph with each epsilon, the best of a few."""
    small, times = sp.csr_array(next(iter(graphs.values()))[:500, :500]), dict[tuple[str, float], float]()
    for epsilon in EPSILONS:
        dask_rac.cluster(small, weights="similarity", epsilon=epsilon, progress=False)
    for _ in range(repeats):
        for name, graph in graphs.items():
            for epsilon in EPSILONS:
                started = perf_counter()
                dask_rac.cluster(graph, weights="similarity", epsilon=epsilon, progress=False)
                times[name, epsilon] = min(perf_counter() - started, times.get((name, epsilon), np.inf))
    return times


def draw(times: dict[tuple[str, float], float], names: Sequence[str], path: Path) -> None:
    """Draw the times against epsilon, as fractions of the exact run."""
    from bokeh.models import FactorRange
    from bokeh.plotting import figure

    from dask_rac.show.pictures.picture import Picture

    shown = [text(epsilon).removeprefix("epsilon = ") for epsilon in EPSILONS]
    plot: Any = figure(
        x_range=FactorRange(factors=shown),
        width=640,
        height=320,
        y_axis_label="time, of the exact run",
        x_axis_label="epsilon",
    )
    for name, colour, dash in zip(names, ("#0072b2", "#d55e00"), ("solid", "dashed"), strict=True):
        shares = [times[name, epsilon] / times[name, 0.0] for epsilon in EPSILONS]
        plot.line(shown, shares, color=colour, line_dash=dash, line_width=2, legend_label=name)
        plot.scatter(shown, shares, color=colour, size=7)
    plot.y_range.start = 0
    Picture(plot, "Time against epsilon", "Seconds of a run as a fraction of those of the exact one.", "epsilon").save(
        path
    )


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as Markdown."""
    click.echo(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        click.echo(f"| {' | '.join(row)} |")
    click.echo()


if __name__ == "__main__":
    main()
