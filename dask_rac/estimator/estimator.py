"""The scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from dask_rac.api.likeness import looks_like_distances, refuse_sparse_distances, zeros_text
from dask_rac.base.checks import check_whole, checked_number
from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.public import public
from dask_rac.base.settings import PRECOMPUTED, checked_settings
from dask_rac.base.sparse import check_sparse
from dask_rac.edges.given_names import index_names
from dask_rac.estimator.samples import Pairs, check_square, pairs_of, without_rounding
from dask_rac.results.clustering import Clustering
from dask_rac.vectors.sources.opening import is_dask_array

try:
    from sklearn.base import BaseEstimator, ClusterMixin
    from sklearn.utils import Tags, check_array
    from sklearn.utils.validation import check_is_fitted, check_memory, check_non_negative, validate_data

    from dask_rac.estimator.tree import METRICS, TreeRequest, build_tree, distances_to, is_computed, pairs_metric
except ImportError as error:
    raise ImportError(
        f"dask_rac.RAC needs scikit-learn, 1.6 or later: pip install 'dask-rac[sklearn]' ({error})"
    ) from error

__all__ = ["RAC"]

OF_SPARSE = ("euclidean", "l2", "sqeuclidean", "cosine", "precomputed")  # metrics that accept sparse samples


@public
class RAC(ClusterMixin, BaseEstimator):  # type: ignore[misc]
    """Agglomerative clustering as a scikit-learn estimator, in place of `sklearn.cluster.AgglomerativeClustering`.

    By default all pairs of samples are compared, and the tree is that of scikit-learn, up to ties. If one of
    `n_neighbors`, `eps` and `connectivity` is given, it determines which samples are neighbours: clusters then merge
    only along the edges of this graph, samples in different connected components are never merged, and `linkage` must
    be set to another than "ward".

    Parameters
    ----------
    n_clusters : int or None
        The number of clusters to find. It must be None if `distance_threshold` is given.
    metric : str or callable
        The metric of distances: "euclidean" or "l2", "sqeuclidean", "cosine", "manhattan" or "l1" or "cityblock". With
        "precomputed", X holds the distances: those of all pairs if X is dense; if X is sparse, its stored entries are
        the edges, including explicit zeros. For all pairs also any other metric of
        `sklearn.metrics.pairwise_distances`, or a function that maps X to the matrix of distances. Ward linkage
        requires "euclidean" or "l2".
    memory : str or object with the interface of joblib.Memory, optional
        Where to cache the tree, so that it can be cut again for the same samples without recomputing it.
    connectivity : array, sparse matrix or callable, optional
        Which samples are neighbours, as a matrix or as a function that maps X to one, such as one that calls
        `kneighbors_graph`. Each entry that is not zero, in either direction, is an edge. Its weight is the distance of
        the two samples, not the value of the entry.
    compute_full_tree : "auto" or bool
        Accepted for compatibility with scikit-learn, without effect: the full tree is always computed.
    linkage : {"ward", "complete", "average", "single", "weighted"}
        How the distance between two clusters follows from their samples: "ward" is the distance by which a merge adds
        to the sum of squares within clusters, for all pairs only; "complete" uses the largest distance between samples,
        "average" the mean, "single" the smallest, "weighted" the mean of the distances of the two parts of a cluster,
        however many samples each has.
    distance_threshold : float, optional
        The distance at or above which clusters are not merged. If given, `n_clusters` must be None.
    compute_distances : bool
        Accepted for compatibility with scikit-learn, without effect: `distances_` is always available.
    n_neighbors : int, optional
        Connect each sample to this many nearest neighbours, not counting itself.
    eps : float, optional
        Connect all samples whose distance is at most `eps`.
    missing : {"far", "ignore", "infinite"} or float
        How to treat two samples without an edge, as for `dask_rac.cluster`: with "far", as twice as far apart as the
        farthest neighbours. For all pairs it has no meaning: leave it out.
    epsilon : float
        How far a merge may be from the nearest there is, as for `dask_rac.cluster`. Not for all pairs.
    progress : callable or bool, optional
        As for `dask_rac.cluster`, but by default nothing is shown.

    Attributes
    ----------
    labels_ : numpy.ndarray of shape (n_samples,)
        The cluster of each sample, numbered 0, 1, 2, ... in the order of their smallest samples.
    n_clusters_ : int
        The number of clusters.
    n_leaves_ : int
        The number of samples.
    n_connected_components_ : int
        The number of connected components of the graph; 1 for all pairs.
    children_ : numpy.ndarray of shape (n_merges, 2)
        The two clusters of each merge: a sample, or `n_samples + i` for the cluster created by merge i. There are
        n_samples - 1 merges in one tree, and one less for every further tree of a forest.
    distances_ : numpy.ndarray of shape (n_merges,)
        The height of each merge, in non-decreasing order.
    clustering_ : Clustering
        The full result, with its plots and cuts. It does not hold X: to check it use `clustering_.verify(X)`.
        If X is a DataFrame, its index is in `clustering_.names`, unless it only counts the rows.
    n_features_in_ : int
        The number of features seen during `fit`.
    feature_names_in_ : numpy.ndarray of shape (`n_features_in_`,)
        The names of the features seen during `fit`. Defined only if X has feature names that are all strings.

    See Also
    --------
    cluster : Cluster a graph given by its edges, also with similarities, and also if it is larger than memory.

    Examples
    --------
    >>> import numpy as np
    >>> from dask_rac import RAC
    >>> X = np.array([[1, 2], [1, 4], [1, 0], [4, 2], [4, 4], [4, 0]])
    >>> RAC().fit_predict(X)
    array([0, 0, 0, 1, 1, 1])
    >>> RAC(linkage="average", n_neighbors=2).fit_predict(X)
    array([0, 0, 0, 1, 1, 1])
    """

    def __init__(  # noqa: PLR0913 - scikit-learn's parameters and a few more
        self,
        n_clusters: int | None = 2,
        *,
        metric: Any = "euclidean",
        memory: Any = None,
        connectivity: Any = None,
        compute_full_tree: str | bool = "auto",
        linkage: str = "ward",
        distance_threshold: float | None = None,
        compute_distances: bool = False,
        n_neighbors: int | None = None,
        eps: float | None = None,
        missing: str | float = "far",
        epsilon: float = 0.0,
        progress: Listener | bool | None = False,
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
        self.epsilon = epsilon
        self.progress = progress

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.pairwise = tags.input_tags.positive_only = self._holds_distances
        tags.input_tags.sparse = isinstance(self.metric, str) and self.metric in OF_SPARSE
        return tags

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the hierarchical clustering to samples or distances.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            The samples; with `metric="precomputed"` their distances, of shape (n_samples, n_samples). A Dask array is
            not loaded as a whole, unless `connectivity` is given.
        y : Ignored
            Not used, present for API consistency by convention.

        Returns
        -------
        RAC
            The fitted estimator.

        Raises
        ------
        InputError
            If a parameter or X is invalid. It is a ValueError, and its message states what to do.
        ResourceError
            If the edges, or all pairs, do not fit in memory.

        Warns
        -----
        UserWarning
            If `n_clusters` is given and the graph is not connected; if one of several clusters holds more than 90% of
            the samples; if X seems to hold distances, but its rows are taken as samples; if distances of 0 seem to be
            missing from a sparse X.
        """
        self._check_graph()
        names = index_names(X)
        X = self._checked(X)
        graph = self._graph_of(X)
        self._check_parameters(graph)
        request = TreeRequest(self.metric, graph, self.linkage, self.missing, self.epsilon)
        build = check_memory(self.memory).cache(build_tree, ignore=["progress"])
        tree, components = build(X, self._pairs(X), request, progress=self.progress)
        tree.names = None if names is None else names.in_memory()
        merged = tree.to_scipy(join=True)[: tree.n_nodes - tree.n_trees]
        children, distances = merged[:, :2].astype(np.intp), merged[:, 2].copy()
        if self.n_clusters is None:
            count = tree.n_nodes - int(np.count_nonzero(distances < self.distance_threshold))
        else:
            count = self._checked_count(int(self.n_clusters), tree, components)
        self.labels_, self.n_clusters_ = tree.cut(n_clusters=count, names=False), count
        self.clustering_, self.n_leaves_, self.n_connected_components_ = tree, tree.n_nodes, components
        self.children_, self.distances_ = children, distances
        self._fit_X = X
        return self

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """Fit the hierarchical clustering and return the cluster of each sample.

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

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Assign each new sample to the nearest cluster of `labels_`, by the distance of the linkage.

        This is `Clustering.assign`: the distance to a cluster is the smallest ("single"), largest ("complete") or mean
        ("average", "weighted") distance to its samples, or the ward distance. All samples of a cluster count, also if a
        graph was given by `n_neighbors`, `eps` or `connectivity`. Samples of `fit` need not get their own label.

        Parameters
        ----------
        X : array, sparse matrix or DataFrame of shape (n_samples, n_features)
            The new samples; with `metric="precomputed"` their distances to the samples of `fit`, as a dense array of
            shape (n_samples, `n_leaves_`).

        Returns
        -------
        numpy.ndarray of shape (n_samples,)
            The cluster of each new sample, numbered as in `labels_`; of equally near clusters the smallest.

        Raises
        ------
        InputError
            If the metric is a function, which compares the samples of one array only.
        """
        check_is_fitted(self)
        X = self._checked_new(X)
        tree = self.clustering_
        if is_computed(self.metric):
            options = {"points": self._fit_X, "metric": METRICS[self.metric]}
            return tree.assign(X, labels=self.labels_, **options)  # type: ignore[no-any-return]
        distances = X if self._holds_distances else distances_to(X, self._fit_X, self.metric)
        return tree.assign(distances, labels=self.labels_, metric=PRECOMPUTED)  # type: ignore[no-any-return]

    def _checked_new(self, X: Any) -> Any:
        """Validate new samples, or their distances to those of `fit`."""
        if callable(self.metric):
            raise InputError(
                "metric is a function, which compares the samples of one array, not new samples with those of fit: use "
                "a metric by its name, or metric='precomputed' with distances to the samples of fit"
            )
        sparse = "csr" if self.__sklearn_tags__().input_tags.sparse and not self._holds_distances else False
        if sp.issparse(X) and self._holds_distances:
            raise InputError(
                "X is sparse, and a new sample needs its distance to every sample of fit: give a dense array, of shape "
                f"(n_samples, {self.n_leaves_})"
            )
        X = validate_data(self, X, accept_sparse=sparse, dtype=(np.float64, np.float32), reset=False)
        if self._holds_distances:
            check_non_negative(X, "RAC(metric='precomputed')")
        elif sparse and sp.issparse(X) != sp.issparse(self._fit_X):
            X = sp.csr_array(X) if sp.issparse(self._fit_X) else X.toarray()
        return X

    @property
    def _holds_distances(self) -> bool:
        """Whether X holds distances."""
        return isinstance(self.metric, str) and self.metric == PRECOMPUTED

    def _check_parameters(self, graph: dict[str, Any] | None) -> None:
        """Raise unless the parameters are valid, alone and in combination."""
        if self.linkage == "ward":
            self._check_ward(graph)
        metric = pairs_metric(self.metric) if graph is None else ""
        harmless = bool(metric) and isinstance(self.missing, str) and self.missing in ("far", "ignore")
        missing = None if harmless else self.missing
        checked_settings(self.linkage, missing, "distance", epsilon=self.epsilon, metric=metric)
        if (self.n_clusters is None) == (self.distance_threshold is None):
            raise InputError("give exactly one of n_clusters and distance_threshold, and None for the other")
        if self.n_clusters is not None:
            check_whole("n_clusters", self.n_clusters, 1)
        elif checked_number("distance_threshold", self.distance_threshold) < 0:
            raise InputError(f"distance_threshold={self.distance_threshold!r} is below 0: distances are 0 or more")
        if self.compute_full_tree not in ("auto", True, False):
            raise InputError(f"compute_full_tree={self.compute_full_tree!r} is unknown: use 'auto', True or False")
        if self.distance_threshold is not None and not self.compute_full_tree:
            raise InputError("compute_full_tree=False cannot be combined with distance_threshold: leave it out")

    def _check_ward(self, graph: dict[str, Any] | None) -> None:
        """Raise unless samples are compared by euclidean distances, and all pairs of them."""
        if graph is not None:
            name = self._graphs()[0] if self._graphs() else "a sparse matrix of distances"
            remedy = f"leave out {name}" if self._graphs() else "give the samples"
            raise InputError(
                f"linkage='ward', the default, is not reducible along a graph, and {name} is given: a merge can bring "
                "clusters closer, so merging all reciprocal pairs at once is not HAC; set linkage='average', or "
                f"{remedy}, for all pairs"
            )
        if self._holds_distances:
            raise InputError(
                "linkage='ward', the default, is defined by the euclidean distances of samples, and with "
                "metric='precomputed' X may hold any: set linkage='average', 'complete' or 'single', or give the "
                "samples; dask_rac.cluster(X, 'ward', metric='precomputed') takes distances as euclidean"
            )
        if not (is_computed(self.metric) and METRICS[self.metric] == "euclidean"):
            raise InputError(
                "linkage='ward', the default, is defined by euclidean distances, and "
                f"metric={self.metric!r} gives others: set linkage='average', 'complete' or 'single', or use "
                "metric='euclidean'"
            )

    def _graphs(self) -> list[str]:
        """Return the names of the parameters that give a graph."""
        graphs = {"n_neighbors": self.n_neighbors, "eps": self.eps, "connectivity": self.connectivity}
        return [name for name, value in graphs.items() if value is not None]

    def _check_graph(self) -> None:
        """Raise unless at most one graph is given, and it supports the metric."""
        given = self._graphs()
        if len(given) > 1:
            raise InputError(
                f"{' and '.join(given)} are given, and each determines which samples are neighbours: keep one"
            )
        if not given or is_computed(self.metric):
            return
        if not self._holds_distances:
            raise InputError(
                f"metric={self.metric!r} is not supported with {given[0]}: use one of {', '.join(map(repr, METRICS))}; "
                f"or leave out {given[0]}, for all pairs; or give distances, as a sparse matrix, with "
                "metric='precomputed'"
            )
        if given[0] != "connectivity":
            raise InputError(
                f"{given[0]} is for samples, and with metric='precomputed' X holds distances: leave it out, and give X "
                "as a sparse matrix that stores the distances of neighbours"
            )

    def _graph_of(self, X: Any) -> dict[str, Any] | None:
        """Return the graph to build, as `graph=` of `dask_rac.cluster`: empty if it is given, None for all pairs."""
        if self.n_neighbors is not None:
            check_whole("n_neighbors", self.n_neighbors, 1)
            return {"k": self.n_neighbors}
        if self.eps is not None:
            return {"eps": self.eps}
        given = self.connectivity is not None or (self._holds_distances and sp.issparse(X))
        return {} if given else None

    def _checked(self, X: Any) -> Any:
        """Validate X."""
        if sp.issparse(X):
            check_sparse(X, "X")
        if is_dask_array(X) and is_computed(self.metric) and self.connectivity is None:
            validate_data(self, X, skip_check_array=True)
            return X
        sparse = "csr" if self.__sklearn_tags__().input_tags.sparse else False
        dtype = np.float64 if self._holds_distances and sp.issparse(X) else (np.float64, np.float32)
        X = validate_data(self, X, accept_sparse=sparse, dtype=dtype, ensure_min_samples=2)
        if not self._holds_distances:
            self._look(X)
            return X
        check_square(X, X.shape[0])
        X = X if sp.issparse(X) else without_rounding(X)
        check_non_negative(X, "RAC(metric='precomputed')")
        if text := zeros_text(X, "distance"):
            warnings.warn(text, stacklevel=3)
        return X

    def _look(self, X: Any) -> None:
        """Warn or raise if samples look like a matrix of distances."""
        refuse_sparse_distances(X, "X")
        if not sp.issparse(X) and looks_like_distances(X):
            warnings.warn(
                "X is square and symmetric with zeros on its diagonal, and its rows are taken as samples: if it holds "
                "distances, set metric='precomputed'",
                stacklevel=4,
            )

    def _pairs(self, X: Any) -> Pairs | None:
        """Return the pairs of neighbours given by `connectivity`."""
        n = X.shape[0]
        if self.n_neighbors is not None and self.n_neighbors >= n:
            raise InputError(
                f"n_neighbors={self.n_neighbors} is too large: each of the {n} samples has {n - 1} others; use "
                f"{n - 1} or less, or leave it out for all pairs"
            )
        if self.connectivity is None:
            return None
        if self._holds_distances and sp.issparse(X):
            raise InputError("X is sparse and already stores the distances of neighbours: leave connectivity out")
        matrix = self.connectivity(X) if callable(self.connectivity) else self.connectivity
        if sp.issparse(matrix):
            check_sparse(matrix, "connectivity")
        matrix = check_array(matrix, accept_sparse=("csr", "coo", "lil"))
        if matrix.shape != (n, n):
            raise InputError(
                f"connectivity has shape {matrix.shape}: give one row and one column for each of the {n} samples"
            )
        return pairs_of(matrix)

    def _checked_count(self, wanted: int, tree: Clustering, components: int) -> int:
        """Return the number of clusters, or raise if it is not possible."""
        if wanted > tree.n_nodes:
            raise InputError(f"n_clusters={wanted} is more than the number of samples, {tree.n_nodes}")
        if wanted < tree.n_trees:
            raise InputError(f"n_clusters={wanted} is not possible: {self._why_more(tree.n_trees, components)}")
        if components > 1:
            warnings.warn(
                f"the graph has {components} connected components, and samples of different components are never in "
                f"one cluster: {self._remedy()} connects more of them",
                stacklevel=3,
            )
        return wanted

    def _why_more(self, trees: int, components: int) -> str:
        """Explain why there are at least as many clusters as trees, and what to do."""
        why, remedy = f"the graph has {components} connected components, which never merge", self._remedy()
        if trees > components:
            why, remedy = f"missing='infinite' leaves {trees} trees", f"{remedy} or missing='far'"
        return f"{why}; use {remedy}, or n_clusters={trees} or more, or distance_threshold= with n_clusters=None"

    def _remedy(self) -> str:
        """Return what would connect more samples."""
        if self.n_neighbors is not None:
            return "a larger n_neighbors"
        return "a larger eps" if self.eps is not None else "a graph with more edges"
