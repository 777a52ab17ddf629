"""Checks that every input passes through, whether block by block or as a whole."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import InputError, Where, refuse_nulls, refuse_rows
from dask_rac.base.settings import FAR, Settings
from dask_rac.base.text import short
from dask_rac.files.node_names import NodeNames
from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.rows import ingest

EdgeColumns = tuple[Ids, Ids, NDArray[np.float64]]


def checked_ids(column: NDArray[Any], name: str, n_nodes: int | None, where: Where) -> NDArray[np.integer]:
    """Return a column of ids as integers; raise if any is not a valid id."""
    if not len(column):
        return np.empty(0, np.int64)
    if column.dtype.kind == "f":
        refuse_nulls(np.isnan(column), name, where)
        refuse_rows(column != np.floor(column), name, "not a whole number", "ids are 0, 1, 2, ...", where, column)
        refuse_rows(np.abs(column) >= 2.0**53, name, "too large for a float", "store ids as integers", where, column)
        column = column.astype(np.int64)
    if column.dtype.kind not in "iu":
        raise InputError(f"column {name!r} is {column.dtype}, not integer: number the nodes 0, 1, 2, ...")
    if column.min() < 0:
        refuse_rows(column < 0, name, "negative", "ids are 0, 1, 2, ...", where, column)
    limit = 2**62 if n_nodes is None else n_nodes
    if column.max() >= limit:
        remedy = "number the nodes 0, 1, 2, ..." if n_nodes is None else "raise n_nodes or drop these edges"
        refuse_rows(column >= limit, name, f"at or beyond {limit}", remedy, where, column)
    return column


def checked_weights(column: NDArray[Any], settings: Settings, where: Where) -> NDArray[np.float64]:
    """Return a column of weights as floats; raise unless all are finite and 0 or more."""
    weight = as_weights(column, where)
    if len(weight):
        check_weights(weight, float(weight.min()), float(weight.max()), settings, where)
    return weight


def as_weights(column: NDArray[Any], where: Where) -> NDArray[np.float64]:
    """Return a column of numbers as float64."""
    if not len(column):
        return np.empty(0)
    if column.dtype.kind not in "iuf":
        raise InputError(f"column 'weight' is {column.dtype}, not a number: make it float64")
    if column.dtype.kind in "iu" and column.max() > 2**53:
        refuse_rows(column > 2**53, "weight", "too large for a float", "scale the weights down", where, column)
    return np.require(column, np.float64, ["C", "W"])


def check_weights(weight: NDArray[np.float64], least: float, largest: float, settings: Settings, where: Where) -> None:
    """Raise unless all weights are finite and 0 or more."""
    if not (least >= 0 and largest < np.inf):
        refuse_rows(np.isnan(weight), "weight", "NaN", "drop or fill them", where)
        refuse_rows(
            np.isinf(weight), "weight", "infinite", "drop these edges: a pair without an edge is missing", where, weight
        )
        what = "distances" if settings.weights == "distance" else "similarities"
        refuse_rows(weight < 0, "weight", "negative", f"{what} are 0 or more", where, weight)
    check_total(largest, len(weight))


def check_total(largest: float, edges: int) -> None:
    """Raise if the sum of the weights could overflow to infinity."""
    if largest * 2.0 * edges == np.inf:
        raise InputError(f"column 'weight' reaches {largest}: {edges} of them add up to infinity; scale them down")


def describe_conflict(columns: EdgeColumns, where: Where, names: NodeNames | None = None) -> str:
    """Describe the first row that gives an edge a different weight than an earlier row."""
    source, target, weight = columns
    order = np.lexsort((target, source))
    new = np.append(True, (np.diff(source[order]) != 0) | (np.diff(target[order]) != 0))
    earliest = order[np.maximum.accumulate(np.where(new, np.arange(len(order)), 0))]
    differ = weight[order] != weight[earliest]
    at = np.argmin(order[differ])
    row, earlier = int(order[differ][at]), int(earliest[differ][at])
    edges, ends = len(np.unique(earliest[differ])), (int(source[row]), int(target[row]))
    edge = "{}-{}".format(*ends) if names is None else "{!r}-{!r}".format(*(short(names[end]) for end in ends))
    return (
        f"column 'weight' has two values for {edges} edge{'s' * (edges > 1)}, first {edge}: "
        f"{weight[earlier]} in {where(earlier)}, {weight[row]} in {where(row)}; choose duplicates='min', 'max' or "
        "'mean'"
    )


def duplicates_policy(settings: Settings) -> int:
    """Return the kernels' code for how an edge with several weights is resolved."""
    return {"min": ingest.KEEP_LEAST, "max": ingest.KEEP_LARGEST, "mean": ingest.KEEP_MEAN}[settings.duplicates]


def check_missing(settings: Settings, nodes: int, least: float, largest: float) -> None:
    """Raise if the weight for missing pairs is nearer than that of some edge, or too large to be added up."""
    missing = settings.absent
    if isinstance(missing, str) or settings.linkage == "single" or not np.isfinite(largest):
        return
    nearer, edge, bound, other = (
        (missing < largest, "largest weight", largest, "more")
        if settings.weights == "distance"
        else (missing > least, "smallest similarity", least, "less")
    )
    if not np.isfinite(float(nodes) ** 2 * missing):
        if settings.far is not None:
            raise InputError(
                f"missing='far' is {FAR:g} times the largest weight here, {missing:g}, and adds up to infinity over "
                "all pairs: scale the weights down"
            )
        raise InputError(f"missing={missing} adds up to infinity over all pairs: scale weights and missing down")
    if nearer:
        words = ", or 'far'" if settings.linkage == "weighted" else ", 'far', 'ignore' or 'infinite'"
        raise InputError(
            f"missing={missing} is nearer than the {edge}, {bound}: pairs without an edge would merge before known "
            f"ones, and they are never examined; use {bound} or {other}{words}"
        )
