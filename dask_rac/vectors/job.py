"""What tasks are told, and how they write edges."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.store.edgelist import NewFolder, row_groups
from dask_rac.store.files import Folder
from dask_rac.store.vectors import VectorSource
from dask_rac.vectors.plan import Request, Span, ids_of
from dask_rac.vectors.search import Side, View, prepare

WORK = "work"
GROUP_EDGES = 2**20

Edges = Iterator[tuple[NDArray[Any], ...]]
"""Sources, targets and weights, some at a time."""


@dataclass(frozen=True)
class Job:
    """What all tasks of a graph are told."""

    url: str
    """Of the folder that is being written."""
    token: str
    """What tells this graph from others."""
    source: VectorSource
    view: View
    request: Request
    spans: tuple[Span, ...]
    tree: bool
    """Whether a tree finds neighbours."""
    others: int
    """Rows of the other side that are read at a time."""
    kept: int
    """Pairs that a task may keep."""
    threads: int
    """Of a process."""

    @property
    def folder(self) -> Folder:
        """The folder that is being written."""
        return Folder(self.url)

    @property
    def nodes(self) -> int:
        """The vectors."""
        return self.source.rows

    def side(self, span: Span, view: View | None = None) -> Side:
        """A span of vectors, ready to be compared."""
        return prepare(self.source.read(*span), span[0], view or self.view)


@dataclass(frozen=True)
class Written:
    """What a task has written."""

    edges: int
    dropped: int = 0
    """Pairs left out because their similarity is negative."""


def bundle(kind: str, *numbers: int) -> str:
    """The name of what a task leaves."""
    return f"{WORK}/{kind}/{'-'.join(f'{number:05d}' for number in numbers)}"


def batches(first: int, last: int, rows: int) -> Iterator[Span]:
    """Spans of at most so many rows."""
    return ((start, min(start + rows, last)) for start in range(first, last, rows))


def write_edges(job: Job, name: str, parts: Edges) -> Written:
    """Write edges in row groups; similarities get their sign back, and those below 0 no edge."""
    ids, count = ids_of(job.nodes), [0, 0]

    def kept() -> Edges:
        for source, target, weight in parts:
            near = slice(None) if not job.request.metric.similarity else weight <= 0
            part = source[near], target[near], 0.0 - weight[near] if job.request.metric.similarity else weight
            count[0] += len(part[0])
            count[1] += len(source) - len(part[0])
            yield part

    groups = row_groups(kept(), (ids, ids, np.dtype(np.float64)), GROUP_EDGES)
    first = next(groups, (np.empty(0, ids), np.empty(0, ids), np.empty(0)))  # a file may hold no edge
    NewFolder(job.folder, job.nodes, job.request.metric.weights).write(name, chain((first,), groups))
    return Written(*count)


def write_file(job: Job, edges: Callable[[Job, int, int], Edges], name: str, first: int, last: int) -> None:
    """Write the edges of some vectors, and then what the file holds."""
    written = write_edges(job, name, edges(job, first, last))
    job.folder.write(f"{WORK}/{name}.json", json.dumps(asdict(written)).encode())
