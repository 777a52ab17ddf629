"""All pairs in any form users have them: vectors to compare, or distances that they have computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dask_rac.base.errors import InputError
from dask_rac.vectors.compare.metrics import checked_metric
from dask_rac.vectors.pairs.condensed import CondensedPairs, points_of
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.numbers import Numbers, open_numbers
from dask_rac.vectors.pairs.square import SquarePairs
from dask_rac.vectors.pairs.triangle import triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from dask_rac.vectors.sources.memory import open_array
from dask_rac.vectors.sources.opening import is_dask_array, open_vectors, whole_rows


def open_vector_pairs(
    vectors: Any, metric: Any, columns: Sequence[str] | None = None, squares: bool = False
) -> AllPairs:
    """Open all pairs of vectors in any form; a Dask array is computed into memory.

    With `squares` the triangle holds the squares of euclidean distances.
    """
    wanted = checked_metric(metric)
    if is_dask_array(vectors):
        return VectorPairs(open_array(np.asarray(whole_rows(vectors).compute())), wanted, squares)
    return VectorPairs(open_vectors(vectors, columns), wanted, squares)


def open_distances(distances: Any) -> AllPairs:
    """Open distances in any form, a square matrix or a condensed vector; raise if their shape or dtype is wrong."""
    numbers = open_numbers(distances)
    if len(numbers.shape) == 1:
        _check_length(numbers)
        return CondensedPairs(numbers)
    if len(numbers.shape) != 2 or numbers.shape[0] != numbers.shape[1]:
        raise InputError(
            f"the shape of {numbers.name} is {numbers.shape}: give one row and one column for each point, or the "
            "n (n - 1) / 2 distances of scipy's pdist; if these are vectors, choose another metric"
        )
    if not numbers.shape[0]:
        raise InputError(f"there are no points in {numbers.name}, whose shape is (0, 0): give one or more")
    return SquarePairs(numbers)


def _check_length(numbers: Numbers) -> None:
    """Raise unless a vector has one distance for each pair of some points."""
    length, name = numbers.shape[0], numbers.name
    if not length:
        raise InputError(f"there are no pairs in {name}: give two points or more; a single point is a matrix [[0]]")
    points = points_of(length)
    if triangle_entries(points) != length:
        near = " and ".join(f"{n:,} points have {triangle_entries(n):,}" for n in (points, points + 1))
        raise InputError(
            f"the length of {name}, {length:,}, is not n (n - 1) / 2 for any n: {near}; give one distance for each pair"
        )
