"""The look of all pictures: colours that are safe for colour blindness, fonts, grids, tools, tooltips."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, Literal, TypeAlias

from bokeh.core.properties import value
from bokeh.models import HoverTool, Range1d, SaveTool
from bokeh.models.annotations import Legend, LegendItem
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure

BLUE, SKY, GREEN, ORANGE = "#0072B2", "#56B4E9", "#009E73", "#E69F00"
VERMILION, PURPLE, YELLOW, GREY = "#D55E00", "#CC79A7", "#F0E442", "#8C8C8C"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, GREY)
"""The palette of Okabe and Ito, with grey for black."""
CLUSTER_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION)
"""Those that are seen as thin lines on white and on black; with more clusters they repeat."""

TEXT, AXIS, GRID = "#333333", "#777777", "#E5E5E5"
FONT = "Helvetica, Arial, sans-serif"
LABEL_SIZE, TITLE_SIZE = "12px", "13px"

WRITTEN: dict[str, Any] = {"text_font": value(FONT), "text_font_size": LABEL_SIZE, "text_color": TEXT}
"""Style of text inside figures."""
ON_WHITE = WRITTEN | {"background_fill_color": "white"}
"""Style of text that may cover something."""

HEIGHT = 340
"""Pixels, including axes."""
NARROW = 280
"""Pixels: no figure is narrower."""
FRAME = 66
"""Pixels of a figure's height that its axis takes."""
LOWEST = 0.8
"""The share of its frame's height that a figure needs at least: legends and labels inside do not shrink."""
FRAME_WIDTH = 250
"""Width of the frame in pixels on a page of 400, in which all text must fit."""
IMAGE_WIDTH = 360
"""Width in pixels of an image whose frame is that wide."""
CHARACTER = 7.2
"""Pixels per character: an upper bound of the average."""
KEY_ROW = 24
"""Pixels per row of the legend."""
DENSE = 150
"""A line with more points has no markers: each would be an element of the page."""

TOOLS = "pan,box_zoom,wheel_zoom,reset,save"


Renderers: TypeAlias = "Sequence[GlyphRenderer[Any]]"


def new_figure(name: str, x: str, y: str, **special: Any) -> figure:
    """Return an empty figure with labelled axes."""
    options: dict[str, Any] = {"height": HEIGHT, "tools": TOOLS, "toolbar_location": "right", **special}
    options.setdefault("min_height", FRAME + ceil(LOWEST * (options["height"] - FRAME)))
    plot = figure(
        name=f"{name}_figure",
        x_axis_label=x or None,
        y_axis_label=y or None,
        sizing_mode="stretch_width",
        min_width=NARROW,
        output_backend="svg",
        active_drag=None,
        active_scroll=None,
        **options,
    )
    for tool in plot.select({"type": SaveTool}):
        tool.update(filename=name)
    plot.toolbar.logo = None
    plot.toolbar.autohide = True
    plot.outline_line_color = None
    plot.min_border_right = 30
    plot.min_border_top = 8
    _dress_axes(plot)
    return plot


def _dress_axes(plot: figure) -> None:
    """Set fonts and lines of the axes."""
    for axis in (plot.xaxis, plot.yaxis):
        axis.axis_label_text_font = axis.major_label_text_font = FONT
        axis.axis_label_text_font_size, axis.major_label_text_font_size = TITLE_SIZE, LABEL_SIZE
        axis.axis_label_text_font_style = "normal"
        axis.axis_label_text_color = axis.major_label_text_color = TEXT
        axis.axis_line_color = axis.major_tick_line_color = AXIS
        axis.minor_tick_line_color = None
        axis.major_tick_in, axis.major_tick_out = 0, 5
        axis.axis_label_standoff = 8
    plot.xgrid.grid_line_color = None
    plot.ygrid.grid_line_color = GRID


def message_figure(name: str, message: str) -> figure:
    """Return a figure that says why there is nothing to show."""
    ranges = {"x_range": Range1d(start=0, end=1), "y_range": Range1d(start=0, end=1)}
    plot = new_figure(name, "", "", height=120, min_height=50, tools="", toolbar_location=None, **ranges)
    plot.axis.visible = False
    plot.grid.visible = False
    plot.text([0.5], [0.5], [message], text_align="center", text_baseline="middle", **WRITTEN)
    return plot


def add_tooltips(
    plot: figure,
    renderers: Renderers,
    rows: Mapping[str, str],
    mode: Literal["mouse", "vline"] = "mouse",
    printf: Sequence[str] = (),
    line_policy: Literal["nearest", "prev"] = "nearest",
) -> None:
    """Add tooltips with one line per name; columns in `printf` use C formats."""
    formatters: Any = dict.fromkeys((f"@{column}" for column in printf), "printf")
    hover = HoverTool(
        renderers=list(renderers),
        tooltips=list(rows.items()),
        formatters=formatters,
        mode=mode,
        point_policy="snap_to_data",
        line_policy=line_policy,
    )
    plot.add_tools(hover)


def key_columns(names: Iterable[str]) -> int:
    """Return how many of the names fit side by side in the legend."""
    widest = max(31 + CHARACTER * len(name) for name in names)
    return max(1, int(FRAME_WIDTH / widest))


def add_key(plot: figure, items: Mapping[str, Renderers], columns: int) -> None:
    """Add a legend in the room that the range leaves for it; a click on a name hides or shows its data."""
    key = Legend(
        items=[LegendItem(label=name, renderers=list(renderers)) for name, renderers in items.items()],
        location="top_left",
        orientation="horizontal",
        ncols=columns,
        click_policy="hide",
    )
    key.update(label_text_font=FONT, label_text_font_size=LABEL_SIZE, label_text_color=TEXT)
    key.update(label_height=16, glyph_height=16, glyph_width=16, margin=4, padding=2, spacing=8)
    key.update(border_line_color=None, background_fill_alpha=0.8)
    plot.add_layout(key)
