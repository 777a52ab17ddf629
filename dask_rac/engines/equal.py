"""Equal vectors, merged at height 0 before an engine for all pairs runs: it then gets each vector once.

Vectors are equal if their values are the same as they are compared: minus zero is zero, and for cosines vectors are
divided by their length first. A hash of every vector finds the few that may be equal, and these are compared.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.spans import Span, even_spans, starts_of
from dask_rac.engines.contract import MergeList
from dask_rac.engines.forest.state import ForestEdges, ends_of, tree_order
from dask_rac.engines.start import Start, single_nodes
from dask_rac.kernels.arrays import Ends, Merges, empty_merges, part
from dask_rac.kernels.matrix.equal import GroupMerges, merge_groups, span_equals
from dask_rac.kernels.matrix.spanning import unite_spans
from dask_rac.kernels.vectors.equal import hash_dense, hash_sparse, same_dense, same_sparse
from dask_rac.kernels.vectors.pairs import COSINE, INNER
from dask_rac.tasks.team import Team
from dask_rac.vectors.compare.search import squares
from dask_rac.vectors.pairs.triangle import triangle_entries
from dask_rac.vectors.pairs.vector_pairs import VectorPairs
from dask_rac.vectors.sources.chosen import choose_rows, read_chosen
from dask_rac.vectors.sources.source import Block

PIECE = 2**22  # values that a thread hashes at a time
COMPARED = 2**24  # values compared at a time


def merge_equal(pairs: VectorPairs, team: Team, report: Listener, single: bool = False) -> tuple[Start, MergeList]:
    """Return the clusters of equal vectors, and their merges at height 0, by single linkage with their edges."""
    start = find_equal(pairs, team, report)
    if len(start.ids) == pairs.nodes:
        nothing = np.empty(0, np.int64)
        return start, MergeList(
            pairs.nodes,
            empty_merges(0, np.dtype(np.int64)),
            np.empty(0, np.int32),
            [],
            ends=Ends(nothing, nothing) if single else None,
        )
    member, begin = _groups(start)
    return start, (_span if single else _merge)(start, member, begin, team)


def distinct_pairs(pairs: VectorPairs, start: Start) -> VectorPairs:
    """Return the pairs of one vector of each cluster; the same object if no two are equal."""
    if len(start.ids) == pairs.nodes:
        return pairs
    return VectorPairs(choose_rows(pairs.source, start.ids), pairs.metric, pairs.squares)


def find_equal(pairs: VectorPairs, team: Team, report: Listener) -> Start:
    """Return the clusters of equal vectors; by inner product, where equal vectors are not the nearest, single nodes."""
    if pairs.metric.code == INNER or pairs.nodes < 2:
        return single_nodes(pairs.nodes)
    hashes, lengths = _hash_rows(pairs, team, report)
    order = np.argsort(hashes, kind="stable")
    order = order[_repeated(hashes[order])]
    if not len(order):
        return single_nodes(pairs.nodes)
    first = np.arange(pairs.nodes)
    while len(order):  # again only where vectors that differ have the same hash
        order = _settle(pairs, hashes, lengths, order, first)
    ids = np.flatnonzero(first == np.arange(pairs.nodes))
    size = np.bincount(first, minlength=pairs.nodes)[ids]
    return Start(ids, size.astype(np.float64), np.argsort(first, kind="stable"), starts_of(size))


def _hash_rows(pairs: VectorPairs, team: Team, report: Listener) -> tuple[NDArray[np.uint64], NDArray[np.float64]]:
    """Return a hash of each vector, and for cosines its length."""
    source = pairs.source
    hashes = np.empty(pairs.nodes, np.uint64)
    lengths = np.empty(pairs.nodes if pairs.metric.code == COSINE else 0)
    # At least two rows each: numpy sums the squares of a single long row in another order.
    spans = even_spans(pairs.nodes, min(pairs.nodes // 2, max(team.threads, source.entries // PIECE)))
    report(Event("vectors", n_nodes=pairs.nodes, total=len(spans)))

    def hash_span(span: Span) -> None:
        block, place = source.read(*span), slice(*span)
        if len(lengths):
            lengths[place] = np.sqrt(squares(block))
        if isinstance(block, np.ndarray):
            hash_dense(block, lengths[place], hashes[place])
        else:
            hash_sparse((block.indptr, block.indices, block.data), lengths[place], hashes[place])

    team.run(hash_span, spans)
    return hashes, lengths


def _repeated(values: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Tell which of some ordered values occur more than once."""
    repeated = np.zeros(len(values), np.bool_)
    same = values[1:] == values[:-1]
    repeated[1:] |= same
    repeated[:-1] |= same
    return repeated


