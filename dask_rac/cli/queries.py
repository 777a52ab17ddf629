"""Commands that ask a run about its clusters: members, path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell

if TYPE_CHECKING:
    from dask_rac.results.stored import StoredClustering


@options.command("dask-rac members run 3 --n-clusters 50")
@click.argument("run", type=options.PATH)
@click.argument("label", type=options.Whole(), required=False)
@click.option("--node", metavar="NODE", help="Instead of LABEL: one of its nodes.")
@options.cuts
@click.option("--limit", type=options.Whole(), default=100, metavar="N", help="Show this many at most; 0 for all.")
@options.common
def members(shell: Shell, run: str, label: int | None, node: str | None, limit: int, **cuts: Any) -> None:
    """List the nodes of one flat cluster of a RUN.

    LABEL is its label in the cut. Prints a node per line, then its name if it has one.
    """
    import pandas as pd

    wanted = options.wanted_cuts(cuts)
    if (label is None) == (node is None):
        raise click.UsageError("Give either the LABEL of a cluster, or one of its nodes with --node.")
    with shell.watch("reading the tree") as report:
        result = _open(shell, run, report)
        found = result.members(label, node=None if node is None else _node(result, node), **wanted)
    shown = found[:limit] if limit else found
    if isinstance(shown, pd.Series):
        lines = (f"{node}\t{name}" for node, name in shown.items())
    else:
        lines = (str(node) for node in shown)
    for line in lines:
        click.echo(line)
    if len(shown) < len(found):
        shell.warn(f"{len(found) - len(shown):,} more of {len(found):,} nodes: pass --limit 0 to see all")


@options.command("dask-rac path run 17")
@click.argument("run", type=options.PATH)
@click.argument("node")
@options.common
def path(shell: Shell, run: str, node: str) -> None:
    """Show the clusters of a RUN that contain a NODE.

    One line per merge, from the first to the root of its tree: the height, the size, and what joined. NODE is a name if
    nodes have names, else a number.
    """
    from dask_rac.cli import pictures

    with shell.watch("reading the tree") as report:
        result = _open(shell, run, report)
        table = result.path(_node(result, node))
    shell.show(pictures.path(table))


def _node(result: StoredClustering, text: str) -> str | int:
    """Return a node as a user types it: by its name, if it is one, else by its number."""
    known = result.names is not None and int(result.names.find([text])[0]) >= 0
    return text if known or not text.isdecimal() else int(text)


def _open(shell: Shell, run: str, report: Any) -> StoredClustering:
    """Open a run, and warn if it is not finished."""
    from dask_rac.api.cluster import open_run

    result = open_run(run, progress=report)
    if not result.finished:
        shell.warn(f"{run} is not finished: this reflects the merges so far; resume it with `dask-rac resume {run}`")
    return result


COMMANDS = (members, path)
