"""What users call."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from dask_rac import driver
from dask_rac.clustering import Clustering
from dask_rac.config import Event, Progress, Settings, checked_settings
from dask_rac.edges import Graph, load_graph
from dask_rac.errors import InputError
from dask_rac.progress import TerminalProgress, on_terminal


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
) -> Clustering:
    """The exact hierarchical agglomerative clustering of a weighted graph.

    Parameters
    ----------
    edges
        The undirected edges: a scipy sparse matrix (symmetric, or one triangle; stored zeros are edges), a pandas or
        Dask DataFrame or pyarrow Table with columns `source`, `target`, `weight`, a tuple of those three arrays, or the
        path of a Parquet file or folder. An edge may be given once, or in both directions with one weight.
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
        for nothing, True for the bar.

    Returns
    -------
    Clustering

    Raises
    ------
    InputError
        If the edges or a parameter cannot be used; it says where and what to do.
    """
    settings = checked_settings(linkage, missing, weights, max_height, duplicates, finisher)
    with driver.new_team() as team, _watcher(progress) as report:
        report(Event("compile"))
        driver.compile_kernels("int32")
        report(Event("load"))
        graph = load_graph(edges, n_nodes, settings, team, driver.memory_limit())
        _check_missing(graph, settings)
        if graph.loops:
            warnings.warn(f"dropped {graph.loops} self loops: a node has no distance to itself", stacklevel=2)
        nodes, ids = len(graph.rows.start), graph.rows.neighbour.dtype.name
        if ids != "int32":
            report(Event("compile", nodes))
            driver.compile_kernels(ids)
        outcome = driver.run(graph, settings, team, report)
        report(Event("done", nodes, len(outcome.round)))
    return Clustering(nodes, outcome.merges, outcome.round, outcome.records, settings)


def _watcher(progress: Progress | bool | None) -> AbstractContextManager[Progress]:
    """Whom to tell what happens."""
    if callable(progress):
        return nullcontext(progress)
    if progress is not None and not isinstance(progress, bool):
        raise InputError(f"progress={progress!r} is neither True nor False nor a function")
    if progress or (progress is None and on_terminal()):
        return TerminalProgress()
    return nullcontext(lambda _: None)


def _check_missing(graph: Graph, settings: Settings) -> None:
    """Refuse a weight for missing pairs that is nearer than an edge's."""
    missing = settings.missing
    if isinstance(missing, str) or settings.linkage == "single" or not np.isfinite(graph.largest):
        return
    nearer, edge, bound, other = (
        (missing < graph.largest, "largest weight", graph.largest, "more")
        if settings.weights == "distance"
        else (missing > graph.least, "smallest similarity", graph.least, "less")
    )
    if not np.isfinite(float(len(graph.rows.start)) ** 2 * missing):
        raise InputError(f"missing={missing} adds up to infinity over all pairs: scale weights and missing down")
    if nearer:
        raise InputError(
            f"missing={missing} is nearer than the {edge}, {bound}: pairs without an edge would merge before known "
            f"ones, and are never looked at; use {bound} or {other}, 'ignore' or 'infinite'"
        )
