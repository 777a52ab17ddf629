"""`verify` of a run that was stopped says that it is unfinished and how to resume it: it is not damaged."""

import shutil
from pathlib import Path

import numpy as np
import pytest

import dask_rac
from tests.support.command import refused
from tests.support.stored import PlugPulledError, stop_after


@pytest.mark.parametrize("words", [(), ("--edges", "edges"), ("--json",)])
def test_a_run_that_was_stopped(words: tuple[str, ...], tmp_path: Path) -> None:
    dask_rac.datasets.lattice(2_000, 8, 0, tmp_path / "edges", progress=False)
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(tmp_path / "edges", store=tmp_path / "run", shards=3, finisher=False, progress=stop_after(2))
    failed = refused("verify", "run", *words, cwd=tmp_path)
    assert (failed.returncode, failed.stdout) == (2, "")
    assert "is unfinished" in failed.stderr
    assert f"resume with `dask-rac resume {tmp_path / 'run'}`" in failed.stderr
    assert "damaged" not in failed.stderr
    assert "never merge" not in failed.stderr


def test_a_run_on_all_pairs_that_was_stopped(tmp_path: Path) -> None:
    np.save(tmp_path / "vectors.npy", np.random.default_rng(0).random((300, 4)))

    def stop(event: dask_rac.Event) -> None:
        if event.stage == "pairs" and (tmp_path / "begun/rac.json").exists():
            shutil.copytree(tmp_path / "begun", tmp_path / "run")  # an error would delete it, a kill does not
            raise PlugPulledError

    with pytest.raises(PlugPulledError):
        dask_rac.cluster(tmp_path / "vectors.npy", store=tmp_path / "begun", progress=stop)
    failed = refused("verify", "run", cwd=tmp_path)
    assert failed.returncode == 2
    assert f"resume with `dask-rac resume {tmp_path / 'run'}`" in failed.stderr


def test_a_step_of_a_recipe(tmp_path: Path) -> None:
    dask_rac.datasets.lattice(2_000, 8, 0, tmp_path / "edges", progress=False)
    with pytest.raises(PlugPulledError):
        dask_rac.cluster(tmp_path / "edges", store=tmp_path / "run", shards=3, finisher=False, progress=stop_after(2))
    (tmp_path / "check.yaml").write_text("steps:\n  verify: {run: run}\n")
    failed = refused("run", "check.yaml", cwd=tmp_path)
    assert failed.returncode == 2
    assert "step 'verify'" in failed.stderr
    assert "is unfinished" in failed.stderr
