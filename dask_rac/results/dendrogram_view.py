"""What a plot of a dendrogram needs besides the tree: the cut whose clusters it colours, and names for its leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dask_rac.base.checks import check_whole, checked_number
from dask_rac.base.errors import InputError
from dask_rac.tree.central import central_nodes
from dask_rac.tree.cuts import check_counts
from dask_rac.tree.top import Branch

if TYPE_CHECKING:
    from dask_rac.results.views import Views
    from dask_rac.show.pictures.dendrogram import DendrogramCut


def dendrogram_cut(views: Views, height: float | None, n_clusters: int | None) -> DendrogramCut | None:
    """Return the cut whose clusters are coloured; None if there is none."""
    from dask_rac.show.pictures.dendrogram import DendrogramCut  # noqa: PLC0415 - Bokeh is an extra

    if height is not None and n_clusters is not None:
        raise InputError("plot_dendrogram() takes either height= or n_clusters=")
    if height is not None:
        at = checked_number("height", height)
        return DendrogramCut(views._settings.sign * at, text=f"at height {at:.6g}")
    if n_clusters is None:
        return None
    check_whole("n_clusters", n_clusters, 1)
    check_counts(np.array([n_clusters]), views.n_trees, views.n_nodes)
    last = views.n_nodes - n_clusters - 1
    text = f"of the cut into {n_clusters:,}"
    if last < 0:
        return DendrogramCut(-np.inf, -np.inf, text=text)
    lives = views._lives
    return DendrogramCut(float(lives.distance[last]), int(lives.size[last]), int(lives.node[last]), text)


def leaf_names(views: Views, branches: Sequence[Branch]) -> dict[int, str] | None:
    """Return a name for each leaf of some branches, by its smallest node; None if nodes have no names."""
    if views.names is None:
        return None
    leaves = [leaf for branch in branches for leaf in branch.leaves()]
    node = np.array([leaf.node for leaf in leaves], np.int64)
    size = np.array([leaf.size for leaf in leaves], np.int64)
    central, cut_off = node.copy(), size > 1
    if cut_off.any():
        clusters = views._lives.find(node[cut_off], size[cut_off])
        central[cut_off] = central_nodes(views._lives, clusters, 1)[:, 0]
    return dict(zip(node.tolist(), views.names.texts(central), strict=True))
