"""What campaigns disturb: runs through a store, outputs, graphs of vectors, recipes; and what each must come to."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import numpy as np
import pandas as pd
from dask.local import synchronous_executor

import dask_rac
from dask_rac.base.names import HEADER, PARTIAL, WORK, is_temporary
from dask_rac.files import deleting, flushing
from tests.support import recipes
from tests.support.calls import Call, watched
from tests.support.crash import begin, layout, manifests, path_edges, result_hash, write_edges
from tests.support.folders import no_fsync, quick_folder

NODES = 20
VECTORS = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
RECIPE = """
folder: {folder}
steps:
  generate: {{nodes: 60, degree: 4, weights: similarity, output: edges}}
  cluster: {{weights: similarity, shards: 2}}
  cut: {{n_clusters: [5, 9], output: labels.parquet}}
  export: {{output: tree.nwk}}
"""


@dataclass(frozen=True)
class Run:
    """A run through a store, and what it comes to if nothing disturbs it."""

    name: str
    given: Any = field(repr=False)
    """A folder of edges, or edges in memory."""
    options: Mapping[str, Any]
    hash: str = ""
    layout: list[str] = field(default_factory=list, repr=False)

    def begin(self, store: Path) -> dask_rac.StoredClustering:
        """Begin the run in a new store."""
        return begin(self.given, store, **self.options)

    def make(self, store: Path) -> dask_rac.StoredClustering:
        """Resume the run, or begin it if it has not begun."""
        return dask_rac.resume(store) if os.path.exists(store / HEADER) else self.begin(store)

    def undisturbed(self, store: Path) -> Run:
        """Find out what it comes to."""
        return replace(self, hash=result_hash(self.begin(store)), layout=layout(store))

    def check(self, store: Path) -> None:
        """Finish the run, and check that it came to what it must, and left nothing else behind."""
        try:
            found = self.make(store)
        except dask_rac.StoreError as error:
            if isinstance(self.given, Path) or manifests(store) or "another folder" not in str(error):
                raise
            store = store.with_name("another folder")  # edges in memory are gone with the process that had them
            found = self.begin(store)
        assert result_hash(found) == self.hash, "another result"
        dask_rac.resume(store)  # deletes what could not be deleted before
        assert layout(store) == self.layout, "something is missing or was left behind"


@dataclass(frozen=True)
class Output:
    """Something that is written at a path, from a finished run or from vectors, and its files."""

    name: str
    run: Path
    files: dict[str, bytes] = field(default_factory=dict, repr=False)

    def make(self, target: Path) -> None:
        """Write it."""
        if self.name == "graph":
            dask_rac.knn_graph(VECTORS, 4, store=target)
        elif self.name.endswith(("labels.parquet", "labels.zarr")):
            cuts = 4 if "one" in self.name else [2, 4]
            dask_rac.open(self.run).cut(n_clusters=cuts, store=target)
        else:
            dask_rac.open(self.run).export(target)

    def undisturbed(self, target: Path) -> Output:
        """Find out what it comes to."""
        self.make(target)
        return replace(self, files=contents(target))

    def check(self, target: Path) -> None:
        """Write it unless it is there, and check that it is what it must be, with nothing beside it."""
        if target.exists():
            assert contents(target) == self.files, "it is there, but not what it must be"
            if target.with_name(f"{target.name}{PARTIAL}").exists():
                return
        else:
            self.make(target)
        assert contents(target) == self.files, "not what it must be"
        beside = {path.name for path in target.parent.iterdir()} - {target.name}
        left = {name for name in beside if is_temporary(name, target.name, PARTIAL)}  # whose process was killed
        assert beside == left, "something was left behind"


@dataclass(frozen=True)
class Recipe:
    """A recipe, run in a folder of its own, and what its outputs are."""

    name: str
    files: dict[str, bytes] = field(default_factory=dict, repr=False)

    def make(self, folder: Path) -> None:
        """Run it, or go on with it."""
        path = folder.with_name("recipe.yaml")
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text(RECIPE.format(folder=folder))
        recipes.run(path)

    def undisturbed(self, folder: Path) -> Recipe:
        """Find out what it comes to."""
        self.make(folder)
        return replace(self, files=self._outputs(folder))

    def _outputs(self, folder: Path) -> dict[str, bytes]:
        """What the steps have written, without what is random or states the time."""
        found = {
            name: data for name, data in contents(folder).items() if not name.startswith(("run/", "steps/", "lock"))
        }
        return found | {"run": result_hash(dask_rac.open(folder / "run")).encode()}

    def check(self, folder: Path) -> None:
        """Run it to its end, and check what it has written."""
        self.make(folder)
        assert self._outputs(folder) == self.files, "another result"


Subject = Run | Output | Recipe


def contents(target: Path) -> dict[str, bytes]:
    """The files of an output, by their names in it, without how long it took, nor what could not be deleted."""
    files = [target] if target.is_file() else [path for path in target.rglob("*") if path.is_file()]
    files = [path for path in files if path.relative_to(target).parts[:1] != (WORK,)]
    return {str(path.relative_to(target)): re.sub(rb'"seconds": [\d.]+', b"", path.read_bytes()) for path in files}


@contextmanager
def quick_scene() -> Iterator[Path]:
    """A folder in memory, in which what is done is done by one thread."""
    with quick_folder() as folder, no_fsync(), one_thread():
        yield folder


def small_runs(folder: Path) -> list[Run]:
    """Runs of all kinds: rounds, the finisher, single linkage, edges in memory; their stores have their names."""
    path = write_edges(folder / "path", path_edges(NODES))
    star = write_edges(folder / "star", star_edges())
    plain = path_edges(NODES)[["source", "target", "weight"]]
    runs = [
        Run("rounds", path, {"shards": 2}),
        Run("finisher", star, {"shards": 2, "finisher": True}),
        Run("single", path, {"shards": 2, "linkage": "single"}),
        Run("memory", plain, {"shards": 2, "linkage": "complete"}),
    ]
    return [run.undisturbed(folder / run.name) for run in runs]


def tiny_runs(folder: Path) -> tuple[Run, Run]:
    """Runs of both engines on three nodes, with few enough calls that each can be tried in every way."""
    path = write_edges(folder / "tiny", path_edges(3), files=1)
    rounds = Run("tiny rounds", path, {"shards": 2})
    single = Run("tiny single", path, {"shards": 2, "linkage": "single"})
    return rounds.undisturbed(folder / rounds.name), single.undisturbed(folder / single.name)


def small_outputs(folder: Path, run: Path) -> list[Output]:
    """Outputs of all kinds."""
    names = ["one.labels.parquet", "labels.parquet", "labels.zarr", "tree.npy", "tree.nwk", "tree.parquet", "graph"]
    return [Output(name, run).undisturbed(folder / "outputs" / name) for name in names]


def star_edges(leaves: int = 60) -> pd.DataFrame:
    """Return a star, of which a round merges a single pair, so that the finisher takes over."""
    weight = np.random.default_rng(1).integers(1, 1000, leaves) / 8
    return pd.DataFrame({"source": np.zeros(leaves, np.int64), "target": np.arange(1, leaves + 1), "weight": weight})


class _NoThreads:
    """Takes the place of a pool of threads, and does its work at once."""

    map = staticmethod(map)

    def __init__(self, *_: int) -> None:
        pass

    def __enter__(self) -> _NoThreads:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@contextmanager
def one_thread() -> Iterator[None]:
    """Run tasks one after the other, in the thread that asks for them, so that their calls have an order."""
    with (
        dask.config.set(pool=synchronous_executor, num_workers=1, scheduler="sync"),
        mock.patch.object(flushing, "ThreadPoolExecutor", _NoThreads),
        mock.patch.object(deleting, "ThreadPoolExecutor", _NoThreads),
    ):
        yield


def calls_of(subject: Subject, folder: Path) -> list[str]:
    """The names of all calls that a subject makes if nothing disturbs it."""
    names: list[str] = []

    def note(call: Call) -> Any:
        names.append(call.name)
        return call.go()

    target = folder / "counted" / subject.name
    target.parent.mkdir()
    with watched(target, note):
        subject.make(target)
    shutil.rmtree(target.parent)
    return names
