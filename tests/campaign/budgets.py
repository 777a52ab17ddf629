"""Graphs that are hard on memory, with the least that a plan accepts: a run stays within it, or says what it needs."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import dask
import numpy as np
import pandas as pd

import dask_rac
from tests.campaign.campaign import Campaign
from tests.support.folders import quick_folder
from tests.support.resident import measured
from tests.support.stored import Columns, write_parquet

BESIDE = 400_000_000  # bytes per process: the interpreter, its libraries, and what plans do not count
ROUNDS = 1_500  # more would be a run that has not noticed how slow it is
ATTEMPTS = 4  # the memory that one refusal names may be refused for another reason
LINKAGES = ("average", "single", "complete", "average similarities")


@dataclass(frozen=True)
class Case:
    """One run."""

    edges: Path
    n_nodes: int
    linkage: str
    threads: int
    memory: int

    @property
    def options(self) -> dict[str, Any]:
        """What the run computes."""
        linkage, _, kind = self.linkage.partition(" ")
        return {"linkage": linkage, "n_nodes": self.n_nodes, "weights": "similarity" if kind else "distance"}


def star(n: int, rng: np.random.Generator) -> Columns:
    """One node with edges to all others."""
    return np.zeros(n - 1, int), np.arange(1, n), rng.random(n - 1)


def double_star(n: int, rng: np.random.Generator) -> Columns:
    """Two such nodes, the first and the last, that share their neighbours."""
    leaves = np.arange(1, n - 1)
    ends = np.repeat([0, n - 1], n - 2)
    return ends, np.concatenate((leaves, leaves)), rng.random(2 * (n - 2))


def path(n: int, rng: np.random.Generator) -> Columns:
    """Every node has one neighbour on each side."""
    return np.arange(n - 1), np.arange(1, n), rng.random(n - 1)


def shuffled_path(n: int, rng: np.random.Generator) -> Columns:
    """A path that leads from shard to shard."""
    places = rng.permutation(n)
    return places[:-1], places[1:], rng.random(n - 1)


def hubs(n: int, rng: np.random.Generator) -> Columns:
    """A few nodes with many edges, among nodes with few."""
    u, v = rng.integers(0, n, (2, 2 * n))
    u[: n // 2] = rng.integers(0, 3, n // 2)
    lo, hi = np.minimum(u, v), np.maximum(u, v)
    pairs = np.unique((lo * n + hi)[lo != hi])
    return pairs // n, pairs % n, rng.random(len(pairs))


def isolated(n: int, rng: np.random.Generator) -> Columns:
    """Hardly any node has an edge."""
    return np.array([0, n // 2]), np.array([1, n - 1]), rng.random(2)


def pairs(n: int, rng: np.random.Generator) -> Columns:
    """Every node merges in the first round, with one of another shard."""
    return np.arange(n // 2), n // 2 + np.arange(n // 2), rng.random(n // 2)


GRAPHS: tuple[tuple[Callable[[int, np.random.Generator], Columns], int], ...] = (
    (isolated, 3_000_000),
    (star, 250_000),
    (path, 1_000_000),
    (pairs, 2_000_000),
    (double_star, 200_000),
    (shuffled_path, 500_000),
    (hubs, 300_000),
)


@contextmanager
def scene(folder: Path) -> Iterator[Path]:
    """Nothing is shared: every trial has a graph of its own."""
    with quick_folder() as made:
        yield made


def trial(folder: Path, chance: Random, number: int) -> None:
    """Run a graph with little memory, and compare with a run in memory."""
    make, most = GRAPHS[number % len(GRAPHS)]
    n = int(most * chance.uniform(0.2, 1))
    place = folder / str(number)
    place.mkdir()
    try:
        groups = chance.choice([50_000, 1_000_000, 2**31])
        edges = make(n, np.random.default_rng(chance.getrandbits(32)))
        file = write_parquet(place / "edges.parquet", edges, row_group_size=groups)
        case = Case(file, n, chance.choice(LINKAGES), chance.choice([1, 2]), 1_000)
        case = accepted(case, chance.choice([1.0, 1.0, 1.5, 3.0]))
        found = follow(case, place)
        expected, _ = measured(in_memory, case)
        assert found == expected, f"other merges than in memory: {case}"
    finally:
        for path in sorted(place.rglob("*"), reverse=True):
            path.unlink() if path.is_file() else path.rmdir()


def accepted(case: Case, times: float) -> Case:
    """The same with the least memory that a plan accepts, or some times as much."""
    for _ in range(ATTEMPTS):
        try:
            with dask.config.set(num_workers=case.threads):
                dask_rac.plan(case.edges, memory=case.memory, **case.options)
            return with_memory(case, int(case.memory * times))
        except dask_rac.ResourceError as error:
            case = with_memory(case, advised(error))
    raise AssertionError(f"the plan refuses what it has advised: {case}")


def follow(case: Case, place: Path) -> str:
    """Run, with the memory that a refusal advises if there is one; return a digest of the merges."""
    for attempt in range(ATTEMPTS):
        answer, peak = measured(attempt_run, case, place / "run")
        assert peak <= case.memory + BESIDE, f"{peak / 1e6:.0f} MB in attempt {attempt}: {case}"
        if isinstance(answer, str):
            return answer
        assert answer > case.memory, f"refused with no more than it has: {case}"
        case = with_memory(case, answer)
    raise AssertionError(f"refused {ATTEMPTS} times: {case}")


def attempt_run(case: Case, store: Path) -> str | int:
    """Begin or resume a run; return a digest of its merges, or the bytes that it asks for."""
    try:
        with dask.config.set(num_workers=case.threads):
            if (store / "rac.json").exists():
                run = dask_rac.resume(store, memory=case.memory)
            else:
                run = dask_rac.cluster(case.edges, store=store, memory=case.memory, **case.options)
    except dask_rac.ResourceError as error:
        return advised(error)
    assert len(run.rounds) <= ROUNDS, f"{len(run.rounds)} rounds"
    assert run.finished
    return "finished"


def in_memory(case: Case) -> str:
    """Compare the stored run with one in memory; return what `attempt_run` returns for the same merges.

    Where the finisher had no room, sums are added in another order, and the last bits of heights may differ.
    """
    run = dask_rac.open(case.edges.parent / "run")
    stored = ordered(run.merges.compute(scheduler="sync"))
    expected = ordered(dask_rac.cluster(case.edges, **case.options).merges)
    if run.rounds["deferred"].any():
        np.testing.assert_allclose(stored.pop("height"), expected.pop("height"), rtol=1e-12)
    assert digest(expected) == digest(stored)
    return "finished"


def ordered(merges: pd.DataFrame) -> pd.DataFrame:
    """Merges without their rounds, which depend on when the finisher has room."""
    return merges.drop(columns="round").sort_values(["left", "right"])


def digest(merges: pd.DataFrame) -> str:
    """One hash over all columns."""
    return hashlib.sha256(b"".join(column.to_numpy().tobytes() for _, column in merges.items())).hexdigest()


def advised(error: Exception) -> int:
    """The bytes of memory that a refusal names."""
    found = re.search(r"memory='([\d.]+[GM]B)'(?: or more|\))", str(error))
    assert found, f"no memory is named: {error}"
    return int(dask.utils.parse_bytes(found[1]))


def with_memory(case: Case, memory: int) -> Case:
    """The same run with another budget."""
    return Case(case.edges, case.n_nodes, case.linkage, case.threads, memory)


CAMPAIGN = Campaign(
    name="budgets",
    trial_is="a star, path or other graph that is hard on memory, in the least that a plan accepts",
    scene=scene,
    trial=trial,
    goal=100,
    share=1,
    missing=lambda: "" if Path("/proc/self/status").exists() else "no /proc to read the memory of a process from",
)
