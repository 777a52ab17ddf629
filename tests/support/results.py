"""What runs come to, and whether two come to the same."""

from __future__ import annotations

import hashlib
from typing import Any

import pandas as pd

import dask_rac


def merge_set(clustering: dask_rac.Clustering) -> list[tuple[Any, ...]]:
    """The merges without their rounds, by the cluster that each ends."""
    merges = merges_frame(clustering)
    columns = (merges[name].tolist() for name in ("right", "left", "height", "size"))
    return sorted(zip(*columns, strict=True))


def merges_frame(clustering: dask_rac.Clustering) -> pd.DataFrame:
    """All merges in memory, numbered through."""
    merges: Any = clustering.merges
    frame: pd.DataFrame = merges.compute() if hasattr(merges, "compute") else merges
    return frame.reset_index(drop=True)


def fingerprint(clustering: dask_rac.Clustering) -> str:
    """One hash over everything in the merges."""
    merges = merges_frame(clustering)
    return hashlib.sha256(b"".join(column.to_numpy().tobytes() for _, column in merges.items())).hexdigest()


def untimed_rounds(clustering: dask_rac.Clustering) -> pd.DataFrame:
    """The rounds without what differs from run to run."""
    rounds = clustering.rounds
    return rounds[[name for name in rounds if not str(name).endswith("_seconds")]]


def assert_same(found: dask_rac.Clustering, expected: dask_rac.Clustering) -> None:
    """Merges and rounds are one."""
    assert fingerprint(found) == fingerprint(expected)
    pd.testing.assert_frame_equal(untimed_rounds(found), untimed_rounds(expected))
    assert (found.n_nodes, found.n_trees) == (expected.n_nodes, expected.n_trees)


def rounds_told(events: list[dask_rac.Event]) -> list[int]:
    return [event.record.merges for event in events if event.stage == "round" and event.record is not None]
