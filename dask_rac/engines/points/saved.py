"""The clusters of the points engine on disk: everything that rounds need, and nothing that follows from it."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from dask_rac.engines.points.state import CODES, Points, new_screen
from dask_rac.engines.rows.receipts import Job, fresh_name
from dask_rac.files.arrays import read_array, write_group
from dask_rac.files.folder import FileRecord
from dask_rac.kernels.points.arrays import Centroids, Frame, Groups, Lists, State

POINTS = "points"  # the group
WHOLE = ("mean", "entry")  # arrays of two dimensions, row after row
LIVE = (*Centroids._fields, *Lists._fields, *Groups._fields)


Bundle = TypeVar("Bundle", Centroids, Lists, Groups)


class Saved(NamedTuple):
    """Clusters on disk."""

    group: str
    files: tuple[FileRecord, ...]


def save_points(job: Job, points: Points, top: NDArray[np.float64] | None = None) -> Saved:
    """Write the clusters that live; `top` is the height of the last merge of each cluster, by its id."""
    points.close_up()
    _, centroids, frame, _, lists, groups = points.state
    arrays: dict[str, NDArray[Any]] = centroids._asdict() | lists._asdict() | groups._asdict()
    arrays["top"] = np.full(points.live, -np.inf) if top is None else top[groups.ids]
    arrays["centre"] = frame.centre
    arrays["scalars"] = np.array([frame.scale, frame.slack, frame.radius])
    name = fresh_name(job, POINTS)
    files = write_group(job.store, name, {key: array.reshape(-1) for key, array in arrays.items()})
    return Saved(name, tuple(files))


def _taken(kind: type[Bundle], arrays: dict[str, NDArray[Any]]) -> Bundle:
    """Return a bundle of arrays."""
    return kind(*(arrays[key] for key in kind._fields))


def load_points(job: Job, group: str, rounds: int) -> tuple[Points, NDArray[np.float64]]:
    """Read clusters after some rounds, and the height of the last merge of each node's cluster, by its id."""
    arrays = {key: read_array(job.store, f"{group}/{key}") for key in (*LIVE, "top", "centre", "scalars")}
    slots = len(arrays["ids"])
    for key in WHOLE:
        arrays[key] = arrays[key].reshape(slots, -1)
    code = CODES[job.settings.linkage, job.settings.metric]
    centroids, lists, groups = _taken(Centroids, arrays), _taken(Lists, arrays), _taken(Groups, arrays)
    frame = Frame(arrays["centre"], *arrays["scalars"].tolist())
    top = np.full(len(groups.after), -np.inf)
    top[groups.ids] = arrays["top"]
    return Points(State(code, centroids, frame, new_screen(code, centroids, frame), lists, groups), slots, rounds), top
