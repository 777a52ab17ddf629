"""Promise 13: with `epsilon`, every merge is within 1 + epsilon of the nearest, and its ratio says how far at most."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest
from distributed import Client
from hypothesis import assume, given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.kernels.arrays import Merges
from tests.support.any_order import Answer, Question, clustering_of, faults_of, wander
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.graphs import Edges, columns, tangled_edges
from tests.support.limits import cluster_within
from tests.support.stored import write_parquet
from tests.support.strategies import (
    CEILINGS,
    LINKAGES,
    MISSING,
    NAMED_GRAPHS,
    WEIGHTS,
    Graph,
    bipartite,
    clique,
    graphs,
    hub,
    missing_value,
    path,
    star,
)

EPSILONS = (0.01, 0.1, 1.0, 10.0)
SHARDS = (1, 2, 7)
SOON = (Limits(), Limits(good_share=2.0))
"""Exact rounds while they pay, as on most small graphs to the end; or good merges after the first round."""
LARGE = tangled_edges(3_000, 9_000, 50, seed=3)


@st.composite
def questions(draw: st.DrawFn, linkages: tuple[str, ...] = LINKAGES) -> Question:
    """Everything that can be asked with `epsilon`, on graphs of every kind."""
    graph, weights = draw(graphs()), draw(WEIGHTS)
    missing = missing_value(draw(st.sampled_from(MISSING)), graph, weights)
    return Question(graph, draw(st.sampled_from(linkages)), missing, weights, draw(CEILINGS))


def several(linkages: tuple[str, ...] = ("average", "complete")) -> list[Question]:
    """Graphs with hubs, ties and broken components, each with every way to ask."""
    shapes: tuple[Callable[[int], Any], ...] = (star, clique, bipartite, hub, path)
    drawn = [
        Graph(17, [(u, v, 1.0 + (u * v + i + k) % 7 / 8) for i, (u, v) in enumerate(shape(16))])
        for k, shape in enumerate(shapes)
    ]
    return [
        Question(graph, linkage, missing_value(missing, graph, weights), weights)
        for graph, linkage, missing, weights in product(drawn, linkages, MISSING, ("distance", "similarity"))
    ]


def check(found: dask_rac.Clustering, question: Question, epsilon: float) -> None:
    """Raise unless the oracle and the audit have nothing against a clustering."""
    stored: Any = found.merges
    merges = stored.compute() if isinstance(found, dask_rac.StoredClustering) else stored
    assert faults_of(merges, question, epsilon) == []
    assert found.epsilon <= epsilon
    assert np.isclose(found.epsilon, merges["ratio"].max() - 1 if len(merges) else 0.0, atol=1e-15)
    assert found.verify(columns(question.graph)).ratios == len(merges)


@examples(300)
@given(questions(), st.sampled_from(EPSILONS), st.sampled_from(SOON))
def test_every_merge_is_good(question: Question, epsilon: float, limits: Limits) -> None:
    options = {**question.options, "epsilon": epsilon, "n_nodes": question.graph.n_nodes}
    check(cluster_within(limits, columns(question.graph), **options), question, epsilon)


@pytest.mark.soak
@examples(500)
@given(questions(), st.sampled_from(EPSILONS), st.sampled_from(SHARDS), st.sampled_from([1, 2]))
def test_every_merge_is_good_however_it_is_computed(
    question: Question, epsilon: float, shards: int, threads: int
) -> None:
    check_stored(question, epsilon, shards, threads)


def check_stored(question: Question, epsilon: float, shards: int, threads: int, client: Client | None = None) -> None:
    """Check a run through the disk, in rounds where it can."""
    with quick_folder() as folder, dask.config.set(num_workers=threads):
        edges = write_parquet(folder / "edges", columns(question.graph))
        options = {**question.options, "epsilon": epsilon, "n_nodes": question.graph.n_nodes, "shards": shards}
        limits = Limits(hand_over=0.0, good_share=2.0)
        found = cluster_within(limits, edges, **options, store=folder / "run", client=client)
        check(found, question, epsilon)


@pytest.mark.parametrize("shards", SHARDS)
def test_every_merge_is_good_in_shards(shards: int) -> None:
    for k, question in enumerate(several()):
        if k % len(SHARDS) == SHARDS.index(shards):
            check_stored(question, EPSILONS[k % 3], shards, 1 + k % 2)


def test_every_merge_is_good_on_workers(client: Client) -> None:
    for k, question in enumerate(several(("average",))[::7]):
        check_stored(question, EPSILONS[k % 3], SHARDS[k % 3], 1, client)


@pytest.mark.parametrize("name", NAMED_GRAPHS)
@pytest.mark.parametrize("linkage", LINKAGES)
def test_every_merge_of_a_named_graph_is_good(name: str, linkage: str) -> None:
    question = Question(NAMED_GRAPHS[name], linkage)
    options = {**question.options, "epsilon": 0.1, "n_nodes": question.graph.n_nodes}
    check(dask_rac.cluster(columns(question.graph), **options), question, 0.1)


@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("linkage", LINKAGES)
def test_a_large_graph_is_verified(linkage: str, weights: str) -> None:
    for missing in ("far", "ignore", "infinite"):
        found = cluster_within(SOON[1], LARGE, linkage, missing, weights, epsilon=0.1)
        assert found.verify(LARGE).ratios == len(found.merges)
        assert found.epsilon <= 0.1
        assert found.epsilon > 0 or linkage == "single" or missing == "infinite"


@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_threads_never_show(weights: str) -> None:
    hashes = set()
    for threads in (1, 2, 5):
        with dask.config.set(num_workers=threads):
            hashes.add(cluster_within(SOON[1], LARGE, weights=weights, epsilon=0.1).merges.to_csv())
    assert len(hashes) == 1


@pytest.mark.kernels
@examples(300)
@given(questions(("average", "complete")), st.sampled_from(EPSILONS), st.data())
def test_whatever_good_merges_there_are_they_are_verified(
    question: Question, epsilon: float, data: st.DataObject
) -> None:
    answer = wander(question, lambda pairs: data.draw(st.sampled_from(pairs)), epsilon)
    found = clustering_of(question, answer, epsilon)
    check(found, question, epsilon)


def refuse(found: dask_rac.Clustering, question: Question, epsilon: float, what: str) -> None:
    """Raise unless both the oracle and the audit have something against a clustering."""
    assert faults_of(found.merges, question, epsilon)
    with pytest.raises(dask_rac.AuditError, match=what):
        found.verify(columns(question.graph))


def changed(found: dask_rac.Clustering, ratio: Any = None, height: Any = None) -> dask_rac.Clustering:
    """The same clustering with other ratios or heights."""
    left, right, old, size = found._tree.merges
    columns = Merges(left, right, old if height is None else height, size)
    ratios = found._ratios if ratio is None else ratio
    given_list = MergeList(found.n_nodes, columns, found._merge_rounds, (), ratio=ratios)
    return dask_rac.Clustering(given_list, found._settings)


@pytest.mark.kernels
@examples(150)
@given(questions(("average", "complete")), st.data())
def test_a_ratio_that_is_too_small_is_found(question: Question, data: st.DataObject) -> None:
    answer = wander(question, lambda pairs: data.draw(st.sampled_from(pairs)), 1.0)
    far = [i for i, judgement in enumerate(answer.judged) if judgement.ratio > 1 + 1e-5]
    if not far:  # as often as not, as graphs are small
        return
    found, i = clustering_of(question, answer, 1.0), data.draw(st.sampled_from(far))
    ratio = found.merges["ratio"].to_numpy(copy=True)
    ratio[i] = data.draw(st.sampled_from([1.0, ratio[i] * (1 - 1e-6)]))
    refuse(changed(found, ratio), question, 1.0, "nearer one than its ratio says")


@pytest.mark.parametrize("wrong", [0.99, 1.1000001, np.nan, np.inf])
def test_a_ratio_that_is_none_is_found(wrong: float) -> None:
    question = several()[3]
    found = clustering_of(question, wander(question, lambda pairs: pairs[0], 0.1), 0.1)
    ratio = found.merges["ratio"].to_numpy(copy=True)
    ratio[5] = wrong
    refuse(changed(found, ratio), question, 0.1, "not between 1 and 1 \\+ epsilon")


@examples(100)
@given(questions(("average", "complete")), st.data())
def test_a_height_that_is_off_is_found(question: Question, data: st.DataObject) -> None:
    answer = wander(question, lambda pairs: data.draw(st.sampled_from(pairs)), 1.0)
    assume(any(judgement.height for judgement in answer.judged))
    found = clustering_of(question, answer, 1.0)
    height = found.merges["height"].to_numpy(copy=True)
    height[data.draw(st.sampled_from(np.flatnonzero(height).tolist()))] *= data.draw(st.sampled_from([0.999, 1.001]))
    refuse(changed(found, height=height), question, 1.0, "wrong")


@pytest.mark.kernels
@examples(300)
@given(questions(("average", "complete")), st.sampled_from([0.1, 1.0]), st.data())
def test_of_merges_in_another_order_the_audit_says_what_the_oracle_says(
    question: Question, epsilon: float, data: st.DataObject
) -> None:
    answer = wander(question, lambda pairs: data.draw(st.sampled_from(pairs)), epsilon)
    apart = [
        i for i, (one, other) in enumerate(zip(answer.pairs, answer.pairs[1:], strict=False)) if disjoint(one, other)
    ]
    assume(apart)
    i = data.draw(st.sampled_from(apart))
    swapped = replace(answer, **{name: exchange(getattr(answer, name), i) for name in ("pairs", "judged")})
    found = clustering_of(question, swapped, epsilon)
    if faults_of(found.merges, question, epsilon):
        refuse(found, question, epsilon, "wrong")
    else:
        found.verify(columns(question.graph))


def disjoint(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return not set(one) & set(other)


def exchange(items: Any, i: int) -> list[Any]:
    return [*items[:i], items[i + 1], items[i], *items[i + 2 :]]


def test_two_merges_in_the_wrong_order_are_found() -> None:
    # At first 3 is the nearest of 2, so that 1 and 2 must wait.
    graph = Graph(4, [(0, 1, 2.0), (1, 2, 1.0), (2, 3, 0.5)])
    question = Question(graph, "complete", "ignore")
    answer = Answer([(2, 3), (1, 2), (0, 1)], [])
    clusters = question.clusters()
    right = replace(answer, judged=[clusters.join(*pair) for pair in answer.pairs])
    check(clustering_of(question, right, 0.1), question, 0.1)
    wrong = Answer([(1, 2), (1, 3), (0, 1)], [right.judged[1], right.judged[0], right.judged[2]])
    refuse(clustering_of(question, wrong, 0.1), question, 0.1, "wrong")


def star_of(leaves: int) -> tuple[Edges, dask_rac.Clustering]:
    """A hub that takes in leaves of the same similarity one by one, and its merges."""
    edges = np.zeros(leaves, np.int64), np.arange(1, leaves + 1), np.ones(leaves)
    size = np.arange(2, leaves + 2)
    merges = Merges(edges[0], edges[1], 1 / edges[1], size)
    found = MergeList(leaves + 1, merges, np.ones(leaves, np.int32), (), ratio=np.ones(leaves))
    return edges, dask_rac.Clustering(found, checked_settings("average", None, "similarity", epsilon=0.1))


def test_a_hub_is_verified_without_going_through_its_edges_each_time() -> None:
    edges, found = star_of(100_000)
    assert found.verify(edges).ratios == 100_000
    nearer = (*edges[:2], np.where(edges[1] == 70_000, 1.2, 1.0))
    with pytest.raises(dask_rac.AuditError, match="nearer one than its ratio says"):
        changed(found, height=np.where(edges[1] == 70_000, 1.2, 1.0) / edges[1]).verify(nearer)


def test_without_epsilon_nothing_shows(folder: Path) -> None:
    edges = write_parquet(folder / "edges", LARGE)
    for epsilon in (0, 0.0):
        found = dask_rac.cluster(edges, store=folder / f"run {epsilon!r}", epsilon=epsilon)
        assert list(found.merges.columns) == ["left", "right", "height", "size", "round"]
        assert found.epsilon == 0.0
        header = json.loads((folder / f"run {epsilon!r}" / "rac.json").read_text())
        assert "epsilon" not in header["settings"]
        assert "epsilon" not in found.facts()


def test_single_linkage_is_exact_with_epsilon() -> None:
    found = dask_rac.cluster(LARGE, "single", epsilon=0.5)
    assert found.epsilon == 0.0
    assert found.merges["ratio"].eq(1).all()
    assert found.merges.drop(columns="ratio").equals(dask_rac.cluster(LARGE, "single").merges)
