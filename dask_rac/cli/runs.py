"""Commands that run a clustering or look at one: cluster, resume, plan, info, verify."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell

if TYPE_CHECKING:
    from dask_rac.overview import Overview
    from dask_rac.stored_clustering import StoredClustering


@options.command("dask-rac cluster edges.parquet -o run --memory 6GB")
@click.argument("edges", type=options.PATH)
@click.option("-o", "--output", required=True, type=options.Output(), metavar="RUN", help="The new store of the run.")
@options.settings
@click.option("--max-height", type=float, metavar="H", help="No merge beyond it.")
@click.option(
    "--duplicates",
    type=options.Word("error", "min", "max", "mean"),
    default="error",
    metavar="RULE",
    help="Of two weights: error (default), min, max, mean.",
)
@click.option("--finisher/--no-finisher", default=True, help="Sequential HAC for the last few.")
@options.memory
@options.shards
@options.computing
@options.common
def cluster(
    shell: Shell, edges: str, output: str, scheduler: str | None, require_tls: bool | None, **settings: Any
) -> None:
    """Cluster EDGES, Parquet or Zarr at a path or URL, into a new store."""
    from dask_rac.api import cluster

    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        result = cluster(edges, **settings, store=output, client=client, progress=report)
    _show(shell, result)


@options.command("dask-rac resume run")
@click.argument("run", type=options.PATH)
@options.memory
@options.computing
@options.common
def resume(shell: Shell, run: str, memory: str | None, scheduler: str | None, require_tls: bool | None) -> None:
    """Go on with a RUN that was stopped.

    From its last sound round; the result is as if nothing had happened.
    """
    from dask_rac.api import resume

    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        result = resume(run, memory=memory, client=client, progress=report)
    _show(shell, result)


def _show(shell: Shell, result: StoredClustering) -> None:
    """What came out."""
    from dask_rac.cli import pictures

    shell.show(pictures.facts(result.facts()))


@options.command("dask-rac plan edges.parquet --memory 6GB")
@click.argument("edges", type=options.PATH)
@options.settings
@options.memory
@options.shards
@options.as_json
@options.computing
@options.common
def plan(
    shell: Shell, edges: str, as_json: bool, scheduler: str | None, require_tls: bool | None, **settings: Any
) -> None:
    """Tell what clustering EDGES would take; nothing is run."""
    from dask_rac.api import plan_run
    from dask_rac.cli import pictures

    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        found = plan_run(edges, **settings, client=client, progress=report)
    if as_json:
        click.echo(json.dumps(found.to_json(), indent=2))
    else:
        shell.show(pictures.facts(found.facts()))


@options.command("dask-rac info run")
@click.argument("run", type=options.PATH)
@click.option("--tree", is_flag=True, help="Show the top of the tree, too.")
@options.as_json
@options.common
def info(shell: Shell, run: str, tree: bool, as_json: bool) -> None:
    """Tell how far a RUN has come.

    State, rounds, sizes, parameters; also while it is under way.
    """
    from dask_rac.cli import pictures
    from dask_rac.errors import DamagedStoreError
    from dask_rac.overview import overview

    found = overview(run)
    if as_json:
        click.echo(json.dumps(_finite(found.to_json()), indent=2))
        return
    shell.show(pictures.facts(_overview_facts(found)))
    if found.rounds:
        shell.show("", pictures.rounds(found.rounds))
    if found.damaged is not None:
        raise DamagedStoreError(f"{found.damaged} is damaged: dask_rac.resume({run!r}) goes back to the step before it")
    if tree and found.merges:
        from dask_rac.api import open_run

        result = open_run(run)
        shell.show("", pictures.tree(result.top(12), result.n_trees))


def _finite(value: Any) -> Any:
    """JSON has no infinity."""
    if isinstance(value, dict):
        return {name: _finite(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _overview_facts(found: Overview) -> dict[str, str]:
    """What an overview tells people."""
    from dask_rac.config import size_text

    settings, facts = found.header.settings, found.facts
    rows = {"run": f"{found.store}, {found.status}", "edges": found.header.source or "were not on disk"}
    if facts is None:
        rows["graph"] = "not read yet"
    else:
        rows["graph"] = f"{facts.nodes:,} nodes, {facts.edges:,} edges, {size_text(facts.input_bytes)}"
        dropped = [f"{facts.loops:,} self loops dropped"] * (facts.loops > 0)
        dropped += [f"{facts.repeats:,} rows name an edge again"] * (facts.repeats > 0)
        rows |= {"input": ", ".join(dropped)} if dropped else {}
    rows["linkage"] = f"{settings.linkage} of {settings.weights}, missing {settings.missing}"
    if math.isfinite(settings.max_height):
        rows["max height"] = f"{settings.max_height:g}"
    if facts is not None:
        trees = facts.nodes - found.merges
        ends = f", {trees:,} tree{'' if trees == 1 else 's'}" if found.status == "finished" else " so far"
        heights = f", heights {found.heights[0]:.6g} to {found.heights[1]:.6g}" if found.heights else ""
        rows["merges"] = f"{found.merges:,}{ends}{heights}"
    rows["disk"] = f"{size_text(found.bytes)} now, {size_text(found.peak_disk)} at its peak"
    if found.shards:
        rows["disk"] += f", {found.shards} shard{'' if found.shards == 1 else 's'}"
    rows["time"] = f"{found.seconds:,.1f} s of work"
    rows["made by"] = ", ".join(f"{package} {version}" for package, version in found.header.versions.items())
    return rows


@options.command("dask-rac verify run")
@click.argument("run", type=options.PATH)
@click.option("--edges", type=options.PATH, help="Where the edges are now.")
@options.as_json
@options.computing
@options.common
def verify(
    shell: Shell, run: str, edges: str | None, as_json: bool, scheduler: str | None, require_tls: bool | None
) -> None:
    """Audit a RUN against its edges.

    Every height is recomputed, in one pass; exit code 4 if one does not come out.
    """
    from dataclasses import asdict

    from dask_rac.api import open_run

    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        found = open_run(run, progress=report).verify(edges, client=client)
    click.echo(json.dumps(asdict(found), indent=2) if as_json else f"{run}: {found}")


COMMANDS = (cluster, resume, plan, info, verify)
