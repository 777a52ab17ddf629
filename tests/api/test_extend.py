"""Adding edges by single linkage gives the merges of all edges at once, to the last bit."""

from pathlib import Path
from typing import Any
from zipfile import ZipFile

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac import InputError, StoreError
from tests.support.effort import examples
from tests.support.folders import no_fsync, quick_folder
from tests.support.graphs import as_frame, columns, tangled_edges
from tests.support.root import ROOT
from tests.support.stored import PlugPulledError, stop_after
from tests.support.strategies import CEILINGS, WEIGHTS, Graph, colliding_graphs, graphs

COLUMNS = ["left", "right", "height", "size"]


def merges(clustering: dask_rac.Clustering) -> list[list[Any]]:
    """All merges but their rounds, to the last bit."""
    frame: Any = clustering.merges
    frame = frame.compute() if hasattr(frame, "compute") else frame
    listed: list[list[Any]] = frame[COLUMNS].map(lambda value: float(value).hex()).to_numpy().tolist()
    return listed


def halves(graph: Graph, cut: int) -> tuple[Graph, Graph]:
    """The first edges, with as many nodes as they need, and the rest."""
    first, rest = graph.edges[:cut], graph.edges[cut:]
    return Graph(1 + max((max(u, v) for u, v, _ in first), default=0), first), Graph(graph.n_nodes, rest)


@st.composite
def cut_graphs(draw: st.DrawFn) -> tuple[Graph, Graph, Graph, dict[str, Any]]:
    """A graph, its two halves, and how it is clustered."""
    graph = draw(st.one_of(graphs(), graphs(), colliding_graphs()))
    order = draw(st.permutations(graph.edges))
    options = {"weights": draw(WEIGHTS), "max_height": draw(CEILINGS)}
    return graph, *halves(Graph(graph.n_nodes, list(order)), draw(st.integers(0, len(order)))), options


@pytest.mark.kernels
@given(cut_graphs())
@examples(80)
def test_in_memory(given_graphs: tuple[Graph, Graph, Graph, dict[str, Any]]) -> None:
    graph, first, rest, options = given_graphs
    whole = dask_rac.cluster(columns(graph), "single", n_nodes=graph.n_nodes, **options)
    old = dask_rac.cluster(columns(first), "single", n_nodes=first.n_nodes, **options)
    found = dask_rac.extend(old, columns(rest), n_nodes=graph.n_nodes)
    assert merges(found) == merges(whole)
    assert found.n_nodes == graph.n_nodes
    again = dask_rac.extend(found, columns(first))  # nothing new
    assert merges(again) == merges(whole)
    assert (again.merges["round"] == 0).all()


@pytest.mark.parametrize("shards", [1, 2, 7])
@given(given_graphs=cut_graphs())
@examples(6)
def test_through_stores(shards: int, given_graphs: tuple[Graph, Graph, Graph, dict[str, Any]]) -> None:
    graph, first, rest, options = given_graphs
    whole = dask_rac.cluster(columns(graph), "single", n_nodes=graph.n_nodes, **options)
    with quick_folder() as folder, no_fsync():
        dask_rac.cluster(
            columns(first), "single", n_nodes=first.n_nodes, store=folder / "old", shards=shards, **options
        )
        found = dask_rac.extend(
            folder / "old", columns(rest), n_nodes=graph.n_nodes, store=folder / "new", shards=shards
        )
        assert merges(found) == merges(whole)
        assert merges(dask_rac.extend(folder / "old", columns(rest), n_nodes=graph.n_nodes)) == merges(whole)
        old = dask_rac.cluster(columns(first), "single", n_nodes=first.n_nodes, **options)
        mixed = dask_rac.extend(old, columns(rest), n_nodes=graph.n_nodes, store=folder / "mixed")
        assert merges(mixed) == merges(whole)


EDGES = as_frame(tangled_edges(3000, 9000, 40, seed=5))
OLD, NEW = EDGES.iloc[:4000], EDGES.iloc[4000:]


@pytest.mark.parametrize("form", ["frame", "file", "dask", "columns", "matrix"])
def test_new_edges_in_any_form(form: str, tmp_path: Path) -> None:
    nodes = int(EDGES[["source", "target"]].max().max()) + 1
    whole = dask_rac.cluster(EDGES, "single")
    old = dask_rac.cluster(OLD, "single")
    given_edges: Any = NEW
    if form == "file":
        given_edges = tmp_path / "new.parquet"
        NEW.to_parquet(given_edges)
    elif form == "dask":
        given_edges = dd.from_pandas(NEW, npartitions=3)
    elif form == "columns":
        given_edges = tuple(NEW[name].to_numpy() for name in NEW)
    elif form == "matrix":
        given_edges = sp.coo_array((NEW["weight"], (NEW["source"], NEW["target"])), shape=(nodes, nodes)).tocsr()
    assert merges(dask_rac.extend(old, given_edges)) == merges(whole)
    assert merges(dask_rac.extend(old, given_edges, store=tmp_path / "run", memory="50MB")) == merges(whole)


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    NEW.to_parquet(tmp_path / "new.parquet")
    dask_rac.cluster(OLD, "single", store=tmp_path / "old", shards=2)
    with pytest.raises(PlugPulledError):
        dask_rac.extend(
            tmp_path / "old", tmp_path / "new.parquet", store=tmp_path / "run", shards=2, progress=stop_after(1)
        )
    found = dask_rac.resume(tmp_path / "run")
    assert merges(found) == merges(dask_rac.cluster(EDGES, "single"))
    assert found.verify(EDGES).ok
    with pytest.raises(InputError, match="were not on disk: give them again"):
        found.verify()


