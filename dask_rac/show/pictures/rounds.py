"""Merges and live clusters, round by round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, Range1d
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.show.pictures.axes import count_scale, label_counts, label_rounds, leave_room
from dask_rac.show.pictures.labels import plural
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.theme import (
    BLUE,
    DENSE,
    KEY_ROW,
    ORANGE,
    VERMILION,
    add_key,
    add_tooltips,
    message_figure,
    new_figure,
)

NAME = "rounds"
TITLE = "Merges and clusters by round"
NOTHING = "No rounds"
WHY = "No round has merged any clusters."


def rounds_picture(records: Sequence[RoundRecord], all_pairs: bool = False) -> Picture:
    """Draw how many clusters there are and how many merge, round by round.

    Parameters
    ----------
    records : sequence of RoundRecord
        One record per round, the finisher last.
    all_pairs : bool
        Whether these are the rounds of all pairs, not of the edges of a graph.

    Returns
    -------
    Picture
        Its data source is named "rounds" and has one row per round: `round`, `name` (its number, or "finisher"),
        `clusters`, `edges`, `merges`, `fraction` (merged), and for drawing `round_merges` and
        `finisher_merges`, NaN where there is nothing to draw.
    """
    if not records:
        return Picture(message_figure(NAME, NOTHING), TITLE, WHY, NAME)
    source = ColumnDataSource(data=_columns(records), name=NAME)
    scale = count_scale(max(record.clusters for record in records))
    plot = new_figure(NAME, "round", "clusters, merges", y_axis_type="log", x_range=round_range(records))
    leave_room(plot, scale, KEY_ROW)
    label_rounds(plot.xaxis[0])
    label_counts(plot.yaxis[0], scale)
    _draw(plot, source, any(record.finisher for record in records), "pairs" if all_pairs else "edges")
    return Picture(plot, TITLE, _caption(records, all_pairs), NAME)


def round_range(records: Sequence[RoundRecord]) -> Range1d:
    """Return an axis range that holds all rounds."""
    first, last = records[0].round, records[-1].round
    return Range1d(start=first - 0.5, end=last + max(0.5, 0.02 * (last - first)))


def _columns(records: Sequence[RoundRecord]) -> dict[str, Any]:
    """Return the columns, one row per round."""
    clusters, merges = np.array([(record.clusters, record.merges) for record in records]).T
    finisher = np.array([record.finisher for record in records])
    return {
        "round": np.array([record.round for record in records]),
        "name": ["finisher" if record.finisher else f"{record.round:,}" for record in records],
        "clusters": clusters,
        "edges": np.array([record.edges for record in records]),
        "merges": merges,
        "fraction": merges / np.maximum(clusters, 1),
        "round_merges": _shown(merges, ~finisher),
        "finisher_merges": _shown(merges, finisher),
    }


def _shown(merges: NDArray[np.int64], which: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the selected merges, NaN where there are none: a logarithmic axis has no 0."""
    return np.where(which & (merges > 0), merges, np.nan)


def _draw(plot: figure, source: ColumnDataSource, finisher: bool, things: str) -> None:
    clusters = _line(plot, source, "clusters", BLUE, "circle")
    key = {"clusters": clusters, "merges": _line(plot, source, "round_merges", ORANGE, "square")}
    if finisher:
        mark = plot.scatter(
            "round", "finisher_merges", source=source, marker="triangle", size=11, color=VERMILION, line_color="white"
        )
        key["finisher"] = [mark]
    add_key(plot, key, len(key))
    rows = {"round": "@name", "live clusters": "@clusters{0,0}", things: "@edges{0,0}", "merges": "@merges{0,0}"}
    add_tooltips(plot, clusters[:1], rows | {"fraction merged": "@fraction{0.0000}"}, mode="vline")


def _line(plot: figure, source: ColumnDataSource, column: str, colour: str, marker: Any) -> list[GlyphRenderer[Any]]:
    """Draw a line, with one marker per round unless there are too many."""
    drawn: list[GlyphRenderer[Any]] = [plot.line("round", column, source=source, color=colour, line_width=1.8)]
    if len(source.data["round"]) <= DENSE:
        drawn.append(plot.scatter("round", column, source=source, color=colour, marker=marker, size=6))
    return drawn


def _caption(records: Sequence[RoundRecord], all_pairs: bool) -> str:
    rounds = sum(not record.finisher for record in records)
    merges = sum(record.merges for record in records)
    finished = sum(record.merges for record in records if record.finisher)
    text = (
        f"Clusters{'' if all_pairs else ' that still have an edge'}, and how many pairs of them merge, in each of "
        f"{plural(rounds, 'round')} ({plural(merges, 'merge')} in all, logarithmic scale)."
    )
    return f"{text} The finisher did the last {finished:,} one after another." if finished else text
