"""Every form of edges gives the same first state, and every fault the same error as in memory, leaving no files."""

import os
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import dask.dataframe as dd
import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
import zarr
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.settings import EDGE_COLUMNS, checked_settings
from dask_rac.engines.contract import Limits
from dask_rac.engines.rows import packing as rows_columns
from dask_rac.engines.rows import receipts
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.graphs import columns, tangled_edges
from tests.support.limits import cluster_within
from tests.support.results import assert_same, fingerprint
from tests.support.stored import Columns, steps_of, write_parquet
from tests.support.strategies import COLLISIONS, Graph, graphs

NODES = 200
EDGES = tangled_edges(NODES, 600, 1000, seed=1)


def frame(edges: Columns = EDGES) -> pd.DataFrame:
    return pd.DataFrame(dict(zip(EDGE_COLUMNS, edges, strict=True)))


def parts(number: int) -> list[Columns]:
    """Split the edges into the given number of pieces."""
    u, v, weight = EDGES
    cuts = np.linspace(0, len(u), number + 1, dtype=int)
    return [(u[a:b], v[a:b], weight[a:b]) for a, b in pairwise(cuts.tolist())]


def one_file(folder: Path) -> Path:
    return write_parquet(folder / "edges.parquet", EDGES)


def mixed_files(folder: Path) -> Path:
    """Write files with different dtypes, one in a folder, one without rows, and one that does not hold edges."""
    kinds = [("i4", "i8", "f8"), ("u4", "f8", "f4"), ("f4", "u8", "i4"), ("i2", "u2", "u8"), ("i8", "i4", "f4")]
    (folder / "edges" / "deep").mkdir(parents=True)
    for number, (part, kind) in enumerate(zip(parts(5), kinds, strict=True)):
        home = folder / "edges" / ("deep" if number == 2 else "")
        u, v, weight = (column.astype(name) for column, name in zip(part, kind, strict=True))
        write_parquet(home / f"{number}.parquet", (u, v, weight))
    write_parquet(folder / "edges" / "9.parquet", (EDGES[0][:0], EDGES[1][:0], EDGES[2][:0]))
    (folder / "edges" / "README.txt").write_text("no edges")
    return folder / "edges"


def short_files(folder: Path) -> Path:
    (folder / "edges").mkdir()
    for number, (u, v, weight) in enumerate(parts(3)):
        write_parquet(folder / "edges" / f"{number}.parq", (u.astype("i4"), v.astype("i4"), weight.astype("f4")))
    return folder / "edges"


def row_groups(folder: Path) -> Path:
    return write_parquet(folder / "edges.parquet", EDGES, row_group_size=7)


def empty_groups(folder: Path) -> Path:
    """Write empty row groups between others."""
    table = pa.Table.from_pandas(frame())
    with pq.ParquetWriter(folder / "edges.parquet", table.schema) as writer:
        for start in range(0, len(table), 100):
            writer.write_table(table.slice(start, 100))
            writer.write_table(table.slice(0, 0))
    return folder / "edges.parquet"


def more_columns(folder: Path) -> Path:
    frame().assign(note="x", a=1.5)[["note", "weight", "target", "a", "source"]].to_parquet(folder / "edges.parquet")
    return folder / "edges.parquet"


def no_statistics(folder: Path) -> Path:
    return write_parquet(folder / "edges.parquet", EDGES, write_statistics=False)


def zarr_group(folder: Path, kinds: tuple[str, str, str] = ("i8", "i8", "f8"), **options: Any) -> Path:
    group = zarr.create_group(str(folder / "edges.zarr"))
    for name, column, kind in zip(EDGE_COLUMNS, EDGES, kinds, strict=True):
        group.create_array(name, data=column.astype(kind), **options)
    return folder / "edges.zarr"


