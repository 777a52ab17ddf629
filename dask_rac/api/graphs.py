"""The public functions that build graphs from vectors: k nearest neighbours, all pairs within eps, all pairs."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike, fspath
from typing import Any

import dask
import pandas as pd

from dask_rac.api.names import listed_names, put_names
from dask_rac.base.defaults import setting
from dask_rac.base.events import Listener
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.edges.source import open_edges, read_edges
from dask_rac.files.folder import Folder
from dask_rac.show.progress import listener_for
from dask_rac.tasks.client import choose_scheduler
from dask_rac.tasks.machine import memory_limit
from dask_rac.vectors.compare.metrics import checked_metric
from dask_rac.vectors.graph.build import build
from dask_rac.vectors.graph.plan import GraphLimits
from dask_rac.vectors.graph.request import GraphRequest, checked_request
from dask_rac.vectors.graph.stages import GraphFacts, Options

SHARE = 0.5  # fraction of memory that edges may take
NEGATIVE = {"inner_product": "inner product", "cosine": "cosine"}
"""What of a pair can be negative, by metric."""


@dataclass(frozen=True)
class Resources:
    """What a graph is built with; None stands for the default."""

    memory: str | float | None = None
    client: Any = None
    limits: GraphLimits = field(default_factory=GraphLimits)

    def options(self, columns: Sequence[str] | None, most_bytes: float | None = None) -> Options:
        """Return where and with how much memory a graph is built."""
        scheduler = choose_scheduler(self.client)
        return Options(scheduler, scheduler.budget(setting("memory", self.memory)), columns, most_bytes, self.limits)


def knn_graph(
    vectors: Any,
    k: int = 15,
    metric: str = "euclidean",
    mode: str = "union",
    method: str = "exact",
    *,
    weights: str | None = None,
    seed: int = 0,
    columns: Sequence[str] | None = None,
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    client: Any = None,
    progress: Listener | bool | None = None,
) -> Any:
    """Build the graph of the k nearest neighbours of each vector, exact by default.

    Neighbours and weights are computed in float64: products in float32 only select the candidate pairs. In few
    dimensions a k-d tree is used. Ties between equally near vectors are broken by the smallest id, so that the graph
    does not depend on how it was computed.

    Parameters
    ----------
    vectors
        One vector per row: a numpy array, a scipy sparse matrix, a pandas DataFrame, anything that offers an Arrow
        stream (pyarrow, Polars, DuckDB, ibis), a Dask or Zarr array; or the path or URL of a `.npy` file or a folder of
        them, a Zarr array, a Zarr group of the arrays `data`, `indices`, `indptr` with the attribute `shape` (sparse
        rows, as written by anndata), scipy's `.npz`, Parquet with one column of lists or one column per dimension,
        `.fvecs` or `.bvecs`. Values are float32, float64 or uint8. Files of a folder are read in the order of their
        names, with numbers compared by value.
    k : int
        The number of neighbours of each vector, not counting itself.
    metric : {"euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan"}
        The metric of weights. "cosine" is the distance 1 - cosine. "inner_product" is a similarity: large values are
        close, and pairs with a negative value get no edge. "manhattan" requires dense vectors.
    mode : {"union", "mutual"}
        Which pairs get an edge: "union" requires that one vector is among the k nearest of the other, "mutual" that
        each is among the k nearest of the other.
    method : {"exact", "approximate"}
        "approximate" finds most of the neighbours, and is much faster in many dimensions. The vectors must fit in
        memory, and the recall is measured on a sample. It requires `pip install 'dask-rac[ann]'`.
    weights : {"distance", "similarity"}, optional
        What the weights of the edges are. By default what the metric gives: a similarity for "inner_product", a
        distance for all others. With "cosine", "similarity" gives the cosine itself, and pairs with a negative one get
        no edge. The other metrics have no similarity of their own.
    seed : int
        The seed of the approximate search.
    columns : names, optional
        The columns of Parquet or of another table that hold the vectors, if there are others.
    store : path or URL, optional
        A new folder for the edges, which are written as Parquet and never all held in memory. If the call is stopped,
        the same call continues. If the graph is complete, the same call returns it.
    memory : str or int, optional
        The memory that the arrays may use, such as "2GB", summed over all processes. Edges being written to disk need
        about 40 MB per thread in addition, and without `store` the result as well. Half of the available memory by
        default.
    client : distributed.Client, optional
        Where to run. By default the current client, otherwise the threads of this process.
    progress : callable or bool, optional
        As for `dask_rac.cluster`.

    Returns
    -------
    pandas.DataFrame or dask.dataframe.DataFrame
        Columns `source`, `target`, `weight`, with every undirected edge once and `source` below `target`. With
        `store`, a Dask DataFrame over the Parquet files. `dask_rac.cluster` accepts either. `attrs["n_nodes"]` is the
        number of vectors; pass it to `cluster` if the attributes get lost. `attrs["graph"]` holds further facts: edges,
        components, the largest of them, how neighbours were found, the recall. If the index of a DataFrame of vectors
        does not only count its rows, `attrs["names"]` holds it as the names of the nodes, which `cluster` takes.

    Raises
    ------
    InputError
        If a vector or parameter is invalid. The message states where and what to do.
    ResourceError
        If memory or disk do not suffice.

    Warns
    -----
    UserWarning
        If the graph is not connected, or if pairs were left out because their similarity is negative.
    """
    checked = checked_request("knn", metric, k=k, mode=mode, method=method, seed=seed, weights=weights)
    request = GraphRequest(checked, columns)
    return run_graph(vectors, request, store, Resources(memory, client), progress)


def eps_graph(
    vectors: Any,
    eps: float,
    metric: str = "euclidean",
    *,
    weights: str | None = None,
    columns: Sequence[str] | None = None,
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    client: Any = None,
    progress: Listener | bool | None = None,
) -> Any:
    """Build the exact graph of all pairs of vectors at most `eps` apart.

    With complete linkage and `missing="infinite"`, its clustering equals that of all pairs up to the height `eps`.
    Pairs are counted before edges are written, and a graph that does not fit on the disk is refused.

    Parameters
    ----------
    vectors
        As for `knn_graph`.
    eps : float
        The largest distance of an edge; where weights are similarities, the smallest similarity.
    metric, weights, columns, store, memory, client, progress
        As for `knn_graph`.

    Returns
    -------
    pandas.DataFrame or dask.dataframe.DataFrame
        As for `knn_graph`, sorted. Vectors without an edge are nodes as well.

    Raises
    ------
    InputError, ResourceError
        As for `knn_graph`.
    """
    request = GraphRequest(checked_request("eps", metric, eps=eps, weights=weights), columns)
    return run_graph(vectors, request, store, Resources(memory, client), progress)


def complete_graph(
    vectors: Any,
    metric: str = "euclidean",
    *,
    weights: str | None = None,
    columns: Sequence[str] | None = None,
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    client: Any = None,
    progress: Listener | bool | None = None,
) -> Any:
    """Build the graph of all pairs of vectors.

    It has n (n - 1) / 2 edges of 16 bytes, and is refused if they do not fit.

    Parameters
    ----------
    vectors, metric, weights, columns, store, memory, client, progress
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
    request = GraphRequest(checked_request("complete", metric, weights=weights), columns)
    return run_graph(vectors, request, store, Resources(memory, client), progress)


