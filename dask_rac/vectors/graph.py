"""Vectors to edges, as users call it: k nearest neighbours, balls, all pairs."""

from __future__ import annotations

import math
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from os import PathLike, fspath
from typing import Any

import dask
import pandas as pd

from dask_rac.config import EDGE_COLUMNS, Progress, check_kind, check_whole, check_word, checked_number
from dask_rac.defaults import setting
from dask_rac.driver import memory_limit
from dask_rac.errors import InputError
from dask_rac.progress import watcher
from dask_rac.store.edges import open_edges, read_edges
from dask_rac.store.files import Folder
from dask_rac.vectors.build import build
from dask_rac.vectors.metrics import checked_metric
from dask_rac.vectors.plan import Request
from dask_rac.vectors.stages import GraphFacts, Options
from dask_rac.workers import chosen

__all__ = ["complete_graph", "eps_graph", "knn_graph"]

MODES = ("union", "mutual")
METHODS = ("exact", "approximate")
KINDS = {"knn": ("k", "mode", "method", "seed"), "eps": ("eps",), "complete": ()}
"""The graphs there are, and what may be said of each beside the metric."""

SHARE = 0.5  # of memory that edges may take


def knn_graph(
    vectors: Any,
    k: int = 15,
    metric: str = "euclidean",
    mode: str = "union",
    method: str = "exact",
    *,
    seed: int = 0,
    columns: Sequence[str] | None = None,
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    client: Any = None,
    progress: Progress | bool | None = None,
) -> Any:
    """The graph of the k nearest neighbours of each vector, exact unless asked otherwise.

    Neighbours and weights are those of float64: float32 products only say which pairs are worth a look. In few
    dimensions a k-d tree finds them. Of equally near vectors the ones with the smallest ids are taken, so that the
    graph does not depend on how it was computed.

    Parameters
    ----------
    vectors
        One a row: a numpy array, a scipy sparse matrix, a pandas DataFrame, a Dask or Zarr array; or a path or URL of a
        `.npy` file or a folder of them, a Zarr array, a Zarr group of the arrays `data`, `indices`, `indptr` with the
        attribute `shape` (sparse rows, as anndata writes them), scipy's `.npz`, Parquet with one column of lists or a
        column a dimension, `.fvecs` or `.bvecs`. Values are float32, float64 or uint8. Files of a folder are taken in
        the order of their names, numbers by their value.
    k : int
        How many neighbours each vector has, itself not among them.
    metric : {"euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan"}
        What weights are. "cosine" is the distance 1 - cosine. "inner_product" is a similarity: large ones are near, and
        pairs below 0 get no edge. "manhattan" is for dense vectors.
    mode : {"union", "mutual"}
        Whether an edge takes one end that has the other among its k nearest, or both.
    method : {"exact", "approximate"}
        "approximate" finds most of the neighbours, much faster in many dimensions; the vectors must fit in memory, and
        the recall is measured on a sample. It needs `pip install 'dask-rac[ann]'`.
    seed : int
        Of the approximate search.
    columns : names, optional
        Which columns of Parquet or of a DataFrame hold the vectors, where there are others.
    store : path or URL, optional
        A new folder for the edges, written as Parquet and never held in memory. Stopped, the same call goes on; when
        all is there, it gives that.
    memory : str or int, optional
        What the arrays may use, such as "2GB", in all processes together; edges on their way to the disk come on top,
        some 40 MB a thread, and without `store` the result. Half of what there is by default.
    client : distributed.Client, optional
        Where to run. By default the current client, else the threads of this process.
    progress : callable or bool, optional
        As for `dask_rac.cluster`.

    Returns
    -------
    pandas.DataFrame or dask.dataframe.DataFrame
        Columns `source`, `target`, `weight`, every undirected edge once, `source` below `target`; Dask's, over the
        Parquet files, if `store` is given. `dask_rac.cluster` takes either. `attrs["n_nodes"]` is the
        number of vectors (give it to `cluster` if the attributes get lost on the way); `attrs["graph"]` tells more:
        edges, components, the largest of them, how neighbours were found, the recall.

    Raises
    ------
    InputError
        If a vector or parameter cannot be used; it says where and what to do.
    ResourceError
        If memory or disk do not suffice.

    Warns
    -----
    UserWarning
        If the graph is not connected, or pairs were left out because their inner product is negative.
    """
    request = checked_request("knn", metric, k=k, mode=mode, method=method, seed=seed)
    return _graph(vectors, request, store, columns, (memory, client, progress))


def eps_graph(
    vectors: Any,
    eps: float,
    metric: str = "euclidean",
    *,
    columns: Sequence[str] | None = None,
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    client: Any = None,
    progress: Progress | bool | None = None,
) -> Any:
    """The graph of all pairs of vectors at most `eps` apart, exact.

    With complete linkage and `missing="infinite"` its clustering is that of all pairs, up to the height `eps`. Pairs
    are counted before edges are written, and a graph that does not fit on the disk is refused.

    Parameters
    ----------
    vectors
        As for `knn_graph`.
    eps : float
        The largest distance of an edge; for inner products, the smallest similarity.
    metric, columns, store, memory, client, progress
        As for `knn_graph`.

    Returns
    -------
    pandas.DataFrame or dask.dataframe.DataFrame
        As for `knn_graph`, sorted. Vectors without an edge are nodes all the same.

    Raises
    ------
    InputError, ResourceError
        As for `knn_graph`.
    """
    return _graph(vectors, checked_request("eps", metric, eps=eps), store, columns, (memory, client, progress))


