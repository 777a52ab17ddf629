"""Threads that run one kernel on several ranges at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.spans import even_entries, even_spans

Span: TypeAlias = tuple[int, ...]


SPAN_ITEMS = 25_000  # with fewer, a thread costs more than it saves
SPANS_A_THREAD = 4  # so that a thread that finishes early can take over work from a slower one


class Team:
    """Threads that run a kernel on several ranges of rows at once."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __enter__(self) -> Team:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown()

    def spans(self, offset: NDArray[np.int64]) -> list[tuple[int, int]]:
        """Return ranges of rows with about the same number of entries; `offset` is the entries before each row."""
        return even_entries(offset, self._parts(int(offset[-1])))

    def even_spans(self, items: int) -> list[tuple[int, int]]:
        """Return ranges with the same number of items."""
        return even_spans(items, self._parts(items))

    def _parts(self, items: int) -> int:
        """Return into how many parts items are cut, each worth a thread."""
        return 1 if self.threads == 1 else max(1, min(items // SPAN_ITEMS, self.threads * SPANS_A_THREAD))

    def run(self, kernel: Callable[..., Any], spans: Sequence[Span], *arguments: Any) -> list[Any]:
        """Run `kernel(*arguments, span)` for each span; return the results in the order of the spans."""
        if self._pool is None or len(spans) == 1:
            return [kernel(*arguments, span) for span in spans]
        return list(self._pool.map(lambda span: kernel(*arguments, span), spans))
