"""Runs on an object store that fails, and what must come of them."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from io import BytesIO
from random import Random

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dask_rac
from dask_rac.base.names import HEADER
from dask_rac.files.folder import Folder
from tests.support.crash import begin, path_edges, result_hash
from tests.support.weather import Weather, bad_weather

TYPED = (dask_rac.InputError, dask_rac.StoreError, dask_rac.ResourceError)
REMEDIES = re.compile(r"again|resume|choose|delete|remove")
NODES, SHARDS, CLUSTERS = 60, 2, 7


class RemoteRuns(ABC):
    """Edges on an object store, runs on it in any weather, and a view of its objects that no weather disturbs."""

    @abstractmethod
    def url(self, name: str) -> str:
        """The URL of a name."""

    @abstractmethod
    def weather(self, given: Weather) -> AbstractContextManager[object]:
        """Have this weather during the block."""

    @abstractmethod
    def names(self, prefix: str) -> list[str]:
        """The names of all objects that begin so."""

    @abstractmethod
    def data(self, name: str) -> bytes:
        """The content of an object."""

    @abstractmethod
    def delete(self, prefix: str) -> None:
        """Delete all objects whose names begin so."""

    def prepare(self) -> None:
        """Write edges, and run once undisturbed."""
        frame = path_edges(NODES)
        for number in range(2):
            Folder(self.url("edges")).write(f"{number}.parquet", frame.iloc[number::2].to_parquet(index=False))
        run = self.finish("whole")
        self.hash, self.layout = result_hash(run), self._layout("whole")
        self.labels: NDArray[np.int64] = np.asarray(run.cut(n_clusters=CLUSTERS))

    def disturb(self, name: str, chance: Random) -> None:
        """Run, resume, verify and cut in bad weather, then in calm weather; nothing may be wrong or lost."""
        try:
            for _ in range(chance.randint(1, 3)):
                with self.weather(bad_weather(chance)):
                    self._attempt(name, chance)
            assert result_hash(self.finish(name)) == self.hash
            assert self._layout(name) == self.layout
            self._check_labels(name)
        finally:
            self.delete(name)

    def finish(self, name: str) -> dask_rac.StoredClustering:
        """Begin a run or resume it, as users do who look into the bucket."""
        if self.names(f"{name}/{HEADER}"):
            return dask_rac.resume(self.url(name), trust_source=True)
        return begin(self.url("edges"), self.url(name), shards=SHARDS)  # type: ignore[arg-type]

    def _attempt(self, name: str, chance: Random) -> None:
        """Go on from wherever the store is; only errors that say what to do may come of it."""
        try:
            run = self.finish(name)
            assert result_hash(run) == self.hash
            if chance.random() < 0.5:
                assert run.verify().ok
            self._check_labels(name)
            assert np.array_equal(run.cut(n_clusters=CLUSTERS), self.labels)
        except TYPED as error:
            if not REMEDIES.search(str(error)):
                raise AssertionError("no remedy") from error

    def _check_labels(self, name: str) -> None:
        """Write labels, unless an earlier attempt has, and compare them."""
        file = f"{name}-labels.parquet"
        if not self.names(file):
            dask_rac.open(self.url(name)).cut(n_clusters=CLUSTERS, store=self.url(file))
        assert np.array_equal(pd.read_parquet(BytesIO(self.data(file))).label, self.labels)

    def _layout(self, name: str) -> list[str]:
        """All objects of a store, without the random parts of their names."""
        names = (object_.removeprefix(name) for object_ in self.names(f"{name}/"))
        return sorted(re.sub(r"-[0-9a-f]{8}", "", object_) for object_ in names)
