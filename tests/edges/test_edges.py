"""Every form of input gives the same graph, and every fault a clear error message."""

from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

import dask
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.runs import in_memory
from tests.support.graphs import columns, tangled_edges
from tests.support.results import merge_set
from tests.support.strategies import Graph, graphs

NODES = 200
EDGES = tangled_edges(NODES, 600, 10**6, seed=1)


def frame() -> pd.DataFrame:
    return pd.DataFrame(dict(zip(("source", "target", "weight"), EDGES, strict=True)))


def triangle() -> sp.coo_array:
    return sp.coo_array((EDGES[2], EDGES[:2]), shape=(NODES, NODES))


def unsorted_rows() -> sp.csr_array:
    matrix: sp.csr_array = (triangle() + triangle().T).tocsr()
    for row in range(NODES):
        part = slice(matrix.indptr[row], matrix.indptr[row + 1])
        matrix.indices[part], matrix.data[part] = matrix.indices[part][::-1].copy(), matrix.data[part][::-1].copy()
    matrix.has_sorted_indices = False
    return matrix


def repeated_entries() -> sp.coo_array:
    u, v, weight = (np.concatenate((column, column[:50])) for column in EDGES)
    return sp.coo_array((weight, (u, v)), shape=(NODES, NODES))


def repeated_rows() -> sp.csr_array:
    whole = (triangle() + triangle().T).tocoo()
    order = np.argsort(np.tile(whole.row, 2), kind="stable")
    indptr = 2 * np.append(0, np.cumsum(np.bincount(whole.row, minlength=NODES)))
    return sp.csr_array((np.tile(whole.data, 2)[order], np.tile(whole.col, 2)[order], indptr), shape=(NODES, NODES))


def parquet_file(folder: Path) -> Path:
    path = folder / "edges.parquet"
    frame().assign(note="x").to_parquet(path)
    return path


def parquet_folder(folder: Path) -> str:
    for part in range(3):
        frame().iloc[part::3].to_parquet(folder / f"part-{part}.parquet")
    (folder / "README.txt").write_text("not edges")
    return str(folder)


