"""Merges within a factor: the same on any number of threads, in less memory than the finisher, where rounds stall."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any
from unittest import mock

import dask
import numpy as np
import pandas as pd
import pytest

import dask_rac
from dask_rac.base.errors import StoppedError
from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import Limits
from dask_rac.engines.rows.needs import EntrySizes, finisher_bytes, good_bytes, good_room, rest_bytes
from dask_rac.tasks.budget import Budget
from tests.support.graphs import tangled_edges
from tests.support.limits import cluster_within
from tests.support.results import merge_set, merges_frame
from tests.support.stored import write_parquet

TANGLED = tangled_edges(20_000, 60_000, 1_000, seed=5)
HARDLY = Limits(good_share=0.01)
SOON = Limits(good_share=2.0)


@pytest.mark.parametrize("options", [{"weights": "similarity"}, {"missing": "ignore"}, {"linkage": "complete"}])
def test_merges_are_the_same_on_any_number_of_threads(options: dict[str, Any]) -> None:
    found = []
    for threads in (1, 2, 5):
        with dask.config.set(num_workers=threads):
            found.append(cluster_within(SOON, TANGLED, epsilon=0.1, **options).merges)
    assert found[0]["ratio"].between(1, 1.1).all()
    for other in found[1:]:
        pd.testing.assert_frame_equal(found[0], other)


def test_few_rounds_are_left() -> None:
    exact = dask_rac.cluster(TANGLED, weights="similarity", finisher=False)
    found = dask_rac.cluster(TANGLED, weights="similarity", epsilon=0.1)
    assert len(found.rounds) < len(exact.rounds) / 2
    assert found.rounds["finisher"].tolist() == [False] * (len(found.rounds) - 1) + [True]
    assert found.merges["ratio"][found.merges["round"] < len(found.rounds)].eq(1).all()
    assert len(found.merges) == len(exact.merges)


def test_without_the_finisher_every_merge_is_exact() -> None:
    exact = dask_rac.cluster(TANGLED, missing="ignore", finisher=False).merges
    found = dask_rac.cluster(TANGLED, missing="ignore", finisher=False, epsilon=0.5).merges
    assert found["ratio"].eq(1).all()
    pd.testing.assert_frame_equal(found.drop(columns="ratio"), exact)


def test_an_epsilon_as_small_as_rounding_is_exact() -> None:
    exact = dask_rac.cluster(TANGLED, missing="ignore").merges
    found = dask_rac.cluster(TANGLED, missing="ignore", epsilon=1e-12).merges
    pd.testing.assert_frame_equal(found.drop(columns="ratio"), exact)


def test_where_rounds_lead_nowhere_good_merges_end_the_run(folder: Path) -> None:
    leaves = 5_000
    star = np.zeros(leaves, int), np.arange(1, leaves + 1), np.random.default_rng(0).random(leaves)
    edges = write_parquet(folder / "edges.parquet", star)
    with dask.config.set(num_workers=1):
        found = dask_rac.cluster(edges, store=folder / "run", memory=1_200_000, epsilon=0.1)
    assert len(found.rounds) <= 3
    assert found.verify(edges).ratios == leaves
    assert merge_set(mock.Mock(merges=merges_frame(found))) == merge_set(dask_rac.cluster(star, epsilon=0.1))


@pytest.mark.parametrize("memory", [10**6, 10**8, 10**10])
def test_there_is_room_for_as_many_edges_as_fit(memory: int) -> None:
    sizes, budget = EntrySizes(4, 8, 14, 1.0), Budget(memory, 1, 2)
    room = good_room(sizes, 1_000, budget)
    assert good_bytes(sizes, 1_000, 2 * room) <= memory < good_bytes(sizes, 1_000, 2 * room + 2)


@pytest.mark.parametrize(
    ("memory", "reason"),
    [(500_000, r"rounds have merged 8 of .* more rounds would follow"), (400_000, r"good merges of .* do not fit")],
)
def test_where_not_even_good_merges_fit_the_run_says_which_memory_ends_it(
    folder: Path, memory: int, reason: str
) -> None:
    leaves = 5_000
    star = np.zeros(leaves, int), np.arange(1, leaves + 1), np.random.default_rng(0).random(leaves)
    edges = write_parquet(folder / "edges.parquet", star)
    with dask.config.set(num_workers=1):
        with pytest.raises(StoppedError, match=reason) as caught:
            dask_rac.cluster(edges, store=folder / "run", memory=memory, epsilon=0.1)
        advised = re.search(r"memory='([\d.]+MB)'", str(caught.value).partition(": ")[2])
        assert advised
        assert dask_rac.resume(folder / "run", memory=advised[1]).verify(edges).ratios == leaves


def test_good_merges_need_less_than_rounds_or_the_finisher() -> None:
    sizes = EntrySizes.of(checked_settings("average", 0.0, "similarity"), 10**6, 3 * 10**7, "float64")
    needed = good_bytes(sizes, 10**6, 6 * 10**7)
    assert needed < 0.65 * rest_bytes(sizes, 10**6, 6 * 10**7)
    assert needed < 0.5 * finisher_bytes(sizes, 10**6, 3 * 10**7)
