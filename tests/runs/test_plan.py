"""A run takes what its plan predicts, and following the plan's advice works."""

import importlib.util
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.engines.rows.needs import EntrySizes
from dask_rac.engines.rows.sizes import shard_entries
from dask_rac.tasks.budget import Budget
from tests.support.folders import quick_folder
from tests.support.needs import need
from tests.support.stored import PlugPulledError, stop_after, write_parquet

NODES, DEGREE = 6000, 16


@pytest.fixture(scope="module")
def lattice() -> Iterator[str]:
    with quick_folder() as made:
        yield dask_rac.datasets.lattice(NODES, DEGREE, store=made / "edges")


def stop_at_ingest(event: dask_rac.Event) -> None:
    """Let a run proceed until it has been accepted."""
    if event.stage == "ingest":
        raise PlugPulledError


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
def test_a_round_is_about_two_tasks_per_shard(shards: int, lattice: str) -> None:
    plan = dask_rac.plan(lattice, shards=shards)
    layers = {name: len(tasks) for name, tasks in plan.graph.layers.items()}
    assert layers == {"cut": 1, "split": shards, "moved": 1, "fold": shards}
    assert len(plan.graph.tasks) == 2 * shards + 2
    assert all(str(task.key).startswith(name) for name, tasks in plan.graph.layers.items() for task in tasks)
    assert repr(plan.graph).startswith(f"<Graph of {2 * shards + 2} tasks: cut 1, split {shards},")


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


def test_a_plan_can_be_drawn(lattice: str, folder: Path) -> None:
    need(importlib.util.find_spec("graphviz") is not None, "Python's graphviz is not installed")
    need(shutil.which("dot") is not None, "graphviz is not installed: install Debian's graphviz, or its like")
    dask_rac.plan(lattice, shards=2).visualize(filename=str(folder / "plan.svg"))
    assert (folder / "plan.svg").read_text().count("<svg") == 1


def test_a_plan_is_drawn_by_dask(lattice: str, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Any] = []
    monkeypatch.setattr("dask_rac.tasks.task_graph.visualize", lambda *tasks, **options: drawn.append((tasks, options)))
    plan = dask_rac.plan(lattice, shards=2)
    plan.visualize(filename="plan.svg")
    assert drawn == [(tuple(plan.graph.tasks), {"filename": "plan.svg"})]


def test_representations(lattice: str) -> None:
    plan = dask_rac.plan(lattice, shards=3, memory="1GB")
    text, html = repr(plan), plan._repr_html_()
    for part in (f"nodes={NODES:,}", f"edges={NODES * DEGREE // 2:,}", "shards=3 of", " of 1 GB", "fold 3"):
        assert part in text
    assert "dask_rac.Plan" in html
    assert "8 tasks: cut" in html


def advised(error: dask_rac.ResourceError, name: str) -> str:
    """Return the setting that a refusal names."""
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
            call(lattice, memory=140_000, **options)
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
    sizes = EntrySizes.of(checked_settings("average", None, "distance", None, "error", True), nodes, edges, "float32")
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
    with pytest.raises(dask_rac.InputError, match=r"plan\(\) needs edges on disk: give the path"):
        dask_rac.plan(edges)


def test_the_plan_of_no_edges(folder: Path) -> None:
    none = write_parquet(folder / "none.parquet", (np.empty(0, int), np.empty(0, int), np.empty(0)))
    plan = dask_rac.plan(none)
    assert (plan.nodes, plan.edges, plan.shards) == (0, 0, 1)
    assert repr(plan)
