"""What a run gives: merges, rounds, cuts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields
from functools import cached_property
from html import escape
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dask_rac.config import MERGE_COLUMNS, RoundRecord, Settings, checked_number
from dask_rac.dendrogram import Dendrogram
from dask_rac.errors import InputError
from dask_rac.kernels.arrays import Merges


class Clustering:
    """The exact hierarchy of a graph, as `dask_rac.cluster` returns it.

    Attributes
    ----------
    n_nodes : int
        Nodes of the graph.
    n_trees : int
        Trees of the hierarchy: one if every node ends in one cluster, more where the graph falls into components or
        `max_height` stopped it. Single nodes count.
    merges : pandas.DataFrame
        A row a merge: `left` and `right`, the two clusters, each by its smallest node; `height`; `size` of the union;
        `round` in which it merged. Merges below a merge come before it.
    rounds : pandas.DataFrame
        A row a round: live `clusters` and `edges` before it, `merges`, `nearest_updates`, the seconds of each phase,
        and whether it was the `finisher`.
    labels : numpy.ndarray
        The tree of each node, int64, numbered 0, 1, 2, ... by smallest node.
    """

    def __init__(
        self,
        n_nodes: int,
        merges: Merges,
        merge_rounds: NDArray[np.int32],
        records: Sequence[RoundRecord],
        settings: Settings,
    ) -> None:
        self.n_nodes = n_nodes
        self._merge_rounds = merge_rounds
        self._records = records
        self._settings = settings
        self._tree = Dendrogram(n_nodes, merges, settings.sign)

    @property
    def n_trees(self) -> int:
        """Trees of the hierarchy, single nodes among them."""
        return self._tree.n_trees

    @cached_property
    def merges(self) -> pd.DataFrame:
        """A row a merge."""
        left, right, height, size = self._tree.merges
        columns = left.astype(np.int64), right.astype(np.int64), height, size.astype(np.int64), self._merge_rounds
        return pd.DataFrame(dict(zip(MERGE_COLUMNS, columns, strict=True)))

    @cached_property
    def rounds(self) -> pd.DataFrame:
        """A row a round."""
        names = [field.name for field in fields(RoundRecord)]
        return pd.DataFrame([asdict(record) for record in self._records], columns=names)

    @cached_property
    def labels(self) -> NDArray[np.int64]:
        """The tree of each node."""
        labels: NDArray[np.int64] = self._tree.label_first(np.array([len(self._tree.merges.left)]))[0]
        labels.flags.writeable = False
        return labels

    def cut(self, height: ArrayLike | None = None, n_clusters: ArrayLike | None = None) -> NDArray[np.int64]:
        """Flat clusters at a height, or so many of them.

        Parameters
        ----------
        height : float or list of float, optional
            Merges up to this height are done; at or below counts, as in scipy. For similarities, at or above. Averages
            are rounded: the mean of equal weights may lie a last bit above them.
        n_clusters : int or list of int, optional
            How many clusters there shall be.

        Returns
        -------
        numpy.ndarray
            The cluster of each node, int64, numbered 0, 1, 2, ... by smallest node. For a list, a row a cut, all made
            in one pass.
        """
        if (height is None) == (n_clusters is None):
            raise InputError("cut() takes either height= or n_clusters=")
        if height is not None:
            wanted = _numbers("height", height, "iuf", "number")
            labels = self._tree.label_heights(np.atleast_1d(wanted).astype(np.float64))
        else:
            wanted = _numbers("n_clusters", n_clusters, "iu", "whole number")
            labels = self._tree.label_counts(np.atleast_1d(wanted))
        return labels if wanted.ndim else labels[0]

    def to_scipy(self, join: bool = False, zero: float | None = None) -> NDArray[np.float64]:
        """The hierarchy as scipy's linkage matrix Z.

        Parameters
        ----------
        join : bool
            Join the trees of a forest at infinity. Without it a forest raises.
        zero : float, optional
            For similarities, the one that becomes distance 0: Z holds `zero - similarity`, as scipy wants heights that
            grow. The largest similarity of a merge by default; 1 gives cosine distances. Not for distances.

        Returns
        -------
        numpy.ndarray
            One row a merge, by height and size: the two clusters in scipy's numbering, distance, size.
        """
        if zero is not None:
            if self._settings.weights == "distance":
                raise InputError(f"zero={zero!r} is for similarities; these are distances already")
            if not np.isfinite(checked_number("zero", zero)):
                raise InputError(f"zero={zero!r} is not finite: 1.0 is usual for similarities up to 1")
        return self._tree.to_scipy(join, zero)

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._facts().items())
        return f"<Clustering: {facts}>"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(value)}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption><b>dask_rac.Clustering</b></caption><tbody>{rows}</tbody></table>"

    def _facts(self) -> dict[str, str]:
        """What both representations tell."""
        settings = self._settings
        facts = {
            "nodes": f"{self.n_nodes:,}",
            "merges": f"{len(self._merge_rounds):,}",
            "trees": f"{self.n_trees:,}",
            "linkage": settings.linkage,
            "weights": settings.weights,
            "missing": str(settings.missing),
        }
        if np.isfinite(settings.max_height):
            facts["max_height"] = str(settings.max_height)
        if len(self._merge_rounds):
            facts["heights"] = "{:.6g} to {:.6g}".format(*self._settings.sign * self._tree.distances[[0, -1]])
        finished = sum(record.merges for record in self._records if record.finisher)
        rounds = sum(not record.finisher for record in self._records)
        facts["rounds"] = f"{rounds} and {finished:,} merges by the finisher" if finished else str(rounds)
        return facts


def _numbers(name: str, value: object, kinds: str, what: str) -> NDArray[Any]:
    """A number or a list of numbers as an array."""
    try:
        numbers = np.asarray(value)
    except ValueError:
        numbers = np.empty((0, 0))
    if numbers.ndim == 1 and not len(numbers):
        return np.empty(0, np.int64)
    if numbers.ndim > 1 or numbers.dtype.kind not in kinds or (numbers.dtype.kind == "f" and np.isnan(numbers).any()):
        raise InputError(f"{name}={value!r} is neither a {what} nor a list of them")
    return numbers
