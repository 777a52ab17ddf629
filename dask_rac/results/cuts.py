"""Flat cuts of a hierarchy: by height, by number, or by stability."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dask_rac.base.keywords import keywords_only
from dask_rac.files.labels import check_labels, write_labels
from dask_rac.files.node_names import NodeNames
from dask_rac.files.output import refuse_taken
from dask_rac.results.cut_request import CutRequest
from dask_rac.results.views import Views
from dask_rac.tree.cuts import CutForest, CutRule
from dask_rac.tree.giant import warn_of_giants

Labels = NDArray[np.int64]


class Cuts(Views):
    """Flat cuts that every hierarchy has, whether its merges are in memory or in a store."""

    names: NodeNames | None = None

    @cached_property
    def _forest(self) -> CutForest:
        """The merges in the form that flat cuts need."""
        return CutForest(self.n_nodes, self._parts(), self._settings.sign)

    @keywords_only("height", "n_clusters")
    def cut(  # noqa: PLR0913 - what users may ask for, by name
        self,
        *,
        height: ArrayLike | None = None,
        n_clusters: ArrayLike | None = None,
        min_size: int | None = None,
        max_size: int | None = None,
        method: str | None = None,
        min_cluster_size: ArrayLike | None = None,
        cluster_selection_epsilon: float | None = None,
        allow_single_cluster: bool | None = None,
        max_cluster_size: int | None = None,
        store: str | PathLike[str] | None = None,
        names: bool = True,
    ) -> Any:
        """Cut the hierarchy into flat clusters: at a height, by their number, or by their stability.

        Parameters
        ----------
        height : float or list of float, optional
            The height of the cut. Merges at or below it are applied, as in scipy; for similarities, those at or above
            it. Averages are rounded: the mean of equal weights may exceed them by the last bit.
        n_clusters : int or list of int, optional
            The number of clusters. With `min_size`, the number of those that have at least that many nodes: of all cuts
            with this number, the one with the fewest clusters in all.
        min_size : int, optional
            The number of nodes below which a cluster is none: its nodes get the label -1. By default every node is in a
            cluster.
        max_size : int, optional
            The number of nodes above which a cluster is split where it was merged last, and its parts again, until none
            is larger. In other words, the tree is cut as if it had no merge that makes a larger cluster; `n_clusters`
            counts what is left.
        method : {"eom", "leaf"}, optional
            Choose clusters at different heights by their stability, as HDBSCAN does. The tree is condensed: going down
            from the top, parts of fewer than `min_cluster_size` nodes drop out, and only where two larger parts meet a
            cluster splits. "eom" (excess of mass) chooses the clusters that last longest, weighted by their nodes;
            "leaf" those that do not split. Nodes in none of them get the label -1. For single linkage, closeness is
            that of HDBSCAN, 1 / height, or the height of a similarity; for the others, whose heights are means, the
            logarithm of it, or of how far a height is below `missing` if that is a distance.
        min_cluster_size : int or list of int, optional
            For `method`, the number of nodes of a cluster, 2 or more. By default 5.
        cluster_selection_epsilon : float, optional
            For `method`, a height: clusters that split at or below it (for similarities, at or above it) are not split.
            By default 0, for no such height.
        allow_single_cluster : bool, optional
            For `method`, whether a tree that is alone may be the only cluster, with all its nodes. By default not.
        max_cluster_size : int, optional
            For `method="eom"`, the number of nodes above which a cluster is not chosen. A cluster that is larger and
            does not split has no label.
        store : path or URL, optional
            Where to write the labels, one cut at a time. Existing files are never overwritten. The format follows from
            the name. `labels.parquet`: columns `node` and `label`; for a list, a folder with one such file per cut,
            `height=0.5/`, which Parquet readers take as a third column. `labels.zarr`: an array, one row per cut.
            `labels.csv`, `labels.csv.gz`: columns `node` and `label`; for a list, one file with columns `node`,
            `height=0.5`, `height=0.6` and so on, for which the labels of all cuts are held in memory at once. If nodes
            have names, Parquet and CSV have a column `name` after `node`.
        names : bool
            Whether to return the labels with the names of the nodes, if they have any.

        Returns
        -------
        numpy.ndarray, pandas.Series, pandas.DataFrame or str
            The cluster of each node, int64, numbered 0, 1, 2, ... in the order of their smallest nodes; -1 for nodes in
            no cluster. For a list, one row per cut. If nodes have names, a Series with the names as its index; for a
            list, a DataFrame with one column per cut, such as `height=0.5`. With `store=`, the path of the labels.

        Warns
        -----
        UserWarning
            If one of several clusters holds more than 90% of the nodes. The message names settings that may help.
        """
        request = CutRequest(
            height,
            n_clusters,
            min_size,
            max_size,
            method,
            min_cluster_size,
            cluster_selection_epsilon,
            allow_single_cluster,
            max_cluster_size,
        )
        rule, wanted = request.checked(self._settings)
        if store is not None:
            check_labels(store)
            refuse_taken(store)
        values = np.atleast_1d(wanted)
        cuts = self._checked_cuts(self._label(rule, values))
        if store is not None:
            return write_labels(store, cuts, rule.kind, wanted.tolist(), self.n_nodes, names=self.names)
        labels = np.empty((len(values), self.n_nodes), np.int64)
        for row, cut_labels in zip(labels, cuts, strict=True):
            row[:] = cut_labels
        if self.names is None or not names:
            return labels if wanted.ndim else labels[0]
        columns = [f"{rule.kind}={value}" for value in values.tolist()] if wanted.ndim else None
        return _named(labels, self.names, columns)

    def _label(self, rule: CutRule, values: NDArray[Any]) -> Iterable[Labels]:
        """Yield the labels of each cut."""
        return self._forest.label(rule, values)

    def _checked_cuts(self, cuts: Iterable[Labels]) -> Iterator[Labels]:
        """Yield the labels of each cut that a user asks for, and warn if one of them is of no use."""
        return warn_of_giants(cuts, self._settings)

    def _with_names(self, labels: Labels) -> Any:
        """Return labels as users see them: with the names of the nodes, if they have any."""
        return labels if self.names is None else _named(labels[np.newaxis], self.names, None)


def name_index(names: Any) -> Any:
    """Return names, an Arrow array, as an index."""
    return pd.Index(names.to_pandas(), dtype="str", name="name")


def _named(labels: Labels, names: NodeNames, columns: list[str] | None) -> pd.Series | pd.DataFrame:
    """Return labels with the names of the nodes: one row as a Series, several as the columns of a DataFrame."""
    index = name_index(names.slice(0, len(names)))
    if columns is None:
        return pd.Series(labels[0], index, name="label")
    return pd.DataFrame(labels.T, index, columns)
