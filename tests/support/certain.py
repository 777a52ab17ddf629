"""Near pairs of any reach, and certain rounds on them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist, squareform

from dask_rac.base.settings import Settings, checked_settings
from dask_rac.engines.certain.in_memory import CertainRun, joined
from dask_rac.engines.certain.round import certain_rounds
from dask_rac.engines.certain.state import CertainState, Reach, first_state, up_to
from dask_rac.engines.certain.survey import Survey
from dask_rac.engines.contract import Limits, MergeList
from dask_rac.engines.equal import distinct_pairs, merge_equal
from dask_rac.engines.given import GivenPairs
from dask_rac.engines.in_memory import run
from dask_rac.engines.near import NearPairs
from dask_rac.engines.start import Start, single_nodes
from dask_rac.kernels.tree.merges import raise_heights
from dask_rac.tasks.team import Team
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.opening import open_vector_pairs
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from tests.support.all_pairs import KINDS

LINKAGES = ("average", "complete", "weighted")
PATIENT = Limits(certain_share=0.0)
"""Rounds go on as long as anything is certain."""
METRICS = ("euclidean", "sqeuclidean", "cosine", "inner_product", "manhattan")


def settings_of(linkage: str, metric: str = "precomputed", max_height: float | None = None) -> Settings:
    """The settings of a run on all pairs."""
    weights = "similarity" if metric == "inner_product" else "distance"
    return checked_settings(linkage, None, weights, max_height, metric=metric)


def by_matrix(pairs: AllPairs, settings: Settings, team: Team) -> MergeList:
    """The merges of the matrix engine, which takes equal vectors as any others."""
    given = GivenPairs(pairs, single_nodes(pairs.nodes), 0)
    return run(given, settings, team, lambda _: None, Limits())


def any_distances(seed: int, most: int = 40) -> NDArray[np.float64]:
    """Distances: tied, of outliers, of clusters of very different density, or of points without structure."""
    random = np.random.default_rng(seed)
    nodes = int(random.integers(2, most))
    kind = str(random.choice([*sorted(KINDS), "points", "outliers", "densities"]))
    return KINDS[kind](nodes, random) if kind in KINDS else pdist(any_points(seed, nodes, kind))


def any_points(seed: int, nodes: int, kind: str, dimensions: int = 0) -> NDArray[np.float64]:
    """Points of a kind, in some number of dimensions unless it is given."""
    random = np.random.default_rng(seed)
    d = dimensions or int(random.choice([1, 2, 3, 8, 40, 300]))
    if kind == "grid":
        return random.integers(0, 4, (nodes, min(d, 3))).astype(np.float64) + 1
    points = random.standard_normal((nodes, d))
    if kind == "outliers":
        points[random.random(nodes) < 0.1] *= 100
    if kind == "densities":
        centre = random.integers(0, 4, nodes)
        points = 10 * random.standard_normal((4, d))[centre] + points * 10.0 ** -centre[:, None]
    return points


POINT_KINDS = ("points", "outliers", "densities", "grid")


def near_up_to(condensed: NDArray[np.float64], radius: float) -> NearPairs:
    """All pairs up to a radius."""
    nodes = (1 + round((1 + 8 * len(condensed)) ** 0.5)) // 2
    source, target = np.triu_indices(nodes, 1)
    kept = condensed <= radius
    return NearPairs(source[kept].astype(np.int32), target[kept].astype(np.int32), condensed[kept].copy())


def near_lists(condensed: NDArray[np.float64], k: int) -> NearPairs:
    """The k nearest of each node, and those that have it among theirs; smaller ids first if equally near."""
    square = squareform(condensed)
    np.fill_diagonal(square, np.inf)
    listed = np.zeros(square.shape, bool)
    np.put_along_axis(listed, np.argsort(square, axis=1, kind="stable")[:, :k], True, axis=1)
    source, target = np.nonzero(np.triu(listed | listed.T, 1))
    return NearPairs(source.astype(np.int32), target.astype(np.int32), square[source, target])


def any_reach(condensed: NDArray[np.float64], seed: int) -> tuple[NearPairs, Reach]:
    """Near pairs of any kind, from none to all."""
    random = np.random.default_rng(seed)
    nodes = (1 + round((1 + 8 * len(condensed)) ** 0.5)) // 2
    if random.random() < 0.5:
        k = int(random.integers(1, nodes))
        return near_lists(condensed, k), Reach(k, np.inf)
    at_a_pair = float(random.choice(condensed))
    radius = at_a_pair if random.random() < 0.7 else float(random.uniform(-0.1, 1.1 * condensed.max() + 0.1))
    return near_up_to(condensed, radius), up_to(radius)


def rounds_on(
    near: NearPairs, reach: Reach, nodes: int, linkage: str, team: Team, max_height: float | None = None
) -> tuple[CertainState, MergeList]:
    """Certain rounds on single nodes."""
    settings = settings_of(linkage, max_height=max_height)
    state = first_state(near, single_nodes(nodes), reach, settings, team)
    return state, certain_rounds(state, nodes, settings, team, lambda _: None, PATIENT)


def fixed(radius: float = 0.0, k: int = 0) -> Survey:
    """A survey that has chosen this reach."""
    return Survey("knn" if k else "eps", radius, k, 0, 0, 0, 1, 0, 0)


def certain_run(
    pairs: AllPairs,
    survey: Survey,
    settings: Settings,
    team: Team,
    rest: int = 2**34,
    limits: Limits = PATIENT,
) -> MergeList:
    """A whole run in memory; `rest` is the memory for all but the near pairs."""
    start, first, distinct = started(pairs, settings, team)
    run = CertainRun(distinct, start, 2**34, settings, team, lambda _: None, limits)
    if len(start.ids) > 1 and not run.merge_near(survey):
        run.memory = rest
        run.merge_rest()
    return in_order(joined([first, *run.found], pairs.nodes), settings)


def started(pairs: AllPairs, settings: Settings, team: Team) -> tuple[Start, MergeList, AllPairs]:
    """The clusters of equal vectors, their merges, and the pairs of distinct ones."""
    if isinstance(pairs, VectorPairs):
        start, found = merge_equal(pairs, team, lambda _: None)
        return start, found, distinct_pairs(pairs, start)
    return single_nodes(pairs.nodes), joined([], pairs.nodes), pairs


def in_order(found: MergeList, settings: Settings) -> MergeList:
    """The same with heights that do not fall, in the units of users."""
    merges = found.merges
    raise_heights(merges.left, merges.right, merges.height, np.full(found.nodes, -np.inf))
    merges.height[:] = settings.sign * merges.height + 0.0
    return found


def vector_pairs(points: Any, metric: str) -> AllPairs:
    """All pairs of points."""
    return open_vector_pairs(points, metric)


def merge_set(found: MergeList) -> dict[tuple[int, int, int], float]:
    """The heights of merges, by the clusters that they unite."""
    left, right, height, size = (column.tolist() for column in found.merges)
    return {(a, b, int(n)): h for a, b, h, n in zip(left, right, height, size, strict=True)}
