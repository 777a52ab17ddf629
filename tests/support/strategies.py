"""Generated graphs: with ties, stars, several components; every undirected edge once, no self loops.

All weights are small dyadic rationals, and there are few nodes. So sums and products are exact in float64, equal
averages become equal floats, and different averages (which differ by far more than an ulp) different floats:
ties and order in floating point are those of `reference.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import combinations, product
from math import isqrt
from typing import Any

from hypothesis import strategies as st

from tests.reference import edge_tie

Pair = tuple[int, int]

LINKAGES = ("average", "complete", "single")
"""Those that accept every kind of `missing`."""
MISSING = ("far", "ignore", "infinite", "number")
KINDS = dict.fromkeys(LINKAGES, MISSING) | {"weighted": ("far", "number")}
"""The kinds of `missing` that each linkage accepts on a sparse graph, its default first; single linkage has no use for
any."""
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
    """Node 0 connected to all others."""
    return [(0, i) for i in range(1, n)]


def clique(n: int) -> list[Pair]:
    """All pairs."""
    return list(combinations(range(n), 2))


def cycle(n: int) -> list[Pair]:
    """A path, closed if it has three nodes or more."""
    return path(n) + ([(n - 1, 0)] if n > 2 else [])


def grid(n: int) -> list[Pair]:
    """Rows of isqrt(n) nodes; the last may be shorter."""
    width = isqrt(n)
    across = [(i, i + 1) for i in range(n - 1) if (i + 1) % width]
    return across + [(i, i + width) for i in range(n - width)]


def bipartite(n: int) -> list[Pair]:
    """Every node of the first third connected to all of the rest."""
    return list(product(range(n // 3), range(n // 3, n)))


def hub(n: int) -> list[Pair]:
    """Node 0 connected to the first node of each path of three, except the last path, which stays separate."""
    starts = range(1, n, 3)
    inner = [(i, i + 1) for i in range(1, n - 1) if i % 3]
    return inner + [(0, start) for start in starts[:-1]]


def isolated(_n: int) -> list[Pair]:
    """No edges."""
    return []


SHAPES = (isolated, path, star, clique, cycle, grid, bipartite, hub)


def _sparse(n: int) -> st.SearchStrategy[list[Pair]]:
    """Draw n/2 to 2n random pairs."""
    if n < 2:
        return st.just([])
    return st.lists(st.sampled_from(clique(n)), unique=True, min_size=n // 2, max_size=2 * n)


def _component(n: int) -> st.SearchStrategy[list[Pair]]:
    """One shape on n nodes, or a random sparse graph."""
    shapes = st.sampled_from(SHAPES).map(lambda shape: shape(n))
    return st.one_of(_sparse(n), shapes, shapes)


@st.composite
def _pairs(draw: st.DrawFn, max_nodes: int) -> tuple[int, list[Pair]]:
    """Draw the number of nodes, and the edges of one to three shapes side by side."""
    n_nodes = draw(st.integers(1, max_nodes))
    n_cuts = draw(st.sampled_from((0, 0, 0, 1, 2)))
    cuts = sorted(draw(st.lists(st.integers(0, n_nodes), min_size=n_cuts, max_size=n_cuts)))
    pairs = []
    for start, stop in zip([0, *cuts], [*cuts, n_nodes], strict=True):
        pairs += [(start + u, start + v) for u, v in draw(_component(stop - start))]
    return n_nodes, pairs


def _tied_weights(n: int) -> st.SearchStrategy[list[float]]:
    """Draw n weights with very few distinct values."""
    palette = st.sampled_from(TIED_WEIGHTS)
    return palette.flatmap(lambda values: st.lists(st.sampled_from(values), min_size=n, max_size=n))


def _untied_weights(n: int) -> st.SearchStrategy[list[float]]:
    """Draw n distinct multiples of 2**-20 up to 1."""
    ticks = st.lists(st.integers(0, 2**20), min_size=n, max_size=n, unique=True)
    return ticks.map(lambda drawn: [tick / 2**20 for tick in drawn])


@st.composite
def _graphs(draw: st.DrawFn, max_nodes: int, weights: Callable[[int], st.SearchStrategy[list[float]]]) -> Graph:
    """Draw a graph with weights, and with ids shuffled so that they are unrelated to its shape."""
    n_nodes, pairs = draw(_pairs(max_nodes))
    ids = draw(st.permutations(range(n_nodes)))
    drawn = draw(weights(len(pairs)))
    return Graph(n_nodes, [(ids[u], ids[v], w) for (u, v), w in zip(pairs, drawn, strict=True)])


def tied_graphs(max_nodes: int = 14) -> st.SearchStrategy[Graph]:
    """Graphs with very few distinct weights, or only one."""
    return _graphs(max_nodes, _tied_weights)


def untied_graphs(max_nodes: int = 14) -> st.SearchStrategy[Graph]:
    """Graphs with distinct weights."""
    return _graphs(max_nodes, _untied_weights)


def graphs(max_nodes: int = 14) -> st.SearchStrategy[Graph]:
    """Graphs with and without ties."""
    return st.one_of(tied_graphs(max_nodes), untied_graphs(max_nodes))


def _collisions() -> list[tuple[int, int, int]]:
    """Find paths b - c - d, in both directions, whose two edges have the same tie."""
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

    No two edges among the first 26 ids have the same tie: without these graphs, the size of the union and what
    comes after it would never decide the order.
    """
    b, c, d = draw(st.sampled_from(COLLISIONS))
    others = st.sampled_from([node for node in range(COLLIDING_NODES) if node not in (b, c, d)])
    ids = [b, c, d, *draw(st.lists(others, min_size=1, max_size=max_nodes - 3, unique=True))]
    more = draw(st.sets(st.sampled_from(clique(len(ids))), max_size=len(ids)))
    pairs = sorted({(0, 1), (1, 2), (0, 3)} | more)
    drawn = draw(_tied_weights(len(pairs)))
    return Graph(COLLIDING_NODES, [(ids[u], ids[v], w) for (u, v), w in zip(pairs, drawn, strict=True)])


