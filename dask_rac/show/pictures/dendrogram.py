"""The top of a hierarchy as a dendrogram: leaves one below the other, heights across."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, log
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, Range1d
from bokeh.plotting import figure

from dask_rac.show.pictures.axes import Scale, height_format, height_scale, label_heights
from dask_rac.show.pictures.labels import plain, plural
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.theme import (
    BLUE,
    CLUSTER_COLOURS,
    GREY,
    GRID,
    ORANGE,
    add_tooltips,
    message_figure,
    new_figure,
)
from dask_rac.tree.top import Branch

NAME = "dendrogram"
TITLE, TITLES = "The top of the tree", "The tops of the trees"
NOTHING = "No merges"
WHY = "Without merges, every node is its own tree."
ROW, LOWEST_ROW = 16, 10
"""Pixels per leaf, and the fewest that keep its label readable."""
AROUND = 64
"""Pixels above and below all leaves."""
LEAVES, ROOT = 0.07, 0.03
"""Extra width for the leaves and beyond the root, as shares of the merges' width."""
DECADES = 3.0
"""Heights that span more are drawn logarithmically."""
LONGEST_NAME = 20
"""Characters of a name beside a leaf."""


@dataclass(frozen=True)
class DendrogramCut:
    """A flat cut whose clusters are coloured, as the last merge that it applies, in the order of `tree.order`."""

    distance: float
    size: float = inf
    node: float = inf
    text: str = ""
    """The cut in words, for the caption."""

    def applies(self, branch: Branch, sign: float) -> bool:
        """Whether the merge that created a branch is applied."""
        return (sign * branch.height, branch.size, branch.node) <= (self.distance, self.size, self.node)


@dataclass(frozen=True)
class _Spot:
    """A branch with its position."""

    branch: Branch
    parent: int
    """Index of its parent in the list, -1 for a root."""
    row: float
    colour: str


def dendrogram_picture(
    branches: Sequence[Branch],
    trees: int,
    similarity: bool,
    *,
    names: Mapping[int, str] | None = None,
    cut: DendrogramCut | None = None,
) -> Picture:
    """Draw the last merges as a dendrogram, with the number of nodes where branches are cut off.

    Parameters
    ----------
    branches : sequence of Branch
        The roots, as `treetop` returns them.
    trees : int
        Trees of the whole hierarchy, including single nodes.
    similarity : bool
        Whether heights are similarities; the root is on the right either way.
    names : mapping of int to str, optional
        A name for each leaf, by its smallest node: that of a single node, or of one that stands for its branch.
    cut : DendrogramCut, optional
        The flat cut whose clusters have colours; the largest come first, and after six colours they repeat.

    Returns
    -------
    Picture
        Its data sources are named "merges" (`height`, `row`, `nodes`, `node`, `colour`, and for drawing `place`, `xs`,
        `ys`), "cut" and "single" (leaves: `height`, `row`, `nodes`, `node`, `colour`, `label`, `name`). `node` is the
        smallest.
    """
    spots = _spots(branches)
    if cut is not None:
        spots = _coloured(spots, cut, -1.0 if similarity else 1.0)
    called = {} if names is None else names
    heights = np.array([spot.branch.height for spot in spots if spot.branch.children])
    if not len(heights):
        return Picture(message_figure(NAME, NOTHING), TITLE, WHY, NAME)
    scale = height_scale(heights, DECADES)
    axis = scale.grown(ROOT, LEAVES) if similarity else scale.grown(LEAVES, ROOT)
    plot = _plot(spots, axis, similarity, called)
    tip = axis.at(1 - LEAVES / 2 if similarity else LEAVES / 2)
    form = f"@height{{{height_format(heights)}}}"
    places = [max(spot.branch.height, scale.low) if spot.branch.children else tip for spot in spots]
    _draw_leaves(plot, spots, (tip, axis.high if similarity else axis.low), form, called)
    _draw_merges(plot, spots, places, form)
    _draw_roots(plot, spots, places, axis, -ROOT / 2 if similarity else ROOT / 2)
    caption = _caption(spots, len(branches), trees, similarity, scale.log)
    if cut is not None:
        caption += f" Colours: the clusters {cut.text}; grey is above the cut, or a node alone."
    return Picture(plot, TITLE if trees == 1 else TITLES, caption, NAME)


