"""Cluster a graph of a billion edges in 6 GB of memory, to the end, and audit the result.

python pipelines/billion.py [--nodes 50000000] [--memory 6GB] [--folder billion]

Needs some 50 GB of disk. The graph is made on first use; a run that was stopped goes on where it was.
"""

import shutil
from pathlib import Path

import click
from rich.console import Console
from watch import watched

import dask_rac


@click.command(help=__doc__)
@click.option("--nodes", default=50_000_000, show_default=True, help="Nodes of the lattice, of 40 edges each.")
@click.option("--memory", default="6GB", show_default=True, help="What the arrays of the run may use.")
@click.option("--folder", default="billion", show_default=True, help="Where edges and store go.")
@click.option("--keep/--no-keep", default=True, show_default=True, help="Whether they stay.")
def main(nodes: int, memory: str, folder: str, keep: bool) -> None:
    """Generate, cluster, verify, and tell what it took."""
    console = Console()
    edges, store = Path(folder) / "edges", Path(folder) / "run"
    Path(folder).mkdir(parents=True, exist_ok=True)
    if not edges.exists():
        with watched() as making:
            dask_rac.datasets.lattice(nodes, 40, 0, edges, weights="similarity")
        console.print(f"{20 * nodes:,} edges generated in {making.seconds:.0f} s")
    console.print(dask_rac.plan(edges, weights="similarity", memory=memory))
    with watched() as running:
        if store.exists():
            clustering = dask_rac.resume(store, memory=memory, progress=True)
        else:
            clustering = dask_rac.cluster(edges, weights="similarity", store=store, memory=memory, progress=True)
    console.print(clustering)
    input_bytes = sum(file.stat().st_size for file in edges.iterdir())
    console.print(
        f"{running.seconds / 60:.1f} minutes, {running.rss / 1e9:.1f} GB resident at most, "
        f"{clustering.peak_disk / 1e9:.1f} GB of disk at most, {clustering.peak_disk / input_bytes:.2f} times the edges"
    )
    with watched() as checking:
        report = clustering.verify()
    console.print(f"{report}; {checking.seconds:.0f} s, {checking.rss / 1e9:.1f} GB resident at most")
    if not keep:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
