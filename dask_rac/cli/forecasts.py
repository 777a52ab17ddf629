"""Commands that say what a run would take elsewhere: forecast, probe."""

from __future__ import annotations

import json
import math
from typing import Any

import click

from dask_rac.base.parameters import SETTINGS
from dask_rac.cli import options
from dask_rac.recipes.schema import whole


@options.command("dask-rac forecast edges --like run --machines 10 --kind large")
@click.argument("edges", type=options.PATH)
@options.words("linkage", SETTINGS["linkage"], "NAME", "average (default), complete or weighted.")
@options.words("missing", SETTINGS["missing"], "WEIGHT", "Absent pairs: far, ignore, infinite, 0.5.")
@options.weights
@click.option("--n-nodes", type=options.Whole(), metavar="N", help="Number of nodes; needed if EDGES is a number.")
@click.option("--like", multiple=True, type=options.PATH, metavar="RUN", help="A finished run; repeatable.")
@click.option("--like-on", metavar="PxT", help="Where it computed: processes x threads, such as 1x8.")
@click.option("--sample", type=options.PATH, metavar="RUN", help="A run on a small graph of the same kind.")
@click.option("--constants", type=options.PATH, metavar="FILE", help="What `dask-rac probe` has written.")
@click.option("--kind", default="here", metavar="KIND", help="here, small, large, workstation, or FILE.json.")
@click.option("--machines", type=options.Whole(), default=1, metavar="N", help="How many of them; default: 1.")
@options.memory
@options.shards
@click.option("--scaling", metavar="N,N,…", help="Also simulate these numbers of machines.")
@options.as_json
@options.common
def forecast(
    shell: Any, edges: str, like: tuple[str, ...], scaling: str | None, as_json: bool, **settings: Any
) -> None:
    """Forecast the time, memory, disk and price of clustering EDGES.

    EDGES is a path, or a number of edges; the machines need not exist.
    """
    from dask_rac.cli import pictures
    from dask_rac.forecasts.request import forecast as forecast_run

    counts = _counts(scaling)
    found = forecast_run(_size_or_path(edges), **settings, like=list(like) or None)
    table = found.scaling(counts) if counts else None
    if as_json:
        more = {} if table is None else {"scaling": table.reset_index().to_dict("records")}
        click.echo(json.dumps(_plain(found.to_json() | more), indent=2))
        return
    shell.show(pictures.facts(found.facts()), "", pictures.costs(found.phases))
    if table is not None:
        shell.show("", pictures.costs(table))


@options.command("dask-rac probe -o machine.json")
@click.option("-o", "--output", required=True, type=options.Output(), metavar="FILE", help="New .json file.")
@click.option("--folder", type=options.PATH, metavar="FOLDER", help="On the disk to measure; default: temporary files.")
@click.option("--url", type=options.PATH, metavar="URL", help="A folder of an object store to measure, too.")
@options.common
def probe(shell: Any, output: str, folder: str | None, url: str | None) -> None:
    """Measure this machine for forecasts.

    Takes up to a minute: disk, memory, clusterings of small graphs, requests to an object store.
    """
    from dask_rac.files.output import refuse_taken
    from dask_rac.forecasts.probe import probed

    refuse_taken(output)
    with shell.watch("measuring"):
        machine, _ = probed(folder, url)
    machine.save(output)
    click.echo(output)


def _size_or_path(edges: str) -> Any:
    """Return a number of edges, such as 1_000_000 or 1e9, as one; anything else is a path."""
    try:
        return whole(edges)
    except ValueError:
        return edges


def _counts(scaling: str | None) -> list[int]:
    """Return numbers of machines from a list such as 1,10,100."""
    try:
        return [int(part) for part in scaling.split(",")] if scaling else []
    except ValueError:
        raise click.UsageError(f"--scaling {scaling}: give numbers of machines, such as 1,10,100") from None


def _plain(value: Any) -> Any:
    """Replace what JSON does not have: numbers of numpy, and infinities."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    value = value.item() if hasattr(value, "item") else value
    return None if isinstance(value, float) and not math.isfinite(value) else value


COMMANDS = (forecast, probe)
