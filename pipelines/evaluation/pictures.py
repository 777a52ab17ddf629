"""The figures of the paper, drawn again from the numbers of the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.layouts import column
from bokeh.models import LogTicker, LogTickFormatter, Range1d
from bokeh.plotting import figure
from numpy.typing import NDArray

from dask_rac.show.pictures.axes import Scale, count_scale, label_counts, label_rounds, leave_room
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.theme import BLUE, DENSE, GREEN, KEY_ROW, ORANGE, PURPLE, add_key, new_figure

COUNTED = 1_000
"""Rounds with more clusters have a time of their own: the matrix engine runs those of fewer in one go."""

FEWEST = 3
"""Rounds through which a line is fitted."""

Numbers = Mapping[str, Any]
Values = NDArray[np.float64]


@dataclass(frozen=True)
class Series:
    """A run in a picture."""

    key: str
    name: str
    colour: str
    fitted: bool = False
    """Whether a line is drawn through its rounds."""


NEWS20 = Series("news20", "News20", BLUE)
RCV1 = Series("rcv1", "RCV1", ORANGE)
SIFT1M = Series("sift1m", "SIFT1M", BLUE)
SIFT200K = Series("sift200k", "SIFT200K", ORANGE)
SAMPLE = Series("sift30k", "SIFT200K, fewer", GREEN, fitted=True)
SIFT1B = Series("sift1b", "SIFT1B", BLUE, fitted=True)
SIFT1B_KNN = Series("sift1b_knn", "neighbours", PURPLE)
WEB88M = Series("web88m", "WEB88M", ORANGE)


def rounds_of(numbers: Numbers, key: str) -> dict[str, Values]:
    """Return the columns of a run's rounds."""
    return {name: np.array(values, float) for name, values in numbers[key]["rounds"].items()}


def updates_figure(numbers: Numbers) -> Picture:
    """Figure 2 (a): nearest updates per merge."""
    plot = new_figure("paper_updates", "round", "updates per merge", height=300)
    drawn = {}
    for series in (NEWS20, RCV1):
        rounds = rounds_of(numbers, series.key)
        drawn[series.name] = _line(plot, rounds["updates"] / rounds["merges"], series, dots=True)
    most = max(float((rounds["updates"] / rounds["merges"]).max()) for rounds in _both(numbers))
    plot.y_range = Range1d(start=0, end=1.25 * most)
    plot.x_range = Range1d(start=0, end=1 + max(len(rounds["merges"]) for rounds in _both(numbers)))
    label_rounds(plot.xaxis[0])
    add_key(plot, drawn, len(drawn))
    return Picture(plot, "Nearest updates per merge", "News20 and RCV1, round by round.", "paper_updates")


def _both(numbers: Numbers) -> list[dict[str, Values]]:
    return [rounds_of(numbers, series.key) for series in (NEWS20, RCV1)]


def merges_figure(numbers: Numbers) -> Picture:
    """Figure 2 (b) to (d): merges per round."""
    panels = [
        _merges_panel(numbers, (NEWS20, RCV1), "documents"),
        _merges_panel(numbers, (SIFT1B, WEB88M, SIFT1B_KNN), "graphs", across="log"),
        _merges_panel(numbers, (SIFT1M, SIFT200K, SAMPLE), "descriptors"),
    ]
    return Picture(
        column(*panels, sizing_mode="stretch_width", spacing=10),
        "Merges per round",
        "Documents, sparse graphs, and all pairs of descriptors.",
        "paper_merges",
    )


