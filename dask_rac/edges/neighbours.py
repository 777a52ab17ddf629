"""What libraries that search for neighbours return: for each vector the numbers of others, and how far they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dask_rac.base.errors import InputError
from dask_rac.base.settings import EDGE_COLUMNS

NONE = -1
"""In place of a neighbour where there is none."""

RECIPE = "give (source, target, weight); where all weights are equal, numpy.ones(len(source))"


def neighbour_edges(given: tuple[Any, Any]) -> pd.DataFrame:
    """Return the edges of `(indices, distances)`, in either order: each pair once, with the smaller of its distances.

    A vector that is its own neighbour gets no edge for it. The two directions of a pair may differ in the last bits,
    as most libraries compute them in float32.
    """
    index, distance = _in_order(*(_table(part) for part in given))
    nodes, k = index.shape
    real = index != NONE
    _refuse_ids(index, real, nodes)
    own = np.repeat(np.arange(nodes), k).reshape(nodes, k)
    real &= index != own
    columns = own[real], index[real].astype(np.int64), distance[real].astype(np.float64)
    _refuse_weights(*columns)
    frame = pd.DataFrame(dict(zip(EDGE_COLUMNS, _each_once(*columns), strict=True)))
    frame.attrs = {"n_nodes": nodes}
    return frame


def _table(part: Any) -> NDArray[Any]:
    """Return one of the two as an array."""
    try:
        return np.asarray(part)
    except ValueError as error:
        raise InputError(f"two arrays of neighbours must have rows of equal length: {error}") from error


def _in_order(first: NDArray[Any], second: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return indices and distances; raise if the two arrays are something else."""
    if first.ndim == second.ndim == 1:
        raise InputError(f"edges are two columns, and their weights are missing: {RECIPE}")
    shapes = f"{first.shape} and {second.shape}"
    if first.ndim != 2 or first.shape != second.shape:
        raise InputError(
            f"two arrays of shapes {shapes} are not edges: give the indices and distances of neighbours, both with one "
            f"row per vector and one column per neighbour; or {RECIPE}"
        )
    kinds = first.dtype.kind in "iu", second.dtype.kind in "iu"
    if not any(kinds) or not all(array.dtype.kind in "iuf" for array in (first, second)):
        raise InputError(
            f"two arrays of {first.dtype} and {second.dtype} are not neighbours: indices must be integers, {NONE} for "
            "none, and distances numbers"
        )
    return (first, second) if kinds[0] else (second, first)


def _refuse_ids(index: NDArray[Any], real: NDArray[np.bool_], nodes: int) -> None:
    """Raise if a neighbour is not one of the vectors."""
    wrong = real & ((index < 0) | (index >= nodes))
    if wrong.any():
        row, column = np.unravel_index(int(wrong.argmax()), wrong.shape)
        raise InputError(
            f"{int(wrong.sum())} neighbours are not among the {nodes} vectors, first {index[row, column]} in row "
            f"{row}, column {column}: search for the neighbours of all vectors among themselves; {NONE} stands for none"
        )


def _refuse_weights(source: NDArray[Any], target: NDArray[Any], weight: NDArray[np.float64]) -> None:
    """Raise unless distances are finite and 0 or more, and name the pair: rows of the result mean nothing to users."""
    for what, wrong in (("NaN", np.isnan(weight)), ("infinite", np.isinf(weight)), ("negative", weight < 0)):
        if wrong.any():
            at = int(wrong.argmax())
            raise InputError(
                f"{int(wrong.sum())} distances of neighbours are {what}, first that of {source[at]} and {target[at]}: "
                f"give the index {NONE} where there is no neighbour"
            )


def _each_once(
    own: NDArray[np.int64], other: NDArray[np.int64], weight: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
    """Return each pair once, sorted, with the smallest of its weights."""
    if not len(own):
        return own, other, weight
    # One key is sorted several times faster than two; there are fewer than 2**31 vectors, as their lists are in memory.
    nodes = int(max(own.max(), other.max())) + 1
    key = np.minimum(own, other) * nodes + np.maximum(own, other)
    order = np.argsort(key)
    key, weight = key[order], weight[order]
    first = np.flatnonzero(np.append(True, np.diff(key) != 0))
    source, target = np.divmod(key[first], nodes)
    return source, target, np.minimum.reduceat(weight, first)
