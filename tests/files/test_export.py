"""Whole trees and labels as files, read back by other programs' readers."""

import errno
import os
import re
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import fsspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.cluster import hierarchy
from scipy.spatial.distance import squareform

import dask_rac
from dask_rac.files import exports
from dask_rac.files.exports import TreeSizes, write_merge_file, write_newick
from dask_rac.files.labels import LabelSizes, write_labels
from dask_rac.tree.cuts import CutRule
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.graphs import columns, tangled_edges
from tests.support.stored import PlugPulledError, stop_after
from tests.support.strategies import Graph, graphs

WEIGHTS = st.sampled_from(("distance", "similarity"))
EDGES = tangled_edges(3000, 9000, 50, seed=8)


class Tree:
    """A node of a Newick tree: the leaves below it, the length above it."""

    def __init__(self) -> None:
        self.children: list[Tree] = []
        self.name = ""
        self.length: float | None = None


def parse(line: str) -> Tree:
    """Parse a Newick tree token by token, without recursion, and return its root."""
    root = node = Tree()
    above: list[Tree] = []
    tokens = re.findall(r"[(),:;]|[^(),:;]+", line)
    assert "".join(tokens) == line
    assert tokens[-1] == ";"
    for before, token in zip(["", *tokens], tokens[:-1], strict=False):
        if token in "(,":
            if token == "(":
                above.append(node)
            node = Tree()
            above[-1].children.append(node)
        elif token == ")":
            node = above.pop()
        elif before == ":":
            node.length = float(token)
        elif token != ":":
            node.name = token
    assert not above
    assert node is root
    return root


def walk(root: Tree) -> list[tuple[Tree, float]]:
    """All nodes with their depths, each before those below it, first children first."""
    found, ahead = [], [(root, 0.0)]
    while ahead:
        node, depth = ahead.pop()
        found.append((node, depth))
        ahead += [(child, depth + (child.length or 0.0)) for child in reversed(node.children)]
    return found


def fill_cophenet(root: Tree, half: NDArray[np.float64]) -> None:
    """Return half the distance from leaf to leaf, for the leaves of a tree."""
    below: dict[int, list[int]] = {}
    nodes = walk(root)
    deepest = max(depth for _, depth in nodes)
    for node, depth in reversed(nodes):
        if not node.children:
            below[id(node)] = [int(node.name)]
            half[int(node.name), int(node.name)] = 0.0
            continue
        first, second = (below.pop(id(child)) for child in node.children)
        half[np.ix_(first, second)] = deepest - depth
        half[np.ix_(second, first)] = deepest - depth
        below[id(node)] = first + second


def read_newick(path: Path) -> list[Tree]:
    text = path.read_text()
    assert not text or text.endswith("\n")
    return [parse(line) for line in text.splitlines()]


def check_newick(path: Path, clustering: dask_rac.Clustering, zero: float | None = None) -> None:
    """Check that the trees match scipy's Z: the same leaves in the same order, the same cophenetic distances."""
    found, n = read_newick(path), clustering.n_nodes
    assert len(found) == clustering.n_trees
    leaves = [[int(node.name) for node, _ in walk(tree) if not node.children] for tree in found]
    for label, some in enumerate(leaves):
        assert set(clustering.labels[some]) == {label}
    assert sorted(leaf for some in leaves for leaf in some) == list(range(n))
    for tree in found:
        nodes = walk(tree)
        assert tree.length is None
        assert all(node.length is not None and node.length >= 0 for node, _ in nodes[1:])
        assert all(len(node.children) == 2 and not node.name for node, _ in nodes if node.children)
        depths = [depth for node, depth in nodes if not node.children]
        np.testing.assert_allclose(depths, depths[0], rtol=1e-12, atol=1e-12)
    if n < 2:
        return
    table = clustering.to_scipy(join=True, zero=zero)
    if len(found) == 1:
        assert leaves[0] == hierarchy.leaves_list(table).tolist()
    near = np.full((n, n), np.inf)
    for tree in found:
        fill_cophenet(tree, near)
    np.testing.assert_allclose(near, squareform(hierarchy.cophenet(table)), rtol=1e-9, atol=1e-12)


