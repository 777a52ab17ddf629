"""All pairs of vectors: one triangle, with the bits that graphs have, however it is cut."""

from __future__ import annotations

import itertools
from typing import Any

import dask.array as da
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

import dask_rac
from dask_rac.base.errors import InputError
from dask_rac.base.events import Event
from dask_rac.kernels.vectors.pairs import weigh
from dask_rac.tasks.team import Team
from dask_rac.vectors.compare.metrics import METRICS
from dask_rac.vectors.compare.search import as_points
from dask_rac.vectors.pairs import triangle as triangles
from dask_rac.vectors.pairs.opening import open_vector_pairs
from dask_rac.vectors.pairs.triangle import fill_triangle, rows_of, triangle_bytes, triangle_entries, triangle_spans
from tests.support.effort import examples

SCIPY: dict[str, Any] = {
    "euclidean": "euclidean",
    "sqeuclidean": "sqeuclidean",
    "cosine": "cosine",
    "manhattan": "cityblock",
}


def filled(vectors: Any, metric: str = "euclidean", threads: int = 2) -> NDArray[np.float64]:
    with Team(threads) as team:
        pairs = open_vector_pairs(vectors, metric)
        pairs.check(team, lambda _: None)
        return fill_triangle(pairs, team, lambda _: None)


def drawn(rows: int, dimensions: int, form: str, seed: int = 0) -> Any:
    random = np.random.default_rng(seed)
    values = random.random((rows, dimensions)) * 50 + 1
    if form == "sparse":
        kept = random.random(values.shape) < 0.4
        kept[:, 0] = True
        return sp.csr_array(np.where(kept, values, 0))
    return values.astype(form)


@pytest.mark.parametrize("form", ["float64", "float32", "uint8", "sparse"])
@pytest.mark.parametrize("metric", METRICS)
def test_weights_are_those_of_the_complete_graph_to_the_last_bit(metric: str, form: str) -> None:
    if form == "sparse" and not METRICS[metric].sparse:
        pytest.skip("for dense vectors")
    for rows, dimensions in ((2, 1), (3, 2), (17, 4), (70, 9), (300, 64)):
        vectors = drawn(rows, dimensions, form)
        weight = dask_rac.complete_graph(vectors, metric)["weight"].to_numpy()
        condensed = filled(vectors, metric)[::-1]
        assert np.array_equal(-condensed if metric == "inner_product" else condensed, weight)


@pytest.mark.kernels
@pytest.mark.parametrize("dimensions", range(1, 10))
@pytest.mark.parametrize("form", ["float64", "float32", "sparse"])
def test_every_entry_is_the_weight_of_its_pair(form: str, dimensions: int) -> None:
    vectors = drawn(19, dimensions, form, dimensions)
    for metric in METRICS.values():
        if form == "sparse" and not metric.sparse:
            continue
        triangle, points = np.empty(171), as_points(vectors, metric)
        open_vector_pairs(vectors, metric.name).read(0, 19, triangle)
        expected = [weigh(points, 18 - s, points, 18 - t, metric.code) for s in range(19) for t in range(s)]
        assert np.array_equal(triangle, expected)


@pytest.mark.parametrize("metric", SCIPY)
@pytest.mark.parametrize("dimensions", [1, 2, 3, 64])
def test_distances_are_those_of_scipy_in_reverse(metric: str, dimensions: int) -> None:
    vectors = np.random.default_rng(dimensions).standard_normal((150, dimensions)) + 0.1
    expected = pdist(vectors, SCIPY[metric])
    if metric == "cosine":  # scipy subtracts from 1
        np.testing.assert_allclose(filled(vectors, metric)[::-1], expected, rtol=0, atol=1e-14)
    else:
        np.testing.assert_allclose(filled(vectors, metric)[::-1], expected, rtol=1e-12)


@pytest.mark.parametrize("metric", SCIPY)
def test_copies_are_at_distance_zero_however_far_from_the_origin(metric: str) -> None:
    vectors = np.repeat(np.random.default_rng(3).standard_normal((5, 7)) + 1e6, 40, axis=0)
    condensed = filled(vectors, metric)[::-1]
    i, j = np.triu_indices(200, 1)
    assert not condensed[i // 40 == j // 40].any()
    assert condensed[i // 40 != j // 40].all()


@examples(20)
@given(cuts=st.sets(st.integers(1, 599)), form=st.sampled_from(["float64", "sparse"]))
def test_any_cut_into_spans_gives_the_same_bits(cuts: set[int], form: str) -> None:
    vectors = drawn(600, 5, form)
    pairs, whole = open_vector_pairs(vectors, "euclidean"), filled(vectors)
    parts = np.full_like(whole, np.nan)
    borders = [0, *sorted(cuts), 600]
    for first, last in itertools.pairwise(borders):
        pairs.read(first, last, rows_of(parts, first, last))
    assert np.array_equal(parts, whole)


def test_one_thread_and_three_give_the_same_bits() -> None:
    vectors = drawn(900, 11, "float64")
    assert np.array_equal(filled(vectors, threads=1), filled(vectors, threads=3))


def test_vectors_of_many_dimensions_are_compared_in_small_groups() -> None:
    vectors = np.random.default_rng(5).standard_normal((40, 70_001))
    np.testing.assert_allclose(filled(vectors)[::-1], pdist(vectors), rtol=1e-12)


def test_one_vector_has_no_pairs() -> None:
    assert filled([[1.0, 2.0]]).shape == (0,)


def test_a_dask_array_is_computed() -> None:
    vectors = drawn(50, 4, "float32")
    assert np.array_equal(filled(da.from_array(vectors, chunks=(20, 3))), filled(vectors))


def test_vectors_that_cannot_be_compared_are_refused() -> None:
    vectors = drawn(30, 3, "float64")
    vectors[7, 1] = np.nan
    with pytest.raises(InputError, match="row 7 has nan in dimension 1"):
        filled(vectors)
    vectors[7] = 0
    with pytest.raises(InputError, match="row 7 is all zeros"):
        filled(vectors, "cosine")
    with pytest.raises(InputError, match="'manhattan' is for dense vectors"):
        filled(sp.csr_array(vectors), "manhattan")


def test_pieces_are_reported_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triangles, "SPAN_ENTRIES", 2**15)
    events: list[Event] = []
    with Team(2) as team:
        fill_triangle(open_vector_pairs(drawn(900, 2, "float64"), "euclidean"), team, events.append)
    done = [event.done for event in events if event.stage == "pairs"]
    assert done == list(range(len(done)))
    assert done[-1] == events[-1].total > 8


@given(nodes=st.integers(1, 30_000), count=st.integers(1, 50))
def test_spans_cover_all_rows_and_are_even(nodes: int, count: int) -> None:
    spans = triangle_spans(nodes, count)
    assert spans[0][0] == 0
    assert spans[-1][1] == nodes
    assert all(a[1] == b[0] for a, b in itertools.pairwise(spans))
    entries = [triangle_entries(last) - triangle_entries(first) for first, last in spans]
    assert sum(entries) == nodes * (nodes - 1) // 2
    assert max(entries) <= 2 * nodes + sum(entries) / len(spans)
    assert triangle_bytes(nodes) == 8 * sum(entries)
