"""Ranges of rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dask_rac.base.spans import Span, batches, even_bins, even_entries, even_spans, starts_of, steps_of

COUNTS = st.lists(st.integers(0, 9), max_size=30).map(lambda counts: np.array(counts, np.int64))


def is_whole(spans: list[Span], rows: int) -> bool:
    """Whether spans follow each other from the first row to the last."""
    return spans[0][0] == 0 and spans[-1][1] == rows and all(one[1] == other[0] for one, other in pairwise(spans))


@given(st.integers(0, 100), st.integers(1, 20))
def test_even_spans(rows: int, count: int) -> None:
    spans = even_spans(rows, count)
    sizes = [last - first for first, last in spans]
    assert is_whole(spans, rows)
    assert len(spans) == max(1, min(count, rows))
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(0, 100), st.integers(0, 100), st.integers(1, 20))
def test_batches(first: int, rows: int, most: int) -> None:
    spans = list(batches(first, first + rows, most))
    assert [row for span in spans for row in range(*span)] == list(range(first, first + rows))
    assert all(last - start == most for start, last in spans[:-1])


@given(COUNTS, st.integers(1, 12))
def test_even_entries(length: np.ndarray, count: int) -> None:
    """No span has more than its share by as much as its longest row."""
    starts = starts_of(length)
    spans = even_entries(starts, count)
    assert len(spans) == count
    assert is_whole(spans, len(length))
    share = int(starts[-1]) / count
    assert all(starts[last] - starts[first] < share + 1 + length.max(initial=0) for first, last in spans)


@given(COUNTS.filter(len), st.integers(1, 12))
def test_even_bins(entries: np.ndarray, count: int) -> None:
    borders = even_bins(entries, count).tolist()
    assert (borders[0], borders[-1]) == (0, len(entries))
    assert all(one < other for one, other in pairwise(borders))
    assert len(borders) <= count + 1
    sums = np.add.reduceat(entries, borders[:-1])
    assert sums.max() <= entries.sum() / count + entries.max()


@given(COUNTS, st.integers(1, 30))
def test_steps(counts: np.ndarray, most: int) -> None:
    spans = steps_of(counts, most)
    assert [row for span in spans for row in range(*span)] == list(range(len(counts)))
    assert all(last - first == 1 or counts[first:last].sum() <= most for first, last in spans)