def linkages() -> st.SearchStrategy[tuple[str, str]]:
    """Every linkage with every kind of `missing` that it accepts."""
    return st.sampled_from([(linkage, kind) for linkage, kinds in KINDS.items() for kind in kinds])


def missing_value(kind: str, graph: Graph, weights: str = "distance") -> str | float:
    """Return the argument `missing` of a kind; a number is no nearer than any edge, often as near as the farthest."""
    if kind != "number":
        return kind
    farthest = {"distance": max, "similarity": min}[weights]
    factors = MISSING_FACTORS[weights]
    return factors[len(graph.edges) % len(factors)] * farthest((w for _, _, w in graph.edges), default=1.0)


WEIGHTS = st.sampled_from(["distance", "similarity"])
CEILINGS = st.sampled_from([None, None, 0.0, 0.25, 0.5, 1.0, 1.5])

ENDINGS = ("rounds", "few rounds", "hand over")
"""Rounds to the end; the finisher where it pays, which is never on small graphs; the finisher after one round."""
UNITED: dict[str, Callable[[float, float], float]] = {
    "error": min,
    "min": min,
    "max": max,
    "mean": lambda one, other: (one + other) / 2,
}
"""The weight of an edge that was given twice."""


@dataclass(frozen=True)
class Problem:
    """Edges as they are given, and what is asked of them."""

    rows: Graph
    """Some edges may be given twice, in either direction."""
    graph: Graph
    """The same with every edge once."""
    options: dict[str, Any] = field(default_factory=dict)
    """Linkage, missing, weights, max_height: what `reference.hac` takes."""
    duplicates: str = "error"
    ending: str = "rounds"


def plain_problem(graph: Graph, linkage: str, **options: Any) -> Problem:
    """A graph whose edges are given once."""
    return Problem(graph, graph, {"linkage": linkage, "missing": missing_value(KINDS[linkage][0], graph)} | options)


def given_twice(graph: Graph, duplicates: str, more: list[float | None]) -> tuple[Graph, Graph]:
    """Give an edge twice where `more` has a number, the second time reversed and that much heavier; also united."""
    rows, united = [], []
    for (u, v, weight), extra in zip(graph.edges, more, strict=True):
        second = weight if extra is None or duplicates == "error" else weight + extra
        rows += [(u, v, weight)] if extra is None else [(u, v, weight), (v, u, second)]
        united.append((u, v, UNITED[duplicates](weight, second)))
    return Graph(graph.n_nodes, rows), Graph(graph.n_nodes, united)


@st.composite
def problems(draw: st.DrawFn, linkage: str) -> Problem:
    """Everything that can be asked of a linkage, on graphs of every kind."""
    graph = draw(st.one_of(graphs(), graphs(), colliding_graphs()))
    duplicates = draw(st.sampled_from(["error", *UNITED]))
    extra = st.sampled_from([None, None, 0.0, 0.125, 1.0])
    rows, united = given_twice(graph, duplicates, [draw(extra) for _ in graph.edges])
    weights = draw(WEIGHTS)
    options = {
        "linkage": linkage,
        "missing": missing_value(draw(st.sampled_from(KINDS[linkage])), united, weights),
        "weights": weights,
        "max_height": draw(CEILINGS),
    }
    return Problem(rows, united, options, duplicates, draw(st.sampled_from(ENDINGS)))


def _weighted(n_nodes: int, pairs: list[Pair], values: int) -> Graph:
    """Pairs with as many different weights."""
    return Graph(n_nodes, [(u, v, (k * 7 % values) / 8) for k, (u, v) in enumerate(pairs)])


NAMED_GRAPHS = {
    "empty": Graph(0, []),
    "one node": Graph(1, []),
    "no edge": Graph(5, []),
    "star of equal weights": _weighted(12, star(12), 1),
    "disconnected hub": _weighted(22, hub(20), 3),
    "path of many rounds": _weighted(40, path(40), 39),
    "clique with ties": _weighted(9, clique(9), 2),
}


def named_problems(linkage: str) -> dict[str, Problem]:
    """What every engine is tried on, whatever else is generated."""
    found = {name: plain_problem(graph, linkage) for name, graph in NAMED_GRAPHS.items()}
    graph = NAMED_GRAPHS["disconnected hub"]
    twice = given_twice(graph, "mean", [[None, 1.0, 0.0][k % 3] for k in range(len(graph.edges))])
    options = plain_problem(twice[1], linkage).options
    found["edges given twice"] = Problem(*twice, options, "mean", "hand over")
    return found
