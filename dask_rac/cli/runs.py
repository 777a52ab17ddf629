"""Commands that run or inspect a clustering: cluster, resume, plan, info, verify."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import click

from dask_rac.base.names import HEADER
from dask_rac.base.parameters import SETTINGS
from dask_rac.cli import options
from dask_rac.cli.shell import Shell

if TYPE_CHECKING:
    from dask_rac.results.stored import StoredClustering
    from dask_rac.store.overview import Overview


@options.command("dask-rac cluster edges.parquet -o run --memory 6GB")
@click.argument("edges", type=options.PATH)
@click.option("-o", "--output", required=True, type=options.Output(), metavar="RUN", help="New store of the run.")
@options.settings
@click.option("--max-height", type=float, metavar="H", help="No merges beyond this height.")
@options.words("duplicates", SETTINGS["duplicates"], "RULE", "If weights differ: error, min, max, mean.")
@click.option("--finisher/--no-finisher", default=SETTINGS["finisher"].default, help="Finish with sequential HAC.")
@click.option("--names", type=options.PATH, metavar="FILE", help="Names of nodes: one per line, or Parquet.")
@options.memory
@options.shards
@options.computing
@options.common
def cluster(
    shell: Shell, edges: str, output: str, scheduler: str | None, require_tls: bool | None, **settings: Any
) -> None:
    """Cluster EDGES, or all pairs of vectors, at a path or URL, into a new store."""
    from dask_rac.api.cluster import cluster

    shell.continuation = lambda: _resumption(output)
    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        result = cluster(edges, **settings, store=output, client=client, progress=report)
    _show(shell, result)


@options.command("dask-rac resume run")
@click.argument("run", type=options.PATH)
@options.memory
@options.trust_source
@options.computing
@options.common
def resume(
    shell: Shell, run: str, memory: str | None, trust_source: bool, scheduler: str | None, require_tls: bool | None
) -> None:
    """Resume a RUN that was stopped.

    It continues from its last intact round, and on all pairs that fit in memory from the start; the result is the same
    as without the interruption.
    """
    from dask_rac.api.cluster import resume

    shell.continuation = lambda: _resumption(run)
    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        result = resume(run, memory=memory, client=client, progress=report, trust_source=trust_source)
    _show(shell, result)


def _resumption(run: str) -> str:
    """Return how to resume a run, if it has begun; of an object store nothing is asked, as the user waits."""
    begun = "://" in run or os.path.exists(os.path.join(run, HEADER))
    return f"resume with dask_rac.resume({run!r})" if begun else ""


def _show(shell: Shell, result: StoredClustering) -> None:
    """Print the result."""
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
    """Show what clustering EDGES would take, without running it.

    They may be vectors or distances, as for `cluster`.
    """
    from dask_rac.api.cluster import plan_run
    from dask_rac.cli import pictures

    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        estimate = plan_run(edges, **settings, client=client, progress=report)
    if as_json:
        click.echo(json.dumps(estimate.to_json(), indent=2))
    else:
        shell.show(pictures.facts(estimate.facts()))


@options.command("dask-rac info run")
@click.argument("run", type=options.PATH)
@click.option("--tree", is_flag=True, help="Also show the top of the tree.")
@options.as_json
@options.common
def info(shell: Shell, run: str, tree: bool, as_json: bool) -> None:
    """Show the state of a RUN.

    Progress, rounds, sizes and parameters; the run may be in progress.
    """
    from dask_rac.base.errors import DamagedStoreError
    from dask_rac.cli import pictures
    from dask_rac.store.advice import lost_text
    from dask_rac.store.overview import overview

    state = overview(run)
    if as_json:
        click.echo(json.dumps(_finite(state.to_json()), indent=2))
        return
    shell.show(pictures.facts(_overview_facts(state)))
    if state.rounds:
        shell.show("", pictures.rounds(state.rounds, "pairs" if state.header.settings.metric else "edges"))
    if state.damaged is not None:
        raise DamagedStoreError(lost_text(state.damaged, run))
    if tree and state.merges:
        from dask_rac.api.cluster import open_run

        result = open_run(run)
        shell.show("", pictures.tree(result.top(12), result.n_trees))


def _finite(value: Any) -> Any:
    """Replace infinities and NaN by None: JSON has none."""
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _where(state: Overview) -> str:
    """Say what the bytes of all pairs are: those of the matrix, or of what pairs are computed from."""
    return " of memory" if state.header.engine == "matrix" else f" of {state.settings.input_name}"


def _overview_facts(state: Overview) -> dict[str, str]:
    """Return an overview as text for people."""
    from dask_rac.base.text import size_text

    settings, facts = state.settings, state.facts
    rows = {"run": f"{state.store}, {state.status}", settings.input_name: state.header.source or "not on disk"}
    given, things, where = ("pairs", "pairs", _where(state)) if settings.metric else ("graph", "edges", "")
    if facts is None:
        rows[given] = "not merged yet" if settings.metric else "not read yet"
    else:
        rows[given] = f"{facts.nodes:,} nodes, {facts.edges:,} {things}, {size_text(facts.input_bytes)}{where}"
        dropped = [f"{facts.loops:,} self loops dropped"] * (facts.loops > 0)
        dropped += [f"{facts.repeats:,} repeated rows"] * (facts.repeats > 0)
        rows |= {"input": ", ".join(dropped)} if dropped else {}
    which = f"metric {settings.metric}" if settings.metric else f"missing {settings.missing_text}"
    rows["linkage"] = f"{settings.linkage} of {settings.weights}, {which}"
    if math.isfinite(settings.max_height):
        rows["max height"] = f"{settings.max_height:g}"
    if settings.epsilon:
        rows["epsilon"] = f"{state.epsilon:.6g}, of {settings.epsilon:g} allowed"
    if facts is not None:
        trees = facts.nodes - state.merges
        ends = f", {trees:,} tree{'' if trees == 1 else 's'}" if state.status == "finished" else " so far"
        heights = f", heights {state.heights[0]:.6g} to {state.heights[1]:.6g}" if state.heights else ""
        rows["merges"] = f"{state.merges:,}{ends}{heights}"
    rows["disk"] = f"{size_text(state.bytes)} now, {size_text(state.peak_disk)} at its peak"
    if state.shards:
        rows["disk"] += f", {state.shards} shard{'' if state.shards == 1 else 's'}"
    rows["time"] = f"{state.seconds:,.1f} s of work"
    rows["made by"] = ", ".join(f"{package} {version}" for package, version in state.header.versions.items())
    return rows


@options.command("dask-rac verify run")
@click.argument("run", type=options.PATH)
@click.option("--edges", type=options.PATH, help="The edges, or vectors, if they have moved.")
@options.trust_source
@options.as_json
@options.computing
@options.common
def verify(
    shell: Shell,
    run: str,
    edges: str | None,
    trust_source: bool,
    as_json: bool,
    scheduler: str | None,
    require_tls: bool | None,
) -> None:
    """Audit a RUN against its edges, or against all pairs of its vectors.

    Recomputes every height in one pass over the edges or pairs; exit code 4 if one differs.
    """
    from dataclasses import asdict

    from dask_rac.api.cluster import open_run

    with shell.connected(scheduler, require_tls) as client, shell.watch() as report:
        audit = open_run(run, progress=report).verify(edges, client=client, trust_source=trust_source)
    click.echo(json.dumps(asdict(audit), indent=2) if as_json else f"{run}: {audit}")


COMMANDS = (cluster, resume, plan, info, verify)
