"""Some of the vectors of a source, in memory."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.base.spans import batches
from dask_rac.vectors.sources.memory import ArraySource, open_array, open_matrix
from dask_rac.vectors.sources.source import Block, VectorSource, frozen

PIECE = 2**22  # values read at a time


def read_chosen(source: VectorSource, rows: NDArray[np.int64]) -> Block:
    """Read some rows, given in ascending order, as a read-only C-contiguous array, or a canonical `csr_array`."""
    step = max(1, PIECE * source.rows // max(1, source.entries))
    spans = [span for span in batches(0, source.rows, step) if _any_within(rows, *span)]
    if source.sparse:
        parts = [source.read(*span)[_within(rows, *span)] for span in spans]
        matrix = sp.csr_array(sp.vstack(parts, format="csr")) if len(parts) > 1 else parts[0]
        matrix.has_canonical_format = True
        return frozen(matrix)
    out = np.empty((len(rows), source.dimensions), source.dtype)
    at = 0
    for span in spans:
        places = _within(rows, *span)
        np.take(source.read(*span), places, axis=0, out=out[at : at + len(places)], mode="clip")
        at += len(places)
    return frozen(out)


def choose_rows(source: VectorSource, rows: NDArray[np.int64]) -> VectorSource:
    """Return a source in memory of some rows, given in ascending order."""
    block = read_chosen(source, rows)
    if isinstance(block, np.ndarray):
        opened: ArraySource = open_array(block)
        return dataclasses.replace(opened, name=source.name)
    return dataclasses.replace(open_matrix(block), name=source.name)


def _within(rows: NDArray[np.int64], first: int, last: int) -> NDArray[np.int64]:
    """Return the rows of a span, counted from its first."""
    lo, hi = np.searchsorted(rows, (first, last))
    places: NDArray[np.int64] = rows[lo:hi] - first
    return places


def _any_within(rows: NDArray[np.int64], first: int, last: int) -> bool:
    """Whether a span has any of the rows."""
    lo, hi = np.searchsorted(rows, (first, last))
    return bool(lo < hi)


def choose_in_order(source: VectorSource, rows: NDArray[np.int64]) -> VectorSource:
    """Return a source in memory of some rows in any order, or of all."""
    block = source.read(0, source.rows)[rows]
    opened = open_array(block) if isinstance(block, np.ndarray) else open_matrix(block)
    return dataclasses.replace(opened, name=source.name)
