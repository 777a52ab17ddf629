"""The public functions: cluster, plan, resume and open."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from os import PathLike
from typing import Any, Literal, overload

from dask_rac.api.edge_warnings import edge_warnings
from dask_rac.api.graphs import Resources, memory_graph, stored_graph, with_facts
from dask_rac.api.handle import RunHandle
from dask_rac.api.names import check_vectors, names_of, with_names
from dask_rac.api.pairs import check_engine, check_pairs_options, pairs_metric
from dask_rac.base.defaults import setting
from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.settings import PRECOMPUTED, Settings, checked_settings
from dask_rac.edges.given import known_nodes
from dask_rac.edges.libraries import as_edges
from dask_rac.files.arrow_streams import table_if_any
from dask_rac.files.folder import Folder
from dask_rac.results.assignment import BuiltFrom
from dask_rac.results.clustering import Clustering
from dask_rac.results.stored import StoredClustering, open_result
from dask_rac.runs.begin import begin_pairs_run, begin_run
from dask_rac.runs.in_memory import check_pairs, cluster_edges, cluster_pairs
from dask_rac.runs.options import PlanOptions, RunOptions, check_options
from dask_rac.runs.plan import Plan, plan_stored
from dask_rac.runs.resume import resume_run
from dask_rac.show.progress import listener_for
from dask_rac.store.advice import refuse_taken_store
from dask_rac.store.header import read_header
from dask_rac.tasks.client import choose_scheduler
from dask_rac.vectors.graph.request import GraphRequest, request_of
from dask_rac.vectors.sources.opening import is_dask_array


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
    progress: Listener | bool | None = ...,
    *,
    epsilon: float = ...,
    graph: Mapping[str, Any] | None = ...,
    metric: str | None = ...,
    engine: str | None = ...,
    names: Any = ...,
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
    progress: Listener | bool | None = ...,
    *,
    epsilon: float = ...,
    graph: Mapping[str, Any] | None = ...,
    metric: str | None = ...,
    engine: str | None = ...,
    names: Any = ...,
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
    progress: Listener | bool | None = ...,
    *,
    epsilon: float = ...,
    graph: Mapping[str, Any] | None = ...,
    metric: str | None = ...,
    engine: str | None = ...,
    names: Any = ...,
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
    progress: Listener | bool | None = None,
    *,
    epsilon: float = 0.0,
    graph: Mapping[str, Any] | None = None,
    metric: str | None = None,
    engine: str | None = None,
    names: Any = None,
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    shards: int | None = None,
    client: Any = None,
    wait: bool = True,
) -> Clustering | RunHandle:
    """Compute the exact hierarchical agglomerative clustering of a weighted graph, or of all pairs of vectors.

    By default the graph is clustered in memory. With `store=` it is clustered out of core: a graph many times larger
    than memory is read in pieces and processed through the disk, round by round. Completed rounds are kept, and
    `resume` continues a run, whatever stopped it. The computation runs where Dask would run it: on the
    workers of the current `distributed.Client`, otherwise in the threads of this process. The merges are the same in
    all cases, to the last bit.

    Parameters
    ----------
    edges
        The undirected edges: a scipy sparse matrix (symmetric, or one triangle; explicitly stored zeros are edges); a
        pandas or Dask DataFrame, or anything that offers an Arrow stream (pyarrow, Polars, DuckDB, ibis), with columns
        `source`, `target`, `weight`; a tuple of those three arrays; the path of a Parquet file or folder; the arrays
        `(indices, distances)` of a library that searches for neighbours; or a networkx or igraph graph whose edges have
        the attribute `weight`. An edge may be given once, or in both directions with the same weight. The ids in
        `source` and `target` are 0, 1, 2, ..., or text: then nodes are numbered in the order of their names by UTF-8
        bytes, whatever the order of the rows, and the result has the names. If `graph` is given, vectors in any form
        that `knn_graph` accepts. Vectors without `graph`, as an array or the path of a `.npy` file, or in any form if
        `metric` is given, are clustered by all their pairs.
    linkage : {"average", "complete", "single", "weighted", "ward"}
        How the distance between two clusters follows from the distances between their nodes: "average" uses the mean,
        "complete" the largest, "single" the smallest, "weighted" the mean of the distances of the two parts of a
        cluster, however many nodes each has. "ward", for all pairs only, is the distance by which a merge adds to the
        sum of squares within clusters.
    missing : {"far", "ignore", "infinite"} or float, optional
        How to treat two nodes without an edge. "far", the default: they are farther apart than any two with one. Their
        distance counts as twice the largest weight of the graph, or 1 if that is 0; for similarities they weigh 0.
        "ignore": their distance is unknown, and linkage uses only the edges that exist. "infinite": they are infinitely
        far apart, and clusters merge only if every pair of their nodes has an edge. A number: their weight, which must
        not be closer than that of any edge. Two clusters without any edge between them never merge. Single linkage uses
        only the edges that exist, whatever `missing` is.
    weights : {"distance", "similarity"}
        Whether small weights mean close ("distance") or large ones ("similarity").
    n_nodes : int, optional
        The number of nodes, if there are more than the largest id implies.
    max_height : float, optional
        The largest height of a merge, inclusive. For similarities, the smallest. Averages are rounded: the mean of
        equal weights may exceed them by the last bit.
    duplicates : {"error", "min", "max", "mean"}
        What to do with an edge that is given with different weights. "mean" averages all rows that name the edge.
    finisher : bool
        Whether sequential HAC takes over once rounds merge few clusters. If False, rounds run to the end. The
        hierarchy is the same.
    progress : callable or bool, optional
        A function that is called with an `Event` at each stage and after each round. True shows a progress bar, or
        prints plain lines if the output is neither a terminal nor a notebook. False shows nothing. By default a bar is
        shown on a terminal or in a notebook, and nothing elsewhere. With `wait=False` the default is to show nothing,
        as the handle reports progress.
    epsilon : float
        How far a merge may be from the nearest there is: 0, the default, for exact HAC; with 0.1 it is within a factor
        of 1.1, and graphs with hubs take less time. Each merge then has a `ratio`, and the result an
        `epsilon`, the largest that occurred. For average and complete linkage of a graph; single linkage is exact in
        any case. At most 10.
    graph : dict, optional
        Which graph to build from vectors: the arguments of `knn_graph`, such as `dict(k=15, metric="cosine")`, of
        `eps_graph`, such as `dict(eps=0.5)`, or of `complete_graph`, as `dict(kind="complete")`. With `store=` the
        edges are kept in a folder next to it, named `store` plus `.graph`. If the call is stopped before they are
        complete, the same call continues.
    metric : str, optional
        For all pairs: how vectors are compared, as for `knn_graph`; "euclidean" by default. With "precomputed" the
        first argument holds distances: a square matrix or scipy's condensed vector, as an array, a `.npy` file, a Zarr
        or a Dask array. Ward linkage requires "euclidean", or takes precomputed distances as euclidean.
    engine : {"matrix", "points", "certain"}, optional
        For all pairs: how to cluster them. By default the first of these that fits in memory and can do it. The merges
        are the same; sums of distances may differ in the last digits. "matrix" holds all pairs in memory,
        n (n - 1) / 2 numbers of 8 bytes. "points" holds one centroid for each cluster, for ward linkage and for the
        average of "sqeuclidean", "cosine" and "inner_product" of dense vectors. "certain" merges near pairs as far as
        they decide alone, and then goes through all pairs once more for the matrix of the clusters that are left.
    names : sequence of str or path, optional
        The names of the nodes 0, 1, 2, ..., one for each node or vector: a list, an array, a pandas Series or Index, an
        Arrow array, or the path of a text file with one name per line or of a Parquet file, of which the column `name`
        or the first column is read. They may repeat. By default the index of a DataFrame of vectors, unless it only
        counts the rows; and the names beside a folder of edges, where `ingest` puts them. Not for ids that are text.
    store : path or URL, optional
        A new folder for the run: its state after each round, its merges and its statistics. `edges` may then also be a
        Dask DataFrame or the path of a Parquet dataset or Zarr group larger than memory.
    memory : str or int, optional
        The memory that the arrays of the run may use, such as "6GB", summed over all processes. The interpreter and
        its libraries need about 0.3 GB per process in addition. Half of the available memory by default. Only with
        `store=`, and for all pairs.
    shards : int, optional
        The number of shards into which the graph is split at first, and how much smaller it must be before the rest
        runs in memory. By default as few as `memory` allows, one if all of it fits: then a number only costs time, as
        rounds go through the disk. Only with `store=`. The defaults of `shards` and `memory` can be set in Dask's
        configuration, as `rac.shards` and `rac.memory`.
    client : distributed.Client, optional
        Where to run. By default the current client, otherwise the threads of this process; always these threads if
        Dask is configured with `scheduler="threads"`, or within a Dask task. A run in memory uses one worker and all
        its threads: edges are sent to it, and it reads paths and the partitions of a Dask DataFrame itself. A run with
        `store=` uses all workers.
    wait : bool
        Whether to wait for the result. False returns a `RunHandle` immediately, and the run continues in the
        background. Invalid parameters still raise here; errors in the edges are raised by `result()`.

    Returns
    -------
    Clustering
        With `store=`, a `StoredClustering`, whose merges stay on disk. With `wait=False`, a `RunHandle`, whose
        `result()` returns the clustering.

    Raises
    ------
    InputError
        If the edges or a parameter are invalid. The message states where and what to do.
    StoreError
        If `store` cannot be used: it is not empty, not writable, in use, or damaged.
    ResourceError
        If memory, disk or workers do not suffice. The message states which setting would.
    """
    metric = pairs_metric(edges, graph, metric)
    check_engine(engine, metric)
    if metric is not None:
        check_pairs_options(metric, weights, n_nodes, shards)
    settings = checked_settings(
        linkage, missing, weights, max_height, duplicates, finisher, epsilon=epsilon, metric=metric or ""
    )
    for name, value in (("memory", None if metric else memory), ("shards", shards)):
        if value is not None and store is None:
            raise InputError(f"{name}= is only for runs through the disk: give store= as well, or leave it out")
    place = choose_scheduler(client)
    edges = as_edges(edges, store is not None) if metric is None and graph is None else table_if_any(edges)
    named = names_of(names, edges, metric is not None or graph is not None, n_nodes)
    given_memory = setting("memory", memory) if store is not None else memory
    options = PlanOptions(n_nodes, given_memory, setting("shards", shards), place, names=named, engine=engine or "")
    if store is not None:
        options = RunOptions(**vars(options), store=store)
    request = None if graph is None else request_of(graph, weights)
    if not wait:
        _refuse_early(options, edges, settings, request)
        url = None if store is None else Folder(store).url
        return RunHandle(
            partial(run_cluster, edges, request, settings, options),
            place,
            url,
            listener_for(False if progress is None else progress),
        )
    with listener_for(progress) as report:
        result, warned = run_cluster(edges, request, settings, options, report)
    for text in warned:
        warnings.warn(text, stacklevel=2)
    return result


def _refuse_early(options: PlanOptions, edges: Any, settings: Settings, request: GraphRequest | None) -> None:
    """Raise the errors of a run that can be detected without starting it."""
    check_options(options)
    if isinstance(options, RunOptions):
        refuse_taken_store(Folder(options.store))
    if settings.metric:
        if settings.metric == PRECOMPUTED or not is_dask_array(edges):  # which would be computed
            check_pairs(edges, settings, options)
    elif request is None:
        known = known_nodes(edges, settings.weights)
        if not isinstance(edges, str | PathLike):
            with_names(options, edges, known)


def run_cluster(
    edges: Any, request: GraphRequest | None, settings: Settings, options: PlanOptions, report: Listener
) -> tuple[Clustering, list[str]]:
    """Run in memory or through a store, and return the result and the texts of warnings."""
    if settings.metric:
        return run_pairs(edges, settings, options, report), []
    resources = Resources(options.memory, options.client)
    if request is not None:
        check_vectors(options.names, edges, request.columns)
    built = None if request is None else BuiltFrom(edges, request.graph.metric.name, request.columns)
    if request is not None and isinstance(options, RunOptions):
        store = Folder(options.store)
        refuse_taken_store(store)
        vectors, edges = edges, f"{store.url}.graph"
        stored_graph(vectors, request, edges, resources, report)
    elif request is not None:
        edges = with_facts(*memory_graph(edges, request, resources, report))
    known = known_nodes(edges, settings.weights)
    options = with_names(options, edges, known)
    result: Clustering
    if isinstance(options, RunOptions):
        journal = begin_run(edges, settings, options, report)
        result, found = StoredClustering(journal, report, trusted=True), journal.facts
        loops, first = found.loops, found.first
    else:
        merges = cluster_edges(edges, settings, options, report)
        names = merges.names if options.names is None else options.names.in_memory()
        result, loops, first = Clustering(merges, settings, names=names), merges.loops, merges.first
    result._built_from = built
    return result, edge_warnings(edges, settings, (loops, first, result.n_nodes))


def run_pairs(given: Any, settings: Settings, options: PlanOptions, report: Listener) -> Clustering:
    """Cluster all pairs in memory, or with a store for the result."""
    if isinstance(options, RunOptions):
        return StoredClustering(begin_pairs_run(given, settings, options, report), report, trusted=True)
    found = cluster_pairs(given, settings, options, report)
    return Clustering(found, settings, given, None if options.names is None else options.names.in_memory())


def plan_run(
    edges: str | PathLike[str],
    linkage: str = "average",
    missing: str | float | None = None,
    weights: str = "distance",
    n_nodes: int | None = None,
    *,
    epsilon: float = 0.0,
    metric: str | None = None,
    engine: str | None = None,
    memory: str | float | None = None,
    shards: int | None = None,
    client: Any = None,
    progress: Listener | bool | None = None,
) -> Plan:
    """Estimate the resources of `cluster(..., store=...)` with the same arguments, without running it.

    Parameters
    ----------
    edges : path or URL
        A Parquet file or folder, or a Zarr group. Only metadata is read, unless it lacks statistics. For all pairs,
        vectors or distances as for `cluster`.
    linkage, missing, weights, n_nodes, epsilon, metric, engine, memory, shards, client, progress
        As for `cluster`.

    Returns
    -------
    Plan
        The number of shards, their size, the projected peaks of memory and disk, and the first round as a Dask graph,
        which `plan.visualize()` draws. For all pairs, the engine, and how often it goes through them.

    Raises
    ------
    ResourceError
        If the run would not fit. The message states which setting would.
    """
    metric = pairs_metric(edges, None, metric)
    check_engine(engine, metric)
    if metric is not None:
        check_pairs_options(metric, weights, n_nodes, shards)
    settings = checked_settings(linkage, missing, weights, epsilon=epsilon, metric=metric or "")
    options = PlanOptions(n_nodes, setting("memory", memory), setting("shards", shards), client, engine=engine or "")
    with listener_for(progress) as report:
        return plan_stored(edges, settings, options, report)


@overload
def resume(
    store: str | PathLike[str],
    *,
    memory: str | float | None = ...,
    client: Any = ...,
    progress: Listener | bool | None = ...,
    wait: Literal[True] = ...,
    trust_source: bool = ...,
) -> StoredClustering: ...


@overload
def resume(
    store: str | PathLike[str],
    *,
    memory: str | float | None = ...,
    client: Any = ...,
    progress: Listener | bool | None = ...,
    wait: Literal[False],
    trust_source: bool = ...,
) -> RunHandle: ...


def resume(
    store: str | PathLike[str],
    *,
    memory: str | float | None = None,
    client: Any = None,
    progress: Listener | bool | None = None,
    wait: bool = True,
    trust_source: bool = False,
) -> StoredClustering | RunHandle:
    """Resume a run that was stopped, from the last round whose files are intact.

    Parameters
    ----------
    store : path or URL
        The folder of the run.
    memory : str or int, optional
        As for `cluster`. By default what the run was given when it began, if there is as much; otherwise half of the
        available memory.
    client : distributed.Client, optional
        As for `cluster`.
    progress : callable or bool, optional
        As for `cluster`.
    wait : bool
        As for `cluster`: False returns a `RunHandle` immediately.
    trust_source : bool
        Whether the edges that the store names may be opened even if they are at another server or in another bucket
        than the store. Needed only if the run was stopped before it had read all edges.

    Returns
    -------
    StoredClustering
        The result, the same to the last bit as that of an uninterrupted run. If the run has finished, its result is
        returned immediately. With `wait=False`, a `RunHandle`, whose `result()` returns the clustering.

    Raises
    ------
    StoreError
        If `store` holds no run, another process is working on it, or it is damaged beyond the round before the last;
        or if edges would have to be read from another server, and `trust_source` does not allow it.
    InputError
        If the edges have changed since the run began.
    """
    place = choose_scheduler(client)
    options = PlanOptions(None, memory, None, place)
    if wait:
        with listener_for(progress) as report:
            return StoredClustering(resume_run(store, options, report, trust_source), report, trust_source)
    check_options(options)
    read_header(Folder(store))
    work = partial(_resume, store, options, trust_source)
    return RunHandle(work, place, Folder(store).url, listener_for(False if progress is None else progress))


def _resume(
    store: str | PathLike[str], options: PlanOptions, trust_source: bool, report: Listener
) -> tuple[Clustering, list[str]]:
    """Finish a run, without warnings: they were given when it began."""
    return StoredClustering(resume_run(store, options, report, trust_source), report, trust_source), []


def open_run(store: str | PathLike[str], *, progress: Listener | bool | None = None) -> StoredClustering:
    """Open the result in a store: that of a finished run, or the merges so far of an unfinished one.

    Parameters
    ----------
    store : path or URL
        The folder of the run.
    progress : callable or bool, optional
        As for `cluster`; used by the methods of the result that take long, such as `verify`.

    Returns
    -------
    StoredClustering
    """
    with listener_for(progress) as report:
        return open_result(store, report)
