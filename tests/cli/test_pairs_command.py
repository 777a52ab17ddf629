"""All pairs of vectors, or of a matrix of distances, from the command line."""

import json
import os
import signal
import subprocess
import time
from contextlib import chdir
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import pdist

import dask_rac
from dask_rac.cli.entry import main
from tests.support.command import command_line, done, environment, refused

Method = Literal["single", "complete", "average", "weighted", "ward"]
POINTS = np.random.default_rng(5).normal(size=(300, 6))


def printed(*words: str, cwd: Path) -> str:
    """Return what a successful command prints, run in this process."""
    with chdir(cwd):
        ended = CliRunner(env={"COLUMNS": "200"}).invoke(main, words, prog_name="dask-rac")
    assert ended.exit_code == 0, ended.output
    return ended.stdout


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    np.save(tmp_path / "vectors.npy", POINTS)
    return tmp_path


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run by ward linkage."""
    folder = tmp_path_factory.mktemp("ward")
    np.save(folder / "vectors.npy", POINTS)
    said = printed("cluster", "vectors.npy", "--metric", "euclidean", "--linkage", "ward", "-o", "run", cwd=folder)
    assert "metric   euclidean" in said
    assert "missing" not in said
    return folder


@pytest.mark.parametrize("method", get_args(Method))
def test_every_linkage_gives_the_tree_of_scipy(method: Method, vectors: Path) -> None:
    np.save(vectors / "condensed.npy", pdist(POINTS))
    expected = linkage(POINTS, method)
    for name, metric in (("vectors", []), ("condensed", ["--metric", "precomputed"])):
        printed("cluster", f"{name}.npy", *metric, "--linkage", method, "-o", name, cwd=vectors)
        printed("export", name, "-o", f"{name}.Z.npy", cwd=vectors)
        found = np.load(vectors / f"{name}.Z.npy")
        np.testing.assert_array_equal(found[:, [0, 1, 3]], expected[:, [0, 1, 3]])
        np.testing.assert_allclose(found[:, 2], expected[:, 2], rtol=1e-9)


def test_info_speaks_of_vectors_and_pairs(ward: Path) -> None:
    shown = printed("info", "run", cwd=ward)
    assert f"vectors  {ward}/vectors.npy" in shown
    assert "300 nodes, 44,850 pairs" in shown
    assert "ward of distance, metric euclidean" in shown
    assert "edges" not in shown
    assert "missing" not in shown
    known = json.loads(printed("info", "run", "--json", cwd=ward))
    assert known["vectors"] == str(ward / "vectors.npy")
    assert (known["parameters"]["metric"], known["facts"]["edges"]) == ("euclidean", 44_850)
    assert "missing" not in known["parameters"]
    assert "edges" not in known


def test_verify_reads_all_pairs(ward: Path) -> None:
    assert "299 merges verified against 44,850 pairs" in printed("verify", "run", cwd=ward)
    assert json.loads(printed("verify", "run", "--json", cwd=ward))["all_pairs"] is True
    np.save(ward / "others.npy", POINTS[::-1])
    wrong = refused("verify", "run", "--edges", "others.npy", cwd=ward)
    assert (wrong.returncode, "merges are wrong" in wrong.stderr) == (4, True)


def test_the_report_gives_no_advice_on_edges(ward: Path) -> None:
    printed("report", "run", "-o", "report.html", cwd=ward)
    page = (ward / "report.html").read_text()
    assert "vectors from" in page
    assert '<th scope="row">metric</th><td>euclidean</td>' in page
    for word in ("missing", "edges per node", "edges from", "duplicates"):
        assert f'<th scope="row">{word}</th>' not in page
    assert "missing=" not in page


def test_a_plan_follows_from_the_number_of_vectors(vectors: Path) -> None:
    planned = json.loads(printed("plan", "vectors.npy", "--linkage", "ward", "--memory", "1MB", "--json", cwd=vectors))
    assert (planned["nodes"], planned["edges"], planned["metric"]) == (300, 44_850, "euclidean")
    assert 8 * 44_850 < planned["memory"] < 1e6
    assert "pairs      44,850" in printed("plan", "vectors.npy", "--linkage", "ward", cwd=vectors)
    words = "plan", "vectors.npy", "--linkage", "ward", "--memory", "100kB"
    assert refused(*words, cwd=vectors).returncode == 3
    large = refused(*words, "--engine", "matrix", cwd=vectors)
    assert large.returncode == 3
    assert "`dask-rac graph knn`" in large.stderr
    assert "`dask-rac graph eps`" in large.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--linkage", "ward", "--metric", "cosine"], "use --metric euclidean"),
        (["--metric", "cosin"], "--metric cosin is unknown"),
        (["--missing", "3"], "--missing 3.0 says what a pair without an edge means"),
        (["--n-nodes", "400"], "--n-nodes 400 is for the edges of a graph"),
        (["--shards", "2"], "--shards 2 is for the edges of a graph"),
        (["--metric", "inner_product"], "--weights similarity"),
        (["--metric", "precomputed"], "(300, 6)"),
    ],
)
def test_what_does_not_fit_together_is_refused(words: list[str], message: str, vectors: Path) -> None:
    failed = refused("cluster", "vectors.npy", *words, "-o", "run", cwd=vectors)
    assert (failed.returncode, message in failed.stderr) == (2, True), failed.stderr
    assert not (vectors / "run").exists()


def test_ward_of_edges_says_how_to_take_all_pairs(tmp_path: Path) -> None:
    pd.DataFrame({"source": [0], "target": [1], "weight": [1.0]}).to_parquet(tmp_path / "edges.parquet")
    failed = refused("cluster", "edges.parquet", "--linkage", "ward", "-o", "run", cwd=tmp_path)
    assert "for all pairs of vectors pass --metric euclidean and no graph" in failed.stderr


def test_killed_in_the_middle_a_run_on_all_pairs_is_resumed(tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(8_000, 8))
    np.save(tmp_path / "vectors.npy", points)
    process = subprocess.Popen(
        command_line("cluster", "vectors.npy", "--linkage", "ward", "-o", "run"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    while not any((tmp_path / "run/statistics").glob("*.json")):
        assert process.poll() is None, process.communicate()
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    known = json.loads(printed("info", "run", "--json", cwd=tmp_path))
    assert (known["status"], known["facts"], known["merges"]) == ("stopped", None, 0)
    assert len(known["rounds"]) >= 1
    shown = printed("info", "run", cwd=tmp_path)
    assert "pairs    not merged yet" in shown
    early = refused("cut", "run", "--n-clusters", "3", "-o", "labels.csv", cwd=tmp_path)
    assert "its merges are written at its end" in early.stderr
    done("resume", "run", cwd=tmp_path)
    columns = ["left", "right", "height", "size"]
    found = dask_rac.open(tmp_path / "run").merges.compute()[columns].sort_values("right", ignore_index=True)
    expected = dask_rac.cluster(points, "ward").merges[columns].sort_values("right", ignore_index=True)
    pd.testing.assert_frame_equal(found, expected, check_exact=True, check_dtype=False)


def test_changed_vectors_are_not_resumed(vectors: Path) -> None:
    printed("cluster", "vectors.npy", "-o", "run", cwd=vectors)
    for manifest in (vectors / "run/manifests").iterdir():
        manifest.unlink()
    np.save(vectors / "vectors.npy", POINTS[:200])
    failed = refused("resume", "run", cwd=vectors)
    assert (failed.returncode, "restore the original vectors" in failed.stderr) == (2, True), failed.stderr
