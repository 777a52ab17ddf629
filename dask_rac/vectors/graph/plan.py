"""How vectors are divided into spans, how neighbours are found, and what that costs: numbers in, numbers out."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from dask_rac.base.errors import ResourceError
from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.spans import Span, even_spans
from dask_rac.base.text import size_text
from dask_rac.tasks.budget import Budget
from dask_rac.vectors.compare.kdtree import supports_tree, tree_bytes
from dask_rac.vectors.compare.limits import CompareLimits
from dask_rac.vectors.compare.metrics import Metric
from dask_rac.vectors.sources.opening import VectorSource

TASKS_A_THREAD = 4
EDGE_WEIGHT = 8  # bytes per weight
TREE_TASK = 0.3  # share of memory for all tasks that query the tree; the rest is for the tree itself
TREE_NEIGHBOUR = 64  # bytes per neighbour while it is ranked
APPROXIMATE_VALUE, APPROXIMATE_NEIGHBOUR = 20, 80  # bytes per value and per neighbour in an approximate search
SPARSE_ENTRY = 56  # bytes per entry while it is compared: as read, exact, scaled, and by term


@dataclass(frozen=True)
class GraphLimits:
    """Numbers that decide how a graph is built and never which edges it has; tests hand over smaller ones."""

    most_rows: int = 131_072
    """The most rows of a span."""
    least_rows: int = 256
    """The fewest rows for which a task must have memory; with fewer, reading spans outweighs comparing them."""
    task_rows: int = 2_048
    """Rows that are worth a task."""
    near_rows: int = 8_192
    """The most rows whose eps balls one task searches."""
    file_edges: int = 2**22
    """The most edges in one file."""
    group_edges: int = 2**20
    """The most edges in one row group."""
    kept_bytes: int = 48
    """Bytes per pair that a task keeps, including the sort."""
    flooded: int = 8
    """Weighed pairs per requested neighbour above which float32 scores separate too little."""
    tree: tuple[tuple[float, int], ...] = ((300_000, 8), (math.inf, 10))
    """(vectors, dimensions): up to how many of each a tree is faster, on uniform vectors, its worst case."""
    compare: CompareLimits = field(default_factory=CompareLimits)


def knn_spans(source: VectorSource, k: int, budget: Budget, limits: GraphLimits) -> list[Span]:
    """Return spans of which two fit in a task, together with their shelves."""
    room = _task_rows(source, budget, 2 * (8 * limits.compare.room(k) + 16 * k + 64), limits)
    wanted = math.ceil(math.sqrt(2 * TASKS_A_THREAD * budget.processes * budget.threads))
    least = -(-source.rows // min(room, limits.most_rows))
    return even_spans(source.rows, max(least, min(wanted, source.rows // limits.task_rows)))


def near_spans(source: VectorSource, budget: Budget, limits: GraphLimits) -> list[Span]:
    """Return the spans of vectors whose eps balls one task searches."""
    room = _task_rows(source, budget, 64, limits)
    few = source.rows // (TASKS_A_THREAD * budget.processes * budget.threads)
    step = max(1, min(room, limits.near_rows, max(few, limits.least_rows)))
    return even_spans(source.rows, -(-source.rows // step))


def other_rows(source: VectorSource, budget: Budget, limits: GraphLimits) -> int:
    """Return the number of rows of the other side to read at a time."""
    return min(limits.most_rows, _task_rows(source, budget, 64, limits))


def tree_spans(source: VectorSource, k: int, budget: Budget, limits: GraphLimits) -> list[Span]:
    """Return the spans of vectors for which one task queries the tree."""
    few = source.rows // (TASKS_A_THREAD * budget.processes * budget.threads)
    room = int(TREE_TASK * budget.process / budget.threads / (TREE_NEIGHBOUR * (k + 2)))
    step = max(1, min(max(limits.task_rows, few), limits.most_rows, room))
    return even_spans(source.rows, -(-source.rows // step))


def _task_rows(source: VectorSource, budget: Budget, more: int, limits: GraphLimits) -> int:
    """Return how many rows of each side a task can hold, if each takes `more` bytes besides its values."""
    value = np.dtype(source.dtype).itemsize
    if source.sparse:
        row = 2 * SPARSE_ENTRY * source.entries / source.rows + more
        tile = 8 * limits.compare.sparse_tile
    else:
        row = 2 * source.dimensions * (value + max(4, value) + 8) + more
        tile = 8 * limits.compare.tile_rows * limits.compare.tile_columns
    task, least = budget.process / budget.threads - tile, min(limits.least_rows, source.rows)
    if task < row * least:
        needed = (row * least + tile) * budget.threads * budget.processes
        raise ResourceError(
            f"comparing {least} vectors at a time takes {size_text(needed)} for all threads, "
            f"but the budget is {size_text(budget.memory)}: set memory='{math.ceil(needed / 1e6)}MB' or more"
        )
    return max(1, int(task / row))


def refuse_large(source: VectorSource, k: int, budget: Budget) -> None:
    """Raise if one process cannot hold all vectors and their neighbours, as an approximate search must."""
    needed = APPROXIMATE_VALUE * source.entries + APPROXIMATE_NEIGHBOUR * k * source.rows
    if needed > budget.process:
        raise ResourceError(
            f"method='approximate' holds all of {source.name} in one process, {size_text(needed)}, but may "
            f"use {size_text(budget.process)}: set memory='{math.ceil(needed * budget.processes / 1e9)}GB' or more, or "
            "method='exact'"
        )


def tree_is_faster(source: VectorSource, metric: Metric, budget: Budget, limits: GraphLimits) -> bool:
    """Whether a tree fits in memory and finds neighbours faster than products of all pairs."""
    if source.sparse or not supports_tree(metric):
        return False
    limit = next(dimensions for rows, dimensions in limits.tree if source.rows <= rows)
    fits = tree_bytes(source.rows, source.dimensions, source.dtype) <= 0.6 * budget.process
    return fits and source.dimensions <= limit


def edge_bytes(nodes: int) -> int:
    """Return the bytes that an edge takes on disk."""
    return 2 * edge_id_dtype(nodes).itemsize + EDGE_WEIGHT


def knn_disk(nodes: int, k: int, spans: int) -> int:
    """Return the most bytes that a kNN graph takes on disk while built: partial lists, final lists and edges."""
    entry = edge_id_dtype(nodes).itemsize + EDGE_WEIGHT
    parts = entry * k * min(spans, 3) if spans > 1 else 0
    return nodes * (parts + k * entry + k * edge_bytes(nodes))
