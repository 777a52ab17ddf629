"""Equal vectors are merged first, and as the matrix engine and naive HAC would merge them."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from dask_rac.base.events import Event
from dask_rac.base.settings import checked_settings
from dask_rac.engines import equal
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.equal import distinct_pairs, merge_equal
from dask_rac.engines.given import GivenPairs
from dask_rac.engines.matrix.in_memory import merge_pairs
from dask_rac.engines.start import Start, single_nodes
from dask_rac.kernels.matrix import equal as kernels
from dask_rac.tasks import team
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.opening import open_vector_pairs
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from dask_rac.vectors.sources import chosen
from tests.support.all_pairs import LINKAGES, oracle
from tests.support.effort import examples


def _ignore(_event: Event) -> None:
    """Report nothing."""


def _opened(vectors: Any, metric: str = "euclidean", linkage: str = "average") -> VectorPairs:
    """Open vectors as a run does."""
    pairs = open_vector_pairs(vectors, metric, squares=linkage == "ward")
    assert isinstance(pairs, VectorPairs)
    return pairs


def _merged(pairs: VectorPairs, threads: int = 1, single: bool = False) -> tuple[Start, MergeList]:
    """Merge equal vectors."""
    with Team(threads) as workers:
        return merge_equal(pairs, workers, _ignore, single)


def _by_matrix(pairs: VectorPairs, linkage: str, metric: str = "euclidean") -> MergeList:
    """Merge all pairs."""
    with Team(1) as workers:
        settings = checked_settings(linkage, None, "distance", metric=metric)
        return merge_pairs(GivenPairs(pairs, single_nodes(pairs.nodes), 0), settings, workers, _ignore, Limits())


def _rows(found: MergeList, kept: NDArray[np.bool_] | slice = slice(None)) -> dict[str, list[Any]]:
    """Return all that is known of some merges, in their order."""
    columns = {name: getattr(found.merges, name) for name in ("left", "right", "height", "size")}
    columns["round"] = found.round
    if found.ends is not None:
        columns["ends"] = np.stack([np.minimum(*found.ends), np.maximum(*found.ends)], axis=1)
    return {name: column[kept].tolist() for name, column in columns.items()}


def _check_start(start: Start, vectors: NDArray[Any]) -> None:
    """Check the clusters of equal vectors against numpy."""
    _, first, inverse = np.unique(vectors, axis=0, return_index=True, return_inverse=True)
    leader = first[inverse.ravel()]
    assert start.ids.tolist() == sorted(first.tolist())
    assert start.size.sum() == start.nodes == len(vectors)
    for place, cluster in enumerate(start.ids):
        member = start.member[start.begin[place] : start.begin[place + 1]]
        assert member.tolist() == np.flatnonzero(leader == cluster).tolist()
        assert len(member) == start.size[place]


@st.composite
def _repeated_points(draw: st.DrawFn) -> NDArray[np.float64]:
    """Points with whole coordinates, many of them in one place."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape, values = (draw(st.integers(1, 40)), draw(st.integers(1, 5))), draw(st.integers(1, 4))
    points = random.integers(0, values, shape).astype(np.float64)
    points[random.random(shape) < 0.3] *= -1.0  # minus zero among them
    return points


@pytest.mark.kernels
@pytest.mark.parametrize("linkage", LINKAGES)
@given(points=_repeated_points())
@examples(30)
def test_equal_points_merge_as_by_the_matrix(linkage: str, points: NDArray[np.float64]) -> None:
    pairs = _opened(points, linkage=linkage)
    start, found = _merged(pairs, single=linkage == "single")
    _check_start(start, points + 0.0)
    expected = _by_matrix(_opened(points, linkage=linkage), linkage)
    assert _rows(found) == _rows(expected, expected.merges.height == 0)
    assert [record.merges for record in found.records] == np.bincount(found.round)[1:].tolist()


@pytest.mark.parametrize("linkage", LINKAGES)
@given(points=_repeated_points())
@examples(15)
def test_equal_points_merge_as_by_naive_hac(linkage: str, points: NDArray[np.float64]) -> None:
    _, found = _merged(_opened(points, linkage=linkage), single=linkage == "single")
    expected = [] if len(points) < 2 else oracle(pdist(points, "cityblock"), linkage)
    merges = zip(found.merges.left.tolist(), found.merges.right.tolist(), found.merges.size.tolist(), strict=True)
    assert sorted(merges) == sorted((m.left, m.right, m.size) for m in expected if m.height == 0)


@given(points=_repeated_points(), seed=st.integers(0, 99))
@examples(30)
def test_the_merges_do_not_depend_on_threads_pieces_and_dtype(points: NDArray[np.float64], seed: int) -> None:
    expected = _rows(_merged(_opened(points))[1])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(team, "SPAN_ITEMS", 3)
        patch.setattr(equal, "PIECE", 1 + seed % 7)
        patch.setattr(equal, "COMPARED", 1 + seed % 11)
        patch.setattr(chosen, "PIECE", 1 + seed % 5)
        for same in (points, points.astype(np.float32), sp.csr_array(points), sp.csc_matrix(points)):
            pairs = _opened(same)
            start, found = _merged(pairs, 3)
            assert _rows(found) == expected
            few = distinct_pairs(pairs, start)
            block = few.source.read(0, few.nodes)
            assert np.array_equal(sp.csr_array(block).toarray(), points[start.ids])


