"""How far near pairs reach: foretold from a sample, the same in every run, and never more than memory holds."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import pdist, squareform

from dask_rac import datasets
from dask_rac.base.errors import ResourceError
from dask_rac.engines.certain import in_memory, survey
from dask_rac.engines.certain.in_memory import merge_certain
from dask_rac.engines.certain.near_pairs import find_near, reach_of
from dask_rac.engines.certain.sample import Sample, draw_sample, radius_of, sample_size
from dask_rac.engines.certain.state import PAIR_BYTES, SLOT_BYTES
from dask_rac.engines.certain.survey import Survey, most_pairs, survey_pairs
from dask_rac.engines.contract import Limits
from dask_rac.engines.start import single_nodes
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.opening import open_distances
from tests.support.certain import LINKAGES, any_points, rounds_on, settings_of, vector_pairs
from tests.support.effort import examples

MEMORY = 2**28


def surveyed(points: np.ndarray, linkage: str = "complete", memory: int = MEMORY, **limits: int) -> Survey:
    """What a survey of points chooses."""
    with Team(2) as team:
        pairs = vector_pairs(points, "euclidean")
        return survey_pairs(pairs, memory, settings_of(linkage, "euclidean"), team, Limits(**limits))  # type: ignore[arg-type]


@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_sample_foretells_pairs_and_clusters(linkage: str) -> None:
    points = any_points(1, 6000, "densities", 8)
    found = surveyed(points, linkage, sample_rows=1500)
    with Team(2) as team:
        pairs = vector_pairs(points, "euclidean")
        near = find_near(found, pairs, MEMORY, team, lambda _: None)
        state = rounds_on(near, reach_of(found, pairs), 6000, linkage, team)[0]
    assert 0.6 * found.edges < len(near.weight) < 1.6 * found.edges
    assert 0.6 * found.left < len(state.live) < 1.6 * found.left


@pytest.mark.parametrize("kind", ["eps", "knn"])
def test_clusters_that_are_finer_than_a_sample_shows_are_foretold_by_its_quarters(kind: str, tmp_path: Path) -> None:
    """Each of 30,000 words has at most a vector or two in a sample, and far more among all."""
    points = np.load(datasets.sift(20_000, store=tmp_path / "sift.npy", progress=False))
    settings, limits = settings_of("complete", "euclidean"), Limits(sample_rows=1_000, degrees=(16,))
    with Team(2) as team:
        pairs = vector_pairs(points, "euclidean")
        sample = draw_sample(pairs, sample_size(20_000, limits, MEMORY), team)
        (found,) = survey._tried(kind, 20_000, sample, settings, team, limits)
        (shown,) = survey._tried(kind, sample.points, sample, settings, team, limits)
        near = find_near(found, pairs, MEMORY, team, lambda _: None)
        left = len(rounds_on(near, reach_of(found, pairs), 20_000, "complete", team)[0].live)
    assert 0.7 * left < found.left < 1.3 * left
    assert kind == "knn" or 20 * shown.left < 0.8 * left


def test_the_choice_follows_from_the_data_and_the_memory_alone() -> None:
    points = any_points(2, 3000, "points", 5)
    with mock.patch.multiple(survey, EPS_SECONDS=0.0, KNN_SECONDS=0.0):
        first = surveyed(points, sample_rows=500)
        assert surveyed(points, sample_rows=500) == first
        less = surveyed(points, memory=most_bytes(3000, first.edges // 2), sample_rows=500)
    assert less.edges <= first.edges // 2
    assert less.degree < first.degree


def most_bytes(nodes: int, pairs: int) -> int:
    """Memory for so many near pairs."""
    return SLOT_BYTES * nodes + PAIR_BYTES * pairs


def test_a_dense_core_and_points_far_away_do_not_make_a_list_of_all_pairs() -> None:
    """Whichever is chosen, pairs are bounded; a radius that serves the far points would take in the whole core."""
    random = np.random.default_rng(3)
    points = np.concatenate([1e-3 * random.standard_normal((2000, 4)), random.standard_normal((2000, 4))])
    found = surveyed(points, "average", sample_rows=800)
    assert found.edges <= 4000 * 1024
    assert found.kind == "knn"
    with Team(2) as team:
        near = find_near(found, vector_pairs(points, "euclidean"), MEMORY, team, lambda _: None)
    assert len(near.weight) < 2 * found.edges


def test_points_that_are_all_equally_far_apart_are_refused_without_a_list_of_all_pairs(tmp_path: Path) -> None:
    memory = most_bytes(400, 20_000)
    with Team(1) as team:
        np.save(tmp_path / "equal.npy", 1.0 - np.eye(400))
        pairs = open_distances(tmp_path / "equal.npy")
        with pytest.raises(ResourceError, match="equally near"):
            survey_pairs(pairs, memory, settings_of("complete"), team, Limits(degrees=(8, 64)))
        vectors = vector_pairs(np.eye(400), "euclidean")
        found = survey_pairs(vectors, memory, settings_of("complete", "euclidean"), team, Limits())
        assert found.kind == "knn"
        run = in_memory.CertainRun(
            vectors, single_nodes(400), MEMORY, settings_of("complete", "euclidean"), team, lambda _: None, Limits()
        )
        assert not run.merge_near(found)
        run.memory = most_bytes(400, 2_000)
        with pytest.raises(ResourceError, match=r"400 clusters are left .* set memory='1MB' or more"):
            run.merge_rest()


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
def test_vectors_that_are_all_equally_far_apart_are_refused_before_near_pairs_are_looked_for(form: Any) -> None:
    with pytest.raises(ResourceError, match=r"of the vectors are equally near .* set memory='10MB' or more"):
        surveyed(form(np.eye(1500, dtype=np.float32)), memory=most_bytes(1500, 9_000))


def test_too_little_memory_is_refused_with_the_amount_that_would_do() -> None:
    with pytest.raises(ResourceError, match=r"the near pairs of 3,000 nodes need .* set memory='3MB' or more"):
        surveyed(any_points(4, 3000, "points", 3), memory=1_000_000)


def test_given_distances_are_sampled_in_runs_of_rows(tmp_path: Path) -> None:
    condensed = pdist(any_points(5, 600, "points", 3))
    np.save(tmp_path / "square.npy", squareform(condensed))
    with Team(1) as team:
        sample = draw_sample(open_distances(tmp_path / "square.npy"), 200, team)
        assert abs(np.median(sample.weight) / np.median(condensed) - 1) < 0.2
        found = survey_pairs(open_distances(condensed), MEMORY, settings_of("complete"), team, Limits())
        assert found.kind == "eps"
        merged = merge_certain(
            open_distances(condensed),
            single_nodes(600),
            MEMORY,
            settings_of("complete"),
            team,
            lambda _: None,
            Limits(),
        )
    assert len(merged.round) == 599


@pytest.mark.parametrize("metric", ["euclidean", "inner_product"])
def test_pairs_that_are_too_many_lead_to_another_survey(metric: str) -> None:
    points, most = any_points(6, 1200, "points", 4), []
    real = survey.survey_pairs

    def told(*arguments: object) -> Survey:
        most.append(arguments[-1])
        return real(*arguments)  # type: ignore[arg-type]

    with (
        Team(1) as team,
        mock.patch.object(in_memory, "survey_pairs", told),
        mock.patch("dask_rac.engines.certain.near_pairs.most_pairs", return_value=30_000),
        mock.patch.multiple(survey, EPS_SECONDS=0.0, KNN_SECONDS=0.0),
    ):
        pairs = vector_pairs(points, metric)
        found = merge_certain(
            pairs, single_nodes(1200), MEMORY, settings_of("complete", metric), team, lambda _: None, Limits()
        )
    assert len(found.round) == 1199
    assert len(most) > 1
    assert most[0] is None


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_a_few_points_need_no_sample_of_others(count: int) -> None:
    points = any_points(7, count, "points", 2)
    for linkage in LINKAGES:
        with Team(1) as team:
            pairs = vector_pairs(points, "euclidean")
            settings = settings_of(linkage, "euclidean")
            found = merge_certain(pairs, single_nodes(count), 2**26, settings, team, lambda _: None, Limits())
        assert len(found.round) == count - 1


@examples(60)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.floats(0.0, 1.0))
def test_a_radius_never_takes_in_far_more_than_was_asked_for(values: list[int], fraction: float) -> None:
    ordered = np.sort(np.array(values, np.float64))
    radius = radius_of(ordered, fraction)
    wanted = fraction * len(values)
    if radius is not None:
        assert (ordered <= radius).sum() <= max(1.5 * wanted, wanted + 1)
    elif wanted >= 1:
        assert (ordered == ordered[0]).sum() > 1.5 * wanted


def test_pairs_of_a_sample_are_those_of_its_points() -> None:
    condensed = pdist(any_points(8, 20, "points", 2))
    sample = Sample(20, condensed[::-1].copy())
    square = squareform(condensed)[::-1, ::-1]
    np.testing.assert_array_equal(square[sample.ends], sample.weight)
    near = np.take_along_axis(square, sample.nearest, axis=1)
    np.testing.assert_array_equal(np.sort(square, axis=1)[:, 1:], near)
    assert Sample(20, np.ones(190)).listed(3).sum() == 3 * 17 + 3  # the pairs of slots 0 to 2, and of 3 with these
    assert sample_size(10**5, Limits(), 2**34) == 3000
    assert sample_size(10**6, Limits(), 2**20) < 200
    assert sample_size(10**6, Limits(), 2**34) == 6250
    assert most_pairs(10, 0) == 0
