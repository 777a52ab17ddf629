"""The lattice matches one computed node by node with Python integers."""

import errno
import itertools
import json
import math
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import dask
import fsspec
import numpy as np
import pyarrow.parquet as pq
import pytest
from distributed import Client
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.datasets import lattices
from dask_rac.datasets.lattices import lattice, plan
from dask_rac.edges import writing
from dask_rac.kernels.lattice import Edges, Lattice, Places, Stencil, fill, place
from dask_rac.show.progress import listener_for
from dask_rac.tasks.client import choose_scheduler
from tests.support import crash
from tests.support.clients import await_release
from tests.support.effort import examples
from tests.support.faults import doom

Offset = tuple[int, int, int]
Vector = np.ndarray[Any, np.dtype[np.float64]]

WORD = 2**64 - 1


def mixed(x: int, key: int) -> int:
    h = ((x ^ key) * 0x9E3779B97F4A7C15) & WORD
    return ((h ^ (h >> 32)) * 0xD6E8FEB86659FD93) & WORD


class Naive:
    """One node at a time."""

    def __init__(self, nodes: int, seed: int) -> None:
        self.nodes = nodes
        self.row: int = round(nodes ** (1 / 3))
        self.plane: int = self.row * round(math.sqrt(nodes / self.row))
        self.keys = [int(key) for key in np.random.SeedSequence(seed).generate_state(5, np.uint64)]

    def id(self, node: int) -> int:
        bits = (self.nodes - 1).bit_length()
        low = bits // 2
        while True:
            upper, lower = node >> low, node % 2**low
            for turn in (0, 2):
                upper ^= (mixed(lower, self.keys[turn]) >> 32) % 2 ** (bits - low)
                lower ^= (mixed(upper, self.keys[turn + 1]) >> 32) % 2**low
            node = (upper << low) + lower
            if node < self.nodes:
                return node

    def jitter(self, node: int) -> Vector:
        h = mixed(node, self.keys[4])
        return np.array([h >> 43, (h >> 22) % 2**21, (h >> 1) % 2**21], float) / 2**21

    def position(self, node: int) -> Vector:
        cell = np.array([node % self.row, node % self.plane // self.row, node // self.plane])
        return cell + self.jitter(node)

    def neighbour(self, node: int, offset: Offset) -> int:
        return (node + offset[0] + offset[1] * self.row + offset[2] * self.plane) % self.nodes

    def weight(self, node: int, offset: Offset) -> float:
        return math.hypot(*(np.array(offset) + self.jitter(self.neighbour(node, offset)) - self.jitter(node)))

    def edges(self, nodes: range, offsets: list[Offset]) -> dict[tuple[int, int], float]:
        return {
            (self.id(node), self.id(self.neighbour(node, offset))): self.weight(node, offset)
            for node in nodes
            for offset in offsets
        }


def half_space(count: int) -> list[Offset]:
    reach = range(-4, 5)
    offsets = [(dx, dy, dz) for dz, dy, dx in itertools.product(reach, reach, reach) if (dz, dy, dx) > (0, 0, 0)]
    return sorted(offsets, key=lambda offset: sum(d * d for d in offset))[:count]


def places(count: int, ids: Any = np.int32) -> Places:
    return Places(np.empty(count, ids), *(np.empty(count, np.float32) for _ in range(3)))


def filled(shape: Lattice, stencil: Stencil, start: int, stop: int, ids: Any) -> Edges:
    rows, count = (stop - start) * len(stencil.dx), stop - start
    edges = Edges(np.empty(rows, ids), np.empty(rows, ids), np.empty(rows, np.float32))
    fill(shape, stencil, places(count, ids), places(count + int(np.ptp(stencil.dx)), ids), edges, (start, stop))
    return edges


def pairs(edges: Edges) -> dict[tuple[int, int], float]:
    found = dict(
        zip(zip(edges.source.tolist(), edges.target.tolist(), strict=True), edges.weight.tolist(), strict=True)
    )
    assert len(found) == len(edges.weight)
    return found


def assert_close(found: dict[tuple[int, int], float], expected: dict[tuple[int, int], float]) -> None:
    assert found.keys() == expected.keys()
    np.testing.assert_allclose([found[edge] for edge in expected], list(expected.values()), rtol=1e-6)


def read(store: str | Path) -> Edges:
    table = pq.read_table(store, page_checksum_verification=True)
    assert table.column_names == ["source", "target", "weight"]
    return Edges(*(column.to_numpy() for column in table.columns))


def in_small_files(nodes: int, degree: int, seed: int, store: Path, *, weights: str = "distance", **given: Any) -> None:
    """Write a lattice as `lattice` does, in more files: `group` edges per row group, `batch` files per thread."""
    shape, stencil = plan(nodes, degree, seed, weights)
    sizes = writing.FileSizes(given.get("group", 100), 3)
    limits = lattices.WriteLimits(sizes, given.get("batch", lattices.WriteLimits.batch_files))
    with listener_for(given.get("progress")) as report:
        lattices.write(shape, stencil, store, choose_scheduler(given.get("client")), report, limits)


@pytest.mark.kernels
@given(st.integers(3, 300), st.integers(0, 2**70), st.integers(-1000, 1000))
def test_ids_are_a_bijection(nodes: int, seed: int, first: int) -> None:
    found, naive = places(nodes), Naive(nodes, seed)
    place(plan(nodes, 2, seed, "distance")[0], first, nodes, found)
    assert found.ids.tolist() == [naive.id((first + k) % nodes) for k in range(nodes)]
    assert sorted(found.ids) == list(range(nodes))


@pytest.mark.kernels
@examples(50)
@given(
    st.integers(3, 400), st.integers(1, 20), st.integers(0, 5), st.sampled_from(["distance", "similarity"]), st.data()
)
def test_kernel_gives_what_the_naive_gives(nodes: int, half: int, seed: int, weights: str, data: st.DataObject) -> None:
    try:
        shape, stencil = plan(nodes, 2 * half, seed, weights)
    except InputError:
        shape, stencil = plan(nodes, 2, seed, weights)
        half = 1
    start = data.draw(st.integers(0, nodes - 1))
    stop = data.draw(st.integers(start + 1, min(nodes, start + 40)))
    expected = Naive(nodes, seed).edges(range(start, stop), half_space(half))
    if weights == "similarity":
        expected = {edge: 1 / (1 + weight) for edge, weight in expected.items()}
    assert_close(pairs(filled(shape, stencil, start, stop, np.int32)), expected)


@pytest.mark.kernels
@pytest.mark.parametrize(("nodes", "ids"), [(2**31 - 1, np.int32), (2**31, np.int64), (10**12 + 39, np.int64)])
def test_kernel_at_the_end_of_large_graphs(nodes: int, ids: Any) -> None:
    shape, stencil = plan(nodes, 40, 3, "distance")
    found = filled(shape, stencil, nodes - 5, nodes, ids)
    assert_close(pairs(found), Naive(nodes, 3).edges(range(nodes - 5, nodes), half_space(20)))
    assert max(found.source.max(), found.target.max()) > nodes // 2


@examples(25)
@given(st.integers(3, 1000), st.integers(1, 12))
def test_every_edge_once_or_refused(nodes: int, half: int) -> None:
    try:
        shape, stencil = plan(nodes, 2 * half, 0, "distance")
    except InputError as error:
        largest = int(str(error).split("degree=")[2].split()[0])
        assert 2 <= largest < 2 * half
        neighbours = [Naive(nodes, 0).neighbour(0, offset) for offset in half_space(largest // 2 + 1)]
        both = neighbours + [-n % nodes for n in neighbours]
        assert 0 in both or len(set(both)) < len(both)
        shape, stencil = plan(nodes, largest, 0, "distance")
    edges = filled(shape, stencil, 0, nodes, np.int32)
    unordered = {frozenset(pair) for pair in pairs(edges)}
    assert len(unordered) == nodes * len(stencil.dx)
    assert {len(pair) for pair in unordered} == {2}
    degrees = np.bincount(np.concatenate((edges.source, edges.target)), minlength=nodes)
    assert set(degrees.tolist()) == {2 * len(stencil.dx)}


def test_written_graph(tmp_path: Path) -> None:
    store = tmp_path / "deep" / "graph"
    in_small_files(1000, 12, 7, store)
    assert_close(pairs(read(store)), Naive(1000, 7).edges(range(1000), half_space(6)))
    files = sorted(store.glob("*.parquet"))
    assert json.loads((store / "_edges.json").read_text()) == {"edges": 6000, "files": 21}
    assert [file.name for file in files] == [f"part-{k:02}.parquet" for k in range(21)]
    metadata = pq.read_metadata(files[0])
    assert [metadata.row_group(k).num_rows for k in range(metadata.num_row_groups)] == [96, 96, 96]
    column = metadata.row_group(0).column(2)
    assert (column.compression, column.has_dictionary_page) == ("UNCOMPRESSED", False)
    assert column.is_stats_set
    assert [str(field.type) for field in pq.read_schema(files[0])] == ["int32", "int32", "float"]
    assert sum(file.stat().st_size for file in files) <= writing.edges_size(6000, 63, np.dtype(np.int32))
    assert list(tmp_path.iterdir()) == [tmp_path / "deep"]
    assert list(store.parent.iterdir()) == [store]
    assert lattice(1000, 12, 7, tmp_path / "one") == str(tmp_path / "one")
    assert pairs(read(tmp_path / "one")) == pairs(read(store))


def test_weights_are_distances_of_positions(tmp_path: Path) -> None:
    nodes = 17**3
    naive = Naive(nodes, 5)
    position = np.array([naive.position(node) for node in range(nodes)])
    at = np.empty(nodes, np.int64)
    at[[naive.id(node) for node in range(nodes)]] = np.arange(nodes)
    edges = read(lattice(nodes, 40, 5, tmp_path))
    delta = position[at[edges.target]] - position[at[edges.source]]
    inner = (np.abs(delta) < 4).all(axis=1)  # the others wrap around
    assert 0.7 < inner.mean() < 1
    np.testing.assert_allclose(edges.weight[inner], np.linalg.norm(delta[inner], axis=1), rtol=1e-6)
    assert edges.weight.min() > 0
    similar = read(lattice(nodes, 40, 5, tmp_path / "similar", weights="similarity"))
    np.testing.assert_array_equal(similar.weight, np.float32(1) / (np.float32(1) + edges.weight))
    np.testing.assert_array_equal(similar.target, edges.target)


def test_same_bytes_for_any_number_of_threads(tmp_path: Path) -> None:
    for threads in (1, 2, 3):
        with dask.config.set(num_workers=threads):
            in_small_files(5000, 40, 1, tmp_path / str(threads), group=5000)
    contents = [{file.name: file.read_bytes() for file in (tmp_path / f).iterdir()} for f in "123"]
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) == 8


def test_seeds_differ(tmp_path: Path) -> None:
    first, second = (read(lattice(500, 6, seed, tmp_path / str(seed))) for seed in (0, 1))
    assert len(pairs(first).keys() & pairs(second).keys()) < 50
    assert not set(first.weight.tolist()) & set(second.weight.tolist())


def test_ids_are_not_local(tmp_path: Path) -> None:
    nodes = 20_000
    edges = read(lattice(nodes, 6, 0, tmp_path))
    source, target = edges.source.astype(float), edges.target.astype(float)
    assert np.abs(source - target).mean() == pytest.approx(nodes / 3, rel=0.02)
    assert abs(np.corrcoef(source, target)[0, 1]) < 0.02
    assert abs(np.corrcoef(source, np.arange(len(source)))[0, 1]) < 0.02
    assert Counter(np.diff(edges.source).tolist()).most_common(1)[0][1] < 30


def test_result_can_be_clustered(tmp_path: Path) -> None:
    assert dask_rac.cluster(lattice(400, 12, store=tmp_path / "graph")).n_nodes == 400


def test_url() -> None:
    filesystem = fsspec.filesystem("memory")
    filesystem.makedirs("/lattices/graph")
    url = lattice(300, 6, store="memory://lattices/graph")
    assert url == "memory://lattices/graph"
    try:
        with filesystem.open("/lattices/graph/part-0.parquet") as file:
            assert pq.read_table(file).num_rows == 900
        assert filesystem.ls("/lattices", detail=False) == ["/lattices/graph"]
        with pytest.raises(InputError, match="not empty"):
            lattice(300, 6, store=url)
    finally:
        filesystem.rm("/lattices", recursive=True)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": 0}, "nodes=0 is out of range: use 3 to"),
        ({"nodes": 2}, "3 to"),
        ({"nodes": -5}, "3 to"),
        ({"nodes": 1e6}, "nodes=1000000.0 is not a whole number"),
        ({"nodes": True}, "nodes=True"),
        ({"nodes": "9"}, "nodes='9'"),
        ({"nodes": 2**63}, "to 4611686018427387904"),
        ({"degree": 7}, "degree=7 is odd: use 6 or 8"),
        ({"degree": 0}, "degree=0 is out of range: use 2 to 65536"),
        ({"degree": 10**9}, "2 to 65536"),
        ({"degree": 4.0}, "degree=4.0"),
        ({"nodes": 60}, r"nodes=60 are too few for degree=40.* or degree=\d+ or less"),
        ({"nodes": 20}, "too few"),
        ({"seed": -1}, "seed=-1 is out of range: use 0 or more"),
        ({"seed": None}, "seed=None"),
        ({"weights": "cosine"}, "weights='cosine' is unknown: use one of 'distance', 'similarity'"),
        ({"weights": None}, "weights=None is unknown"),
        ({"store": ""}, "store='' is not a path"),
        ({"store": None}, "store=None is not a path"),
        ({"store": 7}, "store=7 is not a path"),
        ({"store": "nowhere://x"}, "nowhere://x cannot be opened"),
        ({"store": "."}, "the working directory and cannot be replaced: give a folder in it"),
    ],
)
def test_parameters_are_refused(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        lattice(**{"nodes": 1000, **arguments})
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_too_small_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"lattice needs 4 PB and .* GB are free: make room"):
        lattice(10**13, store=tmp_path / "lattice")
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    store = tmp_path / "graph"
    store.mkdir()
    (store / "precious").write_text("x")
    with pytest.raises(InputError, match=r"graph exists and is not empty: delete it or choose another path"):
        lattice(100, 4, store=store)
    with pytest.raises(InputError, match="is a file"):
        lattice(100, 4, store=store / "precious")
    with pytest.raises(InputError, match=r"cannot be written: .*; give a folder that can be created"):
        lattice(100, 4, store=store / "precious" / "graph")
    assert [path.name for path in tmp_path.rglob("*")] == ["graph", "precious"]


@pytest.mark.parametrize("name", ["graph.partial", "graph.0123abcd.partial"])
def test_a_folder_that_ends_in_partial_is_left_alone(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.txt").write_text("years of work")
    lattice(100, 4, store=tmp_path / "graph")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["graph", name]
    assert (tmp_path / name / "thesis.txt").read_text() == "years of work"


def test_empty_folder_and_link_are_filled(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    lattice(100, 4, store=tmp_path / "link")
    assert len(read(tmp_path / "real").weight) == 200
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize("threads", [1, 2])
def test_failure_leaves_nothing(threads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = writing.NewFolder.write

    def fail(self: writing.NewFolder, file: str, groups: Any) -> int:
        if int(file[5:-8]) > 1:
            raise OSError(errno.EIO, "disk on fire")
        return original(self, file, groups)

    monkeypatch.setattr(writing.NewFolder, "write", fail)
    with (
        dask.config.set(num_workers=threads),
        pytest.raises(InputError, match=r"graph cannot be written: .*disk on fire"),
    ):
        in_small_files(1000, 12, 0, tmp_path / "graph")
    assert not list(tmp_path.iterdir())


def test_complete_folder_is_kept_when_its_name_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = writing.NewFolder.write

    def take(self: writing.NewFolder, file: str, groups: Any) -> None:
        original(self, file, groups)
        (tmp_path / "graph").mkdir()
        (tmp_path / "graph" / "precious").write_text("x")

    monkeypatch.setattr(writing.NewFolder, "write", take)
    with pytest.raises(InputError, match=r"graph\.[0-9a-f]{8}\.partial is complete but cannot be renamed"):
        lattice(100, 4, store=tmp_path / "graph")
    assert (tmp_path / "graph" / "precious").read_text() == "x"
    (complete,) = tmp_path.glob("graph.*.partial")
    assert len(read(complete).weight) == 200


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_progress_is_told_of_files(tmp_path: Path) -> None:
    events: list[dask_rac.Event] = []
    in_small_files(1000, 12, 7, tmp_path / "graph", progress=events.append)
    assert [(event.stage, event.done, event.total) for event in events] == [("generate", k, 21) for k in range(1, 22)]
    with pytest.raises(InputError, match="progress=7 is neither True nor False nor a function"):
        lattice(1000, 12, 7, tmp_path / "another", progress=7)  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


# On workers.


def test_workers_write_the_same_bytes(client: Client, tmp_path: Path) -> None:
    in_small_batches = partial(in_small_files, 1000, 12, 7, batch=4, weights="similarity")
    in_small_batches(tmp_path / "threads")
    expected = contents(tmp_path / "threads")
    events: list[dask_rac.Event] = []
    in_small_batches(tmp_path / "given", client=client, progress=events.append)
    with client.as_current():
        in_small_batches(tmp_path / "current")
    assert contents(tmp_path / "given") == contents(tmp_path / "current") == expected
    assert [(event.stage, event.done, event.total) for event in events] == [("generate", k, 21) for k in range(1, 22)]
    await_release(client)
    assert {path.name for path in tmp_path.iterdir()} == {"threads", "given", "current"}


def test_a_worker_may_die(client: Client, tmp_path: Path) -> None:
    in_small_files(1000, 12, 7, tmp_path / "threads")
    client.run(doom, "dask_rac.datasets.lattices._groups", True, str(tmp_path / "died"))
    in_small_files(1000, 12, 7, tmp_path / "graph", client=client)
    assert (tmp_path / "died").exists()
    assert contents(tmp_path / "graph") == contents(tmp_path / "threads")
    client.wait_for_workers(2, timeout=crash.PATIENCE)


def burn(marker: str) -> None:
    """Make this worker write no more files for as long as the given file exists."""

    def fail(after: bool) -> None:
        if not after and Path(marker).exists():
            raise OSError(errno.EIO, "disk on fire")

    crash.patch_calls("dask_rac.datasets.lattices._groups", fail).start()


def test_failure_on_workers_leaves_nothing(client: Client, tmp_path: Path) -> None:
    marker = tmp_path / "fire"
    marker.touch()
    client.run(burn, str(marker))
    events: list[dask_rac.Event] = []
    with pytest.raises(InputError, match=r"graph cannot be written: .*disk on fire"):
        in_small_files(1000, 12, 7, tmp_path / "graph", batch=2, client=client, progress=events.append)
    assert len(events) == 4  # only the files that were being written
    assert [path.name for path in tmp_path.iterdir()] == ["fire"]
    marker.unlink()


def test_workers_must_see_the_folder(client: Client) -> None:
    filesystem = fsspec.filesystem("memory")
    with pytest.raises(ResourceError, match="cannot access memory://unseen"):
        lattice(300, 6, store="memory://unseen", client=client)
    assert not filesystem.exists("/unseen")
    with pytest.raises(InputError, match=r"client=7 is not a distributed\.Client"):
        lattice(300, 6, store="memory://unseen", client=7)
