"""`verify` of all pairs passes right trees and finds every fault, as an audit of the same pairs as edges does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

import dask_rac
from dask_rac.base.events import Event
from dask_rac.base.settings import Settings, checked_settings
from dask_rac.engines.given import open_pairs
from dask_rac.kernels.arrays import Merges, part
from dask_rac.results import centres_audit, pairs_audit
from dask_rac.results.audit import Audit, AuditReport
from dask_rac.results.pairs_audit import audit_pairs
from dask_rac.tasks.team import Team
from tests.support.effort import examples

METRICS = ("euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan", "precomputed")
LINKAGES = ("single", "complete", "average", "weighted", "ward")
WAYS = [
    (linkage, metric)
    for linkage in LINKAGES
    for metric in METRICS
    if linkage != "ward" or metric in ("euclidean", "precomputed")
]


def _quiet(_event: Event) -> None:
    """Report nothing."""


def _weights(metric: str) -> str:
    """Return what the weights of a metric are."""
    return "similarity" if metric == "inner_product" else "distance"


def _merges(given_: Any, linkage: str, metric: str, max_height: float | None = None) -> Merges:
    """Return the merges of a run."""
    found = dask_rac.cluster(given_, linkage, metric=metric, weights=_weights(metric), max_height=max_height)
    frame = found.merges
    columns = {name: np.array(frame[name]) for name in ("left", "right", "height", "size")}
    return Merges(**columns)


def _report(given_: Any, merges: Merges, settings: Settings, slow: bool = False, threads: int = 1) -> AuditReport:
    """Audit merges; slowly, as if all pairs were edges."""
    with Team(threads) as team:
        pairs = open_pairs(given_, settings)
        audit = Audit(pairs.nodes, merges, settings)
        if slow:
            pairs_audit._hand_over(audit, pairs, settings, team, _quiet)
        else:
            audit_pairs(audit, given_, settings, team, _quiet)
        return audit.report()


def _given(points: NDArray[np.float64], metric: str, form: str = "dense") -> Any:
    """Return vectors or distances."""
    if metric == "precomputed":
        return squareform(pdist(points)) if len(points) > 1 else np.zeros((1, 1))
    if form == "sparse" and metric != "manhattan":
        return sp.csr_array(points)
    return points.astype(np.float32) if form == "float32" else points


@st.composite
def _points(draw: st.DrawFn, least: int = 1) -> NDArray[np.float64]:
    """Points with ties and duplicates, far from the origin, or of very different density."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape = draw(st.integers(least, 40)), draw(st.sampled_from([1, 2, 3, 40]))
    kind = draw(st.sampled_from(["grid", "far", "densities"]))
    if kind == "grid":
        return random.integers(1, 4, shape).astype(np.float64)
    points = random.normal(size=shape) + 100
    return points if kind == "far" else (points - 90) * 10.0 ** random.integers(-3, 4, (shape[0], 1))


@pytest.mark.kernels
@pytest.mark.parametrize(("linkage", "metric"), WAYS)
@given(points=_points(), form=st.sampled_from(["dense", "float32", "sparse"]), limited=st.booleans())
@examples(10)
def test_right_trees_pass(linkage: str, metric: str, points: NDArray[np.float64], form: str, limited: bool) -> None:
    vectors = _given(points, metric, form)
    merges, limit = _merges(vectors, linkage, metric), None
    if limited and len(merges.height) and metric != "inner_product":
        limit = float(np.median(merges.height))
        merges = _merges(vectors, linkage, metric, limit)
    settings = checked_settings(linkage, None, _weights(metric), limit, metric=metric)
    fast, slow = (_report(vectors, merges, settings, way) for way in (False, True))
    assert fast.ok, str(fast)
    assert (fast.merges, fast.edges, fast.unjoined, fast.stray) == (slow.merges, slow.edges, slow.unjoined, slow.stray)
    assert fast.edges + fast.unjoined == len(points) * (len(points) - 1) // 2
    assert fast.all_pairs


