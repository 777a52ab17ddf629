"""Dense vectors reduced to clusters from their differences, for any metric: the bits of `vectors.pairs.weigh`."""

import numpy as np

from dask_rac.kernels.certain.fold import first_column, fold_tile
from dask_rac.kernels.jit import kernel
from dask_rac.kernels.vectors.lanes import LANES
from dask_rac.kernels.vectors.triangle import PANEL_VALUES, weigh_line, widen

COLUMNS = 256  # of a tile, at most


@kernel
def fold_differences(given, rule, order, part, out) -> None:
    """Fold the weights of a part of all pairs into the entries of their clusters.

    `given` are the vectors, and their lengths by which they are divided first for cosines, else none; `rule` is the
    linkage and the metric. The part has whole pieces.
    """
    code, metric = rule
    dimensions = given[0].shape[1]
    width = LANES * max(1, min(COLUMNS, PANEL_VALUES // dimensions) // LANES)
    rows = part.last - part.first
    own = np.empty((rows, dimensions), np.float64)
    panels = np.zeros((width // LANES, dimensions * LANES), np.float64)
    room, rest = np.empty((rows, width), np.float64), np.empty(width, np.float64)
    for r in range(rows):
        widen(given, order.row[part.first + r], own[r], 1)
    for begin in range(first_column(order, part.first, part), part.end, width):
        end = min(begin + width, part.end)
        for c in range(begin, end):
            panel, lane = divmod(c - begin, LANES)
            widen(given, order.row[c], panels[panel, lane:], LANES)
        tile = room[:, : end - begin]
        for r in range(rows):
            if first_column(order, part.first + r, part) < end:
                weigh_line(own, r, panels, metric, tile[r], rest)
        fold_tile(code, tile, (part.first, begin), order, part, out)
