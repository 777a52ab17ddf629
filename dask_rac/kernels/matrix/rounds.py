"""All rounds that are left, in one thread: where clusters are few, handing work to threads costs more than the work."""

import numpy as np

from dask_rac.kernels.jit import kernel
from dask_rac.kernels.matrix.arrays import Best, Groups, Match, State, Triangle
from dask_rac.kernels.matrix.fold import fold_ending, fold_rows
from dask_rac.kernels.matrix.match import end_pairs, live_slots, match, unite
from dask_rac.kernels.matrix.search import renew_rows, search_rows, take_scans, take_searches, wanted_slots
from dask_rac.kernels.matrix.ties import list_members

LEAST_SHARE = 0.75  # of the slots at which rows are closed up: with fewer alive, all rows are scanned in any case


@kernel
def is_dense(searches, live, slots, shares):
    """Whether to scan all rows: where many clusters are searched for, or many slots are dead."""
    dense_share, shrink_share = shares
    return searches > dense_share * live or live < LEAST_SHARE * shrink_share * slots


@kernel
def new_best(slots):
    """Return bests that are not found yet."""
    return Best(np.full(slots, np.inf), np.full(slots, -1), np.full(slots, -1))


@kernel
def part_of(found, slots):
    """Return the same match with room for fewer slots."""
    return Match(found.lower[:slots], found.upper[:slots], found.partner[:slots], found.search[:slots], found.after)


@kernel
def kept_groups(groups, live):
    """Return the groups of live slots."""
    ids, size, within, inner, nearest, height, head, tail = groups
    return Groups(ids[live], size[live], within[live], inner[live], nearest[live], height[live], head[live], tail[live])


@kernel
def search_alone(state, search):
    """Find the nearest of some slots; return which others are disturbed."""
    groups = state.groups
    wanted, best = wanted_slots(search, len(groups.ids)), new_best(len(search))
    search_rows(state, list_members(state), wanted, best, (0, len(groups.ids)))
    take_searches(groups, wanted, best)
    return wanted.disturbed


@kernel
def merge_alone(state, ceiling, shares, merges, rounds):
    """Merge until no pair is left below the ceiling; return the numbers of merges and rounds.

    `shares` are those of `engines.contract.Limits`: of clusters to search for above which all are scanned, of slots
    that live below which rows are closed up. `rounds` gets a line for each round: clusters before it, merges, and
    clusters whose nearest had to be found again.
    """
    code, triangle, groups, found = state
    done = count = live = 0
    for s in range(len(groups.ids)):
        live += triangle.start[s] >= 0
    while True:
        slots = len(groups.ids)
        found = part_of(found, slots)
        pairs, searches = match(triangle, groups, found, ceiling)
        if not pairs:
            return done, count
        rounds[count, 0], rounds[count, 1], rounds[count, 2] = live, pairs, searches - pairs
        count += 1
        unite(
            code,
            triangle,
            groups,
            found,
            pairs,
            (merges[0][done:], merges[1][done:], merges[2][done:], merges[3][done:]),
        )
        done += pairs
        live -= pairs
        rows = live_slots(triangle, found)
        fold_ending(code, triangle, found, pairs, (0, pairs))
        if is_dense(searches, live, slots, shares):
            shrinks = live < shares[1] * slots
            old = groups
            groups = kept_groups(groups, rows) if shrinks else groups
            best = new_best(len(groups.ids))
            renew_rows(State(code, triangle, old, found), rows, pairs, groups, best, (0, len(rows)))
            triangle = Triangle(triangle.entry, triangle.start[rows]) if shrinks else triangle
            if not shrinks:
                end_pairs(triangle, groups, found, pairs)
            found = part_of(found, len(groups.ids))
            ties = take_scans(groups, best, found.search)
            if ties:
                found.partner[:] = -1
                search_alone(State(code, triangle, groups, found), found.search[:ties])
        else:
            fold_rows(code, triangle, rows, found, pairs, (0, len(rows)))
            end_pairs(triangle, groups, found, pairs)
            for at in range(searches):
                groups.height[found.search[at]] = -np.inf
            state = State(code, triangle, groups, found)
            again = np.flatnonzero(search_alone(state, found.search[:searches]))
            if len(again):
                found.partner[:] = -1
                search_alone(state, again)
