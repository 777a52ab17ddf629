"""Promise 12: neighbours are exact, and of equally near ones those with the smallest ids."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.support.effort import examples
from tests.support.neighbours import (
    assert_weights,
    edges_of,
    kept,
    own_weights,
    ranked,
    truth,
    whole_weights,
)
from tests.support.vectors import DISTANCES, Case, cases
from tests.support.ways import Way, computed, quiet, ways


@given(cases(), ways)
@examples(80)
def test_neighbours_are_the_true_ones(case: Case, way: Way) -> None:
    weight, error = truth(case.exact, case.metric)
    with computed(way) as graphs:
        found = edges_of(quiet(graphs.knn_graph, case.given, case.k, case.metric, case.mode))
    assert_weights(found, weight, error, case.metric)
    far = weight + np.diag(np.full(len(weight), np.inf))
    last = np.partition(far, case.k - 1, axis=1)[:, case.k - 1, None]
    room = (
        error + error.max(axis=1, keepdims=True) if case.metric == "inner_product" else 2 * error + 2e-14 * np.abs(last)
    )
    surely, maybe = far < last - room, far <= last + room
    join = np.logical_or if case.mode == "union" else np.logical_and
    least, most = join(surely, surely.T), join(maybe, maybe.T)
    if case.metric == "inner_product":
        least, most = least & (weight < -error), most & (weight <= error)
    pairs = set(found)
    assert {(i, j) for i, j in np.argwhere(least).tolist() if i < j} <= pairs
    assert pairs <= {(i, j) for i, j in np.argwhere(most).tolist() if i < j}


@given(cases(kinds=("grid",), metrics=(*DISTANCES, "inner_product")), ways)
@examples(60)
def test_ties_go_to_the_smallest_ids(case: Case, way: Way) -> None:
    weight = whole_weights(case.exact, case.metric)
    with computed(way) as graphs:
        found = edges_of(quiet(graphs.knn_graph, case.given, case.k, case.metric, case.mode))
    assert set(found) == kept(ranked(weight, case.k, case.mode), weight, case.metric)
    sign = -1.0 if case.metric == "inner_product" else 1.0
    assert all(far == sign * weight[pair] for pair, far in found.items())


@given(cases(), ways)
@examples(60)
def test_neighbours_are_the_first_of_all_pairs(case: Case, way: Way) -> None:
    """Equal to the last bit, including ties caused by rounding."""
    if case.metric == "inner_product":
        case = Case(case.kind, abs(case.given), np.abs(case.exact), case.metric, case.k, case.mode)
    weight = own_weights(case)
    with computed(way) as graphs:
        found = edges_of(quiet(graphs.knn_graph, case.given, case.k, case.metric, case.mode))
    assert set(found) == ranked(weight, case.k, case.mode)
    assert all(far == abs(weight[pair]) for pair, far in found.items())
