"""All engines for all pairs on the same vectors, within any small limits: one tree, and the same bits per engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import fastcluster
import numpy as np
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from dask_rac.api.cluster import run_cluster
from dask_rac.base.errors import ResourceError
from dask_rac.engines.contract import Limits
from dask_rac.results.clustering import Clustering
from dask_rac.results.stored import StoredClustering
from dask_rac.runs.options import PlanOptions, RunOptions
from dask_rac.runs.resume import resume_run
from dask_rac.store import manifest
from tests.support.all_pairs import in_threads
from tests.support.certain import any_points, settings_of
from tests.support.effort import examples
from tests.support.folders import no_fsync, quick_folder
from tests.support.results import assert_same, merge_set

CERTAIN = ("average", "complete", "weighted", "single")
METRICS = ("euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan")
POINTS = (("ward", "euclidean"), ("average", "sqeuclidean"), ("average", "cosine"), ("average", "inner_product"))
KINDS = ("points", "outliers", "densities", "grid", "copies", "core")
EXACT = ("sqeuclidean", "inner_product", "manhattan")
"""Sums of these are exact where coordinates are whole, so ties are true ties."""
CUTS = {
    "products": ("ROWS", "COLUMNS", "HELD"),
    "differences": ("ROWS",),
    "postings": ("ROWS",),
    "given_pairs": ("BAND_ENTRIES",),
    "spanning_vectors": ("BAND", "SAMPLE_SHARE", "FOUND"),
    "spanning_rows": ("SMALLEST",),
    "spanning_state": ("HELD",),
}
"""Numbers by which the modules of `engines.certain` cut a pass into parts."""


class KilledError(BaseException):
    """What no handler catches, as a kill."""


class Problem(NamedTuple):
    """Vectors or distances, and what is asked for."""

    kind: str
    given: Any
    linkage: str
    metric: str
    engine: str

    @property
    def tied(self) -> bool:
        """Whether rounding decides which of two weights is smaller, so that more than one tree is right."""
        line = self.metric == "cosine" and self.given.shape[1] == 1
        exact = self.metric in EXACT and self.engine == "certain" and self.linkage != "weighted"
        return line or (self.kind == "grid" and not (exact or self.linkage in ("complete", "single")))


def problem_of(random: np.random.Generator) -> Problem:
    """Any problem."""
    kind, points = str(random.choice(KINDS)), bool(random.random() < 0.4)
    linkage, metric = map(str, random.choice(POINTS) if points else (random.choice(CERTAIN), random.choice(METRICS)))
    vectors = vectors_of(kind, random)
    if not points and random.random() < 0.2 and metric != "inner_product":
        return Problem(kind, squareform(pdist(vectors, "cityblock")), linkage, "precomputed", "certain")
    if not points and random.random() < 0.3 and metric != "manhattan":
        vectors = np.where(random.random(vectors.shape) < 0.5, 0, vectors)
        vectors[:, 0] = np.where(vectors.any(axis=1), vectors[:, 0], 1)  # a row of zeros has no cosine
        return Problem(kind, sp.csr_array(vectors), linkage, metric, "certain")
    return Problem(kind, vectors, linkage, metric, "points" if points else "certain")


def vectors_of(kind: str, random: np.random.Generator) -> NDArray[np.floating]:
    """Vectors with ties, copies, outliers, of any density, in 1 to 300 dimensions."""
    nodes, seed = int(random.integers(2, 90)), int(random.integers(2**31))
    if kind == "copies":
        return random.permutation(np.repeat(any_points(seed, nodes // 3 + 1, "points"), 3, axis=0))
    if kind == "core":
        points = any_points(seed, nodes, "points")
        return points * np.where(random.random(nodes) < 0.6, 1e-3, 1.0)[:, None]
    points = any_points(seed, nodes, kind)
    return points.astype(np.float32) if random.random() < 0.4 else points


def limits_of(random: np.random.Generator) -> Limits:
    """Limits that send a few vectors along every way that many would go."""
    return Limits(
        certain_share=float(random.choice([0.0, 0.003, 0.1])),
        sample_rows=int(random.integers(2, 80)),
        degrees=tuple(sorted({int(degree) for degree in random.integers(1, 30, 3)})),
        stage_degree=int(random.integers(2, 60)),
        stage_share=1e-4,
        stage_sample=int(random.integers(5, 100)),
        near=int(random.integers(1, 6)),
        lists=int(random.integers(1, 7)),
        alike=int(random.choice([0, 2048])),
        close_share=float(random.choice([0.0, 0.7, 1.0])),
    )


def cut_otherwise(limits: Limits, random: np.random.Generator) -> Limits:
    """The same limits, but other bands, tiles and steps."""
    return replace(
        limits,
        band_pairs=int(random.integers(50, 3000)),
        band_entries=int(random.integers(50, 1000)),
        span_pairs=int(random.integers(20, 3000)),
        query_rows=int(random.choice([1, 5, 512])),
        query_tile=int(random.choice([1, 40, 2**19])),
        save_seconds=float(random.choice([0.0, 60.0])),
        part_merges=int(random.choice([7, 4_000_000])),
    )


@contextmanager
def within(most: int, random: np.random.Generator) -> Iterator[None]:
    """Let a matrix of more than `most` clusters be too large, and cut passes anywhere, for one to three threads."""
    package = "dask_rac.engines.certain"
    with ExitStack() as stack:
        for module in ("in_memory", "stored"):
            fits = mock.patch(f"{package}.{module}.pairs_bytes", lambda count: 2**50 if count > most else 0)
            stack.enter_context(fits)
        for module, names in CUTS.items():
            for name in names:
                stack.enter_context(mock.patch(f"{package}.{module}.{name}", int(random.integers(1, 100))))
        stack.enter_context(in_threads(int(random.integers(1, 4))))
        yield


def attempted(run: Callable[[], Clustering]) -> Clustering | None:
    """What a run gives; None if its stages would never end."""
    try:
        return run()
    except ResourceError as error:
        if "clusters are left that hardly merge" not in str(error):
            raise
        return None


def clustered(problem: Problem, limits: Limits, engine: str, store: Path | None = None) -> Clustering:
    """A run of an engine, in memory or through a store."""
    options, given = PlanOptions(None, None, None, None, limits=limits, engine=engine), problem.given
    if store is not None:
        options, given = RunOptions(**vars(options), store=store), saved(given, store.parent)
    settings = settings_of(problem.linkage, problem.metric)
    return run_cluster(given, None, settings, options, lambda _: None)[0]


def is_sparse(given: Any) -> bool:
    """Whether vectors are a sparse matrix."""
    return bool(sp.issparse(given))


def saved(given: Any, folder: Path) -> Path:
    """The path of vectors or distances on disk."""
    if is_sparse(given):
        sp.save_npz(folder / "given.npz", given)
        return folder / "given.npz"
    np.save(folder / "given.npy", given)
    return folder / "given.npy"


def resumed(store: Path, limits: Limits) -> Clustering:
    """A run that goes on to its end."""
    options = PlanOptions(None, None, None, None, limits=limits)
    return StoredClustering(resume_run(store, options, lambda _: None), lambda _: None, trusted=True)


def killed_again_and_again(problem: Problem, limits: Limits, store: Path, random: np.random.Generator) -> Clustering:
    """A run through a store that is killed now and then, and cut otherwise whenever it goes on."""
    commit = manifest.commit

    def until(*arguments: Any) -> bool:
        if random.random() < 0.3:
            raise KilledError
        return commit(*arguments)

    with mock.patch.object(manifest, "commit", until):
        while True:
            now = cut_otherwise(limits, random)
            with suppress(KilledError):
                return resumed(store, now) if store.exists() else clustered(problem, now, problem.engine, store)


def heights_by_fastcluster(problem: Problem) -> NDArray[np.float64]:
    """The heights of another implementation, as the user sees them, in ascending order of distance."""
    heights: NDArray[np.float64] = fastcluster.linkage(condensed_of(problem), problem.linkage)[:, 2]
    return -heights if problem.metric == "inner_product" else heights


def condensed_of(problem: Problem) -> NDArray[np.float64]:
    """The distances of all pairs by scipy; products are negated."""
    given: Any = problem.given
    if problem.metric == "precomputed":
        return np.asarray(squareform(given))
    dense = (given.toarray() if is_sparse(given) else given).astype(np.float64)
    if problem.metric == "inner_product":
        return np.asarray(-(dense @ dense.T)[np.triu_indices(len(dense), 1)])
    named: Any = {"manhattan": "cityblock"}.get(problem.metric, problem.metric)
    return np.asarray(pdist(dense, named))


def assert_one_tree(problem: Problem, found: Clustering, expected: Clustering) -> None:
    """The same merges, heights but for the rounding of sums and centroids."""
    rows, others = sorted(merge_set(found)), sorted(merge_set(expected))
    assert [(a, b, size) for a, b, _, size in rows] == [(a, b, size) for a, b, _, size in others]
    heights, wanted = ([row[2] for row in some] for some in (rows, others))
    np.testing.assert_allclose(heights, wanted, rtol=1e-9, atol=rounding(problem))


def rounding(problem: Problem) -> float:
    """How far a height may be off: centroids are rounded in units of the last place of the longest vector."""
    longest = np.square(problem.given.astype(np.float64)).sum(axis=1).max()
    return 1e-15 * float(longest) if problem.engine == "points" else 0.0


def check(seed: int) -> str:
    """Solve a problem in all ways; return what came out."""
    random = np.random.default_rng(seed)
    problem, limits = problem_of(random), limits_of(random)
    most = int(random.integers(1, problem.given.shape[0] + 1))
    with within(most, random):
        found = attempted(lambda: clustered(problem, limits, problem.engine))
    with no_fsync(), quick_folder() as folder, within(most, random):
        if random.random() < 0.3:
            again = attempted(lambda: killed_again_and_again(problem, limits, folder / "run", random))
        else:
            again = attempted(lambda: clustered(problem, cut_otherwise(limits, random), problem.engine))
        if found is None or again is None:
            assert found is again is None
            return "refused"
        assert_same(again, found)
        assert again.verify().ok
    if problem.tied:
        return "tied"
    expected = clustered(problem, Limits(), "matrix")
    assert_one_tree(problem, found, expected)
    if problem.kind not in ("grid", "copies") and not sp.issparse(problem.given):  # another order of ties is right, too
        heights = np.sort([height for _, _, height, _ in merge_set(expected)])
        np.testing.assert_allclose(heights, np.sort(heights_by_fastcluster(problem)), rtol=1e-8, atol=1e-11)
    return "the same"


@examples(60)
@given(st.integers(0, 2**32 - 1))
def test_every_engine_gives_one_tree_within_any_limits(seed: int) -> None:
    check(seed)
