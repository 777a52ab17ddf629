"""Runs through the disk give what runs in memory give, to the last bit, wherever and however they run."""

import hashlib
import importlib.metadata
import logging
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr
from distributed import Client, LocalCluster
from distributed.diagnostics.plugin import SchedulerPlugin
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dask_rac
from dask_rac import config, driver, rest, stored, workers
from dask_rac.config import EDGE_COLUMNS
from dask_rac.store.files import Folder
from dask_rac.store.manifest import Manifest, read_chain
from tests.effort import examples
from tests.reference import hac
from tests.strategies import (
    Graph,
    bipartite,
    clique,
    colliding_graphs,
    cycle,
    graphs,
    grid,
    hub,
    linkages,
    missing_value,
    path,
    star,
)
from tests.test_exact import CEILINGS, WEIGHTS, columns, merge_set, tangled_edges

Columns = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
SHARDS = (1, 2, 3, 7)
MANY_SHARDS = (16, 64)


@contextmanager
def quick_folder() -> Iterator[Path]:
    """A folder in memory where there is one: small runs are all making and deleting of folders."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if os.access(memory, os.W_OK) else None) as name:
        yield Path(name)


@pytest.fixture
def folder() -> Iterator[Path]:
    with quick_folder() as made:
        yield made


def merges_frame(clustering: dask_rac.Clustering) -> pd.DataFrame:
    """All merges in memory, numbered through."""
    merges: Any = clustering.merges
    frame: pd.DataFrame = merges.compute() if hasattr(merges, "compute") else merges
    return frame.reset_index(drop=True)


def fingerprint(clustering: dask_rac.Clustering) -> str:
    """One hash over everything in the merges."""
    merges = merges_frame(clustering)
    return hashlib.sha256(b"".join(column.to_numpy().tobytes() for _, column in merges.items())).hexdigest()


def untimed_rounds(clustering: dask_rac.Clustering) -> pd.DataFrame:
    """The rounds without what differs from run to run."""
    rounds = clustering.rounds
    return rounds[[name for name in rounds if not str(name).endswith("_seconds")]]


def assert_same(found: dask_rac.Clustering, expected: dask_rac.Clustering) -> None:
    """Merges and rounds are one."""
    assert fingerprint(found) == fingerprint(expected)
    pd.testing.assert_frame_equal(untimed_rounds(found), untimed_rounds(expected))
    assert (found.n_nodes, found.n_trees) == (expected.n_nodes, expected.n_trees)


def write_parquet(target: Path, edges: Columns, **options: Any) -> Path:
    """Edges as one file."""
    table = pa.table({name: pa.array(column) for name, column in zip(EDGE_COLUMNS, edges, strict=True)})
    pq.write_table(table, target, **options)
    return target


def steps_of(store: str | Path) -> list[Manifest]:
    """The manifests of a run."""
    return read_chain(Folder(store))


def weighted(pairs: list[tuple[int, int]], weight: Callable[[int], NDArray[Any]], seed: int = 0) -> Columns:
    """Pairs with weights, ids shuffled so that shards cut through everything."""
    nodes = 1 + max(max(pair) for pair in pairs)
    ids = np.random.default_rng(seed).permutation(nodes)
    u, v = ids[np.array(pairs)].T
    return u, v, weight(len(pairs))


def equal(count: int) -> NDArray[np.float64]:
    return np.ones(count)


def tied(count: int) -> NDArray[np.float64]:
    return np.random.default_rng(1).integers(1, 4, count) / 4


def uniform(count: int) -> NDArray[np.float64]:
    return np.random.default_rng(2).random(count)


def short(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(3).random(count, np.float32)


def long(count: int) -> NDArray[np.float64]:
    """All 53 bits in use, over many magnitudes."""
    rng = np.random.default_rng(4)
    odd = rng.integers(2**52, 2**53, count) | 1
    return np.ldexp(odd.astype(np.float64), rng.integers(-60, 0, count))


def neighbours(nodes: int, k: int) -> Columns:
    """Each point with its nearest ones, given from both ends where both see each other."""
    points = np.random.default_rng(5).random((nodes, 2))
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    near = np.argsort(distances, axis=1)[:, 1 : k + 1]
    u = np.repeat(np.arange(nodes), k)
    return u, near.ravel(), distances[u, near.ravel()]


def both_ways(edges: Columns) -> Columns:
    u, v, weight = edges
    return np.concatenate((u, v)), np.concatenate((v, u)), np.concatenate((weight, weight))


def last_hub(nodes: int) -> Columns:
    """A hub with the largest id beside a path: more than one shard's share in one row."""
    spokes = np.arange(nodes - 1)
    inner = spokes[:-1]
    u, v = np.concatenate((spokes, inner)), np.concatenate((np.full(nodes - 1, nodes - 1), inner + 1))
    return u, v, uniform(len(u))


