"""The audit accepts every result of `cluster`, however the edges are given, and nothing that was tampered with."""

import errno
import os
import shutil
import time
import tracemalloc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations, pairwise, product
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from distributed import Client
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.cluster import hierarchy
from scipy.spatial.distance import pdist

import dask_rac
from dask_rac.base import ids as base_ids
from dask_rac.base.errors import DamagedStoreError, InputError, ResourceError, StoreError
from dask_rac.base.settings import EDGE_COLUMNS, MERGE_COLUMNS, Settings, checked_settings
from dask_rac.engines.contract import Limits
from dask_rac.files.folder import Folder
from dask_rac.files.tables import TableRecord
from dask_rac.kernels.arrays import Merges, part
from dask_rac.kernels.audit import find_merges
from dask_rac.results import audit_tasks
from dask_rac.results import verify as results_verify
from dask_rac.results.audit import Audit, AuditCosts, AuditLimits, AuditReport
from dask_rac.results.audit_tasks import audit_bytes
from dask_rac.results.verify import Verification
from dask_rac.tasks.client import choose_scheduler
from dask_rac.tasks.task_graph import spread
from tests.reference import hac
from tests.support import crash
from tests.support.clients import await_release, mortal_client
from tests.support.effort import examples
from tests.support.faults import doom
from tests.support.folders import no_fsync
from tests.support.graphs import Edges, columns, tangled_edges
from tests.support.strategies import (
    CEILINGS,
    LINKAGES,
    MISSING,
    WEIGHTS,
    Graph,
    graphs,
    linkages,
    missing_value,
    untied_graphs,
)

MEANS = [*(("average", kind) for kind in MISSING), ("weighted", "far"), ("weighted", "number")]


def settings_of(
    linkage: str = "average",
    missing: str | float | None = None,
    weights: str = "distance",
    max_height: float | None = None,
) -> Settings:
    missing = "ignore" if missing is None and weights == "distance" else missing
    return checked_settings(linkage, missing, weights, max_height, "error", True)


def settings_on(graph: Graph, how: tuple[str, str], weights: str, max_height: float | None = None) -> Settings:
    """Return settings for a graph, with what absent pairs weigh in it."""
    settings = settings_of(how[0], missing_value(how[1], graph, weights), weights, max_height)
    return settings.resolved(max((weight for _, _, weight in graph.edges), default=-np.inf))


def cluster(n_nodes: int, edges: Edges, settings: Settings) -> Merges:
    """Return the merges of a run in arrays that tests may tamper with."""
    found = dask_rac.cluster(
        edges,
        settings.linkage,
        settings.missing,
        settings.weights,
        n_nodes,
        settings.max_height if np.isfinite(settings.max_height) else None,
    )
    return Merges(*(found.merges[name].to_numpy(copy=True) for name in MERGE_COLUMNS[:4]))


def audited(n_nodes: int, edges: Edges, merges: Merges, settings: Settings) -> AuditReport:
    """Audit merges with all edges at once."""
    found = Audit(n_nodes, merges, settings)
    found.add(*edges)
    return found.report()


def naive_merges(graph: Graph, settings: Settings) -> Merges:
    """Return the merges of the oracle, with heights as users see them."""
    found = hac(graph.n_nodes, graph.edges, settings.linkage, settings.missing, settings.weights)
    root = 0.5 if settings.linkage == "ward" else 1.0
    return made_merges(*((m.left, m.right, float(m.height) ** root, m.size) for m in found))


@st.composite
def all_pairs(draw: st.DrawFn, max_nodes: int = 12) -> Graph:
    """Graphs with an edge for every pair, with and without ties."""
    n_nodes, ticks = draw(st.integers(2, max_nodes)), draw(st.sampled_from([1, 3, 2**20]))
    pairs = list(combinations(range(n_nodes), 2))
    drawn = draw(st.lists(st.integers(0, ticks), min_size=len(pairs), max_size=len(pairs)))
    return Graph(n_nodes, [(u, v, tick / ticks) for (u, v), tick in zip(pairs, drawn, strict=True)])


def lowest_merges(found: Audit, u: NDArray[np.int64], v: NDArray[np.int64]) -> NDArray[np.int32]:
    """Return the merge that joins each pair, or the number of merges if none does."""
    merges = np.empty(len(u), np.int32)
    find_merges(u, v, found.leaves(), len(found._merges.left), merges)
    return merges


