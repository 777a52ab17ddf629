"""Questions to a hierarchy: who is in a cluster, where a node belongs, what joins two nodes, who stands for a cluster.

A flat cluster is what `cut` returns: it is named by its label in a cut, or by one of its nodes, and the cut by the same
keywords as in `cut`. Nodes are given by number, or by name if they have names.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dask_rac.base.checks import check_whole
from dask_rac.base.errors import InputError
from dask_rac.files.tables import merge_columns
from dask_rac.results.audit import Taker
from dask_rac.results.centrality import Centrality
from dask_rac.results.cut_request import CutRequest
from dask_rac.results.cuts import Cuts, Labels
from dask_rac.tree.paths import lowest_common, path_of
from dask_rac.tree.top import Branch

if TYPE_CHECKING:
    from dask_rac.results.clustering import Clustering


class Queries(Cuts):
    """Queries that every hierarchy answers, whether its merges are in memory or in a store."""

    @abstractmethod
    def _node(self, node: Any) -> int:
        """Return the number of a node that a user names."""

    @abstractmethod
    def _feed(self, make: Callable[[], Taker], edges: Any) -> Taker:
        """Hand all edges, or all pairs, by default those of the run, to what `make` returns."""

    @abstractmethod
    def _branch(self, nodes: NDArray[np.intp], merges: dict[str, NDArray[Any]]) -> Clustering:
        """Return a clustering of some nodes, which the merges name by their number among them."""

    def members(self, label: int | None = None, *, node: Any = None, names: bool = True, **cut: Any) -> Any:
        """Return the nodes of one flat cluster.

        Parameters
        ----------
        label : int, optional
            The label of the cluster in the cut; -1 for the nodes in no cluster.
        node : int or str, optional
            Instead of a label, a node of the cluster, by number or by name.
        names : bool
            Whether to return the names of the nodes, if they have any.
        **cut
            The cut: `height`, `n_clusters` or `method` with one value each, and what else `cut` takes.

        Returns
        -------
        numpy.ndarray or pandas.Series
            The nodes, int64, from the smallest; if they have names, a Series of the names with the nodes as its index.
        """
        nodes = np.flatnonzero(self._is_member(label, node, cut, "members"))
        if self.names is None or not names:
            return nodes
        return pd.Series(self.names.texts(nodes), pd.Index(nodes, name="node"), dtype="str", name="name")

    def path(self, node: Any) -> pd.DataFrame:
        """Return the clusters that contain a node, from its first merge to the root of its tree.

        Parameters
        ----------
        node : int or str
            The node, by number or by name.

        Returns
        -------
        pandas.DataFrame
            One row per merge: `node`, the smallest node of the cluster that it makes; its `height` and `size`;
            `joined`, the smallest node of the part that joined here, and `joined_size`, the number of its nodes. If
            nodes have names, also `name` and `joined_name`. Empty for a node that never merges.
        """
        found = path_of(self._forest, self._node(node))
        columns = {"node": found.node, "height": found.height, "size": found.size, "joined": found.joined}
        table = pd.DataFrame(columns | {"joined_size": found.joined_size})
        table = table.astype(dict.fromkeys(("node", "size", "joined", "joined_size"), np.int64))
        if self.names is not None:
            for column, title in (("node", "name"), ("joined", "joined_name")):
                table[title] = pd.Series(self.names.texts(table[column].to_numpy()), dtype="str")
        return table

    def lowest_common(self, a: Any, b: Any) -> Branch | None:
        """Return the first cluster that holds two nodes: the height at which they come together.

        Parameters
        ----------
        a, b : int or str
            The nodes, by number or by name.

        Returns
        -------
        Branch or None
            With `node`, the smallest node of the cluster, its `size`, and its `height`, NaN if both nodes are the same.
            None if the nodes are in different trees.
        """
        return lowest_common(self._forest, self._node(a), self._node(b))

    def subtree(self, label: int | None = None, *, node: Any = None, **cut: Any) -> Clustering:
        """Return one flat cluster as a clustering of its own.

        Parameters
        ----------
        label : int, optional
            The label of the cluster in the cut.
        node : int or str, optional
            Instead of a label, a node of the cluster, by number or by name.
        **cut
            The cut, as for `members`.

        Returns
        -------
        Clustering
            The merges inside of the cluster, in memory. Its nodes are numbered 0, 1, 2, ... in the order of `members`
            with the same arguments, and keep their names.
        """
        if label is not None and label == -1:
            raise InputError("label=-1 is for nodes in no cluster, which form no tree: choose a label from 0")
        inside = self._is_member(label, node, cut, "subtree")
        nodes = np.flatnonzero(inside)
        inside[nodes[:1]] = False  # the smallest node is never on the right in its own cluster
        kinds = merge_columns(self._settings)
        parts = [{name: part[name][inside[part["right"]]] for name in kinds} for part in self._parts()]
        merges = {name: np.concatenate([np.empty(0, kind), *(p[name] for p in parts)]) for name, kind in kinds.items()}
        for side in ("left", "right"):
            merges[side] = np.searchsorted(nodes, merges[side])
        return self._branch(nodes, merges)

    def representatives(self, *, count: int = 1, edges: Any = None, **cut: Any) -> pd.DataFrame:
        """Return the most central nodes of each flat cluster, by one pass over the edges.

        A node is central if the mean weight between it and the other nodes of its cluster is small, or large for
        similarities. The first is the medoid. A pair without an edge counts as `missing` if that is a number, else as
        twice the largest weight, or as similarity 0.

        Parameters
        ----------
        count : int
            The number of nodes for each cluster.
        edges : optional
            As for `verify`: the edges, vectors or distances that were clustered. A run with a store knows where its
            edges are, and a clustering of vectors has them.
        **cut
            The cut, as for `members`.

        Returns
        -------
        pandas.DataFrame
            One row per node: `label`, `node`, its `name` if nodes have names, `size` of the cluster, and `mean_weight`;
            ordered by label, the most central node first.
        """
        check_whole("count", count, 1)
        labels = self._one_cut(cut, "representatives")
        taker = self._feed(lambda: Centrality(labels), edges)
        table = taker.most_central(self._settings, count)
        if self.names is not None:
            named = pd.Series(self.names.texts(table["node"].to_numpy()), dtype="str")
            table.insert(2, "name", named)
        return table

    def _one_cut(self, cut: dict[str, Any], what: str) -> Labels:
        """Return the labels of the one cut that a query is about."""
        unknown = set(cut) - set(CutRequest.__dataclass_fields__)
        if unknown:
            raise InputError(f"{what}() does not know {min(unknown)}=: it takes what cut() takes, such as height=")
        rule, wanted = CutRequest(**cut).checked(self._settings)
        if wanted.ndim:
            raise InputError(f"{rule.kind}={cut[rule.kind]!r} is a list: {what}() is about one cut, so give one value")
        return next(iter(self._label(rule, np.atleast_1d(wanted))))

    def _is_member(self, label: int | None, node: Any, cut: dict[str, Any], what: str) -> NDArray[np.bool_]:
        """Return which nodes are in a cluster of a cut."""
        if (label is None) == (node is None):
            raise InputError(f"{what}() takes either the label of a cluster, or node=, one of its nodes")
        number = None if node is None else self._node(node)
        if label is not None:
            check_whole("label", label, -1)
        labels = self._one_cut(cut, what)
        if number is not None:
            label = int(labels[number])
            if label < 0:
                raise InputError(f"node={node!r} is in no cluster of this cut: its label is -1")
        found: NDArray[np.bool_] = labels == label
        if label != -1 and not found.any():
            raise InputError(f"label={label} does not exist: this cut has {int(labels.max(initial=-1)) + 1:,} clusters")
        return found