@pytest.mark.kernels
@examples(100)
@given(graphs(), WEIGHTS, st.sampled_from((None, 4.0)), st.sampled_from((1, 3)))
def test_newick_is_the_forest(graph: Graph, weights: str, zero: float | None, block: int) -> None:
    found = dask_rac.cluster(columns(graph), weights=weights, n_nodes=graph.n_nodes)
    zero = zero if weights == "similarity" else None
    with quick_folder() as folder:
        assert found.export(folder / "tree.nwk", zero=zero) == str(folder / "tree.nwk")
        check_newick(folder / "tree.nwk", found, zero)
        assert os.listdir(folder) == ["tree.nwk"]
        write_newick(folder / "pieces.nwk", found._walk(zero), TreeSizes(newick_nodes=block))
        assert (folder / "pieces.nwk").read_bytes() == (folder / "tree.nwk").read_bytes()


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_newick_of_a_larger_forest(linkage: str, weights: str, folder: Path) -> None:
    edges = tangled_edges(1500, 4000, 10**6, seed=2)
    found = dask_rac.cluster(edges, linkage, weights=weights)
    found.export(folder / "tree.newick")
    check_newick(folder / "tree.newick", found)


def test_lengths_come_back_to_the_bit(folder: Path) -> None:
    weight = [0.1, 1 / 3, 1e-300]
    found = dask_rac.cluster(([0, 2, 4], [1, 3, 5], weight), n_nodes=8)
    found.export(folder / "tree.tree")
    lines = (folder / "tree.tree").read_text().splitlines()
    assert lines[0] == "(0:0.1,1:0.1);"
    assert lines[3:] == ["6;", "7;"]
    lengths = [tree.children[0].length for tree in read_newick(folder / "tree.tree")[:3]]
    assert lengths == weight


@pytest.mark.parametrize("turned", [False, True])
def test_a_chain_of_a_million(turned: bool, folder: Path) -> None:
    n = 1_000_000
    other = np.arange(n - 1, 0, -1) if turned else np.arange(1, n)
    found = dask_rac.cluster((np.zeros(n - 1, np.int64), other, np.arange(1.0, n)), "single")
    found.export(folder / "tree.nwk")
    text = (folder / "tree.nwk").read_text()
    assert text.count("(") == text.count(")") == text.count(",") == n - 1
    leaves = [int(leaf) for leaf in re.findall(r"[(,](\d+)", text)]
    expected = np.arange(n - 1, 1, -1) if not turned else np.arange(1, n - 1)
    ends = [0, n - 1] if turned else [0, 1]
    assert sorted(leaves) == list(range(n))
    assert set(leaves) - set(expected.tolist()) == set(ends)
    np.testing.assert_array_equal([leaf for leaf in leaves if leaf not in ends], expected)


@pytest.mark.parametrize("ending", ["npy", "nwk", "parquet"])
@pytest.mark.parametrize("n_nodes", [0, 1])
def test_graphs_without_a_merge(n_nodes: int, ending: str, folder: Path) -> None:
    found = dask_rac.cluster(([], [], []), n_nodes=n_nodes)
    path = folder / f"tree.{ending}"
    found.export(path)
    if ending == "npy":
        assert np.load(path).shape == (0, 4)
    elif ending == "nwk":
        assert path.read_text() == "0;\n" * n_nodes
    else:
        assert pd.read_parquet(path).shape == (0, 5)


@examples(30)
@given(graphs(), WEIGHTS)
def test_matrix_is_what_to_scipy_gives(graph: Graph, weights: str) -> None:
    found = dask_rac.cluster(columns(graph), weights=weights, n_nodes=graph.n_nodes)
    zero = 4.0 if weights == "similarity" else None
    with quick_folder() as folder:
        if found.n_trees > 1:
            with pytest.raises(dask_rac.InputError, match="trees, as the graph is not connected"):
                found.export(folder / "tree.npy")
            assert not os.listdir(folder)
        found.export(folder / "tree.npy", join=True, zero=zero)
        table = np.load(folder / "tree.npy")
        np.testing.assert_array_equal(table, found.to_scipy(join=True, zero=zero))
        if graph.n_nodes > 1 and np.isfinite(table).all():
            assert hierarchy.is_valid_linkage(table)


@pytest.fixture(scope="module")
def runs() -> Iterator[tuple[dask_rac.StoredClustering, dask_rac.Clustering]]:
    with quick_folder() as folder:
        stored: Any = dask_rac.cluster(EDGES, store=folder / "run", shards=3, finisher=False)
        yield stored, dask_rac.cluster(EDGES, finisher=False)


@pytest.mark.parametrize("ending", ["parquet", "parq", "pq"])
@pytest.mark.parametrize("group", [7, 500, TreeSizes.group_merges])
def test_merges_of_a_store_are_one_file(runs: Any, ending: str, group: int, folder: Path) -> None:
    path = folder / f"merges.{ending}"
    export_merges(runs[0], path, group)
    pd.testing.assert_frame_equal(pd.read_parquet(path), runs[0].merges.compute().reset_index(drop=True))
    metadata = pq.read_metadata(path)
    sizes = [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)]
    assert max(sizes) <= group
    assert all(first + second > group for first, second in pairwise(sizes))


