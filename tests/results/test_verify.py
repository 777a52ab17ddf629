"""`verify` passes what a run made, and refuses all else."""

from __future__ import annotations

import os
from pathlib import Path

import pandas as pd
import pytest

import dask_rac
from dask_rac.base.settings import EDGE_COLUMNS
from dask_rac.files.folder import Folder
from tests.support.named_graphs import SMALL, both_ways
from tests.support.stored import Columns, write_parquet


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("twice", [False, True])
def test_verify_passes_what_a_run_made(linkage: str, weights: str, twice: bool, folder: Path) -> None:
    edges = both_ways(SMALL) if twice else SMALL
    source = write_parquet(folder / "edges.parquet", edges, row_group_size=300)
    found = dask_rac.cluster(source, linkage, weights=weights, store=folder / "run", shards=3)
    in_memory = dask_rac.cluster(edges, linkage, weights=weights)
    frame = pd.DataFrame(dict(zip(EDGE_COLUMNS, edges, strict=True)))
    reports = [found.verify(), found.verify(source), found.verify(frame), found.verify(edges)]
    reports += [in_memory.verify(source), in_memory.verify(edges), dask_rac.open(folder / "run").verify()]
    for report in reports:
        assert report.ok
        assert (report.merges, report.edges) == (len(in_memory.merges), len(SMALL[0]))
        assert report.worst_error <= 1e-12
    assert os.listdir(folder / "run" / "rounds") == []


@pytest.mark.parametrize("twice", [False, True])
def test_verify_refuses_another_graph(twice: bool, folder: Path) -> None:
    edges = both_ways(SMALL) if twice else SMALL
    found = dask_rac.cluster(write_parquet(folder / "a.parquet", edges), store=folder / "run", shards=2)
    in_memory = dask_rac.cluster(edges)
    u, v, weight = edges
    other: Columns = u, v, weight + 1
    another = write_parquet(folder / "b.parquet", other)
    fewer = write_parquet(folder / "c.parquet", (u[:300], v[:300], weight[:300]))
    for result in (found, in_memory):
        for wrong in (other, another, fewer):
            with pytest.raises(dask_rac.AuditError, match=r"merges are wrong, first merge \d+ of"):
                result.verify(wrong)
    write_parquet(folder / "a.parquet", other)
    with pytest.raises(dask_rac.InputError, match=r"a\.parquet has changed since the run began"):
        found.verify()
    with pytest.raises(dask_rac.InputError, match=r"verify\(\) needs the edges again"):
        in_memory.verify()


def test_verify_takes_the_same_graph_given_from_both_ends(folder: Path) -> None:
    found = dask_rac.cluster(write_parquet(folder / "once.parquet", SMALL), store=folder / "run")
    assert found.verify(both_ways(SMALL)).edges == len(SMALL[0])
    assert found.verify(write_parquet(folder / "twice.parquet", both_ways(SMALL))).edges == len(SMALL[0])


def test_resume_leaves_an_audit_that_is_running_alone(folder: Path) -> None:
    audits: list[str] = []

    def progress(event: dask_rac.Event) -> None:
        if event.stage == "verify":
            dask_rac.resume(folder / "run")
            audits.extend(os.listdir(folder / "run/rounds"))

    source = write_parquet(folder / "edges.parquet", both_ways(SMALL), row_group_size=300)
    found = dask_rac.cluster(source, store=folder / "run", shards=3, progress=progress)
    assert found.verify().ok
    assert len(set(audits)) == 1
    assert os.listdir(folder / "run/rounds") == []


def test_resume_deletes_what_an_audit_that_died_has_left(folder: Path) -> None:
    dask_rac.cluster(write_parquet(folder / "edges.parquet", SMALL), store=folder / "run")
    (folder / "run/rounds/verify-00000-0123abcd/tally").mkdir(parents=True)
    dask_rac.resume(folder / "run")
    assert os.listdir(folder / "run/rounds") == []


def test_verify_waits_for_a_moment_and_then_says_who_has_the_store(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = dask_rac.cluster(write_parquet(folder / "edges.parquet", SMALL), store=folder / "run")
    monkeypatch.setattr("dask_rac.files.folder.SHARED_ATTEMPTS", 3)
    with (
        Folder(folder / "run").locked(),
        pytest.raises(dask_rac.StoreInUseError, match=f"in use by process {os.getpid()} on"),
    ):
        found.verify()
    with Folder(folder / "run").locked(shared=True):
        assert found.verify().ok


def test_verify_needs_edges_that_were_in_memory(folder: Path) -> None:
    found = dask_rac.cluster(SMALL, store=folder / "run")
    with pytest.raises(
        dask_rac.InputError, match=r"edges of this run were not on disk: give them again with verify\(edges\)"
    ):
        found.verify()


def test_verify_finds_damaged_merges(folder: Path) -> None:
    found = dask_rac.cluster(SMALL, store=folder / "run")
    (table,) = (folder / "run" / "merges").iterdir()
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 1
    table.write_bytes(data)
    with pytest.raises(dask_rac.DamagedStoreError, match="is damaged: it is not what was written"):
        found.verify(SMALL)
