"""Generated graphs: tied, starred, broken; every undirected edge once, no self loops.

All weights are small dyadic rationals on few nodes. Sums and products are then exact in float64, equal
averages come out as equal floats and different ones (apart by far more than an ulp) as different floats:
ties and order in floating point are those of `reference.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product
from math import isqrt

from hypothesis import strategies as st

from tests.reference import edge_tie

Pair = tuple[int, int]

LINKAGES = ("average", "complete", "single")
MISSING = ("ignore", "infinite", "number")
TIED_WEIGHTS = ((1.0,), (1.0, 2.0), (0.0, 0.125, 0.25, 0.375, 0.5), (0.0,))
MISSING_FACTORS = {"distance": (1.0, 1.5), "similarity": (1.0, 0.5, 0.0)}
COLLIDING_NODES = 128


@dataclass(frozen=True)
class Graph:
    """An undirected graph with weights."""

    n_nodes: int
    """Number of nodes, isolated ones included."""
    edges: list[tuple[int, int, float]]
    """Every undirected edge once, as (u, v, weight), in either direction."""


def path(n: int) -> list[Pair]:
    """0 - 1 - ... - n-1."""
    return [(i, i + 1) for i in range(n - 1)]


def star(n: int) -> list[Pair]:
    """Node 0 joined to all others."""
    return [(0, i) for i in range(1, n)]


def clique(n: int) -> list[Pair]:
    """All pairs."""
    return list(combinations(range(n), 2))


def cycle(n: int) -> list[Pair]:
    """A path that closes, from three nodes on."""
    return path(n) + ([(n - 1, 0)] if n > 2 else [])


def grid(n: int) -> list[Pair]:
    """Rows of isqrt(n) nodes, the last one ragged."""
    width = isqrt(n)
    across = [(i, i + 1) for i in range(n - 1) if (i + 1) % width]
    return across + [(i, i + width) for i in range(n - width)]


def bipartite(n: int) -> list[Pair]:
    """The first third of the nodes joined to all of the rest."""
    return list(product(range(n // 3), range(n // 3, n)))


def hub(n: int) -> list[Pair]:
    """Node 0 joined to the first node of each path of three, except the last path, which is broken off."""
    starts = range(1, n, 3)
    inner = [(i, i + 1) for i in range(1, n - 1) if i % 3]
    return inner + [(0, start) for start in starts[:-1]]


def isolated(_n: int) -> list[Pair]:
    """No edge."""
    return []


SHAPES = (isolated, path, star, clique, cycle, grid, bipartite, hub)


def _sparse(n: int) -> st.SearchStrategy[list[Pair]]:
    """From n/2 to 2n pairs drawn at random."""
    if n < 2:
        return st.just([])
    return st.lists(st.sampled_from(clique(n)), unique=True, min_size=n // 2, max_size=2 * n)


def _component(n: int) -> st.SearchStrategy[list[Pair]]:
    """One shape on n nodes, or a random sparse graph."""
    shapes = st.sampled_from(SHAPES).map(lambda shape: shape(n))
    return st.one_of(_sparse(n), shapes, shapes)


@st.composite
def _pairs(draw: st.DrawFn, max_nodes: int) -> tuple[int, list[Pair]]:
    """The number of nodes, and the edges of one to three components side by side; some nodes in none."""
    n_nodes = draw(st.integers(1, max_nodes))
    n_cuts = draw(st.sampled_from((0, 0, 0, 1, 2)))
    cuts = sorted(draw(st.lists(st.integers(0, n_nodes), min_size=n_cuts, max_size=n_cuts)))
    pairs = []
    for start, stop in zip([0, *cuts], [*cuts, n_nodes], strict=True):
        pairs += [(start + u, start + v) for u, v in draw(_component(stop - start))]
    return n_nodes, pairs


def _tied_weights(n: int) -> st.SearchStrategy[list[float]]:
    """A list of n weights of very few values."""
    palette = st.sampled_from(TIED_WEIGHTS)
    return palette.flatmap(lambda values: st.lists(st.sampled_from(values), min_size=n, max_size=n))


def _untied_weights(n: int) -> st.SearchStrategy[list[float]]:
    """A list of n distinct multiples of 2**-20 up to 1."""
    ticks = st.lists(st.integers(0, 2**20), min_size=n, max_size=n, unique=True)
    return ticks.map(lambda drawn: [tick / 2**20 for tick in drawn])


@st.composite
def _graphs(draw: st.DrawFn, max_nodes: int, weights: Callable[[int], st.SearchStrategy[list[float]]]) -> Graph:
    """A shape with ids shuffled, so that it does not align with them, and weights."""
    n_nodes, pairs = draw(_pairs(max_nodes))
    ids = draw(st.permutations(range(n_nodes)))
    drawn = draw(weights(len(pairs)))
    return Graph(n_nodes, [(ids[u], ids[v], w) for (u, v), w in zip(pairs, drawn, strict=True)])


def tied_graphs(max_nodes: int = 14) -> st.SearchStrategy[Graph]:
    """Graphs with very few different weights, or one."""
    return _graphs(max_nodes, _tied_weights)


def untied_graphs(max_nodes: int = 14) -> st.SearchStrategy[Graph]:
    """Graphs with distinct weights."""
    return _graphs(max_nodes, _untied_weights)


def graphs(max_nodes: int = 14) -> st.SearchStrategy[Graph]:
    """Graphs with and without ties."""
    return st.one_of(tied_graphs(max_nodes), untied_graphs(max_nodes))


def _collisions() -> list[tuple[int, int, int]]:
    """Nodes b - c - d, both ways round, whose two edges have the same tie."""
    nodes = range(COLLIDING_NODES)
    seen: dict[tuple[int, int], int] = {}
    found = []
    for c, d in product(nodes, nodes):
        b = seen.setdefault((c, edge_tie(c, d)), d) if c != d else d
        found += [(b, c, d), (d, c, b)] if b != d else []
    return found


COLLISIONS = _collisions()


@st.composite
def colliding_graphs(draw: st.DrawFn, max_nodes: int = 14) -> Graph:
    """Tied graphs around a path a - b - c - d where bc and cd have the same tie, ids spread over 128.

    No two edges among the first 26 ids do: without these graphs nothing in the order is ever decided by the
    size of the union or by what comes after it.
    """
    b, c, d = draw(st.sampled_from(COLLISIONS))
    others = st.sampled_from([node for node in range(COLLIDING_NODES) if node not in (b, c, d)])
    ids = [b, c, d, *draw(st.lists(others, min_size=1, max_size=max_nodes - 3, unique=True))]
    more = draw(st.sets(st.sampled_from(clique(len(ids))), max_size=len(ids)))
    pairs = sorted({(0, 1), (1, 2), (0, 3)} | more)
    drawn = draw(_tied_weights(len(pairs)))
    return Graph(COLLIDING_NODES, [(ids[u], ids[v], w) for (u, v), w in zip(pairs, drawn, strict=True)])


def linkages() -> st.SearchStrategy[tuple[str, str]]:
    """Every linkage with every kind of `missing`."""
    return st.sampled_from(list(product(LINKAGES, MISSING)))


def missing_value(kind: str, graph: Graph, weights: str = "distance") -> str | float:
    """The argument `missing` of a kind; a number no nearer than any edge, often as near as the farthest."""
    if kind != "number":
        return kind
    farthest = {"distance": max, "similarity": min}[weights]
    factors = MISSING_FACTORS[weights]
    return factors[len(graph.edges) % len(factors)] * farthest((w for _, _, w in graph.edges), default=1.0)
