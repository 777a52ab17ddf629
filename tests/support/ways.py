"""All that changes how graphs of vectors are computed, and must not change them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pandas as pd
from hypothesis import strategies as st

from dask_rac.api.graphs import Resources, run_graph
from dask_rac.vectors.compare.limits import CompareLimits
from dask_rac.vectors.graph.plan import GraphLimits
from dask_rac.vectors.graph.request import GraphRequest, Request, checked_request
from tests.support.folders import no_fsync


@dataclass(frozen=True)
class Way:
    """What changes how a graph is computed, and must not change it."""

    tree: bool = False
    most_rows: int = 131_072
    near_rows: int = 8_192
    file_edges: int = 2**22
    group_edges: int = 2**20
    tile: tuple[int, int] = (512, 1024)
    sparse_tile: int = 2**19
    flooded: int = 8
    kept_bytes: int = 48
    double: bool = False
    """Whether scores are float64."""
    whole: bool = True
    """Whether whole numbers may be known to be whole."""
    threads: int = 2


TREE = Way(tree=True)
PRODUCTS = Way()
MANY = Way(most_rows=13, near_rows=11, file_edges=50, group_edges=7, tile=(3, 4), sparse_tile=30, flooded=0)


class Graphs:
    """The public functions that build graphs, within limits that users cannot set."""

    def __init__(self, limits: GraphLimits) -> None:
        self._limits = limits

    def knn_graph(
        self,
        vectors: Any,
        k: int = 15,
        metric: str = "euclidean",
        mode: str = "union",
        method: str = "exact",
        *,
        seed: int = 0,
        **place: Any,
    ) -> Any:
        """What `dask_rac.knn_graph` would give."""
        request = checked_request("knn", metric, k=k, mode=mode, method=method, seed=seed)
        return self._build(vectors, request, **place)

    def eps_graph(self, vectors: Any, eps: float, metric: str = "euclidean", **place: Any) -> Any:
        """What `dask_rac.eps_graph` would give."""
        return self._build(vectors, checked_request("eps", metric, eps=eps), **place)

    def complete_graph(self, vectors: Any, metric: str = "euclidean", **place: Any) -> Any:
        """What `dask_rac.complete_graph` would give."""
        return self._build(vectors, checked_request("complete", metric), **place)

    def _build(self, vectors: Any, request: Request, *, store: Any = None, **context: Any) -> Any:
        """Build a graph."""
        memory, client, progress = (context.pop(name, None) for name in ("memory", "client", "progress"))
        assert not context
        return run_graph(vectors, GraphRequest(request, None), store, Resources(memory, client, self._limits), progress)


def limits_of(way: Way) -> GraphLimits:
    """The limits that make a graph be computed in a given way."""
    compare = CompareLimits(
        tile_rows=way.tile[0],
        tile_columns=way.tile[1],
        sparse_tile=way.sparse_tile,
        single=(np.inf, np.inf) if way.double else CompareLimits.single,
        most_whole=CompareLimits.most_whole if way.whole else 0.0,
    )
    return GraphLimits(
        most_rows=way.most_rows,
        least_rows=1,
        task_rows=min(2_048, way.most_rows),
        near_rows=way.near_rows,
        file_edges=way.file_edges,
        group_edges=way.group_edges,
        kept_bytes=way.kept_bytes,
        flooded=way.flooded,
        tree=((np.inf, 10**9 if way.tree else 0),),
        compare=compare,
    )


@contextmanager
def computed(way: Way) -> Iterator[Graphs]:
    """Functions that compute graphs in a given way, for the time of the block."""
    threads = dask.config.set(num_workers=way.threads, temporary_directory=quick_place())
    with threads, no_fsync():
        yield Graphs(limits_of(way))


def quick_place() -> str | None:
    """A folder that costs no disk, where there is one."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


ways = st.builds(
    Way,
    tree=st.booleans(),
    most_rows=st.sampled_from([6, 14, 131_072]),
    near_rows=st.sampled_from([5, 14, 8_192]),
    file_edges=st.sampled_from([20, 60, 2**22]),
    group_edges=st.sampled_from([4, 2**20]),
    tile=st.sampled_from([(2, 5), (5, 2), (7, 7), (512, 1024)]),
    sparse_tile=st.sampled_from([1, 40, 2**19]),
    flooded=st.sampled_from([0, 8]),
    kept_bytes=st.sampled_from([48, 2**60]),
    double=st.booleans(),
    whole=st.booleans(),
    threads=st.sampled_from([1, 2, 3]),
)


def quiet(function: Any, *arguments: Any, **options: Any) -> pd.DataFrame:
    """A graph, whatever it warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found: pd.DataFrame = function(*arguments, **options)
    return found


def written(store: Path) -> dict[str, bytes]:
    """The files of edges, with what they hold."""
    found = {path.name: path.read_bytes() for path in sorted(store.iterdir()) if path.suffix == ".parquet"}
    assert found
    return found