def _spots(branches: Sequence[Branch]) -> list[_Spot]:
    """List all branches, parents first; each leaf has its own row, larger ones above, with a gap between trees."""
    found: list[tuple[Branch, int]] = []
    waiting = [(branch, -1) for branch in reversed(branches)]
    while waiting:
        branch, parent = waiting.pop()
        by_size = sorted(branch.children, key=lambda child: (child.size, -child.node))
        waiting += [(child, len(found)) for child in by_size]
        found.append((branch, parent))
    rows, row = np.zeros(len(found)), -1.0
    for place, (branch, parent) in enumerate(found):
        row += parent < 0 < place
        if not branch.children:
            row += 1
            rows[place] = row
    for place in range(len(found) - 1, -1, -1):  # children before their parents
        branch, parent = found[place]
        if parent >= 0:
            rows[parent] += rows[place] / len(found[parent][0].children)
    return [
        _Spot(branch, parent, float(row), BLUE if branch.children or branch.size == 1 else ORANGE)
        for (branch, parent), row in zip(found, rows, strict=True)
    ]


def _coloured(spots: Sequence[_Spot], cut: DendrogramCut, sign: float) -> list[_Spot]:
    """Give each cluster of a cut a colour, and grey to what is above the cut."""
    clusters: list[int] = []  # for each branch the place of its cluster's topmost branch, -1 above the cut
    for place, spot in enumerate(spots):
        outer = clusters[spot.parent] if spot.parent >= 0 else -1
        applied = spot.branch.size > 1 and cut.applies(spot.branch, sign)
        clusters.append(outer if outer >= 0 else place if applied else -1)
    tops = sorted(set(clusters) - {-1}, key=lambda top: (-spots[top].branch.size, spots[top].branch.node))
    colours = {top: CLUSTER_COLOURS[rank % len(CLUSTER_COLOURS)] for rank, top in enumerate(tops)}
    return [replace(spot, colour=colours.get(top, GREY)) for spot, top in zip(spots, clusters, strict=True)]


def _plot(spots: Sequence[_Spot], axis: Scale, similarity: bool, names: Mapping[int, str]) -> figure:
    """Return a figure as high as its leaves need, with their names on the left."""
    leaves = [spot for spot in spots if not spot.branch.children]
    last = max(spot.row for spot in leaves)
    plot = new_figure(
        NAME,
        "similarity" if similarity else "height",
        "",
        height=round(ROW * (last + 1)) + AROUND,
        min_height=round(LOWEST_ROW * (last + 1)) + AROUND,
        x_axis_type=axis.kind,
        x_range=axis.range(flipped=similarity),
        y_range=Range1d(start=last + 0.5, end=-0.5),
    )
    label_heights(plot.xaxis[0], axis)
    plot.yaxis.ticker = FixedTicker(ticks=[spot.row for spot in leaves])
    plot.yaxis.major_label_overrides = {spot.row: _label(spot.branch, names) for spot in leaves}
    plot.yaxis.major_label_text_font_size = "11px"
    plot.yaxis.major_tick_line_color = plot.yaxis.axis_line_color = None
    plot.xgrid.grid_line_color, plot.ygrid.grid_line_color = GRID, None
    return plot


def _label(branch: Branch, names: Mapping[int, str]) -> str:
    """Return the text beside a leaf."""
    if branch.node in names:
        name = plain(names[branch.node], LONGEST_NAME)
        return name if branch.size == 1 else f"{name} ({branch.size:,})"
    return f"node {branch.node}" if branch.size == 1 else plural(branch.size, "node")


def _columns(spots: Sequence[_Spot]) -> dict[str, Any]:
    return {
        "height": [spot.branch.height for spot in spots],
        "row": [spot.row for spot in spots],
        "nodes": [spot.branch.size for spot in spots],
        "node": [spot.branch.node for spot in spots],
        "colour": [spot.colour for spot in spots],
    }


def _leaf_columns(spots: Sequence[_Spot], names: Mapping[int, str]) -> dict[str, Any]:
    columns = _columns(spots)
    columns["label"] = [_label(spot.branch, names) for spot in spots]
    columns["name"] = [plain(names.get(spot.branch.node, "")) for spot in spots]
    return columns


