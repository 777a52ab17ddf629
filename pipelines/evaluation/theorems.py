"""What the theorems of the paper come to in numbers: small runs on generated graphs, counted in rounds."""

from __future__ import annotations

from math import log
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.cluster.hierarchy import linkage as scipy_linkage
from scipy.spatial.distance import pdist, squareform

import dask_rac
from evaluation.runs import COLUMNS, Watch

Numbers = dict[str, Any]


def theorem_numbers(folder: Path, scale: float) -> Numbers:
    """Return the numbers of all theorems, by what they are about; `scale` makes the larger graphs smaller."""
    points = np.random.default_rng(0).random((max(50, int(3_000 * scale)), 16))
    vectors, nodes = max(100, int(2_500 * scale)), max(500, int(16_000 * scale))
    return {
        "same": sequential(points),
        "reciprocal": reciprocal(points),
        "early": merged_early(points),
        "chains": {2**n: chain_rounds(n) for n in range(3, 9)},
        "stable": {levels: stable_rounds(levels) for levels in (3, 6, 9, 11)},
        "line": line(max(2_000, int(1_000_000 * scale))),
        "pairs": [all_pairs(2**power * vectors, folder) for power in range(4)],
        "near": all_pairs(4 * vectors, folder, "certain"),
        "degrees": {degree: random_weights(max(1_000, int(200_000 * scale)), degree) for degree in (2, 4, 8)},
        "lattices": [lattice(4**power * nodes, folder) for power in range(4)],
    }


def sequential(points: NDArray[np.float64]) -> Numbers:
    """Theorem 1: compare the merges with scipy's, which merges one pair at a time."""
    found = {}
    for linkage in ("average", "complete", "single"):
        ours, theirs = dask_rac.linkage(points, linkage), scipy_linkage(points, linkage)
        same = (np.sort(ours[:, :2], axis=1) == np.sort(theirs[:, :2], axis=1)).all(axis=1)
        apart = np.abs(ours[:, 2] / theirs[:, 2] - 1).max()
        found[linkage] = {"merges": len(ours), "same": int(same.sum()), "apart": float(apart)}
    return found


def reciprocal(points: NDArray[np.float64]) -> Numbers:
    """Lemma 2: count the pairs that are each other's nearest, and those of them that scipy merges."""
    square = squareform(pdist(points))
    np.fill_diagonal(square, np.inf)
    nearest = square.argmin(axis=1)
    pairs = {frozenset((node, int(near))) for node, near in enumerate(nearest) if nearest[near] == node}
    merged = {frozenset(map(int, row)) for row in scipy_linkage(points, "complete")[:, :2]}
    return {"pairs": len(pairs), "merged": len(pairs & merged)}


def merged_early(points: NDArray[np.float64]) -> Numbers:
    """Lemma 3: merge some pairs first, wherever in the tree they are, and compare all other merges."""
    square = squareform(pdist(points))
    merges = dask_rac.cluster(square, "complete", metric="precomputed", progress=False).merges
    of_two = merges[merges["size"] == 2].sample(frac=0.5, random_state=0)
    left, right = of_two["left"].to_numpy(), of_two["right"].to_numpy()
    square[left] = np.maximum(square[left], square[right])
    square[:, left] = np.maximum(square[:, left], square[:, right])
    square[left, left] = 0.0
    kept = np.delete(np.arange(len(points)), right)
    rest = dask_rac.cluster(square[np.ix_(kept, kept)], "complete", metric="precomputed", progress=False).merges
    rest = rest.assign(left=kept[rest["left"]], right=kept[rest["right"]])
    before, after = (
        set(each[["left", "right", "height"]].itertuples(index=False, name=None))
        for each in (merges.drop(of_two.index), rest)
    )
    return {"early": len(of_two), "others": len(before), "same": len(before & after)}


def chain_rounds(n: int) -> Numbers:
    """Theorem 4: 2**n points of which all but the first prefer their left neighbour."""
    k = np.arange(1, 2**n + 1)
    u, v = np.triu_indices(len(k), 1)
    points = k + k**2 * 2.0 ** (-4 * n)
    tree = dask_rac.cluster((u, v, points[v] - points[u]), finisher=False, progress=False)
    return {"height": tree_height(tree), "rounds": len(tree.rounds)}


def stable_rounds(levels: int) -> Numbers:
    """Theorem 5: a tree in which every cluster is tighter than what is outside."""
    rng = np.random.default_rng(levels)
    u, v = np.triu_indices(2**levels, 1)
    weight = 10.0 ** (np.floor(np.log2(u ^ v)) + 1) + rng.random(len(u))
    ids = rng.permutation(2**levels)
    tree = dask_rac.cluster((ids[u], ids[v], weight), finisher=False, progress=False)
    return {"height": tree_height(tree), "rounds": len(tree.rounds)}


