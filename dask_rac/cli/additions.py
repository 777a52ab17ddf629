"""Commands that add to a finished run: assign, extend."""

from __future__ import annotations

from typing import Any

import click

from dask_rac.base.parameters import PAIRS_METRIC, SETTINGS
from dask_rac.cli import options
from dask_rac.cli.shell import Shell


@options.command("dask-rac assign run new.npy --n-clusters 50 -o labels.parquet")
@click.argument("run", type=options.PATH)
@click.argument("vectors", type=options.PATH)
@click.option("--height", type=float, metavar="H", help="Clusters at this height.")
@click.option("--n-clusters", type=options.Whole(), metavar="K", help="This many clusters.")
@click.option("--points", type=options.PATH, metavar="FILE", help="The vectors of RUN, if it was made of edges.")
@options.words("metric", PAIRS_METRIC, "NAME", "How vectors are compared, if RUN was made of edges.")
@click.option("--max-height", type=float, metavar="H", help="Farther vectors get the label -1.")
@click.option(
    "-o",
    "--output",
    required=True,
    type=options.Output(),
    metavar="LABELS",
    help="New .parquet, .zarr, .csv or .csv.gz.",
)
@options.common
def assign(
    shell: Shell, run: str, vectors: str, height: float | None, n_clusters: int | None, output: str, **more: Any
) -> None:
    """Assign new VECTORS to the flat clusters of a RUN.

    Writes a label for every vector: that of the nearest cluster, by the distance of the linkage.
    """
    from dask_rac.api.cluster import open_run
    from dask_rac.files.labels import check_labels, write_labels
    from dask_rac.files.output import refuse_taken

    if (height is None) == (n_clusters is None):
        raise click.UsageError("pass either --height or --n-clusters")
    check_labels(output)
    refuse_taken(output)
    kind, value = ("n_clusters", n_clusters) if height is None else ("height", height)
    with shell.watch("assigning vectors") as report:
        result = open_run(run, progress=report)
        if not result.finished:
            shell.warn(
                f"{run} is not finished: clusters reflect the merges so far; resume it with `dask-rac resume {run}`"
            )
        labels = result.assign(vectors, height=height, n_clusters=n_clusters, **more)
        written = write_labels(output, [labels], kind, value, len(labels))
    click.echo(written)


@options.command("dask-rac extend run more.parquet -o longer")
@click.argument("run", type=options.PATH)
@click.argument("edges", type=options.PATH)
@click.option("-o", "--output", required=True, type=options.Output(), metavar="RUN", help="New store of the result.")
@click.option("--n-nodes", type=options.Whole(), metavar="N", help="Number of all nodes; default: as many as needed.")
@options.words("duplicates", SETTINGS["duplicates"], "RULE", "If weights differ: error, min, max, mean.")
@options.memory
@options.shards
@options.computing
@options.common
def extend(
    shell: Shell, run: str, edges: str, output: str, scheduler: str | None, require_tls: bool | None, **more: Any
) -> None:
    """Add EDGES to a RUN by single linkage, into a new store.

    The merges are those of all edges at once; the edges of RUN are not needed.
    """
    from dask_rac.api.extend import extend
    from dask_rac.cli import pictures

    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        result = extend(run, edges, store=output, client=client, progress=report, **more)
    shell.show(pictures.facts(result.facts()))


COMMANDS = (assign, extend)
