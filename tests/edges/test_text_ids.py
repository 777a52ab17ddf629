"""Edges with text ids are clustered as if their nodes had been numbered by hand, whatever form they have."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.edges.columns import open_columns
from dask_rac.edges.convert import convert
from dask_rac.edges.shuffle import Piece, choose_splitters
from dask_rac.edges.text import TextLayout, TextLimits
from dask_rac.edges.writing import FileSizes
from dask_rac.engines.contract import Limits
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.limits import cluster_within
from tests.support.results import merge_set
from tests.support.text_ids import NamedGraph, named_graph, named_graphs, random_graph

TINY = Limits(text_bytes=100, batch_rows=3, unit_rows=5, part_names=3)
"""Pieces of a few edges, ranges of a few names."""


def typed(kind: Any) -> Callable[[pd.DataFrame], Any]:
    """Return a function that gives ids a type of pandas."""
    return lambda frame: frame.astype({"source": kind, "target": kind})


def as_arrow(kind: pa.DataType) -> Callable[[pd.DataFrame], Any]:
    """Return a function that gives ids a type of Arrow."""
    schema = pa.schema([("source", kind), ("target", kind), ("weight", pa.float64())])
    return lambda frame: pa.Table.from_pandas(frame, preserve_index=False).cast(schema)


FORMS: dict[str, Callable[[pd.DataFrame], Any]] = {
    "object": typed(object),
    "str": typed("str"),
    "category": typed("category"),
    "arrow in pandas": typed(pd.ArrowDtype(pa.string())),
    "two types": lambda frame: frame.astype({"source": "category", "target": "str"}),
    "string": as_arrow(pa.string()),
    "large_string": as_arrow(pa.large_string()),
    "string_view": as_arrow(pa.string_view()),
    "dictionary": as_arrow(pa.dictionary(pa.int8(), pa.string())),
    "arrays": lambda frame: tuple(np.array(frame[name].tolist()) for name in frame),
    "object arrays": lambda frame: tuple(frame[name].to_numpy() for name in frame),
    "numpy's strings": lambda frame: tuple(
        np.array(frame[name].tolist(), np.dtypes.StringDType() if name != "weight" else float) for name in frame
    ),
    "lists": lambda frame: tuple(frame[name].tolist() for name in frame),
    "columns": lambda frame: tuple(frame[name] for name in frame),
    "Dask": lambda frame: dd.from_pandas(frame, npartitions=3),
}


def names_in(clustering: dask_rac.Clustering) -> list[str]:
    assert clustering.names is not None
    found: list[str] = clustering.names.slice(0, clustering.n_nodes).to_pylist()
    assert len(clustering.names) == clustering.n_nodes
    return found


def check(found: dask_rac.Clustering, graph: NamedGraph, **settings: Any) -> None:
    """The tree is that of the graph that was numbered by hand, and names are in order."""
    expected = dask_rac.cluster(graph.numbered, **settings)
    assert merge_set(found) == merge_set(expected)
    assert names_in(found) == graph.names


@pytest.mark.parametrize("form", list(FORMS))
@examples(12)
@given(graph=named_graphs(), weights=st.sampled_from(["distance", "similarity"]))
def test_every_form_is_the_graph_numbered_by_hand(form: str, graph: NamedGraph, weights: str) -> None:
    edges = FORMS[form](graph.frame)
    found = dask_rac.cluster(edges, weights=weights, progress=False)
    check(found, graph, weights=weights)
    found.verify(edges)


@examples(20)
@given(named_graphs(), st.randoms(use_true_random=False))
def test_the_order_of_rows_does_not_matter(graph: NamedGraph, random: Any) -> None:
    rows = list(range(len(graph.frame)))
    random.shuffle(rows)
    turned = graph.frame.iloc[rows].rename(columns={"source": "target", "target": "source"})
    check(dask_rac.cluster(turned), graph)


@examples(15)
@given(named_graphs(), st.sampled_from(["average", "complete", "single"]), st.integers(1, 3))
def test_in_pieces_through_a_store_it_is_the_same(graph: NamedGraph, linkage: str, shards: int) -> None:
    with quick_folder() as folder:
        graph.frame.to_parquet(folder / "edges.parquet", row_group_size=4)
        found = cluster_within(TINY, folder / "edges.parquet", linkage, store=folder / "run", shards=shards)
        check(found, graph, linkage=linkage)
        opened = dask_rac.open(folder / "run")
        assert names_in(opened) == graph.names
        found.verify()
        found.verify(graph.frame)
        assert not list((folder / "run/rounds").iterdir())


@examples(15)
@given(named_graphs(), st.sampled_from([30, 2**22]))
def test_ingested_text_and_parquet_are_the_same(graph: NamedGraph, block: int) -> None:
    with quick_folder() as folder:
        graph.frame.to_csv(folder / "edges.csv", index=False)
        graph.frame.to_parquet(folder / "edges.parquet", row_group_size=4)
        for name in ("edges.csv", "edges.parquet"):
            ingested(folder / name, folder / f"{name}.edges", block)
            check(dask_rac.cluster(folder / f"{name}.edges"), graph)
        check(dask_rac.cluster(folder / "edges.csv.edges", store=folder / "run"), graph)
        rows = pd.read_parquet(folder / "edges.csv.edges")
        assert [graph.names[node] for node in rows["source"]] == graph.frame["source"].tolist()
        assert len(dd.read_parquet(folder / "edges.csv.edges")) == len(graph.frame)


def ingested(path: Path, store: Path, block: int) -> None:
    """Do what `ingest` does, in small pieces."""
    source = open_columns(path, TextLayout(("source", "target", "weight"), None, True))
    if path.suffix == ".csv":
        block = max(block, *(len(line) + 2 for line in path.read_bytes().splitlines()))
    # Among the names are numbers, which blocks of their own would be.
    source = replace(source, limits=TextLimits(block, max(block // 2, 30)), named=True)
    convert(source, store, lambda _: None, FileSizes(text_bytes=100))


def test_a_list_of_numbers_with_one_word_is_all_names_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target,weight\n1,10,2\n10,x,3\n01,1,4\n")
    with pytest.warns(
        UserWarning, match=r"'x' in line 3 of \S*edges.csv is not a number, so all ids are taken as names"
    ):
        dask_rac.ingest(tmp_path / "edges.csv", tmp_path / "edges")
    assert names_in(dask_rac.cluster(tmp_path / "edges")) == ["01", "1", "10", "x"]


def test_blanks_around_names_in_text_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text('source,target,weight\na, b ,2\n" b",c d,3\n')
    dask_rac.ingest(tmp_path / "edges.csv", tmp_path / "edges")
    assert names_in(dask_rac.cluster(tmp_path / "edges")) == ["a", "b", "c d"]


def test_ids_without_weights_may_be_text(tmp_path: Path) -> None:
    (tmp_path / "edges.txt").write_text("# from to\nann  bob\nbob\tcid\n")
    dask_rac.ingest(tmp_path / "edges.txt", tmp_path / "edges", columns=(0, 1, None), header=False)
    found = dask_rac.cluster(tmp_path / "edges")
    assert names_in(found) == ["ann", "bob", "cid"]
    assert set(found.merges["height"]) == {1.0, 1.5}  # the absent pair is at 2


def test_numbers_may_be_names(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target,weight\n007,12,1.0\n7,12,2.0\n")
    pd.DataFrame({"source": [7, 9], "target": [12, 12], "weight": [1.0, 2.0]}).to_parquet(tmp_path / "edges.parquet")
    for name, names in (("edges.csv", ["007", "12", "7"]), ("edges.parquet", ["12", "7", "9"])):
        dask_rac.ingest(tmp_path / name, tmp_path / f"{name}.edges", text_ids=True)
        assert names_in(dask_rac.cluster(tmp_path / f"{name}.edges")) == names
    with pytest.raises(dask_rac.InputError, match="text_ids='yes' is neither True nor False"):
        dask_rac.ingest(tmp_path / "edges.csv", tmp_path / "other", text_ids="yes")  # type: ignore[arg-type]


def test_names_beside_edges_state_the_number_of_nodes(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text("source,target,weight\nann,bob,1.0\n")
    dask_rac.ingest(tmp_path / "edges.csv", tmp_path / "edges")
    with pytest.raises(dask_rac.InputError, match="n_nodes=3 differs from the 2 names in"):
        dask_rac.cluster(tmp_path / "edges", n_nodes=3)
    with pytest.raises(dask_rac.InputError, match="n_nodes=3 differs from the 2 names in"):
        dask_rac.cluster(tmp_path / "edges", n_nodes=3, store=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_float32_weights_stay(tmp_path: Path) -> None:
    frame = random_graph(30, 60).frame.astype({"weight": "float32"})
    frame.to_parquet(tmp_path / "text.parquet")
    dask_rac.ingest(tmp_path / "text.parquet", tmp_path / "edges")
    assert pq.read_schema(tmp_path / "edges/part-00000.parquet").field("weight").type == pa.float32()


def test_faults_are_found_in_the_rows_of_the_user() -> None:
    frame, small = random_graph(40, 200).frame, Limits(text_bytes=2000, batch_rows=30, unit_rows=60)
    at = frame.index == 70
    cases: dict[str, tuple[pd.DataFrame, str]] = {
        "two weights": (pd.concat([frame, frame.iloc[[5]].assign(weight=9.0)]), r"'.*'-'.*': .* in row 5 of \S*x.parq"),
        "negative": (frame.assign(weight=frame["weight"].mask(at, -1)), r"negative in row 70 of \S*x.parquet"),
        "null": (frame.assign(source=frame["source"].mask(at, None)), r"'source' is null in row 70 of"),
        "empty": (frame.assign(target=frame["target"].mask(at, "")), r"'target' is empty in row 70 of"),
    }
    for edges, message in cases.values():
        with quick_folder() as folder:
            edges.to_parquet(folder / "x.parquet", row_group_size=40)
            with pytest.raises(dask_rac.InputError, match=message):
                cluster_within(small, folder / "x.parquet", store=folder / "run")
            assert not (folder / "run").exists()


def test_numbers_of_nodes_and_names_do_not_apply(tmp_path: Path) -> None:
    graph = random_graph(20, 40)
    graph.frame.to_parquet(tmp_path / "edges.parquet")
    for edges in (graph.frame, tmp_path / "edges.parquet"):
        for more in ({"n_nodes": 50}, {"names": list("abc")}):
            for store in (None, tmp_path / "run"):
                with pytest.raises(dask_rac.InputError, match="n_nodes= and names= do not apply: leave them out"):
                    dask_rac.cluster(edges, store=store, **more)
    with pytest.raises(
        dask_rac.InputError, match=r"estimate it with n_nodes=, or convert the edges with dask_rac.ingest"
    ):
        dask_rac.plan(tmp_path / "edges.parquet")
    assert dask_rac.plan(tmp_path / "edges.parquet", n_nodes=20).nodes == 20


def test_files_of_text_and_of_numbers_are_not_one_graph(tmp_path: Path) -> None:
    graph = random_graph(20, 40)
    (tmp_path / "edges").mkdir()
    graph.frame.to_parquet(tmp_path / "edges/a.parquet")
    pd.DataFrame(dict(zip(graph.frame, graph.numbered, strict=True))).to_parquet(tmp_path / "edges/b.parquet")
    for work in (dask_rac.cluster, lambda path: dask_rac.ingest(path, tmp_path / "store")):
        with pytest.raises(
            dask_rac.InputError, match=r"the ids in \S*a.parquet are text and those in \S*b.parquet are"
        ):
            work(tmp_path / "edges")


def test_text_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    broken = pa.array([b"a", b"\xff"]).view(pa.string())
    table = pa.table({"source": broken, "target": pa.array(["b", "c"]), "weight": [1.0, 2.0]})
    pq.write_table(table, tmp_path / "edges.parquet")
    for store in (None, tmp_path / "run"):
        with pytest.raises(dask_rac.InputError, match="a name is not UTF-8"):
            dask_rac.cluster(tmp_path / "edges.parquet", store=store)


def test_other_edges_do_not_verify(tmp_path: Path) -> None:
    graph = random_graph(20, 60)
    other = named_graph([("x" + u, v, w) for u, v, w in graph.frame.itertuples(index=False)])
    other.frame.to_parquet(tmp_path / "other.parquet")
    graph.frame.to_parquet(tmp_path / "edges.parquet")
    for found in (dask_rac.cluster(graph.frame), dask_rac.cluster(tmp_path / "edges.parquet", store=tmp_path / "run")):
        for edges in (other.frame, tmp_path / "other.parquet"):
            with pytest.raises(dask_rac.InputError, match=r"these edges name \d+ nodes, .*: give the edges that were"):
                found.verify(edges)


@examples(50)
@given(st.lists(st.lists(st.binary(max_size=3), min_size=1, unique=True).map(sorted), min_size=1), st.integers(1, 200))
def test_splitters_are_sorted_names_that_occur(pieces: list[list[bytes]], most: int) -> None:
    made = [Piece("", 0, len(names), sum(map(len, names)) + 24 * len(names), 0, tuple(names)) for names in pieces]
    found = choose_splitters(made, most)
    assert found == sorted(set(found))
    assert set(found) <= {name for names in pieces for name in names}
    assert len(found) <= sum(piece.weight for piece in made) // most
