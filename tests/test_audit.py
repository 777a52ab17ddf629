"""The audit passes what `cluster` makes, whatever comes of the edges, and nothing that was tampered with."""

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dask_rac
from dask_rac import audit, config
from dask_rac.audit import Audit, AuditReport
from dask_rac.config import MERGE_COLUMNS, Settings, checked_settings
from dask_rac.errors import InputError
from dask_rac.kernels.arrays import Merges, part
from dask_rac.kernels.audit import find_merges
from tests.effort import examples
from tests.strategies import LINKAGES, MISSING, Graph, graphs, linkages, missing_value, untied_graphs
from tests.test_exact import CEILINGS, WEIGHTS, Edges, columns, tangled_edges


def settings_of(
    linkage: str = "average",
    missing: str | float | None = None,
    weights: str = "distance",
    max_height: float | None = None,
) -> Settings:
    return checked_settings(linkage, missing, weights, max_height, "error", True)


def cluster(n_nodes: int, edges: Edges, settings: Settings) -> Merges:
    """The merges of a run, in arrays that may be tampered with."""
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
    """The report on merges by all edges at once."""
    found = Audit(n_nodes, merges, settings)
    found.add(*edges)
    return found.report()


def lowest_merges(found: Audit, u: NDArray[np.int64], v: NDArray[np.int64]) -> NDArray[np.int32]:
    """The merge that joins each pair, the number of merges where none does."""
    merges = np.empty(len(u), np.int32)
    find_merges(u, v, found._leaves, len(found._merges.left), merges)
    return merges


def made_merges(*rows: tuple[int, int, float, int]) -> Merges:
    """Merges written down."""
    left, right, height, size = np.array(rows, float).reshape(-1, 4).T
    return Merges(left.astype(np.int32), right.astype(np.int32), height.copy(), size.astype(np.int32))


def tampered(merges: Merges, column: str, place: int, value: float) -> Merges:
    """The merges with one value changed."""
    changed = getattr(merges, column).copy()
    changed[place] = value
    return merges._replace(**{column: changed})


@pytest.mark.kernels
@examples(500)
@given(graphs(), linkages(), WEIGHTS, CEILINGS, st.data())
def test_passes_what_cluster_makes(
    graph: Graph, how: tuple[str, str], weights: str, max_height: float | None, data: st.DataObject
) -> None:
    settings = settings_of(how[0], missing_value(how[1], graph, weights), weights, max_height)
    edges = columns(graph)
    merges = cluster(graph.n_nodes, edges, settings)
    order = np.array(data.draw(st.permutations(range(len(graph.edges)))), int)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3)))
    found = Audit(graph.n_nodes, merges, settings)
    with mock.patch.object(audit, "CHUNK_EDGES", data.draw(st.integers(1, 8))):
        for lo, hi in pairwise([0, *cuts, len(order)]):
            found.add(*(column[order[lo:hi]] for column in edges))
    report = found.report()
    assert report.ok, report
    assert (report.merges, report.edges + report.unjoined) == (len(merges.left), len(graph.edges))
    assert report.worst_error <= 1e-14
    assert report.first_wrong is None
    assert str(report).startswith(f"{len(merges.left)} merges come out of")


@pytest.mark.parametrize("linkage", LINKAGES)
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("missing", ["ignore", "infinite", "fill"])
def test_rounded_sums_and_two_threads(linkage: str, weights: str, missing: str) -> None:
    u, v, w = tangled_edges(20_000, 80_000, 7, seed=3)
    edges = u, v, w / 10
    number = 0.7 if weights == "distance" else -0.1
    settings = settings_of(linkage, number if missing == "fill" else missing, weights)
    found = Audit(20_000, cluster(20_000, edges, settings), settings)
    spans = list(pairwise(np.linspace(0, len(u), 30, dtype=int).tolist()))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda span: found.add(*(column[slice(*span)] for column in edges)), spans))
    report = found.report()
    assert report.ok, report
    assert (report.edges == len(u)) == (missing != "infinite" or linkage == "single")
    assert report.worst_error <= (1e-12 if linkage == "average" else 0)


