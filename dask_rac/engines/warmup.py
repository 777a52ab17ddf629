"""Kernels compiled before they are needed."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from time import perf_counter

import numpy as np
import scipy.sparse as sp

from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import Limits
from dask_rac.engines.given import open_pairs
from dask_rac.engines.in_memory import run, run_pairs
from dask_rac.engines.rows.load import load_graph
from dask_rac.tasks.machine import memory_limit
from dask_rac.tasks.team import Team


@cache
def compile_pair_kernels() -> float:
    """Compile the kernels of the matrix engine, or load them from the cache; return the seconds it took."""
    started = perf_counter()
    points = np.arange(6.0).reshape(3, 2)
    with Team(1) as team:
        for linkage in ("average", "single"):
            settings = checked_settings(linkage, None, "distance", metric="euclidean")
            run_pairs(open_pairs(points, settings), settings, team, lambda _: None, Limits(), memory=memory_limit())
    return perf_counter() - started


@cache
def compile_kernels(ids: str, within: bool = False) -> float:
    """Compile every kernel for this dtype of ids, or load it from the cache; return the seconds it took.

    Those of merges within a factor are compiled only for runs that need them.
    """
    started = perf_counter()
    edges = np.arange(4), np.arange(1, 5), np.arange(1.0, 5.0)
    forms = edges, sp.csr_array((edges[2], edges[:2]), shape=(5, 5))
    with Team(1) as team:
        for linkage, missing in (("single", "ignore"), ("average", "ignore"), ("average", 0.0)):
            settings = checked_settings(linkage, missing, "similarity", None, "error", True, epsilon=0.1 * within)
            for form in (*forms, forms[1] + forms[1].T):
                graph = load_graph(form, None, settings, team, memory_limit())
                rows = graph.rows._replace(
                    neighbour=graph.rows.neighbour.astype(ids), edges=graph.rows.edges.astype(ids)
                )
                run(replace(graph, rows=rows), settings, team, lambda _: None, Limits(hand_over=2.0, good_share=2.0))
    return perf_counter() - started
