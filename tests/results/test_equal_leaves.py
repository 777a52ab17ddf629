"""Equal vectors are audited as one leaf: the totals of any merges, right or wrong, are those of all pairs."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.engines.given import open_pairs
from dask_rac.engines.start import Start
from dask_rac.kernels.arrays import Merges
from dask_rac.results import pairs_audit
from dask_rac.results.audit import Audit
from dask_rac.results.equal_leaves import equal_leaves
from dask_rac.results.pairs_audit import audit_pairs
from dask_rac.tasks.team import Team
from tests.support.effort import examples

METRICS: dict[str, Any] = {name: name for name in ("euclidean", "cosine", "sqeuclidean")} | {"manhattan": "cityblock"}
WAYS = [
    (linkage, metric)
    for linkage in ("single", "complete", "average", "weighted")
    for metric in METRICS
    if linkage != "average" or metric in ("euclidean", "manhattan")  # others follow from centres
]


@st.composite
def forests(draw: st.DrawFn) -> tuple[NDArray[np.float64], Merges]:
    """Points of which many are equal, and trees over them in which equal ones may be apart."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nodes, kinds = draw(st.integers(1, 40)), draw(st.integers(1, 6))
    points = random.integers(1, 5, (kinds, 3)).astype(float)[random.integers(0, kinds, nodes)]
    together, rows = draw(st.floats(0, 1)), []
    clusters = [[node] for node in range(nodes)]
    for _ in range(draw(st.integers(0, nodes - 1))):
        a = random.integers(len(clusters))
        others = [k for k in range(len(clusters)) if k != a]
        equal = [k for k in others if len(np.unique(points[clusters[a] + clusters[k]], axis=0)) == 1]
        b = random.choice(equal if equal and random.random() < together else others)
        left, right = sorted((clusters[a], clusters[b]), key=min)
        rows.append((min(left), min(right), 0.0, len(left) + len(right)))
        clusters = [cluster for k, cluster in enumerate(clusters) if k not in (a, b)] + [left + right]
    table = np.array(rows, np.float64).reshape(-1, 4)
    ends = table[:, [0, 1, 3]].astype(np.int64).T.copy()
    return points, Merges(ends[0], ends[1], table[:, 2].copy(), ends[2])


def totals_by_definition(points: NDArray[np.float64], merges: Merges, linkage: str, metric: str) -> list[float]:
    """The total of each merge from the weights of all its pairs."""
    weight = cdist(points, points, METRICS[metric])
    members, halved, found = {node: [node] for node in range(len(points))}, weight.copy(), []
    for a, b in zip(merges.left.tolist(), merges.right.tolist(), strict=True):
        between = weight[np.ix_(members[a], members[b])]
        kinds = {"single": -between.min(), "complete": between.max(), "average": between.sum()}
        found.append(float(kinds.get(linkage, halved[a, b])))
        halved[a] = halved[:, a] = (halved[a] + halved[b]) / 2
        members[a] += members.pop(b)
    return found


@pytest.mark.kernels
@pytest.mark.parametrize(("linkage", "metric"), WAYS)
@given(forest=forests(), form=st.sampled_from(["dense", "float32", "sparse"]), tile=st.sampled_from([3, 2**25]))
@examples(20)
def test_totals_are_those_of_all_pairs(
    linkage: str, metric: str, forest: tuple[NDArray[np.float64], Merges], form: str, tile: int
) -> None:
    points, merges = forest
    sparse = form == "sparse" and metric != "manhattan"
    vectors: Any = sp.csr_array(points) if sparse else points.astype(np.float32) if form == "float32" else points
    settings = checked_settings(linkage, None, "distance", None, metric=metric)
    with (
        Team(2) as team,
        mock.patch.object(pairs_audit, "TILES", tile),
        mock.patch.object(pairs_audit, "LINES", (tile, tile)),
    ):
        audit = Audit(len(points), merges, settings)
        assert not audit.faults.any()
        with mock.patch.object(Audit, "take_totals") as taken:
            audit_pairs(audit, vectors, settings, team, lambda _: None)
    expected = totals_by_definition(points, merges, linkage, metric)
    # Of sparse vectors squared distances are differences of squares.
    assert taken.call_args.args[0] == pytest.approx(expected, rel=1e-12, abs=1e-6 if sparse else 1e-12)


@given(forests())
@examples(100)
def test_leaves_below_a_merge_of_equals_are_one(forest: tuple[NDArray[np.float64], Merges]) -> None:
    points, merges = forest
    nodes = len(points)
    audit = Audit(nodes, merges, checked_settings("single", None, "distance", None, metric="euclidean"))
    climb, position = audit.climb(), audit.leaves().position
    kind = np.unique(points, axis=0, return_inverse=True)[1].ravel()
    first = np.array([np.flatnonzero(kind == k)[0] for k in kind])
    ids = np.unique(first)
    size = np.bincount(first, minlength=nodes)[ids]
    start = Start(ids, size.astype(float), np.argsort(first, kind="stable"), np.append(0, np.cumsum(size)))
    found = equal_leaves(climb, position, start)
    members = {node: {node} for node in range(nodes)}
    one = list(members.values())
    for a, b, inside in zip(merges.left.tolist(), merges.right.tolist(), found.inside.tolist(), strict=True):
        both = members[a] | members.pop(b)
        members[a] = both
        assert inside == (len({int(kind[node]) for node in both}) == 1)
        if inside:
            one = [leaf for leaf in one if not leaf <= both] + [both]
    assert sorted(map(min, one)) == sorted(found.nodes.tolist())
    assert len(found.times) in (0, len(one))
    times = found.times.tolist() or [1] * nodes
    assert sorted(zip(found.nodes.tolist(), times, strict=True)) == sorted((min(leaf), len(leaf)) for leaf in one)


@pytest.mark.parametrize("linkage", ["single", "complete", "average", "weighted"])
@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_equal_vectors_are_not_gone_through_pair_by_pair(linkage: str, form: str) -> None:
    """Of 30,000 vectors 50 differ: 450 million pairs are 1,225."""
    random = np.random.default_rng(5)
    points = random.normal(size=(50, 4))[random.integers(0, 50, 30_000)]
    vectors = sp.csr_array(points) if form == "sparse" else points
    run = dask_rac.cluster(vectors, linkage, metric="euclidean")
    went: list[int] = []

    def entries(nodes: int) -> int:
        went.append(nodes * (nodes - 1) // 2)
        return went[-1]

    with mock.patch.object(pairs_audit, "triangle_entries", entries):
        report = run.verify()
    assert report.ok
    assert report.edges == 30_000 * 29_999 // 2
    assert max(went) == 1_225
    wrong = run.merges.copy()
    at = int(np.flatnonzero(np.array(wrong["height"]) > 0)[7])
    wrong.loc[wrong.index[at], "height"] *= 1 + 1e-6
    with Team(1) as team:
        settings = checked_settings(linkage, None, "distance", None, metric="euclidean")
        columns = Merges(*(np.array(wrong[name]) for name in ("left", "right", "height", "size")))
        audit = Audit(open_pairs(vectors, settings).nodes, columns, settings)
        audit_pairs(audit, vectors, settings, team, lambda _: None)
    assert not audit.report().ok
