"""Edge lists of all kinds are read as pandas reads them; a fault in one is reported and leaves no files."""

import bz2
import gzip
import io
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.api.ingest import ingest
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.edges.columns import open_columns
from dask_rac.edges.convert import convert
from dask_rac.edges.text import Column, TextLayout, TextLimits
from dask_rac.edges.writing import FileSizes
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.graphs import columns, tangled_edges
from tests.support.results import merge_set
from tests.support.strategies import Graph, graphs

FRAME = pd.DataFrame(dict(zip(EDGE_COLUMNS, tangled_edges(2000, 5000, 10**6, seed=4), strict=True)))
FRAME["weight"] /= 7


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


PACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}


def written(frame: pd.DataFrame, path: Path, **options: Any) -> Path:
    """Write a frame as text, compressed according to its name."""
    text = frame.to_csv(index=False, **options).encode()
    path.write_bytes(PACK[path.suffix if path.suffix in PACK else ""](text))
    return path


def lines(folder: Path, text: str | bytes, name: str = "edges.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def check(path: str | Path, frame: pd.DataFrame, ids: str = "int32", weight: str = "float64") -> None:
    found = pd.read_parquet(path)
    expected = frame[list(EDGE_COLUMNS)].astype({"source": ids, "target": ids, "weight": weight})
    pd.testing.assert_frame_equal(found, expected.reset_index(drop=True), check_exact=True)


@pytest.mark.parametrize("packed", list(PACK))
@pytest.mark.parametrize(("ending", "sep"), [("csv", ","), ("tsv", "\t"), ("txt", ";"), ("edges", "|"), ("el", " ")])
def test_text_of_every_kind(ending: str, sep: str, packed: str, folder: Path) -> None:
    path = written(FRAME, folder / f"edges.{ending}{packed}", sep=sep)
    assert ingest(path, folder / "store") == str(folder / "store")
    frame = pd.read_csv(io.StringIO(FRAME.to_csv(index=False, sep=sep)), sep=sep, dtype={"weight": str})
    check(folder / "store", frame.assign(weight=[float(weight) for weight in frame["weight"]]))
    check(folder / "store", FRAME)
    assert sorted(os.listdir(folder)) == sorted([path.name, "store"])


@pytest.mark.parametrize("block", [40, 1000, 2**25])
@pytest.mark.parametrize("group", [3, 999, 2**20])
def test_blocks_and_groups_do_not_show(block: int, group: int, folder: Path) -> None:
    frame = FRAME.iloc[:700]
    path = written(frame, folder / "edges.csv")
    in_blocks(path, folder / "store", TextLimits(block, max(100, block // 3)), sizes=FileSizes(group))
    check(folder / "store", frame)
    files = sorted((folder / "store").glob("*.parquet"))
    groups = [pq.read_metadata(file).row_group(k).num_rows for file in files for k in range(count_groups(file))]
    assert groups == [group] * (700 // group) + [700 % group] * (700 % group > 0)
    assert {count_groups(file) for file in files[:-1]} <= {4}


def in_blocks(
    path: Path,
    store: Path,
    limits: TextLimits,
    *,
    columns: tuple[Column, ...] = EDGE_COLUMNS,
    header: bool = True,
    sizes: FileSizes | None = None,
) -> None:
    """Convert an edge list as `ingest` does, with blocks and row groups of other sizes."""
    source = replace(open_columns(path, TextLayout(columns, None, header)), limits=limits)
    convert(source, store, lambda _: None, sizes)


def count_groups(file: Path) -> int:
    return pq.read_metadata(file).num_row_groups


@examples(60)
@given(graphs(), st.sampled_from([",", "\t", " ", ";"]), st.booleans(), st.booleans(), st.integers(60, 300))
def test_a_list_clusters_as_its_graph(graph: Graph, sep: str, header: bool, crlf: bool, block: int) -> None:
    source, target, weight = columns(graph)
    frame = pd.DataFrame({"w": weight, "a": source, "b": target})
    with quick_folder() as folder:
        path = folder / "edges.txt"
        frame.to_csv(path, sep=sep, header=header, index=False, lineterminator="\r\n" if crlf else "\n")
        wanted: tuple[Column, ...] = ("a", "b", "w") if header else (1, 2, 0)
        if not graph.edges:
            with pytest.raises(dask_rac.InputError, match="holds no edge"):
                in_blocks(path, folder / "store", TextLimits(block), columns=wanted, header=header)
            assert os.listdir(folder) == ["edges.txt"]
            return
        in_blocks(path, folder / "store", TextLimits(block), columns=wanted, header=header)
        found = dask_rac.cluster(folder / "store", n_nodes=graph.n_nodes)
    assert merge_set(found) == merge_set(dask_rac.cluster(columns(graph), n_nodes=graph.n_nodes))


VALUES = (
    st.floats(0, 1e300).map(repr) | st.integers(0, 10**15).map(str) | st.sampled_from(["1e-7", "+2", ".5", "3.", "1E3"])
)


@pytest.mark.filterwarnings("ignore:ids begin at")
@examples(100)
@given(st.lists(st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**31 - 1), VALUES), min_size=1), st.booleans())
def test_numbers_are_read_as_pandas_reads_them(rows: list[tuple[int, int, str]], quoted: bool) -> None:
    mark = '"' * quoted
    text = "".join(f"{mark}{a}{mark}, {b} ,{mark}{w}{mark}\n" for a, b, w in rows)
    with quick_folder() as folder:
        ingest(lines(folder, text), folder / "store", columns=(0, 1, 2), header=False)
        frame = pd.read_csv(io.StringIO(text), header=None, names=list(EDGE_COLUMNS), dtype={"weight": str})
        frame["weight"] = [float(weight) for weight in frame["weight"]]
        check(folder / "store", frame)


def test_a_list_of_snap(folder: Path) -> None:
    text = "# Directed graph\r\n# FromNodeId\tToNodeId\r\n\r\n0\t1\r\n0\t2\r\n\r\n7\t3\r\n"
    path = lines(folder, gzip.compress(text.encode()), "web.txt.gz")
    ingest(path, folder / "store", columns=(0, 1, None), header=False)
    check(folder / "store", pd.DataFrame({"source": [0, 0, 7], "target": [1, 2, 3], "weight": 1.0}))


def test_runs_of_blanks_divide_as_one(folder: Path) -> None:
    text = "% a comment\n  a   b\t w  \n 0 1   2.5\n\n3\t \t4 5\t\n   \n6  7 8"
    expected = pd.DataFrame({"source": [0, 3, 6], "target": [1, 4, 7], "weight": [2.5, 5.0, 8.0]})
    ingest(lines(folder, text), folder / "store", columns=("a", "b", "w"), delimiter=" ")
    check(folder / "store", expected)
    ingest(lines(folder, text.replace("a   b\t w", "a b w"), "x.el"), folder / "other", columns=("a", "b", "w"))
    check(folder / "other", expected)


@pytest.mark.filterwarnings("ignore:ids begin at")
def test_a_mark_of_utf8_and_other_columns_do_no_harm(folder: Path) -> None:
    text = b'\xef\xbb\xbf"source","who, \xe9","weight","target"\n1,"a, b",0.5,2\n3,\xe9\xff,0.25,4'
    ingest(lines(folder, text), folder / "store")
    check(folder / "store", pd.DataFrame({"source": [1, 3], "target": [2, 4], "weight": [0.5, 0.25]}))


def test_joined_compressed_files_are_read_to_the_end(folder: Path) -> None:
    path = lines(folder, gzip.compress(b"source,target,weight\n0,1,2\n") + gzip.compress(b"3,4,5\n"), "edges.csv.gz")
    ingest(path, folder / "store")
    check(folder / "store", pd.DataFrame({"source": [0, 3], "target": [1, 4], "weight": [2.0, 5.0]}))


@pytest.mark.filterwarnings("ignore:ids begin at")
def test_ids_may_be_written_as_floats(folder: Path) -> None:
    ingest(lines(folder, "source,target,weight\n1.0,2e3,3\n4,5.,6\n"), folder / "store")
    check(folder / "store", pd.DataFrame({"source": [1, 4], "target": [2000, 5], "weight": [3.0, 6.0]}))


def test_wide_ids_are_wide_in_every_file(folder: Path) -> None:
    frame = pd.DataFrame({"source": [0] * 10, "target": [*range(9), 2**31], "weight": 1.5})
    in_blocks(written(frame, folder / "edges.csv"), folder / "store", TextLimits(), sizes=FileSizes(2))
    check(folder / "store", frame, ids="int64")
    kinds = {str(pq.read_schema(file).field("source").type) for file in (folder / "store").glob("*.parquet")}
    assert kinds == {"int64"}
    frame["target"] = frame["target"].clip(upper=2**31 - 1)
    ingest(written(frame, folder / "edges.csv"), folder / "narrow")
    check(folder / "narrow", frame)


@pytest.mark.parametrize("kind", ["float32", "float64", "int16", "uint8", "float16"])
@pytest.mark.parametrize("named", [True, False])
def test_parquet_of_other_names(kind: str, named: bool, folder: Path) -> None:
    frame = pd.DataFrame({"x": "text", "u": FRAME["source"], "v": FRAME["target"], "w": (FRAME["weight"] % 100)})
    frame = frame.astype({"u": "uint32", "w": kind})
    frame.to_parquet(folder / "edges.parquet", row_group_size=700)
    ingest(folder / "edges.parquet", folder / "store", columns=("u", "v", "w") if named else (1, 2, 3))
    expected = frame.rename(columns={"u": "source", "v": "target", "w": "weight"})
    check(folder / "store", expected, weight="float32" if kind == "float32" else "float64")


def test_float32_stays_only_if_all_files_have_it(folder: Path) -> None:
    (folder / "edges").mkdir()
    FRAME.astype({"weight": "float32"}).to_parquet(folder / "edges/a.parquet")
    FRAME.to_parquet(folder / "edges/b.parquet")
    ingest(folder / "edges", folder / "store")
    check(folder / "store", pd.concat([FRAME.astype({"weight": "float32"}).astype({"weight": float}), FRAME]))


def test_parquet_without_weights(folder: Path) -> None:
    FRAME[["source", "target"]].to_parquet(folder / "edges.parquet")
    ingest(folder / "edges.parquet", folder / "store", columns=("source", "target", None))
    check(folder / "store", FRAME.assign(weight=1.0))


def test_a_folder_of_files(folder: Path) -> None:
    (folder / "edges/deeper").mkdir(parents=True)
    written(FRAME.iloc[:100], folder / "edges/a.csv")
    written(FRAME.iloc[100:200].iloc[:, ::-1], folder / "edges/b.csv.gz")
    written(FRAME.iloc[200:], folder / "edges/deeper/c.tsv", sep="\t")
    (folder / "edges/README").write_text("not an edge list")
    ingest(folder / "edges", folder / "store")
    check(folder / "store", FRAME)


def test_urls(folder: Path) -> None:
    files = fsspec.filesystem("memory")
    files.pipe_file("/ingest/edges.csv.gz", gzip.compress(FRAME.to_csv(index=False).encode()))
    try:
        ingest("memory://ingest/edges.csv.gz", folder / "store")
        check(folder / "store", FRAME)
        ingest(folder / "store", "memory://ingest/store")
        check("memory://ingest/store", FRAME)
    finally:
        files.rm("/ingest", recursive=True)


HEAD = "source,target,weight\n"
FAULTS: dict[str, tuple[str | bytes, str]] = {
    "no name": (HEAD + "a,b,2\n\nc,,5\n", r"column 'target' is empty in line 4 of \S*edges.csv: drop"),
    "two blanks": (HEAD + "a,b,2\n ,c,5\na,c,5\n\t,d,1\n", r"column 'source' is empty in 2 rows, first line 3"),
    "a named weight": (HEAD + "a,b,2\na,c,far\n", r"column 'weight' is 'far', not a number, in line 3 of"),
    "a weight": (
        HEAD + "0,1,2\n3,4,5 km\n",
        r"column 'weight' is '5 km', not a number, in line 3 of .*: correct or drop",
    ),
    "no weight": (HEAD + "0,1,2\n3,4,\n", r"column 'weight' is null in line 3 of"),
    "no id": (HEAD + "0,1,2\n,4,1\n,4,1\n", r"column 'source' is null in 2 rows, first line 3 of"),
    "nan": (HEAD + "0,1,nan\n", r"column 'weight' is null in line 2 of"),
    "infinite": (HEAD + "\n\n0,1,inf\n", r"column 'weight' is infinite in line 4 of .* \(inf\): drop these edges"),
    "negative": (HEAD + "0,1,-0.5\n", r"column 'weight' is negative in line 2 of .* \(-0.5\)"),
    "huge": (HEAD + "0,1,1e999\n", r"column 'weight' is infinite in line 2"),
    "negative id": (HEAD + "0,-1,1\n", r"column 'target' is negative in line 2 of .* \(-1\): ids are 0, 1, 2"),
    "half an id": (HEAD + "0,1.5,1\n", r"column 'target' is not a whole number in line 2 of .* \(1.5\)"),
    "wide id": (HEAD + f"0,{2**62},1\n", r"column 'target' is at or beyond 4611686018427387904 in line 2"),
    "wider id": (HEAD + f"0,{2**70},1\n", r"column 'target' is too large in line 2 of .*: number the nodes"),
    "short": (
        HEAD + "0,1,2\n\n0,1\n",
        r"line 4 of \S*edges.csv has 2 columns and the first line has 3, separated by ','",
    ),
    "long": (HEAD + "0,1,2\n0,1,2,3\n", r"line 3 of \S*edges.csv has 4 columns"),
    "comment": (HEAD + "0,1,2\n# no\n", r"line 3 of \S*edges.csv has 1 columns"),
    "binary": (HEAD.encode() + b"0,1,2\n\xff\xfe,1,2\n", r"column 'source' is not UTF-8 in line 3 of"),
    "no column": (
        "source,target,distance\n0,1,2\n",
        r"no column 'weight': its first line is 'source', 'target', 'distance'",
    ),
    "semicolons": ("source;target;weight\n0;1;2\n", r"no column 'source': .*delimiter="),
    "twice": ("source,target,weight,weight\n0,1,2,3\n", r"has 2 columns 'weight'"),
    "no header": ("0,1,2\n", r"no column 'source': its first line is '0', '1', '2'; .*header=False"),
    "empty": ("", r"edges.csv has no header"),
    "only comments": ("# a\n# b\n", r"edges.csv has no header"),
    "only a header": (HEAD, r"edges.csv holds no edge"),
}


@pytest.mark.parametrize("fault", list(FAULTS))
@pytest.mark.parametrize("comments", [0, 3])
@pytest.mark.parametrize("block", [25, 2**25])
def test_faults_of_text_are_found_where_they_are(fault: str, comments: int, block: int, folder: Path) -> None:
    text, message = FAULTS[fault]
    data = b"# comment\n" * comments + (text.encode() if isinstance(text, str) else text)
    if comments:
        message = message.replace("line 2", "line 5").replace("line 3", "line 6").replace("line 4", "line 7")
    path = lines(folder, data)
    with pytest.raises(dask_rac.InputError, match=message):
        in_blocks(path, folder / "store", TextLimits(block))
    assert os.listdir(folder) == ["edges.csv"]


@pytest.mark.parametrize(
    ("bad", "what"), [("9,9,-1\n", "'weight' is negative in"), ("9,9,?\n", r"'weight' is '\?', not a number, in")]
)
def test_bad_rows_are_counted_in_all_blocks_and_files(bad: str, what: str, folder: Path) -> None:
    good = "0,1,2\n"
    for name, text in {"a.csv": good * 5 + bad, "b.csv": (good + bad) * 9, "c.csv": bad * 2 + good * 9}.items():
        lines(folder, HEAD + text, name)
    with pytest.raises(dask_rac.InputError, match=rf"{what} 12 rows, first line 7 of \S*a\.csv"):
        in_blocks(folder, folder.with_suffix(".store"), TextLimits(25))
    lines(folder, HEAD + bad + "9,9\n", "d.csv")
    with pytest.raises(dask_rac.InputError, match=rf"{what} at least 12 rows, first line 7 of \S*a\.csv") as caught:
        in_blocks(folder, folder.with_suffix(".store"), TextLimits(2**25))
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize("packed", [".gz", ".bz2", ".zst"])
def test_half_a_compressed_file_is_an_error(packed: str, folder: Path) -> None:
    path = written(FRAME, folder / f"edges.csv{packed}")
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(dask_rac.InputError, match=rf"edges.csv{packed} cannot be read"):
        ingest(path, folder / "store")
    assert os.listdir(folder) == [path.name]


def test_a_line_without_end_is_an_error(folder: Path) -> None:
    path = lines(folder, HEAD + "1" * 1000)
    with pytest.raises(dask_rac.InputError, match="a line of more than 100 bytes"):
        in_blocks(path, folder / "store", TextLimits(block=100))


PARQUET_FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "null": ({"weight": [1.0, None]}, r"column 'weight' is null in row 1 of \S*edges.parquet"),
    "nan": ({"weight": pa.array([1.0, np.nan])}, r"column 'weight' is null in row 1"),
    "null id": ({"source": [None, 1]}, r"column 'source' is null in row 0"),
    "negative": ({"weight": [1, -1]}, r"column 'weight' is negative in row 1"),
    "infinite": ({"weight": [1.0, np.inf]}, r"column 'weight' is infinite in row 1"),
    "precise": ({"weight": [1, 2**60]}, r"column 'weight' is too large for a float in row 1"),
    "negative id": ({"target": [-4, 1]}, r"column 'target' is negative in row 0 of .* \(-4\)"),
    "half an id": ({"target": [0.5, 1]}, r"column 'target' is not a whole number in row 0"),
    "words": ({"target": ["a", "b"]}, r"'target' of \S*edges.parquet are int64 and string: write both as text"),
    "none": ({"source": [], "target": [], "weight": []}, "holds no edge"),
}


@pytest.mark.parametrize("fault", list(PARQUET_FAULTS))
def test_faults_of_parquet_are_found_where_they_are(fault: str, folder: Path) -> None:
    changed, message = PARQUET_FAULTS[fault]
    path = folder / "edges.parquet"
    table: dict[str, Any] = {"source": [0, 1], "target": [1, 2], "weight": [1.0, 2.0]}
    pq.write_table(pa.table(table | changed), path)
    with pytest.raises(dask_rac.InputError, match=message):
        ingest(path, folder / "store")
    assert os.listdir(folder) == ["edges.parquet"]


def test_damaged_parquet_is_an_error(folder: Path) -> None:
    path = folder / "edges.parquet"
    FRAME.to_parquet(path, write_page_checksum=True)
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)
    with pytest.raises(dask_rac.InputError, match=r"edges.parquet cannot be read as Parquet from row 0 on"):
        ingest(path, folder / "store")
    path.write_bytes(b"PAR1")
    with pytest.raises(dask_rac.InputError, match=r"cannot be read as Parquet"):
        ingest(path, folder / "store")
    assert os.listdir(folder) == ["edges.parquet"]


def test_columns_that_are_not_there(folder: Path) -> None:
    FRAME.to_parquet(folder / "edges.parquet")
    with pytest.raises(dask_rac.InputError, match="no column 'w': it has source, target, weight"):
        ingest(folder / "edges.parquet", folder / "store", columns=("source", "target", "w"))
    with pytest.raises(dask_rac.InputError, match="no column 3"):
        ingest(folder / "edges.parquet", folder / "store", columns=(0, 1, 3))
    path = lines(folder, "0,1\n")
    with pytest.raises(dask_rac.InputError, match="no column 2: its first line has 2, numbered from 0"):
        ingest(path, folder / "store", columns=(0, 1, 2), header=False)
    with pytest.raises(dask_rac.InputError, match=r"'source' cannot be found without a header: .*columns=\(0, 1, 2\)"):
        ingest(path, folder / "store", header=False)


@pytest.mark.parametrize(
    "wanted", ["abc", None, (0, 1), (0, 1, 1), (0, None, 2), (0, 1, -1), (0, 1, True), (0, 1, 2.0), ()]
)
def test_columns_that_are_not_three(wanted: Any, folder: Path) -> None:
    with pytest.raises(dask_rac.InputError, match="are not three"):
        ingest(lines(folder, HEAD), folder / "store", columns=wanted)


@pytest.mark.parametrize("delimiter", ["", ",,", "\n", '"', "é", 7])
def test_delimiters_that_are_not_one_character(delimiter: Any, folder: Path) -> None:
    with pytest.raises(dask_rac.InputError, match="is not one plain character"):
        ingest(lines(folder, HEAD), folder / "store", delimiter=delimiter)


def test_places_that_cannot_be_used(folder: Path) -> None:
    with pytest.raises(dask_rac.InputError, match="is not a path"):
        ingest("", folder / "store")
    with pytest.raises(dask_rac.InputError, match="does not exist"):
        ingest(folder / "edges.csv", folder / "store")
    with pytest.raises(dask_rac.InputError, match="cannot be opened"):
        ingest("nowhere://edges.csv", folder / "store")
    path = lines(folder, HEAD + "0,1,2\n", "edges.xlsx")
    for place in (path, folder):
        with pytest.raises(dask_rac.InputError, match=r"must end in .parquet, .*\.csv\.gz.*\.el\.zst"):
            ingest(place, folder / "store")
    path = lines(folder, HEAD + "0,1,2\n")
    FRAME.to_parquet(folder / "edges.parquet")
    with pytest.raises(dask_rac.InputError, match="holds both Parquet"):
        ingest(folder, folder / "store")
    (folder / "half").mkdir()
    (folder / "half/_incomplete").touch()
    with pytest.raises(dask_rac.InputError, match="is not complete"):
        ingest(folder / "half", folder / "store")
    (folder / "store").mkdir()
    (folder / "store/mine").write_text("mine")
    with pytest.raises(dask_rac.InputError, match="exists"):
        ingest(path, folder / "store")
    assert (folder / "store/mine").read_text() == "mine"


def test_a_byte_that_is_not_text_in_a_line_of_another_length(folder: Path) -> None:
    (folder / "edges.csv").write_bytes(b"source,target,weight\n0,1,1.0\n1,2,1.0,caf\xe9\n")
    with pytest.raises(dask_rac.InputError, match=r"line 3 of .*edges.csv has 4 columns and the first line has 3"):
        ingest(folder / "edges.csv", folder / "store")


@pytest.mark.parametrize("lines", [b"source,target,weight\r0,1,1.0\r", b"source,target,weight\n0,1,1.0\r1,2,1.0\n"])
def test_lines_that_end_in_a_carriage_return(lines: bytes, folder: Path) -> None:
    (folder / "edges.csv").write_bytes(lines)
    with pytest.raises(dask_rac.InputError, match=r"edges.csv has a carriage return .*end all lines in LF or CR LF"):
        ingest(folder / "edges.csv", folder / "store")


def test_long_values_are_not_repeated_whole(folder: Path) -> None:
    (folder / "edges.csv").write_bytes(b"source,target,weight\n0,1," + b"x" * 70_000 + b"\n")
    with pytest.raises(dask_rac.InputError, match="not a number, in line 2") as caught:
        ingest(folder / "edges.csv", folder / "store")
    assert len(str(caught.value)) < 500