def zarr_2(folder: Path) -> Path:
    group = zarr.create_group(str(folder / "edges.zarr"), zarr_format=2)
    for name, column in zip(EDGE_COLUMNS, EDGES, strict=True):
        group.create_array(name, data=column, chunks=(50,))
    return folder / "edges.zarr"


def on_another_file_system(folder: Path) -> str:
    url = f"memory://{folder.name}/edges.parquet"
    with fsspec.open(url, "wb") as file:
        file.write(one_file(folder).read_bytes())
    return url


FORMS: dict[str, Callable[[Path], Any]] = {
    "one file": one_file,
    "path as text": lambda folder: str(one_file(folder)),
    "files of mixed dtypes": mixed_files,
    "files of short numbers": short_files,
    "many row groups": row_groups,
    "row groups without a row": empty_groups,
    "more columns": more_columns,
    "no statistics": no_statistics,
    "URL": on_another_file_system,
    "Zarr, one chunk": zarr_group,
    "Zarr, chunks": lambda folder: zarr_group(folder, chunks=(30,)),
    "Zarr, short numbers": lambda folder: zarr_group(folder, ("u2", "f4", "f4"), chunks=(64,)),
    "Zarr, big-endian": lambda folder: zarr_group(folder, (">i4", ">i8", ">f8"), chunks=(64,)),
    "Zarr, shards": lambda folder: zarr_group(folder, chunks=(10,), shards=(50,)),
    "Zarr 2": zarr_2,
    "Dask DataFrame": lambda _: dd.from_pandas(frame(), npartitions=4),
    "Dask DataFrame, more columns": lambda _: dd.from_pandas(frame().assign(note="x"), npartitions=2),
    "DataFrame": lambda _: frame(),
    "arrays": lambda _: EDGES,
    "lists": lambda _: tuple(column.tolist() for column in EDGES),
    "Arrow table": lambda _: pa.Table.from_pandas(frame()),
    "matrix": lambda _: sp.coo_array((EDGES[2], EDGES[:2]), shape=(NODES, NODES)).tocsr(),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("pieces", ["whole", "tiny"])
def test_every_form_of_edges_gives_the_same_merges(form: str, pieces: str, folder: Path) -> None:
    expected = dask_rac.cluster(EDGES, n_nodes=NODES)
    limits = Limits(unit_rows=9, batch_rows=4) if pieces == "tiny" else Limits()
    found = cluster_within(limits, FORMS[form](folder), n_nodes=NODES, store=folder / "run", shards=3)
    assert_same(found, expected)
    assert "input" not in os.listdir(folder / "run")


def test_partitions_without_rows(folder: Path) -> None:
    edges = dd.from_pandas(frame(), npartitions=4)
    some = edges[edges["weight"] > 2000]  # none
    found = dask_rac.cluster(dd.concat([some, edges, some]), store=folder / "run", shards=2)
    assert_same(found, dask_rac.cluster(EDGES))


def test_short_weights_stay_short_on_disk_until_they_are_added(folder: Path) -> None:
    dask_rac.cluster(short_files(folder), store=folder / "run", progress=lambda _: None)
    shards = steps_of(folder / "run")[0].state
    assert shards is not None
    (weight,) = (file for file in shards.shards[0].files if file.name.endswith("/weight"))
    assert weight.bytes < 8 * shards.entries


@pytest.mark.parametrize("linkage", ["average", "single"])
@pytest.mark.parametrize("n_nodes", [None, 0, 1, 7])
@pytest.mark.parametrize("on_disk", [False, True])
def test_a_graph_without_edges(linkage: str, n_nodes: int | None, on_disk: bool, folder: Path) -> None:
    none = (np.empty(0, int), np.empty(0, int), np.empty(0))
    edges = write_parquet(folder / "edges.parquet", none) if on_disk else none
    found = dask_rac.cluster(edges, linkage, n_nodes=n_nodes, store=folder / "run", shards=3)
    assert_same(found, dask_rac.cluster(none, linkage, n_nodes=n_nodes))
    assert found.labels.tolist() == list(range(n_nodes or 0))
    assert found.cut(height=1.0).tolist() == list(range(n_nodes or 0))
    assert found.verify(edges).merges == 0
    assert found.finished
    assert repr(found)
    assert dask_rac.open(folder / "run").n_trees == (n_nodes or 0)


@pytest.mark.parametrize("n_nodes", [NODES, NODES + 1, 10_000])
def test_more_nodes_than_ids(n_nodes: int, folder: Path) -> None:
    found = dask_rac.cluster(one_file(folder), n_nodes=n_nodes, store=folder / "run", shards=3)
    assert_same(found, dask_rac.cluster(EDGES, n_nodes=n_nodes))


@pytest.mark.parametrize("spread", [1, 50, 5000])
def test_ids_far_apart(spread: int, folder: Path) -> None:
    # More ids than there are bins to count them in.
    edges: Columns = EDGES[0] * spread, EDGES[1] * spread, EDGES[2]
    found = dask_rac.cluster(write_parquet(folder / "e.parquet", edges), store=folder / "run", shards=4)
    assert_same(found, dask_rac.cluster(edges))
    first = steps_of(folder / "run")[0].state
    assert first is not None
    assert len(first.shards) == 4
    assert max(shard.entries for shard in first.shards) < 0.5 * first.entries


@pytest.mark.parametrize("form", ["file", "arrays", "dask"])
def test_self_loops_are_dropped_and_counted(form: str, folder: Path) -> None:
    loops: Columns = np.array([0, 1, 2, 1]), np.array([1, 1, 2, 2]), np.array([1.0, 9.0, 9.0, 2.0])
    edges = {
        "file": write_parquet(folder / "edges.parquet", loops),
        "arrays": loops,
        "dask": dd.from_pandas(frame(loops), npartitions=2),
    }[form]
    with pytest.warns(UserWarning, match="dropped 2 self loops: a node has no distance to itself") as caught:
        found = dask_rac.cluster(edges, store=folder / "run", shards=2)
    assert caught[0].filename == __file__
    assert found.merges.compute()["height"].tolist() == [1.0, 3.0]  # an absent pair is as far as the longer edge twice


def test_self_loops_do_not_bound_what_is_missing(folder: Path) -> None:
    loops: Columns = np.array([0, 1, 2, 1]), np.array([1, 1, 2, 2]), np.array([1.0, 9.0, 9.0, 2.0])
    edges = write_parquet(folder / "edges.parquet", loops)
    with pytest.warns(UserWarning, match="dropped 2 self loops"):
        found = [dask_rac.cluster(edges, missing=2.0), dask_rac.cluster(edges, missing=2.0, store=folder / "run")]
    assert_same(found[1], found[0])


# Duplicates.


@examples(40)
@given(graphs(), st.randoms(use_true_random=False), st.sampled_from(["min", "max", "mean"]), st.integers(1, 4))
def test_duplicates_become_what_they_become_in_memory(graph: Graph, random: Any, policy: str, files: int) -> None:
    drawn = [
        (*edge[:2], edge[2] + random.choice([0, 0.1, 0.3])) for edge in graph.edges for _ in range(random.randint(1, 4))
    ]
    random.shuffle(drawn)
    turned = [(u, v, w) if random.random() < 0.5 else (v, u, w) for u, v, w in drawn]
    u, v, weight = columns(Graph(graph.n_nodes, turned))
    expected = dask_rac.cluster((u, v, weight), duplicates=policy, n_nodes=graph.n_nodes)
    with quick_folder() as folder:
        (folder / "edges").mkdir()
        for k in range(files):
            write_parquet(folder / "edges" / f"{k}.parquet", (u[k::files], v[k::files], weight[k::files]))
        found = dask_rac.cluster(
            folder / "edges", duplicates=policy, n_nodes=graph.n_nodes, store=folder / "run", shards=2
        )
        assert_same(found, expected)
        assert found.verify().ok


@pytest.mark.parametrize(
    "policy",
    ["min", "max", "mean"],
)
def test_duplicates_of_short_weights(policy: str, folder: Path) -> None:
    weight = np.array([0.1, 0.3, 0.7, 0.9], np.float32)
    edges: Columns = np.array([0, 0, 1, 1]), np.array([1, 1, 0, 2]), weight
    source = write_parquet(folder / "edges.parquet", edges)
    expected = dask_rac.cluster(source, duplicates=policy)
    assert_same(dask_rac.cluster(source, duplicates=policy, store=folder / "run", shards=2), expected)


@pytest.mark.parametrize("shards", [1, 3])
def test_zeros_of_either_sign_are_one(shards: int, folder: Path) -> None:
    edges: Columns = np.array([0, 1, 1, 2]), np.array([1, 0, 2, 1]), np.array([0.0, -0.0, -0.0, 0.0])
    found = dask_rac.cluster(write_parquet(folder / "e.parquet", edges), store=folder / "run", shards=shards)
    assert_same(found, dask_rac.cluster(edges))
    assert not np.signbit(found.merges.compute()["height"]).any()


# Faults, all in the second row group of the second file.

BAD_ROW = 70


def with_fault(folder: Path, column: str, value: Any, kind: Any = None) -> Path:
    """Write two files of edges, valid except for one value."""
    (folder / "edges").mkdir()
    first, second = parts(2)
    write_parquet(folder / "edges" / "a.parquet", first, row_group_size=50)
    table = {name: pa.array(values) for name, values in zip(EDGE_COLUMNS, second, strict=True)}
    values = table[column].to_pylist()
    values[BAD_ROW] = value
    table[column] = pa.array(values, kind or table[column].type)
    pq.write_table(pa.table(table), folder / "edges" / "b.parquet", row_group_size=50)
    return folder / "edges"


FAULTS: list[tuple[str, Any, Any, str]] = [
    ("weight", None, None, "column 'weight' is null in row 70 of {}: drop or fill them"),
    ("weight", float("nan"), None, "column 'weight' is NaN in row 70 of {}: drop or fill them"),
    ("weight", float("inf"), None, "column 'weight' is infinite in row 70 of {} (inf): drop these edges"),
    ("weight", -0.5, None, "column 'weight' is negative in row 70 of {} (-0.5): distances are 0 or more"),
    ("source", None, None, "column 'source' is null in row 70 of {}: drop or fill them"),
    ("target", -3, None, "column 'target' is negative in row 70 of {} (-3): ids are 0, 1, 2, ..."),
    ("source", 500, None, "column 'source' is at or beyond 200 in row 70 of {} (500): raise n_nodes or drop these"),
    ("target", 1.5, pa.float64(), "column 'target' is not a whole number in row 70 of {} (1.5): ids are 0, 1, 2, ..."),
    ("target", float("nan"), pa.float64(), "column 'target' is null in row 70 of {}: drop or fill them"),
]


@pytest.mark.parametrize(("column", "value", "kind", "message"), FAULTS)
def test_faults_are_named_as_in_memory_and_leave_nothing(
    column: str, value: Any, kind: Any, message: str, folder: Path
) -> None:
    edges = with_fault(folder, column, value, kind)
    expected = re.escape(message.format(edges / "b.parquet"))
    with pytest.raises(dask_rac.InputError, match=expected) as in_memory:
        dask_rac.cluster(edges, n_nodes=NODES)
    with pytest.raises(dask_rac.InputError, match=expected) as found:
        dask_rac.cluster(edges, n_nodes=NODES, store=folder / "run", shards=2)
    assert str(found.value) == str(in_memory.value)
    assert os.listdir(folder) == ["edges"]


@pytest.mark.parametrize(("column", "value", "what"), [("weight", -1.0, "negative"), ("weight", np.nan, "(null|NaN)")])
def test_faults_in_zarr_and_dask(column: str, value: float, what: str, folder: Path) -> None:
    edges = zarr_group(folder, chunks=(50,))
    zarr.open_group(str(edges))[column][BAD_ROW] = value  # type: ignore[index]
    with pytest.raises(dask_rac.InputError, match=rf"'weight' is {what} in row 70 of .*edges\.zarr"):
        dask_rac.cluster(edges, store=folder / "run", shards=2)
    bad = frame()
    bad.loc[BAD_ROW, column] = value
    with pytest.raises(dask_rac.InputError, match=rf"'weight' is {what} in row \d+ of .*partition-\d+"):
        dask_rac.cluster(dd.from_pandas(bad, npartitions=3), store=folder / "run", shards=2)
    assert os.listdir(folder) == ["edges.zarr"]


@pytest.mark.parametrize("on_disk", [False, True])
def test_two_weights_for_an_edge_name_both_rows(on_disk: bool, folder: Path) -> None:
    (folder / "edges").mkdir()
    first, second = parts(2)
    again = first[1][5], first[0][5], 0.125
    u, v, weight = (np.append(column, value) for column, value in zip(second, again, strict=True))
    write_parquet(folder / "edges" / "a.parquet", first, row_group_size=50)
    write_parquet(folder / "edges" / "b.parquet", (u, v, weight), row_group_size=50)
    lo, hi = first[0][5], first[1][5]
    row = len(first[0]) + len(second[0])
    places = ("row 5", f"row {row}")
    if on_disk:
        places = (f"row 5 of {folder}/edges/a.parquet", f"row {len(second[0])} of {folder}/edges/b.parquet")
    edges: Any = folder / "edges"
    if not on_disk:
        edges = tuple(np.concatenate(pair) for pair in zip(first, (u, v, weight), strict=True))
    message = (
        f"column 'weight' has two values for 1 edge, first {lo}-{hi}: {first[2][5]} in {places[0]}, 0.125 in "
        f"{places[1]}; choose duplicates='min', 'max' or 'mean'"
    )
    ways: list[dict[str, Any]] = [{}, {"store": folder / "run", "shards": 3}]
    for options in ways:
        with pytest.raises(dask_rac.InputError, match=re.escape(message)):
            dask_rac.cluster(edges, **options)
    assert os.listdir(folder) == ["edges"]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: folder / "nowhere", "nowhere does not exist: give the path of a Parquet file or folder"),
        (lambda folder: folder, "holds no Parquet files and is not a Zarr group"),
        (lambda _: dd.from_pandas(frame().drop(columns="target"), npartitions=2), "no column 'target': it needs"),
        (lambda _: frame().drop(columns="weight"), "no column 'weight': it needs"),
        (lambda _: [(0, 1, 2.0), (1, 2, 3.0)], "it may hold edges or vectors: pass pandas.DataFrame"),
        (lambda _: "", "edges='' is not a path"),
    ],
)
def test_edges_that_are_none(make: Callable[[Path], Any], message: str, folder: Path) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(make(folder), store=folder / "run")
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"source": np.arange(3), "target": np.arange(3)}, "has no array 'weight': it needs source, target, weight"),
        (
            {"source": np.arange(3), "target": np.arange(4), "weight": np.ones(3)},
            r"must have equal lengths, not {'source': 3, 'target': 4",
        ),
        (
            {"source": np.arange(3), "target": np.arange(3), "weight": np.ones((3, 1))},
            "array 'weight' of .* is 2-dimensional float64: store one dimension of numbers",
        ),
    ],
)
def test_zarr_groups_that_hold_no_edges(arrays: dict[str, Any], message: str, folder: Path) -> None:
    group = zarr.create_group(str(folder / "edges.zarr"))
    for name, column in arrays.items():
        group.create_array(name, data=column)
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(folder / "edges.zarr", store=folder / "run")


