"""Naive sequential HAC in exact arithmetic: the result that every other path must reproduce.

Weights are the given floats as `Fraction`; similarities are negated on input and on output.

**Weight.** `W(A, B)` is recomputed from the edges between the two clusters whenever one of them has grown. The id of
a cluster is its smallest node. Two clusters without an edge between them never merge.

| linkage  | `"ignore"`    | `"infinite"`                          | a number f                             |
|----------|---------------|---------------------------------------|----------------------------------------|
| average  | mean of edges | same, only if all pairs have an edge  | mean, f standing in for missing pairs  |
| complete | max of edges  | same, only if all pairs have an edge  | max, f standing in for missing pairs   |
| single   | min of edges  | min of edges                          | min of edges                           |
| weighted | all pairs     | all pairs                             | mean of both parts, f for absent pairs |
| ward     | all pairs     | all pairs                             | all pairs                              |

`"far"` is a number: for distances twice the largest weight, or 1 where that is 0 or there is no edge; for similarities
it is 0.

- average, complete, single and ward: a function of the two sets of nodes.
- weighted: `W(A1 + A2, B) = (W(A1, B) + W(A2, B)) / 2`, where A1 and A2 are the clusters whose merge made A. So W
  depends on how A and B were merged, each in itself, but not on which of the two was complete first: taking A apart
  before B or B before A gives the mean of the same four. The order below determines all merges, so each cluster has
  one inner tree, and the tree is unique nevertheless. Every pair needs an edge, or a number in its place.
- ward: in squared units `2 (S_AB - S_AA b / a - S_BB a / b) / (a + b)`, where S_AB is the sum of the squared distances
  between A and B, S_AA that of all pairs within A, and a, b are the numbers of nodes. Every pair needs an edge, and
  weights are distances. scipy's height is the square root, which is not rational: here the height of a merge is W,
  squared; `max_height` and `labels` take heights as users do, and square them.

**Order.** The pair merged next is the one with the smallest key.

- all but single: `(W, tie, |A| + |B|, hash64(lo, hi), lo, hi)`, with lo < hi the two cluster ids and tie
  the largest `edge_tie` over the edges between A and B.
- single: `(w, hash64(u, v), u, v)` of the smallest edge u < v between A and B.

Both orders are total and reducible, `key(A + B, C) >= min(key(A, C), key(B, C))`, strictly so where the size of the
union is part of the key; for ward this holds because A and B merge only if neither is nearer to C than to the other.
So a reciprocal nearest pair remains one whatever else merges, and merging all such pairs at once, round by round, gives
the same merges (`reciprocal_rounds`).
"""

import math
from collections.abc import Iterable
from fractions import Fraction
from itertools import combinations, product
from typing import Any, NamedTuple

TIE_BITS = 16
SIGN = {"distance": 1, "similarity": -1}
LINKAGES = ("single", "complete", "average", "weighted", "ward")

Pair = tuple[int, int]
Key = tuple[Fraction, tuple[int, ...]]
Tree = int | tuple["Tree", "Tree"]
"""A cluster as it was merged: a node, or its two parts."""


class Merge(NamedTuple):
    """Two clusters, by their ids before the merge (left < right), and their union."""

    left: int
    right: int
    height: Fraction
    """W; for ward the square of what users see."""
    size: int


class Judgement(NamedTuple):
    """What is true of a merge that need not be the nearest."""

    height: Fraction
    ratio: Fraction | float
    """How much farther it is than the nearest there was; infinite where that is 0."""


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


