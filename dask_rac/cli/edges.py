"""Commands that make edges: generate, ingest."""

from __future__ import annotations

from typing import Any

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell
from dask_rac.recipes.schema import GENERATED

EXAMPLE = "dask-rac generate lattice --nodes 1000000 -o edges"
PURPOSE = "Generate graphs and vectors to try things on."


@click.group(help=f"Example: {EXAMPLE}\n\n{PURPOSE}", short_help=PURPOSE)
def generate() -> None:
    """Generate graphs and vectors to try things on."""


@options.command(EXAMPLE)
@click.option("--nodes", type=options.Whole(), required=True, metavar="N", help="The number of nodes.")
@click.option(
    "--degree",
    type=options.Whole(),
    default=GENERATED["lattice"]["degree"].default,
    metavar="N",
    show_default=True,
    help="Edges per node, even.",
)
@click.option(
    "--seed", type=options.Whole(), default=0, metavar="N", show_default=True, help="Another seed, another graph."
)
@options.weights
@click.option(
    "-o", "--output", required=True, type=options.Output(), metavar="EDGES", help="New folder of Parquet files."
)
@options.computing
@options.common
def lattice(shell: Shell, output: str, scheduler: str | None, require_tls: bool | None, **shape: int | str) -> None:
    """A jittered 3-D lattice of any size.

    It has N x degree / 2 edges of 12 bytes. The same arguments give the same edges.
    """
    from dask_rac.datasets import lattice

    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        written = lattice(**shape, store=output, client=client, progress=report)  # type: ignore[arg-type]
    click.echo(written)


@options.command("dask-rac ingest friends.csv -o edges --columns from,to,distance")
@click.argument("edges", type=options.PATH)
@click.option(
    "-o", "--output", required=True, type=options.Output(), metavar="EDGES", help="New folder of Parquet files."
)
@click.option("--columns", metavar="A,B,C", default="source,target,weight", show_default=True, help="Column names.")
@click.option("--no-header", is_flag=True, help="No header line: columns are 0, 1, 2.")
@click.option("--no-weights", is_flag=True, help="No weight column: every edge weighs 1.")
@click.option("--delimiter", metavar="C", help="Column separator, if not implied by the file name.")
@click.option("--text-ids", is_flag=True, help="Ids are names even if all are numbers.")
@options.common
def ingest(
    shell: Shell,
    edges: str,
    output: str,
    columns: str,
    no_header: bool,
    no_weights: bool,
    delimiter: str | None,
    text_ids: bool,
) -> None:
    """Convert an edge list into one that `cluster` reads.

    From CSV, TSV, text, or Parquet with other column names. Every row is checked. Ids are whole numbers, or text: then
    the nodes are numbered, and their names kept.
    """
    from dask_rac.api.ingest import ingest

    if no_header and columns == "source,target,weight":
        columns = "0,1,2"
    names: list[str | int | None] = [int(name) if no_header and name.isdigit() else name for name in columns.split(",")]
    if no_weights:
        names = [*names[:2], None]
    if len(names) != 3:
        raise click.UsageError(f"--columns {columns} names {len(names)} columns: name three")
    with shell.watch() as report:
        reading: dict[str, Any] = {"delimiter": delimiter, "header": not no_header, "text_ids": text_ids}
        written = ingest(edges, output, columns=tuple(names), **reading, progress=report)
    click.echo(written)


@options.command("dask-rac generate sift --nodes 1000000 -o sift.bvecs")
@click.option("--nodes", type=options.Whole(), required=True, metavar="N", help="The number of vectors.")
@click.option(
    "--dimensions",
    type=options.Whole(),
    default=GENERATED["sift"]["dimensions"].default,
    metavar="N",
    show_default=True,
    help="Per vector.",
)
@click.option(
    "--seed", type=options.Whole(), default=0, metavar="N", show_default=True, help="Another seed, other vectors."
)
@click.option("-o", "--output", required=True, type=options.Output(), metavar="FILE", help=".bvecs, .fvecs or .npy.")
@options.common
def sift(shell: Shell, output: str, **shape: int) -> None:
    """Vectors that resemble SIFT image descriptors."""
    from dask_rac.datasets import sift

    with shell.watch() as report:
        written = sift(**shape, store=output, progress=report)
    click.echo(written)


@options.command("dask-rac generate documents --nodes 20000 --terms 130000 -o documents.zarr")
@click.option("--nodes", type=options.Whole(), required=True, metavar="N", help="The number of documents.")
@click.option("--terms", type=options.Whole(), required=True, metavar="N", help="The number of distinct terms.")
@click.option(
    "--length",
    type=float,
    default=GENERATED["documents"]["length"].default,
    metavar="N",
    show_default=True,
    help="Words per document, on average.",
)
@click.option(
    "--topics",
    type=options.Whole(),
    default=GENERATED["documents"]["topics"].default,
    metavar="N",
    show_default=True,
    help="The number of topics.",
)
@click.option(
    "--seed", type=options.Whole(), default=0, metavar="N", show_default=True, help="Another seed, other documents."
)
@click.option("-o", "--output", required=True, type=options.Output(), metavar="NAME.zarr", help="New Zarr group.")
@options.common
def documents(shell: Shell, output: str, **shape: Any) -> None:
    """Documents as bags of words: sparse vectors."""
    from dask_rac.datasets import documents

    with shell.watch() as report:
        written = documents(**shape, store=output, progress=report)
    click.echo(written)


for _command in (lattice, sift, documents):
    generate.add_command(_command)

COMMANDS = (generate, ingest)
