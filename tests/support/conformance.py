"""Every way of running a problem: in memory or through a store, in this process or on workers."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributed import Client
from hypothesis import given

from dask_rac.engines.contract import Limits
from dask_rac.results.clustering import Clustering
from dask_rac.results.stored import StoredClustering
from tests.support.effort import examples
from tests.support.folders import no_fsync
from tests.support.graphs import columns
from tests.support.limits import cluster_within, resume_within
from tests.support.stored import given_as
from tests.support.strategies import Problem, named_problems, problems

Law = Callable[[Problem, Clustering], None]
Kept = dict[tuple[str, str, str], Clustering]
"""Results of named problems, which all laws share, by way, problem and linkage."""


@dataclass(frozen=True)
class Way:
    """A way of running, which must not show in the result."""

    name: str
    effort: int
    """Generated problems that are usually tried; runs on workers take longest."""
    shards: int | None = None
    """None: without a store."""
    on_workers: bool = False
    on_disk: bool = False
    """Whether the edges are in a file."""


WAYS = (
    Way("memory", 40),
    Way("1 shard", 6, shards=1, on_disk=True),
    Way("3 shards", 8, shards=3),
    Way("7 shards", 4, shards=7, on_disk=True),
    Way("memory of a worker", 4, on_workers=True),
    Way("3 shards on workers", 2, shards=3, on_workers=True, on_disk=True),
)
STORED_WAYS = tuple(way for way in WAYS if way.shards is not None)


def limits_of(problem: Problem) -> Limits:
    """With the limits that users have, graphs this small would never reach the finisher."""
    return Limits(hand_over=2.0) if problem.ending == "hand over" else Limits()


def arguments_of(problem: Problem) -> dict[str, Any]:
    """The arguments of `dask_rac.cluster` that determine the result."""
    return problem.options | {
        "duplicates": problem.duplicates,
        "finisher": problem.ending != "rounds",
        "n_nodes": problem.rows.n_nodes,
    }


def run_in_memory(problem: Problem) -> Clustering:
    """The result in the memory of this process."""
    found: Clustering = cluster_within(limits_of(problem), columns(problem.rows), **arguments_of(problem))
    return found


@dataclass
class Runner:
    """A way of running, with what it needs."""

    way: Way
    client: Client | None
    folder: Path
    kept: Kept

    def run(self, problem: Problem, folder: Path, **options: Any) -> Clustering:
        """The result of a problem; files are written to an existing folder."""
        edges = given_as(columns(problem.rows), self.way.on_disk, folder)
        if self.way.shards is not None:
            options = {"store": folder / "run", "shards": self.way.shards} | options
        with no_fsync():
            found: Clustering = cluster_within(
                limits_of(problem), edges, client=self.client, **arguments_of(problem) | options
            )
        return found

    def resume(self, problem: Problem, folder: Path) -> StoredClustering:
        """Go on with a run that was stopped."""
        with no_fsync():
            return resume_within(limits_of(problem), folder / "run", self.client)

    @contextmanager
    def place(self) -> Iterator[Path]:
        """A folder for one run."""
        with tempfile.TemporaryDirectory(dir=self.folder) as name:
            yield Path(name)

    def run_named(self, name: str, problem: Problem) -> Clustering:
        """The result of a named problem, computed once."""
        key = self.way.name, name, problem.options["linkage"]
        if key not in self.kept:
            self.kept[key] = self.run(problem, Path(tempfile.mkdtemp(dir=self.folder)))
        return self.kept[key]

    def hold(self, law: Law, linkage: str) -> None:
        """Check that a law holds for named and generated problems."""
        for name, problem in named_problems(linkage).items():
            law(problem, self.run_named(name, problem))

        @examples(self.way.effort)
        @given(problems(linkage))
        def check(problem: Problem) -> None:
            with self.place() as folder:
                law(problem, self.run(problem, folder))

        check()

    def hold_for(self, law: Callable[[Problem], None], linkage: str, share: tuple[int, int] = (0, 1)) -> None:
        """Check a law that runs its problems itself; of the named ones, every so many from a place on."""
        place, step = share
        for problem in list(named_problems(linkage).values())[place::step]:
            law(problem)
        examples(self.way.effort)(given(problems(linkage))(law))()