FORMS: dict[str, Callable[[Path], Any]] = {
    "arrays": lambda _: EDGES,
    "lists": lambda _: tuple(column.tolist() for column in EDGES),
    "both directions": lambda _: tuple(
        np.concatenate(pair) for pair in zip(EDGES, (EDGES[1], EDGES[0], EDGES[2]), strict=True)
    ),
    "float ids, short weights": lambda _: (EDGES[0].astype(float), EDGES[1].astype(np.uint16), EDGES[2].astype("f4")),
    "read-only arrays": lambda _: tuple(np.frombuffer(column.tobytes(), column.dtype) for column in EDGES),
    "symmetric CSR": lambda _: (triangle() + triangle().T).tocsr(),
    "symmetric CSR matrix": lambda _: sp.csr_matrix(triangle() + triangle().T),
    "symmetric CSC": lambda _: (triangle() + triangle().T).tocsc(),
    "symmetric COO": lambda _: (triangle() + triangle().T).tocoo(),
    "unsorted CSR": lambda _: unsorted_rows(),
    "upper triangle": lambda _: triangle(),
    "lower triangle": lambda _: triangle().T.tocsr(),
    "repeated entries": lambda _: repeated_entries(),
    "CSR with repeated entries": lambda _: repeated_rows(),
    "LIL": lambda _: triangle().tolil(),
    "DataFrame": lambda _: frame(),
    "DataFrame, other index and columns": lambda _: frame().assign(note="x").set_index(np.arange(len(frame()))[::-1]),
    "nullable DataFrame": lambda _: frame().convert_dtypes(),
    "Dask DataFrame": lambda _: dd.from_pandas(frame(), npartitions=3),
    "Arrow table": lambda _: pa.Table.from_pandas(frame()),
    "Parquet file": parquet_file,
    "Parquet folder": parquet_folder,
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_input_gives_the_same_merges(form: str, tmp_path: Path) -> None:
    expected = dask_rac.cluster(EDGES, n_nodes=NODES)
    assert merge_set(dask_rac.cluster(FORMS[form](tmp_path), n_nodes=NODES)) == merge_set(expected)


def test_input_is_left_as_it_was() -> None:
    matrix = (triangle() + triangle().T).tocsr()
    before = matrix.copy()
    for linkage in ("average", "single"):
        dask_rac.cluster(matrix, linkage, weights="similarity")
    assert (matrix != before).nnz == 0


@pytest.mark.kernels
@given(graphs(), st.randoms(use_true_random=False), st.sampled_from(["min", "max", "mean"]))
def test_duplicates_become_one_in_any_order(graph: Graph, random: Any, policy: str) -> None:
    drawn = [
        (*edge[:2], edge[2] + random.choice([0, 1, 2])) for edge in graph.edges for _ in range(random.randint(1, 4))
    ]
    groups: dict[tuple[int, int], list[float]] = {}
    for u, v, weight in drawn:
        groups.setdefault((min(u, v), max(u, v)), []).append(weight)
    rules: dict[str, Callable[[list[float]], float]] = {"min": min, "max": max, "mean": fmean}
    expected = Graph(graph.n_nodes, [(u, v, rules[policy](weights)) for (u, v), weights in groups.items()])
    random.shuffle(drawn)
    turned = [(u, v, w) if random.random() < 0.5 else (v, u, w) for u, v, w in drawn]
    given_twice = columns(Graph(graph.n_nodes, turned))
    found = dask_rac.cluster(given_twice, duplicates=policy, n_nodes=graph.n_nodes)
    assert merge_set(found) == merge_set(dask_rac.cluster(columns(expected), n_nodes=graph.n_nodes))


@pytest.mark.parametrize(
    ("edges", "n_nodes"),
    [
        (([], [], []), None),
        (([], [], []), 0),
        (([], [], []), 1),
        (([], [], []), 4),
        (sp.csr_array((1, 1)), None),
        (sp.csr_array((3, 3)), 5),
        (frame().iloc[:0], 2),
    ],
)
@pytest.mark.parametrize("linkage", ["average", "single"])
def test_a_graph_without_edges(edges: Any, n_nodes: int | None, linkage: str) -> None:
    found = dask_rac.cluster(edges, linkage, n_nodes=n_nodes)
    nodes = n_nodes or getattr(edges, "shape", [0])[0]
    assert found.n_nodes == found.n_trees == nodes
    assert found.labels.tolist() == list(range(nodes))
    assert found.cut(height=1.0).tolist() == list(range(nodes))
    assert len(found.merges) == len(found.rounds) == 0
    assert found.to_scipy(join=True).shape == (max(0, nodes - 1), 4)
    assert repr(found)


@pytest.mark.parametrize("form", [lambda u, v, w: (u, v, w), lambda u, v, w: sp.coo_array((w, (u, v)), shape=(3, 3))])
def test_self_loops_are_dropped_and_counted(form: Callable[..., Any]) -> None:
    loops = form([0, 1, 2, 1], [1, 1, 2, 2], [1.0, 9.0, 9.0, 2.0])
    with pytest.warns(UserWarning, match="dropped 2 self loops"):
        found = dask_rac.cluster(loops, missing=2.0)
    assert found.merges["height"].tolist() == [1.0, 2.0]


def test_self_loops_of_a_symmetric_matrix_are_dropped() -> None:
    with pytest.warns(UserWarning, match="dropped 2 self loops"):
        found = dask_rac.cluster(sp.csr_array([[7.0, 1.0], [1.0, 7.0]]))
    assert found.merges["height"].tolist() == [1.0]


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_one_bad_weight_anywhere_in_a_matrix_is_found(value: float, form: Any) -> None:
    whole = (triangle() + triangle().T).tocoo()
    for edge in (0, len(EDGES[0]) // 2, len(EDGES[0]) - 1):
        u, v = EDGES[0][edge], EDGES[1][edge]
        weight = whole.data.copy()
        weight[((whole.row == u) & (whole.col == v)) | ((whole.row == v) & (whole.col == u))] = value
        matrix = sp.coo_array((weight, (whole.row, whole.col)), shape=whole.shape).asformat(form)
        with pytest.raises(dask_rac.InputError, match=r"column 'weight' is (NaN|infinite|negative) in 2 rows, first"):
            dask_rac.cluster(matrix)


def test_stored_zeros_are_edges() -> None:
    found = dask_rac.cluster(sp.csr_array(([0.0, 0.0], [1, 0], [0, 1, 2])))
    assert found.merges["height"].tolist() == [0.0]


def changed(column: str, row: int, value: Any) -> pd.DataFrame:
    """Return valid edges except for one value."""
    edges = frame()
    edges[column] = edges[column].astype(object)
    edges.loc[[row, row + 3], column] = value
    return edges.infer_objects()


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        (changed("weight", 5, np.nan), "column 'weight' is null in 2 rows, first row 5: drop"),
        (changed("weight", 5, np.inf), r"column 'weight' is infinite in 2 rows, first row 5 \(inf\)"),
        (changed("weight", 5, -0.5), r"column 'weight' is negative in 2 rows, first row 5 \(-0.5\): distances are 0"),
        (changed("weight", 5, None), "column 'weight' is null in 2 rows, first row 5"),
        (changed("weight", 5, "far"), "column 'weight' is (object|str), not a number"),
        (changed("weight", 5, 1e308), "add up to infinity; scale them down"),
        (changed("source", 7, -1), r"column 'source' is negative in 2 rows, first row 7 \(-1\)"),
        (changed("source", 7, 1.5), r"column 'source' is not a whole number in 2 rows, first row 7 \(1.5\)"),
        (changed("target", 7, 2.0**60), r"column 'target' is too large for a float in 2 rows, first row 7"),
        (changed("target", 7, 2**62), r"column 'target' is at or beyond 4611686018427387904 in 2 rows, first row 7"),
        (changed("target", 7, 2**40), r"ids up to 1099511627776 are too large: .* GB; number the nodes"),
        (changed("target", 7, "b"), r"column 'target' is text in 2 rows, first row 7 \(b\): give all ids as text"),
        (changed("target", 7, None), "column 'target' is null in 2 rows, first row 7"),
        (frame().drop(columns="weight"), "no column 'weight': it needs source, target, weight and has source, target"),
        (pd.concat([frame(), frame()["weight"]], axis=1), "2 columns named 'weight': keep one"),
        (([0, 1], [1, 2], [1.0]), "three columns of equal length"),
        (([[0]], [[1]], [[1.0]]), "three columns of equal length"),
        ((["a"], [1], [1.0]), "column 'source' is text and column 'target' is int64: give both as text"),
        ((["a", "b"], ["b", 3], [1.0, 2.0]), r"column 'target' is not text in row 1 \(3\): give all ids as text, or"),
        ((["a", None], ["b", "c"], [1.0, 2.0]), "column 'source' is null in row 1"),
        ((["a", "b"], ["b", ""], [1.0, 2.0]), "column 'target' is empty in row 1: drop these edges"),
        ((["a", "b"], ["b", "a"], [1.0, 2.0]), "two values for 1 edge, first 'a'-'b': 1.0 in row 0, 2.0 in row 1"),
        (([True], [False], [1.0]), "column 'source' is bool, not integer"),
        (([0.0, np.nan], [1, 1], [1.0, 1.0]), "column 'source' is null in row 1"),
        (([0, 1], [1, 2], [np.nan, 1.0]), "column 'weight' is NaN in row 0"),
        (([0], [1], [1.0 + 1j]), "column 'weight' is complex128, not a number"),
        ([1, 2], "edges cannot be a list: give a scipy sparse matrix"),
        (
            [(0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)],
            r"it may hold edges or vectors: pass pandas.DataFrame\(edges, columns=",
        ),
        ([(0, 1), (1, 2)], r"columns=\['source', 'target'\]\).assign\(weight=1\) if these are edges"),
        (
            ((0, 1, 1.0), (1, 2, 1.0), (2, 3, 1.0)),
            r"edges cannot be a tuple .*: give columns, as in pandas.DataFrame\(",
        ),
        (
            [("a", "b", 1.0), ("b", "c", 1.0)],
            r"edges cannot be a list .* pandas.DataFrame\(edges, columns=\['source', ",
        ),
        ({("a", "b", 1.0)}, r"edges cannot be a set .* pandas.DataFrame\(list\(edges\), columns="),
        (
            (np.arange(3), np.arange(3)),
            r"weights are missing: give \(source, target, weight\); where all .* numpy.ones\(len\(source\)\)",
        ),
        (([0, 1], [1, 2]), "two columns, and their weights are missing"),
        (([0, [1]], [1, 2], [1.0, 2.0]), "column 'source' is not one array"),
        (([0, 1], [1, 2], np.ma.array([1.0, 99.0], mask=[False, True])), "column 'weight' is null in row 1: drop"),
        (([0], [1], np.array([2**53 + 1])), "column 'weight' is too large for a float in row 0"),
        ("", "edges='' is not a path"),
        ("nosuch://bucket/edges", "nosuch://bucket/edges cannot be opened: .*nosuch"),
        (sp.bsr_array(np.ones((2, 2))), r"BSR format .* call tocsr\(\)"),
        (sp.dia_array(np.ones((2, 2))), r"DIA format .* call tocsr\(\)"),
        (
            pa.Table.from_arrays(
                [pa.array([0]), pa.array([1]), *[pa.array([1.0])] * 2], ["source", "target", "weight", "weight"]
            ),
            "the table has 2 columns named 'weight': keep one",
        ),
        (dd.from_pandas(frame().drop(columns="target"), npartitions=2), "no column 'target': it needs"),
        (
            sp.csr_array((2, 3)),
            r"shape \(2, 3\) is not a graph, which is square: if its rows are vectors, pass metric=",
        ),
        (
            sp.csr_array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 4.0, 0.0]]),
            r"not symmetric: 2 entries .* row 1, column 2 \(3.0 against 4.0\); use M.maximum",
        ),
        (
            sp.csr_array([[0.0, 1.0, 0.0], [1.0, 0.0, 3.0], [2.0, 0.0, 0.0]]),
            r"not symmetric: 2 entries .* row 1, column 2 \(3.0 against nothing\)",
        ),
        (
            sp.csc_array([[0.0, 1.0, 2.0], [1.0, 0.0, 3.0], [2.0, 4.0, 0.0]]),
            r"not symmetric: 2 entries .* row 2, column 1 \(4.0 against 3.0\)",
        ),
        (
            sp.coo_array(([1.0, 5.0, 1.0], ([0, 0, 1], [1, 1, 0]))),
            "two values for 1 edge, first 0-1: 1.0 in entry 0, 5.0 in entry 1",
        ),
        (
            sp.coo_array(([1.0, 1.0, 1.0, 2.0], ([0, 0, 1, 2], [1, 1, 0, 1])), shape=(3, 3)),
            r"not symmetric: 1 entries .* row 2, column 1 \(2.0 against nothing\)",
        ),
        (sp.csr_array([[0.0, -1.0], [-1.0, 0.0]]), r"negative in 2 rows, first row 0, column 1 \(-1.0\)"),
        (
            ([3, 1, 0, 2], [2, 0, 1, 3], [1.0, 2.0, 2.0, 5.0]),
            r"two values for 1 edge, first 2-3: 1.0 in row 0, 5.0 in row 3; choose",
        ),
        (pa.table({"source": [0, 1], "target": [1, 2], "weight": [1.0, None]}), "'weight' is null in row 1"),
        (
            pa.table({"source": ["a"], "target": [1], "weight": [1.0]}),
            "'source' of the table is text and column 'target' is int64",
        ),
        (pa.table({"source": [0], "target": [1]}), "the table has no column 'weight'"),
    ],
)
def test_bad_edges(edges: Any, message: str) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(edges)


