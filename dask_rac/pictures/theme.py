"""How all pictures look: colours that the colour-blind can tell apart, fonts, grids, tools, tooltips."""

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
"""Those of Okabe and Ito, with grey for their black."""

TEXT, AXIS, GRID = "#333333", "#777777", "#E5E5E5"
FONT = "Helvetica, Arial, sans-serif"
LABEL_SIZE, TITLE_SIZE = "12px", "13px"

WRITTEN: dict[str, Any] = {"text_font": value(FONT), "text_font_size": LABEL_SIZE, "text_color": TEXT}
"""How texts inside figures are drawn."""
ON_WHITE = WRITTEN | {"background_fill_color": "white"}
"""Where something may be behind them."""

HEIGHT = 340
"""Pixels, axes included."""
NARROW = 280
"""Pixels: no figure becomes narrower."""
FRAME = 66
"""Pixels of a figure's height that its axis takes."""
LOWEST = 0.8
"""The share of its frame's height that a figure needs: keys and labels have room in it, and do not shrink."""
FRAME_WIDTH = 250
"""Pixels of the frame of a figure in a page of 400, in which all texts shall have room."""
IMAGE_WIDTH = 360
"""Pixels of an image whose frame is as wide as that."""
CHARACTER = 7.2
"""Pixels of a character, at most, on average."""
KEY_ROW = 24
"""Pixels of a row of the key."""
DENSE = 150
"""From so many points on a line has no markers: each would be an element of the page."""

TOOLS = "pan,box_zoom,wheel_zoom,reset,save"


Renderers: TypeAlias = "Sequence[GlyphRenderer[Any]]"


def new_figure(name: str, x: str, y: str, **special: Any) -> figure:
    """An empty figure with labelled axes."""
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
    """Fonts and lines."""
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
    """A figure that says why there is nothing to see."""
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
    """Say more of what the mouse points at: a row a name; columns in `printf` have formats of C."""
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
    """How many of some names have room beside each other in the key."""
    widest = max(31 + CHARACTER * len(name) for name in names)
    return max(1, int(FRAME_WIDTH / widest))


def add_key(plot: figure, items: Mapping[str, Renderers], columns: int) -> None:
    """Names of what is drawn, in the room that the range leaves for them; a click hides and shows it."""
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
