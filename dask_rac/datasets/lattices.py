"""Lattices of any size."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from dask_rac.base.checks import check_whole, check_word
from dask_rac.base.errors import InputError
from dask_rac.base.events import Event, Listener
from dask_rac.base.ids import edge_id_dtype
from dask_rac.base.names import part_name
from dask_rac.base.parameters import SETTINGS
from dask_rac.datasets.chance import FEWER_NODES
from dask_rac.edges.records import write_record
from dask_rac.edges.writing import FileSizes, NewFolder, edges_size, new_folder
from dask_rac.kernels.lattice import KEYS, Edges, Lattice, Places, Stencil, fill
from dask_rac.show.progress import listener_for
from dask_rac.tasks.client import choose_scheduler
from dask_rac.tasks.scheduler import Scheduler
from dask_rac.tasks.scratch import begin_task, borrow
from dask_rac.tasks.task_graph import spread

MOST_NODES = 2**62
MOST_DEGREE = 2**16


class Room(NamedTuple):
    """The buffers in which the edges of a row group are generated."""

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
    progress: Listener | bool | None = None,
) -> str:
    """Write a jittered 3-D lattice of any size as Parquet, about as fast as the disk can write.

    Every node lies at a random position in its own cell of a grid and has an edge to the nodes in the `degree` nearest
    cells. The grid is periodic. Ids are shuffled, so that their order carries no information. Equal arguments give
    equal files, on any machine and with any number of threads or workers. Memory use is about 20 MB per thread,
    regardless of the size of the graph.

    Parameters
    ----------
    nodes : int
        The number of nodes.
    degree : int
        The number of edges of each node, an even number. There are `nodes * degree / 2` edges in all. Half of `degree`
        must be small compared with `nodes`, or the neighbourhood would wrap around the grid and overlap itself.
    seed : int
        The seed of the weights and of the order of ids.
    store : path or URL
        The folder to create, of 12 bytes per edge (20 beyond 2**31 - 1 nodes). While it is being written, its name
        ends in `.partial` or, on an object store, it holds a file `_incomplete`. Existing files are never overwritten.
    weights : {"distance", "similarity"}
        The weights: Euclidean distances, where cells have sides of 1, or similarities, 1 / (1 + distance).
    client : distributed.Client, optional
        The client whose workers write the files. They must have access to `store`. By default the current client,
        otherwise the threads of this process.
    progress : callable or bool, optional
        As for `dask_rac.cluster`; reports the files written.

    Returns
    -------
    str
        `store`, for `dask_rac.cluster` or any Parquet reader: columns `source` and `target`, int32 (int64 beyond
        2**31 - 1 nodes), and `weight`, float32. Every edge occurs once.

    Raises
    ------
    InputError
        If a parameter is invalid, or the folder exists and is not empty. Raised before anything is written.
    ResourceError
        If the disk has too little space, or workers have no access to the folder. Raised before anything is written.

    Examples
    --------
    A billion edges, 12 GB: ``lattice(50_000_000, store="/data/lattice")``.
    """
    shape, stencil = plan(nodes, degree, seed, weights)
    with listener_for(progress) as report:
        write(shape, stencil, store, choose_scheduler(client), report)
    return fspath(store)


@dataclass(frozen=True)
class WriteLimits:
    """Numbers that decide how a lattice is written and never its edges; tests hand over smaller ones."""

    sizes: FileSizes = field(default_factory=FileSizes)
    """How edges are cut into files."""
    batch_files: int = 16
    """Files per thread between two checks for errors."""


def plan(nodes: int, degree: int, seed: int, weights: str) -> tuple[Lattice, Stencil]:
    """Check all parameters, and return the lattice to write."""
    check_whole("nodes", nodes, 3, MOST_NODES)
    check_whole("degree", degree, 2, MOST_DEGREE)
    check_whole("seed", seed, 0)
    if degree % 2:
        raise InputError(f"degree={degree} is odd: use {degree - 1} or {degree + 1}")
    check_word("weights", weights, SETTINGS["weights"].words)
    nodes, bits = int(nodes), (int(nodes) - 1).bit_length()
    row = round(math.cbrt(nodes))
    plane = row * round(math.sqrt(nodes / row))
    keys = np.random.SeedSequence(int(seed)).generate_state(KEYS, np.uint64).astype(np.uint64)
    shape = Lattice(nodes, row, plane, weights == "similarity", bits - bits // 2, bits // 2, keys)
    return shape, _stencil(shape, int(degree))


def write(
    shape: Lattice,
    stencil: Stencil,
    store: str | PathLike[str],
    scheduler: Scheduler,
    report: Listener,
    limits: WriteLimits | None = None,
) -> None:
    """Write all edges, one file per task."""
    limits = limits or WriteLimits()
    sizes = limits.sizes
    nodes, half, ids = shape.nodes, len(stencil.dx), edge_id_dtype(shape.nodes)
    step = min(max(1, sizes.group_edges // half), nodes)
    size = step * sizes.file_groups
    total = -(-nodes // size)
    with new_folder(store, edges_size(nodes * half, total * sizes.file_groups, ids), FEWER_NODES) as folder:
        scheduler.check(folder.folder)
        starts = [range(first, min(first + size, nodes), step) for first in range(0, nodes, size)]
        names = [part_name(file, len(str(total - 1))) for file in range(total)]
        tasks = [(folder, shape, stencil, name, span) for name, span in zip(names, starts, strict=True)]
        _run(scheduler, tasks, report, limits.batch_files)
        write_record(folder.folder, nodes * half, total)


def _run(scheduler: Scheduler, tasks: list[tuple[Any, ...]], report: Listener, batch_files: int) -> None:
    """Write all files in batches, and raise the first error once no task writes any more."""
    budget, done = scheduler.budget(None), 0
    batch = batch_files * budget.processes * budget.threads

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

    An error is returned, not raised: raising it would end the wait for the other files, and the folder would be deleted
    while they are written.
    """
    begin_task()
    ids = edge_id_dtype(shape.nodes)
    try:
        folder.write(name, _groups(shape, stencil, _room(stencil, starts.step, ids), starts))
    except Exception as error:
        return error
    return None


