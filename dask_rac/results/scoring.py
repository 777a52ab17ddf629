"""`scores`, for every kind of hierarchy."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.checks import check_whole
from dask_rac.base.errors import InputError
from dask_rac.base.settings import Settings
from dask_rac.base.text import quoted
from dask_rac.files.node_names import NodeNames
from dask_rac.results.audit import Taker
from dask_rac.results.classes import known_classes
from dask_rac.results.edge_scores import EdgeFit, EdgeScores
from dask_rac.results.scores import Scores
from dask_rac.tree.ordered import OrderedMerges
from dask_rac.tree.scores import class_scores, unscored

POINTS = 1_000
"""Rows of the curve, about."""


@dataclass(frozen=True)
class ScoreRequest:
    """What is asked of `scores`, beside labels and edges."""

    ignore: Any
    points: int | None
    ami: bool | None

    def check(self) -> None:
        """Raise if something cannot be asked for."""
        if self.points is not None:
            check_whole("points", self.points, 2)
        if self.ami is not None and not isinstance(self.ami, bool | np.bool_):
            raise InputError(f"ami={quoted(self.ami)} is unknown: use True, False or None")


class Scoring(ABC):
    """Scores against known classes, whether merges are in memory or in a store."""

    n_nodes: int
    names: NodeNames | None
    _settings: Settings

    @abstractmethod
    def _parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield the merges in parts."""

    @abstractmethod
    def _score_edges(self, make: Callable[[], Taker], edges: Any, trusted: bool) -> Taker:
        """Hand every edge to what `make` returns; True stands for those that are known."""

    def scores(
        self,
        labels: Any = None,
        *,
        edges: Any = None,
        ignore: Any = -1,
        points: int | None = POINTS,
        ami: bool | None = None,
    ) -> Scores:
        """Score every flat cut against known classes, in one pass over the merges, and the tree itself.

        Cuts are those of `cut(height=...)`: merges at equal heights are taken together. Nodes without a class are
        left out of clusters and classes, not out of the tree.

        Parameters
        ----------
        labels : array-like, pandas.Series or dict, optional
            The true class of each node: numbers or text, one per node in their order. A Series may have the names of
            the nodes as its index, and a dict names or numbers as its keys, in any order. Nodes that it lacks have no
            class; names that no node has are ignored. A Series is refused if its index may be left over from other
            rows. None and NaN mean no class. Without labels, only `edges` are scored.
        edges : optional
            If given, also how the tree fits its edges: True for the edges of a run with a store or the vectors or
            distances of all pairs, if they are known, otherwise what was passed to `dask_rac.cluster`.
        ignore : optional
            A label that means no class as well. None if every label is a class.
        points : int, optional
            About how many rows of the curve to keep. None keeps all. The best cuts are found among all in either case.
        ami : bool, optional
            Whether to compute adjusted mutual information. What it expects by chance takes time for every different
            size of a cluster. By default it is computed if that takes some seconds at most.

        Returns
        -------
        Scores
            `curve`, with the adjusted Rand index and mutual information of the cuts; `best` by each measure; `purity`
            of the tree; with `edges`, also its `cophenetic` correlation and `dasgupta`'s cost. `plot()` shows the
            curve.
        """
        return self._scored(labels, edges, ScoreRequest(ignore, points, ami))

    def _scored(self, labels: Any, edges: Any, request: ScoreRequest, trusted: bool = False) -> Scores:
        """Return the scores; `trusted` is for edges that a store names."""
        request.check()
        if labels is None and (edges is None or edges is False):
            raise InputError("scores() needs labels, the true class of each node, or edges=True for the tree alone")
        classes = known_classes(labels, self.n_nodes, self.names, request.ignore)
        tree = OrderedMerges.of(self.n_nodes, self._parts(), self._settings.sign)
        fit = EdgeFit()
        if edges is not None and edges is not False:
            fit = self._score_edges(lambda: EdgeScores(tree), edges, trusted).fit()
        found = class_scores(tree, classes.code, request.points, request.ami) if classes.labelled else unscored()
        return Scores(
            found.curve,
            found.best,
            found.purity,
            n_nodes=self.n_nodes,
            n_labelled=classes.labelled,
            n_classes=classes.count,
            similarity=self._settings.sign < 0,
            cophenetic=fit.cophenetic,
            dasgupta=fit.dasgupta,
            n_edges=fit.edges,
            n_unjoined=fit.unjoined,
        )
