"""The near pairs of vectors, for engines that need no others at first: a graph of neighbours, built as any other."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import dask
import numpy as np
from numpy.typing import NDArray

from dask_rac.base.errors import ResourceError
from dask_rac.base.events import Listener
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.edges.source import open_edges, read_edges
from dask_rac.files.folder import Folder
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.scheduler import Scheduler
from dask_rac.tasks.team import Team
from dask_rac.tasks.threads import Threads
from dask_rac.vectors.graph.build import build
from dask_rac.vectors.graph.request import Request
from dask_rac.vectors.graph.stages import GraphFacts, Options
from dask_rac.vectors.sources.opening import VectorSource


class NearPairs(NamedTuple):
    """Pairs of vectors, each once; similarities are as users see them."""

    source: NDArray[np.signedinteger]
    target: NDArray[np.signedinteger]
    weight: NDArray[np.float64]


class TooManyPairsError(ResourceError):
    """There are more near pairs than memory holds."""

    def __init__(self, pairs: int) -> None:
        super().__init__(f"there are {pairs:,} near pairs, more than memory holds: allow more memory")
        self.pairs = pairs


def build_near(
    vectors: VectorSource, request: Request, target: Folder, scheduler: Scheduler, budget: Budget, report: Listener
) -> GraphFacts:
    """Write the near pairs of vectors to a folder; a folder that is unfinished is continued."""
    return build(vectors, request, target, Options(scheduler, budget), report)


def read_near(target: Folder) -> NearPairs:
    """Read near pairs into memory."""
    columns = read_edges(open_edges(target.url))[0]
    return NearPairs(*(columns[name] for name in EDGE_COLUMNS))


def near_in_memory(
    vectors: VectorSource, request: Request, memory: int, team: Team, report: Listener, most: int | None = None
) -> NearPairs:
    """Find the near pairs of vectors with the threads of this process; raise if there are more than `most`."""
    with _temporary_folder() as target:
        threads = Threads()
        facts = build_near(vectors, request, target, threads, Budget(memory, 1, team.threads), report)
        if most is not None and facts.edges > most:
            raise TooManyPairsError(facts.edges)
        return read_near(target)


@contextmanager
def _temporary_folder() -> Iterator[Folder]:
    """Give a folder that is deleted again."""
    scratch = dask.config.get("temporary_directory", None)
    with tempfile.TemporaryDirectory(dir=scratch, ignore_cleanup_errors=True) as folder:
        yield Folder(f"{folder}/near", durable=False)
