"""The sizes of the clusters of a flat cut."""

from __future__ import annotations

from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, FixedTicker, HoverTool, NumeralTickFormatter
from bokeh.plotting import figure

from dask_rac.show.pictures.axes import Scale, count_scale, label_counts, no_overlap
from dask_rac.show.pictures.labels import plural
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.theme import AXIS, BLUE, message_figure, new_figure
from dask_rac.tree.summary import SizeHistogram

NAME = "sizes"
TITLE = "Clusters by size"
NOTHING = "No clusters"
WHY = "The graph has no nodes, so there are no clusters."
MOST_LABELS = 7
FLOOR = 0.65
"""Where bars begin: a bar of one cluster must be visible."""


def sizes_picture(sizes: SizeHistogram, *, largest: int | None = None, most: int | None = None) -> Picture:
    """Draw how many clusters of a flat cut have 1, 2 to 3, 4 to 7, ... nodes.

    Parameters
    ----------
    sizes : SizeHistogram
        Clusters by size at a height.
    largest, most : int, optional
        The largest size and the largest number of clusters that the axes must accommodate, for a picture whose
        data a script replaces; by default those of `sizes`.

    Returns
    -------
    Picture
        Its data source is named "sizes" and has one row per bar, as `sizes_columns` returns them.
    """
    if not len(sizes.low):
        return Picture(message_figure(NAME, NOTHING), TITLE, WHY, NAME)
    across = Scale(1.0, 2.0 ** max(int(sizes.low[-1]).bit_length(), (largest or 1).bit_length()), True)
    counts = count_scale(max(int(sizes.clusters.max()), most or 1), FLOOR)
    plot = new_figure(
        NAME,
        "nodes in a cluster",
        "clusters",
        x_axis_type="log",
        y_axis_type="log",
        x_range=across.grown(0.02, 0.02).range(),
        y_range=counts.range(),
    )
    label_counts(plot.yaxis[0], counts)
    _label_sizes(plot, [2**power for power in range(int(across.high).bit_length())])
    source = ColumnDataSource(data=sizes_columns(sizes), name=NAME)
    bars = plot.quad(
        left="left", right="right", bottom=FLOOR, top="top", source=source, color=BLUE, line_color="white", line_width=2
    )
    plot.add_tools(HoverTool(renderers=[bars], tooltips="@text"))
    return Picture(plot, TITLE, _caption(sizes), NAME)


def sizes_columns(sizes: SizeHistogram) -> dict[str, Any]:
    """Return the columns of the data source "sizes", one row per bar.

    Returns
    -------
    dict
        `left` and `right`, the edges of the bar: its smallest size and that of the next bar; `top`, its height, NaN
        where there is no cluster; `clusters`; `nodes` in them; `text`, the tooltip.
    """
    low, clusters, nodes = sizes.low.tolist(), sizes.clusters.tolist(), sizes.nodes.tolist()
    return {
        "left": low,
        "right": [2 * size for size in low],
        "top": [float(count) if count else float("nan") for count in clusters],
        "clusters": clusters,
        "nodes": nodes,
        "text": [_text(*row) for row in zip(low, clusters, nodes, strict=True)],
    }


def _label_sizes(plot: figure, edges: list[int]) -> None:
    """Draw ticks between the bars, and label some of them."""
    each = -(-len(edges) // MOST_LABELS)
    plot.xaxis.ticker = FixedTicker(ticks=edges[::each], minor_ticks=edges)
    plot.xaxis.minor_tick_line_color = AXIS
    plot.xaxis.formatter = NumeralTickFormatter(format="0,0")
    plot.xaxis.major_label_policy = no_overlap()


def _text(low: int, clusters: int, nodes: int) -> str:
    """Return the tooltip of a bar, such as "4 to 7 nodes: 1,203 clusters with 5,902 nodes"."""
    size = "1 node" if low == 1 else f"{low:,} to {2 * low - 1:,} nodes"
    return f"{size}: {plural(clusters, 'cluster')} with {plural(nodes, 'node')}"


def _caption(sizes: SizeHistogram) -> str:
    clusters, nodes = int(sizes.clusters.sum()), int(sizes.nodes.sum())
    where = f" at height {sizes.height:.6g}" if np.isfinite(sizes.height) else ""
    what = f"{plural(clusters, 'cluster')} of {plural(nodes, 'node')}{where}"
    return f"{what}, by size in powers of two (logarithmic scales)."
