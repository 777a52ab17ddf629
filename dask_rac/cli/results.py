"""Commands that write results of a run: cut, export."""

from __future__ import annotations

from typing import Any

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell


@options.command("dask-rac cut run --height 0.3 --height 0.5 -o labels.parquet")
@click.argument("run", type=options.PATH)
@options.cuts
@click.option(
    "-o",
    "--output",
    required=True,
    type=options.Output(),
    metavar="LABELS",
    help="New .parquet, .zarr, .csv or .csv.gz.",
)
@options.common
def cut(shell: Shell, run: str, output: str, **cuts: Any) -> None:
    """Cut the tree of a RUN into flat clusters.

    Writes a label for every node: 0, 1, 2, ..., ordered by the smallest node of each cluster; -1 for nodes in none.
    """
    from dask_rac.api.cluster import open_run

    wanted = options.wanted_cuts(cuts)
    with shell.watch("cutting the tree") as report:
        result = open_run(run, progress=report)
        if not result.finished:
            shell.warn(
                f"{run} is not finished: the labels reflect the merges so far; resume it with `dask-rac resume {run}`"
            )
        written = result.cut(**wanted, store=output)
    click.echo(written)


@options.command("dask-rac export run -o tree.nwk")
@click.argument("run", type=options.PATH)
@click.option(
    "-o",
    "--output",
    required=True,
    type=options.Output(),
    metavar="FILE",
    help="New .npy, .nwk, .newick or .parquet.",
)
@click.option("--join", is_flag=True, help="Join the trees of a forest at infinity, for .npy.")
@click.option("--zero", type=float, metavar="S", help="The similarity that becomes distance 0.")
@click.option("--names/--no-names", default=None, help="Names of nodes; by default in Newick, if there are any.")
@options.common
def export(shell: Shell, run: str, output: str, join: bool, zero: float | None, names: bool | None) -> None:
    """Write the tree of a RUN as one file.

    The ending chooses the format: scipy's Z (.npy), Newick (.nwk, .newick), or the merges (.parquet).
    """
    from dask_rac.api.cluster import open_run

    with shell.watch("writing the tree") as report:
        written = open_run(run, progress=report).export(output, join=join, zero=zero, names=names)
    click.echo(written)


COMMANDS = (cut, export)
