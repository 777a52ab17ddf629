"""New points: which flat cluster of a hierarchy each belongs to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, overload

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dask_rac.base.checks import check_whole, checked_number
from dask_rac.base.errors import InputError
from dask_rac.base.settings import PRECOMPUTED, Settings
from dask_rac.files.node_names import NodeNames
from dask_rac.kernels.tree.shares import halve_shares
from dask_rac.tasks.machine import new_team
from dask_rac.vectors.assign.clusters import FlatClusters, numbered
from dask_rac.vectors.assign.contract import AssignLimits, nearest
from dask_rac.vectors.assign.given import open_given
from dask_rac.vectors.assign.vectors import compare_vectors
from dask_rac.vectors.compare.metrics import checked_metric
from dask_rac.vectors.sources.memory import open_array
from dask_rac.vectors.sources.opening import VectorSource, is_dask_array, open_vectors, whole_rows


@dataclass(frozen=True)
class BuiltFrom:
    """The vectors that a graph was built from, as users gave them."""

    vectors: Any
    metric: str
    columns: Sequence[str] | None
    """Those of a table that hold the vectors, if there are others."""


class Assignment(ABC):
    """Assigns new points to flat clusters, whether the merges are in memory or in a store."""

    n_nodes: int
    names: NodeNames | None
    _settings: Settings
    _built_from: BuiltFrom | None = None
    _assign_limits = AssignLimits()

    @abstractmethod
    def _cut_once(self, kind: str, value: float) -> NDArray[np.int64]:
        """Return the labels of one cut."""

    @abstractmethod
    def _parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield the merges in parts."""

    @abstractmethod
    def _kept_input(self) -> Any:
        """Return the vectors of all pairs as they were given, or where they are; None if that is not known."""

    @overload
    def assign(
        self,
        vectors: Any,
        *,
        height: float | None = ...,
        n_clusters: int | None = ...,
        labels: ArrayLike | None = ...,
        points: Any = ...,
        metric: str | None = ...,
        max_height: float | None = ...,
        return_distance: Literal[False] = ...,
    ) -> NDArray[np.int64]: ...

    @overload
    def assign(
        self,
        vectors: Any,
        *,
        height: float | None = ...,
        n_clusters: int | None = ...,
        labels: ArrayLike | None = ...,
        points: Any = ...,
        metric: str | None = ...,
        max_height: float | None = ...,
        return_distance: Literal[True],
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]: ...

    def assign(  # noqa: PLR0913 - keywords of users
        self,
        vectors: Any,
        *,
        height: float | None = None,
        n_clusters: int | None = None,
        labels: ArrayLike | None = None,
        points: Any = None,
        metric: str | None = None,
        max_height: float | None = None,
        return_distance: bool = False,
    ) -> NDArray[np.int64] | tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Assign each new vector to the nearest flat cluster, by the distance of the linkage.

        The distance between a vector and a cluster is what the linkage would give for the cluster and a cluster of this
        vector alone: the smallest distance to a member ("single"), the largest ("complete"), the mean ("average"), the
        mean in which both parts of every merge count for half ("weighted"), or the ward distance. All members count,
        whether or not a graph joins them. The tree itself does not change, and new vectors do not affect each other.

        Parameters
        ----------
        vectors
            The new vectors, in any form that `knn_graph` accepts. They are read and compared in batches. With the
            metric "precomputed", their distances to the points that were clustered: one row per new point, one column
            per node.
        height : float, optional
            The height of the cut, as for `cut`.
        n_clusters : int, optional
            The number of clusters, as for `cut`.
        labels : array of int, optional
            The flat cluster of each node, if `cut` has already been called; nodes below 0 belong to no cluster. With
            weighted and ward linkage these must be clusters of the tree.
        points : optional
            The vectors that were clustered, one per node, if the clustering does not know where they are: after a run
            on edges, or with `store=` on vectors in memory.
        metric : str, optional
            How vectors are compared, as for `knn_graph`. After a run on edges it must be given.
        max_height : float, optional
            The largest distance at which a vector is assigned; those farther from every cluster get the label -1. For
            similarities, the smallest. By default every vector is assigned, however far it is.
        return_distance : bool
            Whether to return the distance to the assigned cluster as well.

        Returns
        -------
        numpy.ndarray or tuple of two
            The label of each new vector, int64, numbered as by `cut`; of equally near clusters the smallest label. With
            `return_distance`, also the distances, float64; for the metric "inner_product" these are similarities.

        Raises
        ------
        InputError
            If the vectors that were clustered are not known, or vectors cannot be compared.
        """
        compare, sign = self._comparison(vectors, points, metric)
        limit = np.inf if max_height is None else sign * checked_number("max_height", max_height)
        clusters = self._flat_clusters(self._flat_labels(height, n_clusters, labels))
        with new_team() as team:
            found, weight = nearest(compare(clusters), clusters, team)
        found = np.where(weight > limit, -1, found)
        return (found, sign * weight + 0.0) if return_distance else found  # no minus zero

    def _comparison(self, vectors: Any, points: Any, metric: str | None) -> tuple[Any, float]:
        """Return what compares new vectors with flat clusters, once these are known, and the sign of weights."""
        name, limits = self._metric_name(metric), self._assign_limits
        if name == PRECOMPUTED:
            if points is not None:
                raise InputError(
                    "points= is for vectors, and with metric='precomputed' distances are given: leave it out"
                )
            return lambda clusters: open_given(vectors, self.n_nodes, clusters, limits), 1.0
        known, columns = checked_metric(name), None
        if points is None:
            points, columns = self._known_points()
        old, new = _opened(points, columns), _opened(vectors, None)
        if old.rows != self.n_nodes:
            raise InputError(
                f"points= has {old.rows:,} vectors, and the clustering has {self.n_nodes:,} nodes: give the vectors "
                "that were clustered, in their order"
            )
        return lambda clusters: compare_vectors(new, old, known, clusters, limits), -1.0 if known.similarity else 1.0

    def _metric_name(self, metric: str | None) -> str:
        """Return the name of the metric: that of the run, or the one that is given."""
        known = self._settings.metric or (self._built_from.metric if self._built_from else "")
        if metric is None and not known:
            raise InputError(
                "this clustering was made of edges and has no metric: give metric=, such as 'euclidean', and the "
                "vectors of the nodes with points="
            )
        if metric is not None and known and metric != known:
            raise InputError(f"metric={metric!r}, but the clustering was made with {known!r}: leave it out")
        return known or str(metric)

    def _known_points(self) -> tuple[Any, Sequence[str] | None]:
        """Return the vectors that were clustered, and their columns; raise if nobody knows where they are."""
        if self._built_from is not None:
            return self._built_from.vectors, self._built_from.columns
        kept = self._kept_input() if self._settings.metric else None
        if kept is None:
            raise InputError("the vectors that were clustered are not known: give them with points=, one per node")
        return kept, None

    def _flat_labels(self, height: Any, n_clusters: Any, labels: Any) -> NDArray[np.int64]:
        """Return the flat cluster of each node."""
        given = {"height": height, "n_clusters": n_clusters, "labels": labels}
        if sum(value is not None for value in given.values()) != 1:
            raise InputError("assign() takes exactly one of height=, n_clusters= and labels=")
        if labels is not None:
            return self._checked_labels(labels)
        if height is not None:
            return self._cut_once("height", checked_number("height", height))
        check_whole("n_clusters", n_clusters, 1)
        return self._cut_once("n_clusters", n_clusters)

    def _checked_labels(self, labels: Any) -> NDArray[np.int64]:
        """Return given labels as an array; raise unless there is one for each node, and some cluster."""
        found = np.asarray(self._in_node_order(labels) if isinstance(labels, pd.Series) else labels)
        if found.shape != (self.n_nodes,) or found.dtype.kind not in "iu":
            raise InputError(
                f"labels= has shape {found.shape} and dtype {found.dtype}: give one whole number for each of the "
                f"{self.n_nodes:,} nodes, as cut() returns them"
            )
        if not (found >= 0).any():
            raise InputError("labels= has no cluster: all nodes are below 0; use a lower cut")
        return found.astype(np.int64)

    def _in_node_order(self, labels: Any) -> Any:
        """Return the labels of a Series in the order of the nodes, if its index holds their names."""
        if self.names is None or not len(labels) or not isinstance(labels.index[0], str):
            return labels
        nodes = self.names.find(labels.index.tolist())
        if len(labels) != self.n_nodes or (np.bincount(nodes[nodes >= 0], minlength=self.n_nodes) != 1).any():
            raise InputError("the index of labels= must hold the name of each node once: use labels of cut()")
        ordered = np.empty(self.n_nodes, labels.dtype)
        ordered[nodes] = labels.to_numpy()
        return ordered

    def _flat_clusters(self, labels: NDArray[np.int64]) -> FlatClusters:
        """Return the clusters of some labels, with what the linkage must know of them."""
        names, cluster, size = numbered(labels)
        share, spread, linkage = np.ones(self.n_nodes), np.empty(0), self._settings.linkage
        if linkage in ("weighted", "ward"):
            inside = self._inner_merges(cluster, size)
            spread = np.zeros(len(names))
            for part in reversed(inside):
                if linkage == "weighted":
                    halve_shares(part["left"], part["right"], cluster, share)
                else:
                    spread += np.bincount(cluster[part["left"]], 0.5 * part["height"] ** 2, len(names))
        return FlatClusters(linkage, names, cluster, size, share, spread)

    def _inner_merges(self, cluster: NDArray[np.int64], size: NDArray[np.int64]) -> list[dict[str, NDArray[Any]]]:
        """Return the merges within clusters, in parts; raise unless the clusters are clusters of the tree."""
        parts: list[dict[str, NDArray[Any]]] = []
        merged = np.zeros(len(size), np.int64)
        for part in self._parts():
            left = np.asarray(part["left"], np.int64)
            right = np.asarray(part["right"], np.int64)
            inside = (cluster[left] == cluster[right]) & (cluster[left] >= 0)
            parts.append({"left": left[inside], "right": right[inside], "height": np.asarray(part["height"])[inside]})
            merged += np.bincount(cluster[left[inside]], minlength=len(size))
        if (merged != size - 1).any():
            raise InputError(
                f"labels= are not clusters of this tree, and {self._settings.linkage} linkage needs them to be: use "
                "height= or n_clusters=, or labels of cut()"
            )
        return parts


def _opened(vectors: Any, columns: Sequence[str] | None) -> VectorSource:
    """Open vectors in any form; a Dask array is computed into memory."""
    if is_dask_array(vectors):
        return open_array(np.asarray(whole_rows(vectors).compute()))
    return open_vectors(vectors, columns)
