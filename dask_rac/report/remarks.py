"""What a reader of a result should know: what is the case, what it means, what to do about it."""

from __future__ import annotations

import math
from collections.abc import Callable

from dask_rac.config import Settings
from dask_rac.report.facts import Remark
from dask_rac.report.findings import Findings
from dask_rac.report.words import counted, quoted, share

TIES = 0.01
"""The share of merges at equal heights from which on it is told."""

TAIL = 0.05
"""The share of merges by the finisher from which on it is told."""

GIANT, ALONE = 0.5, 0.5
"""A cut is chained if one cluster has this share of all nodes, and this share of the clusters are single nodes."""


def remarks_of(found: Findings) -> tuple[Remark, ...]:
    """All that is to be said of a run, what is urgent first."""
    made = [rule(found) for rule in RULES]
    return tuple(sorted((remark for remark in made if remark is not None), key=lambda remark: not remark.urgent))


def _damaged(found: Findings) -> Remark | None:
    if found.damaged is None:
        return None
    return Remark(
        "damaged",
        f"{found.damaged} is damaged",
        "A file of the store is missing or is not what was written. What is shown are the steps before it.",
        "Resume the run: it goes back to the last step that is sound, and the result is as if nothing had happened.",
        command=_resume(found),
        urgent=True,
    )


def _unfinished(found: Findings) -> Remark | None:
    if found.finished:
        return None
    so_far = f"{counted(found.merges, 'merge')} of at most {found.n_nodes - 1:,} so far" if found.n_nodes else ""
    title = {"running": "The run is on its way", "stopped": "The run was stopped"}.get(
        found.status, "The run is not finished"
    )
    meaning = (
        "Rounds do not go by height: merges at every height may still come, so that clusters here are parts of those "
        "of the finished tree, and no cut is final."
    )
    remedy = {
        "running": "Wait for its end, then make the report again; with --watch that happens by itself.",
        "stopped": "Resume it: it goes on from its last round.",
    }.get(found.status, "If no process works on it any more, resume it: it goes on from its last round.")
    return Remark(
        "unfinished",
        f"{title}: {so_far}" if so_far else title,
        meaning if found.merges else "There is no merge to show yet.",
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
    return Remark(
        "max_height",
        f"Nothing merges {beyond} {height:g}: {counted(found.trees, 'tree')}",
        f"With max_height={height!r} clusters that would merge {beyond} it stay trees of their own. So do any that "
        f"would never merge, as {lack}.",
        "For the rest of the hierarchy, if there is any, run it again without max_height.",
    )


def _infinite(found: Findings) -> bool:
    """Whether one pair without an edge keeps two clusters apart."""
    return found.settings.missing == "infinite" and found.settings.linkage != "single"


def _forest(found: Findings) -> Remark | None:
    if found.trees <= 1 or not found.finished or math.isfinite(found.settings.max_height):
        return None
    infinite = _infinite(found)
    why = (
        "With missing='infinite' two clusters merge only if every pair of their nodes has an edge. Clusters that lack "
        "one stay apart."
        if infinite
        else "The graph is not connected: each of its components has a tree of its own, and no path leads from one to "
        "another. They are never bridged silently."
    )
    remedy = (
        "A larger radius gives more pairs an edge; a number for missing= gives one to all."
        if infinite
        else "A larger k or radius joins components, if the graph was made from vectors. If they are apart by nature, "
        "cut by height: a number of clusters below the number of trees is not to be had."
    )
    alone = f", {counted(found.single, 'single node')} among them" if found.single else ""
    largest = f"; the largest has {share(found.largest, found.n_nodes)} of all nodes"
    return Remark("forest", f"{counted(found.trees, 'tree')}{alone}{largest}", why, remedy)


def _ties(found: Findings) -> Remark | None:
    if not found.merges or found.tied < TIES * found.merges:
        return None
    return Remark(
        "ties",
        f"{share(found.tied, found.merges)} of the merges have a height that another has, too",
        "Where heights are equal, a hash decides what merges first: the same in every run, and without a meaning. A "
        "cut by number of clusters may come between equals. A cut by height never does.",
        "Cut by height. If weights were rounded on their way here, finer ones have fewer ties.",
    )


def _long_tail(found: Findings) -> Remark | None:
    if not found.merges or (found.finisher < TAIL * found.merges and not found.deferred):
        return None
    by_finisher = f"The finisher did {share(found.finisher, found.merges)} of the merges"
    deferred = f"{counted(found.deferred, 'round')} ran in the place of the finisher, which had no room"
    return Remark(
        "tail",
        deferred if found.deferred else by_finisher,
        "A giant cluster is the nearest of many others, so that few pairs are each other's nearest, and a round merges "
        "little. The result is exact all the same; such a tail costs time.",
        _shorter_tail(found),
    )


def _shorter_tail(found: Findings) -> str:
    """What makes a tail shorter, if anything does."""
    far = "If two nodes without an edge are far apart, a number for missing= says so, and giants grow later."
    ways = [far] if found.settings.missing == "ignore" else []
    ways += ["More memory lets the finisher take over."] if found.deferred else []
    return " ".join(ways) or "Nothing, if the time that it takes is no matter."


def _chained(found: Findings) -> Remark | None:
    cut = found.cut
    if cut is None or not cut.largest or cut.largest[0].size < GIANT * found.n_nodes:
        return None
    if not cut.single or cut.single < ALONE * cut.clusters:
        return None
    return Remark(
        "chained",
        f"At the first suggested cut one cluster has {share(cut.largest[0].size, found.n_nodes)} of all nodes, and "
        f"{counted(cut.single, 'node is', 'nodes are')} alone",
        "Single nodes join a giant one after another (chaining). Gaps between such merges are wide and tell little "
        "about groups.",
        "Move the slider to where several clusters are large, or look at suggest_cuts(min_size=...), which leaves "
        "small ones out." + _chains_less(found.settings),
    )


def _chains_less(settings: Settings) -> str:
    """Other settings that make fewer chains, if there are any; `missing` does not matter to single linkage."""
    if settings.linkage == "single":
        return " Average or complete linkage chains less than single."
    filled = " A number for missing=, instead of 'ignore', often chains less." if settings.missing == "ignore" else ""
    return filled + (" Complete linkage often chains less than average." if settings.linkage == "average" else "")


def _loops(found: Findings) -> Remark | None:
    if not found.loops:
        return None
    return Remark(
        "loops",
        f"{counted(found.loops, 'self loop was', 'self loops were')} dropped",
        "An edge from a node to itself says nothing about clusters.",
        "Nothing, unless there should be none.",
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
        f"{counted(found.repeats, 'row names', 'rows name')} an edge again",
        f"Each edge counts once; edges listed in both directions are usual. {weights}",
        "Nothing, unless every edge should be listed once.",
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
