"""Views of a hierarchy: plots, suggested cuts, a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dask_rac.base.checks import check_whole, check_word, checked_number
from dask_rac.base.errors import InputError
from dask_rac.base.events import RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.files.node_names import NodeNames
from dask_rac.results.dendrogram_view import dendrogram_cut, leaf_names
from dask_rac.tasks.machine import versions
from dask_rac.tree.far import far_of
from dask_rac.tree.lifetimes import Lifetimes
from dask_rac.tree.suggestions import SCALES, Scale, fitting_scale, most_clusters, stray_size, suggested_cuts
from dask_rac.tree.summary import height_curve, size_histogram
from dask_rac.tree.top import Branch, treetop

if TYPE_CHECKING:
    from dask_rac.show.pictures.picture import Picture
    from dask_rac.show.report.subject import Subject

PHASES = ("nearest", "match", "fold", "finish")
"""The phases of a round in memory."""


class Views(ABC):
    """Views that every hierarchy has, whether its merges are in memory or in a store."""

    n_nodes: int
    names: NodeNames | None
    _records: Sequence[RoundRecord]
    _settings: Settings
    _loops: int
    """The number of self loops that were dropped."""

    @property
    @abstractmethod
    def n_trees(self) -> int:
        """The number of trees of the hierarchy, single nodes included."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """Return a short description, as text by name."""

    @abstractmethod
    def _parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """Yield the merges in parts."""

    @cached_property
    def _lives(self) -> Lifetimes:
        """The lifetime of every cluster."""
        return Lifetimes.of(self.n_nodes, self._parts(), self._settings.sign)

    @property
    def _similarity(self) -> bool:
        return self._settings.weights == "similarity"

    def top(self, count: int = 12) -> list[Branch]:
        """Return the last merges as trees.

        Parameters
        ----------
        count : int
            The number of merges. Below them, branches have a size and a height but no children.

        Returns
        -------
        list of Branch
            The roots of the trees that contain these merges, the largest first. A branch has `node` (its smallest
            node), `size`, `height` and two `children`, or none where the tree is cut off.
        """
        check_whole("count", count, 1)
        return treetop(self._parts, count, self._settings.sign)

    def suggest_cuts(
        self, count: int = 5, *, by: str | None = None, min_size: int | None = None, max_clusters: int | None = None
    ) -> pd.DataFrame:
        """Suggest the most stable flat cuts: those whose height can move furthest without changing a large cluster.

        Parameters
        ----------
        count : int
            The number of cuts to suggest, the most stable first.
        by : {"difference", "ratio", "far"}, optional
            How to measure the lifetime of a cut, which begins at the height of the merge that creates it and ends at
            the height of the next merge: by the difference of the two heights; by the logarithm of their ratio, where
            heights of 0 have none; or, where `missing` is a distance and most pairs have no edge, by the logarithm of
            the ratio of how far they are below it. By default "ratio" for similarities, "far" where `missing` is a
            distance (but not for single linkage, where it plays no role), and otherwise "difference".
        min_size : int, optional
            Count only clusters of at least this many nodes, so that stray nodes that join late do not hide what the
            others do, and only cuts in which they hold half of the nodes. By default half the square root of the number
            of nodes, at most 50; 1 counts all.
        max_clusters : int, optional
            The largest number of such clusters in a cut. By default half the number of nodes, at most 5,000.

        Returns
        -------
        pandas.DataFrame
            One row per cut: `height`, in the middle of the gap, for `cut(height=...)`; `n_clusters` at that height;
            `start` and `end`, the heights between which the cut does not change; `lifetime`; `large_clusters`, the
            number of clusters of at least `min_size` nodes, each number once; `clear`, whether the cut stands out: its
            height can double, or for similarities fall to a third (with "far", how far it is below `missing`). If no
            cut is clear, there may be no natural number of clusters. The cut into the trees of a forest never ends, and
            comes first. Empty if all heights are equal, or if all cuts have too many clusters.
        """
        check_whole("count", count, 1)
        if min_size is not None:
            check_whole("min_size", min_size, 1)
        if max_clusters is not None:
            check_whole("max_clusters", max_clusters, 2)
        return suggested_cuts(
            self._lives,
            count,
            self._scale(by),
            stray_size(self.n_nodes) if min_size is None else min_size,
            most_clusters(self.n_nodes) if max_clusters is None else max_clusters,
        )

    def _scale(self, by: str | None) -> Scale:
        """Return how to measure the lifetimes of cuts."""
        far = far_of(self._settings)
        if by is None:
            return fitting_scale(self._similarity, far)
        check_word("by", by, SCALES)
        if by != "far":
            return Scale(by)
        if far is None:
            raise InputError(
                "by='far' compares heights with the distance of pairs without an edge, and here missing= is not a "
                "distance, or plays no role: use by='difference' or by='ratio'"
            )
        return Scale(by, far)

    def plot_rounds(self) -> Picture:
        """Plot the merges and clusters of each round, with the finisher marked.

        Returns
        -------
        Picture
            A notebook displays it; `save("rounds.svg")` writes it to a file, also as `.png` or `.html`.
        """
        from dask_rac.show.pictures.rounds import rounds_picture  # noqa: PLC0415 - Bokeh is an extra

        return rounds_picture(self._records, bool(self._settings.metric))

    def plot_phases(self) -> Picture:
        """Plot the seconds of each phase, round by round.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.show.pictures.phases import phases_picture  # noqa: PLC0415 - Bokeh is an extra

        return phases_picture(self._phase_seconds())

    def plot_alpha_beta(self) -> Picture:
        """Plot the fraction of clusters merged in each round, and nearest updates per merge: they bound the run time.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.show.pictures.alpha_beta import alpha_beta_picture  # noqa: PLC0415 - Bokeh is an extra

        return alpha_beta_picture(self._records)

    def plot_dendrogram(self, top: int = 50, *, height: float | None = None, n_clusters: int | None = None) -> Picture:
        """Plot the top of the tree, which may have any size.

        If nodes have names, these are shown; a branch that is cut off has the name of the node that merges first in it.

        Parameters
        ----------
        top : int
            The number of branches to show. Branches that are cut off show how many nodes they have, and a name if nodes
            have names.
        height : float, optional
            The height of a flat cut, as for `cut`, whose clusters have colours.
        n_clusters : int, optional
            The number of clusters of that cut, in place of its height.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.show.pictures.dendrogram import dendrogram_picture  # noqa: PLC0415 - Bokeh is an extra

        check_whole("top", top, 2)
        cut = dendrogram_cut(self, height, n_clusters)
        branches = self.top(top - 1)
        return dendrogram_picture(branches, self.n_trees, self._similarity, names=leaf_names(self, branches), cut=cut)

    def plot_heights(self, height: ArrayLike | None = None) -> Picture:
        """Plot the number of clusters against height, with cuts marked, as a help to choose one.

        Parameters
        ----------
        height : float or list of float, optional
            The heights of the cuts to mark. By default those of `suggest_cuts`.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.show.pictures.heights import CutMark, heights_picture  # noqa: PLC0415 - Bokeh is an extra

        heights = self.suggest_cuts()["height"].to_numpy() if height is None else _heights(height)
        counts = self._lives.counts(self._settings.sign * heights).tolist()
        marks = [CutMark(at, count) for at, count in zip(heights.tolist(), counts, strict=True)]
        return heights_picture(height_curve(self._lives), marks)

    def plot_sizes(self, height: float) -> Picture:
        """Plot the sizes of the clusters at a height.

        Parameters
        ----------
        height : float
            The height of the flat cut, as for `cut`.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.show.pictures.sizes import sizes_picture  # noqa: PLC0415 - Bokeh is an extra

        return sizes_picture(size_histogram(self._lives, checked_number("height", height)))

    def report(
        self,
        path: str | PathLike[str],
        *,
        height: ArrayLike | None = None,
        overwrite: bool = False,
        refresh: float | None = None,
        title: str | None = None,
    ) -> str:
        """Write a report as one self-contained HTML page that needs no network.

        It shows the parameters, facts about the input, plots, the largest clusters at a height chosen with a slider
        with their most central members, the tree to walk through and to search, remarks on what to be aware of,
        timings and versions. Nodes have their names, if they have any. The most central members of a cluster are
        those that merge first in it.

        Parameters
        ----------
        path : path or URL
            The file to write, such as `report.html`. An existing file is not overwritten by default.
        height : float or list of float, optional
            The heights of cuts to mark in addition to those of `suggest_cuts`.
        overwrite : bool
            Whether to replace `path` if it is such a report. Any other file is never replaced.
        refresh : float, optional
            The seconds after which a browser reloads the page, for the report of an unfinished run that is written
            repeatedly.
        title : str, optional
            The title of the page. By default the path of the store.

        Returns
        -------
        str
            `path`.
        """
        from dask_rac.show.report.page import check_report, check_title, write_report  # noqa: PLC0415 - Bokeh is an extra

        check_report(path, overwrite)
        if refresh is not None and not 0 < checked_number("refresh", refresh) < np.inf:
            raise InputError(f"refresh={refresh!r} is not a valid interval: give seconds, more than 0")
        check_title(title)
        heights = np.empty(0) if height is None else _heights(height)
        return write_report(path, self._subject().facts(heights, refresh, title), overwrite=overwrite)

    def _subject(self) -> Subject:
        """Return the content of a report."""
        from dask_rac.show.report.subject import Subject  # noqa: PLC0415 - Bokeh is an extra

        things = "pairs" if self._settings.metric else "edges"
        return Subject(
            "clustering in memory",
            "in memory",
            self._settings,
            self._records,
            self._lives,
            self.suggest_cuts(),
            self._phase_seconds(),
            {"nodes": f"{self.n_nodes:,}"} | ({things: f"{self._records[0].edges:,}"} if self._records else {}),
            self.facts(),
            versions(),
            known={"loops": self._loops},
            names=self.names,
        )

    def _phase_seconds(self) -> pd.DataFrame:
        """Return the seconds of each phase, one row per round."""
        return phase_table([round_phases(record) for record in self._records])


def phase_table(rows: Sequence[tuple[str, Mapping[str, float]]]) -> pd.DataFrame:
    """Return a table of seconds by name and phase, in the order of their first appearance."""
    phases = list(dict.fromkeys(phase for _, seconds in rows for phase in seconds))
    values = [[seconds.get(phase, 0.0) for phase in phases] for _, seconds in rows]
    return pd.DataFrame(values, [name for name, _ in rows], phases, dtype=float)


def round_phases(record: RoundRecord) -> tuple[str, dict[str, float]]:
    """Return the name of a round in memory, and the seconds of its phases."""
    name = "finisher" if record.finisher else str(record.round)
    return name, {phase: getattr(record, f"{phase}_seconds") for phase in PHASES}


def _heights(height: ArrayLike) -> NDArray[np.float64]:
    """Return a user's heights as an array."""
    try:
        heights = np.atleast_1d(np.asarray(height, np.float64))
    except (TypeError, ValueError):
        heights = np.full(1, np.nan)
    if heights.ndim > 1 or not np.isfinite(heights).all():
        raise InputError(f"height={height!r} is neither a number nor a list of them")
    return heights
