"""The hierarchy that a report is about, and the facts that the report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dask_rac.base.events import RoundRecord
from dask_rac.base.settings import Settings
from dask_rac.files.node_names import NodeNames
from dask_rac.show.pictures.alpha_beta import alpha_beta_picture
from dask_rac.show.pictures.heights import CutMark, heights_picture
from dask_rac.show.pictures.phases import phases_picture
from dask_rac.show.pictures.picture import Picture
from dask_rac.show.pictures.rounds import rounds_picture
from dask_rac.show.pictures.sizes import sizes_picture
from dask_rac.show.report.facts import ReportFacts, Status, SuggestedCut
from dask_rac.show.report.findings import findings_of
from dask_rac.show.report.remarks import remarks_of
from dask_rac.show.report.walk import walkable_tree
from dask_rac.show.report.words import parameters_of, timings_of
from dask_rac.tree.lifetimes import Lifetimes
from dask_rac.tree.summary import Snapshot, height_curve, snapshots, thinned

POSITIONS = 130
"""Slider positions near the top of the tree; half as many more are spread over all of it."""
LAST = 50
"""The numbers of clusters, from the number of trees on, that all have a position of their own."""


@dataclass(frozen=True)
class Subject:
    """What a report is about."""

    name: str
    status: Status
    settings: Settings
    records: Sequence[RoundRecord]
    lives: Lifetimes
    cuts: pd.DataFrame
    """The suggested cuts, most stable first."""
    phases: pd.DataFrame
    """Seconds of each phase, one row per step."""
    graph: Mapping[str, str]
    """What is known of the input."""
    result: Mapping[str, str]
    """The result."""
    versions: Mapping[str, str]
    run: str | None = None
    """The store."""
    known: Mapping[str, int | str | None] = field(default_factory=dict)
    """Other fields of `Findings`."""
    names: NodeNames | None = None
    """The names of the nodes."""

    def facts(
        self, heights: NDArray[np.float64], refresh: float | None = None, title: str | None = None
    ) -> ReportFacts:
        """Return everything the page shows, with these heights marked; without merges there is no cut to choose."""
        marks = tuple(dict.fromkeys(heights.tolist())) if len(self.lives) else ()
        suggested: NDArray[np.float64] = self.cuts["height"].to_numpy()
        shown = snapshots(self.lives, [*self._positions(), *suggested.tolist(), *marks])
        by_height = {snapshot.height: snapshot for snapshot in shown}
        first = by_height[float(suggested[0])] if len(suggested) else None
        found = findings_of(
            self.settings, self.records, self.lives, status=self.status, run=self.run, cut=first, **self.known
        )
        return ReportFacts(
            self.name,
            self.status,
            self.lives.n_nodes,
            self.settings.weights == "similarity",
            parameters_of(self.settings),
            self.graph,
            self.result,
            self.run,
            self._pictures(first, [by_height[at] for at in (*suggested.tolist(), *marks)]),
            shown,
            tuple(
                SuggestedCut(*row)
                for row in self.cuts[["height", "n_clusters", "lifetime", "clear"]].itertuples(index=False)
            ),
            marks,
            self.settings.max_height,
            remarks_of(found),
            timings_of(self.phases, "step" if self.run else "round") if len(self.phases) else None,
            self.versions,
            refresh=refresh,
            title=title,
            tree=walkable_tree(self.lives, _clusters(shown), self.names) if len(self.lives) else None,
        )

    def _positions(self) -> list[float]:
        """Return heights for the slider."""
        last = self.lives.done(self.lives.distance[-LAST:])
        places = np.union1d(thinned(self.lives, POSITIONS), last) - 1
        positions: list[float] = (self.lives.sign * self.lives.distance[places] + 0.0).tolist()
        return positions

    def _pictures(self, first: Snapshot | None, marked: Sequence[Snapshot]) -> list[Picture]:
        """Return the pictures in the order of the page."""
        pictures = [rounds_picture(self.records, bool(self.settings.metric)), alpha_beta_picture(self.records)]
        if len(self.phases):
            pictures.append(phases_picture(self.phases))
        if not len(self.lives):
            return pictures
        marks = [CutMark(cut.height, cut.clusters) for cut in {cut.height: cut for cut in marked}.values()]
        pictures.append(heights_picture(height_curve(self.lives), marks))
        sizes = (first or snapshots(self.lives, self._positions()[-1:])[0]).sizes
        largest, most = int(self.lives.size.max()), self.lives.n_nodes  # for all positions of the slider
        return [*pictures, sizes_picture(sizes, largest=largest, most=most)]


def _clusters(shown: Sequence[Snapshot]) -> NDArray[np.int64]:
    """Return the clusters that are listed anywhere, each once."""
    return np.unique(np.array([cluster.index for snapshot in shown for cluster in snapshot.largest], np.int64))
