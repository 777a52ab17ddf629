"""Merges are listed round by round; sorted by height, size and node they are in an order of sequential HAC."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from tests.support.strategies import Graph, graphs


def columns(graph: Graph) -> tuple[np.ndarray, ...]:
    """The edges as three arrays."""
    edges = np.array(graph.edges, np.float64).reshape(-1, 3)
    return edges[:, 0].astype(np.int64), edges[:, 1].astype(np.int64), edges[:, 2]


def check_order(found: Any, weights: str) -> None:
    """Sorted as the docs say, each merge joins two clusters that exist then, no nearer than the one before."""
    merges = found.merges if isinstance(found.merges, pd.DataFrame) else found.merges.compute()
    ascending = [weights == "distance", True, True]
    ordered = merges.sort_values(["height", "size", "left"], ascending=ascending)
    sizes = dict.fromkeys(range(found.n_nodes), 1)
    for left, right, size in ordered[["left", "right", "size"]].itertuples(index=False):
        sizes[left] += sizes.pop(right)
        assert sizes[left] == size
    assert ordered["height"].tolist() == found.to_scipy(join=True)[: len(ordered), 2].tolist() or weights != "distance"
    assert merges["round"].is_monotonic_increasing or found._settings.linkage == "single"


@given(graphs(), st.sampled_from(["average", "complete", "single"]), st.sampled_from(["distance", "similarity"]))
def test_in_memory(graph: Graph, linkage: str, weights: str) -> None:
    check_order(dask_rac.cluster(columns(graph), linkage, weights=weights, n_nodes=graph.n_nodes), weights)


@pytest.mark.parametrize("linkage", ["average", "single"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_in_a_store(linkage: str, weights: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    source, target = rng.integers(300, size=(2, 900))
    kept = source != target
    edges = source[kept], target[kept], rng.random(kept.sum())
    options: dict[str, Any] = {"weights": weights, "n_nodes": 300, "duplicates": "min"}
    found = dask_rac.cluster(edges, linkage, **options, store=tmp_path / "run", shards=3)
    check_order(found, weights)
    assert not found.merges.compute()["height"].is_monotonic_increasing or linkage == "single"