def export_merges(found: dask_rac.Clustering, path: Path, group: int) -> None:
    """Write merges as `export` does, and by `export` itself if its row groups are of the given size."""
    if group == TreeSizes.group_merges:
        found.export(path)
    else:
        write_merge_file(path, found._parts(), TreeSizes(group_merges=group))


@pytest.mark.parametrize("group", [7, TreeSizes.group_merges])
def test_merges_in_memory_are_one_file(runs: Any, group: int, folder: Path) -> None:
    export_merges(runs[1], folder / "merges.parquet", group)
    pd.testing.assert_frame_equal(pd.read_parquet(folder / "merges.parquet"), runs[1].merges)


@pytest.mark.parametrize("ending", ["npy", "nwk"])
def test_a_store_gives_the_files_of_memory(runs: Any, ending: str, folder: Path) -> None:
    stored, memory = (
        Path(found.export(folder / f"{k}.{ending}", join=ending == "npy")) for k, found in enumerate(runs)
    )
    assert stored.read_bytes() == memory.read_bytes()


def test_damage_of_a_page_is_found(runs: Any, folder: Path) -> None:
    path = folder / "merges.parquet"
    runs[1].export(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match=r"crc|CRC|checksum"):
        pq.ParquetFile(path, page_checksum_verification=True).read()


@pytest.mark.parametrize("ending", ["npy", "nwk", "parquet"])
def test_a_url_gives_the_file_of_a_path(runs: Any, ending: str, folder: Path) -> None:
    url = f"memory://export/{folder.name}.{ending}"
    path = runs[1].export(folder / f"tree.{ending}", join=ending == "npy")
    assert runs[1].export(url, join=ending == "npy") == url
    files = fsspec.filesystem("memory")
    try:
        assert files.cat_file(url) == Path(path).read_bytes()
        assert len(files.ls("/export", detail=False)) == 1
        with pytest.raises(dask_rac.InputError, match="exists and is never overwritten"):
            runs[1].export(url, join=ending == "npy")
    finally:
        files.rm("/export", recursive=True)


def test_a_run_on_its_way_is_no_tree(folder: Path) -> None:
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(EDGES, store=folder / "run", shards=3, finisher=False, progress=stop_after(2))
    early = dask_rac.open(folder / "run")
    for ending in ("npy", "nwk", "parquet"):
        with pytest.raises(dask_rac.InputError, match=r"unfinished.*resume"):
            early.export(folder / f"tree.{ending}")
    for whole in (early.to_scipy, early.verify, lambda: early.verify(EDGES)):
        with pytest.raises(dask_rac.InputError, match=r"unfinished.*resume"):
            whole()
    assert os.listdir(folder) == ["run"]


def test_what_cannot_be_exported_says_so(runs: Any, folder: Path) -> None:
    found = runs[1]
    for name in ("tree", "tree.csv", "tree.npz", "nwk"):
        with pytest.raises(dask_rac.InputError, match=r"\.npy.*\.nwk, \.newick, \.tree.*\.parquet, \.parq, \.pq"):
            found.export(folder / name)
    with pytest.raises(dask_rac.InputError, match="Newick has one line per tree"):
        found.export(folder / "tree.nwk", join=True)
    for options in ({"join": True}, {"zero": 1.0}):
        with pytest.raises(dask_rac.InputError, match="merges are written as is"):
            found.export(folder / "tree.parquet", **options)
    with pytest.raises(dask_rac.InputError, match="is only for similarities"):
        found.export(folder / "tree.nwk", zero=1.0)
    assert not os.listdir(folder)
    for ending in ("npy", "nwk", "parquet"):
        taken = folder / f"taken.{ending}"
        taken.write_text("mine")
        with pytest.raises(dask_rac.InputError, match=rf"taken.{ending} exists and is never overwritten"):
            found.export(taken)
        with pytest.raises(dask_rac.InputError, match="cannot be written"):
            found.export(taken / f"tree.{ending}", join=ending == "npy")
        assert taken.read_text() == "mine"


def test_what_comes_meanwhile_is_not_written_over(runs: Any, folder: Path) -> None:
    def parts() -> Iterator[Any]:
        (folder / "tree.parquet").write_text("mine")
        yield from dask_rac.Clustering._parts(runs[1])

    with (
        mock.patch.object(runs[1], "_parts", parts),
        pytest.raises(dask_rac.InputError, match="exists and is never overwritten"),
    ):
        runs[1].export(folder / "tree.parquet")
    assert os.listdir(folder) == ["tree.parquet"]
    assert (folder / "tree.parquet").read_text() == "mine"


