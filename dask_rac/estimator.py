"""The scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from dask_rac.api import cluster
from dask_rac.clustering import Clustering
from dask_rac.config import Progress, check_whole, checked_number, checked_settings
from dask_rac.errors import InputError
from dask_rac.store.vectors import is_dask_array
from dask_rac.vectors.samples import Edges, Pairs, graph_edges, matrix_edges, pair_edges, pairs_of, refuse_unequal

try:
    from sklearn.base import BaseEstimator, ClusterMixin
    from sklearn.metrics import pairwise_distances
    from sklearn.utils import Tags, check_array
    from sklearn.utils.validation import check_memory, check_non_negative, validate_data
except ImportError as error:
    raise ImportError(
        f"dask_rac.RAC needs scikit-learn, 1.6 or later: pip install 'dask-rac[sklearn]' ({error})"
    ) from error

__all__ = ["RAC"]

METRICS = {
    "euclidean": "euclidean",
    "l2": "euclidean",
    "sqeuclidean": "sqeuclidean",
    "cosine": "cosine",
    "manhattan": "manhattan",
    "l1": "manhattan",
    "cityblock": "manhattan",
}
"""The metrics that any graph can have, by scikit-learn's names."""

OF_SPARSE = ("euclidean", "l2", "sqeuclidean", "cosine", "precomputed")  # metrics of sparse samples


