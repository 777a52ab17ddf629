"""Lifetimes, snapshots, curves and suggested cuts against flat cuts, height by height."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import dask_rac
from dask_rac.tree.lifetimes import Lifetimes
from dask_rac.tree.order import merge_order
from dask_rac.tree.summary import height_curve, size_histogram, snapshots
from tests.support.graphs import run, tangled_edges
from tests.support.strategies import Graph, graphs

WEIGHTS = st.sampled_from(["distance", "similarity"])


def lives_of(clustering: dask_rac.Clustering) -> Lifetimes:
    return clustering._lives


def some_heights(clustering: dask_rac.Clustering) -> list[float]:
    """Return every height of a merge, and some between and beyond them."""
    known = sorted(set(clustering.merges["height"]))
    return sorted({-1.0, 0.0, 0.3, 9.0, *known, *(np.convolve(known, [0.5, 0.5], "valid") if known else [])})


def clusters_at(clustering: dask_rac.Clustering, height: float) -> dict[int, int]:
    """The size of each cluster, by its smallest node."""
    label = clustering.cut(height=height)
    _, first, size = np.unique(label, return_index=True, return_counts=True)
    return dict(zip(first.tolist(), size.tolist(), strict=True))


@pytest.mark.kernels
@given(graphs(), WEIGHTS)
def test_snapshots_are_flat_cuts(graph: Graph, weights: str) -> None:
    clustering = run(graph, weights=weights)
    heights = some_heights(clustering)
    found = snapshots(lives_of(clustering), heights, most=3)
    assert [one.height for one in found] == (heights if weights == "distance" else heights[::-1])
    for one in found:
        sizes = clusters_at(clustering, one.height)
        assert one.clusters == len(sizes)
        assert one.single == list(sizes.values()).count(1)
        several = sorted(((-size, node) for node, size in sizes.items() if size > 1))[:3]
        assert [(-cluster.size, cluster.node) for cluster in one.largest] == several
        histogram = Counter(size.bit_length() - 1 for size in sizes.values())
        bins = range(len(one.sizes.low))
        assert one.sizes.clusters.tolist() == [histogram[k] for k in bins]
        assert one.sizes.low.tolist() == [2**k for k in bins]
        assert one.sizes.nodes.sum() == clustering.n_nodes
        again = size_histogram(lives_of(clustering), one.height)
        assert again.clusters.tolist() == one.sizes.clusters.tolist()
        assert again.nodes.tolist() == one.sizes.nodes.tolist()


@given(graphs(), WEIGHTS)
def test_a_large_cluster_knows_when_it_was_made_and_when_it_ends(graph: Graph, weights: str) -> None:
    clustering = run(graph, weights=weights)
    merges = clustering.merges
    sign = 1 if weights == "distance" else -1
    for one in snapshots(lives_of(clustering), some_heights(clustering), most=9):
        for cluster in one.largest:
            same = merges[(merges["left"] == cluster.node) & (merges["size"] == cluster.size)]
            assert same["height"].tolist() == [cluster.height]
            later = merges[
                ((merges["left"] == cluster.node) | (merges["right"] == cluster.node)) & (merges["size"] > cluster.size)
            ]
            ends = sorted(sign * later["height"])
            assert cluster.end == (sign * ends[0] if ends else None)
            assert sign * cluster.height <= sign * one.height


@given(graphs(), WEIGHTS, st.integers(2, 40))
def test_the_curve_is_made_of_flat_cuts(graph: Graph, weights: str, most: int) -> None:
    clustering = run(graph, weights=weights)
    curve = height_curve(lives_of(clustering), most)
    for height, clusters in zip(curve.height.tolist(), curve.clusters.tolist(), strict=True):
        assert clusters == len(clusters_at(clustering, height))
    assert (np.diff(curve.clusters) < 0).all()
    assert curve.similarity == (weights == "similarity")
    if len(clustering.merges):
        assert curve.clusters[-1] == clustering.n_trees
    if len(clustering.merges) < most // 2:
        assert set(curve.height) == set(clustering.merges["height"])


def test_a_curve_of_many_merges_is_short_and_tells_the_top_in_full() -> None:
    clustering = dask_rac.cluster(tangled_edges(30_000, 90_000, 10**6, seed=1))
    curve = height_curve(lives_of(clustering), 400)
    assert len(curve.height) <= 600
    last = np.sort(clustering.merges["height"].to_numpy())[-20:]
    assert set(last) <= set(curve.height)


def longest_gaps(clustering: dask_rac.Clustering, by: str) -> list[tuple[float, float, float]]:
    """Return lifetime, start and end of every stable cut, by trying all cuts."""
    sign = 1 if clustering._settings.weights == "distance" else -1
    heights = sorted(set(clustering.merges["height"]), key=lambda height: sign * height)
    number = [len(clusters_at(clustering, height)) for height in heights]
    gaps = []
    for start, end, clusters in zip(heights[:-1], heights[1:], number[:-1], strict=True):
        if clusters < 2:
            continue
        if by == "ratio":
            if start == 0 or end == 0:
                continue
            gaps.append((abs(np.log(end) - np.log(start)), start, end))
        else:
            gaps.append((abs(end - start), start, end))
    if heights and number[-1] > 1:
        gaps.append((np.inf, heights[-1], sign * np.inf))  # the trees of a forest never merge
    return sorted(gaps, key=lambda gap: -gap[0])


@given(graphs(), WEIGHTS, st.sampled_from(["difference", "ratio"]))
def test_suggested_cuts_are_the_longest_gaps(graph: Graph, weights: str, by: str) -> None:
    clustering = run(graph, weights=weights)
    most = max(2, graph.n_nodes)
    found = clustering.suggest_cuts(4, by=by, min_size=1, max_clusters=most)
    expected = longest_gaps(clustering, by)[:4]
    np.testing.assert_allclose(found["lifetime"], [gap[0] for gap in expected])
    assert (clustering.suggest_cuts(100)["large_clusters"] <= max(2, graph.n_nodes / 2)).all()
    assert found["large_clusters"].tolist() == found["n_clusters"].tolist()
    _check_cuts(clustering, found, weights)


def _check_cuts(clustering: dask_rac.Clustering, found: pd.DataFrame, weights: str) -> None:
    """Check the numbers of a suggestion, and that no cluster changes from its start to its end."""
    sign = 1 if weights == "distance" else -1
    for cut in found.itertuples():
        assert sign * cut.start <= sign * cut.height < sign * cut.end  # type: ignore[operator]
        label = clustering.cut(height=cut.height)  # type: ignore[arg-type]
        assert label.max() + 1 == cut.n_clusters
        assert clustering.cut(height=cut.start).tolist() == label.tolist()  # type: ignore[arg-type]
        ended = clustering.cut(height=cut.end).tolist()  # type: ignore[arg-type]
        assert (ended == label.tolist()) == (not np.isfinite(cut.end))  # type: ignore[arg-type]


def test_stray_nodes_do_not_hide_what_the_rest_does() -> None:
    # Two groups of ten at 1, joined at 5; three stray nodes join late and far apart.
    group = [(i, i + 1, 1.0) for i in range(9)] + [(10 + i, 11 + i, 1.0) for i in range(9)]
    edges = np.array([*group, (0, 10, 5.0), (0, 20, 20.0), (0, 21, 50.0), (0, 22, 110.0)])
    clustering = dask_rac.cluster((edges[:, 0].astype(int), edges[:, 1].astype(int), edges[:, 2]), "single")
    assert clustering.suggest_cuts(1, min_size=1)["n_clusters"].tolist() == [2]  # all but the last stray node
    large = clustering.suggest_cuts(1, min_size=5)
    assert large["large_clusters"].tolist() == [2]
    assert large[["start", "end"]].to_numpy().tolist() == [[1.0, 5.0]]
    assert large["n_clusters"].tolist() == [5]
    assert large["clear"].tolist() == [True]
    pd.testing.assert_frame_equal(clustering.suggest_cuts(1), clustering.suggest_cuts(1, min_size=2))


def test_similarities_are_compared_by_their_ratios() -> None:
    clustering = dask_rac.cluster(([0, 1, 2], [1, 2, 3], [1000.0, 100.0, 1.0]), "single", weights="similarity")
    assert clustering.suggest_cuts(1)["n_clusters"].tolist() == [2]
    assert clustering.suggest_cuts(1)["height"].tolist() == [10.0]
    assert clustering.suggest_cuts(1, by="difference", max_clusters=3)["n_clusters"].tolist() == [3]


COLUMNS = ["height", "n_clusters", "start", "end", "lifetime", "large_clusters", "clear"]


@pytest.mark.parametrize("n_nodes", [0, 1, 3])
def test_nothing_to_suggest(n_nodes: int) -> None:
    empty = dask_rac.cluster(([], [], []), n_nodes=n_nodes)
    assert empty.suggest_cuts().columns.tolist() == COLUMNS
    assert len(empty.suggest_cuts()) == len(height_curve(lives_of(empty)).height) == 0
    (one,) = snapshots(lives_of(empty), [1.0])
    assert (one.clusters, one.single, one.largest) == (n_nodes, n_nodes, ())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"count": 0}, "count=0 is out of range: use 1 or more"),
        ({"min_size": 1.5}, "min_size=1.5 is not a whole number"),
        ({"max_clusters": 1}, "max_clusters=1 is out of range: use 2 or more"),
        ({"by": "gap"}, "by='gap' is unknown: use one of 'difference', 'ratio', 'far'"),
        ({"by": "far"}, "by='far' compares heights with the distance of pairs without an edge"),
    ],
)
def test_what_cannot_be_asked_for(options: dict[str, Any], message: str) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(([0], [1], [1.0]), missing="ignore").suggest_cuts(**options)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 3), st.integers(0, 4)), max_size=30))
def test_merges_are_ordered_by_distance_then_size_then_node(rows: list[tuple[int, int, int]]) -> None:
    table: NDArray[np.int64] = np.array(rows, np.int64).reshape(-1, 3)
    left, size, distance = table.T
    order = merge_order(left, size, distance.astype(float))
    assert sorted(order.tolist()) == list(range(len(rows)))
    assert table[order][:, ::-1].tolist() == sorted(table[:, ::-1].tolist())


def test_of_a_store_is_that_in_memory(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("lives")
    edges = dask_rac.datasets.lattice(2000, 8, 0, folder / "edges")
    stored, here = dask_rac.cluster(edges, store=folder / "run", shards=3), dask_rac.cluster(edges)
    pd.testing.assert_frame_equal(stored.suggest_cuts(8), here.suggest_cuts(8))
    assert snapshots(lives_of(stored), [0.5, 0.7])[0].largest == snapshots(lives_of(here), [0.5, 0.7])[0].largest


def test_what_a_report_cannot_be_told(tmp_path: Path) -> None:
    clustering = dask_rac.cluster(([0], [1], [1.0]))
    for refresh in (0, -1.0, float("inf")):
        with pytest.raises(dask_rac.InputError, match="is not a valid interval: give seconds, more than 0"):
            clustering.report(tmp_path / "report.html", refresh=refresh)
    for height in ("low", [[1.0]], float("nan")):
        with pytest.raises(dask_rac.InputError, match="is neither a number nor a list of them"):
            clustering.plot_heights(height)


def test_nothing_is_written_among_the_files_of_a_run(tmp_path: Path) -> None:
    run = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]), store=tmp_path / "run", shards=1)
    for name in ("rounds/report.html", "merges/more/report.html"):
        with pytest.raises(dask_rac.InputError, match=r"is among the files of the run in .*: choose another path"):
            run.report(tmp_path / "run" / name)
    with pytest.raises(dask_rac.InputError, match="is among the files"):
        run.export(tmp_path / "run" / "merges" / "tree.nwk")
    assert Path(run.report(tmp_path / "run" / "report.html")).exists()
