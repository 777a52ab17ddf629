"""Where the time went: the seconds of each phase, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, FixedTicker, PrintfTickFormatter, Range1d
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure

from dask_rac.pictures.axes import Scale, apart, leave_room
from dask_rac.pictures.picture import Picture
from dask_rac.pictures.theme import COLOURS, KEY_ROW, add_key, add_tooltips, key_columns, message_figure, new_figure
from dask_rac.pictures.wording import percent, plain, seconds_text

NAME = "phases"
TITLE = "Where the time went"
NOTHING = "No time measured"
WHY = "There are no steps, or none that took any time."
MOST_BARS = 60
FEWEST = 8
"""Fewer bars are as wide as if they were so many."""
LONGEST = 16
"""Characters of a label on the axis."""


def phases_picture(phases: pd.DataFrame) -> Picture:
    """The seconds that each phase took, as stacked bars.

    Parameters
    ----------
    phases : pandas.DataFrame
        A row a step, named by the index; a column a phase, in seconds. Of more than 60 steps, several next to each
        other become one bar.

    Returns
    -------
    Picture
        A data source a phase, named by it, with a row a bar: `place` (0, 1, ...), `step`, `phase`, `seconds`,
        `bottom`, `top`, `total` (of the bar).
    """
    bars = _few_phases(_few_bars(phases))
    total = float(bars.to_numpy(float).sum())
    if not total > 0:
        return Picture(message_figure(NAME, NOTHING), TITLE, WHY, NAME)
    plot = _plot(bars)
    tops = np.cumsum(bars.to_numpy(float), axis=1)
    drawn = {name: [_bars(plot, bars, tops, place)] for place, name in enumerate(bars.columns)}
    add_key(plot, drawn, key_columns(bars.columns))
    rows = {"step": "@step", "phase": "@phase", "seconds": "@seconds{%.3g}", "all phases": "@total{%.3g}"}
    add_tooltips(plot, [bar for one in drawn.values() for bar in one], rows, printf=("seconds", "total"))
    return Picture(plot, TITLE, _caption(bars, total, len(phases)), NAME)


def _few_bars(phases: pd.DataFrame) -> pd.DataFrame:
    """Steps next to each other summed up, as few as that takes."""
    each = -(-len(phases) // MOST_BARS) or 1
    names = [str(name) for name in phases.index]
    starts = range(0, len(names), each)
    ends = [min(start + each, len(names)) - 1 for start in starts]
    labels = [
        plain(names[start] if start == end else f"{names[start]}-{names[end]}")
        for start, end in zip(starts, ends, strict=True)
    ]
    sums = np.add.reduceat(phases.to_numpy(float), list(starts)) if names else np.empty((0, len(phases.columns)))
    return pd.DataFrame(sums, index=labels, columns=[plain(name, 20) for name in phases.columns])


def _few_phases(bars: pd.DataFrame) -> pd.DataFrame:
    """Phases that took time, no more than there are colours: the least become one."""
    seconds = bars.sum(axis=0).to_numpy()
    bars = bars.iloc[:, np.flatnonzero(seconds > 0)]
    if len(bars.columns) <= len(COLOURS):
        return bars
    kept = np.sort(np.argsort(-bars.sum(axis=0).to_numpy(), kind="stable")[: len(COLOURS) - 1])
    few = bars.iloc[:, kept].copy()
    few["other phases"] = bars.sum(axis=1) - few.sum(axis=1)
    return few


def _plot(bars: pd.DataFrame) -> figure:
    """The figure, with a named tick a bar and room for the key."""
    rows = -(-len(bars.columns) // key_columns(bars.columns))
    side = max(0.7, (FEWEST - len(bars) + 1) / 2)
    plot = new_figure(NAME, "step", "seconds", x_range=Range1d(start=-side, end=len(bars) - 1 + side))
    leave_room(plot, Scale(0, float(bars.sum(axis=1).max()), False), rows * KEY_ROW + 8)
    plot.xaxis.ticker = FixedTicker(ticks=list(range(len(bars))))
    plot.xaxis.major_label_overrides = {place: plain(name, LONGEST) for place, name in enumerate(bars.index)}
    plot.xaxis.major_label_policy = apart()
    plot.yaxis.formatter = PrintfTickFormatter(format="%.6g")
    return plot


def _bars(plot: figure, bars: pd.DataFrame, tops: np.ndarray, place: int) -> GlyphRenderer[Any]:
    """One phase of all bars."""
    phase, seconds = bars.columns[place], bars.iloc[:, place].to_numpy()
    columns: dict[str, Any] = {
        "place": np.arange(len(bars)),
        "step": list(bars.index),
        "phase": [phase] * len(bars),
        "seconds": seconds,
        "bottom": tops[:, place] - seconds,
        "top": tops[:, place],
        "total": tops[:, -1],
    }
    source = ColumnDataSource(data=columns, name=phase)
    return plot.vbar(
        "place", 0.8, "top", "bottom", source=source, color=COLOURS[place], line_color="white", line_width=0.5
    )


def _caption(bars: pd.DataFrame, total: float, steps: int) -> str:
    """The sum, and the phase that took most of it."""
    each = bars.sum(axis=0)
    text = f"{seconds_text(total)} in all, {percent(float(each.max()) / total)} of it in {each.idxmax()}."
    summed = f" {steps:,} steps, several a bar." if steps > len(bars) else ""
    return f"Seconds of each phase, step by step: {text}{summed}"
