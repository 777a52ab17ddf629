"""Good merges: bounds that are bounds, ratios where there is no quotient, and rows that are folded on the way."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_rac.engines.contract import Limits
from dask_rac.kernels import rule as rules
from dask_rac.kernels.rows.good import bound_of_union, level_of, ratio_of
from tests.support.any_order import Question, faults_of
from tests.support.effort import examples
from tests.support.graphs import columns
from tests.support.limits import cluster_within
from tests.support.strategies import MISSING, Graph, bipartite, clique, graphs, hub, missing_value, path, star

pytestmark = pytest.mark.kernels

WEIGHTS = st.floats(0, 1e6)
SIZES = st.integers(1, 10**6)
AT_ONCE = Limits(good_share=2.0)
"""Good merges after the first round."""


@examples(150)
@given(
    graphs(),
    st.sampled_from(["average", "complete"]),
    st.sampled_from(MISSING),
    st.sampled_from(["distance", "similarity"]),
    st.sampled_from([2.0**-30, 0.01, 0.1, 1.0, 10.0]),
)
def test_the_oracle_finds_every_merge_good(
    graph: Graph, linkage: str, missing: str, weights: str, epsilon: float
) -> None:
    question = Question(graph, linkage, missing_value(missing, graph, weights), weights)
    found = cluster_within(AT_ONCE, columns(graph), **question.options, epsilon=epsilon, n_nodes=graph.n_nodes)
    assert not faults_of(found.merges, question, epsilon)


@pytest.mark.parametrize("shape", [star, clique, bipartite, hub, path])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_graphs_with_equal_weights_merge_whole(shape: Callable[[int], list[tuple[int, int]]], weights: str) -> None:
    graph = Graph(40, [(u, v, 0.5) for u, v in shape(40)])
    for missing in ("far", "ignore"):
        question = Question(graph, "average", missing, weights)
        found = cluster_within(AT_ONCE, columns(graph), **question.options, epsilon=0.1, n_nodes=40)
        assert not faults_of(found.merges, question, 0.1)


@pytest.mark.parametrize(
    ("near", "height", "similar", "ratio"),
    [
        (1.0, 1.1, False, 1.1),
        (-1.0, -0.5, True, 2.0),
        (0.0, 0.0, False, 1.0),
        (-0.0, -0.0, True, 1.0),
        (0.0, 0.5, False, np.inf),
        (-0.5, -0.0, True, np.inf),
        (0.5, 0.5, True, 1.0),  # a similarity below 0
        (0.4, 0.5, True, np.inf),
        (1.1, 1.0, False, 1.0),  # a bound that rounding has put beyond
    ],
)
def test_ratios(near: float, height: float, similar: bool, ratio: float) -> None:
    assert ratio_of(near, height, similar) == ratio


@given(WEIGHTS, WEIGHTS, SIZES, SIZES, st.sampled_from([-1.0, 1.0]))
def test_a_mean_of_bounds_is_between_them(a: float, b: float, m: int, n: int, sign: float) -> None:
    low, high = sorted((sign * a, sign * b))
    for code in (rules.MEAN_ALL, rules.MEAN_FILLED, rules.MEAN_FULL):
        mean = bound_of_union(code, low, high, (float(m), float(n)))
        assert low - 2.0**-49 * abs(low) <= mean <= high
        assert bound_of_union(code, low, np.inf, (float(m), float(n))) == np.inf
    assert bound_of_union(rules.MEAN_PRESENT, low, high, (1.0, 1.0)) == low
    assert bound_of_union(rules.MAX_FULL, low, high, (1.0, 1.0)) == high


@given(WEIGHTS, WEIGHTS, st.sampled_from([-1.0, 1.0]))
def test_what_is_nearer_has_no_later_level(a: float, b: float, sign: float) -> None:
    near, far = sorted((sign * a, sign * b))
    steps = sign, 0.0, 10.0, 400
    assert level_of(near, steps) <= level_of(far, steps)
