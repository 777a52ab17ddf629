"""Graphs whose ids are text, and the same numbered by hand: in the order of the names by UTF-8 bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from dask_rac.base.settings import EDGE_COLUMNS
from tests.support.strategies import tied_graphs

NAMES = (
    *("a", "b", "Z", "aa", "a b", "10", "9", "-1", "nan", "NULL", "it's", 'say "x"', "x,y", "(a:1)", "$$x$$"),
    *("é", "e\u0301", "ß", "\uff21", "\uffee", "😀", "👩\u200d🚀", "\U0001d518", "你好", "\u0416"),
)
"""Names that sort otherwise by characters, by UTF-16 or without case, or that mean something to others."""


@dataclass(frozen=True)
class NamedGraph:
    """Edges between names."""

    frame: pd.DataFrame
    names: list[str]
    """All that occur, by UTF-8 bytes."""

    @property
    def numbered(self) -> tuple[Any, ...]:
        """The edges with numbers in place of names."""
        number = {name: place for place, name in enumerate(self.names)}
        ends = [np.array([number[name] for name in self.frame[end]], np.int64) for end in EDGE_COLUMNS[:2]]
        return *ends, self.frame["weight"].to_numpy()


def named_graph(edges: list[tuple[str, str, float]]) -> NamedGraph:
    """Return edges between names as a frame."""
    kinds = {"source": object, "target": object, "weight": float}
    frame = pd.DataFrame(edges, columns=list(EDGE_COLUMNS)).astype(kinds)
    used = {name for edge in edges for name in edge[:2]}
    return NamedGraph(frame, sorted(used, key=str.encode))


@st.composite
def named_graphs(draw: st.DrawFn) -> NamedGraph:
    """Draw a graph with ties, at least one edge, and names in any order."""
    graph = draw(tied_graphs().filter(lambda drawn: bool(drawn.edges)))
    names = draw(st.permutations(NAMES))
    return named_graph([(names[u], names[v], w) for u, v, w in draw(st.permutations(graph.edges))])


def random_graph(nodes: int, edges: int, seed: int = 0) -> NamedGraph:
    """Return a graph of any size, each edge once, with weights that tie."""
    random = np.random.default_rng(seed)
    pairs = np.unique(np.sort(random.integers(0, nodes, (edges, 2)), axis=1), axis=0)
    pairs = random.permutation(pairs[pairs[:, 0] < pairs[:, 1]])
    names = random.permutation([f"n{number}é" for number in range(nodes)])
    weight = random.integers(0, 50, len(pairs)) / 8
    return named_graph([(str(names[u]), str(names[v]), float(w)) for (u, v), w in zip(pairs, weight, strict=True)])