def _settle(
    pairs: VectorPairs,
    hashes: NDArray[np.uint64],
    lengths: NDArray[np.float64],
    order: NDArray[np.int64],
    first: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Compare vectors, ordered by hash, with the first of the same hash; return those that have to go on."""
    begins = np.flatnonzero(np.concatenate(([True], hashes[order][1:] != hashes[order][:-1])))
    leader = np.repeat(order[begins], np.diff(np.append(begins, len(order))))
    same = np.empty(len(order), np.bool_)
    step = max(1, COMPARED * pairs.nodes // max(1, pairs.source.entries))
    for place in range(0, len(order), step):
        batch = slice(place, place + step)
        same[batch] = _same(pairs, lengths, order[batch], leader[batch])
    first[order[same]] = leader[same]
    rest = order[~same]
    return rest[_repeated(hashes[rest])]


def _same(
    pairs: VectorPairs, lengths: NDArray[np.float64], rows: NDArray[np.int64], leader: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Tell of some vectors whether they equal their leaders."""
    chosen, place = np.unique(np.concatenate((rows, leader)), return_inverse=True)
    block: Block = read_chosen(pairs.source, chosen)
    other = np.arange(len(chosen))
    other[place[: len(rows)]] = place[len(rows) :]
    same = np.empty(len(chosen), np.bool_)
    own = lengths[chosen] if len(lengths) else lengths
    if isinstance(block, np.ndarray):
        same_dense(block, own, other, same)
    else:
        same_sparse((block.indptr, block.indices, block.data), own, other, same)
    found: NDArray[np.bool_] = same[place[: len(rows)]]
    return found


def _groups(start: Start) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the nodes of clusters of two or more, and where those of each begin."""
    several = start.size > 1
    member = start.member[np.repeat(several, np.diff(start.begin))]
    return member, starts_of(np.diff(start.begin)[several])


def _merge(start: Start, member: NDArray[np.int64], begin: NDArray[np.int64], team: Team) -> MergeList:
    """Merge groups of equal vectors, in the order in which rounds on a triangle list merges."""
    count = len(member) - (len(begin) - 1)
    columns = [np.empty(count, np.int64) for _ in range(4)]
    found = GroupMerges(columns[0], columns[1], columns[2], np.empty(count, np.int32), columns[3])
    team.run(lambda span: merge_groups(member, begin, found, span), team.spans(begin))
    order = np.lexsort((-found.last, found.round))
    when = found.round[order]
    merges = Merges(found.left[order], found.right[order], np.zeros(count), found.size[order])
    return MergeList(start.nodes, merges, when, _records(start.nodes, when))


def _records(nodes: int, when: NDArray[np.int32]) -> list[RoundRecord]:
    """Return what each round did."""
    merges = np.bincount(when)[1:]
    clusters = nodes - starts_of(merges)[:-1]
    return [
        RoundRecord(live, triangle_entries(live), merged, round=number)
        for number, (live, merged) in enumerate(zip(clusters.tolist(), merges.tolist(), strict=True), 1)
    ]


def _span(start: Start, member: NDArray[np.int64], begin: NDArray[np.int64], team: Team) -> MergeList:
    """Merge groups of equal vectors by single linkage: the edges of their spanning trees, in order."""
    count = len(member) - (len(begin) - 1)
    tree = ForestEdges(np.empty(count, np.int64), np.empty(count, np.int64), np.zeros(count))
    team.run(lambda span: span_equals(member, begin, (tree.source, tree.target), span), team.spans(begin))
    merges, order = empty_merges(start.nodes, np.dtype(np.int64)), tree_order(tree)
    forest = np.arange(start.nodes), np.ones(start.nodes, np.int64)
    unite_spans(order, tree, forest, np.inf, merges)
    record = RoundRecord(start.nodes, triangle_entries(start.nodes), count, finisher=True, round=1)
    when = np.ones(count, np.int32)
    return MergeList(start.nodes, part(merges, None, count), when, [record], ends=ends_of(tree, order))