def made_merges(*rows: tuple[int, int, float, int]) -> Merges:
    """Merges written down."""
    left, right, height, size = np.array(rows, float).reshape(-1, 4).T
    return Merges(left.astype(np.int32), right.astype(np.int32), height.copy(), size.astype(np.int32))


def tampered(merges: Merges, column: str, place: int, value: float) -> Merges:
    """Return the merges with one value changed."""
    changed = getattr(merges, column).copy()
    changed[place] = value
    return merges._replace(**{column: changed})


@pytest.mark.kernels
@examples(500)
@given(graphs(), linkages(), WEIGHTS, CEILINGS, st.data())
def test_passes_what_cluster_makes(
    graph: Graph, how: tuple[str, str], weights: str, max_height: float | None, data: st.DataObject
) -> None:
    settings = settings_on(graph, how, weights, max_height)
    edges = columns(graph)
    merges = cluster(graph.n_nodes, edges, settings)
    order = np.array(data.draw(st.permutations(range(len(graph.edges)))), int)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3)))
    found = Audit(graph.n_nodes, merges, settings, AuditLimits(chunk_edges=data.draw(st.integers(1, 8))))
    for lo, hi in pairwise([0, *cuts, len(order)]):
        found.add(*(column[order[lo:hi]] for column in edges))
    report = found.report()
    assert report.ok, report
    assert (report.merges, report.edges + report.unjoined) == (len(merges.left), len(graph.edges))
    assert report.worst_error <= 1e-14
    assert report.first_wrong is None
    assert str(report).startswith(f"{len(merges.left)} merges verified against")


@pytest.mark.parametrize(
    ("linkage", "missing"), [*product(LINKAGES, ["ignore", "infinite", "fill"]), ("weighted", "fill")]
)
@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_rounded_sums_and_two_threads(linkage: str, weights: str, missing: str) -> None:
    u, v, w = tangled_edges(20_000, 80_000, 7, seed=3)
    edges = u, v, w / 10
    # Means of 0.1 and -0.1 cancel, and halves meet there more often than sums.
    number = 0.7 if weights == "distance" else 0.05 if linkage == "weighted" else -0.1
    settings = settings_of(linkage, number if missing == "fill" else missing, weights)
    found = Audit(20_000, cluster(20_000, edges, settings), settings)
    spans = list(pairwise(np.linspace(0, len(u), 30, dtype=int).tolist()))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda span: found.add(*(column[slice(*span)] for column in edges)), spans))
    report = found.report()
    assert report.ok, report
    assert (report.edges == len(u)) == (missing != "infinite" or linkage == "single")
    assert report.worst_error <= (1e-12 if linkage in {"average", "weighted"} else 0)


@pytest.mark.kernels
@examples(200)
@given(all_pairs(), st.sampled_from(["weighted", "ward"]), st.data())
def test_passes_what_naive_hac_makes_of_all_pairs_and_nothing_else(
    graph: Graph, linkage: str, data: st.DataObject
) -> None:
    settings = checked_settings(linkage, None, "distance", metric="euclidean")
    merges, (u, v, w) = naive_merges(graph, settings), columns(graph)
    order = np.array(data.draw(st.permutations(range(len(u)))), int)
    report = audited(graph.n_nodes, (u[order], v[order], w[order]), merges, settings)
    assert report.ok, report
    assert (report.merges, report.edges) == (graph.n_nodes - 1, len(u))
    place, e = data.draw(st.integers(0, len(merges.left) - 1)), data.draw(st.integers(0, len(u) - 1))
    higher = tampered(merges, "height", place, merges.height[place] * (1 + 1e-6) + 1e-6)
    assert not audited(graph.n_nodes, (u, v, w), higher, settings).ok
    w_changed = w.copy()
    w_changed[e] += 0.01
    assert not audited(graph.n_nodes, (u, v, w_changed), merges, settings).ok
    rows = np.delete(np.arange(len(u)), e)
    few = audited(graph.n_nodes, (u[rows], v[rows], w[rows]), merges, settings)
    assert few.wrong >= 1
    assert "no edge" in str(few) or "its linkage needs every pair" in str(few)


