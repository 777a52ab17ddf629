"""Forecasts against runs: small graphs are clustered, larger ones forecast from these, and then clustered, too.

python pipelines/forecast_check.py [--small 150000:30MB] [--large 5000000:1GB] [--large 50000000:6GB] [--place 1x2]

Sizes are nodes of a lattice with 40 entries each, and the budget. Each run is in a process of its own, after a small
graph has warmed it up. Where other programs use the processors, threads wait for one: then a forecast is compared with
the seconds of a run divided by how much longer its threads have taken because of that.
"""

import json
import os
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from time import perf_counter
from typing import Any

import click
from rich.console import Console
from rich.table import Table

DEGREE = 40
SMALL, LARGE = ("150000:30MB", "1500000:300MB"), ("5000000:1GB",)
PLACES = ("1x2", "2x1")


@click.command(help=__doc__)
@click.option("--small", multiple=True, default=SMALL, show_default=True, help="A graph to learn from; repeatable.")
@click.option("--large", multiple=True, default=LARGE, show_default=True, help="A graph to forecast; repeatable.")
@click.option("--place", multiple=True, default=PLACES, show_default=True, help="Processes x threads; repeatable.")
@click.option("--folder", default="forecast-check", show_default=True, help="A scratch folder, deleted at the end.")
@click.option("--run", "alone", help="Make only this run, in this process; used internally.")
def main(
    small: tuple[str, ...], large: tuple[str, ...], place: tuple[str, ...], folder: str, alone: str | None
) -> None:
    """Learn from small runs, forecast large ones, make them, and compare."""
    scratch = Path(folder)
    if alone is not None:
        print(json.dumps(measure(scratch, alone, place[0])))
        return
    import dask_rac

    console = Console(width=140)
    scratch.mkdir(parents=True)
    try:
        for size in {*small, *large, "2000:4MB"}:
            nodes = int(size.partition(":")[0])
            dask_rac.datasets.lattice(nodes, DEGREE, 0, scratch / f"edges-{nodes}", weights="similarity")
        table = Table("edges", "place", "", "forecast", "measured", "longer by", "without waiting", "forecast / that")
        for where in place:
            compare(table, scratch, where, small, large)
        console.print(table)
    finally:
        shutil.rmtree(scratch)


def compare(table: Table, scratch: Path, place: str, small: tuple[str, ...], large: tuple[str, ...]) -> None:
    """Add rows for the runs of a place: those that constants are from, and those that are forecast."""
    from dask_rac.forecasts.calibrate import calibrated
    from dask_rac.forecasts.observe import Place, observe

    processes, threads = map(int, place.split("x"))
    found, runs = {}, []
    for size in small:
        found[size] = run_alone(scratch, size, place)
        runs.append(observe(store_of(scratch, size, place), Place(processes, threads, found[size]["slowdown"])))
    machine = calibrated(runs)
    for size in (*small, *large):
        measured = found.get(size) or run_alone(scratch, size, place)
        predicted = forecast(scratch, (size, small[-1]), place, machine)
        add_rows(table, size, place, predicted, measured)
        if size in large:
            shutil.rmtree(store_of(scratch, size, place))


def forecast(scratch: Path, sizes: tuple[str, str], place: str, machine: Any) -> dict[str, float]:
    """Forecast a run of the first size from the constants of small ones, and from the decay of a run of the second."""
    import dask_rac

    size, sample = sizes

    processes, threads = map(int, place.split("x"))
    nodes, memory = size.split(":")
    kind = {
        "cores": processes * threads,
        "processes": processes,
        "memory": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "disk": shutil.disk_usage(scratch).free,
    }
    found = dask_rac.forecast(
        scratch / f"edges-{nodes}",
        weights="similarity",
        constants=machine,
        sample=store_of(scratch, sample, place),
        kind=kind,
        memory=memory,
        remote=False,
    )
    known = {
        "seconds": found.seconds,
        "busy": found.thread_seconds,
        "rounds": len(found.levels),
        "written": found.traffic.written,
    }
    return known | {"read": found.traffic.read, "shards": found.plan.shards, "disk": found.plan.disk}


def add_rows(table: Table, size: str, place: str, predicted: dict[str, float], measured: dict[str, float]) -> None:
    """Compare seconds, rounds and bytes."""
    edges = f"{DEGREE // 2 * int(size.partition(':')[0]):,}"
    alone = measured["seconds"] / measured["slowdown"]
    table.add_row(
        edges,
        place,
        "seconds",
        f"{predicted['seconds']:.1f}",
        f"{measured['seconds']:.1f}",
        f"{measured['slowdown']:.2f}",
        f"{alone:.1f}",
        f"{predicted['seconds'] / alone:.2f}",
    )
    table.add_row(
        "",
        "",
        "processor seconds",
        f"{predicted['busy']:.1f}",
        f"{measured['busy']:.1f}",
        "",
        "",
        f"{predicted['busy'] / measured['busy']:.2f}",
    )
    for name in ("rounds", "shards"):
        ratio = predicted[name] / measured[name]
        table.add_row("", "", name, f"{predicted[name]:,.0f}", f"{measured[name]:,.0f}", "", "", f"{ratio:.2f}")
    for name in ("read", "written", "disk"):
        values = [f"{found[name] / 1e9:.2f} GB" for found in (predicted, measured)]
        table.add_row("", "", name, *values, "", "", f"{predicted[name] / measured[name]:.2f}")


def store_of(scratch: Path, size: str, place: str) -> Path:
    """Return where a run writes."""
    return scratch / f"run-{size.partition(':')[0]}-{place}"


def run_alone(scratch: Path, size: str, place: str) -> dict[str, float]:
    """Make a run in a separate process."""
    command = [sys.executable, __file__, "--run", size, "--place", place, "--folder", str(scratch)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def measure(scratch: Path, size: str, place: str) -> dict[str, float]:
    """Cluster once, after a small graph has warmed everything up."""
    import dask
    from distributed import Client, LocalCluster

    import dask_rac
    from dask_rac.forecasts.waiting import Waiting

    processes, threads = map(int, place.split("x"))
    dask.config.set(num_workers=threads)
    nodes, memory = size.split(":")
    cluster = None
    if processes > 1:
        cluster = LocalCluster(n_workers=processes, threads_per_worker=threads, dashboard_address=":0")
    with Client(cluster) if cluster else nullcontext() as client, cluster or nullcontext():
        computing = list(client.run(os.getpid).values()) if client else [os.getpid()]
        warm = scratch / "warm"
        dask_rac.cluster(scratch / "edges-2000", weights="similarity", store=warm, shards=3, client=client)
        shutil.rmtree(warm)
        began = perf_counter()
        with Waiting(computing).watching() as waiting:
            clustering = dask_rac.cluster(
                scratch / f"edges-{nodes}",
                weights="similarity",
                store=store_of(scratch, size, place),
                memory=memory,
                client=client,
            )
        seconds = perf_counter() - began
    phases = clustering.phases
    return {
        "seconds": seconds,
        "slowdown": waiting.slowdown,
        "busy": waiting.busy,
        "rounds": len(clustering.rounds),
        "shards": int(phases["shards"].iloc[0]),
        "read": float(phases["read_bytes"].sum()),
        "written": float(phases["write_bytes"].sum()),
        "disk": clustering.peak_disk,
    }


if __name__ == "__main__":
    main()
