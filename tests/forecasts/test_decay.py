"""Decay: a sample forecasts the rounds of larger graphs of its kind."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.events import RoundRecord
from dask_rac.forecasts.decay import Decay, Level
from dask_rac.forecasts.request import decay_of


def lattice(nodes: int, folder: Path) -> dask_rac.Clustering:
    edges = dask_rac.datasets.lattice(nodes, 20, 0, folder / f"edges-{nodes}", weights="similarity")
    return dask_rac.cluster(edges, weights="similarity")


def test_a_sample_forecasts_a_graph_ten_times_as_large(tmp_path: Path) -> None:
    sample, large = lattice(5_000, tmp_path), lattice(50_000, tmp_path)
    forecast = list(decay_of(sample).rounds(50_000, 500_000))
    actual = large.rounds
    assert len(forecast) == pytest.approx(len(actual), rel=0.15)
    for place in range(12):
        assert forecast[place].clusters == pytest.approx(actual["clusters"][place], rel=0.05)
        assert forecast[place].entries == pytest.approx(2 * actual["edges"][place], rel=0.1)
        assert forecast[place].merges == pytest.approx(actual["merges"][place], rel=0.1)


shares = st.lists(st.floats(0.05, 0.95), min_size=2, max_size=12)


@given(left=shares, nodes=st.integers(10, 10**9), degree=st.integers(1, 1000))
def test_graphs_shrink_until_nothing_is_left(left: list[float], nodes: int, degree: int) -> None:
    clusters, levels = 1.0, []
    for share in left:
        levels.append(Level(clusters, clusters, clusters * (1 - share)))
        clusters *= share
    rounds = list(Decay(tuple(levels)).rounds(nodes, nodes * degree))
    assert (rounds[0].clusters, rounds[0].entries) == (nodes, 2 * nodes * degree)
    sizes = [level.clusters for level in rounds]
    assert sizes == sorted(sizes, reverse=True)
    assert sum(level.merges for level in rounds) <= nodes * 1.0001


@given(nodes=st.integers(10, 10**6), more=st.integers(2, 1000))
def test_larger_graphs_have_no_fewer_rounds(nodes: int, more: int) -> None:
    decay = Decay((Level(1, 1, 0.4), Level(0.6, 0.7, 0.2), Level(0.4, 0.5, 0.1)))
    few, many = (len(list(decay.rounds(count, 20 * count))) for count in (nodes, more * nodes))
    assert few <= many


def test_the_pace_of_a_sample_of_one_round_goes_on() -> None:
    decay = Decay.of([RoundRecord(clusters=10, edges=20, merges=5)], 10, 20)
    assert [round(level.clusters) for level in decay.rounds(64, 1000)] == [64, 32, 16, 8, 4, 2]


def test_without_edges_there_are_no_rounds() -> None:
    assert not list(Decay(()).rounds(5, 3))
    assert not list(Decay((Level(1, 1, 0.5),)).rounds(5, 0))