def test_bad_similarity() -> None:
    with pytest.raises(ValueError, match=r"negative in row 0 \(-1.0\): similarities are 0 or more"):
        dask_rac.cluster(([0], [1], [-1.0]), weights="similarity")


@pytest.mark.parametrize(
    ("n_nodes", "message"), [(150, r"'source' is at or beyond 150 in"), (-1, "n_nodes=-1"), (2.5, "n_nodes=2.5")]
)
def test_bad_number_of_nodes(n_nodes: Any, message: str) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(EDGES, n_nodes=n_nodes)


def test_fewer_nodes_than_the_matrix_has() -> None:
    with pytest.raises(dask_rac.InputError, match="n_nodes=3 is less than the 200 nodes of the matrix: leave it out"):
        dask_rac.cluster(triangle(), n_nodes=3)


def test_parquet_errors_name_the_file_and_its_row(tmp_path: Path) -> None:
    good, bad = frame().iloc[:10], frame().iloc[10:20].copy()
    bad.iloc[4, 2] = -1.0
    good.to_parquet(tmp_path / "a.parquet")
    bad.to_parquet(tmp_path / "b.parquet")
    with pytest.raises(dask_rac.InputError, match=r"negative in row 4 of .*b\.parquet"):
        dask_rac.cluster(tmp_path)
    pq.write_table(
        pa.table({"source": [0], "target": [1], "weight": pa.array([None], pa.float64())}), tmp_path / "c.parquet"
    )
    (tmp_path / "b.parquet").unlink()
    with pytest.raises(dask_rac.InputError, match=r"null in row 0 of .*c\.parquet"):
        dask_rac.cluster(tmp_path)
    pq.write_table(pa.table({"source": [0], "target": [1]}), tmp_path / "b.parquet")
    with pytest.raises(dask_rac.InputError, match=r"file .*b\.parquet has no column 'weight'"):
        dask_rac.cluster(tmp_path)
    (tmp_path / "b.parquet").write_bytes(b"PAR1 truncated")
    with pytest.raises(dask_rac.InputError, match=r"b\.parquet cannot be read as Parquet"):
        dask_rac.cluster(tmp_path)


