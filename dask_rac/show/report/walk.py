"""The tree that one can walk: the branches that a page holds, their examples, and the nodes that can be searched for.

A page cannot hold ten million nodes. It holds the `SPLITS` splits that matter most, and of every branch a few examples.
If there are at most `SEARCHABLE` nodes and their names are not too long, all of them are listed, in the order of the
tree: the nodes of a branch are then a range of the list, so a name costs no more than its text. Otherwise only the
examples can be searched for, and the page says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.files.node_names import NodeNames
from dask_rac.show.pictures.theme import CLUSTER_COLOURS
from dask_rac.show.report.words import distinct_texts, escaped
from dask_rac.tree.central import central_nodes
from dask_rac.tree.lifetimes import Lifetimes
from dask_rac.tree.outline import Outline, outline_of

SPLITS = 2_000
"""The most splits and trees that a page holds."""
EXAMPLES = 3
"""Members that are shown of a cluster."""
SEARCHABLE = 200_000
"""With more nodes, a page lists only examples."""
NAME_BYTES = 6_000_000
"""With longer names, too."""
LONGEST = 60
"""Characters of a name that a page shows."""

Nodes = NDArray[np.int64]


@dataclass(frozen=True)
class ShownCluster:
    """What a page knows of a cluster in its tables."""

    examples: tuple[str, ...]
    """Its most central members."""
    branch: int
    """The innermost branch that contains it."""
    whole: bool
    """Whether all branches inside that branch are inside the cluster, so that they have its colour."""


@dataclass(frozen=True)
class WalkableTree:
    """The tree of a page."""

    data: Mapping[str, Any]
    """For the script."""
    clusters: Mapping[int, ShownCluster]
    """By index in `Lifetimes`."""


@dataclass(frozen=True)
class _Listed:
    """The nodes that a page holds."""

    nodes: Nodes
    texts: list[str]
    """What each is called: its name, or its number."""
    whole: bool
    """Whether these are all nodes, in the order of the tree."""

    def places(self, nodes: Nodes) -> Nodes:
        """Return where each of some nodes is in the list; -1 for -1."""
        order = np.argsort(self.nodes)
        return np.where(
            nodes < 0, -1, order[np.searchsorted(self.nodes, np.maximum(nodes, 0), sorter=order) % len(order)]
        )


def walkable_tree(lives: Lifetimes, clusters: Nodes, names: NodeNames | None) -> WalkableTree:
    """Return the tree that a page shows, and what it shows of some clusters, given by their index."""
    tree = outline_of(lives, SPLITS)
    inner = tree.top >= 0
    core = central_nodes(lives, np.concatenate((tree.top[inner], clusters)), EXAMPLES)
    examples = np.full((len(tree), EXAMPLES), -1)
    examples[:, 0] = tree.node
    examples[inner] = core[: np.count_nonzero(inner)]
    listed = _listed(lives, tree, np.union1d(examples, core), names)
    places = listed.places(examples).tolist()
    data = _branches(lives, tree) | {
        "examples": [[place for place in row if place >= 0] for row in places],
        "texts": listed.texts,
        "named": names is not None,
        "whole": listed.whole,
        "home": None if listed.whole else tree.homes(lives, listed.nodes).tolist(),
        "colours": CLUSTER_COLOURS,
    }
    return WalkableTree(data, _shown_clusters(lives, tree, clusters, listed, core[np.count_nonzero(inner) :]))


def _branches(lives: Lifetimes, tree: Outline) -> dict[str, Any]:
    """Return the branches as columns."""
    columns = [
        np.where(at < 0, np.nan, lives.sign * lives.distance[np.maximum(at, 0)] + 0.0).tolist()
        for at in (tree.top, tree.split)
    ]
    texts = distinct_texts(height for column in columns for height in column if height == height)  # noqa: PLR0124 - NaN
    formed, splits = ([texts.get(height, "") for height in column] for column in columns)
    return {
        "nodes": lives.n_nodes,
        "trees": lives.n_nodes - len(lives),
        "parent": tree.parent.tolist(),
        "size": tree.size.tolist(),
        "top": tree.top.tolist(),
        "split": tree.split.tolist(),
        "formed": formed,
        "splits": splits,
        "similarity": lives.sign < 0,
    }


def _listed(lives: Lifetimes, tree: Outline, needed: Nodes, names: NodeNames | None) -> _Listed:
    """Return all nodes if a page can hold them, otherwise those that it needs."""
    if lives.n_nodes <= SEARCHABLE:
        nodes = np.argsort(tree.homes(lives, np.arange(lives.n_nodes)), kind="stable")
        texts = _texts(nodes, names)
        if names is None or _bytes(texts) <= NAME_BYTES:
            return _Listed(nodes, texts, True)
    needed = needed[needed >= 0]
    texts = _texts(needed, names)
    if _bytes(texts) > NAME_BYTES:
        longest = max(8, NAME_BYTES // (6 * len(texts)))
        texts = [shortened(text, longest) for text in texts]
    return _Listed(needed, texts, False)


def _bytes(texts: list[str]) -> int:
    """Return how much room texts take in a page, where each of some characters is written as up to six."""
    together = "".join(texts)
    long = sum(together.count(character) for character in "<>&")
    return len(together.encode()) + 5 * long + together.count('"') + together.count("\\") + 3 * len(texts)


def _texts(nodes: Nodes, names: NodeNames | None) -> list[str]:
    """Return what nodes are called, at most `SEARCHABLE` of them."""
    if names is None:
        return list(map(str, nodes.tolist()))
    return [shortened(escaped(name)) for name in names.texts(nodes)]


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return a text of at most `longest` characters."""
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _shown_clusters(
    lives: Lifetimes, tree: Outline, clusters: Nodes, listed: _Listed, core: Nodes
) -> dict[int, ShownCluster]:
    """Return what a page knows of some clusters."""
    owner, whole = tree.owner[clusters].tolist(), tree.contains_all(lives, clusters).tolist()
    places = listed.places(core).tolist()
    found = {}
    for cluster, row, branch, all_of_it in zip(clusters.tolist(), places, owner, whole, strict=True):
        examples = tuple(listed.texts[place] for place in row if place >= 0)
        found[cluster] = ShownCluster(examples, branch, all_of_it)
    return found
