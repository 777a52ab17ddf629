"""`dask_rac.forecast`: more machines are not slower, more edges not faster, and what cannot be is refused."""

import json
import math
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import Expected, Limits
from dask_rac.engines.rows.groups import groups_of
from dask_rac.engines.rows.layout import Layout
from dask_rac.engines.rows.needs import EntrySizes
from dask_rac.engines.rows.scanning import Counted, Histogram, count_entries
from dask_rac.files.buffers import REQUEST
from dask_rac.forecasts.forecast import Forecast, duration
from dask_rac.forecasts.intake import Intake
from dask_rac.forecasts.kinds import EXAMPLES, Kind, kind_of
from dask_rac.forecasts.layout import Traffic
from dask_rac.forecasts.machine import Machine, Rate
from dask_rac.forecasts.model import Fleet, Layer, Model, together_of
from dask_rac.forecasts.request import budget_of, decay_of
from dask_rac.runs.plan import plan_sizes
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.workers import Workers

RATE = Rate(1e-9, 1e-9)
CORE = Machine(
    scan=RATE,
    route=RATE,
    build=RATE,
    read=Rate(1e-10),
    relabel=RATE,
    move=RATE,
    fold=RATE,
    write=Rate(1e-9),
    load=RATE,
    rest_match=RATE,
    rest_fold=RATE,
    finish=RATE,
    step=0.1,
    task=1e-4,
)


def sample() -> dask_rac.Clustering:
    """Cluster a graph of 40 nodes in a ring, each with four neighbours."""
    ends = [(u, (u + step) % 40) for u in range(40) for step in (1, 2)]
    weights = [1 + (7 * u + 3 * v) % 11 for u, v in ends]
    return dask_rac.cluster(([u for u, _ in ends], [v for _, v in ends], weights), missing="ignore")


SAMPLE = sample()
SMALL = EXAMPLES["small"]
DECAY = decay_of(SAMPLE)


def forecast(edges: float, nodes: float, **more: Any) -> Forecast:
    given: dict[str, Any] = {"kind": "small", "remote": True, "constants": CORE, "sample": SAMPLE} | more
    return dask_rac.forecast(edges, n_nodes=nodes, **given)


def test_is_made_of_its_parts() -> None:
    found = forecast(1e10, 5e8, machines=4)
    assert found.phases["seconds"].sum() == pytest.approx(found.seconds)
    assert found.rounds["seconds"].sum() == pytest.approx(found.seconds)
    assert found.phases["read_bytes"].sum() == pytest.approx(found.traffic.read)
    assert found.rounds["requests"].sum() == pytest.approx(found.traffic.reads + found.traffic.writes)
    assert found.rounds["clusters"].iloc[0] == 5e8
    assert found.rounds["edges"].is_monotonic_decreasing
    plan = found.plan
    assert (plan.nodes, plan.edges, plan.shards) == (500_000_000, 10_000_000_000, found.rounds["shards"].iloc[1])
    kind = EXAMPLES["small"]
    machines = 4 * kind.hour * found.seconds / 3600
    requests = found.traffic.reads * kind.million_reads + found.traffic.writes * kind.million_writes
    assert found.price == pytest.approx(machines + requests / 1e6)
    assert json.loads(json.dumps(found.to_json(), default=float))["seconds"] == found.seconds
    assert "500,000,000 nodes" in repr(found)
    assert "500,000,000 nodes" in found._repr_html_()


def test_its_tasks_are_those_of_the_plan() -> None:
    found = forecast(4e9, 2e8, machines=2, shards=600)
    settings, given = checked_settings("average", None, "distance"), Expected(2 * 10**8, 4 * 10**9, "float32", 0)
    plan = plan_sizes(given, settings, 600, budget_of(SMALL, 2))
    apart: dict[str, Any] = {"graph": None, "input_bytes": 0}
    assert replace(found.plan, **apart) == replace(plan, **apart)
    assert plan.ending > 0
    graph = plan.graph.layers
    first = {layer.name: layer.tasks for layer in found.layers if layer.round == 1}
    assert first["split"] == len(graph["split"]) == 600
    assert first["copy"] == len(graph["copy"]) == groups_of(600).count
    assert first["gather"] == len(graph["gather"]) == groups_of(600).count ** 2
    assert first["fold"] <= len(graph["fold"]) == 600


