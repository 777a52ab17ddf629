"""`dask-rac graph` and the recipe step `graph`, in real processes."""

import json
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dask_rac
from tests.support.command import command_line, done, environment, rac, refused

VECTORS = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)


@pytest.fixture
def vectors(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.npy"
    np.save(path, VECTORS)
    return path


def edges_of(folder: Path) -> pd.DataFrame:
    return pd.concat([pd.read_parquet(file) for file in sorted(folder.glob("*.parquet"))], ignore_index=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["knn", "--k", "7", "--metric", "cosine", "--mode", "mutual"], lambda: knn(7, "cosine", "mutual")),
        (["eps", "--eps", "2.5", "--metric", "manhattan"], lambda: dask_rac.eps_graph(VECTORS, 2.5, "manhattan")),
        (["complete"], lambda: dask_rac.complete_graph(VECTORS)),
    ],
)
@pytest.mark.filterwarnings("ignore:the graph has")
def test_writes_what_the_functions_give(words: list[str], expected: object, vectors: Path, tmp_path: Path) -> None:
    result = rac("graph", words[0], vectors, "-o", "edges", *words[1:], cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    pd.testing.assert_frame_equal(edges_of(tmp_path / "edges"), expected())  # type: ignore[operator]
    assert "400" in result.stdout
    assert ("components" in result.stderr) == ("forest" in result.stderr)


def knn(*arguments: object) -> pd.DataFrame:
    frame: pd.DataFrame = dask_rac.knn_graph(VECTORS, *arguments)  # type: ignore[arg-type]
    return frame


def test_tells_facts_to_programs(vectors: Path, tmp_path: Path) -> None:
    facts = json.loads(done("graph", "knn", vectors, "-o", "edges", "--json", "-q", cwd=tmp_path))
    assert (facts["nodes"], facts["components"], facts["method"]) == (400, 1, "tree")
    assert facts["edges"] == len(edges_of(tmp_path / "edges"))


def test_on_workers(vectors: Path, tmp_path: Path) -> None:
    done("graph", "knn", vectors, "-o", "edges", "--scheduler", "local:2x1", "-q", cwd=tmp_path)
    pd.testing.assert_frame_equal(edges_of(tmp_path / "edges"), dask_rac.knn_graph(VECTORS))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["knn", "--k", "400"], "--k 400 is too large: there are 400 vectors in vectors.npy"),
        (["knn", "--metric", "hamming"], "--metric hamming is unknown: use one of 'euclidean'"),
        (["knn", "--mode", "both"], "--mode both is unknown"),
        (["eps", "--eps", "-1"], "--eps -1.0 is not a finite number"),
        (["knn", "--memory", "1KB"], "--memory"),
    ],
)
def test_refusals(words: list[str], message: str, vectors: Path, tmp_path: Path) -> None:
    result = refused("graph", words[0], vectors.name, "-o", "edges", *words[1:], cwd=tmp_path)
    assert result.returncode in (2, 3)
    assert message in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["vectors.npy"]


def test_a_bad_vector_is_named(tmp_path: Path) -> None:
    bad = VECTORS.copy()
    bad[17, 3] = np.nan
    np.save(tmp_path / "bad.npy", bad)
    result = refused("graph", "knn", "bad.npy", "-o", "edges", cwd=tmp_path)
    assert result.returncode == 2
    assert "row 17 of bad.npy has nan in dimension 3: drop such vectors, or fill them in" in result.stderr


def test_stopped_by_ctrl_c_the_same_command_goes_on(tmp_path: Path) -> None:
    dask_rac.datasets.sift(12_000, store=tmp_path / "sift.bvecs", progress=False)
    words = "graph", "knn", "sift.bvecs", "-o", "edges", "--k", "40"
    process = subprocess.Popen(
        command_line(*words), cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    work = tmp_path / "edges.partial/work/self"
    while process.poll() is None and not (work.is_dir() and any(work.glob("*.npz"))):
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    message = process.communicate()[1]
    assert process.returncode == 130, message
    assert "finished work is kept; run it again with the same arguments to continue" in message
    assert not (tmp_path / "edges").exists()
    done(*words, "-q", cwd=tmp_path)
    pd.testing.assert_frame_equal(edges_of(tmp_path / "edges"), dask_rac.knn_graph(tmp_path / "sift.bvecs", 40))


def test_a_recipe_goes_from_vectors_to_labels(vectors: Path, tmp_path: Path) -> None:
    (tmp_path / "recipe.yaml").write_text(
        f"steps:\n  graph: {{vectors: {vectors}, k: 5}}\n  cluster: {{memory: 1GB}}\n  verify:\n"
        "  cut: {n_clusters: 4, output: labels.parquet}\n"
    )
    lines = done("run", "recipe.yaml", cwd=tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["graph", "cluster", "verify", "cut"]
    labels = pd.read_parquet(tmp_path / "recipe/labels.parquet")
    expected = dask_rac.cluster(VECTORS, graph={"k": 5}).cut(n_clusters=4)
    assert len(labels) == len(expected) == 400
    assert all("skipped" in line for line in done("run", "recipe.yaml", cwd=tmp_path).splitlines())
    changed = refused("run", "recipe.yaml", "--set", "graph.k=6", cwd=tmp_path)
    assert changed.returncode == 2
    assert "k was 5, is now 6" in changed.stderr
    done("run", "recipe.yaml", "--set", "graph.k=6", "--from", "graph", cwd=tmp_path)


def test_a_recipe_says_before_it_starts_what_a_kind_does_not_know(vectors: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(f"steps:\n  graph: {{kind: eps, vectors: {vectors}, k: 5, eps: 1}}\n")
    assert "kind: eps does not take k: remove it" in refused("run", "recipe.yaml", cwd=tmp_path).stderr
    recipe.write_text(f"steps:\n  graph: {{kind: eps, vectors: {vectors}}}\n")
    assert "kind: eps needs eps" in refused("run", "recipe.yaml", cwd=tmp_path).stderr
    recipe.write_text(f"steps:\n  graph: {{kind: ring, vectors: {vectors}}}\n")
    assert "kind: ring is unknown" in refused("run", "recipe.yaml", cwd=tmp_path).stderr
    recipe.write_text("steps:\n  generate: {kind: sift, nodes: 50, output: x}\n  graph: {}\n")
    assert "use .bvecs or .fvecs or .npy" in refused("run", "recipe.yaml", cwd=tmp_path).stderr


@pytest.mark.parametrize("kind", ["sift", "documents"])
def test_generated_vectors(kind: str, tmp_path: Path) -> None:
    store, more = ("v.bvecs", []) if kind == "sift" else ("v.zarr", ["--terms", "500"])
    assert done("generate", kind, "--nodes", "60", *more, "-o", store, cwd=tmp_path).strip() == store
    metric = "euclidean" if kind == "sift" else "cosine"
    done("graph", "complete", store, "-o", "edges", "--metric", metric, "-q", cwd=tmp_path)
    assert len(edges_of(tmp_path / "edges")) == 60 * 59 // 2
