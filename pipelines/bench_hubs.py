"""A graph with hubs out of core, within a factor 1 + epsilon: time, rounds through the disk, memory, the certificate.

A recursive-matrix graph (R-MAT, a = 0.57, b = c = 0.19) with random similarities is written to disk in pieces, and
clustered by average linkage through a store, by default 30 million edges in 600 MB. Memory is watched from outside.

    python pipelines/bench_hubs.py                                         about five minutes
    python pipelines/bench_hubs.py --edges 300000000 --memory 6GB          about an hour
    python pipelines/bench_hubs.py --epsilon 0.5 --memory 300MB
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import click
from hubs import write_recursive_edges
from watch import watched

import dask_rac

RUN = """
import sys, dask_rac
edges, store, memory, epsilon = sys.argv[1:]
dask_rac.cluster(edges, weights="similarity", epsilon=float(epsilon), memory=memory, store=store, duplicates="max")
"""


@click.command(help=__doc__)
@click.option("--edges", default=30_000_000, show_default=True, help="Pairs that are drawn; a few are drawn twice.")
@click.option("--memory", default="600MB", show_default=True, help="The budget of the run.")
@click.option("--epsilon", default=0.1, show_default=True)
@click.option("--folder", default="bench-hubs", show_default=True, help="A scratch folder, deleted at the end.")
@click.option("--verify", is_flag=True, help="Recompute every height, and every ratio if memory allows.")
def main(edges: int, memory: str, epsilon: float, folder: str, verify: bool) -> None:
    """Write the graph, cluster it, and print what it took as Markdown."""
    scratch = Path(folder)
    scratch.mkdir(parents=True)
    try:
        write_recursive_edges(scratch / "edges", edges)
        before = processor_seconds()
        with watched() as usage:
            command = [sys.executable, "-c", RUN, str(scratch / "edges"), str(scratch / "run"), memory, str(epsilon)]
            subprocess.run(command, check=True)
        rows = report(dask_rac.open(scratch / "run"), usage.seconds, processor_seconds() - before)
        rows.append(
            ("memory", f"at most {usage.rss / 1e9:.2f} GB resident, with the watching process; budget {memory}")
        )
        if verify:
            with watched() as usage:
                checked = dask_rac.open(scratch / "run").verify(scratch / "edges")
            error, ratios = checked.worst_error, f"{checked.ratios:,} ratios" if checked.ratios else "no ratio"
            rows.append(
                ("`verify`", f"{checked.merges:,} heights, {ratios}, largest error {error:.1e}, {usage.seconds:.0f} s")
            )
        click.echo("| | |\n|---|---|")
        for name, text in rows:
            click.echo(f"| {name} | {text} |")
    finally:
        shutil.rmtree(scratch)


def processor_seconds() -> float:
    """Return the processor time of all processes that this one has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def report(found: dask_rac.StoredClustering, seconds: float, processor: float) -> list[tuple[str, str]]:
    """Return what a finished run was and took."""
    rounds = found.rounds
    disk = rounds[~rounds["finisher"]]
    good = disk[disk["deferred"]]
    return [
        ("graph", f"{int(disk['edges'].iloc[0]):,} edges, {int(disk['clusters'].iloc[0]):,} connected nodes"),
        ("time", f"{seconds:.0f} s, {processor:.0f} s of the processor"),
        ("rounds through the disk", f"{len(disk)}, {len(good)} of them of good merges"),
        ("merged in memory at the end", f"{int(rounds['merges'][rounds['finisher']].sum()):,} clusters"),
        ("certificate", f"epsilon = {found.epsilon:.6f}"),
        ("disk", f"at most {found.peak_disk / 1e9:.1f} GB"),
    ]


if __name__ == "__main__":
    main()