def test_a_path_without_edges(tmp_path: Path) -> None:
    with pytest.raises(dask_rac.InputError, match="nowhere does not exist"):
        dask_rac.cluster(tmp_path / "nowhere")
    with pytest.raises(dask_rac.InputError, match="holds no Parquet file"):
        dask_rac.cluster(tmp_path)


@pytest.mark.parametrize(
    ("array", "place", "value"), [("indices", 0, NODES), ("indices", 0, -1), ("indptr", 5, 10**6), ("indptr", NODES, 3)]
)
def test_a_damaged_matrix(array: str, place: int, value: int) -> None:
    matrix = (triangle() + triangle().T).tocsr()
    getattr(matrix, array)[place] = value
    with pytest.raises(dask_rac.InputError, match=r"the matrix is damaged: .* build it again"):
        dask_rac.cluster(matrix)


def test_a_matrix_said_to_be_sorted_that_is_not() -> None:
    matrix = unsorted_rows()
    matrix.has_sorted_indices = True
    assert merge_set(dask_rac.cluster(matrix)) == merge_set(dask_rac.cluster(EDGES, n_nodes=NODES))


def test_an_empty_frame_without_dtypes_is_an_empty_graph() -> None:
    assert dask_rac.cluster(pd.DataFrame(columns=["source", "target", "weight"]), n_nodes=3).n_trees == 3


