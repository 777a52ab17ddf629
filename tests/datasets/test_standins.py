"""Stand-in datasets have the shape of the originals, and are the same on every machine."""

import hashlib
import math
import os
import subprocess
import sys
import tracemalloc
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import zarr
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

import dask_rac
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.datasets import bags, chance
from dask_rac.datasets import descriptors as datasets_descriptors
from dask_rac.datasets.bags import document_blocks, documents
from dask_rac.datasets.descriptors import sift, sift_blocks
from tests.support.root import ROOT

Matrix = NDArray[np.float64]

SIFT_DIGEST = "08fe6681bb0073e28568cd643df2b89ab8f92b3678eea226662bd27fe5572136"
DOCUMENTS_DIGEST = "a4f46e33276f1c9eb754e5cc022730f1702886af397349fd5f8ea5bc98cd4b6e"


def read_bvecs(path: Path | str, dimensions: int = 128) -> NDArray[np.uint8]:
    rows = np.fromfile(path, np.dtype([("count", "<i4"), ("values", "u1", (dimensions,))]))
    assert set(rows["count"].tolist()) <= {dimensions}
    values: NDArray[np.uint8] = rows["values"]
    return values


def read_documents(path: Path | str) -> sp.csr_array:
    group = zarr.open_group(str(path), mode="r")
    arrays = [np.asarray(group[name]) for name in ("data", "indices", "indptr")]
    return sp.csr_array(tuple(arrays), shape=tuple(group.attrs["shape"]))  # type: ignore[arg-type]


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def digest(arrays: Iterable[Any]) -> str:
    total = hashlib.sha256()
    for array in arrays:
        little = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        total.update(little.tobytes())
    return total.hexdigest()


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> NDArray[np.uint8]:
    return read_bvecs(sift(20_000, store=tmp_path_factory.mktemp("sift") / "sift.bvecs"))


@pytest.fixture(scope="module")
def news(tmp_path_factory: pytest.TempPathFactory) -> sp.csr_array:
    return read_documents(documents(5000, 130_107, store=tmp_path_factory.mktemp("news") / "news.zarr", length=220))


# The same everywhere.


def test_the_same_as_ever(tmp_path: Path, descriptors: NDArray[np.uint8]) -> None:
    assert digest([descriptors]) == SIFT_DIGEST
    found = read_documents(documents(1000, 20_000, 5, tmp_path / "documents.zarr"))
    assert digest([found.data, found.indices.astype("<i4"), found.indptr.astype("<i8")]) == DOCUMENTS_DIGEST


def test_other_instructions_and_threads_give_the_same_bytes(tmp_path: Path) -> None:
    script = (
        "from dask_rac.datasets.bags import documents; from dask_rac.datasets.descriptors import sift\n"
        "sift(5000, 3, 'sift.bvecs')\nsift(1000, 3, 'sift.npy', dimensions=300)\ndocuments(3000, 9000, 3, length=50)\n"
    )
    plain = {"OPENBLAS_CORETYPE": "Prescott", "OPENBLAS_NUM_THREADS": "1"}
    found = np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])
    for name, changes in {"here": {}, "plain": {**plain, "NPY_DISABLE_CPU_FEATURES": " ".join(found)}}.items():
        (tmp_path / name).mkdir()
        where = {**os.environ, "PYTHONPATH": str(ROOT), **changes}
        subprocess.run([sys.executable, "-c", script], cwd=tmp_path / name, env=where, check=True)
    here = contents(tmp_path / "here")
    assert {name.partition("/")[0] for name in here} == {"sift.bvecs", "sift.npy", "documents.zarr"}
    assert here == contents(tmp_path / "plain")


def test_sums_are_exact_in_any_order() -> None:
    words = datasets_descriptors._sift_words(0, 128)
    most = sum(510 * scale for scale in datasets_descriptors.SCALES) + (510 * int(words.spread.max()) >> 3)
    assert most * datasets_descriptors.LATENT * 128 < 2**24
    assert np.abs(words.loadings).max() <= 128
    latent = datasets_descriptors._latent(words, chance.Stream(0, 0))
    assert np.abs(latent).max() <= most
    exact = latent.astype(np.int64) @ words.loadings.astype(np.int64).T
    np.testing.assert_array_equal(latent.astype(np.float32) @ words.loadings.T, exact)
    brightest = datasets_descriptors.BRIGHTEST**2 * datasets_descriptors.WINDOW.max() // 16
    assert brightest < 2**24
    assert int(brightest) ** 2 * datasets_descriptors.MOST_DIMENSIONS < 2**53


