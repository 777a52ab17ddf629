"""The number of clusters against height, for choosing a cut."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.models import ColumnDataSource
from bokeh.plotting import figure

from dask_rac.show.pictures.axes import (
    LEAST,
    Scale,
    count_scale,
    height_format,
    height_scale,
    label_counts,
    label_heights,
    leave_room,
)
from dask_rac.show.pictures.labels import plain, plural
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.theme import (
    BLUE,
    CHARACTER,
    FRAME_WIDTH,
    HEIGHT,
    ON_WHITE,
    VERMILION,
    add_tooltips,
    message_figure,
    new_figure,
)
from dask_rac.tree.summary import HeightCurve

NAME = "heights"
TITLE = "Clusters by height"
NOTHING = "No merges"
WHY = "Without merges, every node is its own cluster at any height."
DECADES = 2.0
"""Heights that span more are drawn logarithmically."""
ROW, EDGE = 17, 6
"""Pixels per row of labels, and above all rows."""


@dataclass(frozen=True)
class CutMark:
    """A flat cut to mark in a picture."""

    height: float
    clusters: int
    label: str = ""
    """Additional text for its label."""

    @property
    def text(self) -> str:
        """Its label."""
        words = plural(self.clusters, "cluster")
        return plain(f"{words}, {self.label}" if self.label else words)


def heights_picture(curve: HeightCurve, cuts: Sequence[CutMark]) -> Picture:
    """Draw the number of clusters at each height.

    Parameters
    ----------
    curve : HeightCurve
        The number of clusters against height.
    cuts : sequence of CutMark
        Cuts to mark.

    Returns
    -------
    Picture
        Its data sources are named "heights" (`height`, `clusters`) and "cuts" (`height`, `clusters`, `text`, and for
        drawing `place`, `short`, `level`, `align`, `offset`). Merging proceeds to the right, also for similarities.
    """
    if not len(curve.height):
        return Picture(message_figure(NAME, NOTHING), TITLE, WHY, NAME)
    axis = height_scale(curve.height, DECADES).grown(0.03, 0.03)
    flags = _flags(cuts, axis, curve.similarity)
    levels = max((flag.level for flag in flags), default=-1) + 1
    plot, room = _plot(curve, axis, levels)
    tip = f"@height{{{height_format(curve.height)}}}"
    _draw_curve(plot, curve, (axis.high, axis.low) if curve.similarity else (axis.low, axis.high), tip)
    _draw_flags(plot, flags, [room.at((flag.level + 0.6) * ROW / (levels * ROW + EDGE)) for flag in flags], tip)
    return Picture(plot, TITLE, _caption(curve, axis.log, len(cuts)), NAME)


def _plot(curve: HeightCurve, axis: Scale, levels: int) -> tuple[figure, Scale]:
    """Return the figure, and the room for `levels` rows above the curve."""
    plot = new_figure(
        NAME,
        "similarity" if curve.similarity else "height",
        "clusters",
        height=HEIGHT + levels * ROW,
        x_axis_type=axis.kind,
        y_axis_type="log",
        x_range=axis.range(flipped=curve.similarity),
    )
    counts = count_scale(curve.n_nodes)
    room = leave_room(plot, counts, levels * ROW + EDGE)
    label_heights(plot.xaxis[0], axis)
    label_counts(plot.yaxis[0], counts)
    return plot, room


@dataclass(frozen=True)
class _Flag:
    """The label of a cut on its pole."""

    cut: CutMark
    place: float
    """Position on the axis of heights."""
    short: str
    """As much of the text as fits."""
    left: bool
    """Whether it goes to the left of its pole."""
    level: int
    """Rows above the lowest."""


def _flags(cuts: Sequence[CutMark], axis: Scale, flipped: bool) -> list[_Flag]:
    """Arrange labels in rows, so that none overlaps another even in the narrowest figure."""
    placed: list[tuple[float, float, float, int]] = []  # pole, start and end in pixels, row
    flags = []
    poles = [_pixels(cut, axis, flipped) for cut in cuts]
    left = _sides(cuts, poles)
    order = sorted(range(len(cuts)), key=lambda at: (left[at], poles[at] if left[at] else -poles[at]))
    for cut, pole, back in ((cuts[at], poles[at], left[at]) for at in order):
        short = plain(cut.text, int((pole if back else FRAME_WIDTH - pole) / CHARACTER))
        start, end = sorted((pole, pole + (-1 if back else 1) * (len(short) * CHARACTER + 6)))
        crossed = [row for other, _, _, row in placed if start <= other <= end]
        level = max(crossed, default=-1) + 1
        while any(row == level and start < stop and begin < end for _, begin, stop, row in placed):
            level += 1
        placed.append((pole, start, end, level))
        flags.append(_Flag(cut, axis.at(_share(cut, axis)), short, back, level))
    return flags


def _sides(cuts: Sequence[CutMark], poles: Sequence[float]) -> list[bool]:
    """Whether each label goes to the left: none, all, or those in the right half."""
    wide = [len(cut.text) * CHARACTER for cut in cuts]
    if all(pole + width <= FRAME_WIDTH for pole, width in zip(poles, wide, strict=True)):
        return [False] * len(cuts)
    if all(pole >= width for pole, width in zip(poles, wide, strict=True)):
        return [True] * len(cuts)
    return [pole > FRAME_WIDTH / 2 for pole in poles]


def _share(cut: CutMark, axis: Scale) -> float:
    """Return how far along the axis a cut is; at its end if beyond."""
    if cut.height <= axis.low or cut.height >= axis.high:
        return float(cut.height >= axis.high)
    return axis.share(cut.height)


def _pixels(cut: CutMark, axis: Scale, flipped: bool) -> float:
    """Return the pixels between the left edge and a cut in the narrowest figure."""
    share = _share(cut, axis)
    return FRAME_WIDTH * (1 - share if flipped else share)


def _draw_curve(plot: figure, curve: HeightCurve, ends: tuple[float, float], tip: str) -> None:
    """Draw the steps, and the constant parts before and after them."""
    source = ColumnDataSource(data={"height": curve.height, "clusters": curve.clusters}, name=NAME)
    first, last, left = float(curve.height[0]), float(curve.height[-1]), int(curve.clusters[-1])
    plot.line([ends[0], first, first], [curve.n_nodes, curve.n_nodes, int(curve.clusters[0])], color=BLUE, line_width=2)
    plot.line([last, ends[1]], [left, left], color=BLUE, line_width=2)
    plot.step("height", "clusters", source=source, mode="after", color=BLUE, line_width=2)
    target = plot.line("height", "clusters", source=source, line_alpha=0)  # Bokeh's steps have no tooltips
    rows = {"similarity" if curve.similarity else "height": tip, "clusters": "@clusters{0,0}"}
    add_tooltips(plot, [target], rows, mode="vline", printf=("height",), line_policy="prev")


def _draw_flags(plot: figure, flags: Sequence[_Flag], above: Sequence[float], tip: str) -> None:
    """Draw a dashed pole per cut, a point where it meets the curve, and the label on top."""
    columns: dict[str, Any] = {
        "height": [flag.cut.height for flag in flags],
        "clusters": [flag.cut.clusters for flag in flags],
        "text": [flag.cut.text for flag in flags],
        "place": [flag.place for flag in flags],
        "short": [flag.short for flag in flags],
        "level": list(above),
        "align": ["right" if flag.left else "left" for flag in flags],
        "offset": [-5 if flag.left else 5 for flag in flags],
    }
    source = ColumnDataSource(data=columns, name="cuts")
    poles = plot.segment("place", LEAST, "place", "level", source=source, color=VERMILION, line_dash=[5, 3])
    points = plot.scatter("place", "clusters", source=source, color=VERMILION, size=8, line_color="white")
    plot.text(
        "place",
        "level",
        "short",
        source=source,
        x_offset="offset",
        text_align="align",
        text_baseline="middle",
        **ON_WHITE,
    )
    add_tooltips(plot, [points, poles], {"cut": "@text", "height": tip}, printf=("height",))


def _caption(curve: HeightCurve, log_height: bool, cuts: int) -> str:
    """Say what is counted, on which scales."""
    when = "down to a similarity" if curve.similarity else "up to a height"
    scale = "both scales logarithmic" if log_height else "logarithmic scale"
    text = f"Clusters of {plural(curve.n_nodes, 'node')} once all merges {when} are done ({scale})."
    return f"{text} Dashed: {plural(cuts, 'cut')}." if cuts else text
