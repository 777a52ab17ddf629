"""The largest graphs of the paper, forecast: SIFT1B and WEB88M on its machines, on ten large ones, on one workstation.

python pipelines/scale.py [--constants machine.json] [--nodes 20000]

Constants are those of a file that `dask-rac probe` has written; without one, this machine is probed, in about a minute.
How the graphs decay is taken from small graphs of their kinds, which are made and clustered first.
"""

from tempfile import TemporaryDirectory
from typing import Any

import click

SETTINGS = {"linkage": "complete", "missing": "ignore"}
GRAPHS = {"SIFT1B": (10**9, 360 * 10**9), "WEB88M": (88 * 10**6, 196 * 10**9)}
"""Nodes, and edges: half of the entries that the paper states."""
FLEETS = {
    "SIFT1B": {
        "paper's: 200 of 16 cores": ("small", 200),
        "10 large": ("large", 10),
        "workstation": ("workstation", 1),
    },
    "WEB88M": {"paper's: 80 of 16 cores": ("small", 80), "10 large": ("large", 10), "workstation": ("workstation", 1)},
}
SHARE = 0.7  # of the memory: the most that workers may be given
GROWTH = [1, 10, 50, 100, 200, 500, 1000]


@click.command(help=__doc__)
@click.option("--constants", help="Constants of a machine; default: probe this one.")
@click.option("--nodes", default=20_000, show_default=True, help="Nodes of the samples.")
def main(constants: str | None, nodes: int) -> None:
    """Print tables in Markdown."""
    from dask_rac.forecasts.machine import Machine
    from dask_rac.forecasts.probe import probed

    machine = probed()[0] if constants is None else Machine.load_from(constants)
    samples = {graph: sample_of(graph, nodes) for graph in GRAPHS}
    found = {graph: forecasts(graph, samples[graph], machine) for graph in GRAPHS}
    print_totals(found)
    print_phases(found)
    print_bounds(found)
    print_growth(machine, samples["SIFT1B"])


def sample_of(graph: str, nodes: int) -> Any:
    """Cluster a small graph of the same kind, in memory."""
    import dask_rac

    with TemporaryDirectory() as folder:
        if graph == "SIFT1B":
            vectors = dask_rac.datasets.sift(nodes, store=f"{folder}/sift.bvecs")
            edges = dask_rac.knn_graph(vectors, k=nodes // 50, store=f"{folder}/edges")
        else:
            vectors = dask_rac.datasets.documents(nodes, 10 * nodes, store=f"{folder}/web.zarr")
            edges = dask_rac.knn_graph(vectors, k=nodes // 50, metric="cosine", store=f"{folder}/edges")
        return dask_rac.cluster(edges, "complete", "ignore", finisher=False)


def forecasts(graph: str, sample: Any, machine: Any) -> dict[str, Any]:
    """Forecast a graph on all machines; a text where it does not fit."""
    import dask_rac
    from dask_rac.forecasts.kinds import kind_of

    found: dict[str, Any] = {}
    for name, (kind, machines) in FLEETS[graph].items():
        nodes, edges = GRAPHS[graph]
        memory = int(SHARE * machines * kind_of(kind).memory)
        try:
            found[name] = dask_rac.forecast(
                edges,
                "complete",
                "ignore",
                n_nodes=nodes,
                constants=machine,
                sample=sample,
                kind=kind,
                machines=machines,
                memory=memory,
            )
        except dask_rac.ResourceError as error:
            found[name] = str(error)
    return found


def rows_of(found: dict[str, dict[str, Any]]) -> list[tuple[str, str, Any]]:
    """Return every forecast that fits, with its graph and machines."""
    for graph, known in found.items():
        for name, one in known.items():
            if isinstance(one, str):
                print(f"{graph}, {name}: {one}\n")
    pairs = ((graph, name, one) for graph, known in found.items() for name, one in known.items())
    return [(graph, name, one) for graph, name, one in pairs if not isinstance(one, str)]


def print_totals(found: dict[str, dict[str, Any]]) -> None:
    """Print what each run takes."""
    from dask_rac.base.text import size_text
    from dask_rac.forecasts.forecast import duration

    heads = "graph, machines, time, reading edges, rounds, shards, nodes, read, written, disk, requests, price"
    print(f"| {heads.replace(', ', ' | ')} |")
    print(f"|{'---|' * len(heads.split(', '))}")
    for graph, name, one in rows_of(found):
        intake = sum(layer.seconds(one.fleet) for layer in one.layers if not layer.round) / one.seconds
        traffic, remote = one.traffic, one.fleet.remote
        cells = [
            graph,
            name,
            duration(one.seconds),
            f"{intake:.0%}",
            f"{len(one.levels)}, {sum(1 for level in one.levels if level.shards)} stored",
            f"{one.plan.shards:,}",
            size_text(one.plan.node_bytes),
            size_text(traffic.read),
            size_text(traffic.written),
            size_text(one.plan.disk),
            f"{(traffic.reads + traffic.writes) / 1e6:,.0f} million" if remote else "",
            f"{one.price:,.0f}" if remote else "",
        ]
        print(f"| {' | '.join(cells)} |")
    print()


def print_phases(found: dict[str, dict[str, Any]]) -> None:
    """Print the time of each phase, and what it waits for."""
    from dask_rac.forecasts.forecast import duration

    names = ["scan", "add_up", "route", "sort", "build", "copy", "cut", "split", "gather", "fold", "rest", "commit"]
    print(f"| graph | machines | {' | '.join(names)} |")
    print(f"|---|---|{'---|' * len(names)}")
    for graph, name, one in rows_of(found):
        table = one.phases
        cells = [
            f"{duration(table['seconds'][phase])}, {table['waits for'][phase]}" if phase in table.index else ""
            for phase in names
        ]
        print(f"| {graph} | {name} | {' | '.join(cells)} |")
    print()


def print_bounds(found: dict[str, dict[str, Any]]) -> None:
    """Print what each run comes near to, the nearest first."""
    print("| graph | machines | what | needed of what there is | share |")
    print("|---|---|---|---|---|")
    for graph, name, one in rows_of(found):
        for bound in one.bounds[:4]:
            print(f"| {graph} | {name} | {bound.name} | {bound.text()} | {bound.share:.2g} |")
    print()


def print_growth(machine: Any, sample: Any) -> None:
    """Print a simulation of ten billion edges on more and more machines, which share a fast file system."""
    import dask_rac
    from dask_rac.forecasts.forecast import duration

    one = dask_rac.forecast(
        10**10,
        "complete",
        "ignore",
        n_nodes=10**8,
        constants=machine,
        sample=sample,
        kind={"cores": 16, "memory": "128GB", "network": 1.25e9, "latency": 0.001},
        remote=True,
        shards=2_000,
    )
    print("| machines | workers | time | speed-up | busy |")
    print("|---|---|---|---|---|")
    for count, row in one.scaling(GROWTH).iterrows():
        cells = f"{row['workers']:,.0f} | {duration(row['seconds'])} | {row['speed-up']:.1f} | {row['busy']:.0%}"
        print(f"| {count:,} | {cells} |")


if __name__ == "__main__":
    main()
