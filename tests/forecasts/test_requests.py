"""The model counts the requests of a run as the server of an object store does."""

import re
from collections import Counter
from pathlib import Path

import dask
import pytest

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import Expected, Limits
from dask_rac.forecasts.kinds import Kind
from dask_rac.forecasts.layout import Traffic
from dask_rac.forecasts.machine import Machine
from dask_rac.forecasts.model import Fleet, Model
from dask_rac.forecasts.observe import Place, Run, observe
from dask_rac.tasks.budget import Budget
from tests.support.limits import cluster_within
from tests.support.object_store import ObjectStore

NODES, DEGREE, SHARDS = 3_000, 20, 6
MEMORY = 10**9
BYTES = re.compile(r"GET /graphs/\w+/rounds/|PUT /graphs/\w+/(rounds|merges)/")


def requests_since(server: ObjectStore, before: int) -> Counter[str]:
    """Count what the server was asked: `GET` and `PUT` of data, and everything else."""
    lines = [re.sub(r"\x1b\[\d+m", "", line) for line in server.requests()[before:]]
    return Counter(line.partition(" ")[0] if BYTES.match(line) else "other" for line in lines)


def model_of(run: Run, limits: Limits) -> Model:
    """Return the model of a run in one process, with the graph before each of its rounds."""
    settings = checked_settings("average", None, "similarity")
    given = Expected(run.facts.nodes, run.facts.edges, "float32", run.facts.input_bytes)
    budget = Budget(MEMORY, 1, 2)
    fleet = Fleet(Kind(2, 2 * MEMORY), 1, True, Machine())
    return Model(given, settings, budget, fleet, run.decay, SHARDS, SHARDS, limits)


@pytest.mark.parametrize("direct", [512, 4])
def test_requests(direct: int, object_store: ObjectStore, tmp_path: Path) -> None:
    edges = dask_rac.datasets.lattice(NODES, DEGREE, 0, tmp_path / "edges", weights="similarity")
    limits, url = Limits(direct_shards=direct), object_store.url(f"direct{direct}")
    before = len(object_store.requests())
    with dask.config.set(num_workers=2):
        cluster_within(limits, edges, weights="similarity", store=url, shards=SHARDS, memory=MEMORY)
    counted = requests_since(object_store, before)
    run = observe(url, Place(1, 2))
    layers, rounds = model_of(run, limits).layers()
    assert sum(1 for one in rounds if one.shards) == len(run.rounds)
    traffic = sum((layer.traffic for layer in layers if layer.name not in {"scan", "commit"}), Traffic())
    assert traffic.reads == pytest.approx(counted["GET"], rel=0.05)
    assert traffic.writes == pytest.approx(counted["PUT"], rel=0.05)
    others = sum(layer.traffic.writes for layer in layers if layer.name == "commit")
    assert others == pytest.approx(counted["other"], rel=0.25)
    assert ("gather" in {layer.name for layer in layers}) == (direct < SHARDS)
