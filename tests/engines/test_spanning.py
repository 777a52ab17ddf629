"""Single linkage of all pairs without their triangle gives the bits of the matrix engine, in memory and in steps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from dask_rac.base.settings import Settings, checked_settings
from dask_rac.engines import prepare
from dask_rac.engines.certain import spanning_rows, spanning_state, spanning_stored, spanning_vectors
from dask_rac.engines.certain.spanning import merge_spanning
from dask_rac.engines.contract import Limits, MergeList, Work
from dask_rac.engines.equal import distinct_pairs, merge_equal
from dask_rac.engines.given import GivenPairs
from dask_rac.engines.matrix.in_memory import merge_pairs
from dask_rac.engines.start import single_nodes
from dask_rac.files.folder import Folder
from dask_rac.files.tables import read_ends, read_merges
from dask_rac.store.header import Header
from dask_rac.store.manifest import State
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.team import Team
from dask_rac.tasks.threads import Threads
from dask_rac.vectors.pairs.opening import open_distances, open_vector_pairs
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from tests.support.effort import examples

METRICS = ("euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan")
SPARSE = METRICS[:4]

Rows = list[tuple[Any, ...]]


def _quiet(_event: object) -> None:
    """Report nothing."""


def _settings(metric: str, max_height: float | None = None) -> Settings:
    """Return the settings of a run."""
    weights = "similarity" if metric == "inner_product" else "distance"
    return checked_settings("single", None, weights, max_height, metric=metric)


def _rows(found: MergeList) -> Rows:
    """Return merges with the edges that made them."""
    assert found.ends is not None
    ends = np.sort(np.stack(found.ends, axis=1), axis=1)
    columns = [column.tolist() for column in (*found.merges, *ends.T)]
    return list(zip(*columns, strict=True))


def _by_matrix(vectors: Any, settings: Settings) -> Rows:
    """Return the merges of the matrix engine, which takes equal vectors as any others."""
    pairs = open_distances(vectors) if settings.metric == "precomputed" else open_vector_pairs(vectors, settings.metric)
    with Team(1) as team:
        return _rows(merge_pairs(GivenPairs(pairs, single_nodes(pairs.nodes), 0), settings, team, _quiet, Limits()))


def _spanned(vectors: Any, settings: Settings, threads: int = 1) -> Rows:
    """Return the merges of equal vectors, then those of the others."""
    pairs = open_vector_pairs(vectors, settings.metric)
    assert isinstance(pairs, VectorPairs)
    with Team(threads) as team:
        start, equal = merge_equal(pairs, team, _quiet, single=True)
        few = distinct_pairs(pairs, start)
        return _rows(equal) + _rows(merge_spanning(few, start, 10**8, settings, team, _quiet, Limits()))


@contextmanager
def _small(band: int, share: int, found: int = 8) -> Iterator[None]:
    """Cut even the smallest sets into bands."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(spanning_vectors, "BAND", band)
        patch.setattr(spanning_vectors, "SAMPLE_SHARE", share)
        patch.setattr(spanning_vectors, "FOUND", found)
        patch.setattr(spanning_rows, "SMALLEST", band)
        patch.setattr(spanning_state, "HELD", found)
        yield