def tree_height(tree: dask_rac.Clustering) -> int:
    """Return the number of merges on the longest path from a node to the root."""
    depth = np.zeros(tree.n_nodes, int)
    for left, right in tree.merges[["left", "right"]].to_numpy():
        depth[left] = 1 + max(depth[left], depth[right])
    return int(depth.max())


def line(nodes: int) -> Numbers:
    """Theorem 6: random gaps on a line; the rounds, and the bound that follows from the smallest share that merges."""
    gaps = np.random.default_rng(1).permutation(nodes - 1).astype(float)
    edges = np.arange(nodes - 1), np.arange(1, nodes), gaps
    rounds = dask_rac.cluster(edges, missing="ignore", finisher=False, progress=False).rounds
    shares = (rounds["merges"] / rounds["clusters"])[rounds["clusters"] > 1_000]
    bound = log(nodes) / -log(1 - float(shares.min()))
    return {
        "nodes": nodes,
        "rounds": len(rounds),
        "first": float(shares.iloc[0]),
        "least": float(shares.min()),
        "bound": bound,
    }


def all_pairs(nodes: int, folder: Path, engine: str = "matrix") -> Numbers:
    """Theorem 7: the pairs that all rounds go through, and their time, against all pairs of the nodes."""
    vectors = dask_rac.datasets.sift(nodes, store=folder / f"{engine}-{nodes}.bvecs", progress=False)
    before, watch = process_time(), Watch()
    dask_rac.cluster(vectors, "complete", metric="euclidean", engine=engine, progress=watch)
    rounds = pd.DataFrame(watch.rounds, columns=list(COLUMNS))
    return {"nodes": nodes, **work(rounds), "processor": process_time() - before}


def random_weights(nodes: int, degree: int) -> Numbers:
    """Theorem 8: single linkage in rounds, weights in random order, every node with the same number of edges."""
    u = np.tile(np.arange(nodes), degree // 2)
    v = (u + np.repeat(np.arange(1, degree // 2 + 1), nodes)) % nodes
    weight = np.random.default_rng(degree).permutation(len(u)).astype(float)
    tree = dask_rac.cluster((u, v, weight), "single", progress=False)
    clusters, merges, heights = single_rounds(u, v, weight)
    return {
        "first": merges[0] / nodes,
        "expected": degree / 2 / (2 * degree - 1),
        "rounds": len(merges),
        "squares": sum(count**2 for count in clusters) / nodes**2,
        "same": int((np.sort(heights) == np.sort(tree.merges["height"])).sum()),
    }


def single_rounds(
    u: NDArray[np.int64], v: NDArray[np.int64], weight: NDArray[np.float64]
) -> tuple[list[int], list[int], NDArray[np.float64]]:
    """Merge pairs whose lightest edge is the same one, round by round; return clusters, merges and all heights."""
    nodes = int(max(u.max(), v.max())) + 1
    clusters, merges, heights = [nodes], list[int](), list[NDArray[np.float64]]()
    while len(weight):
        lightest = np.full(nodes, np.inf)
        np.minimum.at(lightest, u, weight)
        np.minimum.at(lightest, v, weight)
        merging = (lightest[u] == weight) & (lightest[v] == weight)
        leader = np.arange(nodes)
        leader[np.maximum(u, v)[merging]] = np.minimum(u, v)[merging]
        heights.append(weight[merging])
        merges.append(int(merging.sum()))
        clusters.append(clusters[-1] - merges[-1])
        u, v = leader[u], leader[v]
        apart = u != v
        u, v, weight = u[apart], v[apart], weight[apart]
    return clusters[:-1], merges, np.concatenate(heights)


def lattice(nodes: int, folder: Path) -> Numbers:
    """Theorem 9: graphs whose clusters have a bounded number of neighbours; passes over the edges, and time."""
    path = dask_rac.datasets.lattice(nodes, 20, store=folder / f"{nodes}", weights="similarity", progress=False)
    before = process_time()
    rounds = dask_rac.cluster(path, weights="similarity", progress=False).rounds
    rounds = rounds.rename(columns={"nearest_updates": "updates"})
    return {"nodes": nodes, **work(rounds), "processor": process_time() - before}


def work(rounds: Any) -> Numbers:
    """Return rounds, passes over the edges, alpha and beta of a run."""
    clusters, merges, updates = (int(rounds[name].sum()) for name in ("clusters", "merges", "updates"))
    edges = rounds["edges"]
    passes = float(edges.sum() / edges[0])
    return {"rounds": len(rounds), "passes": passes, "alpha": merges / clusters, "beta": updates / merges}
