"""Hubs: clusters with so many edges that their rows are not scanned for the nearest.

The row of a hub is cut into chunks, each with a lower bound of what it holds, and the chunks play a tournament: its
winner is looked at, and if nothing in it is as near as it promised, it gets its true bound and plays again.

A bound must stay one though the hub grows, or every merge of a hub would be felt in all its chunks. So it is W as seen
from the hub, without the size of the hub, and the tie of the edge; it is outdated only where the *other* end has grown,
and then what is true lies above it. Where two edges of a hub are folded into one, that can bring down what is seen from
the hub; such an edge is listed once more, in a chunk at the end of the row.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel, prefetch_read
from dask_rac.kernels.order import breaks_tie
from dask_rac.kernels.rows.lists import CHUNK
from dask_rac.kernels.rows.seen import (
    CHUNKS,
    GROWN,
    LENGTH,
    ROOM,
    SCALED,
    SIZE,
    START,
    drop_edge,
    look,
    other_end,
    weigh,
)
from dask_rac.kernels.rule import HALF_FILLED

RESCALED = 512  # merges of a hub, by weighted linkage, after which its bounds are scaled: 2**512 is far from overflow

# Columns of `marks`, after the bound: the tie that belongs to it, its place in the chunk, the complement of that if
# another edge has both as well; and the chunk that wins match k, between 2k and 2k + 1, of which 1 is the final.
TIE, PLACE, WINNER = 2, 3, 4


@inlined
def scan_chunk(x, k, lists, links, rule):
    """Find the bound of a chunk of a hub, and the edge that has it; return whether the bound is another one."""
    ids, groups, edges, bounds, marks = lists
    values, fields, _ = links
    size = groups[:, SIZE]
    begin = groups[x, START] + k * CHUNK
    end = min(begin + CHUNK, groups[x, START] + groups[x, LENGTH])
    best, best_tie, who, top, several = np.inf, np.int64(0), np.int64(-1), np.int64(0), False
    for i in range(begin, end):
        e = np.int64(edges[i])
        if e < 0:
            continue
        c = other_end(fields, e, x)
        if c < 0:
            edges[i] = -1
            continue
        seen = look(x, values, fields, e, groups, rule)
        if seen == np.inf:
            drop_edge(fields, e, groups)
            edges[i] = -1
            continue
        tie = np.int64(fields[e, fields.shape[1] - 1])
        if who < 0 or seen < best or (seen == best and tie < best_tie):
            best, best_tie, who, top, several = seen, tie, c, i - begin, False
        elif seen == best and tie == best_tie and c != who:
            several = True
            if breaks_tie(ids, size, x, c, who):
                who, top = c, i - begin
    at = begin // CHUNK
    changed = bounds[at, 0] != best or marks[at, TIE] != best_tie
    bounds[at, 0], marks[at, TIE], marks[at, PLACE] = best, best_tie, ~top if several else top
    return changed


@inlined
def play(bounds, marks, base, chunks, match):
    """Play one match."""
    a, b = 2 * match, 2 * match + 1
    left = a - chunks if a >= chunks else np.int64(marks[base + a, WINNER])
    right = b - chunks if b >= chunks else np.int64(marks[base + b, WINNER])
    near, far = bounds[base + left, 0], bounds[base + right, 0]
    wins = near < far or (near == far and marks[base + left, TIE] <= marks[base + right, TIE])
    marks[base + match, WINNER] = left if wins else right


@inlined
def play_all(x, groups, bounds, marks):
    """Play all matches of a hub."""
    for match in range(groups[x, CHUNKS] - 1, 0, -1):
        play(bounds, marks, groups[x, START] // CHUNK, groups[x, CHUNKS], match)


@inlined
def play_again(x, k, groups, bounds, marks):
    """Play the matches of one chunk of a hub, whose bound has changed."""
    match = (groups[x, CHUNKS] + k) >> 1
    while match >= 1:
        play(bounds, marks, groups[x, START] // CHUNK, groups[x, CHUNKS], match)
        match >>= 1


@kernel
def cut_row(x, lists, links, rule):
    """Find the bounds of all chunks of a hub, and play."""
    groups = lists.groups
    groups[x, CHUNKS] = groups[x, ROOM] // CHUNK
    groups[x, SCALED] = groups[x, GROWN]
    edges, fields = lists.edges, links.fields
    flat, width = fields.reshape(fields.size), fields.shape[1]
    end = groups[x, START] + groups[x, LENGTH]
    for k in range(groups[x, CHUNKS]):
        begin = groups[x, START] + (k + 1) * CHUNK
        for i in range(begin, min(begin + CHUNK, end)):
            prefetch_read(flat, np.int64(edges[i]) * width)  # none is -1 before the row is cut
        scan_chunk(x, k, lists, links, rule)
    play_all(x, groups, lists.bounds, lists.marks)


@kernel
def search_hub(x, lists, links, rule):
    """Return the nearest edge of a hub, -1 if there is none, with W.

    All chunks with the bound and the tie of the winner are looked at, as it is the ids that decide between them.
    """
    ids, groups, edges, bounds, marks = lists
    values, fields, _ = links
    size = groups[:, SIZE]
    chunks, base = groups[x, CHUNKS], groups[x, START] // CHUNK
    nearest, who = np.int64(-1), np.int64(-1)
    while nearest < 0:
        k = np.int64(marks[base + 1, WINNER]) if chunks > 1 else np.int64(0)
        bound, tie = bounds[base + k, 0], marks[base + k, TIE]
        if bound == np.inf:
            break
        node = np.int64(1)
        while node > 0:
            k = node - chunks if node >= chunks else np.int64(marks[base + node, WINNER])
            if bounds[base + k, 0] == bound and marks[base + k, TIE] == tie:
                if node < chunks:
                    node *= 2
                    continue
                place = marks[base + k, PLACE]
                e, c = np.int64(-1), np.int64(-1)
                if place >= 0:
                    e = np.int64(edges[(base + k) * CHUNK + place])
                if e >= 0:
                    c = other_end(fields, e, x)
                if c < 0 or look(x, values, fields, e, groups, rule) != bound or fields[e, -1] != tie:
                    c = np.int64(-1)
                    if scan_chunk(x, k, lists, links, rule):
                        play_again(x, k, groups, bounds, marks)
                    else:
                        place = marks[base + k, PLACE]
                        e = np.int64(edges[(base + k) * CHUNK + (place if place >= 0 else ~place)])
                        c = other_end(fields, e, x)
                if c >= 0 and (nearest < 0 or breaks_tie(ids, size, x, c, who)):
                    nearest, who = e, c
            while node & 1:
                node >>= 1
            if node > 0:
                node += 1
    return nearest, weigh(values, fields, nearest, groups, rule) if nearest >= 0 else np.inf


@kernel
def update_row(x, before, lists, links, rule):
    """Find the bounds of the chunks that a hub has got since its row had `before` edges."""
    _, groups, _, bounds, marks = lists
    chunks = groups[x, CHUNKS]
    if rule.code == HALF_FILLED and groups[x, GROWN] - groups[x, SCALED] > RESCALED:
        groups[x, SCALED] += RESCALED
        base = groups[x, START] // CHUNK
        bounds[base : base + chunks, 0] *= 2.0**-RESCALED
        play_all(x, groups, bounds, marks)
    lo, hi = before // CHUNK, (groups[x, LENGTH] + CHUNK - 1) // CHUNK
    few = 8 * (hi - lo) < chunks
    for k in range(lo, hi):
        if scan_chunk(x, k, lists, links, rule) and few:
            play_again(x, k, groups, bounds, marks)
    if not few:
        play_all(x, groups, bounds, marks)