@pytest.mark.parametrize("nodes", [2, 4095, 4096, 4097])
def test_fewer_descriptors_are_the_first_of_more(nodes: int, tmp_path: Path, descriptors: NDArray[np.uint8]) -> None:
    np.testing.assert_array_equal(read_bvecs(sift(nodes, 0, tmp_path / "few.bvecs")), descriptors[:nodes])


@pytest.mark.parametrize("nodes", [2, 1190, 1191, 1192])
def test_fewer_documents_are_the_first_of_more(nodes: int, tmp_path: Path, news: sp.csr_array) -> None:
    few = read_documents(documents(nodes, 130_107, store=tmp_path / "few.zarr", length=220))
    assert few.shape == (nodes, 130_107)
    assert abs(few - news[:nodes]).max() == 0


def test_seeds_differ(tmp_path: Path, descriptors: NDArray[np.uint8], news: sp.csr_array) -> None:
    other = read_bvecs(sift(1000, 1, tmp_path / "other.bvecs"))
    assert (other != descriptors[:1000]).any(axis=1).all()
    pages = read_documents(documents(500, 130_107, 2**70, tmp_path / "other.zarr", length=220))
    assert pages.multiply(news[:500]).sum(axis=1).max() < 0.5


def test_blocks_differ(descriptors: NDArray[np.uint8], news: sp.csr_array) -> None:
    rows = datasets_descriptors.SIFT_ROWS
    assert (descriptors[:rows] != descriptors[rows : 2 * rows]).any(axis=1).all()
    rows = int(bags.BLOCK_WORDS / 220)
    assert news[:rows].multiply(news[rows : 2 * rows]).sum(axis=1).mean() < 0.1


def test_endings_hold_the_same_numbers(tmp_path: Path, descriptors: NDArray[np.uint8]) -> None:
    values = np.load(sift(5000, store=tmp_path / "sift.npy"))
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, descriptors[:5000])
    records = np.fromfile(sift(5000, store=str(tmp_path / "sift.fvecs")), "<f4").reshape(5000, 129)
    np.testing.assert_array_equal(records[:, 1:], descriptors[:5000])
    assert set(records[:, 0].view("<i4").tolist()) == {128}


# Like descriptors.


def test_descriptors_look_like_sift(descriptors: NDArray[np.uint8]) -> None:
    length = np.sqrt((descriptors.astype(np.float64) ** 2).sum(axis=1))
    assert np.abs(length - 512).max() < 4
    assert 25 < descriptors.mean() < 31
    assert 0.2 < (descriptors == 0).mean() < 0.26
    assert 130 < descriptors.max() < 256
    cells = descriptors.mean(axis=0).reshape(4, 4, 8).sum(axis=2)
    assert cells[1:3, 1:3].mean() > 1.5 * cells[[0, 0, 3, 3], [0, 3, 0, 3]].mean()


def test_gradients_are_like_those_beside_them(descriptors: NDArray[np.uint8]) -> None:
    alike: Matrix = np.corrcoef(descriptors.T.astype(np.float64))
    orientation, any_two = np.arange(128), np.arange(128)[::-1]
    beside = alike[orientation[orientation % 8 < 7], orientation[orientation % 8 < 7] + 1].mean()
    assert beside > 0.1 > 2 * abs(alike[orientation, any_two].mean())


def test_descriptors_are_clustered_and_of_low_dimension(descriptors: NDArray[np.uint8]) -> None:
    distance = cdist(descriptors[:300].astype(np.float64), descriptors.astype(np.float64))
    random = np.median(distance)
    distance[np.arange(300), np.arange(300)] = np.inf
    near = np.sort(distance, axis=1)[:, :20]
    assert near[:, 0].mean() < 0.45 * random
    assert np.percentile(near[:, 0], 95) > 1.5 * np.percentile(near[:, 0], 5)
    near = near[near[:, 0] > 0]
    dimension = 1 / np.log(near[:, -1:] / near[:, :-1]).mean()  # of Levina and Bickel
    assert 8 < dimension < 20


def test_few_descriptors_are_copies(descriptors: NDArray[np.uint8]) -> None:
    copies = len(descriptors) - len(np.unique(descriptors, axis=0))
    assert 20 <= copies <= 60


@pytest.mark.parametrize("dimensions", [8, 100, 1000])
def test_other_dimensions(dimensions: int, tmp_path: Path) -> None:
    found = read_bvecs(sift(5000, store=tmp_path / "sift.bvecs", dimensions=dimensions), dimensions)
    length = np.sqrt((found.astype(np.float64) ** 2).sum(axis=1))
    assert np.median(length) == pytest.approx(math.sqrt(2048 * dimensions), rel=0.02)
    assert length.min() > 0
    assert len(np.unique(found, axis=0)) > 4900


