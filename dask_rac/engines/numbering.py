"""Number the nodes of edges whose ids are text, in the tasks of a run; `edges.shuffle` says how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dask_rac.base.events import Event
from dask_rac.base.names import NAMES, NUMBERED, attempt_folder, attempt_name, names_folder
from dask_rac.base.settings import Settings
from dask_rac.edges.checks import checked_weights
from dask_rac.edges.numbering import ENDS
from dask_rac.edges.shuffle import (
    NamedEdges,
    Piece,
    Shuffle,
    choose_splitters,
    cut_piece,
    merge_range,
    number_piece,
    united,
    write_pieces,
)
from dask_rac.edges.source import EdgeSource, open_edges
from dask_rac.edges.units import Unit
from dask_rac.engines.contract import Limits
from dask_rac.files.folder import Folder
from dask_rac.files.stored_names import NameSizes, NamesRecord
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.scheduler import Scheduler
from dask_rac.tasks.task_graph import TaskGraph

TASK_SHARE = 6  # a task holds up to so many times the names and edges that it numbers
ROW = 1024  # bytes that a row of text and what is made of it may take while it is decoded


@dataclass(frozen=True)
class Numbered:
    """Edges whose ids were text, with numbers in their place."""

    source: EdgeSource
    """The numbered edges."""
    names: NamesRecord


@dataclass(frozen=True)
class NumberingPlan:
    """Who numbers edges, with how much memory, and where."""

    folder: Folder
    scheduler: Scheduler
    budget: Budget
    settings: Settings
    limits: Limits
    attempt: str
    """The name of this attempt, which no other has."""
    keeps_names: bool = True
    """Whether the names stay, or go with everything else that is written."""

    @property
    def task(self) -> int:
        """Bytes that a task may hold."""
        return self.budget.process // self.budget.threads

    @property
    def rows(self) -> int:
        """Rows that a task decodes at a time."""
        return max(1, min(self.limits.batch_rows, self.task // ROW))

    @property
    def shuffle(self) -> Shuffle:
        """What the tasks receive."""
        scratch = attempt_folder(self.attempt)
        most = max(1, min(self.limits.text_bytes, self.task // TASK_SHARE))
        names = names_folder(self.attempt) if self.keeps_names else f"{scratch}/{NAMES}"
        return Shuffle(self.folder.url, scratch, names, f"{scratch}/{NUMBERED}", most, name_sizes(self.limits))


def new_attempt() -> str:
    """Return the name of an attempt to number the edges of a run, which is part of its first step."""
    return attempt_name(0)


def name_sizes(limits: Limits) -> NameSizes:
    """Return how names are cut into parts."""
    return NameSizes(limits.part_names, batch=min(NameSizes.batch, limits.part_names))


def number_edges(source: EdgeSource, plan: NumberingPlan, report: Any) -> Numbered:
    """Number the nodes of edges on disk; what is written counts once a manifest names it."""
    report(Event("load"))
    job = plan.shuffle
    found = plan.scheduler.compute(_piece_graph(source, plan, job), lambda *_: None)
    pieces = [piece for some in found.get(read_unit.__name__, []) for piece in some]
    splitters = choose_splitters(pieces, job.most)
    done = plan.scheduler.compute(_number_graph(pieces, splitters, plan.attempt, job), lambda *_: None)
    names = united(done[merge_range.__name__])
    return Numbered(open_edges(f"{job.url}/{job.numbered}"), names)


def read_unit(job: Shuffle, source: EdgeSource, unit: Unit, settings: Settings) -> list[Piece]:
    """The task: check a piece of the input, and write its edges as places among its names."""
    return list(write_pieces(job, _checked(source, unit, settings)))


def _checked(source: EdgeSource, unit: Unit, settings: Settings) -> Iterator[NamedEdges]:
    """Yield the edges of a unit, of which every row is checked."""
    for columns, where in source.read(unit):
        weight = columns["weight"]
        checked = checked_weights(weight, settings, where)
        yield *(columns[end] for end in ENDS), (weight if weight.dtype == "float32" else checked)


def _piece_graph(source: EdgeSource, plan: NumberingPlan, job: Shuffle) -> TaskGraph:
    """Read the whole input."""
    graph = TaskGraph(plan.attempt)
    given = graph.constant(replace(source, batch_rows=plan.rows), "source")
    for unit in source.units(plan.limits.unit_rows):
        graph.add(read_unit, job, given, unit, plan.settings)
    return graph


def _number_graph(pieces: list[Piece], splitters: list[bytes], token: str, job: Shuffle) -> TaskGraph:
    """Cut the names of all pieces into ranges, unite these, and number the edges."""
    graph = TaskGraph(token)
    given = graph.constant(pieces, "pieces")
    cuts = graph.gather([graph.add(cut_piece, job, piece, splitters) for piece in pieces], "cuts")
    ranges = graph.gather([graph.add(merge_range, job, given, cuts, n) for n in range(len(splitters) + 1)], "ranges")
    for number, piece in enumerate(pieces):
        graph.add(number_piece, job, piece, number, cuts, ranges)
    return graph
