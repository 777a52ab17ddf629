"""The rows of the finisher: which edges each cluster has.

All rows are in one array. A row lists edges by their number, dead ones too until it is closed up. When a cluster takes
over the edges of another one, its row moves to the end of all rows, with room to grow by half, unless it has room where
it is; when the end is reached, all rows are laid out again, which also drops what is dead.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.arrays import Ids
from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.order import breaks_tie
from dask_rac.kernels.rows.seen import CHUNKS, DEGREE, LENGTH, ROOM, SIZE, START, drop_edge, other_end, weigh

CHUNK = 16  # edges
SCANNED = 64  # edges of a row that is scanned for the nearest; more than that are cut into chunks
SEEN = 1 << 16  # added to the tie of an edge while a row is closed up: beyond the bits of any tie


class Lists(NamedTuple):
    """Rows in one array of edges; those of a hub begin at a multiple of `CHUNK`."""

    ids: Ids
    groups: NDArray[np.int64]  # a row for each cluster, by position
    edges: Ids
    bounds: NDArray[np.float64]  # a row for each chunk; column 0 is the bound, infinite if it is empty
    marks: NDArray[np.int32]  # the same memory


@kernel
def scan_row(x, lists, links, rule):
    """Return the nearest edge of a short row, -1 if there is none, with W; close the row up on the way."""
    ids, groups, edges, _, _ = lists
    values, fields, _ = links
    size = groups[:, SIZE]
    kept = groups[x, START]
    best, best_tie, who, nearest = np.inf, np.int64(0), np.int64(-1), np.int64(-1)
    for i in range(groups[x, START], groups[x, START] + groups[x, LENGTH]):
        e = np.int64(edges[i])
        c = other_end(fields, e, x)
        if c < 0:
            continue
        w = weigh(values, fields, e, groups, rule)
        if w == np.inf:
            drop_edge(fields, e, groups)
            continue
        edges[kept] = e
        kept += 1
        tie = np.int64(fields[e, fields.shape[1] - 1])
        if w < best or (w == best and (tie < best_tie or (tie == best_tie and breaks_tie(ids, size, x, c, who)))):
            best, best_tie, who, nearest = w, tie, c, e
    groups[x, LENGTH] = kept - groups[x, START]
    return nearest, best


@kernel
def close_row(x, begin, lists, links):
    """Write the live edges of a row, each once, from `begin` on: not beyond its start, or beyond all rows."""
    groups, edges, fields = lists.groups, lists.edges, links.fields
    last = fields.shape[1] - 1
    kept = begin
    for i in range(groups[x, START], groups[x, START] + groups[x, LENGTH]):
        e = np.int64(edges[i])
        if e >= 0 and other_end(fields, e, x) >= 0 and fields[e, last] < SEEN:
            fields[e, last] += SEEN
            edges[kept] = e
            kept += 1
    for i in range(begin, kept):
        fields[edges[i], last] -= SEEN
    groups[x, START], groups[x, LENGTH] = begin, kept - begin


@inlined
def even(entries):
    """Return the least multiple of a chunk that is not smaller."""
    return (entries + CHUNK - 1) // CHUNK * CHUNK


@kernel
def make_room(x, more, end, lists, links):
    """Make room for more edges in a row, at `end` if need be; return the new end of all rows, -1 if it is too far."""
    groups = lists.groups
    needed = groups[x, DEGREE] + more
    hub = needed > SCANNED
    aligned = not hub or (groups[x, START] % CHUNK == 0 and groups[x, ROOM] % CHUNK == 0)
    if aligned and groups[x, LENGTH] + more <= groups[x, ROOM]:
        return end
    begin, room = groups[x, START], groups[x, ROOM]
    if not aligned or 4 * needed > 3 * room:
        begin, room = (even(end), even(needed + needed // 2)) if hub else (end, needed + needed // 2)
        if begin + room > len(lists.edges):
            return -1
        end = begin + room
    close_row(x, begin, lists, links)
    groups[x, ROOM] = room
    groups[x, CHUNKS] = -room // CHUNK if hub else 0
    return end


@kernel
def lay_rows(ids, groups, fields, more, edges, bounds):
    """Return the rows of all live edges, and where they end, so that a row of `more` edges can move behind them.

    They are laid where rows were before, `edges` and `bounds`, if there is room: what has been used once is faster.
    """
    first = fields.shape[1] - 4
    end, total = 0, 0
    for x in range(len(groups)):
        degree = groups[x, DEGREE]
        total += degree
        groups[x, LENGTH], groups[x, ROOM], groups[x, CHUNKS] = 0, degree, 0
        if degree > SCANNED:
            end, groups[x, ROOM] = even(end), even(degree + degree // 4)
            groups[x, CHUNKS] = -groups[x, ROOM] // CHUNK
        groups[x, START] = end
        end += groups[x, ROOM]
    if even(end + max(total // 2, 2 * more) + CHUNK) > len(edges):
        whole = even(end + max(total, 4 * more) + CHUNK)
        edges, bounds = np.empty(whole, fields.dtype), np.empty((whole // CHUNK, 3))
    for e in range(len(fields)):
        if fields[e, first] >= 0:
            for side in range(2):
                x = fields[e, first + side]
                edges[groups[x, START] + groups[x, LENGTH]] = e
                groups[x, LENGTH] += 1
    return Lists(ids, groups, edges, bounds, bounds.view(np.int32)), end
