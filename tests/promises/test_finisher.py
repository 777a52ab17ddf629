"""Promise 4: where the finisher takes over never shows in sums that are exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import dask_rac
from dask_rac.engines.contract import Limits
from tests.support.graphs import tangled_edges
from tests.support.limits import cluster_within
from tests.support.results import merge_set


@pytest.mark.parametrize("linkage", ["average", "complete"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("missing", ["ignore", "infinite", "number"])
@pytest.mark.parametrize("values", [1, 3, 10**6])
def test_finisher_and_rounds_agree(linkage: str, weights: str, missing: str, values: int) -> None:
    edges = tangled_edges(3000, 9000, values, seed=values)
    number = edges[2].max() if weights == "distance" else 0.0
    options: dict[str, Any] = {
        "linkage": linkage,
        "weights": weights,
        "missing": number if missing == "number" else missing,
    }
    finished = cluster_within(Limits(hand_over=0.2), edges, **options)
    rounds = dask_rac.cluster(edges, finisher=False, **options)
    assert not rounds.rounds["finisher"].any()
    assert merge_set(finished) == merge_set(rounds)
    if missing != "infinite":
        assert finished.rounds["finisher"].any()


def test_finisher_is_quick_where_a_hub_has_many_equal_edges() -> None:
    leaves = 50_000
    edges = np.zeros(leaves, int), np.arange(1, leaves + 1), np.ones(leaves)
    found = dask_rac.cluster(edges, missing="ignore")
    assert found.rounds["merges"].tolist() == [1, leaves - 1]
    assert (found.merges["height"] == 1).all()


@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("values", [1, 3, 40])
def test_finisher_and_rounds_agree_by_weighted_linkage_while_means_are_exact(weights: str, values: int) -> None:
    edges = tangled_edges(40, 100, values, seed=values)
    options: dict[str, Any] = {"linkage": "weighted", "weights": weights}
    options["missing"] = edges[2].max() if weights == "distance" else 0.0
    finished = cluster_within(Limits(hand_over=2.0), edges, **options)
    assert finished.rounds["finisher"].any()
    assert merge_set(finished) == merge_set(dask_rac.cluster(edges, finisher=False, **options))


def test_finisher_is_quick_by_weighted_linkage_where_a_hub_takes_one_after_the_other() -> None:
    leaves = 50_000
    edges = np.zeros(leaves, int), np.arange(1, leaves + 1), np.arange(1, leaves + 1) / leaves
    found = dask_rac.cluster(edges, "weighted", missing=1.0)
    assert found.rounds["merges"].tolist() == [1, leaves - 1]
    heights = np.asarray(found.merges["height"])
    np.testing.assert_allclose(heights[:3] * leaves, [1, (2 + leaves) / 2, (3 + 3 * leaves) / 4])


@pytest.mark.soak
@pytest.mark.parametrize("linkage", ["average", "complete"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("missing", ["ignore", "infinite", "number"])
@pytest.mark.parametrize("values", [3, 1000])
def test_where_the_finisher_takes_over_never_shows_in_large_graphs(
    linkage: str, weights: str, missing: str, values: int
) -> None:
    edges = tangled_edges(100_000, 400_000, values, seed=values)
    number = edges[2].max() if weights == "distance" else 0.0
    options: dict[str, Any] = {"linkage": linkage, "weights": weights}
    options["missing"] = number if missing == "number" else missing
    expected = merge_set(dask_rac.cluster(edges, **options))
    for hand_over in (0.1, 0.3):
        assert merge_set(cluster_within(Limits(hand_over=hand_over), edges, **options)) == expected
