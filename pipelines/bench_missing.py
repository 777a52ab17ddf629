"""How much the weight of absent pairs matters: labelled data, the adjusted Rand index of what is found.

Each data set is cut into as many clusters as it has labels, along its graph of nearest neighbours, by average and by
complete linkage. Columns are the values of `missing`: "ignore", the largest weight of the graph, and multiples of it;
"far", the default, is twice the largest weight. For comparison, ward linkage of all pairs by scikit-learn. A cell is
the mean and the standard deviation over subsamples of 80% of the points. Where features have different units (breast
cancer, wine), each is scaled to a deviation of 1 first.

    python pipelines/bench_missing.py                    five data sets, 10, 15 and 30 neighbours; about two minutes
    python pipelines/bench_missing.py --data digits      one data set
    python pipelines/bench_missing.py --subsamples 3     faster, and less certain
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import click
import numpy as np
from labelled import DATA, Labelled
from numpy.typing import NDArray
from sklearn.cluster import AgglomerativeClustering
from sklearn.metrics import adjusted_rand_score

import dask_rac

LINKAGES = "average", "complete"
FACTORS = {"largest": 1.0, "1.5 x": 1.5, "2 x": 2.0, "10 x": 10.0}
"""Columns, and how many times the largest weight an absent pair weighs there."""
SHARE = 0.8  # of the points in each subsample
NAMES = "digits", "breast cancer", "wine", "iris", "mixture"


@click.command(help=__doc__)
@click.option("--data", "names", multiple=True, type=click.Choice(NAMES), default=NAMES)
@click.option("--neighbours", multiple=True, default=(10, 15, 30), show_default=True)
@click.option("--subsamples", default=20, show_default=True)
def main(names: Sequence[str], neighbours: Sequence[int], subsamples: int) -> None:
    """Print a table for each linkage, as Markdown."""
    warnings.simplefilter("ignore", UserWarning)  # of giant clusters and of several components: that is what is shown
    rows: dict[str, list[list[str]]] = {linkage: [] for linkage in LINKAGES}
    for name in names:
        samples = list(subsampled(DATA[name](), subsamples))
        ward = cell([score(AgglomerativeClustering(len(set(y))).fit_predict(X), y) for X, y in samples])
        for k in neighbours:
            graphs = [dask_rac.knn_graph(X, k=k) for X, _ in samples]
            for linkage in LINKAGES:
                cells = [
                    cell([found(edges, linkage, factor, y) for edges, (_, y) in zip(graphs, samples, strict=True)])
                    for factor in (None, *FACTORS.values())
                ]
                rows[linkage].append([name, str(k), ward, *cells])
    for linkage in LINKAGES:
        print_table(["", "neighbours", "ward, all pairs", f'{linkage}, "ignore"', *FACTORS], rows[linkage])


def subsampled(data: Labelled, count: int) -> Iterator[Labelled]:
    """Yield subsamples of the points, the same in every run."""
    points, label = data
    for seed in range(count):
        chosen = np.random.default_rng(seed).permutation(len(points))[: int(SHARE * len(points))]
        yield points[chosen], label[chosen]


def found(edges: Any, linkage: str, factor: float | None, label: NDArray[np.int64]) -> float:
    """Cluster a graph, cut it into as many clusters as there are labels, and compare."""
    missing = "ignore" if factor is None else factor * edges["weight"].max()
    tree = dask_rac.cluster(edges, linkage, missing, progress=False)
    return score(tree.cut(n_clusters=max(tree.n_trees, len(set(label)))), label)


def score(labels: NDArray[np.int64], label: NDArray[np.int64]) -> float:
    """Return the adjusted Rand index: 1 for the same clusters, 0 for chance."""
    return float(adjusted_rand_score(label, labels))


def cell(scores: Sequence[float]) -> str:
    """Return mean and deviation as text; a score that is 0 but for rounding has no sign."""
    mean, deviation = float(np.mean(scores)), float(np.std(scores))
    return f"{mean + 0.0:.2f} ± {deviation:.2f}".replace("-0.00", "0.00")


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table as Markdown."""
    click.echo(f"| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        click.echo(f"| {' | '.join(row)} |")
    click.echo()


if __name__ == "__main__":
    main()
