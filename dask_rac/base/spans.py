"""Ranges of rows, and where they begin."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Span = tuple[int, int]


def starts_of(length: NDArray[np.signedinteger]) -> NDArray[np.int64]:
    """Return where each row begins, and where the last one ends."""
    starts = np.zeros(len(length) + 1, np.int64)
    np.cumsum(length, out=starts[1:])
    return starts


def batches(first: int, last: int, rows: int) -> Iterator[Span]:
    """Yield spans of at most `rows` rows."""
    return ((start, min(start + rows, last)) for start in range(first, last, rows))


def even_cuts(rows: int, count: int) -> list[int]:
    """Return where to cut rows into `count` parts, as even as possible."""
    return [rows * part // count for part in range(1, count)]


def even_spans(rows: int, count: int) -> list[Span]:
    """Return `count` spans, as even as possible; fewer if there are fewer rows, and never none."""
    return list(pairwise([0, *even_cuts(rows, max(1, min(count, rows))), rows]))


def even_entries(starts: NDArray[np.int64], count: int) -> list[Span]:
    """Return `count` spans of rows with about the same number of entries; `starts` is as of `starts_of`."""
    cuts = np.searchsorted(starts[:-1], even_cuts(int(starts[-1]), count))
    return list(pairwise([0, *cuts.tolist(), len(starts) - 1]))


def even_bins(entries: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Return the borders of at most `count` runs of bins, none empty, with about the same number of entries."""
    total = int(entries.sum())
    ends = np.searchsorted(np.cumsum(entries), [total * part / count for part in range(1, count)], side="left") + 1
    borders: NDArray[np.int64] = np.unique(np.concatenate(([0], np.minimum(ends, len(entries)), [len(entries)])))
    return borders


def spread(rows: int, bins: int, width: int) -> NDArray[np.int64]:
    """Return how many of `rows` rows are in each of `bins` bins of `width` rows."""
    return np.clip(rows - width * np.arange(bins, dtype=np.int64), 0, width)


def steps_of(counts: NDArray[np.int64], most: int) -> list[Span]:
    """Return spans of rows with at most `most` edges together, or of a single row."""
    ends = np.cumsum(counts)
    cuts, first, before = [], 0, 0
    while first < len(counts):
        last = max(first + 1, int(np.searchsorted(ends, before + most, side="right")))
        cuts.append((first, last))
        first, before = last, int(ends[last - 1])
    return cuts