GRAPHS: dict[str, Columns] = {
    "path of equal weights": weighted(path(60), equal),
    "path": weighted(path(50), long),
    "star": weighted(star(40), uniform),
    "star of equal weights": weighted(star(30), equal),
    "hub": weighted(hub(61), tied),
    "hub with the last id": last_hub(40),
    "clique": weighted(clique(14), uniform),
    "clique of equal weights": weighted(clique(12), equal),
    "cycle": weighted(cycle(45), short),
    "grid": weighted(grid(64), uniform),
    "grid with ties": weighted(grid(64), tied),
    "bipartite": weighted(bipartite(21), tied),
    "neighbours": neighbours(70, 4),
    "neighbours of few": neighbours(70, 1),
    "tangled": tangled_edges(90, 220, 10**6, seed=6),
    "tangled with ties": tangled_edges(90, 220, 2, seed=7),
    "tangled, all bits": (*tangled_edges(90, 220, 1, seed=8)[:2], long(len(tangled_edges(90, 220, 1, seed=8)[0]))),
    "tangled, float32": (*tangled_edges(90, 220, 1, seed=8)[:2], short(len(tangled_edges(90, 220, 1, seed=8)[0]))),
    "weights of 0": weighted(grid(36), np.zeros),
    "both ways": both_ways(weighted(grid(49), uniform)),
    "pairs": weighted([(2 * k, 2 * k + 1) for k in range(20)], uniform),
    "one edge": (np.array([3]), np.array([1]), np.array([0.5])),
    "whole numbers": (*tangled_edges(60, 150, 1, seed=9)[:2], np.arange(len(tangled_edges(60, 150, 1, seed=9)[0]))),
    "long way round": weighted([*cycle(40), *((k, (k + 20) % 40) for k in range(20))], uniform),
}

NUMBER = "number"
OPTIONS: list[dict[str, Any]] = [
    {"linkage": "average"},
    {"linkage": "complete", "missing": "infinite"},
    {"linkage": "average", "weights": "similarity"},
    {"linkage": "complete", "missing": NUMBER, "finisher": False},
    {"linkage": "single", "max_height": 0.5},
    {"linkage": "average", "missing": "infinite", "weights": "similarity"},
    {"linkage": "complete", "weights": "similarity", "max_height": 0.25},
    {"linkage": "average", "missing": NUMBER, "max_height": 0.75},
    {"linkage": "complete", "missing": "ignore"},
    {"linkage": "single", "weights": "similarity"},
    {"linkage": "average", "missing": NUMBER, "weights": "similarity", "finisher": False},
    {"linkage": "average", "missing": "ignore", "weights": "similarity"},
    {"linkage": "complete", "missing": NUMBER, "weights": "similarity"},
]


def settled(options: dict[str, Any], edges: Columns) -> dict[str, Any]:
    """Options with a number for missing pairs that this graph allows, and nodes beyond the last edge."""
    given = options | {"n_nodes": 5 + int(max(edges[0].max(), edges[1].max()))}
    if given.get("missing") == NUMBER:
        weight = edges[2].astype(float)
        given["missing"] = weight.min() / 2 if given.get("weights") == "similarity" else weight.max() * 1.25
    return given


def given_as(edges: Columns, on_disk: bool, folder: Path) -> Columns | Path:
    """Edges as arrays, or as a file of small row groups."""
    return write_parquet(folder / "edges.parquet", edges, row_group_size=37) if on_disk else edges


