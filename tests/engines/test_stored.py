"""Runs through the disk match runs in memory to the last bit, wherever and however they run."""

import os
import threading
from collections import Counter
from pathlib import Path
from time import sleep
from typing import Any
from unittest import mock

import dask
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import dask_rac
from dask_rac.engines.contract import Limits
from dask_rac.files import readers
from dask_rac.files.arrays import read_array
from dask_rac.files.folder import Folder
from tests.support.limits import cluster_within
from tests.support.named_graphs import GRAPHS, SMALL, SMALL_BUDGET
from tests.support.results import assert_same, merges_frame
from tests.support.stored import PlugPulledError, steps_of, stop_after, write_parquet


def test_a_store_need_not_be_a_disk(folder: Path) -> None:
    edges = GRAPHS["tangled"]
    url = f"memory://{folder.name}/run"
    found = dask_rac.cluster(write_parquet(folder / "edges.parquet", edges), store=url, shards=3)
    assert_same(found, dask_rac.cluster(edges))
    assert found.store == url
    assert_same(dask_rac.open(url), found)
    assert found.verify().ok


@pytest.mark.parametrize("limits", [Limits(), Limits(direct_shards=1, direct_blocks=0)])
@pytest.mark.parametrize("options", [{}, {"weights": "similarity", "linkage": "complete"}])
def test_an_object_store_is_asked_for_several_things_at_a_time(
    folder: Path, limits: Limits, options: dict[str, Any]
) -> None:
    lock, reading, together = threading.Lock(), Counter[str](), Counter[str]()
    read, kinds = Folder._read, ("routed", "sorted", "neighbour", "height", "moved", "gathered")

    def slow_read(self: Folder, path: str, *span: Any) -> bytes:
        kind = next((kind for kind in kinds if f"/{kind}" in path), "")
        with lock:
            reading[kind] += 1
            together[kind] = max(together[kind], reading.total() if kind else 0)
        sleep(0.002)
        try:
            return read(self, path, *span)
        finally:
            with lock:
                reading[kind] -= 1

    edges = write_parquet(folder / "edges.parquet", GRAPHS["tangled"])
    with mock.patch.object(Folder, "_read", slow_read), dask.config.set(num_workers=1):
        found = cluster_within(limits, edges, store=f"memory://{folder.name}/run", shards=5, **options)
    assert_same(found, dask_rac.cluster(GRAPHS["tangled"], **options))
    by_groups = limits.direct_shards == 1  # then the one piece of the input is one routed file
    assert min(together[kind] for kind in ("neighbour", "height", "moved", *(() if by_groups else ("routed",)))) > 1
    assert bool(together["gathered"]) == bool(together["sorted"]) == by_groups
    assert max(together.values()) <= readers.READERS


def test_what_is_left_is_read_as_what_every_process_needs(folder: Path) -> None:
    found: set[str] = set()

    def read(store: Any, name: str, *arguments: Any, **options: Any) -> Any:
        found.add(name.rpartition("/")[2])
        return read_array(store, name, *arguments, **options)

    edges = write_parquet(folder / "edges.parquet", SMALL)
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(edges, finisher=False, store=folder / "run", memory=SMALL_BUDGET, progress=stop_after(1))
    with mock.patch.object(readers, "read_array", read):
        dask_rac.resume(folder / "run", memory="1GB")
    assert found == {"length", "nearest", "height", "ids", "size", "top"}


def test_a_path_may_be_relative_and_end_in_a_slash(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    write_parquet(Path("edges.parquet"), GRAPHS["grid"])
    found = dask_rac.cluster("edges.parquet", store="run/", shards=2)
    monkeypatch.chdir("/")
    assert found.store == str(folder / "run")
    assert_same(dask_rac.open(folder / "run"), found)
    assert found.verify().ok


def test_a_run_on_its_way_can_be_looked_at_and_goes_on(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", SMALL)
    options: dict[str, Any] = {"finisher": False, "store": folder / "run", "memory": SMALL_BUDGET}
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(edges, progress=stop_after(2), **options)
    expected = dask_rac.cluster(SMALL, finisher=False)
    early = dask_rac.open(folder / "run")
    assert not early.finished
    assert repr(early).endswith(f"store={folder / 'run'}, unfinished>")
    assert early.rounds["round"].tolist() == [1, 2]
    so_far = expected.merges[expected.merges["round"] <= 2]
    pd.testing.assert_frame_equal(merges_frame(early), so_far)
    assert len(np.unique(early.labels)) == early.n_trees == early.n_nodes - len(so_far)
    with pytest.raises(dask_rac.StoreError, match=r"already holds a run: resume with dask_rac\.resume\('.*run'\)"):
        dask_rac.cluster(edges, **options)
    assert_same(dask_rac.resume(folder / "run", memory=SMALL_BUDGET), expected)
    assert dask_rac.open(folder / "run").finished
    assert_same(dask_rac.resume(folder / "run"), expected)


def test_folders_that_hold_something_else_are_left_alone(folder: Path) -> None:
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    with pytest.raises(dask_rac.StoreError, match="was left untouched: choose another folder"):
        dask_rac.cluster(SMALL, store=folder / "mine")
    with pytest.raises(dask_rac.StoreError, match=r"notes\.txt is a file"):
        dask_rac.cluster(SMALL, store=folder / "mine" / "notes.txt")
    assert (folder / "mine" / "notes.txt").read_text() == "mine"
    assert os.listdir(folder / "mine") == ["notes.txt"]
    for look in (dask_rac.open, dask_rac.resume):
        with pytest.raises(dask_rac.StoreError, match=r"is not a store of dask_rac: it has no rac\.json"):
            look(folder / "mine")
    assert os.listdir(folder / "mine") == ["notes.txt"]


def test_an_empty_folder_will_do(folder: Path) -> None:
    (folder / "run").mkdir()
    assert dask_rac.cluster(SMALL, store=folder / "run").n_nodes == 400


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shards": 0}, "shards=0 is out of range: use 1 or more"),
        ({"shards": 2.5}, "shards=2.5 is not a whole number"),
        ({"n_nodes": -1}, "n_nodes=-1 is out of range"),
        ({"memory": "much"}, "memory='much' is not an amount of memory: give bytes, or text such as '6GB'"),
        ({"memory": -1}, "memory=-1 is not an amount"),
        ({"client": "tcp://nowhere"}, "is not a distributed.Client: leave it out"),
    ],
)
def test_bad_options(options: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(SMALL, store=folder / "run", **options)
    assert not (folder / "run").exists()


@pytest.mark.parametrize("name", ["memory", "shards"])
def test_options_of_stored_runs_need_a_store(name: str) -> None:
    given_options: dict[str, Any] = {name: 3}
    with pytest.raises(dask_rac.InputError, match=f"{name}= is only for runs through the disk: give store= as well"):
        dask_rac.cluster(SMALL, **given_options)


def test_nothing_but_the_result_is_left(folder: Path) -> None:
    found = dask_rac.cluster(SMALL, store=folder / "run", shards=5)
    assert set(os.listdir(folder / "run")) == {"rac.json", "lock", "manifests", "merges", "rounds", "statistics"}
    assert os.listdir(folder / "run" / "rounds") == []
    tables = {table.name for step in steps_of(folder / "run") for table in step.merges}
    assert {f"merges/{name}" for name in os.listdir(folder / "run" / "merges")} == tables
    assert len(os.listdir(folder / "run" / "statistics")) == len(found.rounds)


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
