"""What a round asks of an object store is what the model says, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import dask
import pytest

import dask_rac
from dask_rac.engines.rows.requests import RoundShape, round_requests
from tests.support.counting import Traffic, requests_of, steps_of
from tests.support.object_store import BUCKET, ObjectStore, s3_server

NODES, DEGREE, SHARDS, ROUNDS = 6_000, 20, 5, 3


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with s3_server(counting=True) as made:
        yield made


@pytest.fixture(scope="module")
def rounds(server: ObjectStore) -> list[tuple[Traffic, RoundShape]]:
    """What the first rounds have asked for, and their shapes."""
    edges = dask_rac.datasets.lattice(NODES, DEGREE, store=server.url("edges"))
    with dask.config.set(num_workers=2):
        run = dask_rac.cluster(edges, store=server.url("run"), shards=SHARDS)
    with server.log.open() as log:
        steps = steps_of(requests_of(log), f"{BUCKET}/run")
    shards, table = run.phases["shards"], run.rounds
    return [
        (
            steps[k + 1],
            RoundShape(
                shards=int(shards[k]),
                after=int(shards[k + 1]),
                clusters=int(table["clusters"][k]),
                entries=2 * int(table["edges"][k]),
                merges=int(table["merges"][k]),
                left=2 * int(table["edges"][k + 1]),
                first=not k,
                weights=4,  # those of a lattice are float32
            ),
        )
        for k in range(ROUNDS)
    ]


@pytest.mark.parametrize("number", range(ROUNDS))
def test_requests_of_a_round(rounds: list[tuple[Traffic, RoundShape]], number: int) -> None:
    step, shape = rounds[number]
    found, told = step.requests, round_requests(shape)
    assert shape.shards > 1
    assert found["GET"] == told.metadata
    assert told.puts - shape.files <= found["PUT"] <= told.puts
    assert told.ranges - shape.pieces - shape.shards * shape.columns <= found["range"] <= told.ranges
    assert found["HEAD"] == told.heads
    assert 0 < found["LIST"] <= told.lists
    assert 0 < found["DELETE"] <= told.deletes


@pytest.mark.parametrize("number", range(ROUNDS))
def test_bytes_of_a_round(rounds: list[tuple[Traffic, RoundShape]], number: int) -> None:
    step, shape = rounds[number]
    told = round_requests(shape)
    assert 0.85 * told.read <= step.read <= 1.02 * told.read
    assert 0.85 * told.written <= step.written <= 1.05 * told.written


def test_each_process_reads_what_is_kept_of_all_shards() -> None:
    one = RoundShape(shards=10, after=10, clusters=1_000, entries=20_000, merges=300, left=14_000)
    found = [round_requests(replace(one, processes=count)) for count in (1, 4)]
    assert found[1].metadata - found[0].metadata == 3 * 10
    assert found[1].ranges - found[0].ranges == 3 * 3 * 10
    assert found[1].puts == found[0].puts


def test_large_arrays_take_several_requests() -> None:
    small = RoundShape(shards=4, after=4, clusters=10_000_000, entries=16_000_000, merges=1_000_000, left=14_000_000)
    large = replace(small, entries=10 * small.entries)
    more = round_requests(large).ranges - round_requests(small).ranges
    assert more == (small.shards + small.overlaps) * small.columns * 9