# Like documents.


def test_rows_are_of_length_1_and_canonical(news: sp.csr_array) -> None:
    assert news.data.dtype == np.float32
    assert news.shape == (5000, 130_107)
    squares = news.multiply(news).sum(axis=1)
    np.testing.assert_allclose(squares, 1, rtol=1e-5)
    assert news.data.min() > 0
    inside = np.ones(news.nnz, np.bool)
    inside[news.indptr[:-1]] = False
    assert (np.diff(news.indices, prepend=-1)[inside] > 0).all()


def test_lengths_are_log_normal(news: sp.csr_array, tmp_path: Path) -> None:
    stored = np.diff(news.indptr)
    assert stored.min() >= 1
    assert 140 < stored.mean() < 160
    logs = np.log(stored)
    assert 0.5 < logs.std() < 0.9
    assert abs(((logs - logs.mean()) ** 3).mean() / logs.std() ** 3) < 0.5
    short = np.diff(read_documents(documents(5000, 47_236, store=tmp_path / "rcv1.zarr", length=105)).indptr)
    assert 70 < short.mean() < 80


def test_use_of_terms_follows_zipf(news: sp.csr_array) -> None:
    use = np.sort(np.bincount(news.indices, minlength=130_107))[::-1] / 5000
    assert 0.7 < use[0] < 0.95
    rank = np.arange(1, len(use) + 1)
    slope = np.polyfit(np.log(rank[100:5000]), np.log(use[100:5000]), 1)[0]
    assert -1.1 < slope < -0.7
    common = np.bincount(news.indices, minlength=130_107).argsort()[-1000:]
    assert abs(common.mean() / 130_107 - 0.5) < 0.05


def test_common_terms_weigh_little(news: sp.csr_array) -> None:
    use = np.bincount(news.indices, minlength=130_107)
    weight = np.bincount(news.indices, news.data, minlength=130_107) / np.maximum(use, 1)
    assert weight[use > 1500].mean() < 0.6 * weight[(use > 5) & (use < 20)].mean()


def similarities(rows: sp.csr_array) -> Matrix:
    found = np.asarray((rows @ rows.T).todense(), np.float64)
    np.fill_diagonal(found, -1)
    return found


def test_documents_have_topics_and_copies(news: sp.csr_array) -> None:
    similar = similarities(news[:2000])
    nearest = similar.max(axis=1)
    assert np.median(nearest) > 8 * np.median(similar)
    copies = (nearest > 0.75).mean()
    assert 0.02 < copies < 0.12
    assert (nearest > 1 - 1e-4).mean() < copies / 3  # short ones without a change
    assert np.percentile(nearest[nearest < 0.75], 99) < 0.6


def test_fewer_topics_are_nearer(tmp_path: Path) -> None:
    means = [
        np.median(similarities(read_documents(documents(800, 30_000, store=tmp_path / f"{k}.zarr", topics=k))))
        for k in (1, 16, 1000)
    ]
    assert means[0] > 3 * means[1] > 3 * means[2]


@pytest.mark.parametrize(("terms", "length", "topics"), [(2, 1, 1), (2, 10_000, 3), (300, 1.5, 65_536)])
def test_small_languages(terms: int, length: float, topics: int, tmp_path: Path) -> None:
    found = read_documents(documents(50, terms, store=tmp_path / "small.zarr", length=length, topics=topics))
    assert found.shape == (50, terms)
    assert np.diff(found.indptr).min() >= 1
    np.testing.assert_allclose(found.multiply(found).sum(axis=1), 1, rtol=1e-5)


def test_values_by_hand() -> None:
    assert bags._parts(np.array([1, 2, 3, 4, 6, 1024])).tolist() == [64 * k for k in (1, 2, 2.5, 3, 3.5, 11)]
    language = bags._language(1000, 4, 100.0, 0)
    counts, terms, indptr = np.array([1, 4, 2]), np.array([5, 7, 5], np.int32), np.array([0, 2, 3])
    rows = bags._weighted(language, terms, counts, indptr).toarray()
    first, second = 64 * int(language.rarity[5]), 192 * int(language.rarity[7])
    assert rows[0, [5, 7]] == pytest.approx(np.array([first, second]) / math.hypot(first, second))
    assert rows[1, 5] == 1
    assert np.count_nonzero(rows) == 3


def test_copies_are_of_originals_before_them() -> None:
    generator = np.random.default_rng(0)
    copied = generator.random(3000) < 0.3
    source = chance.sources(copied, generator.integers(0, 2**16, 3000, np.uint16))
    rows = np.arange(3000)
    assert (source[~copied] == rows[~copied]).all()
    assert (source[1:][copied[1:]] < rows[1:][copied[1:]]).all()
    assert not copied[source[source > 0]].any()
    assert Counter(source[copied].tolist()).most_common(1)[0][1] < 20


