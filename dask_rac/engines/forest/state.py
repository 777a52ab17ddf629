"""The state of single linkage: edges of a spanning forest, the candidates for it, and its part of a stored state."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.files.folder import FileRecord
from dask_rac.kernels.arrays import Ends, Ids, Rows
from dask_rac.kernels.forest import champions, list_champions, tree_hashes
from dask_rac.store.manifest import ShardRecord, State


class ForestEdges(NamedTuple):
    """Edges of a spanning forest."""

    source: Ids
    target: Ids
    weight: NDArray[np.float64]


class Candidates(NamedTuple):
    """Each component's lightest edge, as far as the rows show."""

    component: Ids
    source: Ids
    target: Ids
    weight: NDArray[np.float64]


def list_candidates(rows: Rows, label: Ids, count: int, best: NDArray[np.int64], base: int) -> tuple[int, Candidates]:
    """Return the lightest edge in the rows for each of `count` components; row `i` is node `base + i`."""
    champion = np.empty(count, label.dtype)
    live = champions(rows, label, best, champion, base)
    ids = label.dtype
    candidates = Candidates(np.empty(live, ids), np.empty(live, ids), np.empty(live, ids), np.empty(live))
    list_champions(rows, best, champion, base, candidates)
    return live, candidates


def no_edges(count: int, ids: np.dtype[Any]) -> ForestEdges:
    """Return what `count` components hold before any edge challenges it."""
    return ForestEdges(np.full(count, -1, ids), np.empty(count, ids), np.empty(count))


def tree_order(tree: ForestEdges) -> NDArray[np.intp]:
    """Return the order of a forest's edges from the lightest to the heaviest.

    Edges of equal weight go by their hash, as in `kernels.forest`: this decides which clusters merge, so it is not the
    order in which merges are listed (`tree.order`), which cannot be known before they are made.
    """
    order = np.argsort(tree.weight)
    ordered = tree.weight[order]
    if (ordered[1:] == ordered[:-1]).any():
        hashes = np.empty(len(order), np.uint64)
        tree_hashes(tree.source, tree.target, hashes)
        order = np.lexsort((hashes, tree.weight))
    return order


def ends_of(tree: ForestEdges, taken: NDArray[np.intp]) -> Ends:
    """Return the nodes of the edges that are taken, in their order."""
    return Ends(tree.source[taken], tree.target[taken])


def forest_state(
    round_: int,
    components: int,
    shards: tuple[ShardRecord, ...],
    files: tuple[FileRecord, ...],
    component: str,
    tree: Sequence[str],
) -> State:
    """A stored state; `component` and `tree` are groups, of the component of each node and of the forest so far."""
    return State(round_, components, shards, files, {"component": component, "tree": list(tree)})


def component_group(state: State) -> str:
    """The group that has the component of each node, once there are some."""
    return str(state.own.get("component", ""))


def tree_groups(state: State) -> Sequence[str]:
    """The groups that have the edges of the spanning forest found so far."""
    return tuple(state.own.get("tree", ()))
