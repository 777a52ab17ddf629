"""Commands that build a graph from vectors: graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dask_rac.base.parameters import GRAPH_WEIGHTS, GRAPHS, METRIC
from dask_rac.cli import options
from dask_rac.cli.shell import Shell

KNN = GRAPHS["knn"]
EXAMPLE = "dask-rac graph knn vectors.npy -o edges --k 15 --metric cosine"


@click.group(help=f"Example: {EXAMPLE}\n\nBuild a graph from vectors.", short_help="Build a graph from vectors.")
def graph() -> None:
    """Build a graph from vectors."""


def _of_vectors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that all graphs of vectors take."""
    several: list[Callable[[Any], Any]] = [
        click.argument("vectors", type=options.PATH),
        click.option(
            "-o", "--output", required=True, type=options.Output(), metavar="EDGES", help="New folder of Parquet files."
        ),
        options.words("metric", METRIC, "NAME", "euclidean (default), cosine, manhattan, …"),
        options.words("weights", GRAPH_WEIGHTS, "KIND", "similarity: the cosine, not 1 - cosine."),
        click.option("--columns", metavar="A,B,…", help="Parquet columns to use; default all."),
        options.memory,
        options.as_json,
        options.computing,
        options.common,
    ]
    for option in reversed(several):
        command = option(command)
    return command


@options.command(EXAMPLE)
@click.option(
    "--k",
    type=options.Whole(),
    default=KNN["k"].default,
    show_default=True,
    metavar="K",
    help="Neighbours per vector.",
)
@options.words("mode", KNN["mode"], "MODE", "union (default), or mutual: both ways.")
@options.words("method", KNN["method"], "HOW", "exact (default) or approximate.")
@click.option(
    "--seed", type=options.Whole(), default=KNN["seed"].default, metavar="N", help="Seed of the approximate search."
)
@_of_vectors
def knn(shell: Shell, vectors: str, **settings: Any) -> None:
    """The k nearest neighbours of each vector.

    VECTORS: .npy, .npz, .fvecs, .bvecs, Parquet, Zarr. To resume, repeat it.
    """
    from dask_rac.api.graphs import knn_graph

    _make(shell, knn_graph, vectors, **settings)


@options.command("dask-rac graph eps vectors.npy -o edges --eps 0.5")
@click.option("--eps", type=float, required=True, metavar="D", help="Largest distance, or smallest similarity.")
@_of_vectors
def eps(shell: Shell, vectors: str, **settings: Any) -> None:
    """All pairs of vectors within a distance.

    Pairs are counted first, and refused if they do not fit on the disk. To resume, repeat the command.
    """
    from dask_rac.api.graphs import eps_graph

    _make(shell, eps_graph, vectors, **settings)


@options.command("dask-rac graph complete vectors.npy -o edges")
@_of_vectors
def complete(shell: Shell, vectors: str, **settings: Any) -> None:
    """All pairs of vectors, 16 bytes each.

    Refused if they do not fit on the disk. To resume, repeat the command.
    """
    from dask_rac.api.graphs import complete_graph

    _make(shell, complete_graph, vectors, **settings)


def _make(
    shell: Shell,
    function: Callable[..., Any],
    vectors: str,
    output: str,
    columns: str | None,
    as_json: bool,
    scheduler: str | None,
    require_tls: bool | None,
    **settings: Any,
) -> None:
    """Build a graph and print the result."""
    import json

    from dask_rac.cli import pictures

    shell.continuation = lambda: "run it again with the same arguments to continue"
    names = columns.split(",") if columns else None
    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        made = function(vectors, **settings, columns=names, store=output, client=client, progress=report)
    facts = made.attrs["graph"]
    if as_json:
        click.echo(json.dumps({name: value for name, value in facts.items() if name != "identity"}))
        return
    rows = {name: f"{facts[name]:,}" for name in ("nodes", "edges", "components", "largest")}
    if facts["recall"] is not None:
        rows["recall"] = f"{facts['recall']:.3f}, measured on a sample"
    shell.show(pictures.facts({**rows, "found by": facts["method"], "written to": output}))


for _command in (knn, eps, complete):
    graph.add_command(_command)

COMMANDS = (graph,)