def _draw_leaves(
    plot: figure, spots: Sequence[_Spot], ends: tuple[float, float], form: str, names: Mapping[int, str]
) -> None:
    """Draw triangles where branches are cut off, wider for more nodes, and circles for single nodes."""
    tip, edge = ends
    cut = [spot for spot in spots if not spot.branch.children and spot.branch.size > 1]
    most = max((spot.branch.size for spot in cut), default=2)
    columns = _leaf_columns(cut, names)
    wide = [0.12 + 0.3 * log(spot.branch.size) / log(most) for spot in cut]
    columns["xs"] = [[tip, edge, edge] for _ in cut]
    columns["ys"] = [[spot.row, spot.row - half, spot.row + half] for spot, half in zip(cut, wide, strict=True)]
    triangles = plot.patches(
        "xs", "ys", source=ColumnDataSource(data=columns, name="cut"), color="colour", fill_alpha=0.75, line_width=1
    )
    named = {"name": "@name"} if names else {}
    example = {"for example": "@name"} if names else {}
    rows = {"cut off here": "@nodes{0,0} nodes", "formed at": form, **example, "smallest node": "@node"}
    add_tooltips(plot, [triangles], rows, printf=("height",))
    single = [spot for spot in spots if not spot.branch.children and spot.branch.size == 1]
    source = ColumnDataSource(data=_leaf_columns(single, names), name="single")
    circles = plot.scatter(tip, "row", source=source, size=6, fill_color="white", line_color="colour")
    add_tooltips(plot, [circles], {"single node": "@node", **named})


def _draw_merges(plot: figure, spots: Sequence[_Spot], places: Sequence[float], form: str) -> None:
    """Draw one bracket per merge, with a point that is easier to hover over."""
    merges = {place: spot for place, spot in enumerate(spots) if spot.branch.children}
    ends: dict[int, list[tuple[float, float]]] = {place: [] for place in merges}
    for spot, across in zip(spots, places, strict=True):
        if spot.parent >= 0:
            ends[spot.parent].append((across, spot.row))
    columns = _columns(list(merges.values()))
    columns["place"] = [places[place] for place in merges]
    columns["xs"] = [[ends[place][0][0], places[place], places[place], ends[place][-1][0]] for place in merges]
    columns["ys"] = [[ends[place][0][1]] * 2 + [ends[place][-1][1]] * 2 for place in merges]
    source = ColumnDataSource(data=columns, name="merges")
    lines = plot.multi_line("xs", "ys", source=source, color="colour", line_width=1.5)
    points = plot.scatter("place", "row", source=source, size=5, color="colour")
    tips = {"merge of": "@nodes{0,0} nodes", "height": form, "smallest node": "@node"}
    add_tooltips(plot, [lines, points], tips, printf=("height",))


def _draw_roots(plot: figure, spots: Sequence[_Spot], places: Sequence[float], axis: Scale, length: float) -> None:
    """Draw a short line from each root; `length` is a share of the axis."""
    roots = [place for place, spot in enumerate(spots) if spot.parent < 0]
    starts, rows = [places[place] for place in roots], [spots[place].row for place in roots]
    ends = [axis.at(axis.share(start) + length) for start in starts]
    source = ColumnDataSource(
        data={"x": starts, "y": rows, "end": ends, "colour": [spots[one].colour for one in roots]}
    )
    plot.segment("x", "y", "end", "y", source=source, color="colour", line_width=1.5)


def _caption(spots: Sequence[_Spot], shown: int, trees: int, similarity: bool, log_scale: bool) -> str:
    merges = sum(bool(spot.branch.children) for spot in spots)
    what = "the tree" if trees == 1 else f"{'' if shown == trees else f'{shown:,} of '}{plural(trees, 'tree')}"
    scale = ", logarithmic scale" if log_scale else ""
    unit = "similarity" if similarity else "height"
    last = "The last merge" if merges == 1 else f"The last {merges:,} merges"
    text = f"{last} of {what}, by {unit}{scale}."
    cut = any(not spot.branch.children and spot.branch.size > 1 for spot in spots)
    return f"{text} A triangle is a branch that is cut off, with the number of its nodes." if cut else text
