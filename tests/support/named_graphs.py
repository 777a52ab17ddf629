"""Small graphs of every shape, by name, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.graphs import tangled_edges
from tests.support.stored import Columns
from tests.support.strategies import (
    bipartite,
    clique,
    cycle,
    grid,
    hub,
    path,
    star,
)


def weighted(pairs: list[tuple[int, int]], weight: Callable[[int], NDArray[Any]], seed: int = 0) -> Columns:
    """Pairs with weights, ids shuffled so that shards cut through everything."""
    nodes = 1 + max(max(pair) for pair in pairs)
    ids = np.random.default_rng(seed).permutation(nodes)
    u, v = ids[np.array(pairs)].T
    return u, v, weight(len(pairs))


def equal(count: int) -> NDArray[np.float64]:
    return np.ones(count)


def tied(count: int) -> NDArray[np.float64]:
    return np.random.default_rng(1).integers(1, 4, count) / 4


def uniform(count: int) -> NDArray[np.float64]:
    return np.random.default_rng(2).random(count)


def short(count: int) -> NDArray[np.float32]:
    return np.random.default_rng(3).random(count, np.float32)


def long(count: int) -> NDArray[np.float64]:
    """All 53 bits in use, over many magnitudes."""
    rng = np.random.default_rng(4)
    odd = rng.integers(2**52, 2**53, count) | 1
    return np.ldexp(odd.astype(np.float64), rng.integers(-60, 0, count))


def neighbours(nodes: int, k: int) -> Columns:
    """Each point with its nearest ones, given from both ends where both see each other."""
    points = np.random.default_rng(5).random((nodes, 2))
    distances = np.sqrt(((points[:, None] - points[None]) ** 2).sum(axis=2))
    near = np.argsort(distances, axis=1)[:, 1 : k + 1]
    u = np.repeat(np.arange(nodes), k)
    return u, near.ravel(), distances[u, near.ravel()]


def both_ways(edges: Columns) -> Columns:
    u, v, weight = edges
    return np.concatenate((u, v)), np.concatenate((v, u)), np.concatenate((weight, weight))


def last_hub(nodes: int) -> Columns:
    """A hub with the largest id beside a path: more than one shard's share in one row."""
    spokes = np.arange(nodes - 1)
    inner = spokes[:-1]
    u, v = np.concatenate((spokes, inner)), np.concatenate((np.full(nodes - 1, nodes - 1), inner + 1))
    return u, v, uniform(len(u))


GRAPHS: dict[str, Columns] = {
    "path of equal weights": weighted(path(60), equal),
    "path": weighted(path(50), long),
    "star": weighted(star(40), uniform),
    "star of equal weights": weighted(star(30), equal),
    "hub": weighted(hub(61), tied),
    "hub with the last id": last_hub(40),
    "clique": weighted(clique(14), uniform),
    "clique of equal weights": weighted(clique(12), equal),
    "cycle": weighted(cycle(45), short),
    "grid": weighted(grid(64), uniform),
    "grid with ties": weighted(grid(64), tied),
    "bipartite": weighted(bipartite(21), tied),
    "neighbours": neighbours(70, 4),
    "neighbours of few": neighbours(70, 1),
    "tangled": tangled_edges(90, 220, 10**6, seed=6),
    "tangled with ties": tangled_edges(90, 220, 2, seed=7),
    "tangled, all bits": (*tangled_edges(90, 220, 1, seed=8)[:2], long(len(tangled_edges(90, 220, 1, seed=8)[0]))),
    "tangled, float32": (*tangled_edges(90, 220, 1, seed=8)[:2], short(len(tangled_edges(90, 220, 1, seed=8)[0]))),
    "weights of 0": weighted(grid(36), np.zeros),
    "both ways": both_ways(weighted(grid(49), uniform)),
    "pairs": weighted([(2 * k, 2 * k + 1) for k in range(20)], uniform),
    "one edge": (np.array([3]), np.array([1]), np.array([0.5])),
    "whole numbers": (*tangled_edges(60, 150, 1, seed=9)[:2], np.arange(len(tangled_edges(60, 150, 1, seed=9)[0]))),
    "long way round": weighted([*cycle(40), *((k, (k + 20) % 40) for k in range(20))], uniform),
}
NUMBER = "number"
OPTIONS: list[dict[str, Any]] = [
    {"linkage": "average"},
    {"linkage": "complete", "missing": "infinite"},
    {"linkage": "average", "weights": "similarity"},
    {"linkage": "complete", "missing": NUMBER, "finisher": False},
    {"linkage": "single", "max_height": 0.5},
    {"linkage": "average", "missing": "infinite", "weights": "similarity"},
    {"linkage": "complete", "weights": "similarity", "max_height": 0.25},
    {"linkage": "average", "missing": NUMBER, "max_height": 0.75},
    {"linkage": "complete", "missing": "ignore"},
    {"linkage": "single", "weights": "similarity"},
    {"linkage": "average", "missing": NUMBER, "weights": "similarity", "finisher": False},
    {"linkage": "average", "missing": "ignore", "weights": "similarity"},
    {"linkage": "complete", "missing": NUMBER, "weights": "similarity"},
    {"linkage": "weighted", "missing": NUMBER},
    {"linkage": "weighted", "weights": "similarity", "finisher": False},
]


def settled(options: dict[str, Any], edges: Columns) -> dict[str, Any]:
    """Options with a number for missing pairs that this graph allows, and nodes beyond the last edge."""
    given = options | {"n_nodes": 5 + int(max(edges[0].max(), edges[1].max()))}
    if given.get("missing") == NUMBER:
        weight = edges[2].astype(float)
        given["missing"] = weight.min() / 2 if given.get("weights") == "similarity" else weight.max() * 1.25
    return given


SMALL = tangled_edges(400, 1100, 10**6, seed=10)
SMALL_BUDGET = 80 * 400  # bytes: too few for the graph, enough for the vectors over its nodes
