"""What users call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any, overload

from dask_rac import driver
from dask_rac.checks import check_missing
from dask_rac.clustering import Clustering, StoredClustering
from dask_rac.config import Event, Progress, checked_settings
from dask_rac.defaults import setting
from dask_rac.edges import load_graph, told_nodes
from dask_rac.errors import InputError
from dask_rac.planner import Plan
from dask_rac.progress import watcher
from dask_rac.session import (
    PlanOptions,
    RunOptions,
    open_result,
    plan_stored,
    refuse_taken,
    resume_run,
    stored_cluster,
)
from dask_rac.store.files import Folder
from dask_rac.vectors.graph import memory_graph, request_of, stored_graph, told
from dask_rac.vectors.plan import Request


@overload
def cluster(
    edges: Any,
    linkage: str = ...,
    missing: str | float | None = ...,
    weights: str = ...,
    n_nodes: int | None = ...,
    max_height: float | None = ...,
    duplicates: str = ...,
    finisher: bool = ...,
    progress: Progress | bool | None = ...,
    *,
    graph: Mapping[str, Any] | None = ...,
    store: None = ...,
    memory: str | float | None = ...,
    shards: int | None = ...,
    client: Any = ...,
) -> Clustering: ...


@overload
def cluster(
    edges: Any,
    linkage: str = ...,
    missing: str | float | None = ...,
    weights: str = ...,
    n_nodes: int | None = ...,
    max_height: float | None = ...,
    duplicates: str = ...,
    finisher: bool = ...,
    progress: Progress | bool | None = ...,
    *,
    graph: Mapping[str, Any] | None = ...,
    store: str | PathLike[str],
    memory: str | float | None = ...,
    shards: int | None = ...,
    client: Any = ...,
) -> StoredClustering: ...


def cluster(
    edges: Any,
    linkage: str = "average",
    missing: str | float | None = None,
    weights: str = "distance",
    n_nodes: int | None = None,
    max_height: float | None = None,
    duplicates: str = "error",
    finisher: bool = True,
    progress: Progress | bool | None = None,
    *,
    graph: Mapping[str, Any] | None = None,
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    shards: int | None = None,
    client: Any = None,
) -> Clustering:
    """The exact hierarchical agglomerative clustering of a weighted graph.

    In memory, or with `store=` out of core: then a graph many times larger than memory is read in pieces and clustered
    through the disk, round by round, on the threads of this process or on the workers of a `distributed.Client`; what
    is done stays done, and `resume` goes on after whatever stopped it. The merges are the same, to the last bit.

    Parameters
    ----------
    edges
        The undirected edges: a scipy sparse matrix (symmetric, or one triangle; stored zeros are edges), a pandas or
        Dask DataFrame or pyarrow Table with columns `source`, `target`, `weight`, a tuple of those three arrays, or the
        path of a Parquet file or folder. An edge may be given once, or in both directions with one weight. Vectors, as
        `knn_graph` takes them, if `graph` is given.
    linkage : {"average", "complete", "single"}
        The distance of two clusters from those of their nodes: the mean, the largest, the smallest.
    missing : {"ignore", "infinite"} or float, optional
        What two nodes without an edge are to each other. "ignore": unknown, linkage looks at the edges that are there.
        "infinite": infinitely far, clusters merge only where every pair has an edge. A number: that weight, which must
        not be nearer than any edge's. Without any edge between them, two clusters never merge. The default is
        "ignore" for distances and 0 for similarities.
    weights : {"distance", "similarity"}
        Whether small weights are close, or large ones.
    n_nodes : int, optional
        The number of nodes, if more than the largest id says.
    max_height : float, optional
        No merge beyond this height; at or below counts. For similarities, no merge below it. Averages are rounded: the
        mean of equal weights may lie a last bit above them.
    duplicates : {"error", "min", "max", "mean"}
        What becomes of an edge that is given with two weights. "mean" is over all rows that name the edge.
    finisher : bool
        Whether sequential HAC takes over when rounds merge few clusters. False runs rounds to the end; the hierarchy is
        the same.
    progress : callable or bool, optional
        Called with an `Event` at each stage and after each round. By default a bar on a terminal, else nothing; False
        for nothing, True for the bar, or plain lines where there is no terminal.
    graph : dict, optional
        Which edges the vectors are to have: the arguments of `knn_graph`, such as `dict(k=15, metric="cosine")`, of
        `eps_graph`, `dict(eps=0.5)`, or of `complete_graph`, `dict(kind="complete")`. With `store=` they stay in a
        folder beside it, `store` with `.graph` after it; stopped before they are there, the same call goes on.
    store : path or URL, optional
        A new folder for the run: its state after each round, its merges, its statistics. `edges` may then also be a
        Dask DataFrame or the path of a Parquet dataset or Zarr group larger than memory.
    memory : str or int, optional
        What the arrays of the run may use, such as "6GB", in all processes together; the interpreter and its libraries,
        some 0.3 GB a process, come on top. Half of what there is by default. For `store=`.
    shards : int, optional
        Into how many shards the graph is cut at first. By default as few as `memory` allows. For `store=`. Defaults of
        this and of `memory` may be set in Dask's configuration, as `rac.shards` and `rac.memory`.
    client : distributed.Client, optional
        Where to run. By default the current client, else the threads of this process. For `store=`.

    Returns
    -------
    Clustering
        With `store=`, a `StoredClustering`, whose merges stay on disk.

    Raises
    ------
    InputError
        If the edges or a parameter cannot be used; it says where and what to do.
    StoreError
        If `store` cannot be used: it holds something already, cannot be written, is in use, or is damaged.
    ResourceError
        If memory, disk or workers do not suffice; it says which setting would.
    """
    settings = checked_settings(linkage, missing, weights, max_height, duplicates, finisher)
    for name, value in (("memory", memory), ("shards", shards), ("client", client)):
        if value is not None and store is None:
            raise InputError(f"{name}= is for runs through the disk: give store= as well, or leave it out")
    if graph is not None:
        edges = _edges_of(edges, request_of(graph, weights), store, (setting("memory", memory), client, progress))
    known = told_nodes(edges, weights)
    n_nodes = known if n_nodes is None else n_nodes
    if store is not None:
        options = RunOptions(n_nodes, setting("memory", memory), setting("shards", shards), client, store)
        with watcher(progress) as report:
            return stored_cluster(edges, settings, options, report)
    with driver.new_team() as team, watcher(progress) as report:
        report(Event("compile"))
        driver.compile_kernels("int32")
        report(Event("load"))
        loaded = load_graph(edges, n_nodes, settings, team, driver.memory_limit())
        check_missing(settings, len(loaded.rows.start), loaded.least, loaded.largest)
        if loaded.loops:
            warnings.warn(f"dropped {loaded.loops} self loops: a node has no distance to itself", stacklevel=2)
        nodes, ids = len(loaded.rows.start), loaded.rows.neighbour.dtype.name
        if ids != "int32":
            report(Event("compile", nodes))
            driver.compile_kernels(ids)
        outcome = driver.run(loaded, settings, team, report)
        report(Event("done", nodes, len(outcome.round)))
    return Clustering(nodes, outcome.merges, outcome.round, outcome.records, settings)


def _edges_of(
    vectors: Any, asked: tuple[Request, Any], store: str | PathLike[str] | None, how: tuple[Any, Any, Any]
) -> Any:
    """The edges of vectors: in memory, or in a folder beside the store of their run."""
    memory, client, progress = how
    with watcher(progress) as report:
        if store is None:
            return told(*memory_graph(vectors, *asked, (memory, client, report)))
        refuse_taken(Folder(store))
        edges = f"{Folder(store).url}.graph"
        stored_graph(vectors, *asked, edges, (memory, client, report))
    return edges


def plan_run(
    edges: str | PathLike[str],
    linkage: str = "average",
    missing: str | float | None = None,
    weights: str = "distance",
    n_nodes: int | None = None,
    *,
    memory: str | float | None = None,
    shards: int | None = None,
    client: Any = None,
    progress: Progress | bool | None = None,
) -> Plan:
    """What `cluster(..., store=...)` with the same arguments would take, without running it.

    Parameters
    ----------
    edges : path or URL
        A Parquet file or folder, or a Zarr group. Only their metadata is read, unless they lack statistics.
    linkage, missing, weights, n_nodes, memory, shards, client, progress
        As for `cluster`.

    Returns
    -------
    Plan
        Shards, bytes, projected peaks of memory and disk, and the first round as a Dask graph: `plan.visualize()`.

    Raises
    ------
    ResourceError
        If it does not fit; it says which setting would.
    """
    settings = checked_settings(linkage, missing, weights, None, "error", True)
    options = PlanOptions(n_nodes, setting("memory", memory), setting("shards", shards), client)
    with watcher(progress) as report:
        return plan_stored(edges, settings, options, report)


def resume(
    store: str | PathLike[str],
    *,
    memory: str | float | None = None,
    client: Any = None,
    progress: Progress | bool | None = None,
) -> StoredClustering:
    """Go on with a run that was stopped, from the last round whose files are sound.

    Parameters
    ----------
    store : path or URL
        The folder of the run.
    memory : str or int, optional
        As for `cluster`; it need not be what it was.
    client : distributed.Client, optional
        As for `cluster`.
    progress : callable or bool, optional
        As for `cluster`.

    Returns
    -------
    StoredClustering
        The result: the same, to the last bit, as if nothing had stopped the run. That of a finished run at once.

    Raises
    ------
    StoreError
        If there is no run, another process works on it, or it is damaged beyond the round before the last.
    InputError
        If the edges have changed since the run began.
    """
    with watcher(progress) as report:
        return resume_run(store, setting("memory", memory), client, report)


def open_run(store: str | PathLike[str], *, progress: Progress | bool | None = None) -> StoredClustering:
    """The result in a store: of a finished run, or of one on its way as far as it has come.

    Parameters
    ----------
    store : path or URL
        The folder of the run.
    progress : callable or bool, optional
        As for `cluster`; told of what is asked of the result.

    Returns
    -------
    StoredClustering
    """
    with watcher(progress) as report:
        return open_result(store, report)
