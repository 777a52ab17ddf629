"""Who is near whom, in plain arithmetic."""

from __future__ import annotations

from decimal import Context, Decimal, localcontext
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

import dask_rac
from tests.support.vectors import Case
from tests.support.ways import quiet

Weights = NDArray[np.float64]
Edges = dict[tuple[int, int], float]
DIGITS = 120  # more than it takes to add the square of 1e-20 to that of 1e8


def truth(values: NDArray[np.float64], metric: str) -> tuple[Weights, Weights]:
    """The weight of every pair in decimal arithmetic, near ones smallest; and how far float64 may be off."""
    n = len(values)
    rows = [[Decimal(float(value)) for value in row] for row in values]
    weight, error = np.zeros((n, n)), np.zeros((n, n))
    with localcontext(Context(prec=DIGITS)):
        norms = [sum((x * x for x in row), Decimal(0)).sqrt() for row in rows]
        for i in range(n):
            for j in range(i + 1, n):
                found, off = _true_weight(rows[i], rows[j], norms[i] * norms[j], metric)
                weight[i, j] = weight[j, i] = float(found)
                error[i, j] = error[j, i] = off
    return weight, error


def _true_weight(x: list[Decimal], y: list[Decimal], norms: Decimal, metric: str) -> tuple[Decimal, float]:
    """The weight of a pair, and how far float64 may be off."""
    if metric in {"cosine", "inner_product"}:
        inner = sum((p * q for p, q in zip(x, y, strict=True)), Decimal(0))
        if metric == "inner_product":
            return -inner, 1e-15 * float(norms)
        far = 1 - inner / norms
        return far, 1e-14 * float(abs(far).sqrt()) + 1e-30
    if metric == "manhattan":
        total = sum((abs(p - q) for p, q in zip(x, y, strict=True)), Decimal(0))
        return total, 1e-14 * float(total)
    square = sum(((p - q) ** 2 for p, q in zip(x, y, strict=True)), Decimal(0))
    far = square if metric == "sqeuclidean" else square.sqrt()
    return far, 1e-14 * float(far)


def whole_weights(values: NDArray[np.float64], metric: str) -> Weights:
    """The weights of whole numbers, which are exact up to a root; near ones smallest."""
    x = values.astype(np.int64)
    differ = x[:, None] - x[None]
    if metric == "inner_product":
        return np.asarray(-(x @ x.T), np.float64)
    if metric == "manhattan":
        return np.asarray(np.abs(differ).sum(axis=2), np.float64)
    square = np.asarray((differ**2).sum(axis=2), np.float64)
    return np.sqrt(square) if metric == "euclidean" else square


def far_apart(values: NDArray[np.float64], metric: Any) -> Weights:
    """All distances by scipy, in its order."""
    return pdist(values, "cityblock" if metric == "manhattan" else metric)


def ranked(weight: Weights, k: int, mode: str) -> set[tuple[int, int]]:
    """The pairs of a kNN graph, from lists by weight and then by id."""
    lists = []
    for i, row in enumerate(weight):
        others = [j for j in range(len(row)) if j != i]
        lists.append(set(sorted(others, key=lambda j, row=row: (row[j], j))[:k]))  # type: ignore[misc]
    pairs = [(i, j) for i in range(len(lists)) for j in range(i + 1, len(lists))]
    if mode == "union":
        return {(i, j) for i, j in pairs if j in lists[i] or i in lists[j]}
    return {(i, j) for i, j in pairs if j in lists[i] and i in lists[j]}


def edges_of(frame: pd.DataFrame) -> Edges:
    """The edges of a graph, which are checked: the smaller id first, each once, none to itself."""
    source, target = frame["source"].to_numpy(), frame["target"].to_numpy()
    assert (source < target).all()
    pairs = zip(source.tolist(), target.tolist(), strict=True)
    found = dict(zip(pairs, frame["weight"].tolist(), strict=True))
    assert len(found) == len(frame)
    assert frame.attrs["graph"]["edges"] == len(frame)
    return found


def own_weights(case: Case) -> Weights:
    """The float64 weights that all graphs have in common, near ones smallest; infinite where there is no edge."""
    n = len(case.exact)
    weight = np.full((n, n), np.inf)
    sign = -1.0 if case.metric == "inner_product" else 1.0
    for (i, j), far in edges_of(quiet(dask_rac.complete_graph, case.given, case.metric)).items():
        weight[i, j] = weight[j, i] = sign * far
    return weight


def kept(pairs: set[tuple[int, int]], weight: Weights, metric: str) -> set[tuple[int, int]]:
    """Pairs that get an edge: similarities below 0 get none."""
    return {pair for pair in pairs if weight[pair] <= 0} if metric == "inner_product" else pairs


def assert_weights(found: Edges, weight: Weights, error: Weights, metric: str) -> None:
    """Weights are the true ones, but for rounding."""
    sign = -1.0 if metric == "inner_product" else 1.0
    for pair, far in found.items():
        assert abs(sign * far - weight[pair]) <= error[pair], pair
