"""Promise 4: where the finisher takes over never shows in sums that are exact."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.events import RoundRecord
from dask_rac.engines.contract import Limits
from dask_rac.engines.rows import in_memory
from dask_rac.engines.rows.pace import pays
from dask_rac.engines.rows.round import finisher_round
from dask_rac.kernels.arrays import Clusters
from dask_rac.kernels.rows.links import Links
from tests.support.graphs import Edges, tangled_edges
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


@pytest.mark.parametrize(
    ("linkage", "missing"),
    [(linkage, missing) for linkage in ("average", "complete") for missing in ("ignore", "infinite", 0.0)]
    + [("weighted", 0.0)],
)
@pytest.mark.parametrize("values", [1, 2, 10**6])
def test_finisher_is_quick_on_two_stars_of_similarities(linkage: str, missing: str | float, values: int) -> None:
    leaves = 40_000
    u = np.concatenate(([0], np.arange(leaves) % 2))
    v = np.concatenate(([1], np.arange(2, leaves + 2)))
    weights = np.random.default_rng(values).integers(1, values + 1, leaves + 1).astype(float)
    found = dask_rac.cluster((u, v, weights), linkage, missing, "similarity")
    assert len(found.rounds) <= 4
    if missing != "infinite":
        assert len(found.merges) == leaves + 1


def double_star(leaves: int, values: int) -> tuple[Edges, int]:
    """Two hubs that share all their leaves, and how many edges that are."""
    hub = np.repeat((0, 1), (leaves + 1, leaves))
    other = np.concatenate((np.arange(1, leaves + 2), np.arange(2, leaves + 2)))
    return (hub, other, np.random.default_rng(values).integers(1, values + 1, len(hub)).astype(float)), len(hub)


@pytest.mark.kernels
@pytest.mark.parametrize("values", [1, 2, 10**6])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize(("linkage", "missing"), [("average", "ignore"), ("average", "far"), ("complete", "ignore")])
def test_the_table_of_pairs_keeps_one_slot_for_two_hubs_that_share_their_leaves(
    linkage: str, missing: str, weights: str, values: int
) -> None:
    edges, count = double_star(300, values)
    links: list[Links] = []

    def finish(clusters: Clusters, held: Links, *others: Any) -> RoundRecord:
        links.append(held)
        return finisher_round(clusters, held, *others)

    with mock.patch.object(in_memory, "finisher_round", finish):
        found = cluster_within(Limits(hand_over=2.0), edges, linkage, missing, weights)
    assert len(found.merges) == 301
    assert found.rounds["finisher"].iloc[-1]
    # Each leaf brings another edge of the two hubs. In slots of their own they would be searched one after the other.
    assert (links[0].slots >= 0).sum() <= count


@pytest.mark.parametrize("linkage", ["average", "complete", "weighted"])
@pytest.mark.parametrize("values", [1, 2, 10**6])
def test_finisher_is_quick_on_two_hubs_that_share_their_leaves(linkage: str, values: int) -> None:
    edges, _ = double_star(50_000, values)
    missing = 0.0 if linkage == "weighted" else "ignore"
    assert len(dask_rac.cluster(edges, linkage, missing, "similarity").merges) == 50_001


@pytest.mark.parametrize("linkage", ["average", "complete"])
@pytest.mark.parametrize("missing", ["ignore", "infinite", 0.0])
@pytest.mark.parametrize("values", [1, 3, 1000])
def test_finisher_and_rounds_agree_where_hubs_share_their_neighbours(
    linkage: str, missing: str | float, values: int
) -> None:
    hubs, leaves = 12, 400
    u, v = (side.ravel() for side in np.meshgrid(np.arange(hubs), np.arange(hubs, hubs + leaves)))
    among = np.triu_indices(hubs, 1)
    random = np.random.default_rng(values)
    kept = random.random(len(u)) < 0.6
    u, v = np.concatenate((u[kept], among[0])), np.concatenate((v[kept], among[1]))
    name = random.permutation(hubs + leaves)
    edges = name[u], name[v], random.integers(1, values + 1, len(u)).astype(float)
    options: dict[str, Any] = {"linkage": linkage, "missing": missing, "weights": "similarity"}
    finished = cluster_within(Limits(hand_over=2.0), edges, **options)
    assert merge_set(finished) == merge_set(dask_rac.cluster(edges, finisher=False, **options))


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(2, 10**9), st.integers(1, 10**9))
def test_rounds_pay_that_shrink_the_graph_or_are_few(edges: int, lost: int, clusters: int, merges: int) -> None:
    lost, merges = min(lost, edges), min(merges, clusters)
    record = RoundRecord(clusters=clusters, edges=edges, merges=merges)
    rounds = min(edges / max(lost, 1e-9), clusters.bit_length() * clusters / merges)
    if abs(rounds - 32) > 1e-6:
        assert pays(record, edges - lost, 1 / 32) == (rounds < 32)


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
