"""Promise 3: shards, workers and budgets never show, in memory or through the disk."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import pytest
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.engines.contract import Limits
from tests.reference import hac
from tests.support.clients import local_client, nothing_left
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.graphs import columns, tangled_edges
from tests.support.limits import cluster_within
from tests.support.named_graphs import GRAPHS, OPTIONS, SMALL, SMALL_BUDGET, settled
from tests.support.results import assert_same, merge_set, merges_frame
from tests.support.stored import given_as, steps_of, write_parquet
from tests.support.strategies import (
    CEILINGS,
    WEIGHTS,
    Graph,
    colliding_graphs,
    graphs,
    linkages,
    missing_value,
)

SHARDS = (1, 2, 3, 7)
MANY_SHARDS = (16, 64)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_number_of_shards_never_shows(name: str, folder: Path) -> None:
    # Each graph is run with three kinds of linkage and each number of shards, in varying combinations.
    place, edges = list(GRAPHS).index(name), GRAPHS[name]
    for k, shards in enumerate(SHARDS[1:]):
        options = settled(OPTIONS[(3 * place + k) % len(OPTIONS)], edges)
        expected = dask_rac.cluster(edges, **options)
        (home := folder / str(shards)).mkdir()
        with dask.config.set(num_workers=1 + (place + k) % 2):
            given_edges = given_as(edges, (place // 2 + k) % 2 == 0, home)
            assert_same(dask_rac.cluster(given_edges, store=home / "run", shards=shards, **options), expected)
            if k == place % 3:
                assert_same(dask_rac.cluster(given_edges, store=home / "one", shards=1, **options), expected)


@pytest.mark.parametrize(
    ("name", "option", "shards"),
    [
        ("clique", 0, 64),
        ("neighbours of few", 1, 16),
        ("cycle", 2, 16),
        ("one edge", 3, 64),
        ("both ways", 4, 16),
        ("hub", 13, 16),
    ],
)
def test_more_shards_than_are_good_for_it_never_show(name: str, option: int, shards: int, folder: Path) -> None:
    edges = GRAPHS[name]
    options = settled(OPTIONS[option], edges)
    given_edges = given_as(edges, True, folder)
    found = dask_rac.cluster(given_edges, store=folder / "run", shards=shards, **options)
    assert len(found.merges.columns) == 5
    assert_same(found, dask_rac.cluster(edges, **options))


@pytest.mark.soak
@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize("option", range(len(OPTIONS)))
def test_nothing_shows_in_the_full_product(name: str, option: int, folder: Path) -> None:
    edges = GRAPHS[name]
    options = settled(OPTIONS[option], edges)
    expected = dask_rac.cluster(edges, **options)
    for shards, threads, on_disk in product(SHARDS, (1, 2), (False, True)):
        (home := folder / f"{shards}-{threads}-{on_disk}").mkdir()
        with dask.config.set(num_workers=threads):
            found = dask_rac.cluster(given_as(edges, on_disk, home), store=home / "run", shards=shards, **options)
        assert_same(found, expected)


@pytest.mark.soak
@pytest.mark.parametrize("shards", MANY_SHARDS)
@pytest.mark.parametrize("name", GRAPHS)
def test_many_shards_never_show_in_any_graph(name: str, shards: int, folder: Path) -> None:
    edges = GRAPHS[name]
    options = settled(OPTIONS[list(GRAPHS).index(name) % len(OPTIONS)], edges)
    found = dask_rac.cluster(given_as(edges, True, folder), store=folder / "run", shards=shards, **options)
    assert_same(found, dask_rac.cluster(edges, **options))


@examples(120)
@given(
    st.one_of(graphs(), colliding_graphs()),
    linkages(),
    WEIGHTS,
    CEILINGS,
    st.tuples(st.sampled_from(SHARDS), st.sampled_from(["rounds", "few rounds", "hand over"]), st.booleans()),
)
def test_generated_graphs_come_out_as_in_memory_and_as_naive_hac(
    graph: Graph,
    how: tuple[str, str],
    weights: str,
    max_height: float | None,
    way: tuple[int, str, bool],
) -> None:
    (linkage, kind), (shards, ending, on_disk) = how, way
    options: dict[str, Any] = {
        "linkage": linkage,
        "missing": missing_value(kind, graph, weights),
        "weights": weights,
        "max_height": max_height,
        "n_nodes": graph.n_nodes,
        "finisher": ending != "rounds",
    }
    limits = Limits(hand_over=2.0) if ending == "hand over" else Limits()
    with quick_folder() as folder:
        given_edges = given_as(columns(graph), on_disk, folder)
        found = cluster_within(limits, given_edges, store=folder / "run", shards=shards, **options)
        assert_same(found, cluster_within(limits, columns(graph), **options))
        in_memory = mock.Mock(merges=merges_frame(found))
    del options["n_nodes"], options["finisher"]
    oracle = hac(graph.n_nodes, graph.edges, **options)
    assert merge_set(in_memory) == sorted((m.right, m.left, float(m.height), m.size) for m in oracle)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("linkage", "missing"), [("average", None), ("complete", None), ("single", None), ("weighted", 1e6)]
)
def test_a_small_budget_never_shows(threads: int, linkage: str, missing: float | None, folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", SMALL)
    expected = dask_rac.cluster(SMALL, linkage, missing, finisher=False)
    with dask.config.set(num_workers=threads):
        found = dask_rac.cluster(edges, linkage, missing, finisher=False, store=folder / "run", memory=SMALL_BUDGET)
    assert_same(found, expected)
    first, *rounds, _ = steps_of(folder / "run")
    assert first.state is not None
    assert len(first.state.shards) > 1
    assert rounds, "no round was done out of core"


def test_where_the_finisher_has_no_room_rounds_go_on_and_say_so(folder: Path) -> None:
    edges = tangled_edges(400, 1100, 7, seed=11)
    options: dict[str, Any] = {"linkage": "complete"}
    limits = Limits(hand_over=0.3)
    found = cluster_within(limits, edges, store=folder / "run", memory=SMALL_BUDGET, **options)
    assert found.rounds["deferred"].any()
    assert merge_set(mock.Mock(merges=merges_frame(found))) == merge_set(dask_rac.cluster(edges, **options))


def test_a_lattice_comes_out_the_same(folder: Path) -> None:
    edges = dask_rac.datasets.lattice(3000, 14, store=folder / "edges")
    expected = dask_rac.cluster(edges)
    for threads, shards in ((1, 3), (2, 5)):
        with dask.config.set(num_workers=threads):
            found = dask_rac.cluster(edges, store=folder / f"run{shards}", shards=shards)
        assert_same(found, expected)
        assert found.verify().merges == len(expected.merges)


@pytest.fixture(scope="module", params=[1, 2, 4])
def client_of_some(request: pytest.FixtureRequest) -> Iterator[Client]:
    """One, two or four workers."""
    with local_client(request.param, threads_per_worker=2 if request.param == 1 else 1) as made:
        yield made


@pytest.mark.parametrize(
    ("name", "option"),
    [("tangled with ties", 0), ("neighbours", 1), ("tangled, float32", 2), ("hub", 4), ("tangled with ties", 13)],
)
def test_the_number_of_processes_never_shows(client_of_some: Client, name: str, option: int, folder: Path) -> None:
    edges = GRAPHS[name]
    options = settled(OPTIONS[option], edges)
    given_edges = write_parquet(folder / "edges.parquet", edges, row_group_size=50)
    found = dask_rac.cluster(given_edges, store=folder / "run", shards=3, client=client_of_some, **options)
    assert_same(found, dask_rac.cluster(edges, **options))
    assert client_of_some.status == "running"
    assert nothing_left(client_of_some)


def test_a_small_budget_never_shows_on_a_cluster(client: Client, folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", SMALL)
    found = dask_rac.cluster(edges, finisher=False, store=folder / "run", memory=2 * SMALL_BUDGET, client=client)
    assert_same(found, dask_rac.cluster(SMALL, finisher=False))
    assert len(steps_of(folder / "run")) > 2