def test_stored_zeros_of_sparse_vectors_are_zeros() -> None:
    plain = sp.csr_array(np.array([[0.0, 1, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 0], [0, 0, 0]]))
    data = np.array([0.0, 1, 1, 1, -0.0, 1, 0.0])
    padded = sp.csr_array((data, np.array([0, 1, 1, 2, 0, 2, 2]), np.array([0, 2, 3, 4, 6, 7, 7])), shape=(6, 3))
    assert np.array_equal(plain.toarray(), padded.toarray())
    assert padded.nnz > plain.nnz
    assert _rows(_merged(_opened(padded))[1]) == _rows(_merged(_opened(plain))[1])
    assert _merged(_opened(padded))[0].ids.tolist() == [0, 2, 4]


@pytest.mark.parametrize("form", [np.asarray, sp.csr_array])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_by_cosine_multiples_are_equal_if_they_are_once_divided_by_their_length(form: Any, dtype: str) -> None:
    random = np.random.default_rng(5)
    base = random.random((20, 7)).astype(dtype)
    points = np.concatenate([base, 2 * base, base / 4, 3 * base])
    pairs = _opened(form(points), "cosine")
    start, found = _merged(pairs)
    expected = _by_matrix(_opened(form(points), "cosine"), "complete", "cosine")
    assert _rows(found) == _rows(expected, expected.merges.height == 0)
    assert 20 <= len(start.ids) <= 40  # 3 x may differ in the last bit
    assert {0, 20, 40} <= set(start.member[: start.begin[1]].tolist())


def test_long_vectors_are_divided_by_one_length_whatever_the_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    points = np.repeat(np.random.default_rng(1).random((2, 9000)), [5, 2], axis=0)
    monkeypatch.setattr(equal, "PIECE", 1)
    assert _merged(_opened(points, "cosine"))[0].ids.tolist() == [0, 5]


def test_by_inner_product_equal_vectors_are_not_the_nearest() -> None:
    start, found = _merged(_opened(np.ones((5, 2)), "inner_product"))
    assert len(start.ids) == 5
    assert len(found.round) == 0


def test_vectors_that_differ_are_left_alone() -> None:
    pairs = _opened(np.arange(30.0)[:, None])
    start, found = _merged(pairs)
    assert (start.ids.tolist(), found.records, found.ends) == (list(range(30)), [], None)
    assert distinct_pairs(pairs, start) is pairs
    ends = _merged(pairs, single=True)[1].ends
    assert ends is not None
    assert len(ends.source) == 0


@pytest.mark.parametrize("count", [1, 2, 3])
def test_few_points(count: int) -> None:
    start, found = _merged(_opened(np.ones((count, 2))))
    assert start.ids.tolist() == [0]
    assert len(found.round) == count - 1


@pytest.mark.kernels
def test_vectors_of_one_hash_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    def hash_nothing(vectors: Any, _lengths: Any, hashes: NDArray[np.uint64]) -> None:
        hashes[:] = (vectors[:, 0] > 3).astype(np.uint64)

    monkeypatch.setattr(equal, "hash_dense", hash_nothing)
    points = np.random.default_rng(3).integers(0, 6, (50, 1)).astype(np.float64)
    _check_start(_merged(_opened(points))[0], points)


@pytest.mark.kernels
@pytest.mark.parametrize("count", [kernels.MOST, kernels.MOST + 1, 1000])
@pytest.mark.parametrize("single", [False, True])
def test_large_groups_become_one_cluster(count: int, single: bool) -> None:
    points = np.concatenate([np.zeros((count, 1)), np.ones((3, 1))])[::-1].copy()
    start, found = _merged(_opened(points), single=single)
    assert start.size.tolist() == [3, count]
    merges, size = found.merges, np.ones(len(points), np.int64)
    for left, right, total in zip(merges.left, merges.right, merges.size, strict=True):
        assert left < right
        assert size[left] + size[right] == total
        size[left], size[right] = total, 0
    assert size[start.ids].tolist() == [3, count]
    assert np.array_equal(np.sort(found.round), found.round)
    if not single and count > kernels.MOST:
        assert found.round.max() == int(np.ceil(np.log2(count)))


def test_many_copies_take_no_time() -> None:
    for points in (np.ones((1_000_000, 2), np.float32), np.repeat(np.arange(300_000.0), 3)[:, None]):
        pairs = _opened(points)
        _merged(_opened(points[:10]))
        started = perf_counter()
        start, found = _merged(pairs, 2)
        assert len(start.ids) + len(found.round) == len(points)
        assert perf_counter() - started < 20  # about one here