@pytest.mark.parametrize("linkage", ["weighted", "ward"])
def test_all_pairs_of_points_as_scipy_merges_them(linkage: Any) -> None:
    points = np.random.default_rng(0).normal(size=(600, 3))
    points[:300] += 1e6
    distances = pdist(points)
    ids, rows = list(range(len(points))), []
    for a, b, height, size in hierarchy.linkage(distances, linkage):
        left, right = sorted((ids[int(a)], ids[int(b)]))
        ids.append(left)
        rows.append((left, right, height, size))
    settings = checked_settings(linkage, None, "distance", metric="euclidean")
    found = Audit(len(points), made_merges(*rows), settings)
    u, v = np.triu_indices(len(points), 1)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda k: found.add(u[k::7], v[k::7], distances[k::7]), range(7)))
    report = found.report()
    assert report.ok, report
    tall = made_merges(*rows)
    tall.height[300] *= 1 + 1e-6
    assert audited(len(points), (u, v, distances), tall, settings).wrong == 1


@given(untied_graphs(), linkages(), WEIGHTS, st.data())
def test_a_height_or_size_changed_is_wrong(
    graph: Graph, how: tuple[str, str], weights: str, data: st.DataObject
) -> None:
    settings = settings_on(graph, how, weights)
    edges = columns(graph)
    merges = cluster(graph.n_nodes, edges, settings)
    assume(len(merges.left))
    place = data.draw(st.integers(0, len(merges.left) - 1))
    height, size = merges.height[place], merges.size[place]
    for column, value in (("height", height * (1 + 1e-6) + 1e-9), ("size", size + 1), ("height", np.nan)):
        report = audited(graph.n_nodes, edges, tampered(merges, column, place, value), settings)
        assert not report.ok
        assert report.first_wrong is not None
        assert str(report.first_wrong) in str(report)
    other = data.draw(st.integers(0, len(merges.left) - 1))
    if merges.height[other] != height:
        swapped = tampered(tampered(merges, "height", place, merges.height[other]), "height", other, height)
        assert audited(graph.n_nodes, edges, swapped, settings).wrong >= 2


@given(untied_graphs(), st.sampled_from(MEANS), WEIGHTS, st.data())
def test_an_edge_changed_dropped_or_added_is_wrong(
    graph: Graph, how: tuple[str, str], weights: str, data: st.DataObject
) -> None:
    settings = settings_on(graph, how, weights)
    u, v, w = edges = columns(graph)
    merges = cluster(graph.n_nodes, edges, settings)
    joined = np.flatnonzero(lowest_merges(Audit(graph.n_nodes, merges, settings), u, v) < len(merges.left))
    assume(len(joined))
    e = data.draw(st.sampled_from(joined.tolist()))
    w_changed = w.copy()
    w_changed[e] += 1e-6
    assert audited(graph.n_nodes, (u, v, w_changed), merges, settings).wrong == 1
    assume(w[e] not in merges.height if how[1] == "ignore" else w[e] != settings.absent)  # or it makes no difference
    once, twice = np.delete(np.arange(len(u)), e), np.append(np.arange(len(u)), e)
    for rows in (once, twice):
        assert audited(graph.n_nodes, (u[rows], v[rows], w[rows]), merges, settings).wrong == 1


@pytest.mark.parametrize("linkage", [*LINKAGES, "weighted"])
def test_merges_that_change_places_are_wrong(linkage: str) -> None:
    u, v, _ = tangled_edges(300, 900, 7, seed=1)
    edges = u, v, np.random.default_rng(0).random(len(u))
    settings = settings_of(linkage, 1.0 if linkage == "weighted" else None)
    merges = cluster(300, edges, settings)
    assert audited(300, edges, merges, settings).ok
    early, late = 3, len(merges.left) - 3
    for name in ("left", "right"):
        column = getattr(merges, name)
        swapped = tampered(tampered(merges, name, early, column[late]), name, late, column[early])
        assert not audited(300, edges, swapped, settings).ok
    left, right, height, size = merges
    backwards = Merges(left[::-1].copy(), right[::-1].copy(), height[::-1].copy(), size[::-1].copy())
    assert not audited(300, edges, backwards, settings).ok
    report = audited(300, edges, part(merges, None, -1), settings)
    assert (report.wrong, report.ok) == (0, False)
    assert report.stray == report.unjoined > 0
    assert "join clusters that never merge" in str(report)


