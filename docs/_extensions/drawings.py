"""`drawing`: a small graph beside the trees that dask_rac builds from it, as SVG.

    :::{drawing}
    :trees: average ignore, average 10
    a 0 0
    b 2 0
    a b 1
    :::

Each line is a node with its position, or an edge with its weight. The trees are computed when the site is built.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

UNIT = 64  # pixels between two positions of a graph
LEAF = 36  # pixels between two leaves of a tree, enough for a height
TALL = 130  # pixels of a tree
MARGIN = 24


@dataclass
class ToyGraph:
    """Nodes with their positions, and edges."""

    places: dict[str, tuple[float, float]] = field(default_factory=dict)
    edges: list[tuple[str, str, str]] = field(default_factory=list)

    @classmethod
    def parse(cls, lines: list[str]) -> ToyGraph:
        """Parse the lines of a directive."""
        graph = cls()
        for first, second, third in (line.split() for line in lines if line.strip()):
            if second in graph.places:
                graph.edges.append((first, second, third))
            else:
                graph.places[first] = float(second), float(third)
        return graph

    def columns(self) -> tuple[list[int], list[int], list[float]]:
        """Return the edges as `dask_rac.cluster` accepts them."""
        ids = {name: number for number, name in enumerate(self.places)}
        return (
            [ids[a] for a, _, _ in self.edges],
            [ids[b] for _, b, _ in self.edges],
            [float(w) for *_, w in self.edges],
        )

    def svg(self) -> str:
        """Return the graph as SVG."""
        at = {name: (MARGIN + UNIT * x, MARGIN + UNIT * y) for name, (x, y) in self.places.items()}
        lines, marks = [], []
        for a, b, weight in self.edges:
            (x1, y1), (x2, y2) = at[a], at[b]
            lines.append(_line(x1, y1, x2, y2))
            # Not halfway, so that the weights of two edges that cross stay apart.
            marks.append(_text(x1 + 0.42 * (x2 - x1), y1 + 0.42 * (y2 - y1) + 4, weight, "weight"))
        for name, (x, y) in at.items():
            marks.append(f'<circle cx="{x:g}" cy="{y:g}" r="11"/>{_text(x, y + 4, name, "node")}')
        width, height = (MARGIN + max(place[k] for place in at.values()) for k in (0, 1))
        edges = ", ".join(f"{a} to {b} {weight}" for a, b, weight in self.edges)
        return _svg(width, height, "".join(lines + marks), f"A graph with the edges {edges}")


@dataclass
class Branch:
    """A node or a merge at its position."""

    x: float
    y: float


@dataclass
class Scale:
    """The scale of heights, near ones at the bottom; one for all trees of a drawing."""

    near: float
    far: float

    @classmethod
    def of(cls, heights: list[float], similarity: bool) -> Scale:
        """Return the scale: from 0 for distances; with some room below the nearest for similarities."""
        far = min(heights) if similarity else max(heights)
        return cls(max(heights) + 0.25 * (max(heights) - far) if similarity else 0.0, far)

    def y(self, height: float) -> float:
        """Return a height in pixels from the top."""
        return 4 + TALL * (height - self.far) / ((self.near - self.far) or 1.0)


@dataclass
class Tree:
    """The trees that one linkage gives for a graph, as a dendrogram."""

    caption: str
    names: list[str]
    merges: list[tuple[int, int, float]]

    def _leaves(self) -> list[int]:
        """Return the nodes from left to right, so that no two branches cross."""
        order = {node: [node] for node in range(len(self.names))}
        for left, right, _ in self.merges:
            order[left] += order.pop(right)
        return [node for tree in order.values() for node in tree]

    def svg(self, scale: Scale) -> str:
        """Return the dendrogram as SVG, each height below its merge."""
        floor = 4 + TALL
        at = {node: Branch(LEAF * (k + 0.5), floor) for k, node in enumerate(self._leaves())}
        parts = [_text(branch.x, floor + 16, self.names[node], "leaf") for node, branch in at.items()]
        for left, right, height in self.merges:
            y, a, b = scale.y(height), at[left], at[right]
            parts.append(f'<path d="M{a.x:g} {a.y:g}V{y:g}H{b.x:g}V{b.y:g}"/>')
            at[left] = Branch((a.x + b.x) / 2, y)
            parts.append(_text(at[left].x, y + 12, f"{height:.4g}", "height"))
        merges = "; ".join(f"{self.names[a]} and {self.names[b]} at {height:.4g}" for a, b, height in self.merges)
        return _svg(LEAF * len(self.names), floor + 20, "".join(parts), f"A tree: {merges}")


class Drawing(SphinxDirective):
    """A graph and its trees, side by side where there is room."""

    has_content = True
    option_spec: ClassVar[dict[str, Any]] = {
        "trees": directives.unchanged_required,
        "trees-only": directives.flag,
        "weights": directives.unchanged,
    }

    def run(self) -> list[nodes.Node]:
        """Return the drawing as HTML."""
        graph = ToyGraph.parse(list(self.content))
        trees = [self._tree(graph, *wanted.split()) for wanted in self.options["trees"].split(",")]
        heights = [height for tree in trees for *_, height in tree.merges]
        scale = Scale.of(heights, self.options.get("weights") == "similarity")
        figures = [] if "trees-only" in self.options else [_figure(graph.svg(), "the graph")]
        figures += [_figure(tree.svg(scale), tree.caption) for tree in trees]
        return [nodes.raw("", f'<div class="drawing">{"".join(figures)}</div>', format="html")]

    def _tree(self, graph: ToyGraph, linkage: str, missing: str) -> Tree:
        """Return the trees for one linkage and one meaning of missing edges."""
        import dask_rac  # noqa: PLC0415 - only pages with drawings need the kernels

        weights = self.options.get("weights", "distance")
        value = missing if missing.isalpha() else float(missing)
        found = dask_rac.cluster(graph.columns(), linkage, value, weights, len(graph.places), progress=False).merges
        rows = found.sort_values(["height", "size"], ascending=[weights == "distance", True])
        merges = list(zip(rows["left"].tolist(), rows["right"].tolist(), rows["height"].tolist(), strict=True))
        names = list(graph.places)
        matters = linkage != "single" and len(graph.edges) < len(names) * (len(names) - 1) / 2
        caption = f"{linkage}, missing={value!r}" if matters else linkage
        return Tree(caption, names, merges)


def _figure(svg: str, caption: str) -> str:
    return f"<figure>{svg}<figcaption>{escape(caption, quote=False)}</figcaption></figure>"


def _svg(width: float, height: float, content: str, description: str) -> str:
    size = f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}"'
    return f'<svg {size} role="img" aria-label="{escape(description)}">{content}</svg>'


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" class="{kind}">{escape(text)}</text>'


def setup(app: Any) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("drawing", Drawing)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