def own_unit(height: float, linkage: str) -> Fraction | float:
    """Return a height as users give it in the unit of W, which for ward is squared."""
    return Fraction(height) ** 2 if linkage == "ward" else height


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
        if linkage not in LINKAGES:
            raise ValueError(f"no linkage {linkage!r}: one of {LINKAGES}")
        self.linkage, self.sign = linkage, SIGN[weights]
        self.limit = None if max_height is None else self.sign * own_unit(max_height, linkage)
        self.weight = {(min(u, v), max(u, v)): self.sign * Fraction(float(w)) for u, v, w in edges}
        self.missing = self._absent(missing)
        self._refuse_undefined(n_nodes, weights)
        self.nodes = {node: frozenset([node]) for node in range(n_nodes)}
        self.trees: dict[int, Tree] = {node: node for node in range(n_nodes)}
        self.keys: dict[Pair, Key] = {}
        for lo, hi in self.weight:
            self._compare(lo, hi)

    def _absent(self, missing: str | float) -> str | Fraction:
        """Return what an absent pair weighs, or the word that says how it is treated."""
        if missing in ("ignore", "infinite"):
            return str(missing)
        if missing != "far":
            return self.sign * Fraction(float(missing))
        if self.sign < 0:
            return Fraction(0)
        return 2 * max(self.weight.values(), default=Fraction(0)) or Fraction(1)

    def _refuse_undefined(self, n_nodes: int, weights: str) -> None:
        """Raise if the linkage needs pairs that have no edge, or another kind of weights."""
        if len(self.weight) == n_nodes * (n_nodes - 1) // 2:
            defined = self.linkage != "ward" or weights == "distance"
        else:
            defined = self.linkage != "ward" and (self.linkage != "weighted" or isinstance(self.missing, Fraction))
        if not defined:
            raise ValueError(f"{self.linkage} is not defined for these edges")

    def _halved(self, a: Tree, b: Tree) -> Fraction:
        """Return W for weighted linkage: the mean of both parts of either cluster, down to pairs of nodes."""
        if isinstance(a, tuple):
            return (self._halved(a[0], b) + self._halved(a[1], b)) / 2
        if isinstance(b, tuple):
            return self._halved(b, a)
        weight = self.weight.get((min(a, b), max(a, b)), self.missing)
        assert isinstance(weight, Fraction)
        return weight

    def _variance(self, left: frozenset[int], right: frozenset[int]) -> Fraction:
        """Return W for ward linkage, in squared units."""
        a, b = len(left), len(right)
        inner = [self._squares(combinations(sorted(nodes), 2)) for nodes in (left, right)]
        between = self._squares(product(left, right))
        return 2 * (between - inner[0] * b / a - inner[1] * a / b) / (a + b)

    def _squares(self, pairs: Iterable[Pair]) -> Fraction:
        """Return the sum of squared weights."""
        return sum((self.weight[min(pair), max(pair)] ** 2 for pair in pairs), Fraction(0))

    def _weight(self, a: int, b: int, between: list[Pair]) -> Fraction | None:
        """Return W of two clusters with edges between them, None if they never merge."""
        left, right = self.nodes[a], self.nodes[b]
        if self.linkage == "weighted":
            return self._halved(self.trees[a], self.trees[b])
        if self.linkage == "ward":
            return self._variance(left, right)
        return _fold([self.weight[pair] for pair in between], len(left) * len(right), self.linkage, self.missing)

    def _key(self, a: int, b: int) -> Key | None:
        """Return the key of two clusters, None if they never merge."""
        left, right = self.nodes[a], self.nodes[b]
        pairs = [(min(u, v), max(u, v)) for u in left for v in right]
        between = [pair for pair in pairs if pair in self.weight]
        if not between:
            return None
        if self.linkage == "single":
            return min((self.weight[pair], (hash64(*pair), *pair)) for pair in between)
        weight = self._weight(a, b, between)
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
        self.trees[lo] = self.trees[lo], self.trees.pop(hi)
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


class AnyOrder(_Clusters):
    """Clusters that may merge in any order, not only the nearest first.

    The height of a merge is W, or that of the farthest merge below it if that is farther. Its ratio is how much farther
    that is than the nearest that either of the two clusters has.
    """

    def __init__(self, *problem: Any) -> None:
        super().__init__(*problem)
        self.tops: dict[int, Fraction] = {}

    def judged(self, lo: int, hi: int) -> Judgement:
        """Return the height and the ratio of a merge; raise KeyError if the two cannot merge."""
        height = max([self.keys[lo, hi][0], *(self.tops[cluster] for cluster in (lo, hi) if cluster in self.tops)])
        nearest = min(key[0] for pair, key in self.keys.items() if lo in pair or hi in pair)
        if height == nearest:
            return Judgement(self.sign * height, Fraction(1))
        far, near = (height, nearest) if self.sign > 0 else (nearest, height)
        return Judgement(self.sign * height, far / near if near * self.sign > 0 else math.inf)

    def join(self, lo: int, hi: int) -> Judgement:
        """Merge two clusters; return the height and the ratio of this merge."""
        judgement = self.judged(lo, hi)
        self.merge(lo, hi)
        self.tops[lo] = self.sign * judgement.height
        return judgement


def labels(
    n_nodes: int,
    merges: Iterable[Merge],
    n_clusters: int | None = None,
    height: float | None = None,
    weights: str = "distance",
    linkage: str = "average",
) -> list[int]:
    """Return a flat cut, with clusters numbered by smallest node; without a bound, all merges apply."""
    sign = SIGN[weights]
    applied = sorted(merges, key=lambda merge: (sign * merge.height, merge.size, merge.left))
    if n_clusters is not None:
        applied = applied[: max(0, n_nodes - n_clusters)]
    if height is not None:
        bound = sign * own_unit(height, linkage)
        applied = [merge for merge in applied if sign * merge.height <= bound]
    leader = list(range(n_nodes))
    for merge in applied:
        leader = [merge.left if cluster == merge.right else cluster for cluster in leader]
    number = {cluster: i for i, cluster in enumerate(sorted(set(leader)))}
    return [number[cluster] for cluster in leader]