def random_forest(n_nodes: int, shape: str, merges: int, seed: int) -> Merges:
    """Return random merges: of any two clusters, of neighbours, or of a single node and what has grown so far."""
    rng = np.random.default_rng(seed)
    clusters = rng.permutation(n_nodes).tolist()
    size = dict.fromkeys(clusters, 1)
    rows = []
    for i in range(merges):
        j, k = 0, 1
        if shape == "random":
            j, k = sorted(rng.choice(len(clusters), 2, replace=False).tolist())
        elif shape == "balanced":
            j, k = i % (len(clusters) - 1), i % (len(clusters) - 1) + 1
        left, right = sorted((clusters[j], clusters[k]))
        clusters[j] = left
        del clusters[k]
        size[left] += size[right]
        rows.append((left, right, float(i), size[left]))
    return made_merges(*rows)


SMALL_FORESTS = [(2, 1), (31, 2), (32, 1), (33, 1), (64, 5), (65, 1), (100, 9)]


@pytest.mark.parametrize("shape", ["random", "balanced", "chain"])
@pytest.mark.parametrize(
    ("n_nodes", "trees"), [*(pytest.param(*sizes, marks=pytest.mark.kernels) for sizes in SMALL_FORESTS), (2000, 3)]
)
def test_the_lowest_merge_is_that_of_a_climb(n_nodes: int, trees: int, shape: str) -> None:
    merges = random_forest(n_nodes, shape, n_nodes - trees, seed=n_nodes)
    nodes = {u: {u} for u in range(n_nodes)}
    expected = np.full((n_nodes, n_nodes), len(merges.left))
    for i, (left, right) in enumerate(zip(merges.left.tolist(), merges.right.tolist(), strict=True)):
        ones, others = list(nodes[left]), list(nodes.pop(right))
        expected[np.ix_(ones, others)] = expected[np.ix_(others, ones)] = i
        nodes[left].update(others)
    u, v = (ends.ravel() for ends in np.indices((n_nodes, n_nodes)))
    found = Audit(n_nodes, merges, settings_of())
    np.testing.assert_array_equal(lowest_merges(found, u, v), expected.ravel())
    found.add(u, v, u * 0.0)
    report = found.report()
    assert report.unjoined == (expected == len(merges.left)).sum() - n_nodes
    assert report.edges + report.unjoined == n_nodes * (n_nodes - 1)


@pytest.mark.parametrize("n_nodes", [0, 1, 2, 100])
def test_no_edges(n_nodes: int) -> None:
    report = audited(n_nodes, columns(Graph(n_nodes, [])), made_merges(), settings_of())
    assert report == AuditReport(0, 0, 0, 0, 0, None, 0.0)
    assert report.ok


def test_loops_and_any_dtype() -> None:
    merges = made_merges((0, 1, 0.5, 2))
    for ids in (np.int8, np.uint32, np.uint64, np.int64):
        found = Audit(3, merges, settings_of())
        strided = np.array([0, 9, 2, 9, 1], ids)[::2]
        strided.flags.writeable = False
        found.add(strided, np.array([1, 2, 2], ids), np.array([0.5, 1.0, 2.0], np.float32))
        report = found.report()
        assert (report.edges, report.unjoined, report.wrong, report.stray) == (1, 1, 0, 1)


@pytest.mark.kernels
def test_refuses_what_is_no_edge() -> None:
    found = Audit(3, made_merges((0, 1, 0.5, 2)), settings_of())
    for u, v in ((0, 3), (-1, 1), (2**32, 1)):
        with pytest.raises(InputError, match=f"edge {u}-{v} is not between two of the 3 nodes"):
            found.add([u], [v], [1.0])
    with pytest.raises(InputError, match="2 sources, 1 targets and 1 weights"):
        found.add([0, 1], [1], [1.0])
    with pytest.raises(TypeError, match="same_kind"):
        found.add([0.5], [1], [1.0])