@pytest.mark.parametrize(("linkage", "metric"), WAYS)
@given(points=_points(4), seed=st.integers(0, 999))
@examples(8)
def test_a_height_that_is_changed_is_found(linkage: str, metric: str, points: NDArray[np.float64], seed: int) -> None:
    points = np.round(points + np.random.default_rng(seed).normal(size=points.shape), 3)  # no ties
    vectors = _given(points, metric)
    merges = _merges(vectors, linkage, metric)
    settings = checked_settings(linkage, None, _weights(metric), None, metric=metric)
    at = seed % len(merges.height)
    wrong = merges._replace(height=merges.height.copy())
    wrong.height[at] *= 1 + 1e-6
    if wrong.height[at] == merges.height[at]:
        return  # it was 0
    found = _report(vectors, wrong, settings)
    assert found.wrong >= 1
    assert found.first_wrong is not None
    assert found.first_wrong.merge in (at, *range(at, len(merges.height)))


@pytest.mark.parametrize(("linkage", "metric"), WAYS)
def test_every_other_fault_is_found_as_by_edges(linkage: str, metric: str) -> None:
    random = np.random.default_rng(7)
    points = random.normal(size=(30, 3)) + 5
    vectors = _given(points, metric)
    merges = _merges(vectors, linkage, metric)
    settings = checked_settings(linkage, None, _weights(metric), None, metric=metric)
    changes: list[Merges] = []
    for column, at, value in (
        ("size", 20, 99),
        ("right", 5, 10**6),
        ("left", 3, int(merges.right[3])),
        ("right", 25, int(merges.right[2])),
        ("height", 12, np.nan),
        ("height", 28, np.inf),
        ("height", 28, float(merges.height[0])),
    ):
        changed = merges._replace(**{column: getattr(merges, column).copy()})
        getattr(changed, column)[at] = value
        changes.append(changed)
    swapped = merges._replace(left=merges.left.copy(), right=merges.right.copy())
    single = [k for k in range(len(merges.left)) if merges.size[k] == 2][:2]
    swapped.right[single] = swapped.right[single[::-1]]
    ordered = np.minimum(swapped.left, swapped.right), np.maximum(swapped.left, swapped.right)
    changes.append(part(merges, None, -1))
    if len(single) > 1:  # by inner product one node may be the nearest of all others
        changes.append(Merges(*ordered, merges.height, merges.size))
    for changed in changes:
        fast, slow = (_report(vectors, changed, settings, way) for way in (False, True))
        assert not fast.ok
        assert (fast.wrong > 0, fast.stray) == (slow.wrong > 0, slow.stray)
        if slow.first_wrong is not None:
            assert fast.first_wrong is not None
            assert (fast.first_wrong.merge, fast.first_wrong.fault) == (slow.first_wrong.merge, slow.first_wrong.fault)
            assert fast.first_wrong.expected == pytest.approx(slow.first_wrong.expected, rel=1e-9, nan_ok=True)


@pytest.mark.parametrize(("linkage", "metric"), WAYS)
def test_other_vectors_are_refused(linkage: str, metric: str) -> None:
    points = np.random.default_rng(8).normal(size=(50, 4)) + 2
    found = dask_rac.cluster(_given(points, metric), linkage, metric=metric, weights=_weights(metric))
    assert found.verify().ok
    points[17] += 0.5
    with pytest.raises(dask_rac.AuditError, match="merges are wrong, first merge"):
        found.verify(_given(points, metric))
    with pytest.raises(dask_rac.InputError, match="49 points, and the clustering has 50 nodes"):
        found.verify(_given(points[:-1], metric))


@pytest.mark.parametrize("metric", ["manhattan", "precomputed"])
def test_weights_are_halved_more_often_than_a_float_can_be(metric: str) -> None:
    points = 1.01 ** np.arange(1400.0)[:, None]
    assert dask_rac.cluster(_given(points, metric), "weighted", metric=metric).verify().ok


