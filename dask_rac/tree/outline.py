"""A tree of any size as a few thousand branches that one can walk from the root downwards.

1. Some merges are kept as splits: those whose smaller part has most nodes, since they divide a cluster into two worth
   looking at. For the same reason the largest trees of a forest are kept.
2. A branch is a cluster whose merge with another is a split, or the root of a tree that is kept. Below its top it loses
   single nodes and small groups, which are not kept, until it splits in two or the tree is cut off.
3. Let the smaller part of every split have at least `s` nodes, and that of every other merge at most `s`. A part of `s`
   nodes contains no merge whose smaller part has more than `s / 2`, so nothing kept is ever inside a group that was
   lost: the branches form a tree. And a cluster inside a branch is on its way from top to split exactly if it is as
   large as the cluster that splits.
4. Branches are in preorder, the larger of two first: those inside a branch follow it directly. Branch 0 is the root; if
   there are several trees, it stands for all of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dask_rac.kernels.tree.branches import inherit
from dask_rac.tree.lifetimes import Lifetimes

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Outline:
    """Branches in preorder."""

    parent: Numbers
    """The branch around each; -1 for branch 0."""
    node: Numbers
    """Its smallest node; -1 if branch 0 stands for several trees."""
    size: Numbers
    """The number of its nodes."""
    top: Numbers
    """The index of its cluster in `Lifetimes`; -1 for a single node, and if branch 0 stands for several trees."""
    split: Numbers
    """The index of the cluster that splits into its two branches; -1 if there are none."""
    trees: int
    """Trees that are kept, single nodes included."""
    owner: NDArray[np.signedinteger]
    """The branch of each cluster of `Lifetimes`: the innermost that contains it; 0 in trees that are not kept."""

    def __len__(self) -> int:
        return len(self.parent)

    def homes(self, lives: Lifetimes, nodes: Numbers) -> Numbers:
        """Return the innermost branch that contains each of some nodes."""
        first = lives.first[nodes]
        merged = first < len(lives)
        homes = np.zeros(len(nodes), np.int64)
        homes[merged] = self.owner[first[merged]]
        single = np.flatnonzero((self.top < 0) & (self.node >= 0))
        single = single[np.argsort(self.node[single])]
        if len(single):
            place = np.minimum(np.searchsorted(self.node[single], nodes), len(single) - 1)
            homes = np.where(self.node[single][place] == nodes, single[place], homes)
        return homes

    def contains_all(self, lives: Lifetimes, clusters: Numbers) -> NDArray[np.bool_]:
        """Whether each cluster contains all branches inside the branch that owns it, and what is left when it ends."""
        owner = self.owner[clusters]
        split = self.split[owner]
        on_the_way = lives.size[clusters] >= lives.size[np.maximum(split, 0)]
        inside = np.where(split >= 0, on_the_way, clusters == self.top[owner])
        whole: NDArray[np.bool_] = inside & (self.top[owner] >= 0)
        return whole


def outline_of(lives: Lifetimes, most: int) -> Outline:
    """Return the tree with at most `most` splits and trees kept."""
    merges = len(lives)
    roots = np.flatnonzero(lives.end == merges)
    splits, kept = _important(lives, roots, most)
    is_split = np.zeros(merges + 1, np.bool_)
    is_split[splits] = True
    begins = is_split[lives.end]
    begins[kept] = True
    tops = np.flatnonzero(begins)
    owner = np.full(merges, -1, lives.end.dtype)
    owner[tops] = np.arange(len(tops))
    inherit(lives.end, owner)
    single, inside = _single_branches(lives, splits, tops)
    alone = _single_trees(lives, roots, most - len(splits) - len(kept))
    return _in_preorder(lives, (tops, splits), (single, owner[inside]), alone, owner)


def _important(lives: Lifetimes, roots: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """Return the merges kept as splits, and the roots of the trees of two nodes or more that are kept."""
    weight = np.concatenate((lives.small, lives.size[roots]))
    merges = len(lives)
    if len(weight) <= most:
        return np.arange(merges), roots
    least = np.partition(weight, -most)[-most]
    surely = np.flatnonzero(weight > least)
    tied = np.flatnonzero(weight == least)[-(most - len(surely)) :]
    kept = np.concatenate((surely, tied))
    return np.sort(kept[kept < merges]), roots[kept[kept >= merges] - merges]


def _single_branches(lives: Lifetimes, splits: Numbers, tops: Numbers) -> tuple[Numbers, Numbers]:
    """Return the single nodes that are a part of a split, and that split."""
    both = np.stack((lives.node[splits], lives.other[splits]))
    inner = tops[lives.end[tops] < len(lives)]
    place = np.searchsorted(splits, lives.end[inner])
    single = np.ones((2, len(splits)), np.bool_)
    single[(lives.node[inner] != both[0][place]).astype(np.int64), place] = False
    side, at = np.nonzero(single)
    return both[side, at].astype(np.int64), splits[at]


def _single_trees(lives: Lifetimes, roots: Numbers, most: int) -> Numbers:
    """Return the nodes that have not merged, if there are at most so many."""
    count = lives.n_nodes - int(lives.size[roots].sum(dtype=np.int64))
    return np.flatnonzero(lives.first == len(lives)) if 0 < count <= most else np.empty(0, np.int64)


def _in_preorder(
    lives: Lifetimes,
    clusters: tuple[Numbers, Numbers],
    single: tuple[Numbers, NDArray[np.signedinteger]],
    alone: Numbers,
    owner: NDArray[np.signedinteger],
) -> Outline:
    """Return the tree of some tops and splits, of single nodes inside branches, and of trees of a single node."""
    tops, splits = clusters
    several = lives.n_nodes - len(lives) > 1
    root = np.full(int(several), -1)
    leaves = np.concatenate((single[0], alone, root))
    outer = lives.end[tops]
    over = np.full(len(tops), -1)
    over[outer < len(lives)] = owner[outer[outer < len(lives)]]
    forest = len(tops) + len(leaves) - 1 if several else -1
    parent = np.concatenate((np.where(over < 0, forest, over), single[1], np.full(len(alone), forest), root))
    size = np.concatenate((lives.size[tops], np.ones(len(single[0]) + len(alone), np.int64), lives.n_nodes + root + 1))
    node = np.concatenate((lives.node[tops], leaves)).astype(np.int64)
    order = _preorder(parent, size, node)
    new = np.empty(len(order) + 1, np.int64)
    new[order] = np.arange(len(order))
    split = np.full(len(order), -1)
    split[new[owner[splits]]] = splits
    new[-1] = 0
    around = parent[order]
    return Outline(
        np.where(around < 0, -1, new[around]),
        node[order],
        size[order].astype(np.int64),
        np.concatenate((tops, np.full(len(leaves), -1)))[order],
        split,
        int(np.count_nonzero(around == forest)) if several else 1,
        new.astype(owner.dtype)[owner],
    )


def _preorder(parent: Numbers, size: Numbers, node: Numbers) -> Numbers:
    """Return the branches from the root on, each followed by those inside it, larger ones first."""
    by_size = np.lexsort((node, -size))
    inside: dict[int, list[int]] = {}
    for branch, outer in zip(by_size.tolist(), parent[by_size].tolist(), strict=True):
        inside.setdefault(outer, []).append(branch)
    order, waiting = [], inside[-1][::-1]
    while waiting:
        branch = waiting.pop()
        order.append(branch)
        waiting += reversed(inside.get(branch, ()))
    return np.array(order, np.int64)
