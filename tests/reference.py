"""Naive sequential HAC in exact arithmetic: the result that every other path must reproduce.

Weights are the given floats as `Fraction`; similarities are negated on input and on output.

**Weight.** `W(A, B)` is a function of the two sets of nodes, recomputed from the edges between them. The id of
a cluster is its smallest node. Two clusters without an edge between them never merge.

| linkage  | `"ignore"`    | `"infinite"`                          | a number f                             |
|----------|---------------|---------------------------------------|----------------------------------------|
| average  | mean of edges | same, only if all pairs have an edge  | mean, f standing in for missing pairs  |
| complete | max of edges  | same, only if all pairs have an edge  | max, f standing in for missing pairs   |
| single   | min of edges  | min of edges                          | min of edges                           |

**Order.** The pair merged next is the one with the smallest key.

- average, complete: `(W, tie, |A| + |B|, hash64(lo, hi), lo, hi)`, with lo < hi the two cluster ids and tie
  the largest `edge_tie` over the edges between A and B.
- single: `(w, hash64(u, v), u, v)` of the smallest edge u < v between A and B.

Both orders are total and reducible, `key(A + B, C) >= min(key(A, C), key(B, C))`, strictly so for average and
complete, where the union grows. So a reciprocal nearest pair remains one whatever else merges, and merging all
such pairs at once, round by round, gives the same merges (`reciprocal_rounds`).
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

TIE_BITS = 16
SIGN = {"distance": 1, "similarity": -1}

Pair = tuple[int, int]
Key = tuple[Fraction, tuple[int, ...]]


class Merge(NamedTuple):
    """Two clusters, by their ids before the merge (left < right), and their union."""

    left: int
    right: int
    height: Fraction
    size: int


def hash64(a: int, b: int) -> int:
    """Return 64 well-mixed bits for an unordered pair of ids."""
    lo, hi = min(a, b), max(a, b)
    mask = 2**64 - 1
    x = lo * 0x9E3779B97F4A7C15 + (hi ^ 0x2545F4914F6CDD1D) * 0xC2B2AE3D27D4EB4F & mask
    x = (x ^ (x >> 29)) * 0xBF58476D1CE4E5B9 & mask
    x = (x ^ (x >> 32)) * 0x94D049BB133111EB & mask
    return x ^ (x >> 29)


def edge_tie(a: int, b: int) -> int:
    """Return the tie of one edge: the upper bits of its hash."""
    return hash64(a, b) >> (64 - TIE_BITS)


def _fold(found: list[Fraction], n_pairs: int, linkage: str, missing: str | Fraction) -> Fraction | None:
    """Return W for average and complete linkage from the weights present among `n_pairs` pairs of nodes."""
    absent = n_pairs - len(found)
    if absent and missing == "infinite":
        return None
    filled = found + [missing] * absent if isinstance(missing, Fraction) else found
    return max(filled) if linkage == "complete" else sum(filled, Fraction(0)) / len(filled)


class _Clusters:
    """The live clusters, and the keys of all pairs that may merge."""

    def __init__(
        self,
        n_nodes: int,
        edges: Iterable[tuple[int, int, float]],
        linkage: str,
        missing: str | float,
        weights: str,
        max_height: float | None,
    ) -> None:
        if linkage not in ("single", "complete", "average"):
            raise ValueError(f"no linkage {linkage!r}: single, complete or average")
        self.linkage, self.sign = linkage, SIGN[weights]
        self.missing = missing if missing in ("ignore", "infinite") else self.sign * Fraction(float(missing))
        self.limit = None if max_height is None else self.sign * max_height
        self.weight = {(min(u, v), max(u, v)): self.sign * Fraction(float(w)) for u, v, w in edges}
        self.nodes = {node: frozenset([node]) for node in range(n_nodes)}
        self.keys: dict[Pair, Key] = {}
        for lo, hi in self.weight:
            self._compare(lo, hi)

    def _key(self, a: int, b: int) -> Key | None:
        """Return the key of two clusters, None if they never merge."""
        left, right = self.nodes[a], self.nodes[b]
        pairs = [(min(u, v), max(u, v)) for u in left for v in right]
        between = [pair for pair in pairs if pair in self.weight]
        if not between:
            return None
        if self.linkage == "single":
            return min((self.weight[pair], (hash64(*pair), *pair)) for pair in between)
        weight = _fold([self.weight[pair] for pair in between], len(pairs), self.linkage, self.missing)
        if weight is None:
            return None
        lo, hi = min(a, b), max(a, b)
        tie = max(edge_tie(*pair) for pair in between)
        return weight, (tie, len(left) + len(right), hash64(lo, hi), lo, hi)

    def _compare(self, a: int, b: int) -> None:
        """Record the key of two clusters if they may merge."""
        key = self._key(a, b)
        if key is not None and (self.limit is None or key[0] <= self.limit):
            self.keys[min(a, b), max(a, b)] = key

    def first(self, pairs: Iterable[Pair]) -> Pair:
        """Return the pair with the smallest key."""
        return min(pairs, key=self.keys.__getitem__)

    def reciprocal(self) -> list[Pair]:
        """Return all reciprocal nearest pairs, sorted by key."""
        live = {cluster for pair in self.keys for cluster in pair}
        nearest = {cluster: self.first(pair for pair in self.keys if cluster in pair) for cluster in live}
        return sorted((p for p in self.keys if nearest[p[0]] == p == nearest[p[1]]), key=self.keys.__getitem__)

    def merge(self, lo: int, hi: int) -> Merge:
        """Merge two clusters and recompute the keys that involve them."""
        height = self.sign * self.keys[lo, hi][0]
        self.nodes[lo] |= self.nodes.pop(hi)
        self.keys = {pair: key for pair, key in self.keys.items() if lo not in pair and hi not in pair}
        for other in self.nodes:
            if other != lo:
                self._compare(lo, other)
        return Merge(lo, hi, height, len(self.nodes[lo]))


def hac(
    n_nodes: int,
    edges: Iterable[tuple[int, int, float]],
    linkage: str = "average",
    missing: str | float = "ignore",
    weights: str = "distance",
    max_height: float | None = None,
) -> list[Merge]:
    """Return all merges up to `max_height`, in order, of a graph given with every undirected edge once."""
    clusters = _Clusters(n_nodes, edges, linkage, missing, weights, max_height)
    merges = []
    while clusters.keys:
        merges.append(clusters.merge(*clusters.first(clusters.keys)))
    return merges


def reciprocal_rounds(
    n_nodes: int,
    edges: Iterable[tuple[int, int, float]],
    linkage: str = "average",
    missing: str | float = "ignore",
    weights: str = "distance",
    max_height: float | None = None,
) -> list[list[Merge]]:
    """Return the merges round by round; each round merges all reciprocal nearest pairs at once."""
    clusters = _Clusters(n_nodes, edges, linkage, missing, weights, max_height)
    rounds = []
    while clusters.keys:
        rounds.append([clusters.merge(lo, hi) for lo, hi in clusters.reciprocal()])
    return rounds


def labels(
    n_nodes: int,
    merges: Iterable[Merge],
    n_clusters: int | None = None,
    height: float | None = None,
    weights: str = "distance",
) -> list[int]:
    """Return a flat cut, with clusters numbered by smallest node; without a bound, all merges apply."""
    sign = SIGN[weights]
    applied = sorted(merges, key=lambda merge: (sign * merge.height, merge.size, merge.left))
    if n_clusters is not None:
        applied = applied[: max(0, n_nodes - n_clusters)]
    if height is not None:
        applied = [merge for merge in applied if sign * merge.height <= sign * height]
    leader = list(range(n_nodes))
    for merge in applied:
        leader = [merge.left if cluster == merge.right else cluster for cluster in leader]
    number = {cluster: i for i, cluster in enumerate(sorted(set(leader)))}
    return [number[cluster] for cluster in leader]