@pytest.mark.parametrize("given_twice", [True, False])
def test_weights_differing_in_the_sign_of_zero_are_one(given_twice: bool) -> None:
    matrix = sp.csr_array(([0.0, -0.0], [1, 0], [0, 1, 2]))
    edges: Any = ([0, 1], [1, 0], [0.0, -0.0]) if given_twice else matrix
    heights = dask_rac.cluster(edges)._tree.merges.height
    assert not np.signbit(heights).any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"linkage": "centroid"}, "centroid linkage is not reducible"),
        ({"linkage": "median"}, "median linkage is not reducible"),
        (
            {"linkage": "ward"},
            r"ward linkage along the edges of a graph is not reducible: .* pass metric='euclidean' and no graph",
        ),
        (
            {"linkage": "weighted", "missing": "ignore"},
            "missing='ignore': heights would depend .*AD/2 .*; leave missing= out, .* at least the largest weight",
        ),
        ({"linkage": "weighted", "missing": "ignore", "weights": "similarity"}, "at most the smallest similarity"),
        ({"linkage": "weighted", "missing": "infinite"}, "missing='infinite': the mean .* use 'average' or 'complete'"),
        (
            {"linkage": "weighted", "missing": 0.5},
            "missing=0.5 is nearer than the largest weight, .* or more, or 'far'$",
        ),
        ({"linkage": "mean"}, "linkage='mean' is unknown: use one of 'single', 'complete', 'average', 'weighted'"),
        ({"weights": "cosine"}, "weights='cosine' is unknown"),
        ({"duplicates": "sum"}, "duplicates='sum' is unknown"),
        ({"missing": "zero"}, "missing='zero' is unknown: use one of 'far', 'ignore', 'infinite' or a number"),
        ({"missing": np.inf}, "missing=inf is not finite: .* missing='infinite'"),
        ({"missing": np.nan}, "missing=nan is not a number"),
        ({"max_height": "high"}, "max_height='high' is not a number"),
        ({"max_height": -1.0}, "max_height=-1.0 is below 0, where nothing merges"),
        ({"max_height": 10**400}, "max_height is too large for a float"),
        ({"linkage": ["average"]}, r"linkage=\['average'\] is unknown"),
        ({"finisher": "no"}, "finisher='no' is neither True nor False"),
        ({"progress": "yes"}, "progress='yes' is neither True nor False nor a function"),
        ({"missing": 1e308}, "missing=1e[+]308 adds up to infinity over all pairs"),
        ({"missing": 0.5}, "missing=0.5 is nearer than the largest weight, .*: pairs without an edge .* or more"),
        ({"missing": 2e6, "weights": "similarity"}, "is nearer than the smallest similarity, .* or less"),
    ],
)
def test_bad_parameters(options: dict[str, Any], message: str) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        dask_rac.cluster(EDGES, **options)


def test_memory_bounds_the_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_memory, "memory_limit", lambda: 1000)
    with pytest.raises(dask_rac.InputError, match="n_nodes=200 is too large: 200 nodes need"):
        dask_rac.cluster(EDGES, n_nodes=NODES)


def test_a_bad_number_of_threads() -> None:
    with dask.config.set(num_workers="2"), pytest.raises(dask_rac.InputError, match="num_workers='2' is not a number"):
        dask_rac.cluster(EDGES)
