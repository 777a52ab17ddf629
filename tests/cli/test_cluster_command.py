"""The same commands and recipes on a cluster of real processes under TLS, with everything in an object store."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
import yaml

import dask_rac
from tests.support.command import command_line, done, environment, refused
from tests.support.object_store import KEY, SECRET, ObjectStore, s3_server
from tests.support.root import ROOT
from tests.support.tls_cluster import TlsCluster, tls_cluster

PIPELINES = ROOT / "pipelines"


@pytest.fixture(scope="module")
def server() -> Iterator[ObjectStore]:
    with s3_server() as found:
        yield found


@pytest.fixture(scope="module")
def cluster(server: ObjectStore) -> Iterator[TlsCluster]:
    with tls_cluster(3, server.environment) as found:
        yield found


def test_a_recipe_on_s3_under_tls_with_a_worker_killed(
    server: ObjectStore, cluster: TlsCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = server.url("recipe")
    words = ["run", str(PIPELINES / "s3.yaml"), "--set", f"folder={folder}", "--set", "generate.nodes=3000"]
    words += ["--set", "cluster.shards=3", "--scheduler", cluster.address, "--require-tls", "--log-file", "log"]
    ours = environment(**server.environment, **cluster.environment)
    process = subprocess.Popen(
        command_line(*words), cwd=tmp_path, env=ours, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    began = "GET /graphs/recipe/run/manifests/00001.json", "PUT /graphs/recipe/run/manifests/00001.json"
    while not any(request.startswith(began) for request in server.requests()):
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    cluster.kill(0)
    printed, errors = process.communicate(timeout=180)
    assert process.returncode == 0, errors
    assert [line.partition(":")[0] for line in printed.splitlines()] == [
        "generate",
        "cluster",
        "verify",
        "cut",
        "export",
    ]
    changes = {**server.environment, **cluster.environment}
    again = done(*words, cwd=tmp_path, **changes)
    assert again.count("skipped") == 5

    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    expected = dask_rac.cluster(f"{folder}/edges", weights="similarity").merges
    with server.filesystem.open(f"{folder}/merges.parquet") as file:
        found = pd.read_parquet(file)
    columns = ["left", "right", "height", "size"]
    pd.testing.assert_frame_equal(
        found[columns].sort_values("right", ignore_index=True),
        expected[columns].sort_values("right", ignore_index=True),
    )
    kept = b"".join(server.contents().values()).decode(errors="replace")
    for text in (printed, errors, (tmp_path / "log").read_text(), cluster.output(), kept):
        assert SECRET not in text
        assert KEY not in text


def test_commands_on_s3(server: ObjectStore, tmp_path: Path) -> None:
    edges, run = server.url("lattice"), server.url("run")
    done("generate", "lattice", "--nodes", "900", "--degree", "6", "-o", edges, cwd=tmp_path, **server.environment)
    done("cluster", edges, "-o", run, cwd=tmp_path, **server.environment)
    assert f"{run}, finished" in done("info", run, cwd=tmp_path, **server.environment)
    assert "899 merges verified" in done("verify", run, cwd=tmp_path, **server.environment)
    taken = refused("cluster", edges, "-o", run, cwd=tmp_path, **server.environment)
    assert (taken.returncode, f"`dask-rac resume {run}`" in taken.stderr) == (2, True)
    nothing = refused("cluster", "s3://no-such-bucket/edges", "-o", run, cwd=tmp_path, **server.environment)
    assert nothing.returncode == 2
    assert "no-such-bucket" in nothing.stderr
    secret = refused("cluster", f"s3://{KEY}:{SECRET}@graphs/edges", "-o", run, cwd=tmp_path, **server.environment)
    assert secret.returncode == 2
    assert SECRET not in secret.stderr + secret.stdout


@pytest.mark.parametrize("name", ["kubernetes", "coiled"])
def test_recipes_for_hosted_clusters_are_planned_without_starting_one(
    name: str, server: ObjectStore, tmp_path: Path
) -> None:
    words = ("run", PIPELINES / f"{name}.yaml", "--set", f"folder={server.url(name)}", "--dry-run")
    printed = done(*words, cwd=tmp_path, **server.environment)
    assert "1,000,000,000 edges, 12 GB" in " ".join(printed.split())
    assert "planned when the workers are" in " ".join(printed.split())


def test_a_pipeline_stopped_in_its_third_step_goes_on(tmp_path: Path) -> None:
    recipe = {
        "steps": {
            "small": {"do": "generate", "nodes": 500, "degree": 6, "output": "small"},
            "generate": {"nodes": 10_000, "degree": 20, "weights": "similarity"},
            "cluster": {"weights": "similarity", "shards": 8},
            "cut": {"n_clusters": 9, "output": "labels.csv"},
        }
    }
    (tmp_path / "long.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
    process = subprocess.Popen(
        command_line("run", "long.yaml"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    while not any((tmp_path / "long/run/rounds").glob("00002-*")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    printed, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert [line.partition(":")[0] for line in printed.splitlines()] == ["small", "generate"]
    *answers, last = errors.splitlines()
    assert last == "dask-rac: stopped in step 'cluster'; continue with `dask-rac run long.yaml`"
    assert all(line.startswith("dask-rac: stopping as soon as the current step ends") for line in answers)
    plan = done("run", "long.yaml", "--dry-run", cwd=tmp_path)
    assert [re.split(r"\s+", line.strip())[0] for line in plan.splitlines() if " skip " in line] == [
        "small",
        "generate",
    ]
    assert " resume " in plan
    again = done("run", "long.yaml", cwd=tmp_path)
    assert again.count("skipped") == 2
    expected = dask_rac.cluster(str(tmp_path / "long/edges"), weights="similarity").cut(n_clusters=9)
    assert pd.read_csv(tmp_path / "long/labels.csv")["label"].tolist() == expected.tolist()


def test_a_garbage_recipe_is_refused_with_its_lines(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("foldr: x\nsteps:\n  generate:\n    nods: 3\n  clustr:\n")
    failed = refused("run", "bad.yaml", cwd=tmp_path)
    assert failed.returncode == 2
    for part in ("line 1", "'folder'", "line 4", "'nodes'", "line 5", "'cluster'"):
        assert part in failed.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["bad.yaml"]
