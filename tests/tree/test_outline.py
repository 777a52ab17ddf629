"""An outline of a tree holds the splits that matter, and its branches are clusters of the whole tree."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.tree.central import central_nodes
from dask_rac.tree.lifetimes import Lifetimes
from dask_rac.tree.outline import Outline, outline_of
from tests.support.effort import examples
from tests.support.strategies import Graph, graphs

pytestmark = pytest.mark.kernels


def lives_of(graph: Graph, weights: str) -> Lifetimes:
    edges = np.array(graph.edges).reshape(-1, 3).T
    given_edges = (*edges[:2].astype(int), edges[2])
    return dask_rac.cluster(given_edges, "single", weights=weights, n_nodes=graph.n_nodes)._lives


def members_of(lives: Lifetimes) -> list[list[int]]:
    """The nodes of each cluster, in the order in which they join."""
    now = {node: [node] for node in range(lives.n_nodes)}
    found: list[list[int]] = []
    joined: list[int] = []
    for left, right in zip(lives.node.tolist(), lives.other.tolist(), strict=True):
        joined += [node for node in (left, right) if len(now[node]) == 1 and node not in joined]
        now[left] = now[left] + now.pop(right)
        found.append(sorted(now[left], key=joined.index))
    return found


def branch_nodes(tree: Outline, lives: Lifetimes) -> list[set[int]]:
    """The nodes of each branch."""
    members = members_of(lives)

    def nodes(node: int, top: int) -> set[int]:
        return set(members[top]) if top >= 0 else {node} if node >= 0 else set(range(lives.n_nodes))

    return [nodes(*pair) for pair in zip(tree.node.tolist(), tree.top.tolist(), strict=True)]


def ancestors(tree: Outline, branch: int) -> Iterator[int]:
    while branch >= 0:
        yield branch
        branch = int(tree.parent[branch])


KINDS = st.sampled_from(["distance", "similarity"])


@given(graphs(), KINDS, st.integers(1, 30))
@examples(60)
def test_branches_are_clusters_inside_each_other(graph: Graph, weights: str, most: int) -> None:
    lives = lives_of(graph, weights)
    if not lives.n_nodes:
        return
    tree = outline_of(lives, most)
    nodes = branch_nodes(tree, lives)
    assert [len(some) for some in nodes] == tree.size.tolist()
    assert nodes[0] == set(range(lives.n_nodes))
    assert tree.parent[0] == -1
    assert np.count_nonzero(tree.split >= 0) + tree.trees <= max(most, 1)
    forest = tree.node[0] < 0
    for branch in range(1, len(tree)):
        outer = int(tree.parent[branch])
        assert 0 <= outer < branch  # preorder
        assert nodes[branch] < nodes[outer]
        assert list(ancestors(tree, branch - 1)).count(outer) == 1
        if tree.top[branch] >= 0:
            assert lives.end[tree.top[branch]] == (len(lives) if forest and not outer else tree.split[outer])
    for branch, split in enumerate(tree.split.tolist()):
        inner = np.flatnonzero(tree.parent == branch).tolist()
        assert len(inner) == (2 if split >= 0 else tree.trees if forest and not branch else 0)
        assert [tree.size[one] for one in inner] == sorted((tree.size[one] for one in inner), reverse=True)
        if split >= 0:
            assert set(members_of(lives)[split]) == nodes[inner[0]] | nodes[inner[1]]


@given(graphs(), KINDS, st.integers(1, 30))
@examples(60)
def test_the_most_important_splits_are_kept(graph: Graph, weights: str, most: int) -> None:
    lives = lives_of(graph, weights)
    if not lives.n_nodes:
        return
    tree = outline_of(lives, most)
    kept = tree.split[tree.split >= 0]
    left_out = np.setdiff1d(np.arange(len(lives)), kept)
    if len(left_out) and len(kept):
        assert lives.small[left_out].max() <= lives.small[kept].min()
    if len(lives) + lives.n_nodes - len(lives) <= most:
        assert len(kept) == len(lives)
        assert tree.trees == lives.n_nodes - len(lives)
        assert len(tree) == lives.n_nodes + len(lives) + (tree.trees > 1)


@given(graphs(), KINDS, st.integers(1, 30))
@examples(60)
def test_homes_are_innermost(graph: Graph, weights: str, most: int) -> None:
    lives = lives_of(graph, weights)
    if not lives.n_nodes:
        return
    tree = outline_of(lives, most)
    nodes, members = branch_nodes(tree, lives), members_of(lives)

    def innermost(wanted: set[int]) -> int:
        return max((branch for branch in range(len(tree)) if wanted <= nodes[branch]), key=lambda b: -len(nodes[b]))

    homes = tree.homes(lives, np.arange(lives.n_nodes))
    assert homes.tolist() == [innermost({node}) for node in range(lives.n_nodes)]
    assert tree.owner.tolist() == [innermost(set(some)) for some in members]
    whole = tree.contains_all(lives, np.arange(len(lives)))
    for cluster, some in enumerate(members):
        branch = int(tree.owner[cluster])
        inside = set().union(*(nodes[one] for one in np.flatnonzero(tree.parent == branch).tolist()))
        expected = inside <= set(some) if inside else set(some) == nodes[branch]
        assert bool(whole[cluster]) == (expected and tree.top[branch] >= 0)


@given(graphs(), KINDS, st.integers(1, 4), st.data())
@examples(60)
def test_central_nodes_are_those_that_merge_first(graph: Graph, weights: str, count: int, data: st.DataObject) -> None:
    lives = lives_of(graph, weights)
    members = members_of(lives)
    wanted = data.draw(st.lists(st.integers(0, len(lives) - 1), max_size=8)) if len(lives) else []
    found = central_nodes(lives, np.array(wanted, np.int64), count)
    expected = [(members[cluster] + [-1] * count)[:count] for cluster in wanted]
    assert found.tolist() == expected


def test_a_chain_keeps_what_it_is_made_of() -> None:
    """Two dense groups that lose single nodes one by one: the tree shows the groups, not the strays."""
    groups = [np.arange(40) / 8 + 1_000 * at for at in range(2)]
    strays = np.cumsum(np.arange(1, 31)) * 2.0 + 1_005
    points = np.concatenate((*groups, strays))[:, None]
    lives = dask_rac.cluster(points, "single", metric="euclidean")._lives
    tree = outline_of(lives, 2)
    assert tree.size.tolist() == [110, 70, 40]
    assert tree.split.tolist() == [len(lives) - 1, -1, -1]
    assert tree.homes(lives, np.array([0, 40, 109])).tolist() == [2, 1, 1]
