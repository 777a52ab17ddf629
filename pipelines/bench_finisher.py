"""How the time and the memory of the finisher grow, where hubs leave nearly everything to it.

Graphs of hubs and leaves by all linkages: stars, two hubs that share their leaves, hubs in a chain, caterpillars. The
exponent is that of processor time, from an eighth of the leaves on; 1 is linear.

Recursive-matrix graphs (R-MAT, a = 0.57, b = c = 0.19), average of random similarities, each of twice the edges, in a
process of its own. "Beyond linear" is how much more processor time an edge takes than in the graph before. The memory
is all that is resident while the finisher runs, at its peak, but what was before the call: the input, the interpreter.

    python pipelines/bench_finisher.py                                       both, about five minutes
    python pipelines/bench_finisher.py --leaves 0 --edges 2000000 32000000   only the second, about ten minutes
"""

import json
import re
import subprocess
import sys
from itertools import product
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import click
import numpy as np
import scipy.sparse as sp
from hubs import SHAPES, recursive_graph, star

import dask_rac

RUNS: dict[str, dict[str, Any]] = {
    "average of similarities": {"weights": "similarity"},
    "average, ignore": {"missing": "ignore"},
    "average, far": {},
    "complete, ignore": {"linkage": "complete", "missing": "ignore"},
    "complete of similarities": {"linkage": "complete", "weights": "similarity"},
    "single": {"linkage": "single"},
    "weighted": {"linkage": "weighted"},
    "weighted of similarities": {"linkage": "weighted", "weights": "similarity"},
}
EIGHTH = 8


@click.command(help=__doc__)
@click.option("--leaves", default=400_000, show_default=True, help="Of each graph of hubs and leaves; 0 for none.")
@click.option("--edges", type=(int, int), default=(1_000_000, 8_000_000), show_default=True, help="R-MAT: from, to.")
@click.option("--measure", type=int, hidden=True, help="A recursive-matrix graph of so many edges, in this process.")
def main(leaves: int, edges: tuple[int, int], measure: int | None) -> None:
    """Print the tables as Markdown."""
    if measure is not None:
        click.echo(json.dumps(measured(measure)))
        return
    if leaves:
        time_shapes(leaves)
    time_recursive(*edges)


def time_shapes(leaves: int) -> None:
    """Print the time of graphs of hubs and leaves, and how it grows."""
    print_row(f"{leaves:,} leaves", "", "random weights", "exponent", "equal weights", "exponent")
    print_row(*["---"] * 6)
    for (name, shape), (run, options) in product(SHAPES.items(), RUNS.items()):
        dask_rac.cluster(star(1000, False), progress=False, **options)
        cells: list[str] = []
        for equal in (False, True):
            took = []
            for size in (leaves // EIGHTH, leaves):
                edges = shape(size, equal)
                started, spent = perf_counter(), process_time()
                dask_rac.cluster(edges, progress=False, **options)
                took.append((process_time() - spent, perf_counter() - started))
            cells += [f"{took[1][1]:.2f} s", f"{np.log(took[1][0] / took[0][0]) / np.log(EIGHTH):.2f}"]
        print_row(name, run, *cells)
    click.echo()


def time_recursive(least: int, most: int) -> None:
    """Print the time and memory of recursive-matrix graphs, each of twice the edges."""
    print_row("edges", "nodes", "seconds", "processor", "beyond linear", "finisher", "memory / edge")
    print_row(*["---"] * 7)
    before = None
    while least <= most:
        command = [sys.executable, __file__, "--measure", str(least)]
        now = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        grown = now["processor"] / now["edges"]
        print_row(
            f"{now['edges']:,}",
            f"{now['nodes']:,}",
            *(f"{now[part]:.1f} s" for part in ("seconds", "processor")),
            "" if before is None else f"{grown / before:.2f} x",
            f"{now['finisher']:.1f} s",
            f"{now['bytes']:.0f} bytes",
        )
        before, least = grown, 2 * least


def measured(edges: int) -> dict[str, float]:
    """Cluster a recursive-matrix graph; return its size, the time, and the peak memory of the finisher per edge."""
    upper = sp.triu(recursive_graph(max(4, round(np.log2(edges / 22))), edges)).tocoo()
    given, options = (upper.row, upper.col, upper.data), RUNS["average of similarities"]
    dask_rac.cluster(star(1000, False), progress=False, **options)
    found = {"edges": upper.nnz, "nodes": upper.shape[0], "bytes": 0.0, "finisher": 0.0}
    before = resident("VmRSS")

    def listen(event: dask_rac.Event) -> None:
        if event.stage == "finisher":
            Path("/proc/self/clear_refs").write_text("5")  # the peak of what follows, not of what was before
        if event.record is not None and event.record.finisher:
            found["bytes"] = (resident("VmHWM") - before) / event.record.edges
            found["finisher"] = event.record.finish_seconds

    started, spent = perf_counter(), process_time()
    dask_rac.cluster(given, progress=listen, **options)
    return found | {"seconds": perf_counter() - started, "processor": process_time() - spent}


def resident(which: str) -> int:
    """Return the bytes of this process, now (VmRSS) or at their peak (VmHWM)."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(re.findall(rf"{which}:\s+(\d+) kB", status)[0])


def print_row(*cells: str) -> None:
    """Print a row of a table as Markdown."""
    click.echo(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
