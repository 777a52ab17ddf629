"""All pairs of dense vectors against merges, in tiles that stay in the cache: no row of weights is ever written whole.

Leaves are in order, and tiles of the triangle are taken from its diagonal towards the first leaf. So the runs of a row,
each of which belongs to one merge, come in the order of the merges above its leaf: a row keeps the merge that it has
reached, and goes on with it in the next tile.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.pairs_audit import HALVES, LARGEST, SHARES, largest_of, sum_of, sum_times
from dask_rac.kernels.vectors.lanes import LANES
from dask_rac.kernels.vectors.triangle import PANEL_VALUES, ROWS, ROWS_VALUES, weigh_line, widen


@kernel
def add_tiles(plan, held, metric: int, span, totals) -> None:
    """Add the weights of the leaves of a span with all leaves before them to the totals of their merges.

    `held` are the vectors in the order of leaves, and their norms if they are to be divided by them.
    """
    kind, climb, levels, shares, times = plan
    first_merge, above, low, middle, _, level = climb
    dimensions = held[0].shape[1]
    step = max(1, min(ROWS, ROWS_VALUES // dimensions, span[1] - span[0]))
    width = LANES * max(1, PANEL_VALUES // (LANES * dimensions))
    own = np.empty((step, dimensions), np.float64)
    panels = np.zeros((width // LANES, dimensions * LANES), np.float64)
    line, rest = np.empty(width, np.float64), np.empty(width, np.float64)
    reached = np.empty(step, np.int64)
    for start in range(span[0], span[1], step):
        stop = min(start + step, span[1])
        for leaf in range(start, stop):
            widen(held, leaf, own[leaf - start], 1)
            reached[leaf - start] = _on_right(leaf, np.int64(first_merge[leaf]), above, middle)
        for begin in range((stop - 2) // width * width, -1, -width):
            end = min(begin + width, stop - 1)
            for t in range(begin, end):
                panel, lane = divmod(t - begin, LANES)
                widen(held, t, panels[panel, lane:], LANES)
            for leaf in range(max(start, begin + 1), stop):
                own_end, merge = (end if end < leaf else leaf), reached[leaf - start]
                if merge == len(above) or middle[merge] <= begin:
                    continue
                weigh_line(own, leaf - start, panels, metric, line[: own_end - begin], rest)
                while merge < len(above) and middle[merge] > begin:
                    p = low[merge] if low[merge] > begin else begin
                    q = middle[merge] if middle[merge] < own_end else own_end
                    run = line[p - begin : q - begin]
                    if kind >= LARGEST:
                        largest = largest_of(run, 1.0 if kind == LARGEST else -1.0)
                        if largest > totals[merge] or np.isnan(largest):
                            totals[merge] = largest
                    elif kind == HALVES:
                        halved, total = levels[leaf] - 2 * np.int64(level[merge]) - 2, 0.0
                        for t in range(p, q):
                            total += line[t - begin] * shares[min(levels[t] + halved, SHARES - 1)]
                        totals[merge] += total
                    elif len(times):
                        totals[merge] += times[leaf] * sum_times(run, times[p:q], kind)
                    else:
                        totals[merge] += sum_of(run, kind)
                    if low[merge] < begin:
                        break
                    merge = _on_right(leaf, np.int64(above[merge]), above, middle)
                reached[leaf - start] = merge


@inlined
def _on_right(leaf, merge, above, middle):
    """Return the first merge, from one upwards, that has a leaf in its right cluster; the number of merges if none."""
    while merge < len(above) and leaf < middle[merge]:
        merge = np.int64(above[merge])
    return merge