@pytest.mark.parametrize("name", GRAPHS)
def test_the_number_of_shards_never_shows(name: str, folder: Path) -> None:
    # Each graph meets three kinds of linkage and each number of shards, in another combination than the one before.
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
    [("clique", 0, 64), ("neighbours of few", 1, 16), ("cycle", 2, 16), ("one edge", 3, 64), ("both ways", 4, 16)],
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
    hand_over = 2.0 if ending == "hand over" else config.HAND_OVER
    with (
        quick_folder() as folder,
        mock.patch.object(driver, "HAND_OVER", hand_over),
        mock.patch.object(rest, "HAND_OVER", hand_over),
        mock.patch.object(stored, "HAND_OVER", hand_over),
    ):
        given_edges = given_as(columns(graph), on_disk, folder)
        found = dask_rac.cluster(given_edges, store=folder / "run", shards=shards, **options)
        assert_same(found, dask_rac.cluster(columns(graph), **options))
        in_memory = mock.Mock(merges=merges_frame(found))
    del options["n_nodes"], options["finisher"]
    oracle = hac(graph.n_nodes, graph.edges, **options)
    assert merge_set(in_memory) == sorted((m.right, m.left, float(m.height), m.size) for m in oracle)


SMALL = tangled_edges(400, 1100, 10**6, seed=10)
SMALL_BUDGET = 80 * 400  # bytes: too few for the graph, enough for the vectors over its nodes


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
def test_a_small_budget_never_shows(threads: int, linkage: str, folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", SMALL)
    expected = dask_rac.cluster(SMALL, linkage, finisher=False)
    with dask.config.set(num_workers=threads):
        found = dask_rac.cluster(edges, linkage, finisher=False, store=folder / "run", memory=SMALL_BUDGET)
    assert_same(found, expected)
    first, *rounds, _ = steps_of(folder / "run")
    assert first.state is not None
    assert len(first.state.shards) > 1
    assert rounds, "no round was done out of core"


def test_where_the_finisher_has_no_room_rounds_go_on_and_say_so(folder: Path) -> None:
    edges = tangled_edges(400, 1100, 7, seed=11)
    options: dict[str, Any] = {"linkage": "complete"}
    with mock.patch.object(stored, "HAND_OVER", 0.3), mock.patch.object(rest, "HAND_OVER", 0.3):
        found = dask_rac.cluster(edges, store=folder / "run", memory=SMALL_BUDGET, **options)
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


def test_a_store_need_not_be_a_disk(folder: Path) -> None:
    edges = GRAPHS["tangled"]
    url = f"memory://{folder.name}/run"
    found = dask_rac.cluster(write_parquet(folder / "edges.parquet", edges), store=url, shards=3)
    assert_same(found, dask_rac.cluster(edges))
    assert found.store == url
    assert_same(dask_rac.open(url), found)
    assert found.verify().ok


def test_a_path_may_be_relative_and_end_in_a_slash(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    write_parquet(Path("edges.parquet"), GRAPHS["grid"])
    found = dask_rac.cluster("edges.parquet", store="run/", shards=2)
    monkeypatch.chdir("/")
    assert found.store == str(folder / "run")
    assert_same(dask_rac.open(folder / "run"), found)
    assert found.verify().ok


# Results.

TIES = tangled_edges(300, 900, 4, seed=12)


@pytest.fixture(scope="module")
def tied_run() -> Iterator[tuple[dask_rac.StoredClustering, dask_rac.Clustering]]:
    """A run with many equal heights, stored and in memory."""
    with quick_folder() as made:
        edges = write_parquet(made / "edges.parquet", TIES)
        found = dask_rac.cluster(edges, "complete", n_nodes=310, shards=3, store=made / "run")
        assert isinstance(found, dask_rac.StoredClustering)
        yield found, dask_rac.cluster(TIES, "complete", n_nodes=310)


TiedRun = tuple[dask_rac.StoredClustering, dask_rac.Clustering]


def test_merges_are_a_dask_dataframe_in_order(tied_run: TiedRun) -> None:
    found, expected = tied_run
    assert isinstance(found.merges, dd.DataFrame)
    kinds = {"left": "int64", "right": "int64", "height": "float64", "size": "int64", "round": "int32"}
    assert {name: str(kind) for name, kind in found.merges.dtypes.items()} == kinds
    frame = found.merges.compute()
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == kinds
    pd.testing.assert_frame_equal(frame.reset_index(drop=True), expected.merges)
    assert found.merges.npartitions > 1
    assert found.merges["height"].max().compute() == expected.merges["height"].max()


def test_cuts_are_those_in_memory(tied_run: TiedRun) -> None:
    found, expected = tied_run
    heights = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, np.inf]
    np.testing.assert_array_equal(found.cut(height=heights), expected.cut(height=heights))
    counts = list(range(found.n_trees, found.n_nodes + 1))
    np.testing.assert_array_equal(found.cut(n_clusters=counts), expected.cut(n_clusters=counts))
    np.testing.assert_array_equal(found.cut(height=2.0), expected.cut(height=2.0))
    np.testing.assert_array_equal(found.cut(n_clusters=100), expected.cut(n_clusters=100))
    assert found.cut(height=[]).shape == (0, found.n_nodes)
    for wrong in (found.n_trees - 1, found.n_nodes + 1):
        with pytest.raises(dask_rac.InputError, match=f"n_clusters={wrong} is not to be had"):
            found.cut(n_clusters=wrong)


@examples(20)
@given(graphs(), WEIGHTS, st.data())
def test_generated_cuts_are_those_in_memory(graph: Graph, weights: str, data: st.DataObject) -> None:
    expected = dask_rac.cluster(columns(graph), weights=weights, n_nodes=graph.n_nodes)
    heights = data.draw(st.lists(st.sampled_from([0.0, 0.125, 0.3, 0.5, 1.0, 2.0]), max_size=4))
    counts = data.draw(st.lists(st.integers(expected.n_trees, graph.n_nodes), max_size=4))
    with quick_folder() as folder:
        found = dask_rac.cluster(columns(graph), weights=weights, n_nodes=graph.n_nodes, store=folder / "run", shards=2)
        np.testing.assert_array_equal(found.cut(height=heights), expected.cut(height=heights))
        np.testing.assert_array_equal(found.cut(n_clusters=counts), expected.cut(n_clusters=counts))
        np.testing.assert_array_equal(found.labels, expected.labels)
        np.testing.assert_array_equal(found.to_scipy(join=True), expected.to_scipy(join=True))


@pytest.mark.parametrize("which", [0, 1])
def test_labels_as_parquet(tied_run: TiedRun, which: int, folder: Path) -> None:
    found, expected = tied_run[which], tied_run[1]
    target = folder / "one.parquet"
    assert found.cut(height=2.0, store=target) == str(target)
    frame = pd.read_parquet(target)
    assert frame["node"].tolist() == list(range(found.n_nodes))
    np.testing.assert_array_equal(frame["label"], expected.cut(height=2.0))
    assert {name: str(kind) for name, kind in frame.dtypes.items()} == {"node": "int64", "label": "int64"}
    many = folder / "many.parquet"
    found.cut(n_clusters=[150, 200], store=many)
    parts = dd.read_parquet(many).compute()
    for count in (150, 200):
        part = parts[parts["n_clusters"].astype(int) == count].sort_values("node")
        np.testing.assert_array_equal(part["label"], expected.cut(n_clusters=count))
    assert sorted(os.listdir(folder)) == ["many.parquet", "one.parquet"]


@pytest.mark.parametrize("which", [0, 1])
def test_labels_as_zarr(tied_run: TiedRun, which: int, folder: Path) -> None:
    found, expected = tied_run[which], tied_run[1]
    found.cut(height=[1.0, 2.0], store=folder / "labels.zarr")
    array: Any = zarr.open_array(str(folder / "labels.zarr"), mode="r")
    np.testing.assert_array_equal(array[:], expected.cut(height=[1.0, 2.0]))
    assert array.attrs["height"] == [1.0, 2.0]
    found.cut(n_clusters=150, store=folder / "one.zarr")
    one: Any = zarr.open_array(str(folder / "one.zarr"), mode="r")
    np.testing.assert_array_equal(one[0], expected.cut(n_clusters=150))
    assert sorted(os.listdir(folder)) == ["labels.zarr", "one.zarr"]


def test_labels_are_written_to_new_places_only(tied_run: TiedRun, folder: Path) -> None:
    found = tied_run[0]
    for name in ("taken.parquet", "taken.zarr"):
        (folder / name).write_text("mine")
        with pytest.raises(dask_rac.InputError, match=rf"{name} exists: nothing is written over"):
            found.cut(height=1.0, store=folder / name)
        assert (folder / name).read_text() == "mine"
    for name in ("labels.txt", "labels", "parquet"):
        with pytest.raises(dask_rac.InputError, match=r"must end in .parquet, .zarr, .csv or .csv.gz"):
            found.cut(height=1.0, store=folder / name)
    with pytest.raises(dask_rac.InputError, match="n_clusters=0 is not to be had"):
        found.cut(n_clusters=[200, 0], store=folder / "wrong.zarr")
    with pytest.raises(dask_rac.InputError, match="n_clusters=0 is not to be had"):
        found.cut(n_clusters=[200, 0], store=folder / "wrong.parquet")
    assert sorted(os.listdir(folder)) == ["taken.parquet", "taken.zarr"]


def test_no_cut_at_all_is_not_written(tied_run: TiedRun, folder: Path) -> None:
    for name in ("none.parquet", "none.zarr"):
        with pytest.raises(dask_rac.InputError, match="there is nothing to write"):
            tied_run[0].cut(height=[], store=folder / name)


def test_the_rest_of_a_result(tied_run: TiedRun) -> None:
    found, expected = tied_run
    np.testing.assert_array_equal(found.labels, expected.labels)
    assert not found.labels.flags.writeable
    assert found.n_trees == expected.n_trees > 1
    np.testing.assert_array_equal(found.to_scipy(join=True), expected.to_scipy(join=True))
    with pytest.raises(dask_rac.InputError, match=r"there are \d+ trees"):
        found.to_scipy()
    assert repr(found) == repr(expected)[:-1] + f", store={found.store}>"
    assert f">{found.store}</td>" in found._repr_html_()
    assert found.finished
    assert found.peak_disk > 0


def test_similarities_tell_their_heights_as_in_memory(folder: Path) -> None:
    found = dask_rac.cluster(SMALL, weights="similarity", store=folder / "run", shards=2)
    assert repr(found).startswith(repr(dask_rac.cluster(SMALL, weights="similarity"))[:-1])


class PlugPulledError(Exception):
    """Somebody pulls the plug."""


def stop_after(rounds: int) -> Callable[[dask_rac.Event], None]:
    def watch(event: dask_rac.Event) -> None:
        if event.record is not None and event.stage == "round" and event.record.round == rounds:
            raise PlugPulledError

    return watch


def test_a_run_on_its_way_can_be_looked_at_and_goes_on(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", SMALL)
    options: dict[str, Any] = {"finisher": False, "store": folder / "run", "memory": SMALL_BUDGET}
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(edges, progress=stop_after(2), **options)
    expected = dask_rac.cluster(SMALL, finisher=False)
    early = dask_rac.open(folder / "run")
    assert not early.finished
    assert repr(early).endswith(f"store={folder / 'run'}, on its way>")
    assert early.rounds["round"].tolist() == [1, 2]
    so_far = expected.merges[expected.merges["round"] <= 2]
    pd.testing.assert_frame_equal(merges_frame(early), so_far)
    assert len(np.unique(early.labels)) == early.n_trees == early.n_nodes - len(so_far)
    with pytest.raises(dask_rac.StoreError, match=r"holds a run already: go on with dask_rac\.resume\('.*run'\)"):
        dask_rac.cluster(edges, **options)
    assert_same(dask_rac.resume(folder / "run", memory=SMALL_BUDGET), expected)
    assert dask_rac.open(folder / "run").finished
    assert_same(dask_rac.resume(folder / "run"), expected)


def test_folders_that_hold_something_else_are_left_alone(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(dask_rac.StoreError, match="nothing in it is touched; choose another folder"):
        dask_rac.cluster(SMALL, store=folder / "mine")
    with pytest.raises(dask_rac.StoreError, match=r"notes\.txt is a file"):
        dask_rac.cluster(SMALL, store=folder / "mine" / "notes.txt")
    assert (folder / "mine" / "notes.txt").read_text() == "mine"
    assert os.listdir(folder / "mine") == ["notes.txt"]
    for look in (dask_rac.open, dask_rac.resume):
        with pytest.raises(dask_rac.StoreError, match=r"is no store of dask_rac: it has no rac\.json"):
            look(folder / "mine")
    assert os.listdir(folder / "mine") == ["notes.txt"]


def test_an_empty_folder_will_do(folder: Path) -> None:
    (folder / "run").mkdir()
    assert dask_rac.cluster(SMALL, store=folder / "run").n_nodes == 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shards": 0}, "shards=0 is not a whole number, 1 or more"),
        ({"shards": 2.5}, "shards=2.5 is not a whole number"),
        ({"n_nodes": -1}, "n_nodes=-1 is not a whole number"),
        ({"memory": "much"}, "memory='much' is no amount of memory: give bytes, or text such as '6GB'"),
        ({"memory": -1}, "memory=-1 is no amount"),
        ({"client": "tcp://nowhere"}, "is no distributed.Client: leave it out"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(SMALL, store=folder / "run", **options)
    assert not (folder / "run").exists()


@pytest.mark.parametrize("name", ["memory", "shards"])
def test_options_of_stored_runs_need_a_store(name: str) -> None:
    given_options: dict[str, Any] = {name: 3}
    with pytest.raises(dask_rac.InputError, match=f"{name}= is for runs through the disk: give store= as well"):
        dask_rac.cluster(SMALL, **given_options)


def test_nothing_but_the_result_is_left(folder: Path) -> None:
    found = dask_rac.cluster(SMALL, store=folder / "run", shards=5)
    assert set(os.listdir(folder / "run")) == {"rac.json", "lock", "manifests", "merges", "rounds", "statistics"}
    assert os.listdir(folder / "run" / "rounds") == []
    tables = {table.name for step in steps_of(folder / "run") for table in step.merges}
    assert {f"merges/{name}" for name in os.listdir(folder / "run" / "merges")} == tables
    assert len(os.listdir(folder / "run" / "statistics")) == len(found.rounds)


# The audit.


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("twice", [False, True])
def test_verify_passes_what_a_run_made(linkage: str, weights: str, twice: bool, folder: Path) -> None:
    edges = both_ways(SMALL) if twice else SMALL
    source = write_parquet(folder / "edges.parquet", edges, row_group_size=300)
    found = dask_rac.cluster(source, linkage, weights=weights, store=folder / "run", shards=3)
    in_memory = dask_rac.cluster(edges, linkage, weights=weights)
    frame = pd.DataFrame(dict(zip(EDGE_COLUMNS, edges, strict=True)))
    reports = [found.verify(), found.verify(source), found.verify(frame), found.verify(edges)]
    reports += [in_memory.verify(source), in_memory.verify(edges), dask_rac.open(folder / "run").verify()]
    for report in reports:
        assert report.ok
        assert (report.merges, report.edges) == (len(in_memory.merges), len(SMALL[0]))
        assert report.worst_error <= 1e-12
    assert os.listdir(folder / "run" / "rounds") == []


@pytest.mark.parametrize("twice", [False, True])
def test_verify_refuses_another_graph(twice: bool, folder: Path) -> None:
    edges = both_ways(SMALL) if twice else SMALL
    found = dask_rac.cluster(write_parquet(folder / "a.parquet", edges), store=folder / "run", shards=2)
    in_memory = dask_rac.cluster(edges)
    u, v, weight = edges
    other: Columns = u, v, weight + 1
    another = write_parquet(folder / "b.parquet", other)
    fewer = write_parquet(folder / "c.parquet", (u[:300], v[:300], weight[:300]))
    for result in (found, in_memory):
        for wrong in (other, another, fewer):
            with pytest.raises(dask_rac.AuditError, match=r"merges are wrong, first merge \d+ of"):
                result.verify(wrong)
    write_parquet(folder / "a.parquet", other)
    with pytest.raises(dask_rac.InputError, match=r"a\.parquet has changed since the run began"):
        found.verify()
    with pytest.raises(dask_rac.InputError, match=r"verify\(\) needs the edges again"):
        in_memory.verify()


def test_verify_takes_the_same_graph_given_from_both_ends(folder: Path) -> None:
    found = dask_rac.cluster(write_parquet(folder / "once.parquet", SMALL), store=folder / "run")
    assert found.verify(both_ways(SMALL)).edges == len(SMALL[0])
    assert found.verify(write_parquet(folder / "twice.parquet", both_ways(SMALL))).edges == len(SMALL[0])


def test_verify_needs_edges_that_were_in_memory(folder: Path) -> None:
    found = dask_rac.cluster(SMALL, store=folder / "run")
    with pytest.raises(dask_rac.InputError, match=r"edges were not on disk: give them again, verify\(edges\)"):
        found.verify()


def test_verify_finds_damaged_merges(folder: Path) -> None:
    found = dask_rac.cluster(SMALL, store=folder / "run")
    (table,) = (folder / "run" / "merges").iterdir()
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    with pytest.raises(dask_rac.DamagedStoreError, match="is damaged: it is not what was written"):
        found.verify(SMALL)


# On a cluster.


@contextmanager
def local_client(n_workers: int, **options: Any) -> Iterator[Client]:
    """Worker processes of our own, and a client that is nobody's default."""
    with (
        LocalCluster(
            n_workers=n_workers,
            threads_per_worker=2 if n_workers == 1 else 1,
            dashboard_address=":0",
            silence_logs=logging.CRITICAL,
            **options,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module", params=[1, 2, 4])
def client(request: pytest.FixtureRequest) -> Iterator[Client]:
    with local_client(request.param) as made:
        yield made


two_workers = pytest.mark.parametrize("client", [2], indirect=True)


def nothing_left(client: Client, patience: float = 30) -> bool:
    """Whether the scheduler forgets all tasks, and workers are free, within some seconds; fails if not."""
    end = time.monotonic() + patience
    while True:
        busy = client.run(lambda dask_worker: dask_worker.state.executing_count, on_error="ignore")
        tasks = client.run_on_scheduler(lambda dask_scheduler: list(map(str, dask_scheduler.tasks.values())))
        if not (tasks or client.futures or any(busy.values())):
            return True
        assert time.monotonic() < end, (busy, tasks, client.futures)
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("name", "option"), [("tangled with ties", 0), ("neighbours", 1), ("tangled, float32", 2), ("hub", 4)]
)
def test_the_number_of_processes_never_shows(client: Client, name: str, option: int, folder: Path) -> None:
    edges = GRAPHS[name]
    options = settled(OPTIONS[option], edges)
    given_edges = write_parquet(folder / "edges.parquet", edges, row_group_size=50)
    found = dask_rac.cluster(given_edges, store=folder / "run", shards=3, client=client, **options)
    assert_same(found, dask_rac.cluster(edges, **options))
    assert client.status == "running"
    assert nothing_left(client)


@two_workers
def test_a_small_budget_never_shows_on_a_cluster(client: Client, folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", SMALL)
    found = dask_rac.cluster(edges, finisher=False, store=folder / "run", memory=2 * SMALL_BUDGET, client=client)
    assert_same(found, dask_rac.cluster(SMALL, finisher=False))
    assert len(steps_of(folder / "run")) > 2


class Prefixes(SchedulerPlugin):
    """Keeps the names of all tasks that a scheduler has been given."""

    name = "prefixes"

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def transition(self, key: Any, start: str, finish: str, *args: Any, **kwargs: Any) -> None:
        """Take note of a task that is done."""
        if finish == "memory":
            self.seen.add(str(key).partition("-")[0])


def seen_prefixes(dask_scheduler: Any) -> set[str]:
    plugin = dask_scheduler.plugins["prefixes"]
    seen, plugin.seen = plugin.seen, set()
    return set(seen)


@two_workers
def test_tasks_have_names_that_a_dashboard_can_show(client: Client, folder: Path) -> None:
    client.register_plugin(Prefixes())
    edges = write_parquet(folder / "edges.parquet", GRAPHS["grid"])
    with client.as_current():  # found without being given
        dask_rac.cluster(edges, store=folder / "run", shards=3)
    seen = client.run_on_scheduler(seen_prefixes)
    assert {"scan", "route", "build", "match", "cut", "split", "fold", "finish_rest"} <= seen
    assert seen <= {"scan", "route", "build", "match", "cut", "split", "fold", "finish_rest"} | {
        "routed", "moved", "source", "layout", "state", "list",
    }  # fmt: skip
    dask_rac.cluster(edges, store=folder / "threads", shards=3)
    assert client.run_on_scheduler(seen_prefixes) == set(), "a client that is not current was used"


@two_workers
def test_a_dask_dataframe_is_read_by_the_workers(client: Client, folder: Path) -> None:
    edges = GRAPHS["tangled"]
    frame = pd.DataFrame(dict(zip(EDGE_COLUMNS, edges, strict=True)))
    found = dask_rac.cluster(dd.from_pandas(frame, npartitions=4), store=folder / "run", shards=2, client=client)
    assert_same(found, dask_rac.cluster(edges))
    assert nothing_left(client)
    assert "input" not in os.listdir(folder / "run")


@two_workers
def test_errors_come_back_from_workers_and_leave_nothing(client: Client, folder: Path) -> None:
    u, v, weight = (column.copy() for column in GRAPHS["tangled"])
    weight[100] = -1
    edges = write_parquet(folder / "edges.parquet", (u, v, weight), row_group_size=40)
    with pytest.raises(dask_rac.InputError, match=r"'weight' is negative in row 100 of .*edges\.parquet \(-1.0\)"):
        dask_rac.cluster(edges, store=folder / "run", client=client)
    assert nothing_left(client)
    assert not (folder / "run").exists()


@two_workers
def test_a_worker_with_other_versions_is_refused(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = importlib.metadata.version
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1" if name == "zarr" else real(name))
    with pytest.raises(dask_rac.ResourceError, match=r"has zarr .*, this process 0\.0\.1: install the same versions"):
        dask_rac.cluster(SMALL, store=folder / "run", client=client)
    assert not (folder / "run" / "rac.json").exists()


@two_workers
def test_a_preflight_that_fails_leaves_nothing(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_sees", lambda *_: False)
    with pytest.raises(dask_rac.ResourceError):
        dask_rac.cluster(SMALL, store=folder / "run", client=client)
    assert not (folder / "run").exists()


@two_workers
def test_a_store_that_workers_do_not_see_is_refused(client: Client, folder: Path) -> None:
    with pytest.raises(dask_rac.ResourceError, match=r"worker .* does not see memory://.*: use a folder that all"):
        dask_rac.cluster(SMALL, store=f"memory://{folder.name}/run", client=client)


@two_workers
def test_more_memory_than_workers_have_is_refused_with_what_they_have(client: Client, folder: Path) -> None:
    with pytest.raises(dask_rac.ResourceError, match="GB for each of 2 workers, and one has") as caught:
        dask_rac.cluster(SMALL, store=folder / "run", memory="1PB", client=client)
    advised = str(caught.value).rpartition("set memory='")[2].partition("'")[0]
    assert dask_rac.cluster(SMALL, store=folder / "run", memory=advised, client=client).n_nodes == 400


def test_a_cluster_without_workers_is_refused(folder: Path) -> None:
    with (
        local_client(0) as client,
        dask.config.set({"distributed.comm.timeouts.connect": "1s"}),
        pytest.raises(dask_rac.ResourceError, match="the cluster has had no worker for 1 s: start workers"),
    ):
        dask_rac.cluster(SMALL, store=folder / "run", client=client)
    assert not (folder / "run").exists()


def test_a_matrix_goes_through_the_disk_as_well(folder: Path) -> None:
    u, v, weight = SMALL
    matrix = sp.coo_array((weight, (u, v)), shape=(400, 400))
    for number, form in enumerate((matrix, (matrix + matrix.T).tocsr())):
        found = dask_rac.cluster(form, store=folder / str(number), shards=2)
        assert_same(found, dask_rac.cluster(form))


@pytest.mark.kernels
@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_a_small_run_whose_kernels_may_be_interpreted(tmp_path: Path, linkage: str, weights: str) -> None:
    rng = np.random.default_rng(0)
    u, v = rng.integers(40, size=(2, 160))
    frame = pd.DataFrame({"source": u, "target": v, "weight": (1 + (u * v) % 7).astype(np.float32)})[u != v]
    path = tmp_path / "edges.parquet"
    frame.to_parquet(path, index=False)
    expected = dask_rac.cluster(path, linkage, weights=weights, duplicates="max")
    for number, duplicates in enumerate(("max", "error")):
        store = tmp_path / f"run{number}"
        found = dask_rac.cluster(path, linkage, weights=weights, duplicates=duplicates, store=store, shards=3)
        pd.testing.assert_frame_equal(found.merges.compute().reset_index(drop=True), expected.merges)
        np.testing.assert_array_equal(found.cut(n_clusters=found.n_trees), expected.labels)
        assert found.verify().ok