@st.composite
def _points(draw: st.DrawFn) -> NDArray[np.float64]:
    """Points with ties, with outliers, or in clusters of very different density."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(1, 60)), draw(st.sampled_from([1, 2, 3, 5, 40]))
    kind = draw(st.sampled_from(["grid", "normal", "outliers", "densities"]))
    if kind == "grid":
        return random.integers(1, 4, shape).astype(np.float64)
    points = random.normal(size=shape) + 3
    if kind == "outliers":
        points[random.random(len(points)) < 0.1] *= 1e6
    if kind == "densities":
        points *= 10.0 ** random.integers(-4, 4, (shape[0], 1))
    return points


@pytest.mark.kernels
@pytest.mark.parametrize("metric", METRICS)
@given(points=_points(), band=st.integers(2, 30), share=st.integers(1, 20))
@examples(30)
def test_vectors_merge_as_by_the_matrix(metric: str, points: NDArray[np.float64], band: int, share: int) -> None:
    settings = _settings(metric)
    expected = _by_matrix(points, settings)
    with _small(band, share):
        assert _spanned(points, settings) == expected


@pytest.mark.parametrize("metric", METRICS)
@given(points=_points(), band=st.integers(2, 30), form=st.sampled_from(["float32", "sparse"]))
@examples(10)
def test_so_do_other_forms_in_threads(metric: str, points: NDArray[np.float64], band: int, form: str) -> None:
    if form == "sparse" and metric not in SPARSE:
        return
    vectors: Any = points.astype(np.float32) if form == "float32" else sp.csr_array(points)
    settings = _settings(metric)
    with _small(band, 4, 100):
        assert _spanned(vectors, settings, 3) == _by_matrix(vectors, settings)


@pytest.mark.kernels
@given(points=_points(), band=st.integers(1, 300), threads=st.integers(1, 3))
@examples(30)
def test_given_distances_merge_as_by_the_matrix(points: NDArray[np.float64], band: int, threads: int) -> None:
    settings = _settings("precomputed")
    square = squareform(pdist(points)) if len(points) > 1 else np.zeros((1, 1))
    for distances in (square, pdist(points)) if len(points) > 1 else (square,):
        pairs = open_distances(distances)
        with _small(band, 4), Team(threads) as team:
            found = merge_spanning(pairs, single_nodes(pairs.nodes), 8, settings, team, _quiet, Limits())
        assert _rows(found) == _by_matrix(distances, settings)


def test_nothing_merges_above_the_limit() -> None:
    points = np.random.default_rng(1).normal(size=(200, 3))
    settings = _settings("euclidean", 0.5)
    found = _spanned(points, settings)
    assert found == _by_matrix(points, settings)
    assert 0 < len(found) < 199


def test_a_larger_set_in_few_and_many_dimensions() -> None:
    random = np.random.default_rng(2)
    for dimensions in (2, 300):
        points = random.normal(size=(3000, dimensions)).astype(np.float32)
        points[:5] *= 1000
        with _small(512, 8, 4096):
            assert _spanned(points, _settings("euclidean"), 2) == _by_matrix(points, _settings("euclidean"))


def _work(store: Folder, settings: Settings, before: Work | None, facts: Any, budget: Budget) -> Work:
    """Return what a run lends to the next step."""
    header = Header(settings, None, "", "float64", None, None, {}, "certain")
    step = 0 if before is None else before.step + 1
    limits = Limits(span_pairs=1, part_merges=7)
    return Work(store, header, Threads(), budget, _quiet, limits, step, facts)


def _stored(folder: Path, given_: Any, settings: Settings, killed: bool, threads: int) -> Rows:
    """Do a run step by step; if it is killed, each step twice, of which the second counts."""
    store = Folder(str(folder))
    for name in ("rounds", "merges", "statistics"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    budgets = [Budget(10**8, 1, 1 + k % threads) for k in range(2)]
    work = _work(store, settings, None, None, budgets[0])
    step = prepare.begin(given_, work)
    facts, tables, state = step.facts, list(step.merges), step.state
    number = 0
    while state is not None:
        number += 1
        for _ in range(1 + killed):
            work = _work(store, settings, work, facts, budgets[number % 2])
            step = spanning_stored.advance(State(**vars(state)), work)
        state = step.state
        tables += step.merges
    assert number > 2
    rows: Rows = []
    for table in tables:
        merges, ends = read_merges(store, table), read_ends(store, table)
        assert ends is not None
        pairs = np.sort(np.stack([ends["source"], ends["target"]], axis=1), axis=1)
        columns = [merges[name].tolist() for name in ("left", "right", "height", "size")]
        rows += list(zip(*columns, *(column.tolist() for column in pairs.T), strict=True))
    return rows


@pytest.mark.parametrize("killed", [False, True])
def test_steps_through_a_store_give_the_same_merges(tmp_path: Path, killed: bool) -> None:
    random = np.random.default_rng(3)
    points = random.integers(0, 12, (150, 2)).astype(np.float64)
    settings = _settings("euclidean")
    with _small(40, 5, 100):
        assert _stored(tmp_path, points, settings, killed, 2) == _by_matrix(points, settings)


def test_so_do_those_of_distances_on_disk(tmp_path: Path) -> None:
    distances = squareform(pdist(np.random.default_rng(4).normal(size=(90, 2))))
    np.save(tmp_path / "distances.npy", distances)
    settings = _settings("precomputed")
    header = Header(settings, None, "", "float64", None, None, {}, "certain")
    assert header.source is None
    with _small(300, 5, 100), pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "stored_pairs", prepare.stored_pairs)
        stored = prepare.StoredPairs(Folder(str(tmp_path)), str(tmp_path / "distances.npy"), settings, "")
        patch.setattr(spanning_stored, "stored_pairs", lambda *_: stored)
        found = _stored(tmp_path / "store", str(tmp_path / "distances.npy"), settings, False, 2)
    assert found == _by_matrix(distances, settings)
