"""What a reader of a result should know: the observation, what it means, what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable

from dask_rac.base.settings import Settings
from dask_rac.show.report.facts import Remark
from dask_rac.show.report.findings import Findings
from dask_rac.show.report.words import counted, quoted, share
from dask_rac.tree.giant import chains_less, is_giant

TIES = 0.01
"""The share of merges at equal heights above which there is a remark."""

TAIL = 0.05
"""The share of merges by the finisher above which there is a remark."""

LARGE, ALONE = 0.5, 0.5
"""A cut is chained if one cluster has this share of all nodes, and this share of the clusters are single nodes; or if
one cluster is a giant."""


def remarks_of(found: Findings) -> tuple[Remark, ...]:
    """Return all remarks on a run, urgent ones first."""
    made = [rule(found) for rule in RULES]
    return tuple(sorted((remark for remark in made if remark is not None), key=lambda remark: not remark.urgent))


def _damaged(found: Findings) -> Remark | None:
    if found.damaged is None:
        return None
    return Remark(
        "damaged",
        f"{found.damaged} is damaged or missing",
        "A file of the store is missing or differs from what was written. This page shows the steps before it.",
        "Resume the run: it goes back to the newest intact step, and the result is the same as without the damage.",
        command=_resume(found),
        urgent=True,
    )


def _unfinished(found: Findings) -> Remark | None:
    if found.finished:
        return None
    so_far = f"{counted(found.merges, 'merge')} of at most {found.n_nodes - 1:,} so far" if found.n_nodes else ""
    title = {"running": "The run is in progress", "stopped": "The run was stopped"}.get(
        found.status, "The run is not finished"
    )
    meaning = (
        "Rounds do not proceed by height: merges at any height may still come. The clusters shown are parts of those "
        "of the finished tree, and no cut is final."
    )
    resumed = "it continues from the last part that is finished"
    resumed = resumed if found.settings.metric else "it continues from its last round"
    remedy = {
        "running": "Wait until it ends, then create the report again; --watch does so automatically.",
        "stopped": f"Resume it: {resumed}.",
    }.get(found.status, f"If no process is working on it any more, resume it: {resumed}.")
    return Remark(
        "unfinished",
        f"{title}: {so_far}" if so_far else title,
        meaning if found.merges else "There are no merges to show yet.",
        remedy,
        command="" if found.status == "running" else _resume(found),
        urgent=True,
    )


def _resume(found: Findings) -> str:
    return f"dask-rac resume {quoted(found.run)}" if found.run else ""


def _stopped_by_height(found: Findings) -> Remark | None:
    height = found.settings.max_height
    if not math.isfinite(height) or not found.finished or found.trees == 1:
        return None
    beyond = "below" if found.settings.weights == "similarity" else "above"
    lack = "some pair of their nodes has no edge" if _infinite(found) else "no path of edges joins them"
    never = "" if found.settings.metric else f" So do clusters that would never merge because {lack}."
    return Remark(
        "max_height",
        f"Nothing merges {beyond} {height:g}: {counted(found.trees, 'tree')}",
        f"With max_height={height!r}, clusters that would merge {beyond} it remain separate trees.{never}",
        "To get the rest of the hierarchy, if there is any, run it again without max_height.",
    )


def _infinite(found: Findings) -> bool:
    """Whether a single pair without an edge keeps two clusters apart."""
    return found.settings.missing == "infinite" and found.settings.linkage != "single"


def _forest(found: Findings) -> Remark | None:
    if found.trees <= 1 or not found.finished or math.isfinite(found.settings.max_height):
        return None
    infinite = _infinite(found)
    why = (
        "With missing='infinite', two clusters merge only if every pair of their nodes has an edge. Clusters that "
        "lack one stay apart."
        if infinite
        else "The graph is not connected: each component has its own tree, and no path leads from one to another. "
        "Components are never bridged silently."
    )
    remedy = (
        "A larger radius gives more pairs an edge; a number for missing= gives every pair a weight."
        if infinite
        else "If the graph was built from vectors, a larger k or radius joins components. If they are separate by "
        "nature, cut by height: fewer clusters than trees are not possible."
    )
    alone = f", including {counted(found.single, 'single node')}" if found.single else ""
    largest = f"; the largest has {share(found.largest, found.n_nodes)} of all nodes"
    return Remark("forest", f"{counted(found.trees, 'tree')}{alone}{largest}", why, remedy)


def _ties(found: Findings) -> Remark | None:
    if not found.merges or found.tied < TIES * found.merges:
        return None
    return Remark(
        "ties",
        f"{share(found.tied, found.merges)} of the merges share their height with another merge",
        "Where heights are equal, a hash decides what merges first: the same in every run, but without meaning. A cut "
        "by number of clusters may fall between equal heights. A cut by height never does.",
        _fewer_ties(found.settings),
    )


def _fewer_ties(settings: Settings) -> str:
    """Return what to do about ties; by complete linkage all clusters that lack an edge have the same distance."""
    if settings.linkage != "complete" or isinstance(settings.absent, str):
        return "Cut by height. If the weights were rounded, more digits give fewer ties."
    nearer = "below" if settings.weights == "distance" else "above"
    return (
        f"Cut at a height {nearer} {settings.absent:.6g}: there all clusters that lack an edge merge, in an order that "
        "says nothing. Average linkage tells them apart."
    )


def _long_tail(found: Findings) -> Remark | None:
    if not found.merges or found.settings.metric or (found.finisher < TAIL * found.merges and not found.deferred):
        return None
    by_finisher = f"The finisher did {share(found.finisher, found.merges)} of the merges"
    deferred = f"{counted(found.deferred, 'round')} ran instead of the finisher, which did not fit in memory"
    return Remark(
        "tail",
        deferred if found.deferred else by_finisher,
        "A giant cluster is the nearest of many others, so few pairs are each other's nearest, and a round merges "
        "little. The result is still exact; only the time is longer.",
        _shorter_tail(found),
    )


def _shorter_tail(found: Findings) -> str:
    """Return what would make the tail shorter, if anything."""
    far = "If nodes without an edge are far apart, use missing='far', the default: giant clusters then form later."
    ways = [far] if found.settings.missing == "ignore" else []
    ways += ["More memory lets the finisher take over."] if found.deferred else []
    return " ".join(ways) or "Nothing, if the time it takes is acceptable."


def _chained(found: Findings) -> Remark | None:
    cut = found.cut
    if cut is None or not cut.largest:
        return None
    size = cut.largest[0].size
    strays = size >= LARGE * found.n_nodes and 0 < cut.single >= ALONE * cut.clusters
    if not strays and not is_giant(size, found.n_nodes, cut.clusters):
        return None
    alone = f", and {counted(cut.single, 'node is', 'nodes are')} alone" if cut.single else ""
    settings = chains_less(found.settings)
    return Remark(
        "chained",
        f"At the first suggested cut, one cluster has {share(size, found.n_nodes)} of all nodes{alone}",
        "Often small clusters and single nodes join a giant one after another (chaining). The gaps between such merges "
        "are wide but say little about groups.",
        "Move the slider to a height with several large clusters, or leave out small ones with cut(min_size=...)."
        + (f" Or change a setting: {settings}." if settings else ""),
    )


def _loops(found: Findings) -> Remark | None:
    if not found.loops:
        return None
    return Remark(
        "loops",
        f"{counted(found.loops, 'self loop was', 'self loops were')} dropped",
        "An edge from a node to itself carries no information about clusters.",
        "Nothing, unless you expected none.",
    )


def _repeats(found: Findings) -> Remark | None:
    if not found.repeats:
        return None
    rule = found.settings.duplicates
    weights = (
        "Their weights agreed, or the run would have been refused."
        if rule == "error"
        else f"Where their weights differed, duplicates={rule!r} decided."
    )
    return Remark(
        "repeats",
        f"{counted(found.repeats, 'row repeats', 'rows repeat')} an edge",
        f"Each edge counts once; listing edges in both directions is common. {weights}",
        "Nothing, unless every edge should be listed only once.",
    )


RULES: tuple[Callable[[Findings], Remark | None], ...] = (
    _damaged,
    _unfinished,
    _stopped_by_height,
    _forest,
    _ties,
    _long_tail,
    _chained,
    _loops,
    _repeats,
)
