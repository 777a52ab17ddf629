"""Names of nodes in stores: they survive kills, are found again, cost no memory, and damage to them is noticed."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

import dask_rac
from dask_rac.engines.contract import Limits
from tests.support.clients import local_client
from tests.support.crash import Kill, kill_run
from tests.support.folders import quick_folder
from tests.support.limits import cluster_within
from tests.support.results import fingerprint, merge_set
from tests.support.text_ids import random_graph

GRAPH = random_graph(120, 300)
SMALL = Limits(text_bytes=1500, batch_rows=40, unit_rows=60, part_names=16)
EDGES = ([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0])


def names_in(found: dask_rac.Clustering) -> list[str]:
    assert found.names is not None
    listed: list[str] = found.names.slice(0, found.n_nodes).to_pylist()
    return listed


KILLS = [
    Kill("dask_rac.edges.shuffle.write_group", True, 0),
    Kill("dask_rac.edges.shuffle.write_names_part", False, 0),
    Kill("dask_rac.engines.numbering.open_edges", False, 0),
    Kill("dask_rac.store.manifest.commit", False, 0),
    Kill("dask_rac.store.manifest.commit", True, 0),
]


@pytest.mark.parametrize("kill", KILLS, ids=str)
def test_a_run_that_is_killed_while_it_numbers_nodes_goes_on(kill: Kill) -> None:
    with quick_folder() as folder:
        edges, store = folder / "edges.parquet", folder / "run"
        GRAPH.frame.to_parquet(edges, row_group_size=100)
        assert kill_run(edges, store, kill) == signal.SIGKILL
        found = dask_rac.resume(store)
        assert names_in(found) == GRAPH.names
        assert merge_set(found) == merge_set(dask_rac.cluster(GRAPH.numbered))
        (attempt,) = (store / "names").iterdir()
        record = json.loads((store / "manifests/00000.json").read_text())["names"]
        assert {part.name for part in attempt.iterdir()} == {Path(part["name"]).name for part in record["parts"]}
        assert not list((store / "rounds").iterdir())


def test_killed_before_its_header_a_named_run_can_begin_in_the_same_folder() -> None:
    with quick_folder() as folder:
        dask_rac.ingest(written(folder / "edges.csv"), folder / "edges")
        assert kill_run(folder / "edges", folder / "run", Kill("os.link", False, 0)) == signal.SIGKILL
        assert list((folder / "run/names").iterdir())
        found = dask_rac.cluster(folder / "edges", store=folder / "run")
        assert names_in(found) == GRAPH.names
        assert len(list((folder / "run/names").iterdir())) == 1


def written(path: Path) -> Path:
    GRAPH.frame.to_csv(path, index=False)
    return path


def test_given_names_survive_a_kill() -> None:
    with quick_folder() as folder:
        dask_rac.ingest(written(folder / "edges.csv"), folder / "edges")
        kill = Kill("dask_rac.store.manifest.commit", False, 0)
        assert kill_run(folder / "edges", folder / "run", kill) == signal.SIGKILL
        assert names_in(dask_rac.resume(folder / "run")) == GRAPH.names


@pytest.fixture
def quick() -> Iterator[Path]:
    with quick_folder() as folder:
        yield folder


def test_workers_number_nodes_as_threads_do(quick: Path) -> None:
    GRAPH.frame.to_parquet(quick / "edges.parquet", row_group_size=50)
    here = cluster_within(SMALL, quick / "edges.parquet", store=quick / "here", shards=2)
    with local_client(2, processes=False) as client:
        there = cluster_within(SMALL, quick / "edges.parquet", store=quick / "there", shards=2, client=client)
        assert fingerprint(there) == fingerprint(here)
        assert names_in(there) == names_in(here) == GRAPH.names
        there.verify(client=client)
        frame = dd.from_pandas(GRAPH.frame, npartitions=3)
        spooled = cluster_within(SMALL, frame, store=quick / "spooled", shards=2, client=client)
        assert names_in(spooled) == GRAPH.names
        one = dask_rac.cluster(frame, client=client)
        assert names_in(one) == GRAPH.names
        assert fingerprint(one) == fingerprint(dask_rac.cluster(GRAPH.numbered))
        handle = dask_rac.cluster(GRAPH.frame, client=client, wait=False)
        assert names_in(handle.result()) == GRAPH.names


@pytest.mark.parametrize("part_names", [1, 7, 1000])
def test_names_on_disk_are_those_in_memory(part_names: int, tmp_path: Path) -> None:
    limits = Limits(part_names=part_names)
    stored = cluster_within(limits, GRAPH.frame, store=tmp_path / "run").names
    held = dask_rac.cluster(GRAPH.frame).names
    assert stored is not None
    assert held is not None
    nodes = np.random.default_rng(0).integers(0, len(held), 500)
    wanted = [*GRAPH.names, "nobody", "", "zz"] * 2
    for names in (stored, held):
        assert len(names) == len(GRAPH.names)
        assert names.texts(nodes) == [GRAPH.names[node] for node in nodes]
        assert names.find(wanted).tolist() == [*range(len(names)), -1, -1, -1] * 2
        assert [name for batch in names.batches() for name in batch.to_pylist()] == GRAPH.names
        assert names.slice(3, 3).to_pylist() == names.texts(np.array([], np.int64)) == []
        assert names[5] == GRAPH.names[5]
        with pytest.raises(IndexError):
            names[len(names)]


def test_names_that_repeat_stand_for_the_first_node(tmp_path: Path) -> None:
    names = ["b", "a", "b", "c"]
    for store in (None, tmp_path / "run"):
        found = dask_rac.cluster(EDGES, names=names, store=store)
        assert names_in(found) == names
        assert found.names is not None
        assert found.names.find(["c", "b", "a", "d"]).tolist() == [3, 0, 1, -1]


@pytest.mark.parametrize("text", [True, False])
def test_damaged_names_are_noticed(text: bool, tmp_path: Path) -> None:
    GRAPH.frame.to_parquet(tmp_path / "edges.parquet")
    edges: Any = tmp_path / "edges.parquet" if text else GRAPH.frame
    dask_rac.cluster(edges, store=tmp_path / "run")
    (file,) = (tmp_path / "run/names").glob("*/*/bytes/0")
    data = bytearray(file.read_bytes())
    data[10] ^= 1
    file.write_bytes(data)
    with pytest.raises(dask_rac.DamagedStoreError, match=r"names/.*/bytes/0 is damaged: the checksum of chunk 0"):
        names_in(dask_rac.open(tmp_path / "run"))
    file.unlink()
    with pytest.raises(dask_rac.DamagedStoreError, match=r"names/.*/bytes/0 is missing"):
        names_in(dask_rac.open(tmp_path / "run"))


def test_damaged_names_beside_edges_are_noticed(tmp_path: Path) -> None:
    dask_rac.ingest(written(tmp_path / "edges.csv"), tmp_path / "edges")
    (tmp_path / "edges/_names/record.json").write_text("{}")
    with pytest.raises(dask_rac.DamagedStoreError, match=r"_names/record.json is damaged: write the edges again"):
        dask_rac.cluster(tmp_path / "edges")


def test_names_come_from_an_index_a_graph_or_the_user(tmp_path: Path) -> None:
    index = [f"p{number}" for number in range(30)]
    vectors = pd.DataFrame(np.random.default_rng(0).random((30, 3)), index)
    graph = {"k": 20}
    edges = dask_rac.knn_graph(vectors, k=20)
    lazy = dask_rac.knn_graph(vectors, k=20, store=tmp_path / "graph")
    edges.to_parquet(tmp_path / "edges.parquet")
    found = [
        dask_rac.cluster(vectors, metric="euclidean"),
        dask_rac.cluster(vectors, metric="euclidean", store=tmp_path / "1"),
        dask_rac.cluster(vectors, graph=graph),
        dask_rac.cluster(vectors, graph=graph, store=tmp_path / "2"),
        dask_rac.cluster(edges),
        dask_rac.cluster(edges.assign(weight=edges["weight"] * 2), store=tmp_path / "3"),
        dask_rac.cluster(lazy),
        dask_rac.cluster(tmp_path / "graph"),
        dask_rac.cluster(tmp_path / "graph", store=tmp_path / "4"),
        dask_rac.cluster(pd.read_parquet(tmp_path / "edges.parquet")),
        dask_rac.cluster(vectors.to_numpy(), names=index),
        dask_rac.cluster(vectors.to_numpy(), names=vectors.index, wait=False).result(),
        dask_rac.RAC(n_clusters=2).fit(vectors).clustering_,
    ]
    assert [names_in(one) for one in found] == [index] * len(found)
    assert dask_rac.cluster(vectors.reset_index(drop=True), metric="euclidean").names is None
    kept = vectors.reset_index(drop=True).iloc[::2]
    assert names_in(dask_rac.cluster(kept, metric="euclidean"))[:3] == ["0", "2", "4"]


def test_names_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes("\ufeffann\r\nbob\n\nçid".encode())
    pd.DataFrame({"id": [4, 3, 2, 1], "name": ["x", "y", "z", "w"]}).to_parquet(tmp_path / "names.parquet")
    pd.DataFrame({"id": [4, 3, 2, 1]}).to_parquet(tmp_path / "ids.parquet")
    for name, expected in {
        "names.txt": ["ann", "bob", "", "çid"],
        "names.parquet": ["x", "y", "z", "w"],
        "ids.parquet": ["4", "3", "2", "1"],
    }.items():
        for store in (None, tmp_path / f"run {name}"):
            assert names_in(dask_rac.cluster(EDGES, names=tmp_path / name, store=store)) == expected


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"names": ["a", None, "c", "d"]}, "column 'names' is null in place 1"),
        ({"names": ["a", 1, "c", "d"]}, "names= are not all text"),
        ({"names": [1.5, 2, 3, 4]}, "names= are double, not text: give a sequence"),
        ({"names": 5}, "names= cannot be a int: give a sequence or column of text"),
        ({"names": [["a"], ["b"]]}, "names= (cannot be a list|are list)"),
        ({"names": ""}, "names='' is not a path"),
        ({"names": "nowhere.txt"}, "names='nowhere.txt' does not exist"),
        ({"names": ["a", "b", "c"]}, r"column 'target' is at or beyond 3 in row 2 \(3\): raise n_nodes"),
        ({"names": ["a"] * 4, "n_nodes": 5}, "names= has 4 names for 5 nodes, as n_nodes=5 states: give one name for"),
    ],
)
def test_names_that_do_not_fit(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    for store in (None, tmp_path / "run"):
        with pytest.raises(dask_rac.InputError, match=message):
            dask_rac.cluster(EDGES, store=store, **more)
        assert not (tmp_path / "run").exists()


def _clustered(vectors: Any, **options: Any) -> Any:
    """Return the result, also of a run in the background."""
    found: Any = dask_rac.cluster(vectors, **options)
    return found.result() if options.get("wait") is False else found


def test_there_is_a_name_for_each_vector(tmp_path: Path) -> None:
    vectors = np.random.default_rng(0).random((8, 3))
    for more in ({"metric": "euclidean"}, {"graph": {"k": 3}}):
        for place in ({}, {"store": tmp_path / "run"}, {"wait": False}):
            with pytest.raises(dask_rac.InputError, match=r"3 names for 8 vectors: give one name for each"):
                _clustered(vectors, names=list("abc"), **more, **place)
    assert not (tmp_path / "run").exists()