@given(untied_graphs(), linkages(), WEIGHTS, st.data())
def test_a_height_or_size_changed_is_wrong(
    graph: Graph, how: tuple[str, str], weights: str, data: st.DataObject
) -> None:
    settings = settings_of(how[0], missing_value(how[1], graph, weights), weights)
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


@given(untied_graphs(), st.sampled_from(MISSING), WEIGHTS, st.data())
def test_an_edge_changed_dropped_or_added_is_wrong(graph: Graph, kind: str, weights: str, data: st.DataObject) -> None:
    missing = missing_value(kind, graph, weights)
    settings = settings_of("average", missing, weights)
    u, v, w = edges = columns(graph)
    merges = cluster(graph.n_nodes, edges, settings)
    joined = np.flatnonzero(lowest_merges(Audit(graph.n_nodes, merges, settings), u, v) < len(merges.left))
    assume(len(joined))
    e = data.draw(st.sampled_from(joined.tolist()))
    w_changed = w.copy()
    w_changed[e] += 1e-6
    assert audited(graph.n_nodes, (u, v, w_changed), merges, settings).wrong == 1
    assume(w[e] not in merges.height if kind == "ignore" else w[e] != missing)  # or it makes no difference
    once, twice = np.delete(np.arange(len(u)), e), np.append(np.arange(len(u)), e)
    for rows in (once, twice):
        assert audited(graph.n_nodes, (u[rows], v[rows], w[rows]), merges, settings).wrong == 1


@pytest.mark.parametrize("linkage", LINKAGES)
def test_merges_that_change_places_are_wrong(linkage: str) -> None:
    u, v, _ = tangled_edges(300, 900, 7, seed=1)
    edges = u, v, np.random.default_rng(0).random(len(u))
    settings = settings_of(linkage)
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
    """So many merges: of any two clusters, of neighbours, or of a single node and what has grown so far."""
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
        with pytest.raises(InputError, match=f"edge {u}-{v} is not of these 3 nodes"):
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
        ("another height than its edges give", [(0, 1, 1.000001, 2)]),
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
    for linkage, expected in (("average", 0.375), ("complete", 0.25), ("single", 0.5)):
        settings = settings_of(linkage, weights="similarity")
        report = audited(3, edges, made_merges((0, 1, 0.5, 2), (0, 2, 0.3, 3)), settings)
        assert report.first_wrong is not None
        assert report.first_wrong.expected == expected
        assert str(report.first_wrong).startswith(f"merge 1 of 0 and 2 at 0.3, {expected} by its edges: ")
        assert report.worst_error == pytest.approx(abs(expected - 0.3) / max(expected, 0.3))


@examples(30)
@given(graphs(), linkages(), WEIGHTS)
def test_long_ids(graph: Graph, how: tuple[str, str], weights: str) -> None:
    settings = settings_of(how[0], missing_value(how[1], graph, weights), weights)
    edges = columns(graph)
    merges = cluster(graph.n_nodes, edges, settings)
    short = audited(graph.n_nodes, edges, merges, settings)
    with mock.patch.object(config, "INT32_NODES", 0):
        assert audited(graph.n_nodes, edges, merges, settings) == short


def test_no_weight_is_a_wrong_weight() -> None:
    for linkage in LINKAGES:
        edges = np.array([0, 0]), np.array([1, 2]), np.array([1.0, np.nan])
        report = audited(3, edges, made_merges((0, 1, 1.0, 2), (0, 2, 1.0, 3)), settings_of(linkage))
        assert report.wrong == 1


@pytest.mark.parametrize("linkage", LINKAGES)
def test_deep_chains(linkage: str) -> None:
    n = 100_000
    ids = np.random.default_rng(0).permutation(n)
    edges = ids[:-1], ids[1:], np.arange(1.0, n)
    settings = settings_of(linkage)
    merges = cluster(n, edges, settings)
    assert audited(n, edges, merges, settings).ok
    height = merges.height[n // 2]
    report = audited(n, edges, tampered(merges, "height", n // 2, height * (1 + 1e-6)), settings)
    assert 1 <= report.wrong <= 2
