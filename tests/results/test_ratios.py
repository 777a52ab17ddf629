"""Ratios and the certificate, wherever merges are shown, written and read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from distributed import Client

import dask_rac
from dask_rac.base.errors import InputError
from dask_rac.base.settings import checked_settings
from dask_rac.engines.contract import MergeList
from dask_rac.files.folder import Folder
from dask_rac.files.tables import read_merges, write_merges
from dask_rac.kernels.arrays import Merges
from dask_rac.results import verify as results_verify
from dask_rac.results.audit_tasks import audit_bytes
from dask_rac.results.ratios import bounds_of, replay_bytes
from tests.support.command import done
from tests.support.graphs import tangled_edges
from tests.support.stored import write_parquet

COLUMNS = ["left", "right", "height", "size", "round", "ratio"]
EDGES = tangled_edges(300, 900, 50, seed=1)
SETTINGS = checked_settings("average", None, "distance", epsilon=0.25)


def chain(ratio: Any = (1.0, 1.25, 1.125)) -> dask_rac.Clustering:
    """A path of four named nodes, merged from one end, with some ratios."""
    columns = Merges(*map(np.array, ([0, 0, 0], [1, 2, 3], [1.0, 2.0, 3.0], [2, 3, 4])))
    found = MergeList(4, columns, np.arange(1, 4, dtype=np.int32), (), largest=3.0, ratio=np.array(ratio))
    names = dask_rac.cluster(pd.DataFrame({"source": ["a", "b", "c"], "target": ["b", "c", "d"], "weight": 1.0})).names
    return dask_rac.Clustering(found, SETTINGS, names=names)


@pytest.fixture
def run(folder: Path) -> dask_rac.StoredClustering:
    edges = write_parquet(folder / "edges", EDGES)
    return dask_rac.cluster(edges, epsilon=0.1, store=folder / "run")


def test_ratios_in_memory(folder: Path) -> None:
    tree = chain()
    assert list(tree.merges.columns) == COLUMNS
    assert tree.merges["ratio"].tolist() == [1.0, 1.25, 1.125]
    assert tree.epsilon == 0.25
    assert "epsilon=0.25, of 0.25 allowed" in repr(tree)
    assert list(tree.named_merges().columns) == [*COLUMNS, "left_name", "right_name"]
    assert pa.table(tree).column_names == COLUMNS
    assert pd.read_parquet(tree.export(folder / "tree.parquet")).equals(tree.merges)
    named = pd.read_parquet(tree.export(folder / "named.parquet", names=True))
    assert list(named.columns) == [*COLUMNS, "left_name", "right_name"]
    part = tree.subtree(0, n_clusters=2)
    assert part.merges["ratio"].tolist() == [1.0, 1.25]
    assert chain([1.0, 1.0, 1.0]).epsilon == 0.0


def test_ratios_in_files(folder: Path) -> None:
    store, columns = Folder(folder), ([0], [1], np.array([0.5]), [2], [1])
    plain = write_merges(store, "plain", map(np.array, columns))
    assert "ratio" not in plain.fields()
    assert "ratio" not in read_merges(store, plain)
    record = write_merges(store, "rated", map(np.array, columns), ratio=np.array([1.05]))
    assert record.fields()["ratio"] == 1.05
    assert read_merges(store, record)["ratio"].tolist() == [1.05]
    both = write_merges(store, "both", map(np.array, columns), map(np.array, ([0], [1])), np.array([1.05]))
    assert list(pd.read_parquet(folder / "both").columns) == [*COLUMNS, "source", "target"]
    assert read_merges(store, both)["ratio"].tolist() == [1.05]


def test_ratios_of_a_stored_run(run: dask_rac.StoredClustering, folder: Path) -> None:
    assert json.loads((folder / "run" / "rac.json").read_text())["settings"]["epsilon"] == 0.1
    again = dask_rac.open(run.store)
    for one in (run, again, dask_rac.resume(run.store)):
        merges = one.merges.compute()
        assert list(one.merges.columns) == list(merges.columns) == COLUMNS
        assert one.epsilon == pytest.approx(merges["ratio"].max() - 1, abs=1e-15)
        assert one.epsilon <= 0.1
        assert f"epsilon={one.epsilon:.6g}, of 0.1 allowed" in repr(one)
        assert one.verify().ratios == len(merges)
    assert pd.read_parquet(run.export(folder / "tree.parquet"))["ratio"].between(1, 1.1).all()
    page = Path(run.report(folder / "report.html")).read_text()
    assert "of 0.1 allowed" in page


def test_ratios_are_checked_here_with_a_client(run: dask_rac.StoredClustering, client: Client) -> None:
    assert run.verify(client=client).ratios == run.n_nodes - run.n_trees


def test_where_memory_does_not_suffice_ratios_are_not_checked_and_the_result_says_so(
    run: dask_rac.StoredClustering,
) -> None:
    journal = run._run
    needed = replay_bytes(journal.facts.nodes, journal.merged, journal.facts.edges)
    less = audit_bytes(journal.tables, journal.facts.nodes, report=True) + needed - 1
    with mock.patch.object(results_verify, "memory_limit", return_value=less):
        report = run.verify()
    assert report.ok
    assert (report.ratios, report.ratio_bytes) == (0, needed)
    assert "not their ratios, which takes" in str(report)
    enough = run.verify()
    assert (enough.ratios, enough.ratio_bytes) == (len(run.merges), 0)
    assert str(enough).endswith(f"so are {len(run.merges):,} ratios")


def test_the_command_line(folder: Path) -> None:
    edges = write_parquet(folder / "edges", EDGES)
    done("cluster", edges, "-o", "run", "--epsilon", "0.1", cwd=folder)
    assert "of 0.1 allowed" in done("info", "run", cwd=folder)
    state = json.loads(done("info", "run", "--json", cwd=folder))
    assert state["parameters"]["epsilon"] == 0.1
    assert 0 <= state["epsilon"] <= 0.1
    assert "ratios" in done("verify", "run", cwd=folder)
    done("plan", edges, "--epsilon", "0.1", cwd=folder)


def test_a_recipe(folder: Path) -> None:
    write_parquet(folder / "edges", EDGES)
    recipe = folder / "recipe.yaml"
    recipe.write_text("folder: out\nsteps:\n  cluster: {edges: edges, epsilon: 0.1}\n  verify:\n")
    lines = done("run", recipe, cwd=folder).splitlines()
    assert "epsilon" in lines[0]
    assert "ratios" in lines[1]
    assert all("skipped" in line for line in done("run", recipe, cwd=folder).splitlines())


def test_the_estimator() -> None:
    points = np.random.default_rng(0).random((200, 2))
    found = dask_rac.RAC(4, linkage="average", n_neighbors=8, epsilon=0.1).fit(points).clustering_
    assert 0 <= found.epsilon <= 0.1
    assert "ratio" in found.merges
    with pytest.raises(InputError, match="all pairs are clustered exactly: leave epsilon out"):
        dask_rac.RAC(4, linkage="average", epsilon=0.1).fit(points)


@pytest.mark.parametrize(
    ("epsilon", "message"),
    [
        (-0.1, "epsilon=-0.1 is out of range: use 0, for exact merges, to 10"),
        (11, "epsilon=11 is out of range"),
        (np.inf, "epsilon=inf is out of range"),
        (np.nan, "epsilon=nan is not a number"),
        ("0.1", "epsilon='0.1' is not a number"),
        (True, "epsilon=True is not a number"),
    ],
)
def test_what_epsilon_cannot_be(epsilon: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        dask_rac.cluster(EDGES, epsilon=epsilon)


def test_what_epsilon_cannot_be_used_with() -> None:
    with pytest.raises(InputError, match="linkage='weighted': its heights depend on the order"):
        dask_rac.cluster(EDGES, "weighted", epsilon=0.1)
    with pytest.raises(InputError, match="linkage='ward'"):
        dask_rac.cluster(EDGES, "ward", epsilon=0.1)
    with pytest.raises(InputError, match=r"or cluster a graph of neighbours with graph=dict\(k=15\)"):
        dask_rac.cluster(np.random.default_rng(0).random((20, 2)), epsilon=0.1)


def test_bounds() -> None:
    height, ratio = np.array([2.0, 0.0, 3.0]), np.array([1.25, 1.0, 1.0])
    assert np.allclose(bounds_of(height, ratio, 1.0), [1.6, 0.0, 3.0])
    assert np.allclose(bounds_of(np.array([-2.0, -0.0, 3.0]), ratio, -1.0), [-2.5, 0.0, 3.0])
