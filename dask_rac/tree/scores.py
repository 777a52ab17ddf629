"""Every flat cut of a hierarchy against known classes, in one pass over its merges.

1. Merges are in the order of `tree.order`. A flat cut takes all merges up to a height, so of merges at equal heights
   only the last one ends a cut; the first cut takes none.
2. `kernels.tree.scores` follows the counts that every measure is made of, some merges at a time; `tree.agreement`
   makes the measures. The best of each is found over all cuts, and few cuts are kept for the curve.
3. The purity of the lowest cluster that two nodes of a class share, over all such pairs, comes out on the way. Nodes
   in different trees share no cluster but that of all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from dask_rac.base.ids import cluster_id_dtype
from dask_rac.base.spans import batches, starts_of
from dask_rac.kernels import audit
from dask_rac.kernels.tree import scores as kernels
from dask_rac.tree.agreement import Agreement, pairs_of
from dask_rac.tree.chance import ChanceTable, chance_table
from dask_rac.tree.ordered import Codes, OrderedMerges
from dask_rac.tree.summary import thinned_places

MEASURES = ("ari", "nmi", "ami")
"""Measures by which a cut can be the best."""
CURVE = ("height", "n_clusters", "ari", "mi", "nmi")
"""The columns of a curve, without what chance gives."""
SPAN = 1 << 19
"""Merges followed at a time, so that what is kept of each is not kept of all."""


@dataclass(frozen=True)
class ClassScores:
    """How the cuts of a hierarchy agree with known classes."""

    curve: pd.DataFrame
    """Some cuts, from the nearest to the farthest, those that are best by a measure among them."""
    best: pd.DataFrame
    """The best of all cuts by each measure."""
    purity: float
    """The dendrogram purity; NaN if no two nodes share a class."""


def unscored() -> ClassScores:
    """Return what there is to say without known classes."""
    return ClassScores(pd.DataFrame(columns=CURVE), pd.DataFrame(columns=("height", "n_clusters", "score")), np.nan)


def class_scores(tree: OrderedMerges, code: Codes, points: int | None, chance: bool | None) -> ClassScores:
    """Score all flat cuts; see `Clustering.scores`."""
    sizes = np.bincount(code[code >= 0])
    table = chance_table(tree, code, sizes, chance)
    walk = _Walk(tree, code, sizes, table)
    measures = MEASURES if table is not None else MEASURES[:-1]
    wanted = np.append(0, _places(tree, points))
    kept: list[pd.DataFrame] = []
    best: dict[str, pd.DataFrame] = {}
    for places, agreement in walk.cuts():
        found = _measured(places, agreement, measures)
        kept.append(found[np.isin(places, wanted)])
        for name in measures:
            top = found.iloc[[int(found[name].to_numpy().argmax())]]
            if name not in best or top[name].item() > best[name][name].item():
                best[name] = top
    rows = pd.concat([*kept, *best.values()]).drop_duplicates("merges").sort_values("merges", ignore_index=True)
    return ClassScores(_placed(tree, rows), _best(tree, best), walk.purity())


def _measured(places: NDArray[np.int64], agreement: Agreement, measures: Sequence[str]) -> pd.DataFrame:
    """Return the measures of some cuts, one row each."""
    columns = {"merges": places, "ari": agreement.ari(), "mi": agreement.mi(), "nmi": agreement.nmi()}
    return pd.DataFrame(columns | ({"ami": agreement.ami()} if "ami" in measures else {}))


def _best(tree: OrderedMerges, best: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the best cut by each measure, one row each."""
    score = [row[name].item() for name, row in best.items()]
    rows = _placed(tree, pd.concat([row[["merges"]] for row in best.values()], ignore_index=True))
    return rows.assign(score=score).set_axis(pd.Index(list(best), name="measure"))


def _places(tree: OrderedMerges, points: int | None) -> NDArray[np.int64]:
    """Return the numbers of merges of the cuts to keep: all, or as many as a curve can show."""
    distance = tree.distance
    if points is None:
        return _ends(distance, 0, len(distance)) + 1
    return thinned_places(distance, points)


def _ends(distance: NDArray[np.float64], start: int, stop: int) -> NDArray[np.int64]:
    """Return which of some merges are the last ones at their height."""
    following = np.append(distance[start + 1 : stop + 1], np.inf)[: stop - start]
    return start + np.flatnonzero(distance[start:stop] != following)


