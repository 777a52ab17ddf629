"""Single linkage: the minimum spanning forest by Boruvka's rounds, and the merges that its edges give.

Edges are ordered by `(weight, hash64 of the two nodes, nodes)`, so the forest is unique. In each round every
component selects its lightest edge. Rows always belong to nodes, and only lose edges whose two ends are in the
same component by now, so an edge is identified by its nodes throughout.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.order import hash64
from dask_rac.kernels.union import find_root


@inlined
def lighter(w, u, v, other_w, other_u, other_v):
    """Whether edge `u, v` comes before `other_u, other_v`."""
    if w != other_w:
        return w < other_w
    mine, other = hash64(u, v), hash64(other_u, other_v)
    if mine != other:
        return mine < other
    return (min(u, v), max(u, v)) < (min(other_u, other_v), max(other_u, other_v))


@kernel
def lightest(rows, component, rule, kept, best, span):
    """Copy the edges of rows `[lo, hi)` to other components to `kept`, and point `best` at each row's lightest.

    Row `i` is node `base + i`. `kept` may be `rows` itself. Returns the number of edges kept.
    """
    start, stop, neighbour, weight, _, _ = rows
    _, kept_stop, kept_neighbour, kept_weight, _, _ = kept
    lo, hi, base = span
    total = 0
    for i in range(lo, hi):
        u = base + i
        at, lightest_at = start[i], -1
        for e in range(start[i], stop[i]):
            v, w = neighbour[e], rule.scale * weight[e]
            if component[v] != component[u] and w <= rule.ceiling:
                kept_neighbour[at], kept_weight[at] = v, w
                if lightest_at < 0 or lighter(w, u, v, kept_weight[lightest_at], u, kept_neighbour[lightest_at]):
                    lightest_at = at
                at += 1
        kept_stop[i], best[i] = at, lightest_at
        total += at - start[i]
    return total


@kernel
def champions(rows, component, best, champion, base):
    """Point `champion` of each component at the row with its lightest edge, -1 if there is none.

    Row `i` is node `base + i`. Returns the number of champions.
    """
    _, _, neighbour, weight, _, _ = rows
    champion[:] = -1
    found = 0
    for i in range(len(best)):
        if best[i] >= 0:
            c = component[base + i]
            other = champion[c]
            found += other < 0
            if other < 0 or lighter(
                weight[best[i]],
                base + i,
                neighbour[best[i]],
                weight[best[other]],
                base + other,
                neighbour[best[other]],
            ):
                champion[c] = i
    return found


@kernel
def list_champions(rows, best, champion, base, candidates):
    """Write the component and the edge of each champion."""
    _, _, neighbour, weight, _, _ = rows
    component, source, target, height = candidates
    found = 0
    for c in range(len(champion)):
        i = champion[c]
        if i >= 0:
            component[found], source[found], target[found] = c, base + i, neighbour[best[i]]
            height[found] = weight[best[i]]
            found += 1


@kernel
def challenge(candidates, held):
    """Replace the edge that a component holds by a lighter candidate; a source of -1 means that it holds none."""
    component, source, target, weight = candidates
    held_source, held_target, held_weight = held
    for k in range(len(component)):
        c = component[k]
        if held_source[c] < 0 or lighter(
            weight[k], source[k], target[k], held_weight[c], held_source[c], held_target[c]
        ):
            held_source[c], held_target[c], held_weight[c] = source[k], target[k], weight[k]


@kernel
def hook(held, component, tree):
    """Write each held edge once to `tree`, and unite the components; return the numbers of edges and components."""
    held_source, held_target, held_weight = held
    source, target, height = tree
    components, found = len(held_source), 0
    parent = np.arange(components)
    for c in range(components):
        if held_source[c] < 0:
            continue
        d = component[held_target[c]]
        parent[c] = d
        if d < c and component[held_target[d]] == c:
            continue  # as edges are totally ordered, both hold the same edge; the other is the root
        source[found], target[found], height[found] = held_source[c], held_target[c], held_weight[c]
        found += 1
    for c in range(components):
        d = parent[c]
        if c < d and parent[d] == c:
            parent[c] = c
    label = np.full(components, -1, component.dtype)
    labels = 0
    for c in range(components):
        root = find_root(parent, c)
        if label[root] < 0:
            label[root] = labels
            labels += 1
        label[c] = label[root]
    for u in range(len(component)):
        component[u] = label[component[u]]
    return found, labels


@kernel
def tree_hashes(source, target, hashes):
    """Write the hash that orders tree edges of equal weight."""
    for e in range(len(source)):
        hashes[e] = hash64(source[e], target[e])


@kernel
def unite(order, tree, forest, merges):
    """Write the merges that the edges of a tree give, taken in `order`, lightest first; return their number.

    `forest` holds the parent and the size of each node as lighter edges left them; at first itself and 1. Edges that
    close a cycle are left out, which only the edges of two forests do; `order` ends up with those that are taken.
    """
    source, target, weight = tree
    parent, size = forest
    left, right, height, merged_size = merges
    found = 0
    for k in range(len(order)):
        e = order[k]
        a, b = source[e], target[e]
        a = find_root(parent, a)
        b = find_root(parent, b)
        if a == b:
            continue
        # The smaller id becomes the root, as it is the id of the cluster.
        if b < a:
            a, b = b, a
        parent[b] = a
        size[a] += size[b]
        left[found], right[found], height[found], merged_size[found] = a, b, weight[e], size[a]
        order[found] = e
        found += 1
    return found
