"""The near pairs that certain rounds begin with, as a survey has chosen them."""

from __future__ import annotations

import numpy as np

from dask_rac.base.events import Listener
from dask_rac.engines.certain.given_pairs import near_given
from dask_rac.engines.certain.state import Reach, up_to
from dask_rac.engines.certain.survey import Survey, most_pairs
from dask_rac.engines.near import NearPairs, near_in_memory
from dask_rac.tasks.team import Team
from dask_rac.vectors.graph.request import Request, checked_request
from dask_rac.vectors.pairs.contract import AllPairs
from dask_rac.vectors.pairs.vector_pairs import VectorPairs


def request_for(survey: Survey, pairs: VectorPairs) -> Request:
    """Return the graph of the near pairs of vectors."""
    metric = pairs.metric
    if survey.k:
        return checked_request("knn", metric.name, k=survey.k)
    return checked_request("eps", metric.name, eps=(-survey.eps if metric.similarity else survey.eps) + 0.0)


def reach_of(survey: Survey, pairs: AllPairs) -> Reach:
    """Return how far near pairs reach; a graph of similarities has none below 0."""
    if not survey.k:
        return up_to(survey.eps)
    return Reach(survey.k, up_to(0.0).highest if pairs.weights == "similarity" else np.inf)


def in_rounds(near: NearPairs, pairs: AllPairs) -> NearPairs:
    """Return near pairs in the units of the rounds, where similarities are negated."""
    if pairs.weights == "similarity":
        np.negative(near.weight, out=near.weight)
    return near


def find_near(survey: Survey, pairs: AllPairs, memory: int, team: Team, report: Listener) -> NearPairs:
    """Find near pairs in the memory of this process, in the units of the rounds."""
    if isinstance(pairs, VectorPairs):
        request = request_for(survey, pairs)
        most = most_pairs(pairs.nodes, memory)
        return in_rounds(near_in_memory(pairs.source, request, memory, team, report, most), pairs)
    return near_given(pairs, survey.eps, most_pairs(pairs.nodes, memory), report)
