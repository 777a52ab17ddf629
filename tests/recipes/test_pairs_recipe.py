"""Recipes without a graph: a cluster step that takes vectors."""

from pathlib import Path

import numpy as np
import pytest
from scipy.cluster.hierarchy import linkage

import dask_rac
from tests.support.recipes import actions, run, runner

RECIPE = """
folder: {folder}
steps:
  generate: {{kind: sift, nodes: 200, dimensions: 8}}
  cluster: {{metric: euclidean, linkage: ward}}
  verify:
  export: {{output: Z.npy}}
"""


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "pairs.yaml"
    path.write_text(RECIPE.format(folder=tmp_path / "out"))
    return path


def test_vectors_are_clustered_without_a_graph_and_only_once(recipe: Path, tmp_path: Path) -> None:
    assert set(run(recipe).values()) == {"do"}
    assert set(run(recipe).values()) == {"skip"}
    rows = np.fromfile(tmp_path / "out/sift.bvecs", np.uint8).reshape(200, 12)[:, 4:]
    heights = np.load(tmp_path / "out/Z.npy")[:, 2]
    np.testing.assert_allclose(heights, linkage(rows.astype(np.float64), "ward")[:, 2], rtol=1e-9)


def test_a_step_may_name_vectors_or_distances(recipe: Path, tmp_path: Path) -> None:
    points = np.random.default_rng(0).normal(size=(40, 3))
    np.save(tmp_path / "points.npy", points)
    np.save(tmp_path / "distances.npy", np.abs(points[:, :1] - points[:, 0]))
    run(recipe, f"cluster.vectors={tmp_path / 'points.npy'}", "cluster.metric=null")
    np.testing.assert_allclose(np.load(tmp_path / "out/Z.npy")[:, 2], linkage(points, "ward")[:, 2], rtol=1e-9)
    changes = f"folder={tmp_path / 'given'}", f"cluster.vectors={tmp_path / 'distances.npy'}"
    run(recipe, *changes, "cluster.metric=precomputed", "cluster.linkage=average")
    heights = np.load(tmp_path / "given/Z.npy")[:, 2]
    np.testing.assert_allclose(heights, linkage(points[:, :1], "average")[:, 2], rtol=1e-9)


def test_a_changed_metric_or_file_of_vectors_is_noticed(recipe: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "points.npy", np.random.default_rng(0).normal(size=(40, 3)))
    changes = f"cluster.vectors={tmp_path / 'points.npy'}", "cluster.linkage=average"
    run(recipe, *changes)
    with pytest.raises(dask_rac.InputError, match="metric was 'euclidean', is now 'cosine'"):
        run(recipe, *changes, "cluster.metric=cosine")
    np.save(tmp_path / "points.npy", np.random.default_rng(1).normal(size=(41, 3)))
    with pytest.raises(dask_rac.InputError, match="its input has changed"):
        run(recipe, *changes)


def test_a_step_that_was_stopped_starts_again(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    record = tmp_path / "out/steps/cluster.json"
    text = record.read_text()
    record.write_text(text.replace(text[text.index('"finished"') :].partition(",")[0], '"finished": null'))
    (tmp_path / "out/run/manifests/00000.json").unlink()
    assert actions(runner(recipe).plan())["cluster"] == "resume"
    assert run(recipe)["cluster"] == "resume"
    assert dask_rac.open(tmp_path / "out/run").n_trees == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("cluster.metric=cosine", "linkage='ward' is defined by euclidean distances"),
        ("cluster.metric=cosin", "metric='cosin' is unknown"),
        ("cluster.missing=3", "missing=3.0 says what a pair without an edge means"),
        ("cluster.weights=similarity", "have distances"),
        ("cluster.shards=2", "shards=2 is for the edges of a graph"),
        ("cluster.n_nodes=300", "n_nodes=300 is for the edges of a graph"),
        ("cluster.metric=null", "kind='sift' makes vectors, not edges"),
        ("cluster.edges=edges", "needs vectors: in place of edges:"),
    ],
)
def test_a_cluster_step_is_checked_before_anything_starts(
    recipe: Path, tmp_path: Path, change: str, message: str
) -> None:
    with pytest.raises(dask_rac.InputError, match=message):
        run(recipe, change)
    assert not (tmp_path / "out").exists()


def test_edges_have_no_metric(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(dask_rac.InputError, match="metric='euclidean' is for vectors, and kind='lattice' makes edges"):
        run(recipe, "generate.kind=lattice", "generate.dimensions=null")
    assert not (tmp_path / "out").exists()


def test_memory_is_forecast_from_the_number_of_vectors(recipe: Path, tmp_path: Path) -> None:
    forecasts = {planned.step.name: planned.forecast for planned in runner(recipe).plan()}
    assert forecasts["cluster"].text == "19,900 pairs by matrix, 0.239 MB of memory"
    assert forecasts["verify"].text == "reads 19,900 pairs once"
    with pytest.raises(dask_rac.ResourceError, match=r"500,000,000 (nodes|vectors).* need"):
        run(recipe, "generate.nodes=5e8")
    assert not (tmp_path / "out").exists()
    elsewhere = {planned.step.name: planned.forecast.text for planned in runner(recipe, "scheduler=tcp://h:1").plan()}
    assert elsewhere["cluster"] == "planned when the workers are connected"