def _merges_panel(numbers: Numbers, several: tuple[Series, ...], name: str, across: str = "linear") -> figure:
    """Draw the merges of some runs, round by round."""
    axes = {"x_axis_type": across, "y_axis_type": "log"}
    plot = new_figure(f"paper_merges_{name}", "round", "merges", height=270, **axes)
    columns = {series: rounds_of(numbers, series.key)["merges"] for series in several}
    scale = count_scale(max(float(merges.max()) for merges in columns.values()))
    leave_room(plot, scale, KEY_ROW)
    longest = max(len(merges) for merges in columns.values())
    if across == "log":
        rounds = count_scale(longest)
        plot.x_range = rounds.range()
        label_counts(plot.xaxis[0], rounds)
    else:
        plot.x_range = Range1d(start=0, end=1.02 * longest + 1)
        label_rounds(plot.xaxis[0])
    label_counts(plot.yaxis[0], scale)
    dots = longest <= DENSE
    add_key(plot, {series.name: _line(plot, merges, series, dots) for series, merges in columns.items()}, len(several))
    return plot


def _line(plot: figure, values: Values, series: Series, dots: bool) -> list[Any]:
    """Draw one value per round."""
    number = np.arange(1.0, len(values) + 1)
    drawn: list[Any] = [plot.line(number, values, color=series.colour, line_width=1.8)]
    if dots:
        drawn.append(plot.scatter(number, values, color=series.colour, size=4))
    return drawn


def times_figure(numbers: Numbers) -> Picture:
    """Figure 3 (d): the processor time of a round against its merges, with the fitted lines."""
    panels = [
        _times_panel(numbers, (SAMPLE, NEWS20, RCV1), "pairs"),
        _times_panel(numbers, (SIFT1B, WEB88M), "graphs"),
    ]
    return Picture(
        column(*panels, sizing_mode="stretch_width", spacing=10),
        "Time of a round against its merges",
        "All pairs above, sparse graphs below.",
        "paper_times",
    )


def _times_panel(numbers: Numbers, several: tuple[Series, ...], name: str) -> figure:
    """Draw the rounds of some runs as points, each with its line."""
    plot = new_figure(
        f"paper_times_{name}",
        "merges of the round",
        "processor seconds",
        height=330,
        x_axis_type="log",
        y_axis_type="log",
    )
    drawn = {}
    for series in several:
        merges, seconds, *_ = timed(numbers, series.key)
        marks: list[Any] = [plot.scatter(merges, seconds, color=series.colour, size=5)]
        name = series.name
        if series.fitted:
            slope, start = fit(merges, seconds)
            ends = np.array([merges.min(), merges.max()])
            line = np.exp(start) * ends**slope
            marks.append(plot.line(ends, line, color=series.colour, line_width=1.5, line_dash=[6, 4]))
            name = f"{name}: slope {slope:.2f}"
        drawn[name] = marks
    merges, seconds = (np.concatenate([timed(numbers, series.key)[at] for series in several]) for at in (0, 1))
    across = count_scale(float(merges.max()), float(merges.min()) / 1.3)
    plot.x_range = across.range()
    label_counts(plot.xaxis[0], across)
    leave_room(plot, Scale(float(seconds.min()) / 1.6, float(seconds.max()) * 1.6, True), KEY_ROW)
    plot.yaxis.ticker = LogTicker(num_minor_ticks=0)
    plot.yaxis.formatter = LogTickFormatter()
    add_key(plot, drawn, len(drawn))
    return plot


def timed(numbers: Numbers, key: str) -> tuple[Values, ...]:
    """Return merges, processor seconds, clusters and edges of the rounds that were measured one by one."""
    rounds = rounds_of(numbers, key)
    counted = (rounds["clusters"] > COUNTED) & (rounds["processor"] > 0)
    if counted.sum() < FEWEST:
        counted = rounds["processor"] > 0
    return tuple(rounds[name][counted] for name in ("merges", "processor", "clusters", "edges"))


def fit(x: Values, y: Values) -> tuple[float, float]:
    """Return slope and start of the line through two logarithms."""
    slope, start = np.polyfit(np.log(x), np.log(y), 1)
    return float(slope), float(start)


FIGURES: dict[str, Callable[[Numbers], Picture]] = {
    "paper_updates.png": updates_figure,
    "paper_merges.png": merges_figure,
    "paper_times.png": times_figure,
}
"""By the name of their file."""
