"""Good merges out of core: shard by shard, in rounds through the disk, where what is left does not fit in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dask
import pandas as pd
import pytest
from distributed import Client

import dask_rac
from dask_rac.engines.contract import Limits
from tests.support.graphs import tangled_edges
from tests.support.limits import cluster_within, resume_within
from tests.support.results import merges_frame
from tests.support.stored import PlugPulledError, steps_of, stop_after, write_parquet

TANGLED = tangled_edges(2_000, 60_000, 1_000, seed=5)
SOON = Limits(good_share=2.0)
WAYS: list[dict[str, Any]] = [
    {"weights": "similarity"},
    {"missing": "ignore"},
    {"missing": "far"},
    {"linkage": "complete"},
]


def good_rounds(found: dask_rac.StoredClustering) -> pd.DataFrame:
    """The rounds through the disk whose merges were good ones."""
    rounds = found.rounds
    return rounds[rounds["deferred"] & ~rounds["finisher"]]


@pytest.mark.parametrize("options", WAYS)
@pytest.mark.parametrize("shards", [3, 16])
def test_what_does_not_fit_merges_shard_by_shard(folder: Path, options: dict[str, Any], shards: int) -> None:
    edges = write_parquet(folder / "edges.parquet", TANGLED)
    found = cluster_within(SOON, edges, **options, epsilon=0.1, shards=shards, store=folder / "run")
    assert len(good_rounds(found)) >= 1
    assert good_rounds(found)["merges"].gt(0).all()
    assert 0 < found.epsilon <= 0.1
    assert found.verify(edges).ratios == len(merges_frame(found))
    assert len(merges_frame(found)) == len(dask_rac.cluster(TANGLED, **options, epsilon=0.1).merges)


def test_little_memory_takes_more_rounds_and_keeps_the_promise(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", TANGLED)
    rounds = []
    for memory in (8_000_000, 600_000):
        with dask.config.set(num_workers=2):
            found = dask_rac.cluster(
                edges, weights="similarity", epsilon=0.1, memory=memory, store=folder / f"run{memory}"
            )
        assert found.verify(edges).ratios == len(merges_frame(found))
        rounds.append(len(good_rounds(found)))
    assert rounds[0] < rounds[1] <= 20


def test_threads_and_workers_never_show(folder: Path, client: Client) -> None:
    edges = write_parquet(folder / "edges.parquet", TANGLED)
    merges = []
    for number, (threads, workers) in enumerate([(1, None), (2, None), (1, client)]):
        with dask.config.set(num_workers=threads):
            found = cluster_within(
                SOON,
                edges,
                weights="similarity",
                epsilon=0.1,
                shards=5,
                memory="1GB",
                store=folder / f"run{number}",
                client=workers,
            )
        assert len(good_rounds(found)) >= 2
        merges.append(merges_frame(found))
    for other in merges[1:]:
        pd.testing.assert_frame_equal(merges[0], other)


def test_a_run_that_was_stopped_in_any_round_goes_on_to_the_same_merges(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", TANGLED)
    options: dict[str, Any] = {"weights": "similarity", "epsilon": 0.1, "memory": 600_000}
    with dask.config.set(num_workers=1):
        whole = dask_rac.cluster(edges, **options, store=folder / "whole")
        for rounds in range(1, len(whole.rounds), 2):
            store = folder / f"run{rounds}"
            with pytest.raises(PlugPulledError):
                dask_rac.cluster(edges, **options, store=store, progress=stop_after(rounds))
            assert len(steps_of(store)) == rounds + 1
            pd.testing.assert_frame_equal(merges_frame(dask_rac.resume(store)), merges_frame(whole))


def test_rounds_leave_nothing_on_the_disk_that_nobody_needs(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", TANGLED)
    found = cluster_within(SOON, edges, weights="similarity", epsilon=0.1, shards=16, store=folder / "run")
    assert not any((folder / "run" / "rounds").iterdir())
    peak = found.peak_disk
    exact = cluster_within(Limits(), edges, weights="similarity", shards=16, store=folder / "exact", finisher=False)
    assert peak <= 1.5 * exact.peak_disk


def test_an_exact_rest_is_never_taken_from_regrouped_clusters(folder: Path) -> None:
    edges = write_parquet(folder / "edges.parquet", TANGLED)
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(
            edges, weights="similarity", epsilon=0.1, memory=600_000, store=folder / "run", progress=stop_after(3)
        )
    found = resume_within(Limits(good_share=0.0), folder / "run")
    assert found.verify(edges).ratios == len(merges_frame(found))