class RAC(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Agglomerative clustering as a scikit-learn estimator, in place of `sklearn.cluster.AgglomerativeClustering`.

    The graph says which samples are neighbours: one of `n_neighbors`, `eps` and `connectivity`, or all pairs if none is
    given. Clusters merge along its edges only, and samples in different components of it are never put together. Of all
    pairs the tree is scikit-learn's, up to ties.

    Parameters
    ----------
    n_clusters : int or None
        How many clusters to find; None if `distance_threshold` is given.
    metric : str or callable
        What distances are: "euclidean" or "l2", "sqeuclidean", "cosine", "manhattan" or "l1" or "cityblock". With
        "precomputed", X holds the distances: of all pairs if it is dense; if it is sparse, its stored entries are the
        edges, zeros too. Without a graph also any other metric that `sklearn.metrics.pairwise_distances` knows, or a
        function from X to the matrix of distances.
    memory : str or object with the interface of joblib.Memory, optional
        Where to keep the tree, so that the same samples can be cut again without building it.
    connectivity : array, sparse matrix or callable, optional
        Which samples are neighbours, or a function from X to that, such as one that calls `kneighbors_graph`. What is
        not zero, in either direction, is an edge. Its weight is the distance, whatever the value.
    compute_full_tree : "auto" or bool
        Taken as scikit-learn takes it, and of no effect: the tree is always whole.
    linkage : {"average", "complete", "single"}
        The distance of two clusters from those of their samples: the mean, the largest, the smallest.
    distance_threshold : float, optional
        Clusters at this distance or beyond are not merged. `n_clusters` must be None then.
    compute_distances : bool
        Taken as scikit-learn takes it, and of no effect: `distances_` is always there.
    n_neighbors : int, optional
        Join each sample to so many nearest ones, itself not among them.
    eps : float, optional
        Join all samples at most so far apart.
    missing : {"ignore", "infinite"} or float
        What two samples without an edge are to each other, as for `dask_rac.cluster`.
    progress : callable or bool, optional
        As for `dask_rac.cluster`; nothing by default.

    Attributes
    ----------
    labels_ : numpy.ndarray of shape (n_samples,)
        The cluster of each sample, numbered 0, 1, 2, ... by smallest sample.
    n_clusters_ : int
        How many there are.
    n_leaves_ : int
        Samples.
    n_connected_components_ : int
        Components of the graph.
    children_ : numpy.ndarray of shape (n_merges, 2)
        The two clusters of each merge: a sample, or `n_samples + i` for what merge i made. There are n_samples - 1
        merges in one tree, and one less for every further tree of a forest.
    distances_ : numpy.ndarray of shape (n_merges,)
        The height of each merge; they never fall.
    clustering_ : Clustering
        The whole result, with its plots and cuts.
    n_features_in_ : int
        Features of a sample.
    feature_names_in_ : numpy.ndarray of shape (`n_features_in_`,)
        Their names, where X has names that are all strings.

    See Also
    --------
    cluster : The same from edges, with similarities, and for graphs larger than memory.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_rac import RAC
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [4, 2], [4, 4], [4, 0]])
    >>> RAC().fit_predict(X)
    array([0, 0, 0, 1, 1, 1])
    >>> RAC(n_clusters=None, distance_threshold=2.5, n_neighbors=2).fit(X).n_clusters_
    2
    """

    def __init__(  # noqa: PLR0913 - scikit-learn's parameters, and a few
        self,
        n_clusters: int | None = 2,
        *,
        metric: Any = "euclidean",
        memory: Any = None,
        connectivity: Any = None,
        compute_full_tree: str | bool = "auto",
        linkage: str = "average",
        distance_threshold: float | None = None,
        compute_distances: bool = False,
        n_neighbors: int | None = None,
        eps: float | None = None,
        missing: str | float = "ignore",
        progress: Progress | bool | None = False,
    ) -> None:
        self.n_clusters = n_clusters
        self.metric = metric
        self.memory = memory
        self.connectivity = connectivity
        self.compute_full_tree = compute_full_tree
        self.linkage = linkage
        self.distance_threshold = distance_threshold
        self.compute_distances = compute_distances
        self.n_neighbors = n_neighbors
        self.eps = eps
        self.missing = missing
        self.progress = progress

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = self._holds_distances
        tags.input_tags.sparse = isinstance(self.metric, str) and self.metric in OF_SPARSE
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Build the tree of some samples, and cut it.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            The samples; their distances, of shape (n_samples, n_samples), with `metric="precomputed"`. A Dask array is
            not computed whole, unless `connectivity` is given.
        y : ignored
            There by convention.

        Returns
        -------
        RAC
            The estimator itself.

        Raises
        ------
        InputError
            If a parameter or X cannot be used; it is a ValueError, and says what to do.
        ResourceError
            If the edges do not fit in memory.

        Warns
        -----
        UserWarning
            If `n_clusters` is given and the graph is not connected.
        """
        X = self._checked(X)
        self._check_parameters()
        if self._holds_distances:
            refuse_unequal(X, X.shape[0])
            check_non_negative(X, "RAC(metric='precomputed')")
        asked = Asked(self.metric, self._graph(), self.linkage, self.missing)
        grow = check_memory(self.memory).cache(grown, ignore=["progress"])
        tree, components = grow(X, self._pairs(X), asked, progress=self.progress)
        merged = tree.to_scipy(join=True)[: tree.n_nodes - tree.n_trees]
        children, distances = merged[:, :2].astype(np.intp), merged[:, 2].copy()
        if self.n_clusters is None:
            found = tree.n_nodes - int(np.count_nonzero(distances < self.distance_threshold))
        else:
            found = self._counted(int(self.n_clusters), tree, components)
        self.labels_, self.n_clusters_ = tree.cut(n_clusters=found), found
        self.clustering_, self.n_leaves_, self.n_connected_components_ = tree, tree.n_nodes, components
        self.children_, self.distances_ = children, distances
        return self

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Build the tree of some samples, cut it, and give the labels.

        Parameters
        ----------
        X, y
            As for `fit`.

        Returns
        -------
        numpy.ndarray of shape (n_samples,)
            `labels_`.
        """
        labels: NDArray[np.int64] = self.fit(X, y).labels_
        return labels

    @property
    def _holds_distances(self) -> bool:
        """Whether X are distances."""
        return isinstance(self.metric, str) and self.metric == "precomputed"

    def _check_parameters(self) -> None:
        """Raise unless the parameters can be used, each by itself and together."""
        if self.linkage == "ward":
            raise InputError(
                "linkage='ward' is not in dask_rac: it needs the means of clusters, and a graph only has distances; "
                "use 'average', the default here, or 'complete', or stay with sklearn.cluster.AgglomerativeClustering"
            )
        checked_settings(self.linkage, self.missing, "distance", None, "error", True)
        if (self.n_clusters is None) == (self.distance_threshold is None):
            raise InputError("give exactly one of n_clusters and distance_threshold, and None for the other")
        if self.n_clusters is not None:
            check_whole("n_clusters", self.n_clusters, 1)
        elif checked_number("distance_threshold", self.distance_threshold) < 0:
            raise InputError(f"distance_threshold={self.distance_threshold!r} is below 0: distances are 0 or more")
        if self.compute_full_tree not in ("auto", True, False):
            raise InputError(f"compute_full_tree={self.compute_full_tree!r} is unknown: use 'auto', True or False")
        if self.distance_threshold is not None and not self.compute_full_tree:
            raise InputError("compute_full_tree=False is not for distance_threshold: leave it out")
        self._check_graph()

    def _check_graph(self) -> None:
        """Raise unless it is clear which graph is wanted, and the metric is one for it."""
        told = {"n_neighbors": self.n_neighbors, "eps": self.eps, "connectivity": self.connectivity}
        given = [name for name, value in told.items() if value is not None]
        if len(given) > 1:
            raise InputError(f"{' and '.join(given)} are given, and each says which samples are neighbours: keep one")
        if not given or any_graph(self.metric):
            return
        if not self._holds_distances:
            raise InputError(
                f"metric={self.metric!r} is not for {given[0]}: use one of {', '.join(map(repr, METRICS))}; or leave "
                f"out {given[0]}, for all pairs; or give distances, as a sparse matrix, with metric='precomputed'"
            )
        if given[0] != "connectivity":
            raise InputError(
                f"{given[0]} is for samples, and with metric='precomputed' X holds distances: leave it out, and give X "
                "as a sparse matrix that stores those of neighbours"
            )

    def _graph(self) -> dict[str, Any]:
        """Which graph of vectors is wanted."""
        if self.n_neighbors is not None:
            check_whole("n_neighbors", self.n_neighbors, 1)
            return {"k": self.n_neighbors}
        return {"kind": "complete"} if self.eps is None else {"eps": self.eps}

    def _checked(self, X: Any) -> Any:
        """X as it is compared."""
        if is_dask_array(X) and any_graph(self.metric) and self.connectivity is None:
            validate_data(self, X, skip_check_array=True)
            return X
        sparse = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        dtype = np.float64 if self._holds_distances else (np.float64, np.float32)
        return validate_data(self, X, accept_sparse=sparse, dtype=dtype, ensure_min_samples=2)

    def _pairs(self, X: Any) -> Pairs | None:
        """Which samples are neighbours by `connectivity`."""
        n = X.shape[0]
        if self.n_neighbors is not None and self.n_neighbors >= n:
            raise InputError(
                f"n_neighbors={self.n_neighbors} is too large: there are {n} samples, and each has {n - 1} others; use "
                f"{n - 1} or less, or leave it out for all pairs"
            )
        if self.connectivity is None:
            return None
        if self._holds_distances and sp.issparse(X):
            raise InputError("X is sparse, and stores the distances of neighbours: leave connectivity out")
        matrix = self.connectivity(X) if callable(self.connectivity) else self.connectivity
        matrix = check_array(matrix, accept_sparse=("csr", "coo", "lil"))
        if matrix.shape != (n, n):
            raise InputError(f"connectivity is of shape {matrix.shape}: give a row and column for each of {n} samples")
        return pairs_of(matrix)

    def _counted(self, wanted: int, tree: Clustering, components: int) -> int:
        """The number of clusters, if it can be had."""
        if wanted > tree.n_nodes:
            raise InputError(f"n_clusters={wanted} is more than there are samples, {tree.n_nodes}")
        if wanted < tree.n_trees:
            raise InputError(f"n_clusters={wanted} is not to be had: {self._why_more(tree.n_trees, components)}")
        if components > 1:
            warnings.warn(
                f"the graph has {components} components, and no cluster holds samples of two: {self._remedy()} joins "
                "more of them",
                stacklevel=3,
            )
        return wanted

    def _why_more(self, trees: int, components: int) -> str:
        """Why there are so many clusters at least, and what to do."""
        why, remedy = f"the graph has {components} components, and none are joined", self._remedy()
        if trees > components:
            why, remedy = f"missing='infinite' leaves {trees} trees", f"{remedy} or missing='ignore'"
        return f"{why}; use {remedy}, or n_clusters={trees} or more, or distance_threshold= with n_clusters=None"

    def _remedy(self) -> str:
        """What connects more."""
        if self.n_neighbors is not None:
            return "a larger n_neighbors"
        return "a larger eps" if self.eps is not None else "a graph with more edges"


@dataclass(frozen=True)
class Asked:
    """Which tree is wanted: all that changes it, beside the samples."""

    metric: Any
    graph: dict[str, Any]
    """What `dask_rac.cluster` takes as `graph=`, the metric apart."""
    linkage: str
    missing: str | float


def grown(X: Any, pairs: Pairs | None, asked: Asked, progress: Progress | bool | None) -> tuple[Clustering, int]:
    """The tree of some samples, and the components of their graph."""
    edges = edges_of(X, pairs, asked, progress)
    # The two directions of a distance may differ by rounding.
    tree = cluster(edges, asked.linkage, asked.missing, n_nodes=X.shape[0], duplicates="min", progress=progress)
    if asked.missing != "infinite" or tree.n_trees == 1:
        return tree, tree.n_trees
    ends = edges[0].astype(np.int64), edges[1].astype(np.int64)
    graph = sp.coo_array((np.ones(len(ends[0]), np.int8), ends), shape=(tree.n_nodes, tree.n_nodes))
    return tree, int(connected_components(graph, directed=False)[0])


def edges_of(X: Any, pairs: Pairs | None, asked: Asked, progress: Progress | bool | None) -> Edges:
    """The edges of the graph that is asked for."""
    metric = asked.metric
    if any_graph(metric):
        if pairs is not None:
            return pair_edges(X, pairs, METRICS[metric])
        return graph_edges(X, {**asked.graph, "metric": METRICS[metric]}, progress)
    if isinstance(metric, str) and metric == "precomputed":
        return matrix_edges(X, pairs)
    distances = np.asarray(metric(X) if callable(metric) else pairwise_distances(X, metric=metric))
    refuse_unequal(distances, X.shape[0])
    return matrix_edges(distances, None)


def any_graph(metric: Any) -> bool:
    """Whether a metric is one that any graph can have."""
    return isinstance(metric, str) and metric in METRICS
