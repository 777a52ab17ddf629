"""What a plan says is what a run takes, and what it advises is accepted."""

import importlib.util
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.config import checked_settings
from dask_rac.planner import Budget, Sizes, shard_entries
from dask_rac.store.files import Folder
from tests.test_stored import PlugPulledError, quick_folder, steps_of, stop_after, write_parquet

NODES, DEGREE = 6000, 16


@pytest.fixture(scope="module")
def lattice() -> Iterator[str]:
    with quick_folder() as made:
        yield dask_rac.datasets.lattice(NODES, DEGREE, store=made / "edges")


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as made:
        yield made


class Disk:
    """Looks at the disk whenever something happens."""

    def __init__(self, store: Path) -> None:
        self.store = Folder(store)
        self.peak = 0

    def __call__(self, _: dask_rac.Event) -> None:
        self.peak = max(self.peak, self.store.bytes_of())


def stop_at_ingest(event: dask_rac.Event) -> None:
    """Let a run get as far as having been accepted."""
    if event.stage == "ingest":
        raise PlugPulledError


def run_for_a_while(edges: str, store: Path, watch: Callable[[dask_rac.Event], None], options: dict[str, Any]) -> Any:
    """As far as the fourth round, beyond which a store only shrinks."""

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
    assert plan.input_bytes == Folder(lattice).bytes_of()
    first = steps_of(folder / "run")[0].state
    assert first is not None
    assert abs(len(first.shards) - plan.shards) <= (plan.shards > 1)
    assert len(first.shards) == plan.shards or "shards" not in options
    assert plan.memory <= plan.budget.memory
    assert plan.budget.threads == threads
    # Metadata of small arrays, statistics and the lock show in a graph as small as this.
    assert found.peak_disk <= 1.05 * plan.disk
    assert disk.peak <= 1.05 * found.peak_disk


def test_the_plan_of_a_zarr_group_reads_what_the_metadata_lacks(folder: Path) -> None:
    group = zarr.create_group(str(folder / "edges.zarr"))
    for name, column in {"source": np.arange(50), "target": np.arange(1, 51), "weight": np.ones(50)}.items():
        group.create_array(name, data=column, chunks=(8,))
    assert dask_rac.plan(folder / "edges.zarr").nodes == 51
    assert dask_rac.plan(folder / "edges.zarr", n_nodes=70).nodes == 70


