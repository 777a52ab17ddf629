"""The model counts the requests of a run as an S3 server does, and those of a round as the engine."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import dask
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import Expected, Limits
from dask_rac.engines.rows.needs import EntrySizes
from dask_rac.engines.rows.requests import STEP_LISTS, RoundShape, round_requests
from dask_rac.forecasts.decay import Decay, Level
from dask_rac.forecasts.kinds import Kind
from dask_rac.forecasts.layout import Shape, Traffic
from dask_rac.forecasts.machine import Machine
from dask_rac.forecasts.model import Fleet, Model
from dask_rac.forecasts.observe import Place, Run, observe
from dask_rac.tasks.budget import Budget
from tests.support.counting import requests_of
from tests.support.limits import cluster_within
from tests.support.object_store import BUCKET, ObjectStore, s3_server

NODES, DEGREE, SHARDS, UNIT = 2_000, 20, 6, 1_500
MEMORY = 10**9
DATA = "rounds/", "merges/"


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with s3_server(counting=True) as made:
        yield made


def counted_requests(server: ObjectStore, name: str) -> Counter[str]:
    """Count what a server was asked about a store: reads and writes of data, and everything else."""
    found: Counter[str] = Counter()
    with server.log.open() as log:
        for request in requests_of(log):
            store, _, key = request.key.removeprefix(f"{BUCKET}/").partition("/")
            if store != name:
                continue
            reads = request.kind in {"GET", "range"} and key.startswith(DATA[0])
            writes = request.kind == "PUT" and key.startswith(DATA)
            found["reads" if reads else "writes" if writes else "other"] += 1
    return found


def model_of(run: Run, limits: Limits) -> Model:
    """Return the model of a run in one process, with the graph before each of its rounds."""
    settings = checked_settings("average", None, "similarity")
    given = Expected(run.facts.nodes, run.facts.edges, "float32", run.facts.input_bytes)
    budget = Budget(MEMORY, 1, 2)
    fleet = Fleet(Kind(2, 2 * MEMORY), 1, True, Machine())
    return Model(given, settings, budget, fleet, run.decay, SHARDS, SHARDS, limits)


WAYS = {
    "direct": Limits(unit_rows=UNIT),
    "groups": Limits(unit_rows=UNIT, direct_shards=4, direct_blocks=0),
}
"""Edges go to their shards by block, or by way of groups, and so do rows that move."""


@pytest.mark.parametrize("way", WAYS)
def test_requests(way: str, server: ObjectStore, tmp_path: Path) -> None:
    limits, url, edges = WAYS[way], server.url(way), tmp_path / "edges.parquet"
    lattice = dask_rac.datasets.lattice(NODES, DEGREE, 0, tmp_path / "lattice", weights="similarity")
    pq.write_table(pq.read_table(lattice), edges, row_group_size=UNIT)
    with dask.config.set(num_workers=2):
        cluster_within(limits, edges, weights="similarity", store=url, shards=SHARDS, memory=MEMORY)
    counted, run = counted_requests(server, way), observe(url, Place(1, 2))
    model = model_of(run, limits)
    layers, rounds = model.layers()
    assert sum(1 for one in rounds if one.shards) == len(run.rounds)
    traffic = sum((layer.traffic for layer in layers if layer.name not in {"scan", "commit"}), Traffic())
    assert traffic.reads - model.intake.units == pytest.approx(counted["reads"], rel=0.05)  # the input is on disk
    assert traffic.writes == pytest.approx(counted["writes"], rel=0.05)
    others = sum(layer.traffic.writes for layer in layers if layer.name == "commit")
    assert others == pytest.approx(counted["other"], rel=0.15)
    names = {layer.name for layer in layers}
    assert ("sort" in names) == ("gather" in names) == (way == "groups") == run.by_groups


@given(
    shards=st.integers(2, 200),
    fewer=st.integers(0, 100),
    processes=st.integers(1, 20),
    number=st.integers(1, 2),
    counted=st.booleans(),
)
def test_a_round_asks_for_as_much_as_the_engine_says(
    shards: int, fewer: int, processes: int, number: int, counted: bool
) -> None:
    """`round_requests` counts the most pieces there can be, and columns of the first shard, which nothing leaves."""
    after, clusters, entries, merges = max(1, shards - fewer), 5_000 * shards, 100_000 * shards, 1_500 * shards
    settings = checked_settings("average" if counted else "complete", "ignore", "distance")
    sizes = EntrySizes.of(settings, clusters, entries // 2, "float32")
    before, left = Level(clusters, entries, merges), Level(clusters - merges, 0.7 * entries, 0)
    shape = Shape(number, before, left, shards, after, processes, sizes, Decay(()))
    first = number == 1
    told = round_requests(
        RoundShape(shards, after, clusters, entries, merges, int(left.entries), processes, first, sizes.ids, counted, 4)
    )
    found = sum(shape.layers().values(), Traffic())
    most = told.metadata - 1 + told.ranges
    pieces = RoundShape(shards, after, clusters, entries, merges, int(left.entries)).pieces
    assert most - pieces - shape.entry_columns <= found.reads <= most
    assert told.puts - 2 - 8 * shards <= found.writes <= told.puts - 2
    assert shape.deletions() == told.deletes
    assert shape.object_requests + STEP_LISTS - 1 == told.lists
