"""Promise 5: a run that was killed and resumed is the same, and a kill costs one round at most."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from distributed import Client
from hypothesis import given, settings
from hypothesis import strategies as st

import dask_rac
from tests.support import crash
from tests.support.clients import count_tasks
from tests.support.crash import Kill, begin, kill_run, layout, manifests, result_hash
from tests.support.effort import examples
from tests.support.faults import doom
from tests.support.undisturbed import PHASES, POINTS, Undisturbed, check_resumed

KILLS = [
    pytest.param(
        target,
        after,
        id=f"{'after' if after else 'before'} {target}",
        marks=[pytest.mark.soak] if (place + after) % 2 else [],  # the suite takes every other one
    )
    for place, target in enumerate(POINTS)
    for after in (False, True)
]


@pytest.mark.parametrize(("target", "after"), KILLS)
def test_a_kill_costs_at_most_the_round_under_way(whole: Undisturbed, store: Path, target: str, after: bool) -> None:
    calls = whole.calls[target]
    assert calls
    for step in sorted(set(calls)):
        some = [call for call, when in enumerate(calls) if when == step]
        call = some[len(some) * (2 if after else 1) // 3]
        if target == "os.link" and not call:
            continue  # that of the header: there is no run yet
        assert kill_run(whole.edges, store, Kill(target, after, call)) == signal.SIGKILL
        kept = manifests(store)
        assert len(kept) in {step, step + 1}
        check_resumed(whole, store, kept)
        shutil.rmtree(store)


def test_killed_before_there_is_a_header_a_run_can_begin_in_the_same_folder(whole: Undisturbed, store: Path) -> None:
    assert kill_run(whole.edges, store, Kill("os.link", False, 0)) == signal.SIGKILL
    with pytest.raises(dask_rac.StoreError, match="is not a store"):
        dask_rac.resume(store)
    assert result_hash(begin(whole.edges, store)) == whole.hash
    assert layout(store) == whole.layout


def kills() -> st.SearchStrategy[Kill]:
    """Draw a call of any function except that of the header; a resumed run may make fewer calls."""
    return st.builds(Kill, st.sampled_from(POINTS), st.booleans(), st.integers(1, 12))


@settings(examples(8), phases=PHASES)
@given(st.lists(kills(), min_size=2, max_size=5))
def test_killed_again_and_again(whole: Undisturbed, deaths: list[Kill]) -> None:
    with tempfile.TemporaryDirectory(dir=whole.folder) as name:
        store = Path(name, "run")
        kept: list[bytes] = []
        for kill in deaths:
            assert kill_run(whole.edges, store, kill) in {signal.SIGKILL, whole.hash}
            assert manifests(store)[: len(kept)] == kept
            kept = manifests(store)
        check_resumed(whole, store, kept)


@pytest.mark.parametrize(
    "target",
    [
        "dask_rac.runs.resume.newest_sound",
        "dask_rac.runs.loop.StoredRun.clean_attempt",
        "dask_rac.store.cleanup.check_merges",
        "dask_rac.store.cleanup.check_state",
    ],
)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_killed_while_it_resumes(whole: Undisturbed, store: Path, target: str, after: bool) -> None:
    assert kill_run(whole.edges, store, Kill("dask_rac.engines.rows.tasks.fold", True, 4)) == signal.SIGKILL
    for _ in range(2):
        kept = manifests(store)
        assert kill_run(whole.edges, store, Kill(target, after, 0)) == signal.SIGKILL
        assert manifests(store) == kept
    check_resumed(whole, store, kept)


MOMENTS = [
    ("dask_rac.engines.rows.scanning.scan", False),
    ("dask_rac.engines.rows.tasks.split", True),
    ("dask_rac.engines.rows.tasks.fold", False),
    ("dask_rac.engines.rows.tasks.fold", True),
    ("dask_rac.engines.rows.within.merge_rounds", True),
]


def test_a_run_goes_on_when_workers_die(client: Client, folder: Path, whole: Undisturbed) -> None:
    for number, (target, after) in enumerate(MOMENTS):
        client.wait_for_workers(2, timeout=crash.PATIENCE)
        client.run(doom, target, after, str(folder / f"died {number}"))
        found = begin(whole.edges, folder / f"run {number}", client=client)
        assert (folder / f"died {number}").exists(), target
        assert result_hash(found) == whole.hash, target
        assert layout(folder / f"run {number}") == whole.layout, target
    assert client.run_on_scheduler(count_tasks) == 0
