"""Good merges: HAC in which every merge is within a factor 1 + epsilon of the best that either cluster could do.

A merge of u and v is good if its height, W raised to the merges below u and v, is within 1 + epsilon of the smallest W
that u or v has with anybody. Any sequence of good merges is HAC within 1 + epsilon. So no heap of edges is needed, and
no edge must be found from its other end.

1. `key` is a lower bound of the smallest W of a cluster. By reducibility it stays one whatever merges.
2. Clusters are taken by level: their key, rounded to a power of about 1 + epsilon / 2. A cluster that is taken is
   scanned, which folds its row and makes its key exact. Then it merges with all with whom that is good, and returns in
   a later level: so no row is scanned more than once per level, and there are some hundred levels.
3. The row of a cluster is a chain of rows: its own, then those of the clusters that joined it. Scanned, they are folded
   into one in place. A cluster joins another one with a far longer row by a link: a hub is not scanned for each leaf.
4. Entries name clusters as they once were; `seats` leads to what became of them.
5. Out of core, entries also name clusters whose rows are elsewhere: they have numbers beyond those of the rows. They
   count for the best that a cluster could do, and nobody merges with them. Whatever becomes of them meanwhile, by
   reducibility nobody gets nearer than they were.

The order in which sums are added depends on the order of merges, hence on the data alone.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel, prefetch_read
from dask_rac.kernels.rule import (
    MAX_FILLED,
    MAX_FULL,
    MAX_PRESENT,
    MEAN_ALL,
    MEAN_FILLED,
    MEAN_PRESENT,
    is_mean,
    linkage_weight,
)

ROOT, SIZE, STAMP, SLOT, FIELDS = 0, 1, 2, 3, 4  # of a seat; side by side, because an entry needs all of them
LONGER = 4  # a cluster with so many times the entries of another one is joined, not taken in
AHEAD = 12  # entries between a prefetch and its use
SLACK = 2.0**-50  # by which a mean of bounds is lowered, so that rounding does not make it a false bound
SAME = 2.0**-40  # by which two sums of the same numbers may differ
FINEST, COARSEST = 0.005, 0.25  # steps between levels


@inlined
def root_of(seats, u):
    """Return the cluster that a cluster has become."""
    while seats[FIELDS * u] != u:
        above = seats[FIELDS * u]
        seats[FIELDS * u] = seats[FIELDS * above]
        u = above
    return u


@inlined
def ratio_of(near, height, similar):
    """Return by which factor a height is worse than the nearest that its two clusters have."""
    more, less = (-near, -height) if similar else (height, near)
    if less <= 0:  # 0, and similarities below, have no factor: only the nearest will do
        return 1.0 if more <= less * (1 - SAME) else np.inf
    return 1.0 if more <= less else more / less


@inlined
def bound_of_union(code, a, b, sizes):
    """Return a lower bound of the W of a union, given those of its parts `a` and `b`."""
    if code in (MEAN_PRESENT, MAX_PRESENT):
        return min(a, b)
    if code in (MAX_FILLED, MAX_FULL):
        return max(a, b)
    if a == np.inf or b == np.inf:
        return np.inf
    mean = (sizes[0] * a + sizes[1] * b) / (sizes[0] + sizes[1])
    return mean - SLACK * abs(mean)


@inlined
def level_of(key, steps):
    """Return the level of a key: a smaller one for what is nearer."""
    sign, first, per, last = steps
    if sign * key <= 0 or key == 0:
        return np.int64(0) if sign > 0 else last
    return min(last, max(np.int64(0), np.int64(sign * (np.log(abs(key)) - first) * per)))


@inlined
def in_reach(u, v, w, state, terms):
    """Whether u, whose smallest W will not change, can ever merge with v, at the distance w.

    Not if the row of v is elsewhere, if u can do better than w or than what is below v, or if v can and is stuck.
    """
    key, top, stuck = state
    epsilon, similar, _ = terms
    if v < 0 or v >= len(key):
        return False
    raised = max(top[u], top[v], w)
    if ratio_of(key[u], raised, similar) > 1 + epsilon:
        return False
    return not stuck[v] or ratio_of(key[v], raised, similar) <= 1 + epsilon


@kernel
def plan_levels(rows, nodes, rule, epsilon, similar):
    """Return the sign of keys, the logarithm at which levels begin, how many there are per e, and the last one."""
    start, stop, _, weight, count, _ = rows
    least, most = np.inf, abs(rule.fill)
    for u in range(len(start)):
        for e in range(start[u], stop[u]):
            mean = abs(weight[e]) / count[e] if is_mean(rule.code) and len(count) > 0 else abs(weight[e])
            if mean > 0:
                least, most = min(least, mean), max(most, mean)
    least, most = min(least, most), max(most, 2.0**-1000)
    if similar and is_mean(rule.code) and rule.code != MEAN_PRESENT:
        least /= np.float64(nodes) * nodes
    least = max(least, 2.0**-1000)
    if rule.code == MEAN_ALL and not similar:
        least /= np.float64(nodes) * nodes
    per = 1 / np.log1p(min(COARSEST, max(FINEST, epsilon / 2)))
    sign, first = (-1.0, np.log(most)) if similar else (1.0, np.log(least))
    return sign, first, per, np.int64((np.log(most) - np.log(least)) * per) + 2


@kernel
def fold_chain(rows, chain, table, code, place):
    """Add the entries of a chain of rows to the table of a cluster; return the number of entries in the table.

    `place` is the first row of the chain, the cluster, the stamp of its table, and the entries that this has.
    """
    start, _, neighbour, weight, count, _ = rows
    following, _, used, _, seats = chain
    who, sums, edges, size = table
    link, u, stamp, taken = place
    counts, means = len(count) > 0, is_mean(code)
    while link >= 0:
        end = used[link]
        for e in range(start[link], end):
            if e + AHEAD < end:
                prefetch_read(seats, FIELDS * np.int64(neighbour[e + AHEAD]))
            v = root_of(seats, np.int64(neighbour[e]))
            if v == u:
                continue
            if seats[FIELDS * v + STAMP] != stamp:
                seats[FIELDS * v + STAMP], seats[FIELDS * v + SLOT] = stamp, taken
                who[taken], sums[taken], size[taken] = v, weight[e], seats[FIELDS * v + SIZE]
                if counts:
                    edges[taken] = count[e]
                taken += 1
                continue
            at = seats[FIELDS * v + SLOT]
            if means:
                sums[at] += weight[e]
            else:
                sums[at] = max(sums[at], weight[e])
            if counts:
                edges[at] += count[e]
        link = following[link]
    return taken


@kernel
def weigh(table, rule, own, taken, w):
    """Write the W of the first entries of a table to `w`; return the nearest entry, its W, and the next smallest W."""
    cluster, sums, edges, size = table
    who, best, second = -1, np.inf, np.inf
    for k in range(taken):
        if cluster[k] < 0:
            continue
        w[k] = linkage_weight(rule, sums[k], edges[k] if len(edges) > 0 else 1, own * size[k])
        if w[k] < second:
            if w[k] < best:
                who, best, second = k, w[k], best
            else:
                second = w[k]
    return who, best, second


@kernel
def store_chain(u, rows, chain, table, taken):
    """Write the table of cluster `u` over the rows of its chain, but entries of clusters that it has taken in."""
    start, stop, neighbour, weight, count, _ = rows
    following, last, used, length, _ = chain
    who, sums, edges, _ = table
    link, at, wrote = u, start[u], 0
    for k in range(taken):
        if who[k] < 0:
            continue
        while at == stop[link]:
            used[link] = at
            link = following[link]
            at = start[link]
        neighbour[at], weight[at] = who[k], sums[k]
        if len(count) > 0:
            count[at] = edges[k]
        at += 1
        wrote += 1
    used[link], following[link], last[u], length[u] = at, -1, link, wrote


@kernel
def begin_chains(rows, size):
    """Return the chains of all rows before any merge, and the seats of all clusters, with rows or without."""
    start, stop, neighbour, _, _, _ = rows
    n = len(start)
    following, last = np.full(n, -1, neighbour.dtype), np.arange(n).astype(neighbour.dtype)
    seats = np.empty(FIELDS * len(size), neighbour.dtype)
    for i in range(len(size)):
        seats[FIELDS * i + ROOT], seats[FIELDS * i + SIZE], seats[FIELDS * i + STAMP] = i, size[i], -1
    return following, last, stop.copy(), stop - start, seats


@kernel
def close_chains(rows, chain, code, became, size):
    """Fold the rows of all clusters that are left, each where it is; return how many there are.

    `became` gets the row that each cluster is in, numbered without gaps, and `size` the size of those that are left.
    """
    _, _, _, _, count, _ = rows
    _, _, _, length, seats = chain
    n, everybody = len(became), len(seats) // FIELDS
    who, sums = np.empty(everybody, became.dtype), np.empty(everybody)
    table = who, sums, np.empty(everybody if len(count) > 0 else 0, np.int64), np.empty(everybody)
    for i in range(everybody):
        seats[FIELDS * i + STAMP] = -1
    left = 0
    for u in range(n):
        if root_of(seats, np.int64(u)) == u:
            taken = fold_chain(rows, chain, table, code, (np.int64(u), u, u, 0))
            store_chain(np.int64(u), rows, chain, table, taken)
            size[left] = seats[FIELDS * u + SIZE]
            became[u] = left
            left += 1
    for u in range(n):
        root = root_of(seats, np.int64(u))
        if root != u:
            became[u] = became[root]
            length[u] = 0
    return left


@kernel
def gather_chains(rows, chain, column, out):
    """Copy one column of the rows of all clusters that are left, one after the other; return how many entries."""
    start, _, _, _, _, _ = rows
    following, _, used, length, _ = chain
    end = 0
    for u in range(len(length)):
        link = np.int64(u) if length[u] > 0 else np.int64(-1)
        while link >= 0:
            for e in range(start[link], used[link]):
                out[end] = column[e]
                end += 1
            link = np.int64(following[link])
    return end


@kernel
def merge_good(rows, clusters, chain, rule, terms, found):
    """Merge until no edge is left within the ceiling, or none with both its ends among the rows is good any more.

    `clusters` are ids, the sizes also of clusters without a row, the smallest W of each and the height of its last
    merge; `terms` are epsilon, whether weights are similarities, and the number of nodes; `found` gets merges, and the
    ratio of each. Rows and clusters are overwritten. Returns the number of merges.
    """
    start, _, neighbour, _, count, _ = rows
    ids, size, key, top = clusters
    following, last, used, length, seats = chain
    (left, right, height, merged_size), ratio = found
    epsilon, similar, nodes = terms
    n, everybody, factor, counted = len(start), len(size), 1 + epsilon, len(count) > 0
    steps = plan_levels(rows, nodes, rule, epsilon, similar)
    end = steps[3]
    who, sums = np.empty(everybody, ids.dtype), np.empty(everybody)
    edges, width = np.empty(everybody if counted else 0, np.int64), np.empty(everybody)
    table, w = (who, sums, edges, width), np.empty(everybody)
    turn, waiting = np.empty(everybody, ids.dtype), np.zeros(everybody, np.bool_)
    stuck = np.zeros(n, np.bool_)
    state = key, top, stuck
    head, after = np.full(end + 1, -1, ids.dtype), np.full(n, -1, ids.dtype)
    for i in range(n - 1, -1, -1):
        if key[i] <= rule.ceiling and key[i] < np.inf:
            due = level_of(key[i], steps)
            after[i], head[due] = head[due], i
    made, stamp, level, before = 0, 0, 0, -1
    parked = np.int64(-1)  # those who could not merge in the last level; tried again if others have merged since
    while True:
        while level <= end and head[level] < 0:
            level += 1
        if level > end:
            if parked < 0 or made == before:
                break
            head[end], parked, before, level = parked, np.int64(-1), made, end
        u = np.int64(head[level])
        head[level] = after[u]
        if seats[FIELDS * u] != u or key[u] > rule.ceiling or key[u] == np.inf:
            continue
        due = level_of(key[u], steps)
        if due > level:
            after[u], head[due] = head[due], u
            continue
        stamp, made_before = stamp + 1, made
        taken = fold_chain(rows, chain, table, rule.code, (u, u, stamp, 0))
        own = np.float64(seats[FIELDS * u + SIZE])
        nearest, key[u], second = weigh(table, rule, own, taken, w)
        if key[u] > rule.ceiling or key[u] == np.inf:
            continue
        # All within this of the nearest may be good; the nearest is tried first.
        within = min(rule.ceiling, max(key[u], key[u] / factor if similar else key[u] * factor))
        begin, queued = 0, 0
        if not in_reach(u, np.int64(who[nearest]), w[nearest], state, terms):
            hopes = False
            for i in range(taken):
                hopes = hopes or (w[i] <= within and in_reach(u, np.int64(who[i]), w[i], state, terms))
            stuck[u] = not hopes
            if stuck[u]:
                continue
        if who[nearest] < n:
            turn[0], waiting[nearest], queued = nearest, True, 1
        for i in range(taken):
            if w[i] <= within and i != nearest and who[i] < n:
                turn[queued % everybody], waiting[i] = i, True
                queued += 1
        joins = np.int64(-1)
        while begin < queued:
            k = np.int64(turn[begin % everybody])
            waiting[k] = False
            begin += 1
            v = np.int64(who[k])
            if v < 0:
                continue
            own, other = np.float64(seats[FIELDS * u + SIZE]), width[k]
            now = linkage_weight(rule, sums[k], edges[k] if counted else 1, own * other)
            raised = max(top[u], top[v], now)
            worse = ratio_of(min(key[u], key[v]), raised, similar)
            if now > within or worse > factor:
                continue
            left[made], right[made] = min(ids[u], ids[v]), max(ids[u], ids[v])
            height[made], merged_size[made], ratio[made] = raised, np.int64(own + other), worse
            made += 1
            # What it was nearest to is not outside any more, if that is the first to join it.
            rest = second if k == nearest else key[u]
            nearest = -1
            if rest == np.inf and rule.code in (MEAN_ALL, MEAN_FILLED, MAX_FILLED):
                rest = rule.fill
            bound = bound_of_union(rule.code, rest, key[v], (own, other))
            a, b = (v, u) if length[v] > LONGER * taken else (u, v)
            ids[a], top[a], key[a] = left[made - 1], raised, bound
            seats[FIELDS * a + SIZE], seats[FIELDS * b + ROOT] = merged_size[made - 1], a
            who[k] = -1
            if stuck[v]:
                stuck[v] = False
                if a == v:
                    after[v], head[level] = head[level], v
            if a == v:
                joins = v
                break
            taken = fold_chain(rows, chain, table, rule.code, (v, u, stamp, taken))
            own = np.float64(seats[FIELDS * u + SIZE])
            link = v
            while link >= 0:
                for e in range(start[link], used[link]):
                    x = root_of(seats, np.int64(neighbour[e]))
                    k = np.int64(seats[FIELDS * x + SLOT])
                    if x == u or x >= n or waiting[k]:
                        continue
                    if linkage_weight(rule, sums[k], edges[k] if counted else 1, own * width[k]) <= within:
                        turn[queued % everybody], waiting[k] = k, True
                        queued += 1
                link = np.int64(following[link])
            following[last[u]], last[u] = v, last[v]
        while begin < queued:
            waiting[turn[begin % everybody]] = False
            begin += 1
        store_chain(u, rows, chain, table, taken)
        if joins >= 0:
            following[last[joins]], last[joins] = u, last[u]
            length[joins] += length[u]
            continue
        if made > made_before:
            _, key[u], _ = weigh(table, rule, np.float64(seats[FIELDS * u + SIZE]), taken, w)
        if key[u] == np.inf:
            continue
        due = max(level_of(key[u], steps), level + 1)
        if due > end:
            after[u], parked = parked, u
        else:
            after[u], head[due] = head[due], u
    return made
