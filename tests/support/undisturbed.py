"""A run that nothing stops, to compare with those that are stopped; and all places where one can die."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import Phase, settings

import dask_rac
from tests.support.crash import layout, manifests, result_hash
from tests.support.effort import examples

INTAKE = [
    "dask_rac.engines.rows.scanning.scan",
    "dask_rac.engines.rows.routing.route",
    "dask_rac.engines.rows.intake.build",
]
ROUND = [
    "dask_rac.engines.rows.tasks.cut",
    "dask_rac.engines.rows.tasks.split",
    "dask_rac.engines.rows.tasks.fold",
]
REST = [
    "dask_rac.engines.rows.stored.finish_rest",
    "dask_rac.engines.rows.within.merge_rounds",
    "dask_rac.engines.rows.handover.write_round",
]
FILES = [
    "os.writev",
    "dask_rac.engines.rows.tasks.write_group",
    "dask_rac.engines.rows.packing.write_merges",
    "os.replace",
    "os.link",
]
COMMIT = [
    "dask_rac.store.manifest.parent_digest",
    "dask_rac.runs.loop.write_statistics",
    "dask_rac.store.manifest.commit",
]
CLEAN = ["dask_rac.runs.loop.StoredRun.clean", "dask_rac.files.folder.Folder.remove", "os.unlink", "os.rmdir"]
PHASES = (Phase.explicit, Phase.generate)  # examples take too long to shrink
FEW = settings(examples(8), phases=PHASES)
POINTS = INTAKE + ROUND + REST + FILES + COMMIT + CLEAN


@dataclass(frozen=True)
class Undisturbed:
    """A run without interruption."""

    folder: Path
    edges: Path
    hash: str
    layout: list[str] = field(repr=False)
    calls: dict[str, list[int]] = field(repr=False)


def check_resumed(whole: Undisturbed, store: Path, kept: list[bytes]) -> None:
    """Resume, and check that the result is that of an uninterrupted run and no committed step is repeated."""
    assert result_hash(dask_rac.resume(store)) == whole.hash
    assert manifests(store)[: len(kept)] == kept
    assert layout(store) == whole.layout


class StopError(Exception):
    """What a test raises to stop a run."""


def stop_after(round_: int) -> Any:
    """A progress function that stops a run after a round."""

    def progress(event: dask_rac.Event) -> None:
        if event.stage == "round" and event.record is not None and event.record.round == round_:
            raise StopError

    return progress
