"""Scores of all flat cuts are those of scikit-learn, and those of whole trees are what brute force finds."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.cluster.hierarchy import cophenet
from scipy.spatial.distance import pdist
from sklearn.metrics import (
    adjusted_mutual_info_score,
    adjusted_rand_score,
    mutual_info_score,
    normalized_mutual_info_score,
)

import dask_rac
from dask_rac.files.node_names import NamesInMemory
from dask_rac.tree import chance, scores
from tests.support.graphs import as_frame, columns, run, tangled_edges
from tests.support.strategies import Graph, graphs

WEIGHTS = st.sampled_from(["distance", "similarity"])
LINKAGES = st.sampled_from(["average", "single"])
SKLEARN = {
    "ari": adjusted_rand_score,
    "mi": mutual_info_score,
    "nmi": normalized_mutual_info_score,
    "ami": adjusted_mutual_info_score,
}


@st.composite
def labelled_graphs(draw: st.DrawFn, least: int = -1) -> tuple[Graph, NDArray[np.int64]]:
    """A graph, and a class for most of its nodes, of which there are one, few or as many as nodes."""
    graph = draw(graphs())
    most = draw(st.sampled_from([0, 1, 3, 14]))
    labels = draw(st.lists(st.integers(least, most), min_size=graph.n_nodes, max_size=graph.n_nodes))
    assume(any(label >= 0 for label in labels))
    return graph, np.array(labels)


def lowest_clusters(clustering: dask_rac.Clustering) -> dict[frozenset[int], tuple[float, frozenset[int]]]:
    """For each pair that a merge joins, the height of the lowest one and all nodes below it, by sets."""
    clusters = {node: frozenset([node]) for node in range(clustering.n_nodes)}
    found: dict[frozenset[int], tuple[float, frozenset[int]]] = {}
    for left, right, height in clustering.merges[["left", "right", "height"]].itertuples(index=False):
        one, other = clusters[left], clusters.pop(right)
        clusters[left] = one | other
        found |= {frozenset((u, v)): (height, clusters[left]) for u in one for v in other}
    return found


def purity_of(clustering: dask_rac.Clustering, labels: NDArray[np.int64]) -> float:
    """The mean purity of the lowest cluster of each pair of a class, pair by pair."""
    known, everywhere = lowest_clusters(clustering), frozenset(range(clustering.n_nodes))
    found = []
    for pair in combinations(np.flatnonzero(labels >= 0).tolist(), 2):
        if labels[pair[0]] == labels[pair[1]]:
            nodes = [u for u in known.get(frozenset(pair), (0, everywhere))[1] if labels[u] >= 0]
            found.append(np.mean(labels[nodes] == labels[pair[0]]))
    return float(np.mean(found)) if found else math.nan


@pytest.mark.kernels
@given(labelled_graphs(), WEIGHTS, LINKAGES)
def test_every_cut_is_scored_as_by_scikit_learn(
    problem: tuple[Graph, NDArray[np.int64]], weights: str, linkage: str
) -> None:
    graph, labels = problem
    clustering = run(graph, weights=weights, linkage=linkage)
    found = clustering.scores(labels, points=None)
    curve, known = found.curve, labels >= 0
    heights = pd.unique(clustering.merges["height"])
    assert set(curve["height"]) == {*heights, math.inf if weights == "similarity" else -math.inf}
    for cut in curve.to_dict("records"):
        label = clustering.cut(height=cut["height"])
        assert cut["n_clusters"] == label.max(initial=-1) + 1
        for name, measure in SKLEARN.items():
            assert cut[name] == pytest.approx(measure(labels[known], label[known]), abs=1e-9), name
    for measure, best in found.best.to_dict("index").items():
        row = curve.iloc[int(curve[str(measure)].argmax())]
        assert list(best.values()) == [row["height"], row["n_clusters"], row[str(measure)]]
    assert [found.n_nodes, found.n_labelled] == [graph.n_nodes, np.count_nonzero(known)]
    assert found.n_classes == len(set(labels[known].tolist()))


@pytest.mark.kernels
@given(labelled_graphs(), WEIGHTS, LINKAGES)
def test_purity_is_that_of_all_pairs_of_a_class(
    problem: tuple[Graph, NDArray[np.int64]], weights: str, linkage: str
) -> None:
    graph, labels = problem
    clustering = run(graph, weights=weights, linkage=linkage)
    assert clustering.scores(labels).purity == pytest.approx(purity_of(clustering, labels), nan_ok=True)


@pytest.mark.kernels
@given(graphs(), WEIGHTS, LINKAGES)
def test_edges_are_scored_as_by_brute_force(graph: Graph, weights: str, linkage: str) -> None:
    assume(graph.n_nodes)
    clustering = run(graph, weights=weights, linkage=linkage, max_height=0.5)
    found = clustering.scores(np.zeros(graph.n_nodes), edges=columns(graph))
    known = lowest_clusters(clustering)
    joined = [(w, known[frozenset((u, v))]) for u, v, w in graph.edges if frozenset((u, v)) in known]
    apart = [w for u, v, w in graph.edges if frozenset((u, v)) not in known]
    assert (found.n_edges, found.n_unjoined) == (len(joined), len(apart))
    cost = sum(w * len(nodes) for w, (_, nodes) in joined) + graph.n_nodes * sum(apart)
    assert found.dasgupta == pytest.approx(cost)
    weight, height = [w for w, _ in joined], [height for _, (height, _) in joined]
    constant = not joined or any(np.ptp(column) <= 1e-14 for column in (weight, height))  # averages are rounded
    expected = math.nan if constant else np.corrcoef(weight, height)[0, 1]
    assert found.cophenetic == pytest.approx(expected, abs=1e-6, nan_ok=True)


def test_equal_weights_have_no_correlation() -> None:
    edges = np.arange(99), np.arange(1, 100), np.full(99, 0.1)
    found = dask_rac.cluster(edges).scores(np.zeros(100), edges=edges)
    assert found.cophenetic is not None
    assert math.isnan(found.cophenetic)


@pytest.mark.parametrize("linkage", ["average", "ward", "weighted"])
def test_all_pairs_are_correlated_as_by_scipy(linkage: str) -> None:
    points = np.random.default_rng(0).normal(size=(400, 3))
    clustering = dask_rac.cluster(points, linkage, metric="euclidean")
    distances = pdist(points)
    expected, _ = cophenet(clustering.to_scipy(), distances)
    for edges in (True, points):
        found = clustering.scores(np.arange(400) % 3, edges=edges)
        assert found.cophenetic == pytest.approx(float(expected))
        assert (found.n_edges, found.n_unjoined) == (400 * 399 // 2, 0)


@pytest.mark.filterwarnings("ignore:one cluster holds")
def test_chance_of_many_nodes_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2, 3], [2_500, 40, 1_200, 60])
    points = (labels + rng.normal(scale=0.7, size=len(labels)))[:, None]
    clustering = dask_rac.cluster(points, "average", metric="euclidean")
    curve = clustering.scores(labels, points=20).curve
    for cut in curve[curve["n_clusters"] < 300].to_dict("records"):
        label = clustering.cut(height=cut["height"])
        assert cut["ami"] == pytest.approx(adjusted_mutual_info_score(labels, label), abs=1e-8)
        assert cut["ari"] == pytest.approx(adjusted_rand_score(labels, label), abs=1e-12)


def test_chance_may_take_too_long_or_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    clustering = dask_rac.cluster(tangled_edges(200, 900, 50, seed=0), missing="ignore")
    labels = np.arange(clustering.n_nodes) % 4
    whole = clustering.scores(labels)
    assert whole.best.index.tolist() == ["ari", "nmi", "ami"]
    without = clustering.scores(labels, ami=False)
    for most in (1.0, 900.0):
        monkeypatch.setattr(chance, "MOST_TERMS", most)
        pd.testing.assert_frame_equal(clustering.scores(labels).best, without.best)
    assert "ami" not in without.curve
    assert without.best.index.tolist() == ["ari", "nmi"]
    pd.testing.assert_frame_equal(clustering.scores(labels, ami=True).curve, whole.curve)


def test_a_thinned_curve_has_the_best_of_all_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    clustering = dask_rac.cluster(tangled_edges(8_000, 30_000, 10**6, seed=2))
    labels = clustering.cut(n_clusters=clustering.n_trees + 3_000) % 50
    monkeypatch.setattr(scores, "SPAN", 1_000)
    thin, whole = clustering.scores(labels, points=100), clustering.scores(labels, points=None)
    monkeypatch.undo()
    pd.testing.assert_frame_equal(whole.curve, clustering.scores(labels, points=None).curve)
    pd.testing.assert_frame_equal(thin.best, whole.best)
    assert len(thin.curve) <= 160
    assert len(whole.curve) == len(set(clustering.merges["height"])) + 1
    assert set(thin.best["height"]) <= set(thin.curve["height"])
    kept = whole.curve[whole.curve["n_clusters"].isin(thin.curve["n_clusters"])].reset_index(drop=True)
    pd.testing.assert_frame_equal(thin.curve, kept)
    assert thin.purity == whole.purity


def test_of_a_store_are_those_in_memory(tmp_path: Path) -> None:
    edges = tangled_edges(400, 2_000, 30, seed=3)
    source = tmp_path / "edges.parquet"
    as_frame(edges).to_parquet(source, row_group_size=300)
    here = dask_rac.cluster(edges)
    stored = dask_rac.cluster(source, store=tmp_path / "run", shards=3)
    labels = np.arange(here.n_nodes) % 7
    expected = here.scores(labels, edges=edges)
    given = [True, edges, source, as_frame(edges)]
    seen: list[str] = []
    opened = dask_rac.open(tmp_path / "run", progress=lambda event: seen.append(event.stage))
    for found in [*(stored.scores(labels, edges=one) for one in given), opened.scores(labels, edges=True)]:
        pd.testing.assert_frame_equal(found.curve, expected.curve)
        pd.testing.assert_frame_equal(found.best, expected.best)
        assert found.facts() == expected.facts()
        assert found.dasgupta == pytest.approx(expected.dasgupta)
        assert found.cophenetic == pytest.approx(expected.cophenetic)
    assert set(seen) == {"score"}
    assert list((tmp_path / "run" / "rounds").iterdir()) == []


def test_of_all_pairs_in_a_store(tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(90, 2))
    np.save(tmp_path / "points.npy", points)
    stored = dask_rac.cluster(tmp_path / "points.npy", "ward", metric="euclidean", store=tmp_path / "run")
    here = dask_rac.cluster(points, "ward", metric="euclidean")
    labels = np.arange(90) % 3
    assert stored.scores(labels, edges=True).facts() == here.scores(labels, edges=True).facts()
    (tmp_path / "points.npy").unlink()
    with pytest.raises(dask_rac.InputError, match=r"points\.npy"):
        stored.scores(labels, edges=True)
    assert stored.scores(labels, edges=points).n_edges == 90 * 89 // 2


NODES = 6
SIX = dask_rac.cluster(([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [1.0, 5.0, 2.0, 9.0, 3.0]), "single")
"""Nodes 0 and 1, 2 and 3, 4 and 5 are close."""
FORMS: dict[str, Any] = {
    "numbers": [7, 7, 3, 3, 5, 5],
    "text": ["a", "a", "b", "b", "c", "c"],
    "booleans and text": np.array([True, True, "b", "b", None, float("nan")], object),
    "text with nothing": ["a", "a", "b", "b", None, float("nan")],
    "floats": np.array([0.5, 0.5, 1.5, 1.5, np.nan, -1.0]),
    "minus one": [0, 0, 1, 1, -1, -1],
    "masked": np.ma.array([1, 1, 2, 2, 3, 4], mask=[False] * 4 + [True] * 2),
    "nullable": pd.array([1, 1, 2, 2, None, -1], dtype="Int64"),
    "categories": pd.Categorical(["a", "a", "b", "b", None, None]),
    "series": pd.Series(["a", "a", "b", "b", "c", "c"]),
    "series of categories": pd.Series(["a", "a", "b", "b", None, None], dtype="category"),
    "by number": pd.Series(["b", "b", "a", "a"], index=[3, 2, 1, 0]),
    "dict": {0: "x", 1: "x", 2: "y", 3: "y"},
    "by name": pd.Series({"f": 3, "e": 3, "d": 2, "c": 2, "b": 1, "a": 1}),
    "some by name": {"d": 2, "c": 2, "b": 1, "a": 1, "nobody": 9},
}


@pytest.mark.parametrize("form", FORMS)
def test_labels_may_have_any_form(form: str) -> None:
    clustering = dask_rac.cluster(([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [1.0, 5.0, 2.0, 9.0, 3.0]), "single")
    if "name" in form:
        clustering.names = NamesInMemory(list("abcdef"))
    found = clustering.scores(FORMS[form])
    assert found.best.loc["ari", "score"] == 1
    assert found.purity == 1
    assert found.n_labelled in (4, 6)
    assert found.n_classes == found.n_labelled // 2


def test_names_that_occur_twice_have_one_class() -> None:
    clustering = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]), "single")
    clustering.names = NamesInMemory(["a", "b", "a"])
    found = clustering.scores(pd.Series({"a": 1, "b": 2}))
    assert (found.n_labelled, found.n_classes) == (3, 2)
    assert found.purity == pytest.approx(2 / 3)


def test_what_is_ignored_is_up_to_the_user() -> None:
    labels = [0, 0, -1, -1, 1, 1]
    assert (SIX.scores(labels).n_labelled, SIX.scores(labels, ignore=None).n_labelled) == (4, 6)
    assert SIX.scores(["a", "a", "?", "?", "b", "b"], ignore="?").n_classes == 2
    assert SIX.scores([True, True, False, False, True, True]).n_labelled == 6


@pytest.mark.parametrize(
    ("labels", "options", "message"),
    [
        ([0, 1], {}, "labels has 2 values, and there are 6 nodes: give one label per node"),
        ([[0] * 6], {}, r"labels=\[\[0, 0, 0, 0, 0, 0\]\] is not one column"),
        ([[0], [0, 1]], {}, "is not one column"),
        (3, {}, "labels=3 is not one column"),
        ([-1] * 6, {}, "labels has a label for none of the 6 nodes"),
        ({}, {}, "labels has a label for none"),
        (pd.Series([1, 1], index=[0, 6]), {}, "labels has node 6, which does not exist: nodes are 0 to 5"),
        (pd.Series([1, 2], index=[3, 3]), {}, "labels has node 3 more than once"),
        (pd.Series([1], index=["a"]), {}, "the nodes of this clustering have no names"),
        (pd.Series([[1], [2], 1, 1, 1, 1]), {}, "labels cannot be told apart"),
        ([0] * 6, {"points": 1}, "points=1 is out of range: use 2 or more"),
        ([0] * 6, {"ami": "yes"}, "ami='yes' is unknown: use True, False or None"),
        ([0] * 6, {"edges": True}, r"scores\(\) needs the edges again: call scores\(labels, edges=\.\.\.\)"),
        ([0] * 6, {"edges": ([0], [9], [1.0])}, "9"),
    ],
)
def test_what_cannot_be_scored(labels: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        SIX.scores(labels, **options)


def test_a_run_whose_edges_are_gone_or_that_is_unfinished(tmp_path: Path) -> None:
    stored = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]), store=tmp_path / "run")
    with pytest.raises(dask_rac.InputError, match=r"not on disk: give them again with scores\(labels, edges=edges\)"):
        stored.scores([0, 0, 1], edges=True)
    stored.finished = False
    with pytest.raises(dask_rac.InputError, match=r"is unfinished, .*resume"):
        stored.scores([0, 0, 1])


def test_a_single_node_and_no_merges() -> None:
    alone = dask_rac.cluster(([], [], []), n_nodes=3).scores(["a", "b", "c"])
    assert alone.curve[["n_clusters", "ari", "nmi", "ami"]].to_numpy().tolist() == [[3, 1, 1, 1]]
    assert math.isnan(alone.purity)
    assert dask_rac.cluster(([], [], []), n_nodes=1).scores([0]).best["score"].tolist() == [1, 1, 1]
    empty = dask_rac.cluster(([], [], []), n_nodes=2).scores([0, 0], edges=([], [], []))
    assert (empty.purity, empty.n_edges, empty.dasgupta) == (1.0, 0, 0.0)
    assert empty.cophenetic is not None
    assert math.isnan(empty.cophenetic)


def test_says_what_it_found() -> None:
    found = SIX.scores([0, 0, 1, 1, -1, -1], edges=([0, 1, 2, 3, 4], [1, 2, 3, 4, 5], [1.0, 5.0, 2.0, 9.0, 3.0]))
    assert found.facts() == {
        "nodes": "4 of 6 in 2 classes",
        "adjusted Rand index": "1.0000 at best, 4 clusters, height 2",
        "normalized mutual information": "1.0000 at best, 4 clusters, height 2",
        "adjusted mutual information": "1.0000 at best, 4 clusters, height 2",
        "dendrogram purity": "1.0000",
        "cophenetic correlation": "1.0000",
        "Dasgupta's cost": "86",
        "edges": "5 in a tree, 0 between trees",
    }
    assert repr(found).startswith("<Scores: nodes: 4 of 6 in 2 classes, adjusted Rand index: 1.0000")
    assert "dendrogram purity" in found._repr_html_()


def test_the_tree_alone_can_be_scored() -> None:
    points = np.random.default_rng(0).normal(size=(40, 3))
    tree = dask_rac.cluster(points)
    alone = tree.scores(edges=True)
    assert alone.cophenetic == pytest.approx(tree.scores(np.arange(40) % 2, edges=True).cophenetic)
    assert (alone.n_labelled, len(alone.best), len(alone.curve)) == (0, 0, 0)
    assert "cophenetic correlation" in repr(alone)
    assert "purity" not in repr(alone)
    with pytest.raises(dask_rac.InputError, match="no curve to plot without known classes"):
        alone.plot()
    with pytest.raises(dask_rac.InputError, match="needs labels, the true class of each node, or edges=True"):
        tree.scores()


def test_an_index_that_may_be_left_over_is_refused() -> None:
    points = pd.DataFrame(np.random.default_rng(0).normal(size=(40, 3)))
    classes = pd.Series(np.arange(40) % 3)
    shuffled = classes.sample(frac=1, random_state=0)
    tree = dask_rac.cluster(points.loc[shuffled.index].to_numpy())
    with pytest.raises(dask_rac.InputError, match=r"left over from other rows: give labels.to_numpy\(\)"):
        tree.scores(shuffled)
    best = tree.scores(shuffled.to_numpy()).best
    pd.testing.assert_frame_equal(tree.scores(dict(enumerate(shuffled))).best, best)
    numbered = pd.Series(shuffled.to_numpy()).rename_axis("node").iloc[::-1]
    pd.testing.assert_frame_equal(tree.scores(numbered).best, best)
    named = dask_rac.cluster(points.to_numpy(), names=[f"n{node}" for node in range(40)])
    with pytest.raises(dask_rac.InputError, match="or index it by the names of the nodes"):
        named.scores(classes.iloc[::-1])
    by_name = classes.set_axis([f"n{node}" for node in range(40)])
    pd.testing.assert_frame_equal(named.scores(by_name.iloc[::-1]).best, named.scores(classes.to_numpy()).best)
