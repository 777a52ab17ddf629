"""How far near pairs should reach: chosen by doing certain rounds on a sample, at several radii.

The sample is some thousand of the vectors. A radius is taken within which they have as many neighbours as all vectors
are to have. Then rounds leave about the same fraction of all vectors as of the sample, or a larger one if clusters are
finer than the sample shows. So quarters of the sample are tried as well: by the power by which the fraction grows from
these to the sample, it is expected to grow from the sample to everything. Costs are estimated by fixed rates and never
measured: the choice follows from the data and the memory alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from dask_rac.base.errors import ResourceError
from dask_rac.base.settings import Settings
from dask_rac.base.text import size_text
from dask_rac.engines.certain.round import certain_rounds
from dask_rac.engines.certain.sample import Sample, draw_sample, sample_size
from dask_rac.engines.certain.state import PAIR_BYTES, SLOT_BYTES, Reach, first_state, up_to
from dask_rac.engines.contract import Limits
from dask_rac.engines.matrix.in_memory import pairs_bytes
from dask_rac.engines.near import NearPairs
from dask_rac.engines.start import single_nodes
from dask_rac.tasks.team import Team
from dask_rac.vectors.graph.plan import edge_bytes, knn_disk
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.triangle import triangle_bytes, triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs

OVERSHOOT = 1.25  # times the expected pairs for which there must be memory
LISTED = 0.7  # of the degree: lists of so many nearest neighbours give about that degree
SAMPLED = 8  # times fewer neighbours than points of the sample: with more, rounds on the sample tell nothing
STAGE_KEEPS = 0.3  # fraction of the clusters that a stage is expected to leave

ABOUT = 1.1  # times the fastest: of surveys that are about as fast, the one that leaves the fewest clusters is chosen

EPS_SECONDS = 0.6e-6  # per pair: found, written, read, merged
KNN_SECONDS = 2.0e-6  # the same where lists are kept
ENTRY_SECONDS = 4e-8  # per pair of the clusters that are left
PASS_SECONDS = 4e-9  # per pair of vectors, in a pass over all pairs


@dataclass(frozen=True)
class Survey:
    """How certain rounds are to be done, and what is expected of them."""

    kind: str
    """"eps" for all pairs up to a radius, "knn" for the k nearest of each."""
    eps: float
    """The radius in the units of the rounds, where similarities are negated; 0 for "knn"."""
    k: int
    """0 for "eps"."""
    degree: int
    """Near pairs that a vector is expected to have."""
    edges: int
    """Near pairs that are expected in all."""
    left: int
    """Clusters that are expected to be left after the rounds on them."""
    stages: int
    """Further passes over all pairs that are expected, the last one of which gives the matrix."""
    memory: int
    """Bytes of arrays at the peak, beside the vectors."""
    disk: int
    """Bytes of the near pairs, or of the matrix of what is left, in a run with a store."""
    seconds: float = 0.0
    """A rough estimate, by which surveys are compared."""


def survey_pairs(
    pairs: AllPairs, memory: int, settings: Settings, team: Team, limits: Limits, most: int | None = None
) -> Survey:
    """Choose how far near pairs reach: what is expected to be about the fastest, of what fits in memory.

    With `most`, no more pairs than that are expected: where there were too many, a smaller radius is chosen.
    """
    count = sample_size(pairs.nodes, limits, memory)
    sample, given = draw_sample(pairs, count, team), not isinstance(pairs, VectorPairs)
    tried = [
        survey
        for kind in (("eps",) if given else ("eps", "knn"))
        for survey in _tried(kind, pairs.nodes, sample, settings, team, limits)
    ]
    surveys = [_with_costs(survey, pairs.nodes, memory) for survey in tried]
    room = most_pairs(pairs.nodes, memory) / OVERSHOOT
    fitting = [survey for survey in surveys if survey.edges <= (room if most is None else min(room, most))]
    if not fitting:
        raise ResourceError(_no_room(pairs, surveys, memory))
    if _never_ends(fitting, sample, pairs.nodes, memory, limits):
        raise ResourceError(_no_room(pairs, [], memory))
    fastest = min(survey.seconds for survey in fitting)
    equal = [survey for survey in fitting if survey.seconds <= ABOUT * fastest]
    return min(equal, key=lambda survey: (survey.left, survey.kind != "eps"))


def most_pairs(clusters: int, memory: int) -> int:
    """Return how many near pairs of so many clusters fit in memory."""
    return max(0, (memory - SLOT_BYTES * clusters) // PAIR_BYTES)


def fewer_pairs(survey: Survey, found: int, nodes: int, memory: int) -> int:
    """Return how many pairs may be expected next, where far more were found than expected."""
    return min(survey.edges // 2, int(survey.edges * most_pairs(nodes, memory) / (OVERSHOOT * found)))


def _never_ends(fitting: list[Survey], sample: Sample, nodes: int, memory: int, limits: Limits) -> bool:
    """Whether hardly anything would merge, all would be left, and a stage would have no radius: all are equally far."""
    left = min(survey.left for survey in fitting)
    if left < (1 - limits.stage_share) * nodes or pairs_bytes(left) <= memory:
        return False
    wanted = min(most_pairs(nodes, memory) / OVERSHOOT, nodes * limits.stage_degree / 2)
    return sample.radius(min(1.0, wanted / triangle_entries(nodes))) is None


def _no_room(pairs: AllPairs, surveys: list[Survey], memory: int) -> str:
    """Say why no near pairs can be had."""
    needed = min((int(OVERSHOOT * survey.edges) for survey in surveys), default=0) * PAIR_BYTES
    if not surveys:
        whole = pairs_bytes(pairs.nodes)
        return (
            f"too many pairs of {pairs.name} are equally near for a list of the nearest, and {size_text(memory)} of "
            f"memory do not hold all pairs, which takes {size_text(whole)}: set memory='{-(-whole // 10**6)}MB' or more"
        )
    needed += SLOT_BYTES * pairs.nodes
    return (
        f"the near pairs of {pairs.nodes:,} nodes need {size_text(needed)} of memory, and {size_text(memory)} may be "
        f"used: set memory='{-(-needed // 10**6)}MB' or more"
    )


def _tried(kind: str, nodes: int, sample: Sample, settings: Settings, team: Team, limits: Limits) -> Iterator[Survey]:
    """Yield a survey for each number of neighbours; where the sample is too small for one, from those before it."""
    before: list[tuple[int, float]] = []
    quarters, power = sample.quarters() if sample.points < nodes else [], 0.0
    for degree in limits.degrees:
        wanted = min(degree, nodes - 1)
        choice = _choice(kind, sample, nodes, wanted)
        if choice is None:
            continue
        if wanted * SAMPLED <= sample.points or not before or wanted == nodes - 1:
            left = _fraction_left(kind, sample, min(wanted, sample.points - 1), settings, team)
            before.append((wanted, left))
            if quarters and wanted * SAMPLED <= quarters[-1].points:
                fewer = [_fraction_left(kind, quarter, wanted, settings, team) for quarter in quarters]
                power = max(0.0, np.log(left / np.mean(fewer)) / np.log(len(quarters)))
        else:
            left = _extrapolated(before, wanted)
        grown = min(1.0, left * (nodes / sample.points) ** power)
        yield replace(choice, left=max(1, int(grown * nodes)))
        if wanted == nodes - 1:
            return


def _choice(kind: str, sample: Sample, nodes: int, degree: int) -> Survey | None:
    """Return the survey for a number of neighbours, before rounds are tried; None if there is no such radius."""
    if kind == "knn":
        k = max(1, min(nodes - 1, round(LISTED * degree)))
        return Survey("knn", 0.0, k, degree, nodes * degree // 2, nodes, 1, 0, 0)
    radius = sample.radius(degree / (nodes - 1))
    if radius is None:
        return None
    within = np.searchsorted(sample.ordered, radius, side="right") / len(sample.ordered)
    edges = int(within * nodes * (nodes - 1) / 2)
    return Survey("eps", radius, 0, degree, edges, nodes, 1, 0, 0)


def _fraction_left(kind: str, sample: Sample, degree: int, settings: Settings, team: Team) -> float:
    """Return the fraction of the sample that is left, when its points have so many neighbours."""
    points = sample.points
    if kind == "eps":
        radius = sample.radius(degree / (points - 1))
        if radius is None:
            return 1.0
        kept, reach = sample.weight <= radius, up_to(radius)
    else:
        k = max(1, min(points - 1, round(LISTED * degree)))
        kept, reach = sample.listed(k), Reach(k, np.inf)
    lower, upper = sample.ends
    near = NearPairs(lower[kept], upper[kept], sample.weight[kept])
    state = first_state(near, single_nodes(points), reach, settings, team)
    certain_rounds(state, points, settings, team, lambda _: None, Limits())
    return len(state.live) / points


def _extrapolated(before: list[tuple[int, float]], degree: int) -> float:
    """Return the fraction that is left at a higher degree than those tried: powers of the degree, as a rule."""
    if len(before) < 2:
        return before[-1][1]
    (low, more), (high, less) = before[-2:]
    slope = min(0.0, np.log(less / more) / np.log(high / low)) if high > low else 0.0
    return float(less * (degree / high) ** slope)


def _with_costs(survey: Survey, nodes: int, memory: int) -> Survey:
    """Add what a survey costs."""
    left, passes = survey.left, 1
    while pairs_bytes(left) > memory and passes < 10:
        left, passes = int(STAGE_KEEPS * left), passes + 1
    each = EPS_SECONDS if survey.kind == "eps" else KNN_SECONDS
    seconds = each * survey.edges + ENTRY_SECONDS * left**2 / 2 + passes * PASS_SECONDS * nodes**2
    graph = knn_disk(nodes, survey.k, 3) if survey.k else 2 * survey.edges * edge_bytes(nodes)
    near = int(OVERSHOOT * survey.edges) * PAIR_BYTES + SLOT_BYTES * nodes
    return replace(
        survey,
        stages=passes,
        memory=max(near, min(memory, pairs_bytes(left))),
        disk=max(graph, triangle_bytes(left)),
        seconds=seconds,
    )
