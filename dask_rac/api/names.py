"""The names of nodes, as users give them to `cluster`: outright, by the index of a DataFrame, or with a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import scipy.sparse as sp

from dask_rac.base.names import EDGE_NAMES, NAMES_RECORD
from dask_rac.edges.given import known_names
from dask_rac.edges.given_names import GivenNames, NameList, index_names, open_names
from dask_rac.edges.source import open_edges
from dask_rac.files.folder import Folder
from dask_rac.files.node_names import NodeNames
from dask_rac.files.stored_names import names_beside, write_names, write_names_record
from dask_rac.runs.options import PlanOptions
from dask_rac.vectors.sources.opening import is_dask_array, open_vectors


def names_of(names: Any, given: Any, vectors: bool, n_nodes: int | None) -> GivenNames | None:
    """Return the names for edges or vectors: those of the user, of an index, or of a graph; None if there are none."""
    if names is None:
        known = known_names(given)
        return index_names(given) if vectors else None if known is None else open_names(known)
    found = open_names(names)
    if n_nodes is not None:
        found.check_count(n_nodes, f"nodes, as n_nodes={n_nodes} states")
    return found


def with_names(options: PlanOptions, edges: Any, known: int | None) -> PlanOptions:
    """Return options with the number of nodes that the names state; raise if edges state another."""
    if options.names is None:
        return replace(options, n_nodes=known if options.n_nodes is None else options.n_nodes)
    if sp.issparse(edges):
        matrix: Any = edges
        known = int(matrix.shape[0])
    elif isinstance(edges, str | PathLike):
        source = open_edges(edges)
        known = None if source.text else source.nodes
    options.names.check_count(known)
    return replace(options, n_nodes=options.names.count)


def check_vectors(names: GivenNames | None, vectors: Any, columns: Sequence[str] | None) -> None:
    """Raise unless there is a name for each vector, before a graph is built of them."""
    if names is not None:
        rows = int(vectors.shape[0]) if is_dask_array(vectors) else open_vectors(vectors, columns).rows
        names.check_count(rows, "vectors")


def listed_names(vectors: Any) -> NameList | None:
    """Return the names in the index of a DataFrame of vectors, for the attributes of its graph."""
    found = index_names(vectors)
    return None if found is None else NameList(name for names in found.batches() for name in names.to_pylist())


def put_names(folder: Folder, vectors: Any) -> NodeNames | None:
    """Write the index of a DataFrame of vectors beside the edges of its graph, as names, and return these.

    A call that was stopped may have left some of them.
    """
    found = index_names(vectors)
    if found is not None and not folder.exists(NAMES_RECORD):
        folder.remove(EDGE_NAMES)
        write_names_record(folder, write_names(folder, EDGE_NAMES, found.batches()))
    return None if found is None else names_beside(folder)