@pytest.mark.parametrize(("linkage", "metric"), WAYS)
def test_parts_and_threads_change_nothing(linkage: str, metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(9).normal(size=(300, 5)) + 1
    vectors = _given(points, metric)
    merges = _merges(vectors, linkage, metric)
    settings = checked_settings(linkage, None, _weights(metric), None, metric=metric)
    monkeypatch.setattr(pairs_audit, "ROWS", 1)
    monkeypatch.setattr(pairs_audit, "LINES", (100, 200))
    monkeypatch.setattr(pairs_audit, "TILES", 200)
    monkeypatch.setattr(centres_audit, "BLOCK", 600)
    monkeypatch.setattr("dask_rac.vectors.pairs.triangle.SPAN_ITEMS", 50)
    found = _report(vectors, merges, settings, threads=3)
    assert found.ok
    assert found.worst_error < 1e-11


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("linkage", ["single", "complete", "average", "weighted"])
def test_runs_that_go_on_in_other_tiles_are_added_up(
    linkage: str, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 300 dimensions a tile has 256 rows and some fifty columns: here most runs of leaves cross several."""
    random = np.random.default_rng(10)
    points = random.normal(size=(600, 300)) + 3 * random.normal(size=(12, 300))[random.integers(0, 12, 600)]
    settings = checked_settings(linkage, None, "distance", metric=metric)
    merges = _merges(points, linkage, metric, None)
    monkeypatch.setattr(pairs_audit, "TILES", 70_000)
    monkeypatch.setattr(centres_audit, "BLOCK", 600)
    one, three = (_report(points, merges, settings, threads=threads) for threads in (1, 3))
    slow = _report(points, merges, settings, slow=True)
    assert slow.ok
    for fast in (one, three):
        assert fast.ok
        assert (fast.edges, fast.worst_error < 1e-13) == (slow.edges, True)
    for at in range(0, 599, 37):
        wrong = merges._replace(height=merges.height.copy())
        wrong.height[at] = np.nextafter(wrong.height[at], 0) if linkage in ("single", "complete") else 0.0
        found = _report(points, wrong, settings).first_wrong
        assert found is not None
        assert found.expected == pytest.approx(merges.height[at], rel=1e-12)


def test_progress_counts_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.random.default_rng(9).normal(size=(400, 5))
    merges, settings = (
        _merges(points, "complete", "euclidean"),
        checked_settings("complete", None, "distance", metric="euclidean"),
    )
    monkeypatch.setattr(pairs_audit, "ROWS", 1)
    monkeypatch.setattr(pairs_audit, "LINES", (100, 200))
    monkeypatch.setattr(pairs_audit, "TILES", 200)
    events: list[Event] = []
    with Team(2) as team:
        audit_pairs(Audit(400, merges, settings), points, settings, team, events.append)
    seen = [event for event in events if event.stage == "verify"]
    assert [event.done for event in seen] == list(range(1, seen[0].total + 1))
    assert seen[0].total > 1


def test_a_distance_that_is_not_a_number_is_not_passed_over() -> None:
    distances = squareform(pdist(np.random.default_rng(1).normal(size=(20, 2))))
    for linkage in LINKAGES:
        merges = _merges(distances, linkage, "precomputed")
        broken = distances.copy()
        broken[3, 11] = broken[11, 3] = np.nan
        settings = checked_settings(linkage, None, "distance", metric="precomputed")
        assert not _report(broken, merges, settings).ok


def test_a_height_that_rounding_cannot_tell_from_zero_is_no_error() -> None:
    """Multiples of a vector are at cosine distance 0, or at what rounding has left."""
    points = np.random.default_rng(3).random((60, 7)) + 0.1
    given_ = np.concatenate([points, 3 * points, 7 * points])
    settings = checked_settings("average", None, "distance", metric="cosine")
    report = _report(given_, _merges(given_, "average", "cosine"), settings)
    assert report.ok
    assert report.worst_error < 1e-9


@pytest.mark.parametrize("metric", ["cosine", "sqeuclidean"])
@pytest.mark.parametrize(("engine", "form"), [("points", "dense"), ("certain", "dense"), ("certain", "sparse")])
def test_vectors_near_each_other_and_far_from_zero_pass(engine: str, form: str, metric: str) -> None:
    """What rounding does to means must be within what an audit allows, however far the origin is."""
    for seed, away in enumerate((30, 300, 1e4, 1e6)):
        points = np.random.default_rng(seed).normal(size=(40, 3)) + away
        vectors = _given(points, metric, form)
        expected = dask_rac.cluster(_given(points, metric), "average", metric=metric, engine="matrix")
        found = dask_rac.cluster(vectors, "average", metric=metric, engine=engine)
        assert found.verify().ok
        if form == "dense":
            assert np.allclose(np.sort(found.merges["height"]), np.sort(expected.merges["height"]), rtol=1e-13, atol=0)
