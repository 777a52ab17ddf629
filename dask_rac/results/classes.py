"""Known classes as users have them: one per node, in any form, in the order of nodes or by number or name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dask_rac.base.errors import InputError
from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.spans import batches
from dask_rac.base.text import listed, quoted
from dask_rac.files.node_names import NodeNames
from dask_rac.tree.ordered import Codes

NODE = "node"
"""What an index of node numbers is called, in our tables and files."""
NAMES = 1_000_000
"""Names looked up at a time."""
REMEDY = "give one label per node, in order, or a pandas Series whose index holds the nodes"


@dataclass(frozen=True)
class Classes:
    """The class of each node."""

    code: Codes
    """Numbered from 0; -1 if it has none."""
    count: int
    """The number of classes that some node has."""
    labelled: int
    """The number of nodes with a class."""


def known_classes(labels: Any, n_nodes: int, names: NodeNames | None, ignore: Any) -> Classes:
    """Return the classes of the nodes; see `Clustering.scores`."""
    unlabelled, keyed = labels is None, isinstance(labels, Mapping)
    if unlabelled:
        labels = np.full(n_nodes, None)
    if keyed:
        labels = pd.Series(labels, dtype=None if labels else object)
    if isinstance(labels, pd.Series) and not _in_order(labels.index, n_nodes):
        code = _codes(labels.array, ignore)
        code = np.append(code, -1)[
            _rows(labels.index, n_nodes, names, keyed)
        ]  # the last one for nodes that are not there
    else:
        code = _codes(_one_column(labels, n_nodes), ignore)
    used = np.unique(code[code >= 0], return_inverse=True)
    if not len(used[0]) and not unlabelled:
        raise InputError(f"labels has a label for none of the {n_nodes:,} nodes: {REMEDY}")
    own = np.full(n_nodes, -1, cluster_id_dtype(n_nodes))
    own[code >= 0] = used[1]
    return Classes(own, len(used[0]), len(used[1]))


def _in_order(index: pd.Index[Any], n_nodes: int) -> bool:
    """Whether an index is 0, 1, 2, ..., as pandas makes it."""
    return len(index) == n_nodes and isinstance(index, pd.RangeIndex) and (index.start, index.step) == (0, 1)


def _one_column(labels: Any, n_nodes: int) -> Any:
    """Return one label per node in a form that pandas can number."""
    if isinstance(labels, pd.Series | pd.Categorical):
        column: Any = labels.array if isinstance(labels, pd.Series) else labels
    else:
        try:
            column = np.asarray(labels)
        except ValueError:
            column = np.empty((0, 0))
        if np.ma.isMaskedArray(labels):
            column = column.astype(object)
            column[np.ma.getmaskarray(labels)] = None
        if column.ndim != 1:
            raise InputError(f"labels={quoted(labels)} is not one column: {REMEDY}")
        if isinstance(labels, list | tuple) and column.dtype.kind in "US":
            column = np.asarray(labels, object)  # numpy makes text of None and NaN
    if len(column) != n_nodes:
        raise InputError(f"labels has {len(column):,} values, and there are {n_nodes:,} nodes: {REMEDY}")
    return column


def _codes(values: Any, ignore: Any) -> Codes:
    """Number labels in the order of their first appearance; -1 for those that are null or to be ignored."""
    try:
        code, kinds = pd.factorize(values)
    except TypeError as error:
        raise InputError(f"labels cannot be told apart: {error}; use numbers or text") from error
    if ignore is not None:
        ignored = np.asarray(np.asarray(kinds, object) == ignore)
        code = np.where(np.append(ignored, True)[code], -1, code)  # the last one for those that are null already
    numbers: Codes = code
    return numbers


def _rows(index: pd.Index[Any], n_nodes: int, names: NodeNames | None, keyed: bool) -> Codes:
    """Return the row of each node in an index of numbers or names, or in the keys of a dict; -1 if it is not there."""
    if not index.is_unique:
        twice = index[index.duplicated()].tolist()[0]
        raise InputError(f"labels has node {quoted(twice)} more than once: keep one row for each node")
    if pd.api.types.is_integer_dtype(index.dtype):
        if not keyed and index.name != NODE:
            _refuse_leftover(index, n_nodes, names)
        return _rows_by_number(index.to_numpy(), n_nodes)
    if names is None:
        first = f"by {quoted(index.tolist()[0])} and so on" if len(index) else "without rows"
        raise InputError(
            f"labels is a Series {first}, and the nodes of this clustering have no names: index it by node numbers, or "
            "give labels.to_numpy() if it is in their order"
        )
    parts = [np.empty(0, np.intp)]
    for start, stop in batches(0, n_nodes, NAMES):
        parts.append(index.get_indexer(pd.Index(names.slice(start, stop).to_pylist(), dtype=object)))
    return np.concatenate(parts)


def _refuse_leftover(index: pd.Index[Any], n_nodes: int, names: NodeNames | None) -> None:
    """Raise if an index of numbers may be left over from before rows were dropped or shuffled."""
    in_order = len(index) == n_nodes and bool((index.to_numpy() == np.arange(n_nodes)).all())
    if not in_order and (names is not None or len(index) == n_nodes):
        by = (
            "index it by the names of the nodes"
            if names is not None
            else "call the index 'node' if it holds node numbers"
        )
        raise InputError(
            f"labels is a Series whose index, {listed(map(str, index[:4]))} and so on, may be node numbers, or left "
            f"over from other rows: give labels.to_numpy() if it is in the order of the nodes, or {by}"
        )


def _rows_by_number(nodes: Any, n_nodes: int) -> Codes:
    """Return the row of each node in an index of node numbers."""
    wrong = (nodes < 0) | (nodes >= n_nodes)
    if wrong.any():
        raise InputError(
            f"labels has node {nodes[wrong][0]}, which does not exist: nodes are 0 to {n_nodes - 1}; drop such rows"
        )
    rows = np.full(n_nodes, -1, np.int64)
    rows[nodes] = np.arange(len(nodes))
    return rows
