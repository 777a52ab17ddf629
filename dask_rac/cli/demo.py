"""A small tour of everything, with pictures."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dask_rac.base.events import Event

GROUPS = 12
FILES = ("edges.parquet", "run", "labels.parquet", "tree.nwk", "report.html")


@options.command("dask-rac demo")
@click.option(
    "--nodes", type=click.IntRange(1000), default=100_000, show_default=True, metavar="N", help="Number of points."
)
@click.option("--folder", type=click.Path(file_okay=False), help="Keep the files here; by default they are deleted.")
@options.common
@click.pass_context
def demo(ctx: click.Context, shell: Shell, nodes: int, folder: str | None) -> None:
    """Show everything once on a small graph, with pictures.

    Edges, a plan, a run that is stopped and resumed, its tree, an audit, labels, files and a report.
    """
    if folder is None:
        with TemporaryDirectory() as temporary:
            _show(ctx, shell, nodes, temporary)
    else:
        os.makedirs(folder, exist_ok=True)
        _show(ctx, shell, nodes, folder)
        shell.notify(f"the files are in {folder}")
    shell.notify("done; `dask-rac --help` lists all commands")


def _show(ctx: click.Context, shell: Shell, nodes: int, folder: str) -> None:
    """Show all of it, writing to a folder."""
    from dask_rac.base.errors import InputError

    before = os.getcwd()
    taken = [name for name in FILES if _there(folder, name)]
    if taken:
        raise InputError(
            f"{folder} has {', '.join(taken)} already, and files are never overwritten: choose another --folder"
        )
    os.chdir(folder)
    try:
        say = shell.out.print
        say(f"{nodes:,} points around {GROUPS} centres, each joined to its 15 nearest neighbours.\n")
        group = _write_edges("edges.parquet", nodes)
        _command(ctx, shell, "plan", "edges.parquet", "--weights", "similarity", "--shards", "4")
        _stop_early(shell, "edges.parquet", "run")
        _command(ctx, shell, "resume", "run")
        _command(ctx, shell, "info", "run", "--tree")
        _command(ctx, shell, "verify", "run")
        wanted = _clusters("run")
        _command(ctx, shell, "cut", "run", "--n-clusters", str(wanted), "-o", "labels.parquet")
        say(f"{_agreement('run', wanted, group):.1%} of the points share their centre with most of their cluster.\n")
        _command(ctx, shell, "export", "run", "-o", "tree.nwk")
        if find_spec("bokeh"):
            _command(ctx, shell, "report", "run", "-o", "report.html")
    finally:
        os.chdir(before)


def _there(folder: str, name: str) -> bool:
    return os.path.exists(f"{folder}/{name}")


def _command(ctx: click.Context, shell: Shell, *words: str) -> None:
    """Print a command, then run it."""
    shell.out.print(f"$ dask-rac {shlex.join(words)}", style="bold")
    group = ctx.parent.command if ctx.parent else None
    assert isinstance(group, click.Group)
    command = group.get_command(ctx, words[0])
    assert command is not None
    with command.make_context(words[0], list(words[1:]), parent=ctx) as inner:
        command.invoke(inner)
    shell.out.print()


class Stopped(Exception):  # noqa: N818 - not an error: the demo stops its own run
    """The run was stopped."""


def _stop_early(shell: Shell, edges: str, run: str) -> None:
    """Start a run and stop it after two rounds."""
    from dask_rac.api.cluster import cluster

    words = ("cluster", edges, "-o", run, "--weights", "similarity", "--shards", "4")
    shell.out.print(f"$ dask-rac {shlex.join(words)}", style="bold")
    with shell.watch() as report:
        try:
            cluster(edges, weights="similarity", store=run, shards=4, progress=_after(2, report))
        except Stopped:
            shell.out.print("stopped after two rounds, as Ctrl-C would\n")


def _after(rounds: int, report: Callable[[Event], None]) -> Callable[[Event], None]:
    """Return a listener that stops the run after the given number of rounds."""

    def watch(event: Event) -> None:
        report(event)
        if event.stage == "round" and event.record is not None and event.record.round == rounds:
            raise Stopped

    return watch


def _write_edges(path: str, nodes: int) -> NDArray[np.int64]:
    """Write edges between points scattered around centres on a circle; return the centre of each point."""
    import numpy as np
    import pandas as pd
    from scipy.spatial import cKDTree

    rng = np.random.default_rng(0)
    group = rng.integers(GROUPS, size=nodes)
    angle = 2 * np.pi * group / GROUPS
    points = np.column_stack((np.cos(angle), np.sin(angle))) + rng.normal(scale=0.09, size=(nodes, 2))
    distance, neighbour = (np.asarray(column) for column in cKDTree(points).query(points, 16, workers=-1))
    edges = {
        "source": np.repeat(np.arange(nodes), 15),
        "target": neighbour[:, 1:].ravel(),
        "weight": 1 / (1e-6 + distance[:, 1:].ravel()),
    }
    pd.DataFrame(edges).to_parquet(path)
    return group


def _clusters(run: str) -> int:
    """Return the number of centres, plus one for each further tree: no edge joins it to the others."""
    from dask_rac.api.cluster import open_run

    return open_run(run).n_trees + GROUPS - 1


def _agreement(run: str, clusters: int, group: NDArray[Any]) -> float:
    """Return the fraction of points whose centre is the most common one in their cluster."""
    import numpy as np

    from dask_rac.api.cluster import open_run

    label = open_run(run).cut(n_clusters=clusters)
    shared = np.zeros((label.max() + 1, GROUPS), int)
    np.add.at(shared, (label, group), 1)
    return float(shared.max(axis=1).sum() / len(label))


COMMANDS = (demo,)
