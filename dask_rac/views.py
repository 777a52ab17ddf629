"""What a hierarchy shows of itself: pictures, cuts worth a look, a report."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from dask_rac.config import RoundRecord, Settings, check_whole, check_word, checked_number
from dask_rac.errors import InputError
from dask_rac.lives import Lives
from dask_rac.summary import height_curve, size_histogram, suggested_cuts
from dask_rac.treetop import Branch, treetop
from dask_rac.workers import versions

if TYPE_CHECKING:
    from dask_rac.pictures.picture import Picture
    from dask_rac.report.subject import Subject

TOP_MERGES = 49
"""Of the tree in a report."""

PHASES = ("nearest", "match", "fold", "finish")
"""Of a round in memory."""


class Views(ABC):
    """What every hierarchy can show, whether its merges are in memory or in a store."""

    n_nodes: int
    _records: Sequence[RoundRecord]
    _settings: Settings
    _loops: int
    """Self loops that were dropped."""

    @property
    @abstractmethod
    def n_trees(self) -> int:
        """Trees of the hierarchy, single nodes among them."""

    @abstractmethod
    def facts(self) -> dict[str, str]:
        """What it is in a few words, by name."""

    @abstractmethod
    def _parts(self) -> Iterator[Mapping[str, NDArray[Any]]]:
        """The merges, some at a time."""

    @cached_property
    def _lives(self) -> Lives:
        """Every cluster from its making to its end."""
        return Lives.of(self.n_nodes, self._parts(), self._settings.sign)

    @property
    def _similarity(self) -> bool:
        return self._settings.weights == "similarity"

    def top(self, count: int = 12) -> list[Branch]:
        """The last merges as trees.

        Parameters
        ----------
        count : int
            How many merges to show; where they end, a branch tells its size and height.

        Returns
        -------
        list of Branch
            The roots of the trees that these merges are of, the largest first. A branch has `node` (its smallest),
            `size`, `height` and two `children`, or none where the tree is cut off.
        """
        check_whole("count", count, 1)
        return treetop(self._parts, count, self._settings.sign)

    def suggest_cuts(
        self, count: int = 5, *, by: str | None = None, min_size: int = 1, max_clusters: int | None = None
    ) -> pd.DataFrame:
        """The flat cuts that are most stable: those between whose two heights nothing changes for longest.

        Parameters
        ----------
        count : int
            How many to suggest, the most stable first.
        by : {"difference", "ratio"}, optional
            How long a cut lasts: the difference of the height at which the next merge ends it and the height at which
            it came about, or the logarithm of their ratio. By default differences of distances and ratios of
            similarities. Heights of 0 have no ratio.
        min_size : int
            Look only at how many clusters there are of so many nodes or more: stray nodes that join late then do not
            hide what the rest does.
        max_clusters : int, optional
            Suggest no cut with more of them. By default half the number of nodes: with more, most nodes are alone.

        Returns
        -------
        pandas.DataFrame
            A row a cut: `height`, for `cut(height=...)`, midway in the gap; `n_clusters` there; `start` and `end`, the
            heights between which it lasts; `lifetime`. With `min_size` also `large_clusters`, those of that size. There
            is no row where no cut lasts: all heights are equal, or all cuts have too many clusters.
        """
        check_whole("count", count, 1)
        check_whole("min_size", min_size, 1)
        if max_clusters is not None:
            check_whole("max_clusters", max_clusters, 2)
        most = max(2, self.n_nodes // 2) if max_clusters is None else max_clusters
        by = ("ratio" if self._similarity else "difference") if by is None else by
        check_word("by", by, ("difference", "ratio"))
        return suggested_cuts(self._lives, count, by, min_size, most)

    def plot_rounds(self) -> Picture:
        """Merges and clusters of each round, the finisher marked.

        Returns
        -------
        Picture
            Shown by itself in a notebook; `save("rounds.svg")` for a paper, or `.png`, `.html`.
        """
        from dask_rac.pictures.rounds import rounds_picture  # noqa: PLC0415 - Bokeh is an extra

        return rounds_picture(self._records)

    def plot_phases(self) -> Picture:
        """Where the time went: the seconds of each phase, round by round.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.pictures.phases import phases_picture  # noqa: PLC0415 - Bokeh is an extra

        return phases_picture(self._phase_seconds())

    def plot_alpha_beta(self) -> Picture:
        """The fraction of clusters merged in each round, and nearest updates a merge: what bounds the running time.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.pictures.alpha_beta import alpha_beta_picture  # noqa: PLC0415 - Bokeh is an extra

        return alpha_beta_picture(self._records)

    def plot_dendrogram(self, top: int = 50) -> Picture:
        """The top of the tree, whatever its size.

        Parameters
        ----------
        top : int
            How many branches to show; those that are cut off tell how many nodes they have.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.pictures.dendrogram import dendrogram_picture  # noqa: PLC0415 - Bokeh is an extra

        check_whole("top", top, 2)
        return dendrogram_picture(self.top(top - 1), self.n_trees, self._similarity)

    def plot_heights(self, height: ArrayLike | None = None) -> Picture:
        """The number of clusters against height, with cuts marked: how to choose one.

        Parameters
        ----------
        height : float or list of float, optional
            Cuts to mark; those of `suggest_cuts` by default.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.pictures.heights import CutMark, heights_picture  # noqa: PLC0415 - Bokeh is an extra

        heights = self.suggest_cuts()["height"].to_numpy() if height is None else _heights(height)
        counts = self._lives.counts(self._settings.sign * heights).tolist()
        marks = [CutMark(at, count) for at, count in zip(heights.tolist(), counts, strict=True)]
        return heights_picture(height_curve(self._lives), marks)

    def plot_sizes(self, height: float) -> Picture:
        """How large the clusters at a height are.

        Parameters
        ----------
        height : float
            Of the flat cut, as for `cut`.

        Returns
        -------
        Picture
            As from `plot_rounds`.
        """
        from dask_rac.pictures.sizes import sizes_picture  # noqa: PLC0415 - Bokeh is an extra

        return sizes_picture(size_histogram(self._lives, checked_number("height", height)))

    def report(
        self,
        path: str | PathLike[str],
        *,
        height: ArrayLike | None = None,
        overwrite: bool = False,
        refresh: float | None = None,
    ) -> str:
        """Write all there is to see as one page of HTML that needs no network.

        Parameters, facts of the input, pictures, the largest clusters at a height chosen by a slider, what to be aware
        of, timings, versions.

        Parameters
        ----------
        path : path or URL
            Where to, such as `report.html`. What exists is not written over.
        height : float or list of float, optional
            Cuts to mark beside those of `suggest_cuts`.
        overwrite : bool
            Whether to replace `path` if it is such a report. Anything else is never replaced.
        refresh : float, optional
            For a run on its way whose report is written again and again: after how many seconds a browser shall look.

        Returns
        -------
        str
            `path`.
        """
        from dask_rac.report.page import check_report, write_report  # noqa: PLC0415 - Bokeh is an extra

        check_report(path, overwrite)
        if refresh is not None and not 0 < checked_number("refresh", refresh) < np.inf:
            raise InputError(f"refresh={refresh!r} is no time to wait: give seconds, more than 0")
        heights = np.empty(0) if height is None else _heights(height)
        return write_report(path, self._subject().tell(heights, refresh), overwrite=overwrite)

    def _subject(self) -> Subject:
        """What a report is to tell."""
        from dask_rac.report.subject import Subject  # noqa: PLC0415 - Bokeh is an extra

        return Subject(
            "clustering in memory",
            "in memory",
            self._settings,
            self._records,
            self._lives,
            self.top(TOP_MERGES),
            self.suggest_cuts(),
            self._phase_seconds(),
            {"nodes": f"{self.n_nodes:,}"} | ({"edges": f"{self._records[0].edges:,}"} if self._records else {}),
            self.facts(),
            versions(),
            known={"loops": self._loops},
        )

    def _phase_seconds(self) -> pd.DataFrame:
        """Seconds of each phase, a row a round."""
        return phase_table([round_phases(record) for record in self._records])


def phase_table(rows: Sequence[tuple[str, Mapping[str, float]]]) -> pd.DataFrame:
    """Seconds by name and phase, in the order in which they come."""
    phases = list(dict.fromkeys(phase for _, seconds in rows for phase in seconds))
    values = [[seconds.get(phase, 0.0) for phase in phases] for _, seconds in rows]
    return pd.DataFrame(values, [name for name, _ in rows], phases, dtype=float)


def round_phases(record: RoundRecord) -> tuple[str, dict[str, float]]:
    """The name of a round in memory, and the seconds of its phases."""
    name = "finisher" if record.finisher else str(record.round)
    return name, {phase: getattr(record, f"{phase}_seconds") for phase in PHASES}


def _heights(height: ArrayLike) -> NDArray[np.float64]:
    """Heights that a user gave."""
    try:
        heights = np.atleast_1d(np.asarray(height, np.float64))
    except (TypeError, ValueError):
        heights = np.full(1, np.nan)
    if heights.ndim > 1 or not np.isfinite(heights).all():
        raise InputError(f"height={height!r} is neither a number nor a list of them")
    return heights
