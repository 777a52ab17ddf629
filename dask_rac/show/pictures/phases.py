"""Where the time went: the seconds of each phase, step by step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource, FixedTicker, PrintfTickFormatter, Range1d
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure

from dask_rac.base.spans import batches
from dask_rac.show.pictures.axes import Scale, leave_room, no_overlap
from dask_rac.show.pictures.labels import percent, plain, seconds_text
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.theme import (
    COLOURS,
    KEY_ROW,
    add_key,
    add_tooltips,
    key_columns,
    message_figure,
    new_figure,
)

NAME = "phases"
TITLE = "Where the time went"
NOTHING = "No time measured"
WHY = "There are no steps, or none took measurable time."
MOST_BARS = 60
FEWEST = 8
"""Fewer bars do not get wider than this many would."""
LONGEST = 16
"""The most characters of a label on the axis."""


def phases_picture(phases: pd.DataFrame) -> Picture:
    """Draw the seconds of each phase as stacked bars.

    Parameters
    ----------
    phases : pandas.DataFrame
        One row per step, named by the index; one column per phase, in seconds. With more than 60 steps, several
        consecutive ones share a bar.

    Returns
    -------
    Picture
        One data source per phase, named after it, with one row per bar: `place` (0, 1, ...), `step`, `phase`,
        `seconds`, `bottom`, `top`, `total` (of the bar).
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
    add_tooltips(
        plot, [bar for bars_of_phase in drawn.values() for bar in bars_of_phase], rows, printf=("seconds", "total")
    )
    return Picture(plot, TITLE, _caption(bars, total, len(phases)), NAME)


def _few_bars(phases: pd.DataFrame) -> pd.DataFrame:
    """Sum consecutive steps until there are at most MOST_BARS."""
    each = -(-len(phases) // MOST_BARS) or 1
    names = [str(name) for name in phases.index]
    spans = list(batches(0, len(names), each))
    labels = [plain(names[start] if end == start + 1 else f"{names[start]}-{names[end - 1]}") for start, end in spans]
    starts = [start for start, _ in spans]
    sums = np.add.reduceat(phases.to_numpy(float), starts) if names else np.empty((0, len(phases.columns)))
    return pd.DataFrame(sums, index=labels, columns=[plain(name, 20) for name in phases.columns])


def _few_phases(bars: pd.DataFrame) -> pd.DataFrame:
    """Keep phases that took time, as many as there are colours: the shortest are combined."""
    seconds = bars.sum(axis=0).to_numpy()
    bars = bars.iloc[:, np.flatnonzero(seconds > 0)]
    if len(bars.columns) <= len(COLOURS):
        return bars
    kept = np.sort(np.argsort(-bars.sum(axis=0).to_numpy(), kind="stable")[: len(COLOURS) - 1])
    few = bars.iloc[:, kept].copy()
    few["other phases"] = bars.sum(axis=1) - few.sum(axis=1)
    return few


def _plot(bars: pd.DataFrame) -> figure:
    """Return a figure with one named tick per bar and room for the legend."""
    rows = -(-len(bars.columns) // key_columns(bars.columns))
    side = max(0.7, (FEWEST - len(bars) + 1) / 2)
    plot = new_figure(NAME, "step", "seconds", x_range=Range1d(start=-side, end=len(bars) - 1 + side))
    leave_room(plot, Scale(0, float(bars.sum(axis=1).max()), False), rows * KEY_ROW + 8)
    plot.xaxis.ticker = FixedTicker(ticks=list(range(len(bars))))
    plot.xaxis.major_label_overrides = {place: plain(name, LONGEST) for place, name in enumerate(bars.index)}
    plot.xaxis.major_label_policy = no_overlap()
    plot.yaxis.formatter = PrintfTickFormatter(format="%.6g")
    return plot


def _bars(plot: figure, bars: pd.DataFrame, tops: np.ndarray, place: int) -> GlyphRenderer[Any]:
    """Draw one phase of all bars."""
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
    """State the total, and the phase that took most of it."""
    each = bars.sum(axis=0)
    text = f"{seconds_text(total)} in all, {percent(float(each.max()) / total)} of it in {each.idxmax()}."
    summed = f" {steps:,} steps, several per bar." if steps > len(bars) else ""
    return f"Seconds of each phase, step by step: {text}{summed}"