@pytest.mark.kernels
@pytest.mark.parametrize(
    ("fault", "rows"),
    [
        ("does not name two nodes", [(1, 0, 1.0, 2)]),
        ("does not name two nodes", [(1, 1, 1.0, 2)]),
        ("does not name two nodes", [(-1, 1, 1.0, 2)]),
        ("does not name two nodes", [(0, 4, 1.0, 2)]),
        ("had merged into another", [(0, 1, 1.0, 2), (0, 1, 1.0, 2)]),
        ("had merged into another", [(0, 1, 1.0, 2), (1, 2, 2.0, 3)]),
        ("not finite", [(0, 1, np.inf, 2)]),
        ("beyond max_height", [(0, 1, 9.0, 2)]),
        ("nearer than a merge below", [(0, 1, 1.0, 2), (0, 2, 0.5, 3)]),
        ("not the sum", [(0, 1, 1.0, 3)]),
        ("no edge", [(0, 3, 1.0, 2)]),
        ("lacks an edge", [(0, 1, 1.0, 2), (0, 2, 2.0, 3)]),
        ("given twice", [(2, 3, 3.0, 2)]),
        ("a height that does not follow from its edges", [(0, 1, 1.000001, 2)]),
    ],
)
@pytest.mark.parametrize("linkage", ["average", "complete"])
def test_names_the_fault(fault: str, rows: list[tuple[int, int, float, int]], linkage: str) -> None:
    settings = settings_of(linkage, "infinite", max_height=8.0)
    edges = np.array([0, 1, 2, 3]), np.array([1, 2, 3, 2]), np.array([1.0, 2.0, 3.0, 3.0])
    report = audited(4, edges, made_merges(*rows), settings)
    assert report.wrong == 1
    assert report.first_wrong is not None
    assert report.first_wrong.merge == len(rows) - 1
    assert fault in str(report)


def test_says_what_the_height_should_be() -> None:
    edges = np.array([0, 0, 1]), np.array([1, 2, 2]), np.array([0.5, 0.25, 0.5])
    for linkage, expected in (("average", 0.375), ("complete", 0.25), ("single", 0.5), ("weighted", 0.375)):
        settings = settings_of(linkage, weights="similarity")
        report = audited(3, edges, made_merges((0, 1, 0.5, 2), (0, 2, 0.3, 3)), settings)
        assert report.first_wrong is not None
        assert report.first_wrong.expected == expected
        assert str(report.first_wrong).startswith(f"merge 1 of 0 and 2 at 0.3, {expected} by its edges: ")
        assert report.worst_error == pytest.approx(abs(expected - 0.3) / max(expected, 0.3))


@examples(30)
@given(graphs(), linkages(), WEIGHTS)
def test_long_ids(graph: Graph, how: tuple[str, str], weights: str) -> None:
    settings = settings_on(graph, how, weights)
    edges = columns(graph)
    merges = cluster(graph.n_nodes, edges, settings)
    short = audited(graph.n_nodes, edges, merges, settings)
    with mock.patch.object(base_ids, "INT32_CLUSTERS", 0):
        assert audited(graph.n_nodes, edges, merges, settings) == short


def test_no_weight_is_a_wrong_weight() -> None:
    for linkage in (*LINKAGES, "weighted"):
        edges = np.array([0, 0]), np.array([1, 2]), np.array([1.0, np.nan])
        settings = settings_of(linkage, 1.0 if linkage == "weighted" else None)
        report = audited(3, edges, made_merges((0, 1, 1.0, 2), (0, 2, 1.0, 3)), settings)
        assert report.wrong == 1


@pytest.mark.kernels
@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_by_weighted_linkage_edges_vanish_far_below_a_merge(weights: str) -> None:
    # The edge of the last node is between it and the first, 1,200 merges below: far less than the smallest float.
    n = 1200
    near = np.arange(1, n) / n
    edges = np.zeros(n - 1, int), np.arange(1, n), near if weights == "distance" else near[::-1].copy()
    settings = settings_of("weighted", 1.0 if weights == "distance" else 0.0, weights)
    merges = cluster(n, edges, settings)
    assert merges.left.tolist() == [0] * (n - 1)
    assert merges.height[-1] == (1.0 if weights == "distance" else 0.0)
    assert audited(n, edges, merges, settings).ok
    for place in (0, 30, n - 2):
        wrong = tampered(merges, "height", place, merges.height[place] + 1e-6)
        assert not audited(n, edges, wrong, settings).ok
    u, v, w = edges
    fewer = audited(n, (u[:-1], v[:-1], w[:-1]), merges, settings)
    assert "no edge between its two clusters" in str(fewer)