# What is written.


@pytest.mark.parametrize("kind", ["sift", "documents"])
def test_memory_does_not_grow_with_the_nodes(kind: str) -> None:
    language = bags._language(5000, 64, 20.0, 0)
    peaks = []
    for nodes in (30_000, 120_000):
        tracemalloc.start()
        blocks: Iterable[Any] = sift_blocks(nodes, 0, 128) if kind == "sift" else document_blocks(language, nodes, 0)
        for _ in blocks:
            pass
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.1 * peaks[0]


def test_progress_is_told_of_blocks(tmp_path: Path) -> None:
    events: list[dask_rac.Event] = []
    sift(9000, store=tmp_path / "sift.bvecs", progress=events.append)
    documents(3000, 500, store=tmp_path / "documents.zarr", progress=events.append)
    steps = [(event.stage, event.done, event.total) for event in events]
    assert steps == [("generate", 1, 3), ("generate", 2, 3), ("generate", 3, 3), ("generate", 1, 2), ("generate", 2, 2)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": 1}, "nodes=1 is out of range: use 2 to 4611686018427387904"),
        ({"nodes": 1e6}, r"nodes=1000000\.0 is not a whole number"),
        ({"nodes": True}, "nodes=True"),
        ({"seed": -1}, "seed=-1 is out of range: use 0 or more"),
        ({"seed": None}, "seed=None"),
        ({"dimensions": 7}, "dimensions=7 is out of range: use 8 to 4096"),
        ({"dimensions": "128"}, "dimensions='128'"),
        ({"store": ""}, "store='' is not a path"),
        ({"store": 7}, "store=7 is not a path"),
        ({"store": "sift.parquet"}, r"'sift\.parquet' has an unknown extension: use \.bvecs or \.fvecs"),
        ({"progress": 7}, "progress=7 is neither True nor False nor a function"),
    ],
)
def test_refused_descriptors(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        sift(**{"nodes": 1000, **arguments})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": 0}, "nodes=0 is out of range: use 2 to"),
        ({"terms": 1}, "terms=1 is out of range: use 2 to 16777216"),
        ({"terms": 2**24 + 1}, "terms=16777217"),
        ({"terms": 2.0}, r"terms=2\.0"),
        ({"topics": 0}, "topics=0 is out of range: use 1 to 65536"),
        ({"seed": "x"}, "seed='x'"),
        ({"length": 0.5}, r"length=0\.5 is not a number from 1 to 10,000"),
        ({"length": math.nan}, "length=nan is not a number"),
        ({"length": math.inf}, "length=inf is not a number"),
        ({"length": True}, "length=True is not a number"),
        ({"length": "100"}, "length='100' is not a number"),
        ({"store": None}, "store=None is not a path"),
        ({"store": "documents.npz"}, r"has an unknown extension: use \.zarr"),
        ({"progress": "yes"}, "progress='yes' is neither"),
    ],
)
def test_refused_documents(
    arguments: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=message):
        documents(**{"nodes": 1000, "terms": 500, **arguments})
    assert not list(tmp_path.iterdir())


def test_a_disk_that_is_too_small_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match=r"sift\.bvecs needs 128 PB and .* GB are free: make room"):
        sift(10**15, store=tmp_path / "sift.bvecs")
    with pytest.raises(ResourceError, match=r"documents\.zarr needs 300 PB and"):
        documents(10**15, 500, store=tmp_path / "documents.zarr")
    assert not list(tmp_path.iterdir())


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "sift.bvecs").write_text("x")
    (tmp_path / "documents.zarr").mkdir()
    with pytest.raises(InputError, match=r"sift\.bvecs exists and is never overwritten"):
        sift(1000, store=tmp_path / "sift.bvecs")
    with pytest.raises(InputError, match=r"documents\.zarr exists and is never overwritten"):
        documents(1000, 500, store=tmp_path / "documents.zarr")
    assert (tmp_path / "sift.bvecs").read_text() == "x"
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["documents.zarr", "sift.bvecs"]


def test_failure_leaves_nothing(tmp_path: Path) -> None:
    def fail(event: dask_rac.Event) -> None:
        if event.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sift(9000, store=tmp_path / "sift.bvecs", progress=fail)
    with pytest.raises(KeyboardInterrupt):
        documents(9000, 500, store=tmp_path / "documents.zarr", progress=fail)
    assert not list(tmp_path.iterdir())
