"""Commands that make edges of vectors: graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell

EXAMPLE = "dask-rac graph knn vectors.npy -o edges --k 15 --metric cosine"


@click.group(help=f"Example: {EXAMPLE}\n\nMake edges of vectors.", short_help="Make edges of vectors.")
def graph() -> None:
    """Make edges of vectors."""


def _of_vectors(command: Callable[..., Any]) -> Callable[..., Any]:
    """What every graph of vectors takes."""
    several: list[Callable[[Any], Any]] = [
        click.argument("vectors", type=options.PATH),
        click.option(
            "-o", "--output", required=True, type=options.Output(), metavar="EDGES", help="A new folder of Parquet."
        ),
        click.option(
            "--metric",
            type=options.Word("euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan"),
            default="euclidean",
            metavar="NAME",
            help="euclidean (default), cosine, manhattan, …",
        ),
        click.option("--columns", metavar="A,B,…", help="Of Parquet, where there are others."),
        options.memory,
        options.as_json,
        options.computing,
        options.common,
    ]
    for option in reversed(several):
        command = option(command)
    return command


@options.command(EXAMPLE)
@click.option("--k", type=options.Whole(), default=15, show_default=True, metavar="K", help="Of each vector.")
@click.option(
    "--mode",
    type=options.Word("union", "mutual"),
    default="union",
    metavar="MODE",
    help="union (default), or mutual: each has the other.",
)
@click.option(
    "--method",
    type=options.Word("exact", "approximate"),
    default="exact",
    metavar="HOW",
    help="exact (default) or approximate.",
)
@click.option("--seed", type=options.Whole(), default=0, metavar="N", help="Of the approximate search.")
@_of_vectors
def knn(shell: Shell, vectors: str, **told: Any) -> None:
    """The k nearest neighbours of each vector.

    VECTORS is .npy, .npz, .fvecs, .bvecs, Parquet or Zarr, a path or URL. Stopped, the same command goes on.
    """
    from dask_rac.vectors.graph import knn_graph

    _make(shell, knn_graph, vectors, **told)


@options.command("dask-rac graph eps vectors.npy -o edges --eps 0.5")
@click.option("--eps", type=float, required=True, metavar="D", help="The largest distance; of similarities the least.")
@_of_vectors
def eps(shell: Shell, vectors: str, **told: Any) -> None:
    """All pairs of vectors within a distance.

    They are counted first, and refused if the disk does not hold them. Stopped, the same command goes on.
    """
    from dask_rac.vectors.graph import eps_graph

    _make(shell, eps_graph, vectors, **told)


@options.command("dask-rac graph complete vectors.npy -o edges")
@_of_vectors
def complete(shell: Shell, vectors: str, **told: Any) -> None:
    """All pairs of vectors, 16 bytes each.

    Refused if the disk does not hold them. Stopped, the same command goes on.
    """
    from dask_rac.vectors.graph import complete_graph

    _make(shell, complete_graph, vectors, **told)


def _make(
    shell: Shell,
    function: Callable[..., Any],
    vectors: str,
    output: str,
    columns: str | None,
    as_json: bool,
    scheduler: str | None,
    require_tls: bool | None,
    **told: Any,
) -> None:
    """Make a graph, and say what came out."""
    import json

    from dask_rac.cli import pictures

    names = columns.split(",") if columns else None
    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        made = function(vectors, **told, columns=names, store=output, client=client, progress=report)
    facts = made.attrs["graph"]
    if as_json:
        click.echo(json.dumps({name: value for name, value in facts.items() if name != "identity"}))
        return
    told = {name: f"{facts[name]:,}" for name in ("nodes", "edges", "components", "largest")}
    if facts["recall"] is not None:
        told["recall"] = f"{facts['recall']:.3f}, measured on a sample"
    shell.show(pictures.facts({**told, "found by": facts["method"], "written to": output}))


for _command in (knn, eps, complete):
    graph.add_command(_command)

COMMANDS = (graph,)
