"""Graphs of vectors are the same, byte by byte, wherever they are built and however often they are stopped."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from distributed import Client
from hypothesis import given

import dask_rac
from dask_rac.base.errors import DamagedStoreError, InputError, ResourceError, StoreError, StoreInUseError
from dask_rac.files.folder import Folder
from dask_rac.vectors.graph import balls, job, neighbours, stages
from tests.support import crash
from tests.support.effort import examples
from tests.support.folders import no_fsync, quick_folder
from tests.support.vectors import drawn
from tests.support.ways import Way, computed, quiet, ways, written

VECTORS = drawn("normal", 60, 4, 0)
SPARSE = sp.csr_array(drawn("zeros", 60, 4, 1) + np.array([0.5, 0.0, 0.0, 0.0]))
FILES = Way(most_rows=20, near_rows=20, file_edges=60, threads=1)


@dataclass(frozen=True)
class Wanted:
    """A graph, and how it is built."""

    function: str
    options: dict[str, Any]
    way: Way = field(default_factory=lambda: FILES)
    vectors: Any = field(default_factory=lambda: VECTORS)

    def make(self, store: Path, **more: Any) -> Any:
        """Build the graph, or resume it."""
        with computed(self.way) as graphs:
            return quiet(getattr(graphs, self.function), self.vectors, store=store, **self.options | more)


GRAPHS = {
    "products": Wanted("knn_graph", {"k": 3}),
    "tree": Wanted("knn_graph", {"k": 3, "mode": "mutual"}, replace(FILES, tree=True)),
    "sparse": Wanted("knn_graph", {"k": 3, "metric": "cosine"}, FILES, SPARSE),
    "ball": Wanted("eps_graph", {"eps": 2.0}),
    "ball, found again": Wanted("eps_graph", {"eps": 2.0}, replace(FILES, kept_bytes=2**60)),
    "ball, tree": Wanted("eps_graph", {"eps": 2.0}, replace(FILES, tree=True)),
    "all pairs": Wanted("complete_graph", {}, replace(FILES, file_edges=300)),
}


LONG = [pytest.param(name, marks=pytest.mark.soak) for name in ("tree", "ball, found again")]
SELDOM = [pytest.param(name, marks=pytest.mark.soak) for name in ("vectors", "lists", "edges")]
OFTEN = ("products", "tree", "ball", "all pairs")


@pytest.fixture(params=[name if name in OFTEN else pytest.param(name, marks=pytest.mark.soak) for name in GRAPHS])
def wanted(request: pytest.FixtureRequest) -> Wanted:
    return GRAPHS[request.param]


def partial(store: Path) -> Path:
    """Return where a graph is written until it is complete."""
    return store.with_name(f"{store.name}.partial")


def contents(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return all that a folder holds, except locks, and when it was written."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "lock")
    return {str(path.relative_to(folder)): (path.read_bytes(), path.stat().st_mtime_ns) for path in sorted(files)}


def stop_at(number: int, stages: tuple[str, ...] = ()) -> Callable[[Any], None]:
    """Stops at an event, counted from 0, of the given stages or of all."""
    events = itertools.count()

    def progress(event: Any) -> None:
        if (not stages or event.stage in stages) and next(events) == number:
            raise KeyboardInterrupt

    return progress


def stop_after_one(event: Any) -> None:
    """Stops when a task that leaves a file has ended."""
    if event.done and event.stage in {"neighbours", "lists", "edges"}:
        raise KeyboardInterrupt


def stopped(wanted: Wanted, store: Path, number: int, *stages: str) -> None:
    """Begin a graph and stop it."""
    with pytest.raises(KeyboardInterrupt) as caught:
        wanted.make(store, progress=stop_at(number, stages))
    assert "run it again with the same arguments to continue" in "".join(caught.value.__notes__)


# The same bytes


@pytest.mark.parametrize("name", ["products", "sparse", "ball"])
@given(way=ways)
@examples(8)
def test_the_way_does_not_matter(name: str, way: Way) -> None:
    shape = {"file_edges": 60, "group_edges": 2**20}  # what files look like
    with quick_folder() as folder:
        replace(GRAPHS[name], way=Way(**shape)).make(folder / "plain")  # type: ignore[arg-type]
        replace(GRAPHS[name], way=replace(way, **shape)).make(folder / "other")  # type: ignore[arg-type]
        assert written(folder / "other") == written(folder / "plain")


@pytest.mark.parametrize("kind", ["grid", "tenths", "copies", "offset", "equal"])
@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_ties_do_not_depend_on_the_way(kind: str, metric: str, folder: Path) -> None:
    values = drawn(kind, 50, 3, 2)
    values[~values.any(axis=1), 0] = 1
    found = []
    for number, way in enumerate(
        [Way(), Way(tree=True), Way(most_rows=11, tile=(3, 5), flooded=0), Way(double=True, threads=3)]
    ):
        one = Wanted("knn_graph", {"k": 4, "metric": metric}, replace(way, file_edges=60), values)
        one.make(folder / str(number))
        found.append(written(folder / str(number)))
    assert all(other == found[0] for other in found)


@pytest.mark.parametrize(
    ("function", "options"),
    [(dask_rac.knn_graph, {"k": 5}), (dask_rac.eps_graph, {"eps": 2.5}), (dask_rac.complete_graph, {})],
)
def test_budgets_and_threads_do_not_matter(function: Any, options: dict[str, Any], folder: Path) -> None:
    """Real budgets, within the default limits."""
    values = drawn("normal", 1_500, 20, 0).astype(np.float32)
    found = []
    for number, (memory, threads) in enumerate([("2GB", 1), ("2GB", 4), ("11MB", 2), ("8MB", 1)]):
        with dask.config.set(num_workers=threads), no_fsync():
            quiet(function, values, **options, store=folder / str(number), memory=memory)
        found.append(written(folder / str(number)))
    assert [len(other) for other in found] == [len(found[0])] * len(found)
    assert all(other == found[0] for other in found)


def test_workers_give_the_same(wanted: Wanted, client: Client, folder: Path) -> None:
    np.save(folder / "x.npy", VECTORS)
    one = replace(wanted, way=replace(wanted.way, group_edges=7, tile=(3, 4), sparse_tile=30))
    one.make(folder / "threads")
    one.make(folder / "workers", client=client)
    assert written(folder / "workers") == written(folder / "threads")
    if one.vectors is VECTORS:
        replace(one, vectors=folder / "x.npy").make(folder / "file", client=client)
        replace(one, vectors=da.from_array(VECTORS, chunks=(17, 4))).make(folder / "dask", client=client)
        assert written(folder / "file") == written(folder / "dask") == written(folder / "threads")


def test_workers_do_not_remember_other_vectors(client: Client, folder: Path) -> None:
    """A store is deleted and built again from other vectors by the same workers."""
    for name in ("products", "tree", "ball, tree"):
        one = GRAPHS[name]
        other = replace(one, vectors=one.vectors[::-1] ** 2)
        one.make(folder / "edges", client=client)
        shutil.rmtree(folder / "edges")
        other.make(folder / "edges", client=client)
        other.make(folder / "expected")
        assert written(folder / "edges") == written(folder / "expected"), name
        shutil.rmtree(folder / "edges")
        shutil.rmtree(folder / "expected")


@pytest.mark.parametrize("name", ["products", "tree", "ball, tree"])
def test_a_stopped_run_is_not_remembered(name: str, folder: Path) -> None:
    """Stopped while edges are written, deleted, and built again from other vectors in the same process."""
    one = GRAPHS[name]
    other = replace(one, vectors=one.vectors[::-1] ** 2)
    stopped(one, folder / "edges", 1, "edges")
    shutil.rmtree(partial(folder / "edges"))
    other.make(folder / "edges")
    other.make(folder / "expected")
    assert written(folder / "edges") == written(folder / "expected")


# Stopped and called again


TASKS = ("search_self", "search_cross", "settle_lists", "tree_lists", "find_near")


@contextmanager
def counted() -> Iterator[Counter[tuple[Any, ...]]]:
    """Count how often each task has ended, except those that check vectors, which start over."""
    count: Counter[tuple[Any, ...]] = Counter()

    def watched(function: Any) -> Any:
        def run(job: Any, *numbers: Any) -> Any:
            result = function(job, *numbers)
            count[function.__name__, *numbers] += 1
            return result

        run.__name__ = function.__name__
        return run

    with ExitStack() as stack:
        for name in TASKS:
            module = balls if hasattr(balls, name) else neighbours
            stack.enter_context(mock.patch.object(module, name, watched(getattr(module, name))))
        stack.enter_context(mock.patch.object(stages, "write_file", watched(job.write_file)))
        yield count


def test_stopped_anywhere(wanted: Wanted, folder: Path) -> None:
    events: list[Any] = []
    with counted() as expected:
        wanted.make(folder / "expected", progress=events.append)
    assert len(expected) > 5
    files = written(folder / "expected")
    for number in range(len(events)):
        store = folder / f"run-{number}"
        with counted() as count:
            stopped(wanted, store, number)
            assert not store.exists()
            wanted.make(store)
        assert written(store) == files
        assert sorted(path.name for path in store.iterdir()) == sorted([*files, "_graph.json"])
        assert not partial(store).exists()
        if events[number].stage not in {"load", "vectors"}:
            assert count == expected, number
        assert set(count) == set(expected)
        shutil.rmtree(store)


def test_stopped_again_and_again(wanted: Wanted, folder: Path) -> None:
    """Stop after one task each time."""
    wanted.make(folder / "expected")
    with counted() as count:
        for _ in range(200):
            with suppress(KeyboardInterrupt):
                wanted.make(folder / "edges", progress=stop_after_one)
                break
    assert set(count.values()) == {1}
    assert written(folder / "edges") == written(folder / "expected")


def test_stopped_with_several_threads(folder: Path) -> None:
    """Tasks that are still running after a stop do no harm."""
    one = replace(GRAPHS["products"], way=replace(FILES, most_rows=8, threads=4))
    one.make(folder / "expected")
    for number in range(0, 60, 7):
        stopped(one, folder / "edges", number)
        one.make(folder / "edges")
        assert written(folder / "edges") == written(folder / "expected")
        shutil.rmtree(folder / "edges")


def test_another_budget_goes_on(folder: Path) -> None:
    """Settings for threads, spans and the tree may change: the graph keeps those it began with."""
    one = GRAPHS["products"]
    one.make(folder / "expected")
    for number in (2, 6, 10, 14):
        stopped(one, folder / "edges", number, "neighbours", "lists", "edges")
        replace(one, way=replace(FILES, most_rows=7, tree=True, threads=3, double=True)).make(folder / "edges")
        assert written(folder / "edges") == written(folder / "expected")
        shutil.rmtree(folder / "edges")


def test_workers_go_on_with_what_threads_began(client: Client, folder: Path) -> None:
    one = GRAPHS["products"]
    one.make(folder / "expected")
    for number in (3, 12):
        stopped(one, folder / "edges", number)
        one.make(folder / "edges", client=client)
        assert written(folder / "edges") == written(folder / "expected")
        shutil.rmtree(folder / "edges")


def make_to_death(name: str, store: Path, target: str, call: int) -> str:
    """Build a graph, and kill the process after a call of a function."""
    calls = itertools.count()

    def count(after: bool) -> None:
        if after and next(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)

    with crash.patch_calls(target, count):
        GRAPHS[name].make(store)
    return "done"


@pytest.mark.parametrize("name", ["products", pytest.param("ball", marks=pytest.mark.soak)])
def test_killed(name: str, folder: Path) -> None:
    one = GRAPHS[name]
    with counted() as expected:
        one.make(folder / "expected")
    for call in (5, 10):
        store = folder / f"edges-{call}"
        assert crash.Child(make_to_death, name, store, "os.replace", call).join() is signal.SIGKILL
        assert partial(store).exists()
        done = len(list(partial(store).glob("work/*/*.npz"))) + len(list(partial(store).glob("*.parquet")))
        assert done > 1
        with counted() as count:
            one.make(store)
        assert written(store) == written(folder / "expected")
        assert len(count) < len(expected)
        assert set(count.values()) == {1}
        assert not partial(store).exists()


def test_killed_while_it_cleans_up(folder: Path) -> None:
    """Folders are deleted in any order: whatever goes first, leftovers do not get into another graph."""
    one = GRAPHS["products"]
    other = replace(one, vectors=VECTORS[::-1] ** 2)
    other.make(folder / "expected")
    stopped(one, folder / "edges", 0, "components")
    (partial(folder / "edges") / "work" / "header.json").unlink()
    with suppress(InputError):
        other.make(folder / "edges")
        assert written(folder / "edges") == written(folder / "expected")


def test_a_complete_graph_is_kept_if_its_name_is_taken(folder: Path) -> None:
    one, store = GRAPHS["products"], folder / "edges"
    one.make(folder / "expected")

    def take(event: Any) -> None:
        if event.stage == "components":
            store.mkdir()
            (store / "precious").touch()

    with pytest.raises(InputError, match=r"edges\.partial is complete but cannot be renamed: .*; rename it"):
        one.make(store, progress=take)
    assert os.listdir(store) == ["precious"]
    assert written(partial(store)) == written(folder / "expected")
    shutil.rmtree(store)
    with counted() as count:
        one.make(store)
    assert not count
    assert written(store) == written(folder / "expected")


def test_a_complete_graph_is_kept_if_cleaning_up_is_interrupted(folder: Path) -> None:
    one, store = GRAPHS["products"], folder / "edges"
    one.make(folder / "expected")
    remove = Folder.remove

    def interrupted(self: Folder, name: str) -> None:
        remove(self, name)
        if name == "work":
            raise KeyboardInterrupt

    with mock.patch.object(Folder, "remove", interrupted), pytest.raises(KeyboardInterrupt):
        one.make(store)
    with counted() as count:
        one.make(store)
    assert not count
    assert written(store) == written(folder / "expected")


# Refused


@pytest.mark.parametrize("number", [2, 8, 15])
def test_left_of_another_graph(number: int, folder: Path) -> None:
    one, store = GRAPHS["products"], folder / "edges"
    stopped(one, store, number, "neighbours", "lists", "edges")
    before = contents(partial(store))
    others = [
        replace(one, vectors=VECTORS + 1),
        replace(one, options={"k": 4}),
        replace(one, options={"k": 3, "metric": "cosine"}),
        replace(one, options={"k": 3, "mode": "mutual"}),
        GRAPHS["ball"],
        GRAPHS["all pairs"],
    ]
    message = r"edges\.partial belongs to another graph .*delete it, or choose another path"
    for other in others:
        with pytest.raises(InputError, match=message):
            other.make(store)
        assert contents(partial(store)) == before
    one.make(store)


def test_finished_stores_are_given_again_or_refused(wanted: Wanted, folder: Path) -> None:
    wanted.make(folder / "edges")
    before = contents(folder)
    wanted.make(folder / "edges")
    assert contents(folder) == before
    with pytest.raises(InputError, match=r"edges belongs to another graph \(the vectors differ\): delete it"):
        replace(wanted, vectors=wanted.vectors * 2).make(folder / "edges")
    assert contents(folder) == before


def test_folders_of_others_are_refused(folder: Path) -> None:
    """A folder that happens to have the name is not deleted."""
    other = partial(folder / "edges")
    other.mkdir()
    (other / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError):
        dask_rac.knn_graph(np.array([[np.nan], [1.0], [2.0]]), 1, store=folder / "edges")
    assert (other / "thesis.txt").read_text() == "years of work"
    with pytest.raises(InputError, match=r"edges\.partial exists and was not made by dask_rac: move it, or choose"):
        GRAPHS["products"].make(folder / "edges")
    assert (other / "thesis.txt").read_text() == "years of work"


def test_a_file_in_the_way(folder: Path) -> None:
    (folder / "edges").write_text("a file")
    with pytest.raises(InputError, match="edges is a file"):
        GRAPHS["products"].make(folder / "edges")
    with pytest.raises(InputError, match="cannot be written"):
        GRAPHS["products"].make(folder / "edges" / "inside")
    assert sorted(os.listdir(folder)) == ["edges"]


@pytest.mark.parametrize("stage", ["load", "neighbours", "components", *SELDOM])
def test_two_at_once(stage: str, folder: Path) -> None:
    """The second call is refused, and the first is not disturbed, however far it is."""
    one, store = GRAPHS["products"], folder / "edges"
    one.make(folder / "expected")
    refused: list[Any] = []

    def progress(event: Any) -> None:
        if event.stage == stage and not refused:
            before = contents(partial(store))
            with pytest.raises(StoreInUseError, match=f"in use by process {os.getpid()}"):
                one.make(store)
            assert contents(partial(store)) == before
            assert (partial(store) / "lock").exists()
            refused.append(event)

    one.make(store, progress=progress)
    assert refused
    assert written(store) == written(folder / "expected")


def bad(value: float, form: Callable[[Any], Any] = np.array, dtype: str = "float64") -> Any:
    """Return vectors, one of which cannot be used."""
    values = drawn("normal", 30, 4, 0).astype(dtype)
    values[17, 2] = value
    return form(values)


def zero_row(form: Callable[[Any], Any] = np.array) -> Any:
    """Return vectors, one of which has no direction."""
    values = drawn("normal", 30, 4, 0)
    values[11] = 0
    return form(values)


REFUSALS: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "nan": (dask_rac.knn_graph, bad(np.nan), {}, r"row 17 has nan in dimension 2: drop such vectors, or fill them in"),
    "inf": (dask_rac.eps_graph, bad(-np.inf, dtype="float32"), {"eps": 1}, r"row 17 has -inf in dimension 2: drop"),
    "sparse nan": (dask_rac.complete_graph, bad(np.nan, sp.csr_array), {}, r"row 17 has nan in dimension 2: drop"),
    "dask nan": (dask_rac.knn_graph, bad(np.nan, da.from_array), {}, r"row 17.* has nan in dimension 2: drop"),
    "zero": (
        dask_rac.knn_graph,
        zero_row(),
        {"metric": "cosine"},
        r"row 11 is all zeros and has no direction: drop it",
    ),
    "sparse zero": (dask_rac.eps_graph, zero_row(sp.csr_array), {"eps": 1, "metric": "cosine"}, "row 11 is all zeros"),
    "large": (dask_rac.knn_graph, bad(1e200), {}, r"row 17 has 1e\+200 in dimension 2, .*: scale the vectors"),
    "k too large": (dask_rac.knn_graph, VECTORS, {"k": 60}, r"k=60 is too large: .* 60 vectors.* set k=59 or less"),
    "k of one": (
        dask_rac.knn_graph,
        np.ones((1, 2)),
        {"k": 1},
        r"there is only one vector in the vectors, and it has no neighbours",
    ),
    "k 0": (dask_rac.knn_graph, VECTORS, {"k": 0}, r"k=0 is out of range: use 1 or more"),
    "k True": (dask_rac.knn_graph, VECTORS, {"k": True}, r"k=True is not a whole number"),
    "k 2.5": (dask_rac.knn_graph, VECTORS, {"k": 2.5}, r"k=2.5 is not a whole number"),
    "k text": (dask_rac.knn_graph, VECTORS, {"k": "3"}, r"k='3' is not a whole number"),
    "metric": (dask_rac.knn_graph, VECTORS, {"metric": "l2"}, r"metric='l2' is unknown: use one of 'euclidean'"),
    "metric None": (dask_rac.complete_graph, VECTORS, {"metric": None}, r"metric=None is unknown"),
    "metric list": (dask_rac.eps_graph, VECTORS, {"metric": ["cosine"], "eps": 1}, r"metric=\['cosine'\] is unknown"),
    "mode": (dask_rac.knn_graph, VECTORS, {"mode": "both"}, r"mode='both' is unknown: use one of 'union', 'mutual'"),
    "method": (dask_rac.knn_graph, VECTORS, {"method": "fast"}, r"method='fast' is unknown: use one of 'exact'"),
    "manhattan": (dask_rac.knn_graph, SPARSE, {"metric": "manhattan"}, r"metric='manhattan' is for dense.*'cosine'"),
    "eps below 0": (dask_rac.eps_graph, VECTORS, {"eps": -0.1}, r"eps=-0.1 is not a finite number, 0 or more"),
    "eps nan": (dask_rac.eps_graph, VECTORS, {"eps": float("nan")}, r"eps=nan is not a number"),
    "eps inf": (dask_rac.eps_graph, VECTORS, {"eps": float("inf")}, r"eps=inf is not a finite number"),
    "eps True": (dask_rac.eps_graph, VECTORS, {"eps": True}, r"eps=True is not a number"),
    "memory": (dask_rac.knn_graph, VECTORS, {"memory": "much"}, r"memory='much' is not an amount of memory"),
    "client": (
        dask_rac.knn_graph,
        VECTORS,
        {"client": "tcp://nowhere"},
        r"client='tcp://nowhere' is not a distributed",
    ),
    "columns": (dask_rac.knn_graph, VECTORS, {"columns": ["a"]}, r"columns= chooses columns"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused_before_anything_is_computed(name: str, folder: Path) -> None:
    function, vectors, options, text = REFUSALS[name]
    with dask.config.set(temporary_directory=str(folder)):
        for place in ({}, {"store": folder / "edges"}):
            with pytest.raises(InputError, match=text):
                function(vectors, **options | place)
            assert os.listdir(folder) == []


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_the_file_is_named(value: float, folder: Path) -> None:
    (folder / "parts").mkdir()
    for number, rows in enumerate(np.split(bad(value), [10])):
        np.save(folder / "parts" / f"{number}.npy", rows)
    with pytest.raises(InputError, match=rf"row 7 of .*parts/1\.npy has {value} in dimension 2: drop such vectors"):
        dask_rac.knn_graph(folder / "parts", 3, store=folder / "edges")
    assert os.listdir(folder) == ["parts"]


def test_the_number_of_bad_values_is_reported() -> None:
    values = bad(np.nan)
    values[17, 3] = values[17, 0] = np.inf
    with pytest.raises(InputError, match=r"row 17 has inf in dimension 0 \(2 more follow\)"):
        dask_rac.knn_graph(values, 3)


def small_disk() -> Any:
    """Simulate a disk without any room."""
    return mock.patch.object(Folder, "free_bytes", return_value=1_000)


@pytest.mark.parametrize("name", ["products", "tree", "all pairs"])
def test_refused_where_the_disk_is_too_small(name: str, folder: Path) -> None:
    text = r"edges take .* of disk, and .* are free: make room.*or use a"
    with small_disk(), pytest.raises(ResourceError, match=text):
        GRAPHS[name].make(folder / "edges")
    assert os.listdir(folder) == []


@pytest.mark.parametrize("name", ["ball", "ball, tree", "ball, found again"])
def test_balls_are_refused_once_they_are_counted(name: str, folder: Path) -> None:
    events: list[Any] = []
    one = GRAPHS[name]
    one.make(folder / "expected")
    text = r"at least \d+ edges take .* of disk.*or use a smaller eps"
    with small_disk(), pytest.raises(ResourceError, match=text):
        one.make(folder / "edges", progress=events.append)
    assert "neighbours" in {event.stage for event in events}
    assert "edges" not in {event.stage for event in events}
    assert not list(folder.glob("edges*/*.parquet"))
    one.make(folder / "edges")  # after making room, the counts are still there
    assert written(folder / "edges") == written(folder / "expected")


@pytest.mark.parametrize(
    ("function", "options", "remedy"),
    [
        (dask_rac.knn_graph, {"k": 5}, "a smaller k"),
        (dask_rac.eps_graph, {"eps": 1.0}, "a smaller eps"),
        (dask_rac.complete_graph, {}, "an eps ball or the k nearest neighbours"),
    ],
)
def test_refused_where_memory_is_too_small_for_the_edges(function: Any, options: dict[str, Any], remedy: str) -> None:
    text = rf"of memory, and .* may be used: give store=.*or use {remedy}"
    with mock.patch("dask_rac.api.graphs.memory_limit", return_value=100), pytest.raises(ResourceError, match=text):
        function(VECTORS, **options)


@pytest.mark.parametrize("form", [np.array, sp.csr_array])
@pytest.mark.parametrize(
    ("function", "options"),
    [(dask_rac.knn_graph, {"k": 5}), (dask_rac.eps_graph, {"eps": 30.0}), (dask_rac.complete_graph, {})],
)
def test_the_memory_that_is_asked_for_suffices(function: Any, options: dict[str, Any], form: Any, folder: Path) -> None:
    vectors = form(drawn("normal", 300, 500, 0))
    with dask.config.set(num_workers=2):
        with pytest.raises(ResourceError, match="set memory='") as caught:
            function(vectors, **options, store=folder / "edges", memory="1MB")
        assert os.listdir(folder) == []
        enough = re.search(r"memory='(\w+)'", str(caught.value))
        assert enough
        quiet(function, vectors, **options, store=folder / "edges", memory=enough[1])
    quiet(function, vectors, **options, store=folder / "expected")
    assert written(folder / "edges") == written(folder / "expected")


# Damaged


def damage(path: Path, fault: str) -> None:
    """Truncate a file, or change a byte in its middle."""
    data = path.read_bytes()
    middle = len(data) // 2
    path.write_bytes(
        data[:middle] if fault == "cut" else data[:middle] + bytes([data[middle] ^ 255]) + data[middle + 1 :]
    )


def fault_of(wanted: Wanted, store: Path) -> str | None:
    """Resume a graph, and return what it reports about a damaged file."""
    try:
        wanted.make(store)
    except DamagedStoreError as error:
        return str(error)
    return None


@pytest.mark.parametrize("fault", ["cut", "changed"])
@pytest.mark.parametrize("name", ["products", "ball", *LONG])
def test_damaged_files(name: str, fault: str, folder: Path) -> None:
    """Of all that was written before the stop: what is read is checked, what is deleted is written again."""
    one = GRAPHS[name]
    one.make(folder / "expected")
    damaged = set()
    for number in (2, 5, 13 if name == "products" else 6):
        stopped(one, folder / "left", number, "neighbours", "lists", "edges")
        for path in sorted(partial(folder / "left").glob("work/*/*.npz")):
            shutil.copytree(partial(folder / "left"), partial(folder / "edges"))
            file = partial(folder / "edges") / path.relative_to(partial(folder / "left"))
            damage(file, fault)
            if (error := fault_of(one, folder / "edges")) is not None:
                assert str(file) in error
                assert "delete it" in error
                damaged.add(file.parent.name)
                file.unlink()
                one.make(folder / "edges")
            assert written(folder / "edges") == written(folder / "expected"), file
            shutil.rmtree(folder / "edges")
        shutil.rmtree(partial(folder / "left"))
    assert "checked" in damaged
    assert len(damaged) > 1


@pytest.mark.parametrize("file", ["work/spans.json", "work/part-0.parquet.json", "work/header.json", "part-0.parquet"])
def test_other_damaged_files(file: str, folder: Path) -> None:
    one = GRAPHS["products"]
    one.make(folder / "expected")
    stopped(one, folder / "edges", 0, "components")
    path = next(partial(folder / "edges").glob(file.replace("part-0.", "part-*0.")))
    damage(path, "cut")
    with pytest.raises((StoreError, InputError), match=re.escape(str(path.relative_to(folder))) + "|another graph"):
        one.make(folder / "edges")
    if file != "work/header.json":
        path.unlink()
        one.make(folder / "edges")
        assert written(folder / "edges") == written(folder / "expected")


# Progress


def test_progress_counts_tasks(wanted: Wanted, folder: Path) -> None:
    events: list[Any] = []
    wanted.make(folder / "edges", progress=events.append)
    for _, group in itertools.groupby(
        (event for event in events if event.stage not in {"load", "components"}),
        lambda event: (event.stage, event.total),
    ):
        numbers = [event.done for event in group]
        assert set(numbers) == set(range(max(numbers) + 1))
    assert events[-1].stage in {"components", "edges"}


def test_the_folder_states_what_it_is(wanted: Wanted, folder: Path) -> None:
    frame = wanted.make(folder / "edges")
    facts = json.loads((folder / "edges" / "_graph.json").read_text())
    assert facts == frame.attrs["graph"]
    assert facts["edges"] == len(frame) == len(frame.compute())


# Memory


SCRIPT = """
    import re, sys, warnings
    from pathlib import Path
    import dask, dask.dataframe, numpy as np
    from dask_rac.vectors.graph.plan import GraphLimits
    from tests.support.ways import Graphs
    warnings.simplefilter("ignore")
    graphs = Graphs(GraphLimits(least_rows=16))
    function, option, threads, path, store, memory = sys.argv[1:]

    def highest():
        return int(re.search("VmHWM:\\s*(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

    options = eval(option)
    few = np.random.default_rng(0).standard_normal((40, 100)).astype(np.float32)
    with dask.config.set(num_workers=int(threads)):
        getattr(graphs, function)(few, **options)
        Path("/proc/self/clear_refs").write_text("5")  # forget how high it was
        before = highest()
        getattr(graphs, function)(path, **options, store=store, memory=memory)
        print(highest() - before)
"""


def grown(budget: float, function: str, options: dict[str, Any], threads: int, *places: Path) -> int:
    """Return by how many bytes a process grows while it builds a graph."""
    arguments = [function, repr(options), str(threads), *map(str, places), str(int(budget))]
    command = [sys.executable, "-c", textwrap.dedent(SCRIPT), *arguments]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def write_pieces(path: Path, rows: int, dimensions: int) -> Path:
    """Write vectors that are never in memory all at once."""
    rng = np.random.default_rng(0)
    values = np.lib.format.open_memmap(path, "w+", np.float32, (rows, dimensions))
    for first in range(0, rows, 100):
        values[first : first + 100] = rng.standard_normal((100, dimensions), np.float32)
        values.flush()
    return path


@pytest.mark.soak
def test_memory_stays_within_the_budget(folder: Path, tmp_path: Path) -> None:
    """For vectors that are three times as large."""
    path = write_pieces(tmp_path / "x.npy", 800, 25_000)
    budget = path.stat().st_size / 3
    assert grown(budget, "knn_graph", {"k": 5}, 1, path, folder / "edges") < budget + 10e6


@pytest.mark.parametrize(("function", "options"), [("complete_graph", {}), ("eps_graph", {"eps": 4.0})])
def test_memory_stays_within_the_budget_for_many_edges(
    function: str, options: Any, folder: Path, tmp_path: Path
) -> None:
    """For edges that take more than three times as much; row groups being written come on top."""
    path = write_pieces(tmp_path / "x.npy", 5_700, 4)
    assert grown(60e6, function, options, 2, path, folder / "edges") < 60e6 + 2 * 60e6