def test_a_plan_touches_nothing(lattice: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    dask_rac.plan(lattice, shards=3)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("shards", [1, 5, 40])
def test_a_round_is_about_three_tasks_a_shard(shards: int, lattice: str) -> None:
    plan = dask_rac.plan(lattice, shards=shards)
    layers = {name: len(tasks) for name, tasks in plan.graph.layers.items()}
    assert layers == {"match": shards, "cut": 1, "split": shards, "moved": 1, "fold": shards}
    assert len(plan.graph.tasks) == 3 * shards + 2
    assert all(str(task.key).startswith(name) for name, tasks in plan.graph.layers.items() for task in tasks)
    assert repr(plan.graph).startswith(f"<Graph of {3 * shards + 2} tasks: match {shards}, cut 1,")


def test_the_graph_that_runs_is_the_one_planned(lattice: str, folder: Path) -> None:
    totals: list[int] = []

    def watch(event: dask_rac.Event) -> None:
        if event.stage == "tasks":
            totals.append(event.total)
        stop_after(1)(event)

    plan = dask_rac.plan(lattice, shards=4)
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(lattice, store=folder / "run", shards=4, progress=watch)
    assert totals[-1] == len(plan.graph.tasks)


def test_the_graph_of_single_linkage_is_the_one_that_runs(lattice: str) -> None:
    assert len(dask_rac.plan(lattice, "single", shards=3).graph.layers["lighten"]) == 3


@pytest.mark.skipif(
    importlib.util.find_spec("graphviz") is None or shutil.which("dot") is None, reason="graphviz is not installed"
)
def test_a_plan_can_be_drawn(lattice: str, folder: Path) -> None:
    dask_rac.plan(lattice, shards=2).visualize(filename=str(folder / "plan.svg"))
    assert (folder / "plan.svg").read_text().count("<svg") == 1


def test_a_plan_is_drawn_by_dask(lattice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("dask_rac.graphs.visualize", lambda *tasks, **options: drawn.append((tasks, options)))
    plan = dask_rac.plan(lattice, shards=2)
    plan.visualize(filename="plan.svg")
    assert drawn == [(tuple(plan.graph.tasks), {"filename": "plan.svg"})]


def test_representations(lattice: str) -> None:
    plan = dask_rac.plan(lattice, shards=3, memory="1GB")
    text, html = repr(plan), plan._repr_html_()
    for part in (f"nodes={NODES:,}", f"edges={NODES * DEGREE // 2:,}", "shards=3 of", " of 1 GB", "fold 3"):
        assert part in text
    assert "dask_rac.Plan" in html
    assert "11 tasks: match" in html


def advised(error: dask_rac.ResourceError, name: str) -> str:
    """The setting that a refusal names."""
    found = re.search(rf"set {name}='?([\w.]+)'? or more", str(error))
    assert found, error
    return found[1]


def test_too_few_shards_are_refused_with_enough(lattice: str, folder: Path) -> None:
    calls: list[tuple[Callable[..., Any], dict[str, Any]]]
    calls = [(dask_rac.plan, {}), (dask_rac.cluster, {"store": folder / "run"})]
    for call, options in calls:
        with pytest.raises(dask_rac.ResourceError, match=r"2 shards of .* entries need .* a task may use") as caught:
            call(lattice, shards=2, memory=1_000_000, **options)
        assert not (folder / "run").exists()
    enough = int(advised(caught.value, "shards"))
    assert dask_rac.plan(lattice, shards=enough, memory=1_000_000).shards <= enough
    with pytest.raises(dask_rac.ResourceError):
        dask_rac.plan(lattice, shards=enough - 1, memory=1_000_000)
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(lattice, shards=enough, memory=1_000_000, store=folder / "run", progress=stop_after(1))


def test_too_little_memory_is_refused_with_enough(lattice: str, folder: Path) -> None:
    calls: list[tuple[Callable[..., Any], dict[str, Any]]]
    calls = [(dask_rac.plan, {}), (dask_rac.cluster, {"store": folder / "run"})]
    for call, options in calls:
        with pytest.raises(dask_rac.ResourceError, match=r"6,000 nodes need .* before any edge, .* budget") as caught:
            call(lattice, memory=150_000, **options)
        assert not (folder / "run").exists()
    enough = advised(caught.value, "memory")
    assert dask_rac.plan(lattice, memory=enough).memory <= dask_rac.plan(lattice, memory=enough).budget.memory
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(lattice, memory=enough, store=folder / "run", progress=stop_at_ingest)


@given(
    st.integers(0, 10**10),
    st.integers(1, 10**11),
    st.builds(Budget, st.integers(1, 10**12), st.integers(1, 64), st.integers(1, 64)),
    st.none() | st.integers(1, 10**6),
)
def test_what_is_advised_is_accepted(nodes: int, edges: int, budget: Budget, shards: int | None) -> None:
    sizes = Sizes.of(checked_settings("average", None, "distance", None, "error", True), nodes, edges, "float32")
    try:
        room = shard_entries(sizes, nodes, edges, budget, shards)
    except dask_rac.ResourceError as error:
        if "memory='" in str(error):
            memory = int(dask.utils.parse_bytes(advised(error, "memory")))
            assert memory > budget.memory
            room = shard_entries(sizes, nodes, edges, Budget(memory, budget.processes, budget.threads), None)
        else:
            enough = int(advised(error, "shards"))
            assert shards is not None
            assert enough > shards
            room = shard_entries(sizes, nodes, edges, budget, enough)
    assert room >= 1


@pytest.mark.parametrize("edges", [([0], [1], [1.0]), None, 3])
def test_plans_are_for_edges_on_disk(edges: Any) -> None:
    with pytest.raises(dask_rac.InputError, match=r"plan\(\) is for edges on disk: give the path"):
        dask_rac.plan(edges)


def test_the_plan_of_no_edges(folder: Path) -> None:
    none = write_parquet(folder / "none.parquet", (np.empty(0, int), np.empty(0, int), np.empty(0)))
    plan = dask_rac.plan(none)
    assert (plan.nodes, plan.edges, plan.shards) == (0, 0, 1)
    assert repr(plan)
