"""scipy's `linkage` under its own name: the same tree, by the matrix engine."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.cluster.hierarchy import ClusterWarning, optimal_leaf_ordering
from scipy.spatial.distance import pdist

from dask_rac.api.cluster import cluster
from dask_rac.api.likeness import looks_like_distances
from dask_rac.base.errors import InputError
from dask_rac.base.settings import PRECOMPUTED

OURS = {
    "euclidean": "euclidean",
    "sqeuclidean": "sqeuclidean",
    "cosine": "cosine",
    "cityblock": "manhattan",
}
"""The metrics that are computed here, by scipy's names; scipy computes the others."""


def linkage(
    y: Any, method: str = "single", metric: Any = "euclidean", optimal_ordering: bool = False
) -> NDArray[np.float64]:
    """Compute a hierarchical clustering as `scipy.cluster.hierarchy.linkage` does: the same arguments, the same Z.

    It uses all threads that Dask's configuration allows. Where distances are equal, scipy and this function may merge
    them in another order.

    Parameters
    ----------
    y : array
        Distances of all pairs as a condensed vector, as `scipy.spatial.distance.pdist` returns it; or a 2-dimensional
        array of observations, one per row.
    method : {"single", "complete", "average", "weighted", "ward"}
        As in scipy. "centroid" and "median" are refused: a merge can bring clusters nearer, so that merging all
        reciprocal nearest neighbours at once would give another tree. "ward" takes condensed distances as euclidean.
    metric : str or callable
        How observations are compared: any metric of `scipy.spatial.distance.pdist`. Not used for condensed distances.
    optimal_ordering : bool
        Whether to order the leaves so that neighbouring leaves are near, by scipy's own function. That takes more time
        than the clustering.

    Returns
    -------
    numpy.ndarray
        The linkage matrix Z, one row per merge: the two clusters, the distance, the number of observations.

    Raises
    ------
    InputError
        If an argument or a distance is invalid. It is a ValueError.
    ResourceError
        If all pairs do not fit in memory.

    Warns
    -----
    scipy.cluster.hierarchy.ClusterWarning
        If `y` looks like a square matrix of distances, whose rows are taken as observations.

    Examples
    --------
    >>> import dask_rac
    >>> dask_rac.linkage([[0.0], [1.0], [3.0]], "average")
    array([[0. , 1. , 1. , 2. ],
           [2. , 3. , 2.5, 3. ]])
    """
    values = _checked(y)
    if method == "ward" and values.ndim == 2 and metric != "euclidean":
        raise InputError(f"method='ward' is defined by euclidean distances: leave out metric={metric!r}")
    if values.ndim == 2:
        known = OURS.get(metric) if isinstance(metric, str) else None
        given, name = (values, known) if known else (_distances(values, metric), PRECOMPUTED)
    else:
        given, name = values, PRECOMPUTED
    tree: NDArray[np.float64] = cluster(given, method, metric=name, progress=False).to_scipy()
    if not optimal_ordering:
        return tree
    ordered: NDArray[np.float64] = optimal_leaf_ordering(tree, values, metric if values.ndim == 2 else "euclidean")
    return ordered


def _distances(values: NDArray[Any], metric: Any) -> NDArray[np.float64]:
    """Return what scipy computes; some of its metrics pass over NaN, which only a function of the user may do."""
    finite = np.isfinite(values) if isinstance(metric, str) and values.dtype.kind == "f" else np.True_
    if not finite.all():
        row, column = np.argwhere(~finite)[0].tolist()
        raise InputError(
            f"row {row} of y has {values[row, column]:g} in dimension {column}: drop such rows, or fill the values in"
        )
    found: NDArray[np.float64] = pdist(values, metric)
    return found


def _checked(y: Any) -> NDArray[Any]:
    """Return distances or observations as an array; raise or warn if they are something else."""
    if sp.issparse(y):
        raise InputError("y is a sparse matrix: pass y.toarray() for observations, and condensed distances otherwise")
    try:
        values = np.asarray(y)
    except ValueError as error:
        raise InputError(f"y is not an array of numbers ({error}): give rows of equal length") from error
    if values.dtype.kind in "biu":
        values = values.astype(np.float64)
    if values.ndim not in (1, 2):
        raise InputError(
            f"y has {values.ndim} dimensions: give the condensed distances of pdist, or one row for each observation"
        )
    if values.ndim == 2:
        if len(values) < 2:
            raise InputError(f"y has {len(values)} observation{'s' * (len(values) != 1)}: give two or more")
        if looks_like_distances(values):
            warnings.warn(
                ClusterWarning(
                    "y is square and symmetric with zeros on its diagonal, and its rows are taken as observations: if "
                    "it holds distances, pass scipy.spatial.distance.squareform(y)"
                ),
                stacklevel=3,
            )
    return values
