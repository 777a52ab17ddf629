"""What `Clustering.scores` returns: all flat cuts against known classes, and the tree against its edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pandas as pd

from dask_rac.base.errors import InputError
from dask_rac.base.public import public
from dask_rac.show.cards import card

if TYPE_CHECKING:
    from dask_rac.show.pictures.picture import Picture

MEASURE_NAMES = {
    "ari": "adjusted Rand index",
    "nmi": "normalized mutual information",
    "ami": "adjusted mutual information",
}


@public
@dataclass(frozen=True, eq=False, repr=False)
class Scores:
    """How a hierarchy agrees with known classes, and with its own edges, as returned by `Clustering.scores`."""

    curve: pd.DataFrame
    """One row per flat cut, from the nearest merges to the farthest, thinned if there are many: `height` and
    `n_clusters` of the cut, `ari`, `mi` (in nats), `nmi` and, if computed, `ami`. The first row is the cut before any
    merge, whose height is infinite. The best cuts are always among the rows."""
    best: pd.DataFrame
    """The best of all flat cuts by `ari`, `nmi` and, if computed, `ami`: `height`, `n_clusters` and `score`. Of equally
    good ones, the one with the most clusters."""
    purity: float
    """Dendrogram purity, from 0 to 1; NaN if no two nodes share a class."""
    n_nodes: int
    """The number of nodes of the clustering."""
    n_labelled: int
    """The number of nodes with a class; the others are left out of all measures of classes."""
    n_classes: int
    """The number of classes that some node has."""
    similarity: bool
    """Whether large heights are close."""
    cophenetic: float | None = None
    """Cophenetic correlation over the edges; None without edges, NaN if weights or heights are all equal."""
    dasgupta: float | None = None
    """Dasgupta's cost over the edges; None without edges."""
    n_edges: int | None = None
    """The number of edges between nodes of one tree; None without edges."""
    n_unjoined: int | None = None
    """The number of edges between different trees; None without edges."""

    def plot(self) -> Picture:
        """Plot the measures against the height of the cut, with the best cut by each marked.

        Returns
        -------
        Picture
            A notebook displays it; `save("scores.svg")` writes it to a file, also as `.png` or `.html`.
        """
        if not self.n_labelled:
            raise InputError("there is no curve to plot without known classes: call scores(labels)")
        from dask_rac.show.pictures.scores import scores_picture  # noqa: PLC0415 - Bokeh is an extra

        return scores_picture(self.curve, self.best, self.similarity)

    def facts(self) -> dict[str, str]:
        """Return a short description, as text by name."""
        facts = self._class_facts() if self.n_labelled else {"nodes": f"{self.n_nodes:,}"}
        if self.cophenetic is not None:
            facts["cophenetic correlation"] = f"{self.cophenetic:.4f}"
            facts["Dasgupta's cost"] = f"{self.dasgupta:.6g}"
            facts["edges"] = f"{self.n_edges:,} in a tree, {self.n_unjoined:,} between trees"
        return facts

    def _class_facts(self) -> dict[str, str]:
        """Return what compares the tree with known classes."""
        facts = {"nodes": f"{self.n_labelled:,} of {self.n_nodes:,} in {self.n_classes:,} classes"}
        for name, row in self.best.iterrows():
            at = f"{row['n_clusters']:,.0f} clusters, height {row['height']:.6g}"
            facts[MEASURE_NAMES[str(name)]] = f"{row['score']:.4f} at best, {at}"
        return facts | {"dendrogram purity": f"{self.purity:.4f}"}

    def __repr__(self) -> str:
        return f"<Scores: {', '.join(f'{name}: {value}' for name, value in self.facts().items())}>"

    def _repr_html_(self) -> str:
        return card("dask_rac.Scores", self.facts())
