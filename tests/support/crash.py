"""Runs that are killed at a chosen call, in children forked from a process with everything imported."""

from __future__ import annotations

import functools
import hashlib
import itertools
import multiprocessing
import os
import pkgutil
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import dask_rac
from tests.support.folders import no_fsync

SHARDS = 3
PATIENCE = 120  # seconds, on a busy machine

_context = multiprocessing.get_context("forkserver")


def warm_children() -> None:
    """Have the fork server, unless it runs already, begin with what all its children need."""
    _context.set_forkserver_preload(["tests.support.warm"])


warm_children()


@dataclass(frozen=True)
class Kill:
    """Kill the process before or after a call of a function; calls are counted from 0."""

    target: str
    after: bool
    call: int


class Child:
    """A process that does some work and reports its result, or the name and the text of the error."""

    def __init__(self, work: Callable[..., Any], *arguments: Any) -> None:
        self._ours, theirs = _context.Pipe()
        self._process = _context.Process(target=_run_child, args=(theirs, work, arguments))
        self._process.start()
        theirs.close()

    @property
    def pid(self) -> int:
        """The process id, to send signals to."""
        assert self._process.pid is not None
        return self._process.pid

    def join(self) -> Any:
        """Return what the child reported, or the signal that ended it."""
        try:
            answer = self._ours.recv() if self._ours.poll(PATIENCE) else "still running"
        except EOFError:
            answer = None
        if answer == "still running":
            self._process.kill()
        self._process.join()
        self._ours.close()
        code = self._process.exitcode or 0
        self._process.close()
        return signal.Signals(-code) if code < 0 and answer is None else answer


def _run_child(pipe: Any, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    """Run the work in the child and report the outcome."""
    try:
        with no_fsync():
            answer = work(*arguments)
    except BaseException as error:
        answer = type(error).__name__, str(error)
    pipe.send(answer)


def kill_run(edges: Path, store: Path, *kills: Kill) -> Any:
    """Begin or resume a run in a child that is killed; return the outcome."""
    return Child(run_to_death, edges, store, kills).join()


def run_to_death(edges: Path, store: Path, kills: tuple[Kill, ...] = ()) -> str:
    """Begin or resume a run, until it finishes or this process is killed."""
    for kill in kills:
        patch_calls(kill.target, _killer(kill)).start()
    return result_hash(dask_rac.resume(store) if (store / "rac.json").exists() else begin(edges, store))


def begin(edges: Any, store: Path, **options: Any) -> dask_rac.StoredClustering:
    """Start a run of several rounds, without the finisher."""
    result = dask_rac.cluster(edges, store=store, **{"shards": SHARDS, "finisher": False} | options)
    assert isinstance(result, dask_rac.StoredClustering)
    return result


def _killer(kill: Kill) -> Callable[[bool], None]:
    """Return a callback for `patch_calls` that kills this process at the given call."""
    calls = {after: itertools.count() for after in (False, True)}

    def notify(after: bool) -> None:
        if next(calls[after]) == kill.call and after == kill.after:
            os.kill(os.getpid(), signal.SIGKILL)
            time.sleep(PATIENCE)

    return notify


def patch_calls(target: str, notify: Callable[[bool], None]) -> Any:
    """Patch a function, such as `os.link`, to call `notify(after)` before and after each call."""
    owner, _, name = target.rpartition(".")
    holder = pkgutil.resolve_name(owner)
    function = getattr(holder, name)

    @functools.wraps(function)
    def watched(*arguments: Any, **keywords: Any) -> Any:
        notify(False)
        result = function(*arguments, **keywords)
        notify(True)
        return result

    return mock.patch.object(holder, name, watched)


def count_calls(targets: list[str], run: Callable[[], Any]) -> dict[str, list[int]]:
    """Return the step in which each call of each function happens, by the number of manifests committed so far."""
    steps: dict[str, list[int]] = {target: [] for target in targets}
    done = 0

    def commit(after: bool) -> None:
        nonlocal done
        done += after

    with ExitStack() as stack:
        for target in targets:
            stack.enter_context(
                patch_calls(target, lambda after, calls=steps[target]: None if after else calls.append(done))  # type: ignore[misc]
            )
        stack.enter_context(patch_calls("dask_rac.store.manifest.commit", commit))
        run()
    return steps


def path_edges(nodes: int = 100, seed: int = 0) -> pd.DataFrame:
    """Return a path with random weights: a third of it merges in each round.

    The column of remarks makes the input so large that a run also keeps the state of the round before the last.
    """
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "source": np.arange(nodes - 1),
            "target": np.arange(1, nodes),
            "weight": rng.integers(1, 1000, nodes - 1) / 8,
            "remark": [rng.bytes(1000) for _ in range(nodes - 1)],
        }
    )


def write_edges(folder: Path, frame: pd.DataFrame, files: int = 3) -> Path:
    """Write the edges to a folder of Parquet files."""
    folder.mkdir()
    for number in range(files):
        frame.iloc[number::files].to_parquet(folder / f"{number}.parquet", index=False)
    return folder


def result_hash(result: dask_rac.StoredClustering) -> str:
    """Return one hash over all columns of the merges, in order."""
    assert result.finished
    merges = result.merges.compute(scheduler="sync")
    return hashlib.sha256(b"".join(column.to_numpy().tobytes() for _, column in merges.items())).hexdigest()


def layout(store: Path) -> list[str]:
    """List all files of a store, without the random parts of their names."""
    names = (str(path.relative_to(store)) for path in store.rglob("*"))
    return sorted(re.sub(r"-[0-9a-f]{8}", "", name) for name in names)


def manifests(store: Path) -> list[bytes]:
    """Read the manifests of a store."""
    return [path.read_bytes() for path in sorted(store.glob("manifests/*.json"))]


def await_file(path: Path) -> None:
    """Wait until a file exists."""
    end = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < end, f"{path} was not written in time"
        time.sleep(0.005)
