"""Promise 8: a run takes no more than its plan says."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import pytest

import dask_rac
from dask_rac.files.folder import Folder
from tests.support.stored import PlugPulledError, steps_of, stop_after

NODES, DEGREE = 6000, 16


@pytest.fixture(scope="module")
def lattice(shared_folder: Path) -> str:
    return dask_rac.datasets.lattice(NODES, DEGREE, store=shared_folder / "edges")


class Disk:
    """Measures the disk at every event."""

    def __init__(self, store: Path) -> None:
        self.store = Folder(store)
        self.peak = 0

    def __call__(self, _: dask_rac.Event) -> None:
        self.peak = max(self.peak, self.store.bytes_of())


def run_for_a_while(edges: str, store: Path, watch: Callable[[dask_rac.Event], None], options: dict[str, Any]) -> Any:
    """Stop at the fourth round, after which a store only shrinks."""

    def watch_and_stop(event: dask_rac.Event) -> None:
        watch(event)
        stop_after(4)(event)

    with suppress(PlugPulledError):
        dask_rac.cluster(edges, store=store, progress=watch_and_stop, **options)
    return dask_rac.open(store)


@pytest.mark.parametrize(
    ("threads", "options"),
    [
        (1, {"memory": 1_000_000}),
        (2, {"memory": 1_000_000}),
        (1, {"memory": 600_000, "linkage": "complete"}),
        (2, {"shards": 6}),
        (1, {"shards": 1}),
        (2, {}),
        (1, {"shards": 4, "weights": "similarity"}),
        (1, {"shards": 4, "linkage": "single"}),
    ],
)
def test_a_run_takes_what_the_plan_says(threads: int, options: dict[str, Any], lattice: str, folder: Path) -> None:
    disk = Disk(folder / "run")
    with dask.config.set(num_workers=threads):
        plan = dask_rac.plan(lattice, **options)
        found = run_for_a_while(lattice, folder / "run", disk, options)
    assert (plan.nodes, plan.edges) == (found.n_nodes, NODES * DEGREE // 2)
    assert plan.input_bytes == sum(file.stat().st_size for file in Path(lattice).glob("*.parquet"))
    first = steps_of(folder / "run")[0].state
    assert first is not None
    assert abs(len(first.shards) - plan.shards) <= (plan.shards > 1)
    assert len(first.shards) == plan.shards or "shards" not in options
    assert plan.memory <= plan.budget.memory
    assert plan.budget.threads == threads
    # Metadata of small arrays, statistics and the lock show in a graph as small as this.
    assert found.peak_disk <= 1.05 * plan.disk
    assert disk.peak <= 1.05 * found.peak_disk
