"""Single linkage of more edges: the spanning forest of all edges is that of two forests, the old one and the new."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import scipy.sparse as sp

from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.settings import EDGE_COLUMNS, Settings
from dask_rac.edges.checks import checked_ids
from dask_rac.edges.given import has_text_ids, is_dask_frame, known_nodes, read_columns, require_columns
from dask_rac.edges.source import open_edges
from dask_rac.engines.contract import MergeList
from dask_rac.engines.forest.state import ForestEdges, ends_of, tree_order
from dask_rac.engines.forest.stored import BEFORE
from dask_rac.kernels.arrays import empty_merges, part
from dask_rac.kernels.forest import unite
from dask_rac.runs.in_memory import cluster_edges
from dask_rac.runs.options import PlanOptions
from dask_rac.runs.plan import count_nodes
from dask_rac.tasks.client import choose_scheduler


def total_nodes(nodes: int, edges: Any, settings: Settings, options: PlanOptions, report: Listener) -> int:
    """Return the number of nodes of a clustering after some edges are added: at least as many as before."""
    if has_text_ids(edges):
        raise InputError(
            "the new edges have names for their nodes, and extending a clustering takes the numbers of its nodes: find "
            "them with clustering.names.find(...), or cluster all edges at once"
        )
    if options.n_nodes is not None:
        return options.n_nodes
    known = known_nodes(edges, settings.weights)
    return max(nodes, _count_nodes(edges, settings, options, report) if known is None else known)


def _count_nodes(edges: Any, settings: Settings, options: PlanOptions, report: Listener) -> int:
    """Return the number of nodes that edges need."""
    if isinstance(edges, str | PathLike):
        return count_nodes(open_edges(edges), settings, choose_scheduler(options.client), report)
    if sp.issparse(edges):
        shape: tuple[int, int] = edges.shape  # type: ignore[attr-defined]
        return max(shape)
    if is_dask_frame(edges):
        require_columns(edges.columns)
        largest = edges[list(EDGE_COLUMNS[:2])].max().compute().max()
        return 0 if np.isnan(largest) else int(largest) + 1  # without rows there is no largest
    columns, where = read_columns(edges)
    ends = [checked_ids(columns[name], name, None, where) for name in EDGE_COLUMNS[:2]]
    return 1 + max((int(column.max()) for column in ends if len(column)), default=-1)


def extend_edges(
    forest: Iterable[ForestEdges], edges: Any, settings: Settings, options: PlanOptions, report: Listener
) -> MergeList:
    """Cluster new edges in memory, then the edges of both forests; `options` hold the number of all nodes."""
    found = cluster_edges(edges, settings, options, report)
    assert found.ends is not None
    parts = list(forest)
    old = sum(len(some.weight) for some in parts)
    tree = _joined([*parts, ForestEdges(*found.ends, settings.sign * found.merges.height)], found.nodes)
    order, ids = tree_order(tree), tree.source.dtype
    merges = empty_merges(len(order), ids)
    count = unite(order, tree, (np.arange(found.nodes, dtype=ids), np.ones(found.nodes, ids)), merges)
    merges.height[:] = settings.sign * merges.height + 0.0  # no minus zero
    taken = order[:count]
    when = np.concatenate((np.full(old, BEFORE, np.int32), found.round))[taken]
    return replace(found, merges=part(merges, None, count), round=when, ends=ends_of(tree, taken))


def _joined(parts: Sequence[ForestEdges], nodes: int) -> ForestEdges:
    """Return the edges of several forests."""
    source, target, weight = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    ids = cluster_id_dtype(nodes)
    return ForestEdges(source.astype(ids), target.astype(ids), np.asarray(weight, np.float64))
