"""How vectors are cut into spans, which way neighbours are found, and what that takes: numbers in, numbers out."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from dask_rac.config import size_text
from dask_rac.errors import InputError, ResourceError
from dask_rac.planner import Budget
from dask_rac.store.vectors import VectorSource
from dask_rac.vectors.metrics import Metric
from dask_rac.vectors.search import SPARSE_TILE, TILE_COLUMNS, TILE_ROWS, shelf_room
from dask_rac.vectors.trees import can_hold, tree_bytes

MOST_ROWS = 131_072  # of a span
LEAST_ROWS = 256  # below, spans are read more often than they are compared
WORTH_A_TASK = 2_048  # rows
TASKS_A_THREAD = 4
NEAR_ROWS = 8_192  # whose balls are looked for by one task
FILE_EDGES = 2**22
EDGE_WEIGHT = 8  # bytes
TREE_TASK = 0.3  # of memory, for all who ask a tree; the rest is for the tree itself
TREE_NEIGHBOUR = 64  # bytes of a neighbour while it is ranked
APPROXIMATE_VALUE, APPROXIMATE_NEIGHBOUR = 20, 80  # bytes of each in an approximate search
SPARSE_ENTRY = 56  # bytes of an entry while it is compared: as read, exact, scaled, and by term
TREE_LIMITS: tuple[tuple[float, int], ...] = ((300_000, 8), (math.inf, 10))
"""Up to how many vectors the tree is faster in how many dimensions, for uniform ones, the worst for it."""

Span = tuple[int, int]


@dataclass(frozen=True)
class Request:
    """What graph is wanted: all that changes its edges."""

    kind: str
    """knn, eps or complete."""
    metric: Metric
    k: int = 0
    mode: str = "union"
    method: str = "exact"
    eps: float = 0.0
    seed: int = 0
    """Of the approximate search."""


def knn_spans(source: VectorSource, k: int, budget: Budget) -> list[Span]:
    """Spans of which two and their shelves fit in a task."""
    room = _task_rows(source, budget, 2 * (8 * shelf_room(k) + 16 * k + 64))
    wanted = math.ceil(math.sqrt(2 * TASKS_A_THREAD * budget.processes * budget.threads))
    least = -(-source.rows // min(room, MOST_ROWS))
    return even_spans(source.rows, max(least, min(wanted, source.rows // WORTH_A_TASK)))


def near_spans(source: VectorSource, budget: Budget) -> list[Span]:
    """Spans whose balls are looked for together."""
    room = _task_rows(source, budget, 64)
    few = source.rows // (TASKS_A_THREAD * budget.processes * budget.threads)
    return even_spans(source.rows, -(-source.rows // max(1, min(room, NEAR_ROWS, max(few, LEAST_ROWS)))))


def other_rows(source: VectorSource, budget: Budget) -> int:
    """Rows of the other side that are read at a time."""
    return min(MOST_ROWS, _task_rows(source, budget, 64))


def tree_spans(source: VectorSource, k: int, budget: Budget) -> list[Span]:
    """Spans of vectors that ask a tree."""
    few = source.rows // (TASKS_A_THREAD * budget.processes * budget.threads)
    room = int(TREE_TASK * budget.process / budget.threads / (TREE_NEIGHBOUR * (k + 2)))
    return even_spans(source.rows, -(-source.rows // max(1, min(max(WORTH_A_TASK, few), MOST_ROWS, room))))


def even_spans(rows: int, count: int) -> list[Span]:
    """So many spans, as even as can be."""
    count = max(1, min(count, rows))
    return list(pairwise(rows * part // count for part in range(count + 1)))


def even_steps(rows: int, step: int) -> list[Span]:
    """Spans of so many rows, the last one shorter."""
    return [(first, min(first + step, rows)) for first in range(0, rows, step)]


def steps_of(counts: NDArray[np.int64], most: int) -> list[Span]:
    """Spans of rows with at most so many edges, or of one row."""
    ends = np.cumsum(counts)
    cuts, first, before = [], 0, 0
    while first < len(counts):
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        cuts.append((first, last))
        first, before = last, int(ends[last - 1])
    return cuts


def _task_rows(source: VectorSource, budget: Budget, more: int) -> int:
    """Rows of either side that a task can hold, where each takes `more` bytes beside its values."""
    value = np.dtype(source.dtype).itemsize
    if source.sparse:
        row = 2 * SPARSE_ENTRY * source.entries / source.rows + more
        tile = 8 * SPARSE_TILE
    else:
        row = 2 * source.dimensions * (value + max(4, value) + 8) + more
        tile = 8 * TILE_ROWS * TILE_COLUMNS
    task = budget.process / budget.threads - tile
    if task < row * min(LEAST_ROWS, source.rows):
        needed = (row * min(LEAST_ROWS, source.rows) + tile) * budget.threads * budget.processes
        raise ResourceError(
            f"to compare {min(LEAST_ROWS, source.rows)} vectors at a time takes {size_text(needed)} for all threads, "
            f"and the budget is {size_text(budget.memory)}: set memory='{math.ceil(needed / 1e6)}MB' or more"
        )
    return max(1, int(task / row))


def refuse_large(source: VectorSource, k: int, budget: Budget) -> None:
    """Raise if one process does not hold all vectors and their neighbours, as an approximate search does."""
    needed = APPROXIMATE_VALUE * source.entries + APPROXIMATE_NEIGHBOUR * k * source.rows
    if needed > budget.process:
        raise ResourceError(
            f"method='approximate' holds all of {source.name} in one process, {size_text(needed)}, and may use "
            f"{size_text(budget.process)}: set memory='{math.ceil(needed * budget.processes / 1e9)}GB' or more, or "
            "method='exact'"
        )


def wants_tree(source: VectorSource, metric: Metric, budget: Budget) -> bool:
    """Whether a tree finds neighbours faster than all products do, and fits."""
    if source.sparse or not can_hold(metric):
        return False
    limit = next(dimensions for rows, dimensions in TREE_LIMITS if source.rows <= rows)
    fits = tree_bytes(source.rows, source.dimensions, source.dtype) <= 0.6 * budget.process
    return fits and source.dimensions <= limit


def check_request(request: Request, rows: int, name: str) -> None:
    """Raise if a graph cannot be had of these vectors."""
    if request.kind == "knn" and rows == 1:
        raise InputError(f"there is one vector in {name}, and it has no neighbours: give two or more")
    if request.kind == "knn" and request.k >= rows:
        raise InputError(
            f"k={request.k} is too large: there are {rows} vectors in {name}, and each has {rows - 1} others; set "
            f"k={rows - 1} or less"
        )


def ids_of(nodes: int) -> np.dtype[np.signedinteger]:
    """dtype of the ids of edges."""
    return np.dtype(np.int32 if nodes < 2**31 else np.int64)


def edge_bytes(nodes: int) -> int:
    """Of an edge on disk."""
    return 2 * ids_of(nodes).itemsize + EDGE_WEIGHT


def knn_disk(nodes: int, k: int, spans: int) -> int:
    """Bytes that a kNN graph takes at most while it is made: lists, what they are made of, and edges."""
    entry = ids_of(nodes).itemsize + EDGE_WEIGHT
    parts = entry * k * min(spans, 3) if spans > 1 else 0
    return nodes * (parts + k * entry + k * edge_bytes(nodes))
