"""The names of nodes: what users call them, beside the numbers 0, 1, 2, ... that everything else uses.

1. Names are text, one for each node, in the order of the nodes. They may be on disk, where there are many: then what is
   asked for is read, and nothing else.
2. Nodes that were given as text are numbered in the order of their names, by UTF-8 bytes, so that names are sorted and
   each occurs once. Names that users give to numbered nodes may be in any order, and occur more than once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from dask_rac.base.spans import batches

BLOCK = 2**18  # nodes whose names are held at a time, where they are on disk


class NodeNames(ABC):
    """The names of the nodes 0, 1, 2, ..., wherever they are."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of nodes."""

    @abstractmethod
    def slice(self, start: int, stop: int) -> Any:
        """Return the names of the nodes from `start` to before `stop`, as an Arrow array of large strings."""

    @abstractmethod
    def take(self, nodes: NDArray[np.integer]) -> Any:
        """Return the names of some nodes, in any order, as an Arrow array of large strings."""

    @abstractmethod
    def find(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the first node with each name; -1 where no node has it."""

    def batches(self) -> Iterator[Any]:
        """Yield all names, in the order of the nodes, some at a time."""
        for start, stop in batches(0, len(self), BLOCK):
            yield self.slice(start, stop)

    def __repr__(self) -> str:
        shown = self.slice(0, min(len(self), 3)).to_pylist()
        return f"<{len(self):,} names: {', '.join(map(repr, shown))}{', ...' * (len(self) > 3)}>"

    def __getitem__(self, node: int) -> str:
        return str(self.take(np.array([node]))[0].as_py())

    def texts(self, nodes: NDArray[np.integer]) -> list[str]:
        """Return the names of some nodes as text."""
        texts: list[str] = self.take(nodes).to_pylist()
        return texts


class NamesInMemory(NodeNames):
    """Names that are held in memory."""

    def __init__(self, names: Any) -> None:
        self._names = pa.array(names, pa.large_string()) if not isinstance(names, pa.Array) else names

    def __len__(self) -> int:
        return len(self._names)

    def slice(self, start: int, stop: int) -> Any:
        """Return the names of the nodes from `start` to before `stop`."""
        return self._names.slice(start, stop - start)

    def take(self, nodes: NDArray[np.integer]) -> Any:
        """Return the names of some nodes."""
        return self._names.take(pa.array(nodes))

    def find(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the first node with each name; -1 where no node has it."""
        wanted = pa.array(names, pa.large_string())
        place: Any = pc.index_in(wanted, self._first)
        found: NDArray[np.int64] = place.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return np.where(found < 0, -1, self._nodes[found])

    @cached_property
    def _first(self) -> Any:
        """Each name once, in the order of the nodes."""
        return pc.unique(self._names)

    @cached_property
    def _nodes(self) -> NDArray[np.int64]:
        """The first node with each of them."""
        if len(self._first) == len(self._names):
            return np.arange(len(self._names) + 1)
        codes = self._names.dictionary_encode().indices.to_numpy(zero_copy_only=False)
        return np.append(np.unique(codes, return_index=True)[1], -1)
