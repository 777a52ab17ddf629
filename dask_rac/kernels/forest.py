"""Single linkage: the minimum spanning forest by Boruvka's rounds, and the tree that its edges make.

Edges are ordered by `(weight, hash64 of the two nodes, nodes)`, so the forest is unique. Each round every
component takes its lightest edge. Rows stay those of the nodes and only lose the edges that have become
inner ones, so an edge is known by its nodes all along.
"""

import numpy as np

from dask_rac.kernels.jit import inlined, kernel
from dask_rac.kernels.order import hash64


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
    """Copy the outer edges of rows `[lo, hi)` to `kept`, and point `best` at each row's lightest.

    `kept` may be `rows` itself. Returns the number of edges kept.
    """
    start, stop, neighbour, weight, _, _ = rows
    _, kept_stop, kept_neighbour, kept_weight, _, _ = kept
    lo, hi = span
    total = 0
    for u in range(lo, hi):
        at, lightest_at = start[u], -1
        for e in range(start[u], stop[u]):
            v, w = neighbour[e], rule.scale * weight[e]
            if component[v] != component[u] and w <= rule.ceiling:
                kept_neighbour[at], kept_weight[at] = v, w
                if lightest_at < 0 or lighter(w, u, v, kept_weight[lightest_at], u, kept_neighbour[lightest_at]):
                    lightest_at = at
                at += 1
        kept_stop[u], best[u] = at, lightest_at
        total += at - start[u]
    return total


@kernel
def champions(rows, component, best, champion):
    """Point `champion` of each component at the node that has its lightest edge, -1 where there is none."""
    _, _, neighbour, weight, _, _ = rows
    champion[:] = -1
    for u in range(len(best)):
        if best[u] >= 0:
            other = champion[component[u]]
            if other < 0 or lighter(
                weight[best[u]], u, neighbour[best[u]], weight[best[other]], other, neighbour[best[other]]
            ):
                champion[component[u]] = u


@kernel
def hook(rows, component, best, champion, tree):
    """Write each component's lightest edge once to `tree`, and unite components; returns edges and components."""
    _, _, neighbour, weight, _, _ = rows
    source, target, height = tree
    components, found = len(champion), 0
    parent = np.arange(components)
    for c in range(components):
        u = champion[c]
        if u < 0:
            continue
        v = neighbour[best[u]]
        parent[c] = component[v]
        back = champion[component[v]]
        if component[v] < c and component[neighbour[best[back]]] == c:
            continue  # the other took the same edge, by their order, and is the root of both
        source[found], target[found], height[found] = u, v, weight[best[u]]
        found += 1
    for c in range(components):
        d = parent[c]
        if c < d and parent[d] == c:
            parent[c] = c
    label = np.full(components, -1, component.dtype)
    labels = 0
    for c in range(components):
        root = c
        while parent[root] != root:
            parent[root] = parent[parent[root]]
            root = parent[root]
        if label[root] < 0:
            label[root] = labels
            labels += 1
        label[c] = label[root]
    for u in range(len(component)):
        component[u] = label[component[u]]
    return found, labels


@kernel
def tree_hashes(source, target, hashes):
    """The hash by which tree edges of equal weight are ordered."""
    for e in range(len(source)):
        hashes[e] = hash64(source[e], target[e])


@kernel
def unite(order, source, target, weight, nodes, merges):
    """The merges that the edges of a forest make, taken in `order`, lightest first."""
    left, right, height, merged_size = merges
    parent = np.arange(nodes)
    size = np.ones(nodes, np.int64)
    for k in range(len(order)):
        e = order[k]
        a, b = source[e], target[e]
        while parent[a] != a:
            parent[a] = parent[parent[a]]
            a = parent[a]
        while parent[b] != b:
            parent[b] = parent[parent[b]]
            b = parent[b]
        # The smaller id is the root, as it is the cluster's id; halved paths keep this near constant.
        if b < a:
            a, b = b, a
        parent[b] = a
        size[a] += size[b]
        left[k], right[k], height[k], merged_size[k] = a, b, weight[e], size[a]
