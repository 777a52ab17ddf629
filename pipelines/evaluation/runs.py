"""One measured run: a stand-in is generated, joined to a graph if it has one, and clustered round by round."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import dask_rac
from evaluation.sets import NEIGHBOURS, REPORTED, Job

Result = dict[str, Any]


@dataclass
class Watch:
    """A listener that writes down when rounds and stages end, by the clock and in processor seconds of all threads.

    Equal vectors merge before the first round; no event tells of it.
    """

    rounds: list[tuple[float, ...]] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)
    """Processor seconds of each stage; rounds are counted apart."""
    stage: str = "start"
    last: tuple[float, float] = field(default_factory=lambda: (perf_counter(), process_time()))

    def __call__(self, event: dask_rac.Event) -> None:
        """Take the time since the last event for the round that has ended, or for the stage before."""
        now = perf_counter(), process_time()
        seconds, processor = (new - old for new, old in zip(now, self.last, strict=True))
        if event.record is None:
            self._count(processor)
            self.stage = event.stage
        else:
            record, before = event.record, 0.0
            if not self.rounds:  # graphs report nothing between loading and the end of the first round
                own = record.nearest_seconds + record.match_seconds + record.fold_seconds
                before = max(0.0, 1 - own / seconds)
                self._count(before * processor)
            counts = record.clusters, record.edges, record.merges, record.nearest_updates
            self.rounds.append((*counts, round((1 - before) * seconds, 6), round((1 - before) * processor, 6)))
        self.last = now

    def _count(self, processor: float) -> None:
        """Add to the stage that is under way."""
        self.stages[self.stage] = self.stages.get(self.stage, 0.0) + processor


COLUMNS = "clusters", "edges", "merges", "updates", "seconds", "processor"


def measured(job: Job, nodes: int, folder: Path) -> Result:
    """Generate, join and cluster a stand-in in a folder; return what was counted and measured."""
    before = process_time()
    vectors = generated(job, nodes, folder)
    metric = "euclidean" if job.kind == "sift" else "cosine"
    made = process_time()
    graph = JOINED[job.graph](job, vectors, metric) if job.graph else None
    joined, started, watch = process_time(), perf_counter(), Watch()
    if graph is None:
        options: dict[str, Any] = {"metric": metric, "engine": job.engine}
        tree = dask_rac.cluster(vectors, "complete", progress=watch, **options)
    else:
        tree = dask_rac.cluster(graph, "complete", missing="ignore", finisher=False, progress=watch)
    seconds, processor = perf_counter() - started, process_time() - joined
    others = {} if graph is None else {missing: counted(graph, missing) for missing in ("far", "infinite")}
    rounds = {name: list(column) for name, column in zip(COLUMNS, zip(*watch.rounds, strict=True), strict=True)}
    return {
        "nodes": nodes,
        "edges": job.edges(nodes) if graph is None else len(graph),
        "merges": len(tree.merges),
        "trees": tree.n_trees,
        "rounds": rounds,
        "others": others,
        "stages": watch.stages,
        "seconds": seconds,
        "processor": processor,
        "generate": made - before,
        "join": joined - made,
        "load": os.getloadavg()[1],
    }


def counted(graph: Any, missing: str) -> dict[str, int]:
    """Return rounds and merges of the same graph where missing edges mean something else."""
    tree = dask_rac.cluster(graph, "complete", missing=missing, finisher=False, progress=False)
    return {"rounds": len(tree.rounds), "merges": len(tree.merges)}


def generated(job: Job, nodes: int, folder: Path) -> str:
    """Write the vectors of a stand-in."""
    if job.kind == "sift":
        return dask_rac.datasets.sift(nodes, store=folder / "sift.bvecs", progress=False)
    path = folder / "documents.zarr"
    return dask_rac.datasets.documents(nodes, job.terms, length=job.length, store=path, progress=False)


def near(job: Job, vectors: str, metric: str) -> Any:
    """Join mutual neighbours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # a graph in several components is meant
        return dask_rac.knn_graph(vectors, k=NEIGHBOURS, mode="mutual", metric=metric, progress=False)


def within(job: Job, vectors: str, metric: str) -> Any:
    """Join all pairs up to the radius at which the same share of nodes merges as in the paper."""
    reported = REPORTED[job.of]
    options: dict[str, Any] = {"metric": metric, "engine": "certain", "memory": "2GB"}  # no pair is stored
    single = dask_rac.cluster(vectors, "single", progress=False, **options)
    heights = np.sort(single.merges["height"].to_numpy())
    radius = float(heights[int(len(heights) * reported.merges / reported.nodes)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return dask_rac.eps_graph(vectors, radius, metric=metric, progress=False)


JOINED: dict[str, Callable[[Job, str, str], Any]] = {"neighbours": near, "radius": within}
