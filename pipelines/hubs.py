"""Graphs in which a few hubs touch everything, for benchmarks: web-like ones, words that occur together, stars."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from numpy.typing import NDArray

QUARTERS = 0.57, 0.76, 0.95  # where a random number leads to the second, third and last quarter of the matrix
PIECE = 10_000_000  # pairs drawn at a time

Edges = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]


def recursive_graph(scale: int, edges: int, seed: int = 0) -> sp.csr_array:
    """Return a recursive-matrix graph (0.57, 0.19, 0.19, 0.05) with random weights, without its isolated nodes."""
    random = np.random.default_rng(seed)
    lo, hi = recursive_pairs(scale, edges, random)
    pairs = np.unique(lo << 32 | hi)
    _, numbers = np.unique(np.concatenate((pairs >> 32, pairs & (2**32 - 1))), return_inverse=True)
    return symmetric(numbers[: len(pairs)], numbers[len(pairs) :], random.random(len(pairs)))


def recursive_pairs(scale: int, pairs: int, random: np.random.Generator) -> NDArray[np.int64]:
    """Draw pairs of different nodes, the smaller first; some are drawn more than once."""
    ends = np.zeros((2, pairs), np.int64)
    for _ in range(scale):
        quarter = np.searchsorted(QUARTERS, random.random(pairs, np.float32))
        ends = 2 * ends + np.stack((quarter >> 1, quarter & 1))
    return np.sort(ends[:, ends[0] != ends[1]], axis=0)


def write_recursive_edges(folder: Path, edges: int, seed: int = 0) -> None:
    """Write such a graph as Parquet, piece by piece, with about 15 edges for each node that has any."""
    folder.mkdir(parents=True)
    scale = max(4, round(np.log2(edges / 15)))
    for number, first in enumerate(range(0, edges, PIECE)):
        random = np.random.default_rng((seed, number))
        lo, hi = recursive_pairs(scale, min(PIECE, edges - first), random)
        weight = random.random(len(lo), np.float32)
        table = pa.table(
            {"source": pa.array(lo, pa.int32()), "target": pa.array(hi, pa.int32()), "weight": pa.array(weight)}
        )
        pq.write_table(table, folder / f"part-{number:04d}.parquet", row_group_size=2**20)


def word_graph(words: int = 35_000, texts: int = 120_000, seed: int = 0) -> sp.csr_array:
    """Return how often words occur in the same text: words by Zipf's law, a dozen in each text."""
    random = np.random.default_rng(seed)
    chance = 1 / np.arange(1, words + 1)
    drawn = random.choice(words, (texts, 12), p=chance / chance.sum())
    rows = np.repeat(np.arange(texts), 12)
    occurs = sp.csr_array((np.ones(drawn.size), (rows, drawn.ravel())), shape=(texts, words))
    occurs.data[:] = 1
    counts = sp.coo_array(sp.triu(occurs.T @ occurs, 1))
    return symmetric(counts.row.astype(np.int64), counts.col.astype(np.int64), counts.data)


def star(leaves: int, equal: bool) -> Edges:
    """Return one node with an edge to all others, as sources, targets and weights."""
    return weighted(np.zeros(leaves, np.int64), np.arange(1, leaves + 1), equal)


def double_star(leaves: int, equal: bool) -> Edges:
    """Return two nodes with an edge to each other and to all others."""
    hub = np.repeat((0, 1), (leaves + 1, leaves))
    return weighted(hub, np.concatenate((np.arange(1, leaves + 2), np.arange(2, leaves + 2))), equal)


def hub_chain(leaves: int, equal: bool) -> Edges:
    """Return as many hubs in a chain as each of them has leaves."""
    hubs = max(2, round(leaves**0.5))
    leaf = np.arange(hubs, hubs + leaves)
    return weighted(
        np.concatenate((np.arange(hubs - 1), leaf % hubs)), np.concatenate((np.arange(1, hubs), leaf)), equal
    )


def caterpillar(leaves: int, equal: bool) -> Edges:
    """Return a path with a leaf at each of its nodes."""
    path = np.arange(leaves)
    return weighted(np.concatenate((path[:-1], path)), np.concatenate((path[1:], path + leaves)), equal)


def weighted(u: NDArray[np.int64], v: NDArray[np.int64], equal: bool) -> Edges:
    """Return edges with equal weights or random ones."""
    return u, v, np.ones(len(u)) if equal else np.random.default_rng(0).random(len(u))


def symmetric(u: NDArray[np.int64], v: NDArray[np.int64], weights: NDArray[np.float64]) -> sp.csr_array:
    """Return edges that are given once as a symmetric matrix."""
    nodes = int(max(u.max(), v.max())) + 1
    half = sp.csr_array((weights, (u, v)), shape=(nodes, nodes))
    return sp.csr_array(half + half.T)


SHAPES: dict[str, Callable[[int, bool], Edges]] = {
    "star": star,
    "double star": double_star,
    "chain of hubs": hub_chain,
    "caterpillar": caterpillar,
}
