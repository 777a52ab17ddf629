"""The two ratios on which the running time depends, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.layouts import column
from bokeh.models import BasicTicker, ColumnDataSource, Range1d
from bokeh.plotting import figure

from dask_rac.base.events import RoundRecord
from dask_rac.show.pictures.axes import label_rounds
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.rounds import NOTHING, WHY, round_range
from dask_rac.show.pictures.theme import BLUE, DENSE, GREEN, GREY, ON_WHITE, add_tooltips, message_figure, new_figure

NAME = "alpha_beta"
TITLE = "Fraction merged and nearest updates"
MEANING = (
    "While alpha stays above a constant, the number of rounds grows with the logarithm of the number of nodes; while "
    "beta is also bounded, the time grows linearly."
)
PANEL, BELOW = 190, 25
"""Pixels of a panel, and of the label below the lower one."""
LEFT = 64
"""Pixels left of both panels, so that their rounds are aligned."""


def alpha_beta_picture(records: Sequence[RoundRecord]) -> Picture:
    """Draw the fraction merged (alpha) and the nearest updates per merge (beta), round by round.

    Parameters
    ----------
    records : sequence of RoundRecord
        One record per round, the finisher last. The finisher is not a round: it is marked, but has no ratio.

    Returns
    -------
    Picture
        Two panels. Their data source is named "alpha_beta" and has one row per round, without the finisher: `round`,
        `clusters`, `merges`, `updates`, `alpha`, `beta`; beta is NaN where nothing merged. The
        data source of the finisher is named "alpha_beta_finisher".
    """
    rounds = [record for record in records if not record.finisher]
    if not records:
        return Picture(message_figure(NAME, NOTHING), TITLE, WHY, NAME)
    source, finisher = ColumnDataSource(data=_columns(rounds), name=NAME), _finisher(records)
    across = round_range(records)
    alpha = _panel(source, finisher, "alpha", across, 0.5)
    beta = _panel(source, finisher, "beta", across, 1.0)
    beta.xaxis.axis_label = "round"
    beta.update(height=PANEL + BELOW, min_height=(beta.min_height or 0) + BELOW)
    both = column(alpha, beta, sizing_mode="stretch_width", name=f"{NAME}_figure", spacing=0)
    return Picture(both, TITLE, _caption(rounds), NAME)


def _columns(rounds: Sequence[RoundRecord]) -> dict[str, Any]:
    """Return the columns, one row per round."""
    table = [(record.round, record.clusters, record.merges, record.nearest_updates) for record in rounds]
    number, clusters, merges, updates = np.array(table, np.int64).reshape(-1, 4).T
    return {
        "round": number,
        "clusters": clusters,
        "merges": merges,
        "updates": updates,
        "alpha": merges / np.maximum(clusters, 1),
        "beta": np.where(merges > 0, updates / np.maximum(merges, 1), np.nan),
    }


def _finisher(records: Sequence[RoundRecord]) -> ColumnDataSource:
    """Return where the finisher took over: one row, or none."""
    finishers = [record for record in records if record.finisher]
    columns: dict[str, Any] = {
        "round": [record.round for record in finishers],
        "merges": [record.merges for record in finishers],
    }
    return ColumnDataSource(data=columns, name=f"{NAME}_finisher")


LABELS = {"alpha": "alpha: fraction merged", "beta": "beta: updates per merge"}


def _panel(source: ColumnDataSource, finisher: ColumnDataSource, ratio: str, across: Range1d, least: float) -> figure:
    """Draw one ratio against the round, from 0 to its largest value or slightly beyond `least`."""
    values = source.data[ratio]
    top = 1.12 * max(least, float(np.nanmax(np.append(values, 0.0))))
    plot = new_figure(
        f"{NAME}_{ratio}",
        "",
        LABELS[ratio],
        height=PANEL,
        x_range=across,
        y_range=Range1d(start=-0.03 * top, end=top),
        min_border_left=LEFT,
    )
    plot.yaxis.bounds = (0, top)
    colour = BLUE if ratio == "alpha" else GREEN
    label_rounds(plot.xaxis[0])
    plot.yaxis.ticker = BasicTicker(desired_num_ticks=5, num_minor_ticks=0)
    line = plot.line("round", ratio, source=source, color=colour, line_width=1.8)
    if len(values) <= DENSE:
        plot.scatter("round", ratio, source=source, color=colour, size=6)
    _mark_finisher(plot, finisher, top, named=ratio == "alpha")
    rows = {"round": "@round{0,0}", "live clusters": "@clusters{0,0}", "merges": "@merges{0,0}"}
    rows |= {"nearest updates": "@updates{0,0}", "alpha": "@alpha{0.0000}", "beta": "@beta{0.000}"}
    add_tooltips(plot, [line], rows, mode="vline")
    return plot


def _mark_finisher(plot: figure, finisher: ColumnDataSource, top: float, named: bool) -> None:
    """Draw a dashed line where the finisher took over, with its name on one of the panels."""
    mark = plot.segment("round", 0, "round", top, source=finisher, color=GREY, line_width=1.5, line_dash=[5, 4])
    add_tooltips(plot, [mark], {"finisher": "@merges{0,0} merges"})
    if named and finisher.data["round"]:
        where: dict[str, Any] = {"x": finisher.data["round"], "y": [top], "x_offset": -5, "y_offset": 4}
        plot.text(**where, text=["finisher"], text_align="right", text_baseline="top", **ON_WHITE)


def _caption(rounds: Sequence[RoundRecord]) -> str:
    """Return the average ratios, and what they mean."""
    clusters, merges = sum(record.clusters for record in rounds), sum(record.merges for record in rounds)
    updates = sum(record.nearest_updates for record in rounds)
    alpha = f" ({merges / clusters:.2g} on average)" if merges else ""
    beta = f" ({updates / merges:.2g})" if merges else ""
    return (
        f"Alpha: merges per live cluster in each round{alpha}. Beta: nearest neighbours searched again per "
        f"merge{beta}. {MEANING}"
    )
