"""What `missing="far"` weighs is found in the edges, is the same in every way of running, and stays with the result."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dask_rac
from dask_rac.store.header import own_digest
from dask_rac.store.overview import overview
from tests.support.command import done
from tests.support.graphs import tangled_edges
from tests.support.results import assert_same
from tests.support.stored import Columns, write_parquet

U, V, W = tangled_edges(300, 900, 10**6, seed=3)
EDGES: Columns = U, V, W.astype(float)


def run(edges: Any = EDGES, **options: Any) -> dask_rac.Clustering:
    found: dask_rac.Clustering = dask_rac.cluster(edges, **options)
    return found


@pytest.mark.parametrize("linkage", ["average", "complete", "weighted"])
def test_it_is_the_default_and_twice_the_largest_weight(linkage: str, folder: Path) -> None:
    expected = run(linkage=linkage, missing=2 * EDGES[2].max())
    file = write_parquet(folder / "edges.parquet", EDGES)
    for number, options in enumerate(({}, {"missing": "far"})):
        assert_same(run(linkage=linkage, **options), expected)
        assert_same(run(file, linkage=linkage, store=folder / f"file{number}", shards=3, **options), expected)
        assert_same(run(linkage=linkage, store=folder / f"memory{number}", shards=2, **options), expected)


@pytest.mark.parametrize(("duplicates", "largest"), [("min", 3.0), ("max", 9.0), ("mean", 6.0)])
def test_it_is_found_after_duplicates_are_settled_and_loops_are_dropped(
    duplicates: str, largest: float, folder: Path
) -> None:
    edges = np.array([0, 1, 1, 2, 2]), np.array([1, 2, 2, 1, 2]), np.array([1.0, 3.0, 9.0, 6.0, 50.0])
    file = write_parquet(folder / "edges.parquet", edges)
    for given, options in ((edges, {}), (file, {"store": folder / "run", "shards": 2})):
        with pytest.warns(UserWarning, match="dropped 1 self loop"):
            found = run(given, duplicates=duplicates, **options)
        assert f"missing=far ({2 * largest:g})" in repr(found)
        assert found.to_scipy()[-1, 2] == (largest + 2 * largest) / 2
        assert found.verify(edges).ok


def test_weights_of_float32_give_the_same(folder: Path) -> None:
    short = (U, V, W.astype(np.float32) / np.float32(3))
    stored = run(write_parquet(folder / "edges.parquet", short), store=folder / "run", shards=3)
    assert_same(stored, run(short))


@pytest.mark.parametrize("edges", [([0, 1], [1, 2], [0.0, 0.0]), ([], [], [])])
def test_where_nothing_is_far_an_absent_pair_weighs_one(edges: Any, folder: Path) -> None:
    columns = tuple(map(np.array, edges))
    for options in ({}, {"store": folder / "run"}):
        found = run((columns[0].astype(int), columns[1].astype(int), columns[2].astype(float)), n_nodes=3, **options)
        assert "missing=far (1)" in repr(found)
        assert [height for height in found.to_scipy(join=True)[:, 2] if np.isfinite(height)] == (
            [0.0, 0.5] if edges[0] else []
        )


@pytest.mark.parametrize("store", [None, "run"])
def test_what_adds_up_to_infinity_is_refused_in_the_terms_of_the_user(store: str | None, folder: Path) -> None:
    edges = np.array([0, 1]), np.array([1, 2]), np.array([1.0, 2e307])
    options = {} if store is None else {"store": folder / store}
    for given in (edges, write_parquet(folder / "edges.parquet", edges)):
        with pytest.raises(
            dask_rac.InputError, match=r"missing='far' is 2 times the largest weight here, 4e[+]307, and"
        ):
            run(given, **options)
    assert not (folder / "run").exists()
    assert run(edges, missing="ignore").n_trees == run(edges, linkage="single", missing="far").n_trees == 1


def test_a_store_keeps_the_word_and_shows_the_number(folder: Path) -> None:
    found = run(store=folder / "run", shards=2)
    number = 2 * EDGES[2].max()
    header = json.loads((folder / "run/rac.json").read_text())
    assert header["settings"]["missing"] == "far"
    assert "far" not in header["settings"]
    assert f"missing=far ({number:.6g})" in repr(dask_rac.open(folder / "run"))
    known = overview(folder / "run").to_json()["parameters"]
    assert (known["missing"], known["far"]) == ("far", number)
    assert f"missing far ({number:.6g})" in done("info", "run", cwd=folder)
    page = Path(found.report(folder / "report.html")).read_text()
    assert f"far ({number:.6g})" in page
    assert found.verify(EDGES).ok
    nearer = np.where(EDGES[2] == EDGES[2].max(), 0.0, EDGES[2])
    with pytest.raises(dask_rac.AuditError):  # by the number of the run, not that of the edges that are given now
        dask_rac.open(folder / "run").verify((U, V, nearer))


def test_a_worker_finds_it_too(client: Any) -> None:
    assert_same(run(client=client), run())
    assert "missing=far (" in repr(run(client=client))


def test_a_header_with_a_number_of_its_own_is_damaged(folder: Path) -> None:
    run(store=folder / "run")
    path = folder / "run/rac.json"
    fields = json.loads(path.read_text())
    del fields["sha256"]
    fields["settings"]["far"] = 3.0
    path.write_text(json.dumps(fields | {"sha256": own_digest(fields)}))
    with pytest.raises(dask_rac.DamagedStoreError):
        dask_rac.open(folder / "run")


def test_a_recipe_says_far_so_that_what_an_earlier_version_made_is_not_taken_for_it(tmp_path: Path) -> None:
    pd.DataFrame({"source": U, "target": V, "weight": EDGES[2]}).to_parquet(tmp_path / "edges.parquet")
    (tmp_path / "recipe.yaml").write_text("steps:\n  cluster: {edges: edges.parquet}\n")
    done("run", "recipe.yaml", cwd=tmp_path)
    record = json.loads((tmp_path / "recipe/steps/cluster.json").read_text())
    assert record["given"]["missing"] == "far"
    assert "skipped" in done("run", "recipe.yaml", cwd=tmp_path)