def layers_of(edges: int, nodes: int, machines: int = 1, limits: Limits | None = None) -> tuple[list[Layer], Fleet]:
    """Return the layers of a run in 600 shards; no plan is made, which takes a while."""
    kind, limits = SMALL, limits or Limits()
    settings = checked_settings("average", None, "distance")
    fleet = Fleet(kind, machines, True, CORE)
    budget = budget_of(kind, machines, 60 * 10**9 * machines)
    given = Expected(nodes, edges, "float32", 12 * edges)
    return Model(given, settings, budget, fleet, DECAY, 600, 600, limits).layers()[0], fleet


def seconds_of(layers: list[Layer], fleet: Fleet) -> float:
    return sum(layer.seconds(fleet) for layer in layers)


@given(machines=st.integers(1, 30), more=st.integers(1, 30), edges=st.integers(10**8, 10**10))
def test_more_machines_are_not_slower(machines: int, more: int, edges: int) -> None:
    """As long as the same rounds go through the store, and but for what every process asks for itself."""
    few, many = (layers_of(edges, edges // 100, count) for count in (machines, machines + more))
    last = min(max(layer.round for layer in layers if layer.name == "fold") for layers, _ in (few, many))
    first = [[layer for layer in layers if layer.round <= last and layer.name != "rest"] for layers, _ in (few, many)]
    asked = [sum(layer.traffic.reads for layer in layers) for layers in first]
    own = (asked[1] - asked[0]) * (SMALL.latency + 1 / SMALL.request_rate)
    assert seconds_of(first[1], many[1]) <= 1.001 * seconds_of(first[0], few[1]) + own


@given(edges=st.integers(10**8, 5 * 10**9), factor=st.floats(1.01, 4), blocks=st.sampled_from([0, 2**60]))
def test_more_edges_are_not_faster(edges: int, factor: float, blocks: int) -> None:
    """As long as they go to their shards in the same way: groups are there to be faster with many.

    Edges may get to their shards somewhat faster with one piece of the input more, which leaves each shard fewer files.
    """
    limits = Limits(direct_blocks=blocks)
    few, many = (layers_of(int(count), 10**7, limits=limits) for count in (edges, factor * edges))
    assert seconds_of(*many) >= 0.95 * seconds_of(*few)
    rounds = [[layer for layer in layers if layer.round] for layers, _ in (few, many)]
    assert seconds_of(rounds[1], many[1]) >= seconds_of(rounds[0], few[1])
    assert sum(layer.traffic.read for layer in many[0]) >= sum(layer.traffic.read for layer in few[0])


def test_reads_are_made_together_as_far_as_there_is_room() -> None:
    small, large = Traffic(8e6, 0, 80, 0), Traffic(80 * REQUEST, 0, 80, 0)
    assert together_of(small, 10, REQUEST) == 8
    assert together_of(small, 40, REQUEST) == 2
    assert together_of(Traffic(), 1, REQUEST) == 1
    assert [together_of(large, 1, room) for room in (REQUEST, 3 * REQUEST, math.inf)] == [1, 3, 8]
    fleet = layers_of(10**9, 10**7)[1]
    alone = Layer("split", 1, 10, 0.0, Traffic(8e6, 8e6, 80, 80))
    together = replace(alone, together=8)
    writes = replace(alone, traffic=Traffic(0, 8e6, 0, 80))
    found = [layer.bounds(fleet)["processors"] for layer in (alone, together, writes)]
    assert found[1] == pytest.approx(found[0] / 16 + found[2])


def test_the_simulator_agrees_with_the_model() -> None:
    """Layers of equal tasks on a network that is fast enough are closed forms."""
    kind = {"cores": 4, "memory": "32GB"}
    found = forecast(1e9, 1e7, kind=kind, memory="4GB")
    for machines, row in found.scaling([1, 2, 5, 30]).iterrows():
        fleet = Fleet(found.fleet.kind, int(str(machines)), True, CORE)
        closed = sum(layer.seconds(fleet) for layer in found.layers)
        dispatch = sum(layer.tasks for layer in found.layers) * CORE.task
        assert closed - 1e-6 <= row["seconds"] <= closed + dispatch + 1e-6


def test_scaling_stops_where_tasks_run_out() -> None:
    table = forecast(1e10, 1e8, memory="20GB").scaling([1, 10, 1000])
    assert table["seconds"].is_monotonic_decreasing
    assert table["speed-up"].iloc[0] == 1
    assert table["busy"].iloc[0] > table["busy"].iloc[-1]
    assert table["speed-up"].iloc[-1] < 1000
    with pytest.raises(dask_rac.InputError, match="machines=0"):
        forecast(1e9, 1e7).scaling([0])


def test_a_slow_network_a_disk_and_requests_are_waited_for() -> None:
    base = {"cores": 64, "memory": "256GB"}
    slow = forecast(1e10, 1e8, kind={**base, "network": 1e7})
    assert set(slow.phases["waits for"][["split", "fold"]]) == {"network"}
    few = forecast(1e10, 1e8, kind={**base, "request_rate": 0.01})
    assert few.phases["waits for"]["fold"] == "requests"
    disk = forecast(1e10, 1e8, kind={**base, "disk": "10TB", "disk_rate": 1e6}, remote=False, memory="200GB")
    assert disk.phases["waits for"]["fold"] == "disk"
    assert disk.phases["requests"].sum() == 0
    late = forecast(1e10, 1e8, kind={**base, "latency": 1000.0})
    assert late.phases["seconds"]["fold"] > 1000


def test_what_breaks_first() -> None:
    found = forecast(360e9, 1e9, machines=200, memory="17900GB")
    bounds = {bound.name: bound for bound in found.bounds}
    shares = [bound.share for bound in found.bounds]
    assert shares == sorted(shares, reverse=True)
    assert bounds["memory for nodes, per process"].needed == 40e9
    assert bounds["shards, of bins of ids"].needed == found.plan.shards
    assert "near its limit" in found.facts()


def test_impossible_requests_are_refused_with_what_would_do() -> None:
    for wanted, message in (
        ({"kind": "huge"}, "kind='huge' is unknown: use here, small, large, workstation"),
        ({"machines": 0}, "machines=0 is out of range: use 1 or more"),
        ({"machines": 1.5}, "machines=1.5 is not a whole number"),
        ({"shards": 0}, "shards=0"),
        ({"kind": {"cores": 2}}, "lacks cores or memory"),
        ({"kind": {"cores": 0, "memory": 1}}, "cores=0"),
        ({"kind": {"cores": 2, "memory": "1GB", "gpu": 1}}, "its keys are cores"),
        ({"kind": {"cores": 2, "memory": "1GB", "processes": 3}}, "3 processes need as many cores"),
        ({"kind": "missing.json"}, "missing.json holds no kind"),
        ({"linkage": "single"}, "linkage='single' is not forecast"),
        ({"like": []}, "both constants= and like="),
        ({"like": [], "constants": None}, "names no run"),
        ({"sample": None}, "give sample="),
        ({"machines": 3, "remote": False}, "3 machines share no disk"),
        ({"memory": "1000TB"}, "more than the"),
    ):
        with pytest.raises(dask_rac.InputError, match=message):
            forecast(1e9, 1e7, **wanted)
    with pytest.raises(dask_rac.InputError, match="give n_nodes="):
        dask_rac.forecast(10**9)
    with pytest.raises(dask_rac.InputError, match="is not a whole number"):
        dask_rac.forecast(1.5, n_nodes=3)


def test_too_little_memory_names_what_would_do() -> None:
    with pytest.raises(dask_rac.ResourceError, match="set memory='") as refused:
        forecast(1e10, 1e9, memory="40GB")
    memory = str(refused.value).partition("memory='")[2].partition("'")[0]
    assert forecast(1e10, 1e9, memory=memory, kind={"cores": 16, "memory": "400GB"}).seconds > 0


def test_the_budget_is_that_of_workers(client: Client) -> None:
    workers = client.scheduler_info()["workers"].values()
    cores, memory = (sum(worker[name] for worker in workers) for name in ("nthreads", "memory_limit"))
    kind = Kind(cores, memory, processes=len(workers))
    for share in (0.1, 0.5, 0.69):
        asked = int(share * memory)
        assert budget_of(kind, 1, asked) == Workers(client).budget(asked)
    for budget in (Workers(client).budget, partial(budget_of, kind, 1)):
        with pytest.raises(dask_rac.ResourceError, match="set memory="):
            budget(int(0.75 * memory))


def test_many_shards_are_reached_by_way_of_groups() -> None:
    """Requests grow with the square root of shards times shards, not with shards times shards."""
    found = forecast(360e9, 1e9, machines=200, memory="17900GB")
    intake = [layer for layer in found.layers if not layer.round and layer.name != "commit"]
    assert [layer.name for layer in intake] == ["scan", "add_up", "route", "sort", "build"]
    tasks = {layer.name: layer.tasks for layer in intake}
    groups = groups_of(found.plan.shards)
    assert tasks["sort"] == groups.count * groups.count
    assert tasks["build"] == found.plan.shards
    units = tasks["route"]
    assert tasks["add_up"] == len(range(0, units, math.isqrt(units) + 1))
    pieces = 2 * units * groups.count + 2 * found.plan.shards * groups.count
    asked = sum(layer.traffic.reads for layer in intake if layer.name in {"sort", "build"})
    assert asked < 2 * pieces + 4 * 360e9 * 20 / 2**25
    few = forecast(1e9, 1e7, shards=30)
    assert {layer.name for layer in few.layers if not layer.round} == {"scan", "route", "build", "commit"}


@given(shards=st.integers(1, 20_000), nodes=st.integers(1, 10**10), edges=st.integers(1, 10**11))
def test_the_intake_is_laid_out_as_the_engine_does(shards: int, nodes: int, edges: int) -> None:
    """Groups, bins and receipts of the model are those of a layout of so many shards."""
    settings, limits = checked_settings("complete", "ignore", "distance"), Limits()
    given = Expected(nodes, edges, "float32", 20 * edges)
    sizes = EntrySizes.of(settings, nodes, edges, "float32")
    intake = Intake(given, sizes, Budget(10**13, 1, 16), shards, shards)
    layout = Layout(tuple(range(shards + 1)), 0, np.arange(shards)).within(intake.units, limits)
    assert intake.groups == layout.groups
    counts = np.zeros(intake.bins, np.int64)
    shift = 0
    while (nodes - 1) >> shift >= intake.bins:
        shift += 1
    used = len(count_entries([Counted(shift, counts)], nodes, Histogram(intake.bins)).bins)
    assert intake.used_bins == used
    places = layout.blocks if layout.groups is None else layout.groups.count
    assert intake.receipt_bytes >= 8 * intake.routed_files * (places + 1)


def test_kinds() -> None:
    assert kind_of("here").cores >= 1
    assert kind_of({"cores": 8, "memory": "64GB"}) == Kind(8, 64 * 10**9)
    budget = budget_of(Kind(16, 128 * 10**9, processes=2), 5)
    assert (budget.processes, budget.threads, budget.memory) == (10, 8, 320 * 10**9)
    assert (budget.alone_memory, budget.most_threads) == (int(0.7 * 64e9), 16)
    assert [duration(seconds) for seconds in (1.0, 600.0, 9e3, 1e6)] == ["1.0 s", "10.0 min", "2.5 h", "11.6 days"]
    assert math.isinf(Kind(1, 1).network)
