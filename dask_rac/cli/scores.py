"""The command that compares a run with known classes: score."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell

if TYPE_CHECKING:
    from dask_rac.results.scores import Scores

OWN = "*"  # --edges without a path


@options.command("dask-rac score run classes.csv --edges")
@click.argument("run", type=options.PATH)
@click.argument("labels", type=options.PATH)
@click.option("--column", metavar="NAME", help="Column of the classes; default: label, or the only one.")
@click.option("--ignore", metavar="LABEL", help="A label that means no class; default -1.")
@click.option(
    "--edges",
    type=options.PATH,
    is_flag=False,
    flag_value=OWN,
    metavar="[PATH]",
    help="Also compare the tree with its edges, or vectors.",
)
@options.trust_source
@options.as_json
@options.common
def score(
    shell: Shell,
    run: str,
    labels: str,
    column: str | None,
    ignore: str | None,
    edges: str | None,
    trust_source: bool,
    as_json: bool,
) -> None:
    """Score all flat cuts of a RUN against known classes.

    LABELS is a .parquet, .csv or .csv.gz file with a column of classes and one of nodes, `node` or `name`;
    without one, its rows are in the order of the nodes.
    """
    from dask_rac.api.cluster import open_run
    from dask_rac.files.class_files import read_classes

    known = read_classes(labels, column)
    given = True if edges == OWN else edges
    with shell.watch("comparing cuts") as report:
        found = open_run(run, progress=report).scores(
            known, edges=given, ignore=_ignored(ignore, known), trust_source=trust_source
        )
    if as_json:
        click.echo(json.dumps(_as_json(found), indent=2))
    else:
        _show(shell, found)


def _ignored(label: str | None, known: Any) -> Any:
    """Return the label to ignore as the file has it: a number among numbers."""
    if label is None or known.dtype.kind not in "iuf":
        return -1 if label is None else label
    try:
        return float(label)
    except ValueError as error:
        raise click.UsageError(f"--ignore {label} is not a number, and the labels are numbers") from error


def _show(shell: Shell, found: Scores) -> None:
    """Print the best cuts and what is known of the whole tree."""
    from dask_rac.cli import pictures
    from dask_rac.results.scores import MEASURE_NAMES

    facts = {name: text for name, text in found.facts().items() if name not in MEASURE_NAMES.values()}
    shell.show(pictures.best_cuts(found.best, MEASURE_NAMES), "", pictures.facts(facts))


def _as_json(found: Scores) -> dict[str, Any]:
    """Return the best cuts and the numbers of the whole tree, in what JSON has words for."""
    best = {
        str(name): {key: _finite(value) for key, value in row.items()}
        for name, row in found.best.to_dict("index").items()
    }
    names = ("purity", "cophenetic", "dasgupta", "n_edges", "n_unjoined", "n_nodes", "n_labelled", "n_classes")
    return {"best": best} | {name: _finite(getattr(found, name)) for name in names}


def _finite(value: Any) -> Any:
    """Return a number, or None if it is not finite."""
    return value if value is not None and math.isfinite(value) else None


COMMANDS = (score,)
