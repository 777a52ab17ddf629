"""The top of the tree is that of all merges."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.tree.top import Branch
from tests.support.strategies import Graph, graphs


def whole_tree(clustering: dask_rac.Clustering, last: int, sign: float) -> list[Branch]:
    """Return the trees of the last merges, by applying all merges in order."""
    merges = clustering.merges
    order = np.lexsort((merges["left"], merges["size"], sign * merges["height"]))
    made = {node: Branch(node, 1, float("nan")) for node in range(clustering.n_nodes)}
    for place, merge in enumerate(order):
        row = merges.iloc[merge]
        left, right = int(row["left"]), int(row["right"])
        two = made.pop(left), made.pop(right)
        shown = two if place >= len(order) - last else ()
        made[left] = Branch(left, int(row["size"]), float(row["height"]), shown)
    return sorted(
        (branch for branch in made.values() if branch.children), key=lambda branch: (-branch.size, branch.node)
    )


@given(graphs(), st.integers(1, 8), st.sampled_from(["distance", "similarity"]))
def test_is_that_of_all_merges(graph: Graph, last: int, weights: str) -> None:
    edges = np.array(graph.edges).reshape(-1, 3).T
    clustering = dask_rac.cluster((*edges[:2].astype(int), edges[2]), weights=weights, n_nodes=graph.n_nodes)
    sign = 1.0 if weights == "distance" else -1.0
    assert repr(clustering.top(last)) == repr(whole_tree(clustering, last, sign))


def test_of_a_store_is_that_in_memory(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("top")
    edges = dask_rac.datasets.lattice(2000, 8, 0, folder / "edges")
    stored = dask_rac.cluster(edges, store=folder / "run", shards=3)
    assert repr(stored.top(20)) == repr(dask_rac.cluster(edges).top(20))


def test_of_nothing() -> None:
    assert dask_rac.cluster(([], [], []), n_nodes=3).top() == []
