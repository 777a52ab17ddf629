"""Cluster a generated graph and look at it: the rounds, the top of the tree, a flat cut; then through the disk.

python pipelines/demo.py [--nodes 200000]
"""

from collections.abc import Callable
from tempfile import TemporaryDirectory
from time import perf_counter

import click
import numpy as np
from graphs import as_similarities, neighbour_graph
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

import dask_rac

GROUPS = 12
TOP = GROUPS - 1  # splits to show


@click.command(help=__doc__)
@click.option("--nodes", default=200_000, show_default=True, help="Points to draw around a dozen centres.")
def main(nodes: int) -> None:
    """Draw points, join each to its neighbours, cluster, show."""
    console = Console()
    points, group = grouped_points(nodes)
    console.print(f"{nodes:,} points in the plane around {GROUPS} centres, each joined to its 15 nearest neighbours")
    graph = as_similarities(neighbour_graph(points, 15))
    console.print(f"{graph.nnz // 2:,} edges, weighted by similarity")
    dask_rac.cluster(graph[:100, :100], weights="similarity")  # the first run compiles
    started = perf_counter()
    clustering = dask_rac.cluster(graph, linkage="average", weights="similarity")
    console.print(f"clustered in {perf_counter() - started:.2f} s\n{clustering}\n")
    console.print(rounds_table(clustering))
    console.print(top_of_tree(clustering))
    labels = clustering.cut(n_clusters=clustering.n_trees + GROUPS - 1)
    shared = np.zeros((labels.max() + 1, GROUPS), int)
    np.add.at(shared, (labels, group), 1)
    console.print(f"cut into {len(shared)} clusters of {', '.join(f'{n:,}' for n in shared.sum(axis=1))} nodes")
    console.print(f"{shared.max(axis=1).sum() / nodes:.1%} of the nodes share the centre of most of their cluster")
    through_the_disk(console, nodes)


def through_the_disk(console: Console, nodes: int) -> None:
    """Cluster edges on disk, stop in the middle, go on, and audit the result."""
    console.rule("The same through the disk")
    with TemporaryDirectory() as folder:
        edges = dask_rac.datasets.lattice(nodes, 20, 0, f"{folder}/edges", weights="similarity")
        console.print(f"{10 * nodes:,} edges of a jittered lattice written as Parquet")
        try:
            dask_rac.cluster(edges, weights="similarity", store=f"{folder}/run", shards=4, progress=stop_after(2))
        except Stopped:
            console.print(f"stopped after two rounds: {dask_rac.open(f'{folder}/run')}")
        clustering = dask_rac.resume(f"{folder}/run")
        console.print(f"resumed: {clustering}")
        console.print(f"verified: {clustering.verify()}")
        console.print(clustering.merges.tail(3))


class Stopped(Exception):  # noqa: N818 - no fault, somebody stopped it
    """The run was stopped."""


def stop_after(rounds: int) -> Callable[[dask_rac.Event], None]:
    """Something that stops a run."""

    def watch(event: dask_rac.Event) -> None:
        if event.stage == "round" and event.record is not None and event.record.round == rounds:
            raise Stopped

    return watch


def grouped_points(nodes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Points scattered around centres on a circle, and the centre of each."""
    rng = np.random.default_rng(0)
    group = rng.integers(GROUPS, size=nodes)
    angle = 2 * np.pi * group / GROUPS
    return np.column_stack((np.cos(angle), np.sin(angle))) + rng.normal(scale=0.09, size=(nodes, 2)), group


def rounds_table(clustering: dask_rac.Clustering) -> Table:
    """A row a round, merges as a bar."""
    table = Table("round", "clusters", "edges", "merges", "", "seconds", title="Rounds")
    widest = clustering.rounds["merges"].max()
    for row in clustering.rounds.to_dict("records"):
        seconds = sum(value for name, value in row.items() if str(name).endswith("_seconds"))
        name = "finisher" if row["finisher"] else str(row["round"])
        bar = "█" * max(1, round(30 * row["merges"] / widest))
        table.add_row(name, *(f"{row[column]:,}" for column in ("clusters", "edges", "merges")), bar, f"{seconds:.3f}")
    return table


def top_of_tree(clustering: dask_rac.Clustering) -> Tree:
    """The last merges, from the root down."""
    linkage = clustering.to_scipy(join=True)
    n = clustering.n_nodes
    heights = clustering.merges["height"].sort_values(ascending=False).to_numpy()

    def text(node: int) -> str:
        if node < n:
            return f"node {node}"
        height = f"similarity {heights[node - n]:.2e}" if node - n < len(heights) else "not joined"
        return f"{int(linkage[node - n, 3]):,} nodes, {height}"

    root = len(linkage) + n - 1
    tree = Tree(f"Top of the tree: {text(root)}")
    open_nodes = [(root, tree)]
    for _ in range(TOP):
        node, branch = open_nodes.pop(max(range(len(open_nodes)), key=lambda i: open_nodes[i][0]))
        if node < n:
            break
        open_nodes += [(int(child), branch.add(text(int(child)))) for child in linkage[node - n, :2]]
    return tree


if __name__ == "__main__":
    main()
