"""What every task of a graph receives, and how tasks write edges."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.names import WORK
from dask_rac.base.spans import Span
from dask_rac.edges.writing import NewFolder, row_groups
from dask_rac.files.folder import Folder
from dask_rac.vectors.compare.search import Side, View, prepare
from dask_rac.vectors.graph.plan import GraphLimits
from dask_rac.vectors.graph.request import Request
from dask_rac.vectors.sources.opening import VectorSource

Edges = Iterator[tuple[NDArray[Any], ...]]
"""Sources, targets and weights, one piece at a time."""


@dataclass(frozen=True)
class GraphJob:
    """What every task of a graph receives."""

    folder: Folder
    """The folder that is being written."""
    token: str
    """Identifies this graph."""
    source: VectorSource
    view: View
    request: Request
    spans: tuple[Span, ...]
    tree: bool
    """Whether neighbours are found with a k-d tree."""
    others: int
    """Rows of the other span that are read at a time."""
    kept: int
    """Pairs that a task may hold at a time."""
    threads: int
    """Threads per process."""
    limits: GraphLimits

    @property
    def nodes(self) -> int:
        """The number of vectors."""
        return self.source.rows

    def side(self, span: Span, view: View | None = None) -> Side:
        """Read a span of vectors and prepare it for comparison."""
        return prepare(self.source.read(*span), span[0], view or self.view)


@dataclass(frozen=True)
class Written:
    """What a task has written."""

    edges: int
    dropped: int = 0
    """Pairs left out because their similarity is negative."""


def bundle(kind: str, *numbers: int) -> str:
    """Return the name of the bundle that a task leaves."""
    return f"{WORK}/{kind}/{'-'.join(f'{number:05d}' for number in numbers)}"


def write_edges(job: GraphJob, name: str, parts: Edges) -> Written:
    """Write edges in row groups. Similarities are made of what was compared; pairs with a negative one get no edge."""
    ids, count = edge_id_dtype(job.nodes), [0, 0]
    similar = job.request.weights == "similarity"
    top = 1.0 if job.request.complements else 0.0  # the similarity is this minus what was compared

    def kept() -> Edges:
        for source, target, weight in parts:
            near = slice(None) if not similar else weight <= top
            part = source[near], target[near], top - weight[near] if similar else weight
            count[0] += len(part[0])
            count[1] += len(source) - len(part[0])
            yield part

    groups = row_groups(kept(), (ids, ids, np.dtype(np.float64)), job.limits.group_edges)
    first = next(groups, (np.empty(0, ids), np.empty(0, ids), np.empty(0)))  # a file may hold no edge
    NewFolder(job.folder, job.nodes, job.request.weights).write(name, chain((first,), groups))
    return Written(*count)


def write_file(job: GraphJob, edges: Callable[[GraphJob, int, int], Edges], name: str, first: int, last: int) -> None:
    """Write the edges of a span of vectors, and then a record of what the file holds."""
    written = write_edges(job, name, edges(job, first, last))
    job.folder.write(f"{WORK}/{name}.json", json.dumps(asdict(written)).encode())
