"""What users call."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, Literal, overload

from dask_rac.clustering import Clustering
from dask_rac.config import Progress, Settings, checked_settings
from dask_rac.defaults import setting
from dask_rac.edges import told_nodes
from dask_rac.errors import InputError
from dask_rac.handle import RunHandle
from dask_rac.planner import Plan
from dask_rac.progress import watcher
from dask_rac.remote import cluster_edges
from dask_rac.session import (
    PlanOptions,
    RunOptions,
    check_options,
    open_result,
    plan_stored,
    refuse_taken,
    resume_run,
    stored_cluster,
)
from dask_rac.store.files import Folder
from dask_rac.store.manifest import read_header
from dask_rac.stored_clustering import StoredClustering
from dask_rac.vectors.graph import memory_graph, request_of, stored_graph, told
from dask_rac.vectors.plan import Request
from dask_rac.workers import Scheduler, chosen

Asked = tuple[Request, Sequence[str] | None]
"""Which graph vectors are to have, and which columns hold them."""


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
    wait: Literal[True] = ...,
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
    wait: Literal[True] = ...,
) -> StoredClustering: ...


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
    store: str | PathLike[str] | None = ...,
    memory: str | float | None = ...,
    shards: int | None = ...,
    client: Any = ...,
    wait: Literal[False],
) -> RunHandle: ...


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
    wait: bool = True,
) -> Clustering | RunHandle:
    """The exact hierarchical agglomerative clustering of a weighted graph.

    In memory, or with `store=` out of core: then a graph many times larger than memory is read in pieces and clustered
    through the disk, round by round; what is done stays done, and `resume` goes on after whatever stopped it. It runs
    where Dask would run: on the workers of the current `distributed.Client`, else in the threads of this process. The
    merges are the same, to the last bit.

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
        Called with an `Event` at each stage and after each round. By default a bar on a terminal or in a notebook, else
        nothing; False for nothing, True for the bar, or plain lines where there is neither. With `wait=False` nothing
        by default, as the handle tells it.
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
        Where to run. By default the current client, else the threads of this process; with Dask's setting
        `scheduler="threads"`, and within a task of Dask's, always those. In memory a run takes one worker and all its
        threads: edges are sent there, paths and the partitions of a Dask DataFrame are read there. With `store=` it
        takes all workers.
    wait : bool
        Whether to return only when it is done. False returns a `RunHandle` at once, and the run goes on in the
        background. Parameters that cannot be used still raise here; what the edges are to blame for, `result()` raises.

    Returns
    -------
    Clustering
        With `store=`, a `StoredClustering`, whose merges stay on disk. With `wait=False`, a `RunHandle`, whose
        `result()` gives that.

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
    for name, value in (("memory", memory), ("shards", shards)):
        if value is not None and store is None:
            raise InputError(f"{name}= is for runs through the disk: give store= as well, or leave it out")
    place = chosen(client)
    options = PlanOptions(n_nodes, setting("memory", memory), setting("shards", shards), place)
    if store is not None:
        options = RunOptions(**vars(options), store=store)
    asked = None if graph is None else request_of(graph, weights)
    if not wait:
        _refuse_early(options, edges, settings, asked)
        url = None if store is None else Folder(store).url
        return RunHandle(
            partial(_run, edges, asked, settings, options), place, url, watcher(False if progress is None else progress)
        )
    with watcher(progress) as report:
        result, warned = _run(edges, asked, settings, options, report)
    for text in warned:
        warnings.warn(text, stacklevel=2)
    return result


def _refuse_early(options: PlanOptions, edges: Any, settings: Settings, asked: Asked | None) -> None:
    """Raise what a run would raise, as far as that can be seen at once."""
    check_options(options)
    if isinstance(options, RunOptions):
        refuse_taken(Folder(options.store))
    if asked is None:
        told_nodes(edges, settings.weights)


def _run(
    edges: Any, asked: Asked | None, settings: Settings, options: PlanOptions, report: Progress
) -> tuple[Clustering, list[str]]:
    """Do a run, wherever it is to be: its result, and what to warn of."""
    how = options.memory, options.client, report
    if asked is not None and isinstance(options, RunOptions):
        store = Folder(options.store)
        refuse_taken(store)
        vectors, edges = edges, f"{store.url}.graph"
        stored_graph(vectors, *asked, edges, how)
    elif asked is not None:
        edges = told(*memory_graph(edges, *asked, how))
    known = told_nodes(edges, settings.weights)
    options = replace(options, n_nodes=known if options.n_nodes is None else options.n_nodes)
    result: Clustering
    if isinstance(options, RunOptions):
        result, loops = stored_cluster(edges, settings, options, report)
    else:
        found = cluster_edges(edges, options.n_nodes, settings, options.client, report)
        outcome, loops = found.outcome, found.loops
        result = Clustering(found.nodes, outcome.merges, outcome.round, outcome.records, settings, loops=loops)
    return result, [f"dropped {loops} self loops: a node has no distance to itself"] if loops else []


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


@overload
def resume(
    store: str | PathLike[str],
    *,
    memory: str | float | None = ...,
    client: Any = ...,
    progress: Progress | bool | None = ...,
    wait: Literal[True] = ...,
) -> StoredClustering: ...


@overload
def resume(
    store: str | PathLike[str],
    *,
    memory: str | float | None = ...,
    client: Any = ...,
    progress: Progress | bool | None = ...,
    wait: Literal[False],
) -> RunHandle: ...


def resume(
    store: str | PathLike[str],
    *,
    memory: str | float | None = None,
    client: Any = None,
    progress: Progress | bool | None = None,
    wait: bool = True,
) -> StoredClustering | RunHandle:
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
    wait : bool
        As for `cluster`: False returns a `RunHandle` at once.

    Returns
    -------
    StoredClustering
        The result: the same, to the last bit, as if nothing had stopped the run. That of a finished run at once. With
        `wait=False`, a `RunHandle`, whose `result()` gives that.

    Raises
    ------
    StoreError
        If there is no run, another process works on it, or it is damaged beyond the round before the last.
    InputError
        If the edges have changed since the run began.
    """
    place, memory = chosen(client), setting("memory", memory)
    if wait:
        with watcher(progress) as report:
            return resume_run(store, memory, place, report)
    check_options(PlanOptions(None, memory, None, place))
    read_header(Folder(store))
    work = partial(_go_on, store, memory, place)
    return RunHandle(work, place, Folder(store).url, watcher(False if progress is None else progress))


def _go_on(
    store: str | PathLike[str], memory: str | float | None, place: Scheduler, report: Progress
) -> tuple[Clustering, list[str]]:
    """Bring a run to its end; it has warned when it began."""
    return resume_run(store, memory, place, report), []


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