@pytest.mark.parametrize("duplicates", ["error", "min"])
def test_a_weight_for_missing_pairs_that_is_too_near(duplicates: str, folder: Path) -> None:
    options: dict[str, Any] = {"missing": 500.0, "duplicates": duplicates}
    with pytest.raises(dask_rac.InputError, match=r"missing=500.0 is nearer than the largest weight, \d") as expected:
        dask_rac.cluster(EDGES, **options)
    with pytest.raises(dask_rac.InputError, match=re.escape(str(expected.value))):
        dask_rac.cluster(one_file(folder), store=folder / "run", **options)
    assert os.listdir(folder) == ["edges.parquet"]


def damaged_file(folder: Path) -> Path:
    """Write a file with one wrong byte in a page."""
    edges = write_parquet(
        folder / "edges.parquet", EDGES, compression="none", use_dictionary=False, write_page_checksum=True
    )
    data = bytearray(edges.read_bytes())
    data[500] ^= 255
    edges.write_bytes(data)
    return edges


def test_a_damaged_file_is_named_and_leaves_nothing(folder: Path) -> None:
    edges = damaged_file(folder)
    with pytest.raises(dask_rac.InputError, match=r"edges\.parquet cannot be read"):
        dask_rac.cluster(edges)
    with pytest.raises(dask_rac.InputError, match=r"edges\.parquet cannot be read"):
        dask_rac.cluster(edges, store=folder / "run")
    assert os.listdir(folder) == ["edges.parquet"]