def complete_graph(
    vectors: Any,
    metric: str = "euclidean",
    *,
    columns: Sequence[str] | None = None,
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    client: Any = None,
    progress: Progress | bool | None = None,
) -> Any:
    """The graph of all pairs of vectors: n (n - 1) / 2 edges of 16 bytes, refused if they do not fit.

    Parameters
    ----------
    vectors, metric, columns, store, memory, client, progress
        As for `knn_graph`.

    Returns
    -------
    pandas.DataFrame or dask.dataframe.DataFrame
        As for `knn_graph`, sorted.

    Raises
    ------
    InputError, ResourceError
        As for `knn_graph`.
    """
    return _graph(vectors, checked_request("complete", metric), store, columns, (memory, client, progress))


def checked_request(
    kind: str, metric: Any, k: Any = 1, mode: Any = "union", method: Any = "exact", eps: Any = 0.0, seed: Any = 0
) -> Request:
    """What graph is wanted, every parameter checked by itself."""
    wanted = checked_metric(metric)
    check_whole("k", k, 1)
    check_whole("seed", seed, 0)
    check_word("mode", mode, MODES)
    check_word("method", method, METHODS)
    radius = checked_number("eps", eps)
    if math.isinf(radius) or radius < 0:
        raise InputError(f"eps={eps!r} is not a finite number, 0 or more")
    return Request(kind, wanted, int(k), mode, method, radius, int(seed))


def request_of(graph: Any, weights: str) -> tuple[Request, Sequence[str] | None]:
    """What `graph=` of `dask_rac.cluster` asks for, and the columns it names."""
    if not isinstance(graph, Mapping):
        raise InputError(f"graph={graph!r} is no dict: give dict(k=15), dict(eps=0.5) or dict(kind='complete')")
    told = dict(graph)
    columns = told.pop("columns", None)
    kind = told.pop("kind", "knn" if "k" in told else "eps" if "eps" in told else None)
    if kind is None:
        raise InputError(f"graph={graph!r} says neither k nor eps nor kind: give one of them")
    check_word("kind", kind, tuple(KINDS))
    for name in told:
        if name in ("memory", "client", "progress", "store"):
            raise InputError(f"graph={graph!r} has {name!r}: give that to cluster itself")
        if name not in ("metric", *KINDS[kind]):
            raise InputError(f"graph={graph!r} has {name!r}, which is not for {kind}: it may have {_listed(kind)}")
    if kind == "eps" and "eps" not in told:
        raise InputError(f"graph={graph!r} has no eps: give the largest distance of an edge")
    request = checked_request(kind, told.pop("metric", "euclidean"), **({"k": 15} if kind == "knn" else {}) | told)
    check_kind(request.metric.weights, weights)
    return request, columns


def _listed(kind: str) -> str:
    """What may be said of a kind of graph."""
    return ", ".join(("metric", "columns", *KINDS[kind]))


def stored_graph(
    vectors: Any, request: Request, columns: Sequence[str] | None, store: str, how: tuple[Any, Any, Progress]
) -> None:
    """Have a graph in a folder."""
    memory, client, report = how
    warn_of(build(vectors, request, Folder(store), _options(memory, client, columns), report))


def _graph(
    vectors: Any,
    request: Request,
    store: str | PathLike[str] | None,
    columns: Sequence[str] | None,
    how: tuple[Any, Any, Any],
) -> Any:
    """A graph as a DataFrame."""
    memory, client, progress = how
    with watcher(progress) as report:
        if store is None:
            frame, facts = memory_graph(vectors, request, columns, (memory, client, report))
        else:
            facts = build(vectors, request, Folder(fspath(store)), _options(memory, client, columns), report)
            import dask.dataframe as dd  # noqa: PLC0415 - takes a quarter of a second, and other runs need none of it

            frame = dd.read_parquet(fspath(store), columns=list(EDGE_COLUMNS))
    return told(frame, facts)


def _options(memory: Any, client: Any, columns: Sequence[str] | None, most_bytes: float | None = None) -> Options:
    """How a graph is made."""
    scheduler = chosen(client)
    return Options(scheduler, scheduler.budget(setting("memory", memory)), columns, most_bytes)


def memory_graph(
    vectors: Any, request: Request, columns: Sequence[str] | None, how: tuple[Any, Any, Progress]
) -> tuple[pd.DataFrame, GraphFacts]:
    """A graph in memory, by way of a temporary folder."""
    memory, client, report = how
    place = dask.config.get("temporary_directory", None)
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        target = Folder(f"{folder}/edges")
        facts = build(vectors, request, target, _options(memory, client, columns, SHARE * memory_limit()), report)
        return pd.DataFrame(read_edges(open_edges(target.url))[0], copy=False), facts


def told(frame: Any, facts: GraphFacts) -> Any:
    """A DataFrame that knows what it is."""
    weights = checked_metric(facts.metric).weights
    frame.attrs = {"n_nodes": facts.nodes, "weights": weights, "graph": asdict(facts)}
    warn_of(facts)
    return frame


def warn_of(facts: GraphFacts) -> None:
    """Tell what a user, four calls above, should know of a graph."""
    if (advice := facts.advice()) is not None:
        warnings.warn(advice, stacklevel=5)
    if facts.dropped:
        warnings.warn(
            f"{facts.dropped:,} pairs have a negative inner product and got no edge: a pair without edge weighs 0",
            stacklevel=5,
        )