def test_a_failure_leaves_nothing(runs: Any, folder: Path) -> None:
    with mock.patch.object(exports, "_text", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        runs[1].export(folder / "tree.nwk")
    with (
        mock.patch.object(exports, "_text", side_effect=OSError(errno.EIO, os.strerror(errno.EIO))),
        pytest.raises(dask_rac.InputError, match=r"cannot be written: .*Input/output error"),
    ):
        runs[1].export(folder / "tree.nwk")
    assert not os.listdir(folder)


def write_cut(found: dask_rac.Clustering, group: int, path: Path, kind: str, values: Any) -> str:
    """Write labels as `cut` does, and by `cut` itself if it writes as many at a time."""
    if group == LabelSizes.group_nodes:
        return str(found.cut(**{kind: values}, store=path))
    labels = found._label(CutRule(kind), np.atleast_1d(values))
    return write_labels(path, labels, kind, values, found.n_nodes, sizes=LabelSizes(group))


@pytest.mark.parametrize("ending", ["csv", "csv.gz"])
@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("group", [700, LabelSizes.group_nodes])
def test_labels_as_csv(runs: Any, which: int, ending: str, group: int, folder: Path) -> None:
    found, trees_ = runs[which], runs[1].n_trees
    cut = partial(write_cut, found, group)
    assert cut(folder / f"one.{ending}", "height", 10.5) == str(folder / f"one.{ending}")
    cut(folder / f"heights.{ending}", "height", [0.3, 10.5])
    cut(folder / f"counts.{ending}", "n_clusters", [trees_, 2000])
    cut(folder / f"list.{ending}", "n_clusters", [2000])
    one = pd.read_csv(folder / f"one.{ending}")
    assert one.columns.tolist() == ["node", "label"]
    assert one["node"].tolist() == list(range(found.n_nodes))
    np.testing.assert_array_equal(one["label"], runs[1].cut(height=10.5))
    heights = pd.read_csv(folder / f"heights.{ending}", index_col="node")
    assert heights.columns.tolist() == ["height=0.3", "height=10.5"]
    np.testing.assert_array_equal(heights.T, runs[1].cut(height=[0.3, 10.5]))
    counts = pd.read_csv(folder / f"counts.{ending}", index_col="node")
    assert counts.columns.tolist() == [f"n_clusters={trees_}", "n_clusters=2000"]
    np.testing.assert_array_equal(counts.T, runs[1].cut(n_clusters=[trees_, 2000]))
    assert pd.read_csv(folder / f"list.{ending}").columns.tolist() == ["node", "n_clusters=2000"]
    assert len(os.listdir(folder)) == 4


def test_csv_is_plain(folder: Path) -> None:
    dask_rac.cluster(([0], [1], [0.5]), n_nodes=3).cut(height=1, store=folder / "labels.csv")
    assert (folder / "labels.csv").read_bytes() == b"node,label\n0,0\n1,0\n2,1\n"
    dask_rac.cluster(([], [], [])).cut(height=[1, 2], store=folder / "none.csv")
    assert (folder / "none.csv").read_bytes() == b"node,height=1.0,height=2.0\n"


def test_compressed_labels_are_the_same_each_time(runs: Any, folder: Path) -> None:
    first, second = (Path(runs[1].cut(height=1.0, store=folder / f"{name}.csv.gz")) for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_labels_as_csv_are_written_to_new_places_only(runs: Any, folder: Path) -> None:
    (folder / "taken.csv").write_text("mine")
    with pytest.raises(dask_rac.InputError, match=r"taken.csv exists and is never overwritten"):
        runs[1].cut(height=1.0, store=folder / "taken.csv")
    with pytest.raises(dask_rac.InputError, match=r"must end in .parquet, .zarr, .csv or .csv.gz"):
        runs[1].cut(height=1.0, store=folder / "labels.txt")
    with pytest.raises(dask_rac.InputError, match="n_clusters=0 is not possible"):
        runs[0].cut(n_clusters=[2000, 0], store=folder / "wrong.csv")
    with pytest.raises(dask_rac.InputError, match="there is nothing to write"):
        runs[0].cut(height=[], store=folder / "none.csv")
    assert os.listdir(folder) == ["taken.csv"]
    assert (folder / "taken.csv").read_text() == "mine"


def test_labels_as_csv_at_a_url(runs: Any) -> None:
    url = "memory://labels/labels.csv.gz"
    try:
        runs[0].cut(height=1.0, store=url)
        np.testing.assert_array_equal(pd.read_csv(url)["label"], runs[1].cut(height=1.0))
    finally:
        fsspec.filesystem("memory").rm("/labels", recursive=True)
