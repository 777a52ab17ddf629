"""`dask-rac forecast` and `dask-rac probe`."""

import json
from pathlib import Path

import pytest

import dask_rac
from dask_rac.forecasts.machine import Machine, Rate
from dask_rac.forecasts.probe import Effort, probed
from tests.support.command import done, refused

SIZE = "--n-nodes", "1e8", "--kind", "small", "--machines", "4"


@pytest.fixture
def known(tmp_path: Path) -> tuple[str, ...]:
    """Constants, and a run on a small graph."""
    Machine(fold=Rate(1e-8), read=Rate(1e-10), write=Rate(1e-9), step=0.1).save(tmp_path / "machine.json")
    edges = dask_rac.datasets.lattice(300, 20, 0, tmp_path / "edges")
    dask_rac.cluster(edges, store=tmp_path / "run", shards=2)
    return "--constants", "machine.json", "--sample", "run"


def test_forecast(known: tuple[str, ...], tmp_path: Path) -> None:
    shown = done("forecast", "2e9", *SIZE, *known, "--scaling", "1,4", cwd=tmp_path)
    assert "100,000,000 nodes, 2,000,000,000 edges" in shown
    assert [word in shown for word in ("gather", "waits for", "speed-up", "price")] == [False, True, True, True]
    given = json.loads(done("forecast", "2e9", *SIZE, *known, "--scaling", "4", "--json", cwd=tmp_path))
    assert given["seconds"] == pytest.approx(sum(phase["seconds"] for phase in given["phases"]))
    assert [row["machines"] for row in given["scaling"]] == [4]
    one = json.loads(done("forecast", "edges", *known, "--memory", "1MB", "--json", cwd=tmp_path))
    assert (one["plan"]["nodes"], one["plan"]["edges"]) == (300, 3000)


def test_what_is_wrong_is_said_in_terms_of_options(known: tuple[str, ...], tmp_path: Path) -> None:
    said = refused("forecast", "2e9", "--n-nodes", "1e8", "--constants", "machine.json", cwd=tmp_path).stderr
    assert "give --sample" in said
    assert "--scaling 1,x" in refused("forecast", "2e9", *SIZE, *known, "--scaling", "1,x", cwd=tmp_path).stderr


def test_probe(tmp_path: Path) -> None:
    machine, runs = probed(str(tmp_path), None, Effort((300, 40_000), 2**22))
    assert [run.facts.nodes for run in runs] == [40_000]
    assert min(machine.disk_read, machine.disk_write, machine.memory) > 0
    assert machine.fold.at(40_000) > 0
    assert "800,000 edges" in machine.sources[-1]
    assert not list(tmp_path.iterdir())
