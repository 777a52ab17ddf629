"""Agreement with known classes against the height of the cut."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from bokeh.models import ColumnDataSource
from bokeh.models.renderers import GlyphRenderer
from bokeh.plotting import figure

from dask_rac.show.pictures.axes import Scale, height_format, height_scale, label_heights, leave_room
from dask_rac.show.pictures.labels import plural
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.theme import (
    BLUE,
    GREEN,
    HEIGHT,
    KEY_ROW,
    ORANGE,
    add_key,
    add_tooltips,
    message_figure,
    new_figure,
)

NAME = "scores"
TITLE = "Agreement with known classes"
NOTHING = "No merges"
WHY = "Without merges, there is only one flat cut: every node is its own cluster."
MEASURES = {"ari": ("ARI", BLUE), "nmi": ("NMI", ORANGE), "ami": ("AMI", GREEN)}
MEANING = "ARI: adjusted Rand index; NMI: normalized mutual information; AMI: adjusted mutual information."
DECADES = 2.0
"""Heights that span more are drawn logarithmically."""


def scores_picture(curve: pd.DataFrame, best: pd.DataFrame, similarity: bool) -> Picture:
    """Draw how flat cuts agree with known classes.

    Parameters
    ----------
    curve, best : pandas.DataFrame
        Cuts with their measures, and the best by each, as in `Scores`.
    similarity : bool
        Whether large heights are close.

    Returns
    -------
    Picture
        Its data sources are named "scores" (the columns of `curve`, and `place` on the axis) and "best_ari",
        "best_nmi", "best_ami" (`place`, `height`, `clusters`, `score`). Merging proceeds to the right, also for
        similarities.
    """
    heights = curve["height"].to_numpy()
    finite = heights[np.isfinite(heights)]
    if not len(finite):
        return Picture(message_figure(NAME, NOTHING), TITLE, WHY, NAME)
    axis = height_scale(finite, DECADES).grown(0.03, 0.03)
    names = [name for name in MEASURES if name in best.index]
    plot = new_figure(
        NAME,
        "similarity" if similarity else "height",
        "agreement",
        height=HEIGHT + (len(names) - 1) * KEY_ROW,
        x_axis_type=axis.kind,
        x_range=axis.range(flipped=similarity),
    )
    least = float(np.nanmin(curve[names].to_numpy(), initial=0.0))
    leave_room(plot, Scale(1.05 * least - 0.02, 1.03, False), len(names) * KEY_ROW)
    label_heights(plot.xaxis[0], axis)
    _draw(plot, curve, best.loc[names], axis, similarity)
    return Picture(plot, TITLE, _caption(curve, axis.log), NAME)


def _draw(plot: figure, curve: pd.DataFrame, best: pd.DataFrame, axis: Scale, similarity: bool) -> None:
    """Draw a line per measure, and a point where it is best."""
    source = ColumnDataSource(data=_columns(curve, axis, similarity), name=NAME)
    tip = f"@height{{{height_format(curve['height'].to_numpy()[np.isfinite(curve['height'])])}}}"
    key: dict[str, list[GlyphRenderer[Any]]] = {}
    for name, row in best.iterrows():
        text, colour = MEASURES[str(name)]
        place = _places(np.array([row["height"]]), axis, similarity)
        data: dict[str, Any] = {"place": place, "height": [row["height"]]}
        data |= {"clusters": [int(row["n_clusters"])], "score": [row["score"]]}
        top = ColumnDataSource(data=data, name=f"best_{name}")
        line = plot.step("place", str(name), source=source, mode="after", color=colour, line_width=1.8)
        mark = plot.scatter("place", "score", source=top, size=10, color=colour, line_color="white")
        add_tooltips(plot, [mark], {f"best {text}": "@score{0.0000}", "clusters": "@clusters{0,0}"})
        key[f"{text} {row['score']:.3f}, {plural(int(row['n_clusters']), 'cluster')}"] = [line, mark]
    target = plot.line("place", str(best.index[0]), source=source, line_alpha=0)  # Bokeh's steps have no tooltips
    rows = {"similarity" if similarity else "height": tip, "clusters": "@n_clusters{0,0}"}
    rows |= {MEASURES[str(name)][0]: f"@{name}{{0.0000}}" for name in best.index}
    add_tooltips(plot, [target], rows, mode="vline", printf=("height",), line_policy="prev")
    add_key(plot, key, 1)


def _columns(curve: pd.DataFrame, axis: Scale, similarity: bool) -> dict[str, Any]:
    """Return the columns, one row per cut, and the last one again at the end of the axis."""
    rows = pd.concat([curve, curve.iloc[[-1]]])
    place = _places(rows["height"].to_numpy(), axis, similarity)
    place[-1] = axis.low if similarity else axis.high
    return {"place": place} | {str(name): rows[name].to_numpy() for name in rows}


def _places(heights: Any, axis: Scale, similarity: bool) -> Any:
    """Return where heights are on the axis; those before all merges, or beyond what it can show, at its ends."""
    near = axis.high if similarity else axis.low
    return np.clip(np.where(np.isfinite(heights), heights, near), axis.low, axis.high)


def _caption(curve: pd.DataFrame, log_height: bool) -> str:
    """Say what is shown, on which scale."""
    scale = ", logarithmic scale" if log_height else ""
    return f"Agreement of flat cuts with known classes, by the height of the cut{scale}. Dots: the best cuts. {MEANING}"