def _groups(shape: Lattice, stencil: Stencil, room: Room, starts: range) -> Iterator[list[NDArray[Any]]]:
    """Yield the edges of one range of nodes after the other, each in the same buffers."""
    for start in starts:
        stop = min(start + starts.step, shape.nodes)
        fill(shape, stencil, *room, (start, stop))
        yield [column[: (stop - start) * len(stencil.dx)] for column in room.edges]


def _room(stencil: Stencil, step: int, ids: np.dtype[Any]) -> Room:
    """Return buffers for the edges of `step` nodes."""
    edges, others = step * len(stencil.dx), step + int(np.ptp(stencil.dx))
    return Room(_places(step, ids), _places(others, ids), Edges(borrow(edges, ids), borrow(edges, ids), _floats(edges)))


def _places(count: int, ids: np.dtype[Any]) -> Places:
    """Return buffers for positions."""
    return Places(borrow(count, ids), _floats(count), _floats(count), _floats(count))


def _floats(count: int) -> NDArray[np.float32]:
    """Return a buffer for weights or jitters."""
    return borrow(count, np.float32)


def _stencil(shape: Lattice, degree: int) -> Stencil:
    """Return the nearest offsets of one half space, row by row."""
    offsets = _nearest_offsets(min(degree, shape.nodes - 1) // 2)
    steps = offsets @ np.array([shape.plane, shape.row, 1])
    around = np.stack((steps, -steps), axis=1).ravel() % shape.nodes
    again = np.ones(len(around), np.bool)
    again[np.unique(around, return_index=True)[1]] = False
    clash = np.flatnonzero(again | (around == 0))  # reached before, or the node itself
    fitting = int(clash[0]) // 2 if len(clash) else len(steps)
    if fitting < degree // 2:
        raise InputError(
            f"nodes={shape.nodes} are too few for degree={degree}, as edges would be self loops or duplicates: use "
            f"more nodes, or degree={2 * fitting} or less"
        )
    order = np.lexsort(offsets.T[::-1])
    dz, dy, dx = np.ascontiguousarray(offsets[order].T)
    return Stencil(dx, dy, dz)


def _nearest_offsets(count: int) -> NDArray[np.int64]:
    """Return the nearest `(dz, dy, dx)` of the half space above 0, by distance, equally near ones by value."""
    offsets, reach = np.empty((0, 3), np.int64), 0
    while len(offsets) < count:
        reach += 1
        side = np.arange(-reach, reach + 1)
        cube = np.stack(np.meshgrid(side, side, side, indexing="ij"), axis=-1).reshape(-1, 3)
        half = cube[len(cube) // 2 + 1 :]  # in order, so the origin is in the middle
        offsets = half[(half**2).sum(axis=1) <= reach**2]
    return offsets[np.argsort((offsets**2).sum(axis=1), kind="stable")[:count]]