@pytest.mark.parametrize("linkage", [*LINKAGES, "weighted"])
def test_deep_chains(linkage: str) -> None:
    n = 100_000
    ids = np.random.default_rng(0).permutation(n)
    edges = ids[:-1], ids[1:], np.arange(1.0, n)
    settings = settings_of(linkage, float(n) if linkage == "weighted" else None)
    merges = cluster(n, edges, settings)
    assert audited(n, edges, merges, settings).ok
    height = merges.height[n // 2]
    report = audited(n, edges, tampered(merges, "height", n // 2, height * (1 + 1e-6)), settings)
    assert 1 <= report.wrong <= 2


# In parts.


@examples(100)
@given(graphs(), linkages(), WEIGHTS, st.integers(1, 4), st.data())
def test_parts_add_up(graph: Graph, how: tuple[str, str], weights: str, parts: int, data: st.DataObject) -> None:
    settings = settings_on(graph, how, weights)
    edges = columns(graph)
    merges = cluster(graph.n_nodes, edges, settings)
    if len(graph.edges) and data.draw(st.booleans()):
        edges[2][data.draw(st.integers(0, len(graph.edges) - 1))] = data.draw(st.sampled_from([3.25, np.nan]))
    owner = np.array(
        data.draw(st.lists(st.integers(0, parts - 1), min_size=len(edges[0]), max_size=len(edges[0]))), int
    )
    whole = Audit(graph.n_nodes, merges, settings)
    limits = AuditLimits(part_totals=data.draw(st.sampled_from([2, 4, 100])))
    for number in range(parts):
        some = Audit(graph.n_nodes, merges, settings, limits)
        some.add(*(column[owner == number] for column in edges))
        whole.add_tally(some.tally())
    found, expected = whole.report(), audited(graph.n_nodes, edges, merges, settings)
    assert (found.ok, found.merges, found.edges) == (expected.ok, expected.merges, expected.edges)
    assert (found.unjoined, found.stray, found.wrong) == (expected.unjoined, expected.stray, expected.wrong)
    assert found.worst_error == pytest.approx(expected.worst_error, abs=1e-14)


@pytest.mark.parametrize("linkage", ["average", "single", "weighted"])
def test_memory_is_what_it_says(linkage: str) -> None:
    n = 200_000
    edges = np.arange(n - 1), np.arange(1, n), np.random.default_rng(0).random(n - 1)
    settings = settings_of(linkage, 1.0 if linkage == "weighted" else None)
    costs = AuditCosts.of(settings)
    wide = cluster(n, edges, settings)
    audited(n, edges, wide, settings)  # compiled before anything is measured
    tracemalloc.start()
    try:
        ids = [column.astype(np.int32) for column in (wide.left, wide.right, wide.size)]
        narrow = Merges(ids[0], ids[1], wide.height.copy(), ids[2])
        found = Audit(n, narrow, settings)
        found.add(*edges)
        adding = tracemalloc.get_traced_memory()[1]
        found.report()
        reporting = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert adding <= audit_bytes([], n, report=False, costs=costs) + 2**20
    assert reporting <= audit_bytes([], n, report=True, costs=costs) + 2**20
    assert adding >= 0.6 * audit_bytes([], n, report=False, costs=costs)
    assert audit_bytes([TableRecord("", n, 0.0, 0.0, 0, "")], n, report=False, costs=costs) >= 72 * n


# On workers.


@pytest.fixture(scope="module")
def threaded_client() -> Iterator[Client]:
    """Two workers of two threads each, which may be killed."""
    with mortal_client(threads_per_worker=2) as made:
        yield made


def write_files(folder: Path, edges: Edges, files: int = 7) -> Path:
    folder.mkdir()
    for number in range(files):
        part_ = {name: column[number::files] for name, column in zip(EDGE_COLUMNS, edges, strict=True)}
        pd.DataFrame(part_).to_parquet(folder / f"{number}.parquet", index=False)
    return folder


@dataclass(frozen=True)
class Run:
    """A finished run and its edges."""

    edges: Edges
    source: Path
    store: Path

    def verify(self, edges: Any = None, client: Client | None = None) -> AuditReport:
        return dask_rac.open(self.store).verify(edges, client=client)

    def verify_at(self, client: Client, **bounds: Any) -> AuditReport:
        """Verify as if an audit took as much memory as given."""
        journal = dask_rac.open(self.store)._run
        return Verification(journal, choose_scheduler(client), lambda _: None, **bounds).run(None)

    def left(self) -> list[str]:
        """List what a store holds besides the result."""
        return os.listdir(self.store / "rounds")


def a_run(folder: Path, linkage: str = "average", twice: bool = False) -> Run:
    """A run on edges that are given once, or from both ends and far apart; computed once."""
    return new_run(folder, linkage, twice)


@cache
def new_run(folder: Path, linkage: str, twice: bool) -> Run:
    u, v, w = tangled_edges(2000, 8000, 7, seed=3)
    edges = (np.append(u, v), np.append(v, u), np.append(w, w) / 10) if twice else (u, v, w / 10)
    source, store = write_files(folder / f"{linkage} {twice}", edges), folder / f"{linkage} {twice} run"
    missing = 0.7 if linkage == "weighted" else None
    with no_fsync():
        dask_rac.cluster(source, linkage, missing, store=store, shards=3, max_height=0.5 if twice else None)
    return Run(edges, source, store)


def outcomes(report: AuditReport) -> tuple[Any, ...]:
    return report.ok, report.merges, report.edges, report.unjoined, report.stray, report.wrong


@pytest.mark.parametrize("linkage", [*LINKAGES, "weighted"])
@pytest.mark.parametrize("twice", [False, True])
def test_workers_find_what_threads_find(
    threaded_client: Client, linkage: str, twice: bool, shared_folder: Path
) -> None:
    run = a_run(shared_folder, linkage, twice)
    expected = run.verify()
    events: list[dask_rac.Event] = []
    opened = dask_rac.open(run.store, progress=events.append)
    with threaded_client.as_current():
        reports = [opened.verify(), opened.verify(run.source)]
    for report in reports:
        assert outcomes(report) == outcomes(expected)
        assert report.worst_error <= 1e-12
    assert {event.stage for event in events} == {"verify"}
    assert events[-1].done == events[-1].total
    assert run.left() == []
    await_release(threaded_client)


def test_every_worker_takes_part(threaded_client: Client, shared_folder: Path) -> None:
    run = a_run(shared_folder)
    before = threaded_client.run(count_keys)
    with mock.patch.object(results_verify, "spread", side_effect=spread) as made:
        run.verify(client=threaded_client)
    assert [len(pieces) for _, pieces in made.call_args.args[2]] == [4, 3]
    after = threaded_client.run(count_keys)
    assert all(after[worker] > before[worker] for worker in before)


def count_keys(dask_worker: Any) -> int:
    """Count the tasks that a worker has done."""
    return sum("tally_part" in str(line) and "memory" in str(line) for line in dask_worker.state.log)


@pytest.mark.parametrize("linkage", [*LINKAGES, "weighted"])
def test_workers_find_wrong_heights(threaded_client: Client, linkage: str, shared_folder: Path, tmp_path: Path) -> None:
    run = a_run(shared_folder, linkage)
    u, v, w = run.edges
    wrong = write_files(tmp_path / "wrong", (u, v, np.where(np.arange(len(w)) % 50, w, w + 1)))
    reports, firsts = [], []
    for where in (None, threaded_client):
        with pytest.raises(dask_rac.AuditError, match="merges are wrong, first merge") as error:
            run.verify(wrong, where)
        reports.append(error.value.report)
        firsts.append(error.value.report.first_wrong)
    assert outcomes(reports[0]) == outcomes(reports[1])
    assert str(firsts[0])[:20] == str(firsts[1])[:20]  # but for the last bits of what its edges give
    assert run.left() == []


def test_workers_find_edges_that_are_missing_or_beyond(
    threaded_client: Client, shared_folder: Path, tmp_path: Path
) -> None:
    run = a_run(shared_folder)
    u, v, w = run.edges
    with pytest.raises(dask_rac.AuditError, match="no edge between its two clusters"):
        run.verify(write_files(tmp_path / "fewer", (u[:300], v[:300], w[:300])), threaded_client)
    for where in (None, threaded_client):
        with pytest.raises(InputError, match=r"column 'target' is .* of .*beyond"):
            run.verify(write_files(tmp_path / f"beyond {where is None}", (u, v + 2000, w)), where)
    assert run.left() == []


def test_workers_find_damaged_merges(threaded_client: Client, shared_folder: Path, tmp_path: Path) -> None:
    run = replace(a_run(shared_folder), store=tmp_path / "run")
    shutil.copytree(a_run(shared_folder).store, run.store)
    table = max((run.store / "merges").iterdir(), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    with pytest.raises(DamagedStoreError, match="is damaged: it is not what was written"):
        run.verify(client=threaded_client)
    assert run.left() == []


@pytest.mark.parametrize(("target", "twice"), [("add_piece", False), ("write_group", True)])
def test_a_worker_may_die(
    threaded_client: Client, target: str, twice: bool, shared_folder: Path, tmp_path: Path
) -> None:
    run = a_run(shared_folder, twice=twice)
    threaded_client.wait_for_workers(2, timeout=crash.PATIENCE)
    threaded_client.run(doom, f"dask_rac.results.audit_tasks.{target}", True, str(tmp_path / "died"))
    assert outcomes(run.verify(client=threaded_client)) == outcomes(run.verify())
    assert (tmp_path / "died").exists()
    assert run.left() == []
    threaded_client.wait_for_workers(2, timeout=crash.PATIENCE)


def dawdle(target: str, marker: str) -> None:
    """Make this worker wait before a function for as long as a file exists."""

    def wait(after: bool) -> None:
        end = time.monotonic() + crash.PATIENCE
        while not after and os.path.exists(marker) and time.monotonic() < end:
            time.sleep(0.01)

    crash.patch_calls(target, wait).start()


def test_whoever_gives_up_leaves_nothing(threaded_client: Client, shared_folder: Path, tmp_path: Path) -> None:
    run, marker = a_run(shared_folder), tmp_path / "slow"
    marker.touch()
    slow = next(iter(threaded_client.run(os.getpid)))
    threaded_client.run(dawdle, "dask_rac.results.audit_tasks._check_wanted", str(marker), workers=[slow])

    def stop(_: dask_rac.Event) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dask_rac.open(run.store, progress=stop).verify(client=threaded_client)
    assert run.left() == []
    marker.unlink()
    end = time.monotonic() + crash.PATIENCE
    while threaded_client.run(alive)[slow]:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert run.left() == []


def alive() -> bool:
    """Whether a part of an audit is in progress in this process."""
    return audit_tasks._alone.locked()


@pytest.mark.parametrize(
    ("bounds", "message"),
    [
        (
            {"costs": AuditCosts(node_bytes=300_000)},
            r"needs 0\.6 GB in each worker process, which may use 0\.5 GB, half of its memory: start",
        ),
        ({"costs": AuditCosts(node_bytes=10**12)}, r"in this process, which may use .* GB: verify on a larger machine"),
        (
            {"limits": Limits(audit_edge=10**9)},
            r"edges that are read together need .* and the audit leaves 0\.5 GB in each process",
        ),
    ],
)
def test_too_little_memory_is_refused(
    threaded_client: Client, bounds: dict[str, Any], message: str, shared_folder: Path
) -> None:
    run = a_run(shared_folder)
    with pytest.raises(ResourceError, match=message):
        run.verify_at(threaded_client, **bounds)
    assert run.left() == []


def test_fewer_threads_where_memory_is_short(threaded_client: Client, shared_folder: Path) -> None:
    run = a_run(shared_folder)
    rows = -(-len(run.edges[0]) // 7)
    limits = Limits(audit_edge=300_000_000 // rows)
    with mock.patch.object(results_verify, "spread", side_effect=spread) as made:
        assert run.verify_at(threaded_client, limits=limits).ok
    assert {told.threads for told, _ in made.call_args.args[2]} == {1}


def test_a_store_that_takes_no_files_is_named(threaded_client: Client, shared_folder: Path) -> None:
    run = a_run(shared_folder)
    with (
        mock.patch.object(Folder, "free_bytes", return_value=1000),
        pytest.raises(
            ResourceError,
            match=r"has 0\.001 MB free, and the partial results of 2 workers temporarily need .* make room",
        ),
    ):
        run.verify(client=threaded_client)
    kinds: list[tuple[int, type[Exception], str]] = [
        (errno.ENOSPC, ResourceError, "is full: make room and verify again"),
        (errno.EROFS, StoreError, "cannot be written: .* or verify without a client"),
        (errno.EIO, OSError, "strange"),
    ]
    for code, kind, message in kinds:
        with (
            mock.patch.object(Folder, "write", side_effect=OSError(code, "strange")),
            pytest.raises(kind, match=message),
        ):
            run.verify(client=threaded_client)
    with pytest.raises(InputError, match=r"client=7 is not a distributed\.Client"):
        dask_rac.open(run.store).verify(client=7)
    assert run.left() == []