def stored_graph(vectors: Any, request: GraphRequest, store: str, resources: Resources, report: Listener) -> None:
    """Build a graph in a folder."""
    warn_of(build(vectors, request.graph, Folder(store), resources.options(request.columns), report))


def run_graph(
    vectors: Any,
    request: GraphRequest,
    store: str | PathLike[str] | None,
    resources: Resources,
    progress: Listener | bool | None,
) -> Any:
    """Build a graph and return it as a DataFrame."""
    named: Any
    with listener_for(progress) as report:
        if store is None:
            frame, facts = memory_graph(vectors, request, resources, report)
            named = listed_names(vectors)
        else:
            facts = build(vectors, request.graph, Folder(fspath(store)), resources.options(request.columns), report)
            import dask.dataframe as dd  # noqa: PLC0415 - takes a quarter of a second, and other runs do not need it

            frame = dd.read_parquet(fspath(store), columns=list(EDGE_COLUMNS))
            named = put_names(Folder(fspath(store)), vectors)
    return with_facts(frame, facts, named)


def memory_graph(
    vectors: Any, request: GraphRequest, resources: Resources, report: Listener
) -> tuple[pd.DataFrame, GraphFacts]:
    """Build a graph in a temporary folder and read it into memory."""
    scratch = dask.config.get("temporary_directory", None)
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as folder:
        target = Folder(f"{folder}/edges", durable=False)
        options = resources.options(request.columns, SHARE * memory_limit())
        facts = build(vectors, request.graph, target, options, report)
        return pd.DataFrame(read_edges(open_edges(target.url))[0], copy=False), facts


def with_facts(frame: Any, facts: GraphFacts, names: Any = None) -> Any:
    """Return a DataFrame of edges with the facts of its graph as attributes, and warn where that is due."""
    weights = facts.weights or checked_metric(facts.metric).weights
    frame.attrs = {"n_nodes": facts.nodes, "weights": weights, "graph": asdict(facts)}
    if names is not None:
        frame.attrs["names"] = names
    warn_of(facts)
    return frame


def warn_of(facts: GraphFacts) -> None:
    """Warn the user, four calls above, of what is unusual about a graph."""
    if (advice := facts.advice()) is not None:
        warnings.warn(advice, stacklevel=5)
    if facts.dropped:
        warnings.warn(
            f"{facts.dropped:,} pairs have a negative {NEGATIVE[facts.metric]} and got no edge: a pair without an edge "
            "weighs 0",
            stacklevel=5,
        )
