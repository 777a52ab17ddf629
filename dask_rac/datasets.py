"""Graphs and vectors of any size, to try things on."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from os import PathLike, fspath
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from dask_rac.arena import begin_task, borrow
from dask_rac.config import Event, Progress, Weights, check_whole, check_word
from dask_rac.errors import InputError
from dask_rac.graphs import spread
from dask_rac.kernels.lattice import KEYS, Edges, Lattice, Places, Stencil, fill
from dask_rac.progress import watcher
from dask_rac.standins import documents, sift
from dask_rac.store.edgelist import NewFolder, edges_size, new_folder
from dask_rac.workers import Scheduler, chosen

__all__ = ["documents", "lattice", "sift"]

GROUP_EDGES = 2**20  # a row group
FILE_GROUPS = 4
BATCH_FILES = 16  # for each thread, between two looks for errors
MOST_NODES = 2**62
MOST_DEGREE = 2**16


class Room(NamedTuple):
    """What the edges of a row group are made in."""

    own: Places
    others: Places
    edges: Edges


def lattice(
    nodes: int,
    degree: int = 40,
    seed: int = 0,
    store: str | PathLike[str] = "lattice",
    *,
    weights: str = "distance",
    client: Any = None,
    progress: Progress | bool | None = None,
) -> str:
    """Write a jittered 3-D lattice of any size as Parquet, about as fast as the disk takes it.

    Every node sits somewhere in its own cell of a grid and has an edge to the nodes in the `degree` nearest cells; the
    grid has no border. Ids are shuffled, so that nothing profits from their order. Equal arguments give equal files, on
    any machine and with any number of threads or workers. Memory does not grow with the graph: about 20 MB for each
    thread.

    Parameters
    ----------
    nodes : int
        The number of nodes.
    degree : int
        The edges at each node, an even number; there are `nodes * degree / 2` edges in all. Half of it must be few
        against the nodes, or the grid would meet itself.
    seed : int
        Other seeds give other weights and another shuffling.
    store : path or URL
        The folder to be made, 12 bytes for each edge (20 beyond 2**31 - 1 nodes). While it is written its name ends in
        `.partial`, or, on an object store, it holds a file `_incomplete`. What exists is never written over.
    weights : {"distance", "similarity"}
        Euclidean distances, where cells have sides of 1; or similarities, 1 / (1 + distance).
    client : distributed.Client, optional
        Whose workers write the files; they must see `store`. Without it, the current client's, else the threads of this
        process.
    progress : callable or bool, optional
        As for `dask_rac.cluster`; told of files.

    Returns
    -------
    str
        `store`, for `dask_rac.cluster` or any reader of Parquet: columns `source` and `target`, int32 (int64 beyond
        2**31 - 1 nodes), and `weight`, float32. Every edge is there once.

    Raises
    ------
    InputError
        If a parameter cannot be used, or the folder exists and is not empty; before anything is written.
    ResourceError
        If the disk has no room, or workers do not see the folder; before anything is written.

    Examples
    --------
    A billion edges, 12 GB: ``lattice(50_000_000, store="/data/lattice")``.
    """
    shape, stencil = plan(nodes, degree, seed, weights)
    with watcher(progress) as report:
        write(shape, stencil, store, chosen(client), report)
    return fspath(store)


def plan(nodes: int, degree: int, seed: int, weights: str) -> tuple[Lattice, Stencil]:
    """What is to be written, all parameters checked."""
    check_whole("nodes", nodes, 3, MOST_NODES)
    check_whole("degree", degree, 2, MOST_DEGREE)
    check_whole("seed", seed, 0)
    if degree % 2:
        raise InputError(f"degree={degree} is odd: use {degree - 1} or {degree + 1}")
    check_word("weights", weights, get_args(Weights))
    nodes, bits = int(nodes), (int(nodes) - 1).bit_length()
    row = round(math.cbrt(nodes))
    plane = row * round(math.sqrt(nodes / row))
    keys = np.random.SeedSequence(int(seed)).generate_state(KEYS, np.uint64).astype(np.uint64)
    shape = Lattice(nodes, row, plane, weights == "similarity", bits - bits // 2, bits // 2, keys)
    return shape, _stencil(shape, int(degree))


def write(shape: Lattice, stencil: Stencil, store: str | PathLike[str], scheduler: Scheduler, report: Progress) -> None:
    """Write all edges, a file a task."""
    nodes, half, ids = shape.nodes, len(stencil.dx), np.dtype(np.int32 if shape.nodes < 2**31 else np.int64)
    step = min(max(1, GROUP_EDGES // half), nodes)
    size = step * FILE_GROUPS
    total = -(-nodes // size)
    with new_folder(store, edges_size(nodes * half, total * FILE_GROUPS, ids)) as folder:
        scheduler.check(folder.folder)
        starts = [range(first, min(first + size, nodes), step) for first in range(0, nodes, size)]
        names = [f"part-{file:0{len(str(total - 1))}}.parquet" for file in range(total)]
        tasks = [(folder, shape, stencil, name, span) for name, span in zip(names, starts, strict=True)]
        _run(scheduler, tasks, report)


def _run(scheduler: Scheduler, tasks: list[tuple[Any, ...]], report: Progress) -> None:
    """Have all files written, some at a time, and raise the first error once nobody writes any more."""
    budget, done = scheduler.budget(None), 0
    batch = BATCH_FILES * budget.processes * budget.threads

    def watch(*_: Any) -> None:
        nonlocal done
        done += 1
        report(Event("generate", done=done, total=len(tasks)))

    for first in range(0, len(tasks), batch):
        graph = spread(write_file, uuid.uuid4().hex[:8], tasks[first : first + batch])
        errors = filter(None, scheduler.compute(graph, watch)[write_file.__name__])
        if (error := next(errors, None)) is not None:
            raise error


def write_file(folder: NewFolder, shape: Lattice, stencil: Stencil, name: str, starts: range) -> Exception | None:
    """Write the edges of one file's nodes.

    Returns the error, if there is one: raised, it would end the wait for the other files, and the folder be deleted
    under their hands.
    """
    begin_task()
    ids = np.dtype(np.int32 if shape.nodes < 2**31 else np.int64)
    try:
        folder.write(name, _groups(shape, stencil, _room(stencil, starts.step, ids), starts))
    except Exception as error:
        return error
    return None


def _groups(shape: Lattice, stencil: Stencil, room: Room, starts: range) -> Iterator[list[NDArray[Any]]]:
    """The edges of ranges of nodes in turn, each written over the one before."""
    for start in starts:
        stop = min(start + starts.step, shape.nodes)
        fill(shape, stencil, *room, (start, stop))
        yield [column[: (stop - start) * len(stencil.dx)] for column in room.edges]


def _room(stencil: Stencil, step: int, ids: np.dtype[Any]) -> Room:
    """Room for the edges of `step` nodes."""
    edges, others = step * len(stencil.dx), step + int(np.ptp(stencil.dx))
    return Room(_places(step, ids), _places(others, ids), Edges(borrow(edges, ids), borrow(edges, ids), _floats(edges)))


def _places(count: int, ids: np.dtype[Any]) -> Places:
    """Room for places."""
    return Places(borrow(count, ids), _floats(count), _floats(count), _floats(count))


def _floats(count: int) -> NDArray[np.float32]:
    """Room for weights or jitters."""
    return borrow(count, np.float32)


def _stencil(shape: Lattice, degree: int) -> Stencil:
    """The nearest offsets of one half space, row by row."""
    offsets = _nearest_offsets(min(degree, shape.nodes - 1) // 2)
    steps = offsets @ np.array([shape.plane, shape.row, 1])
    around = np.stack((steps, -steps), axis=1).ravel() % shape.nodes
    again = np.ones(len(around), np.bool)
    again[np.unique(around, return_index=True)[1]] = False
    clash = np.flatnonzero(again | (around == 0))  # met before, or the node itself
    fitting = int(clash[0]) // 2 if len(clash) else len(steps)
    if fitting < degree // 2:
        raise InputError(
            f"nodes={shape.nodes} are too few for degree={degree}, where edges would be loops or the same: use more "
            f"nodes, or degree={2 * fitting} or less"
        )
    order = np.lexsort(offsets.T[::-1])
    dz, dy, dx = np.ascontiguousarray(offsets[order].T)
    return Stencil(dx, dy, dz)


def _nearest_offsets(count: int) -> NDArray[np.int64]:
    """The nearest `(dz, dy, dx)` of the half space above 0, nearest first; of equally near ones, the smaller first."""
    found, reach = np.empty((0, 3), np.int64), 0
    while len(found) < count:
        reach += 1
        side = np.arange(-reach, reach + 1)
        cube = np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
        half = cube[len(cube) // 2 + 1 :]  # in order, so the origin is in the middle
        found = half[(half**2).sum(axis=1) <= reach**2]
    return found[np.argsort((found**2).sum(axis=1), kind="stable")[:count]]