def _placed(tree: OrderedMerges, rows: pd.DataFrame) -> pd.DataFrame:
    """Return cuts with heights and numbers of clusters in place of numbers of merges."""
    merges = rows.pop("merges").to_numpy()
    height = np.append(-np.inf * tree.sign, tree.merges.height + 0.0)[merges]
    rows.insert(0, "height", height)
    rows.insert(1, "n_clusters", tree.n_nodes - merges)
    return rows


class _Walk:
    """The pass over the merges: counts of classes in clusters, and the sums that measures are made of."""

    def __init__(self, tree: OrderedMerges, code: Codes, sizes: NDArray[np.int64], table: ChanceTable | None) -> None:
        self._tree, self._sizes, self._table = tree, sizes, table
        self._runs = _runs(tree, code, sizes)
        self._count = (code >= 0).astype(cluster_id_dtype(tree.n_nodes))
        self._totals = kernels.Totals(np.zeros(2, np.int64), np.zeros((2, 4)))
        if table is not None:
            self._totals.real[0, 2] = table.start()

    def cuts(self) -> Iterator[tuple[NDArray[np.int64], Agreement]]:
        """Yield the numbers of merges of some cuts, and how these agree with the classes; first that of no merge."""
        distance = self._tree.distance
        whole, real = self._totals
        none = kernels.Sums(whole[:1].copy(), whole[1:].copy(), real[0, [0]], real[0, [1]], real[0, [2]])
        yield np.zeros(1, np.int64), Agreement(none, self._sizes)
        for start, stop in batches(0, len(self._tree), SPAN):
            sums = self._follow(start, stop)
            ends = _ends(distance, start, stop)
            if len(ends):
                yield ends + 1, Agreement(_at(sums, ends - start), self._sizes)

    def _follow(self, start: int, stop: int) -> kernels.Sums:
        """Return the sums after each of some merges."""
        left, right = self._tree.merges.left[start:stop], self._tree.merges.right[start:stop]
        length = stop - start
        chance = np.zeros(length) if self._table is None else self._table.changes(left, right)
        pairs, together = np.empty((2, length), np.int64)
        joint, own = np.empty((2, length))
        sums = kernels.Sums(pairs, together, joint, own, chance)
        runs = self._runs._replace(first=self._runs.first[start:stop])
        kernels.follow_classes(left, right, runs, self._count, self._totals, sums)
        return sums

    def purity(self) -> float:
        """Return the dendrogram purity, once all cuts were asked for."""
        alike = pairs_of(self._sizes)
        if not alike:
            return float("nan")
        total = float(self._totals.real[:, 3].sum())
        return (total + self._apart()) / alike

    def _apart(self) -> float:
        """Return the purity of all nodes, for each pair of a class that no merge joins."""
        joined = np.zeros(len(self._sizes), np.int64)
        kernels.joined_pairs(self._runs.end, starts_of(self._sizes), joined)
        apart = self._sizes * (self._sizes - 1) // 2 - joined
        return float((apart * (self._sizes / self._sizes.sum())).sum())


def _at(sums: kernels.Sums, places: NDArray[np.int64]) -> kernels.Sums:
    """Return the sums at some places."""
    pairs, together, joint, own, chance = sums
    return kernels.Sums(pairs[places], together[places], joint[places], own[places], chance[places])


def _runs(tree: OrderedMerges, code: Codes, sizes: NDArray[np.int64]) -> kernels.Runs:
    """Return each labelled node as a run of its own, and the gaps that each merge closes."""
    ids = cluster_id_dtype(tree.n_nodes)
    leaf, position = np.empty(tree.n_nodes, ids), tree.leaves.position
    leaf[position] = np.arange(tree.n_nodes, dtype=ids)
    starts = starts_of(sizes)
    member = np.empty(starts[-1], ids)
    kernels.list_members(leaf, code, starts[:-1].copy(), member)
    del leaf
    merge = np.full(len(member), len(tree), ids)  # the last node of a class has no gap after it
    for start, stop in batches(0, len(member) - 1, SPAN):
        one, other = member[start:stop].astype(np.int64), member[start + 1 : stop + 1].astype(np.int64)
        audit.find_merges(one, other, tree.leaves, len(tree), merge[start:stop])
    merge[starts[1:] - 1] = len(tree)
    first, after = np.full(len(tree), -1, ids), np.full(len(member), -1, ids)
    kernels.chain_gaps(merge, first, after)
    return kernels.Runs(first, after, np.arange(len(member), dtype=ids))