@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_an_edge_that_is_there_counts_with_the_nearer_weight(weights: str) -> None:
    rng = np.random.default_rng(1)
    again = OLD.sample(1000, random_state=1)
    again = again.assign(weight=again["weight"] + rng.integers(-1, 2, size=len(again))).clip(lower=0)
    both = pd.concat([OLD, again, NEW])
    whole = dask_rac.cluster(both, "single", weights=weights, duplicates={"distance": "min"}.get(weights, "max"))
    found = dask_rac.extend(dask_rac.cluster(OLD, "single", weights=weights), pd.concat([again, NEW]))
    assert merges(found) == merges(whole)


def test_all_pairs_and_new_points_with_their_edges() -> None:
    rng = np.random.default_rng(2)
    points = rng.integers(0, 6, size=(70, 3)).astype(float)
    whole = dask_rac.cluster(points, "single")
    edges = dask_rac.complete_graph(points)
    new = edges[edges[["source", "target"]].max(axis=1) >= 50]
    found = dask_rac.extend(dask_rac.cluster(points[:50], "single"), new)
    assert merges(found) == merges(whole)
    assert found.verify(edges).ok


def test_all_pairs_in_a_store_keep_their_forest(tmp_path: Path) -> None:
    points = np.random.default_rng(3).normal(size=(40, 2))
    stored = dask_rac.cluster(points, "single", store=tmp_path / "run")
    assert merges(dask_rac.extend(stored, ([0], [1], [9.0]))) == merges(stored)


def test_self_loops_are_dropped_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="dropped 1 self loop: a node has no distance to itself"):
        dask_rac.extend(dask_rac.cluster(OLD, "single"), ([3, 4], [3, 5], [1.0, 2.0]))


def test_a_store_of_an_earlier_version_has_no_forest(tmp_path: Path) -> None:
    with ZipFile(ROOT / "tests/fixtures/stores/single-finished.zip") as packed:
        packed.extractall(tmp_path)
    (store,) = (path.parent for path in tmp_path.rglob("rac.json"))
    with pytest.raises(InputError, match="earlier version, which did not keep the spanning forest"):
        dask_rac.extend(store, ([0], [1], [1.0]))


def test_refusals(tmp_path: Path) -> None:
    old = dask_rac.cluster(OLD, "single")
    with pytest.raises(InputError, match="by single linkage only, and this clustering is by average linkage"):
        dask_rac.extend(dask_rac.cluster(OLD, "average"), NEW)
    with pytest.raises(InputError, match=r"n_nodes=5 is less than the .* nodes of the clustering"):
        dask_rac.extend(old, NEW, n_nodes=5)
    with pytest.raises(InputError, match="memory= is only for runs through the disk"):
        dask_rac.extend(old, NEW, memory="1GB")
    with pytest.raises(InputError, match="duplicates='first'"):
        dask_rac.extend(old, NEW, duplicates="first")
    with pytest.raises(InputError, match="column 'weight' has two values for 1 edge"):
        dask_rac.extend(old, ([0, 0], [1, 1], [1.0, 2.0]))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    with pytest.raises(StoreError, match="not empty"):
        dask_rac.extend(old, NEW, store=tmp_path / "run")
    with pytest.raises(StoreError, match="does not exist"):
        dask_rac.extend(tmp_path / "nowhere", NEW)


def test_edges_between_names_are_refused(tmp_path: Path) -> None:
    text = pd.DataFrame({"source": ["ann", "bob"], "target": ["bob", "cid"], "weight": [1.0, 2.0]})
    old = dask_rac.cluster(text, "single")
    text.to_csv(tmp_path / "more.csv", index=False)
    text.to_parquet(tmp_path / "more.parquet")
    dask_rac.ingest(tmp_path / "more.csv", tmp_path / "more")
    for edges in (text, tmp_path / "more.parquet", tmp_path / "more"):
        with pytest.raises(dask_rac.InputError, match="takes the numbers of its nodes"):
            dask_rac.extend(old, edges)
    assert old.names is not None
    one, other = old.names.find(["ann"]), old.names.find(["cid"])
    dask_rac.extend(old, (one, other, [0.5]), store=tmp_path / "run")
    assert dask_rac.open(tmp_path / "run").members(node="ann", height=0.5).tolist() == ["ann", "cid"]