@pytest.mark.parametrize("options", [{}, {"store": "run"}])
def test_an_infinite_id_is_refused(options: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    edges = write_parquet(folder / "e.parquet", (np.array([0.0, np.inf]), np.array([1.0, 2.0]), np.ones(2)))
    with pytest.raises(dask_rac.InputError, match="column 'source' is too large for a float in row 1"):
        dask_rac.cluster(edges, **options)


def test_weights_that_add_up_to_infinity(folder: Path) -> None:
    (folder / "edges").mkdir()
    u = np.arange(40)
    for k in range(10):
        part = u[4 * k : 4 * k + 4]
        write_parquet(folder / "edges" / f"{k}.parquet", (part, part + 1, np.full(4, 2e307)))
    ways: list[dict[str, Any]] = [{}, {"store": folder / "run"}]
    for options in ways:
        with pytest.raises(dask_rac.InputError, match=r"column 'weight' reaches 2e\+307: .* add up to infinity"):
            dask_rac.cluster(folder / "edges", **options)


def test_vectors_over_the_nodes_are_as_long_as_there_are_nodes(folder: Path) -> None:
    settings = checked_settings("average", None, "distance", None, "error", True)
    job = receipts.Job(str(folder), settings, 2, "int32", "int32", "float64", "rounds/00000-a", 10)
    for again in (job, replace(job, nodes=5), replace(job, nodes=5, ids="int64")):
        ids, size = rows_columns.node_vectors(again)
        assert ids.tolist() == list(range(again.nodes))
        assert size.tolist() == [1] * again.nodes
        assert str(ids.dtype) == again.ids


def test_a_store_that_failed_can_be_used_for_another_graph(folder: Path) -> None:
    bad = write_parquet(folder / "bad.parquet", (np.array([0, 0]), np.array([1, 1]), np.array([1.0, 2.0])))
    apart: list[int] = []
    for path in COLLISIONS:  # pairs of equal edges whose order is decided by sizes and ids
        apart += [] if set(path) & set(apart) else path
    ends = np.array(apart).reshape(-1, 3)
    edges: Columns = ends[:, :2].ravel(), ends[:, 1:].ravel(), np.ones(2 * len(ends))  # b-c and c-d
    with pytest.raises(dask_rac.InputError, match="two values for 1 edge"):
        dask_rac.cluster(bad, store=folder / "run", shards=1)
    found = dask_rac.cluster(write_parquet(folder / "good.parquet", edges), store=folder / "run", shards=1)
    assert fingerprint(found) == fingerprint(dask_rac.cluster(edges))
