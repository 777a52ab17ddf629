"""The nearest neighbours in few dimensions, by scipy's k-d tree.

The tree finds candidates; kernels weigh them, as they weigh all others, so that nothing depends on which way a
neighbour was found. Where the tree leaves a doubt, because others may be as near as the last one found, it is asked for
more, and at last for the whole ball. Vectors with many copies are settled at once: the smallest ids are theirs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from dask_rac.kernels.lists import rank_candidates
from dask_rac.kernels.pairs import EUCLIDEAN, MANHATTAN, SQUARED, Points, weigh_pairs
from dask_rac.store.vectors import VectorSource
from dask_rac.vectors.metrics import Metric
from dask_rac.vectors.search import Found, Near, as_points

TREE_BYTES = 40  # a vector, beside its coordinates
SURE = 1 - 1e-9  # what rounding may change of a distance, and more
BALLS = 4096  # asked for at a time
TREE_PAIRS = 3  # what a pair takes while it is found, against what it takes when it is kept

_trees: dict[str, Tree] = {}
_building = threading.Lock()


@dataclass(frozen=True)
class Tree:
    """All vectors in a tree."""

    tree: cKDTree
    points: Points
    order: NDArray[np.int64]
    """Where each vector lies in the tree: who are asked for together should be neighbours."""


def can_hold(metric: Metric) -> bool:
    """Whether a tree finds neighbours by this metric."""
    return metric.code in (EUCLIDEAN, SQUARED, MANHATTAN)


def tree_bytes(rows: int, dimensions: int, dtype: str) -> int:
    """What a tree takes in memory, the vectors as well."""
    return rows * (TREE_BYTES + dimensions * (8 + np.dtype(dtype).itemsize))


def shared_tree(source: VectorSource, metric: Metric, token: str) -> Tree:
    """The tree of all vectors, built once in a process; one is kept."""
    with _building:
        if token not in _trees:
            _trees.clear()
            block = source.read(0, source.rows)
            tree = cKDTree(block.astype(np.float64), balanced_tree=False, compact_nodes=False, copy_data=False)
            order = np.empty(source.rows, np.int64)
            order[tree.indices] = np.arange(source.rows)
            _trees[token] = Tree(tree, as_points(block, metric), order)
        return _trees[token]


def forget_tree(token: str) -> None:
    """Let go of a tree."""
    with _building:
        _trees.pop(token, None)


def tree_search(tree: Tree, metric: Metric, start: int, stop: int, k: int) -> Found:
    """The k nearest of a span of vectors among all."""
    rows = start + np.argsort(tree.order[start:stop])
    found = Found(np.zeros(len(rows), np.int32), np.empty((len(rows), k), np.int64), np.empty((len(rows), k)))
    left = np.arange(len(rows))
    for more in (k + 2, 3 * k + 16):
        left = left[_ask(tree, metric, rows, left, min(more, tree.tree.n), found)]
        if not len(left):
            break
    copies = found.weight[left, -1] == 0
    _settle_copies(tree, metric, rows, left[copies], found)
    _ask_balls(tree, metric, rows, left[~copies], found)
    back = np.argsort(rows)
    return Found(found.count[back], found.neighbour[back], found.weight[back])


def _p(metric: Metric) -> int:
    """Minkowski's p."""
    return 1 if metric.code == MANHATTAN else 2


def _ask(
    tree: Tree, metric: Metric, rows: NDArray[np.int64], which: NDArray[np.int64], more: int, found: Found
) -> NDArray[np.bool_]:
    """Rank the nearest `more` of some rows; says whose neighbours are still in doubt."""
    far, candidate = tree.tree.query(tree.tree.data[rows[which]], more, p=_p(metric))
    start = np.arange(len(which) + 1) * more
    _rank(tree, metric, rows, which, (start, np.asarray(candidate, np.int64).ravel()), found)
    if more == tree.tree.n:
        return np.zeros(len(which), np.bool)
    reach = found.weight[which, -1]
    reach = np.sqrt(reach) if metric.code == SQUARED else reach
    doubt: NDArray[np.bool_] = reach >= SURE * np.asarray(far)[:, -1]
    return doubt


def _rank(
    tree: Tree,
    metric: Metric,
    rows: NDArray[np.int64],
    which: NDArray[np.int64],
    candidates: tuple[NDArray[np.int64], NDArray[np.int64]],
    found: Found,
) -> None:
    """Take the nearest of the candidates of some rows."""
    k = found.neighbour.shape[1]
    out = np.empty(len(which), np.int32), np.empty((len(which), k), np.int64), np.empty((len(which), k))
    rank_candidates(tree.points, rows[which], candidates, k, metric.code, out)
    found.count[which], found.neighbour[which], found.weight[which] = out


def _settle_copies(tree: Tree, metric: Metric, rows: NDArray[np.int64], which: NDArray[np.int64], found: Found) -> None:
    """The neighbours of vectors with more than k copies: the smallest ids among these, at distance 0."""
    if not len(which):
        return
    k = found.neighbour.shape[1]
    places, group = np.unique(tree.tree.data[rows[which]], axis=0, return_inverse=True)
    firsts = np.empty((len(places), k + 1), np.int64)
    for number, same in enumerate(tree.tree.query_ball_point(places, 0.0, p=_p(metric))):
        ids = np.asarray(same, np.int64)
        firsts[number] = np.sort(np.partition(ids, k)[: k + 1])
    candidates = firsts[group.ravel()]
    itself = candidates == rows[which][:, None]
    itself[~itself.any(axis=1), k] = True  # the last one makes way where the vector itself is not among the first
    found.neighbour[which] = candidates[~itself].reshape(-1, k)
    found.weight[which] = 0.0


def _ask_balls(tree: Tree, metric: Metric, rows: NDArray[np.int64], which: NDArray[np.int64], found: Found) -> None:
    """Rank all that are as near as the last one found, or nearer."""
    for first in range(0, len(which), BALLS):
        some = which[first : first + BALLS]
        reach = found.weight[some, -1]
        reach = (np.sqrt(reach) if metric.code == SQUARED else reach) / SURE
        balls = tree.tree.query_ball_point(tree.tree.data[rows[some]], reach, p=_p(metric))
        start = np.append(0, np.cumsum([len(ball) for ball in balls]))
        candidate = np.concatenate([np.asarray(ball, np.int64) for ball in balls])
        _rank(tree, metric, rows, some, (start, candidate), found)


def tree_near(tree: Tree, metric: Metric, eps: float, span: tuple[int, int], most: int) -> Iterator[Near]:
    """The pairs of a span of vectors and all after each of them at most `eps` apart, in no order, some at a time."""
    radius = (np.sqrt(eps) if metric.code == SQUARED else eps) / SURE
    start, stop = span
    few = cKDTree(tree.tree.data[start:stop], balanced_tree=False, compact_nodes=False)
    count = int(few.count_neighbors(tree.tree, radius, p=_p(metric)))
    step = max(1, (stop - start) * most // max(TREE_PAIRS * count, 1))
    for first in range(start, stop, step):
        some = few if step >= stop - start else cKDTree(tree.tree.data[first : min(first + step, stop)])
        met = some.sparse_distance_matrix(tree.tree, radius, p=_p(metric), output_type="ndarray")
        later = met["j"] > met["i"] + first
        own, other = met["i"][later] + first, met["j"][later].astype(np.int64)
        weight = np.empty(len(own))
        weigh_pairs(tree.points, tree.points, (own, other), metric.code, weight)
        kept = weight <= eps
        yield (own[kept] - start).astype(np.int32), other[kept], weight[kept]
