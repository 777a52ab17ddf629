"""Edges of random graphs, and of generated ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import dask_rac
from dask_rac.base.settings import EDGE_COLUMNS
from tests.support.stored import Columns
from tests.support.strategies import Graph

Edges = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def columns(graph: Graph) -> Edges:
    """The edges of a generated graph as three arrays."""
    table = np.array(graph.edges, float).reshape(-1, 3)
    return table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2]


def tangled_edges(nodes: int, edges: int, values: int, seed: int) -> Edges:
    """A random graph with hubs, many ties, several components and isolated nodes; every edge once."""
    rng = np.random.default_rng(seed)
    u = np.concatenate((rng.integers(nodes, size=edges), rng.integers(5, size=edges // 4)))
    v = np.concatenate((rng.integers(nodes, size=edges), rng.integers(nodes, size=edges // 4)))
    lo, hi = np.minimum(u, v), np.maximum(u, v)
    keep = (lo != hi) & (hi % 17 != 0) & ((lo < nodes // 2) == (hi < nodes // 2))
    pairs = np.unique(np.column_stack((lo[keep], hi[keep])), axis=0)
    return pairs[:, 0], pairs[:, 1], rng.integers(1, values + 1, size=len(pairs)).astype(float)


def random_edges(nodes: int, edges: int, seed: int = 0) -> Columns:
    """Edges without order, some given twice."""
    u, v = np.random.default_rng(seed).integers(nodes, size=(2, edges))
    keep = u != v
    return u[keep], v[keep], ((u + v + u * v) % 1009 / 7)[keep]


def as_frame(edges: Columns) -> pd.DataFrame:
    return pd.DataFrame(dict(zip(EDGE_COLUMNS, edges, strict=True)))


def run(graph: Graph, **options: Any) -> dask_rac.Clustering:
    clustering: dask_rac.Clustering = dask_rac.cluster(columns(graph), n_nodes=graph.n_nodes, **options)
    return clustering
