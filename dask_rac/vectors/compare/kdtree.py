"""The nearest neighbours in few dimensions, with scipy's k-d tree.

The tree finds candidates. The same kernels weigh them as everywhere else, so the result does not depend on how a
neighbour was found. Where others may be as near as the last candidate, the tree is queried for more, and finally for
the whole ball. Vectors with more than k copies need no ball: their neighbours are the copies with the smallest ids.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from dask_rac.base.spans import batches, starts_of
from dask_rac.kernels.vectors.lists import rank_candidates
from dask_rac.kernels.vectors.pairs import EUCLIDEAN, MANHATTAN, SQUARED, Points, weigh_pairs
from dask_rac.tasks.cache import kept
from dask_rac.vectors.compare.metrics import Metric
from dask_rac.vectors.compare.search import Near, NeighbourLists, as_points
from dask_rac.vectors.sources.opening import VectorSource

TREE_BYTES = 40  # per vector, besides its coordinates
SURE = 1 - 1e-9  # more than rounding may change a distance
BALLS = 4096  # per query
TREE_PAIRS = 3  # memory of a pair while it is found, relative to one that is kept


@dataclass(frozen=True)
class KdTree:
    """A k-d tree of all vectors."""

    tree: cKDTree
    points: Points
    order: NDArray[np.int64]
    """Position of each vector in the tree: queries are faster if consecutive ones are neighbours."""


def supports_tree(metric: Metric) -> bool:
    """Whether a tree can find neighbours by this metric."""
    return metric.code in (EUCLIDEAN, SQUARED, MANHATTAN)


def tree_bytes(rows: int, dimensions: int, dtype: str) -> int:
    """Return the memory that a tree takes, vectors included."""
    return rows * (TREE_BYTES + dimensions * (8 + np.dtype(dtype).itemsize))


def shared_tree(source: VectorSource, metric: Metric, token: str) -> KdTree:
    """Return the tree of all vectors, built once per process and kept under `token`."""
    return kept("kdtree", token, lambda: _new_tree(source, metric))


def _new_tree(source: VectorSource, metric: Metric) -> KdTree:
    """Build the tree of all vectors."""
    block = source.read(0, source.rows)
    tree = cKDTree(block.astype(np.float64), balanced_tree=False, compact_nodes=False, copy_data=False)
    order = np.empty(source.rows, np.int64)
    order[tree.indices] = np.arange(source.rows)
    return KdTree(tree, as_points(block, metric), order)


def tree_search(tree: KdTree, metric: Metric, start: int, stop: int, k: int) -> NeighbourLists:
    """Find the k nearest of each vector of a span among all vectors."""
    rows = start + np.argsort(tree.order[start:stop])
    found = NeighbourLists(np.zeros(len(rows), np.int32), np.empty((len(rows), k), np.int64), np.empty((len(rows), k)))
    left = np.arange(len(rows))
    for more in (k + 2, 3 * k + 16):
        left = left[_query(tree, metric, rows, left, min(more, tree.tree.n), found)]
        if not len(left):
            break
    copies = found.weight[left, -1] == 0
    _settle_copies(tree, metric, rows, left[copies], found)
    _query_balls(tree, metric, rows, left[~copies], found)
    back = np.argsort(rows)
    return NeighbourLists(found.count[back], found.neighbour[back], found.weight[back])


def _p(metric: Metric) -> int:
    """Minkowski's p."""
    return 1 if metric.code == MANHATTAN else 2


def _query(
    tree: KdTree, metric: Metric, rows: NDArray[np.int64], which: NDArray[np.int64], more: int, found: NeighbourLists
) -> NDArray[np.bool_]:
    """Rank the nearest `more` of the rows `which`, and return for which of them neighbours may still be missing."""
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
    tree: KdTree,
    metric: Metric,
    rows: NDArray[np.int64],
    which: NDArray[np.int64],
    candidates: tuple[NDArray[np.int64], NDArray[np.int64]],
    found: NeighbourLists,
) -> None:
    """Write the k nearest candidates of the rows `which` to `found`."""
    k = found.neighbour.shape[1]
    out = np.empty(len(which), np.int32), np.empty((len(which), k), np.int64), np.empty((len(which), k))
    rank_candidates(tree.points, rows[which], candidates, k, metric.code, out)
    found.count[which], found.neighbour[which], found.weight[which] = out


def _settle_copies(
    tree: KdTree, metric: Metric, rows: NDArray[np.int64], which: NDArray[np.int64], found: NeighbourLists
) -> None:
    """Write the neighbours of vectors with more than k copies: the smallest ids among these, at distance 0."""
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
    itself[~itself.any(axis=1), k] = True  # drop the last one where the vector itself is not among the first
    found.neighbour[which] = candidates[~itself].reshape(-1, k)
    found.weight[which] = 0.0


def _query_balls(
    tree: KdTree, metric: Metric, rows: NDArray[np.int64], which: NDArray[np.int64], found: NeighbourLists
) -> None:
    """Rank all vectors at least as near as the last one found."""
    for span in batches(0, len(which), BALLS):
        part = which[slice(*span)]
        reach = found.weight[part, -1]
        reach = (np.sqrt(reach) if metric.code == SQUARED else reach) / SURE
        balls = tree.tree.query_ball_point(tree.tree.data[rows[part]], reach, p=_p(metric))
        start = starts_of(np.array([len(ball) for ball in balls]))
        candidate = np.concatenate([np.asarray(ball, np.int64) for ball in balls])
        _rank(tree, metric, rows, part, (start, candidate), found)


def tree_near(tree: KdTree, metric: Metric, eps: float, span: tuple[int, int], most: int) -> Iterator[Near]:
    """Yield, unordered, the pairs at most `eps` apart of each vector of a span with the vectors after it."""
    radius = (np.sqrt(eps) if metric.code == SQUARED else eps) / SURE
    start, stop = span
    own_tree = cKDTree(tree.tree.data[start:stop], balanced_tree=False, compact_nodes=False)
    count = int(own_tree.count_neighbors(tree.tree, radius, p=_p(metric)))
    step = max(1, (stop - start) * most // max(TREE_PAIRS * count, 1))
    for first, last in batches(start, stop, step):
        part = own_tree if step >= stop - start else cKDTree(tree.tree.data[first:last])
        met = part.sparse_distance_matrix(tree.tree, radius, p=_p(metric), output_type="ndarray")
        later = met["j"] > met["i"] + first
        own, other = met["i"][later] + first, met["j"][later].astype(np.int64)
        weight = np.empty(len(own))
        weigh_pairs(tree.points, tree.points, (own, other), metric.code, weight)
        kept = weight <= eps
        yield (own[kept] - start).astype(np.int32), other[kept], weight[kept]
