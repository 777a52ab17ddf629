"""Steps run once, are skipped when nothing has changed, and never overwrite existing files."""

import json
import math
import os
import shutil
from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dask_rac
from dask_rac import InputError, ResourceError, StoreInUseError
from dask_rac.base.events import Event
from dask_rac.files.folder import Folder
from dask_rac.recipes.recipe import RecipeStep, load_recipe
from dask_rac.recipes.runner import _stamp
from tests.support.recipes import actions, run, runner
from tests.support.times import MOMENT, report_times

RECIPE = """
folder: {folder}
steps:
  generate: {{nodes: 400, degree: 6, weights: similarity, output: edges}}
  cluster: {{weights: similarity, shards: 2}}
  verify:
  cut: {{n_clusters: [5, 9], output: labels.parquet}}
  export: {{output: tree.nwk}}
"""

ALL = ["generate", "cluster", "verify", "cut", "export"]


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE.format(folder=tmp_path / "made"))
    return path


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in sorted(folder.rglob("*"))
        if file.is_file() and file.name != "lock"
    }


def test_all_steps_once_then_none(recipe: Path, tmp_path: Path) -> None:
    assert actions(runner(recipe).plan()) == dict.fromkeys(ALL, "do")
    assert not (tmp_path / "made").exists()
    assert run(recipe) == dict.fromkeys(ALL, "do")
    made = tmp_path / "made"
    clustering = dask_rac.open(made / "run")
    labels = pd.read_parquet(made / "labels.parquet")
    both = clustering.cut(n_clusters=[5, 9])
    for wanted, expected in zip((5, 9), both, strict=True):
        found = labels[labels["n_clusters"].astype(int) == wanted].sort_values("node")["label"]
        assert np.array_equal(found, expected)
    before = contents(made)
    assert run(recipe) == dict.fromkeys(ALL, "skip")
    assert contents(made) == before


def test_records_tell_what_was_done(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    record = json.loads((tmp_path / "made/steps/cluster.json").read_text())
    assert record["facts"] | {"peak_disk": 0, "rounds": 0} == {
        "nodes": 400,
        "merges": 399,
        "trees": 1,
        "rounds": 0,
        "peak_disk": 0,
    }
    assert record["finished"]
    assert record["given"]["weights"] == "similarity"


@pytest.mark.parametrize("stage", ["generate", "round", "verify"])
def test_a_stopped_step_goes_on(recipe: Path, tmp_path: Path, stage: str) -> None:
    expected = tmp_path / "expected"
    run(recipe, f"folder={expected}")

    def stop(event: Event) -> None:
        if event.stage == stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt) as stopped:
        run(recipe, report=stop)
    step = {"generate": "generate", "round": "cluster", "verify": "verify"}[stage]
    assert f"in step '{step}'" in stopped.value.__notes__[0]
    done = ALL[: ALL.index(step)]
    assert run(recipe) == {name: "skip" if name in done else "resume" if name == step else "do" for name in ALL}
    for name in ("labels.parquet", "tree.nwk"):
        ours, theirs = tmp_path / "made" / name, expected / name
        assert (contents(ours) or ours.read_bytes()) == (contents(theirs) or theirs.read_bytes())


def test_what_does_not_change_the_result_changes_nothing(recipe: Path) -> None:
    run(recipe)
    assert set(run(recipe, "cluster.memory=1GB", "cluster.shards=3", "scheduler=threads:1").values()) == {"skip"}


@pytest.mark.parametrize(
    ("change", "step", "message"),
    [
        ("generate.nodes=401", "generate", "nodes was 400, is now 401"),
        ("cluster.linkage=complete", "cluster", "linkage was 'average', is now 'complete'"),
        ("cut.n_clusters=6", "cut", r"n_clusters was \[5, 9\], is now 6"),
    ],
)
def test_a_changed_step_is_refused_and_nothing_is_lost(
    recipe: Path, tmp_path: Path, change: str, step: str, message: str
) -> None:
    run(recipe)
    before = contents(tmp_path / "made")
    with pytest.raises(InputError, match=rf"step '{step}' has changed .*{message}.*--from {step}"):
        run(recipe, change)
    assert contents(tmp_path / "made") == before


def test_from_a_step_on_all_is_done_again(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    begun = {name: (tmp_path / f"made/steps/{name}.json").stat().st_mtime_ns for name in ALL}
    plan = actions(runner(recipe, "cluster.linkage=complete").plan("cluster"))
    assert plan == {"generate": "skip"} | dict.fromkeys(ALL[1:], "again")
    run(recipe, "cluster.linkage=complete", start="cluster")
    now = {name: (tmp_path / f"made/steps/{name}.json").stat().st_mtime_ns for name in ALL}
    assert [now[name] > begun[name] for name in ALL] == [False, True, True, True, True]
    assert "linkage=complete" in repr(dask_rac.open(tmp_path / "made/run"))
    with pytest.raises(InputError, match="no step 'clustr': did you mean 'cluster'"):
        load_recipe(recipe).step("clustr")


def test_a_step_that_cannot_be_done_again_leaves_what_it_made(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    before = contents(tmp_path / "made")
    with pytest.raises(InputError, match="n_clusters=1000 is not possible"):
        run(recipe, "cut.n_clusters=1000", start="cut")
    assert contents(tmp_path / "made") == before
    assert run(recipe) == dict.fromkeys(ALL, "skip")
    assert run(recipe, "cut.n_clusters=6", start="cut")["cut"] == "again"
    assert not list((tmp_path / "made").glob("*.before"))


def test_a_run_that_is_made_again_is_verified_again(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    shutil.rmtree(tmp_path / "made/run")
    assert run(recipe) == dict.fromkeys(ALL, "skip") | {"cluster": "do", "verify": "do"}


def test_an_emptied_output_is_made_again(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    for file in (tmp_path / "made/edges").iterdir():
        file.unlink()
    assert run(recipe)["generate"] == "do"


def test_what_others_made_is_not_touched(recipe: Path, tmp_path: Path) -> None:
    foreign = tmp_path / "made/labels.parquet"
    foreign.parent.mkdir()
    foreign.write_text("mine")
    with pytest.raises(InputError, match=r"labels\.parquet exists, but was not made by step 'cut'"):
        run(recipe)
    with pytest.raises(InputError, match="was not made by step"):
        run(recipe, start="generate")
    assert foreign.read_text() == "mine"
    assert not (tmp_path / "made/edges").exists()


def test_from_a_step_on_leaves_what_others_made(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    mine = tmp_path / "made/mine.csv"
    mine.write_text("mine")
    with pytest.raises(InputError, match=r"mine\.csv exists, but was not made by step 'cut'"):
        run(recipe, "cut.output=mine.csv", start="cut")
    assert mine.read_text() == "mine"
    assert (tmp_path / "made/labels.parquet").exists()


def test_an_output_that_is_gone_is_made_again(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    (tmp_path / "made/tree.nwk").unlink()
    assert run(recipe) == dict.fromkeys(ALL[:-1], "skip") | {"export": "do"}


def test_what_others_put_in_place_of_a_lost_output_meanwhile_is_not_touched(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    tree = tmp_path / "made/tree.nwk"
    shutil.rmtree(tmp_path / "made/labels.parquet")
    tree.unlink()
    steps = runner(recipe).run()
    assert [next(steps)[0].action for _ in ALL[:-1]] == ["skip", "skip", "skip", "do"]
    tree.write_text("mine")
    with pytest.raises(InputError, match=r"step 'export' made .*tree\.nwk, which has been changed"):
        next(steps)
    assert tree.read_text() == "mine"


def test_a_lost_output_that_is_restored_meanwhile_is_left_as_it_is(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    tree = tmp_path / "made/tree.nwk"
    shutil.rmtree(tmp_path / "made/labels.parquet")
    kept = tree.rename(tmp_path / "kept.nwk")
    for planned, _ in runner(recipe).run():
        if planned.step.name == "cut":
            kept.rename(tree)
            before = (tree.stat().st_ino, tree.stat().st_mtime_ns)
    assert (planned.step.name, planned.action) == ("export", "skip")
    assert (tree.stat().st_ino, tree.stat().st_mtime_ns) == before


def test_another_output_leaves_the_one_before(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    assert run(recipe, "cut.output=others.csv", "cut.n_clusters=7")["cut"] == "do"
    assert {"labels.parquet", "others.csv"} <= {path.name for path in (tmp_path / "made").iterdir()}


def test_edges_of_the_users_count_by_their_files(tmp_path: Path) -> None:
    edges = tmp_path / "mine.parquet"
    pd.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [1.0, 2.0]}).to_parquet(edges)
    path = tmp_path / "recipe.yaml"
    path.write_text(f"folder: {tmp_path}/made\nsteps:\n  cluster: {{edges: {edges}}}\n")
    run(path)
    assert run(path) == {"cluster": "skip"}
    pd.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [1.0, 3.0]}).to_parquet(edges)
    with pytest.raises(InputError, match="its input has changed"):
        run(path)
    edges.unlink()
    with pytest.raises(InputError, match=r"mine\.parquet, which does not exist"):
        run(path)


def write_far(url: str, weight: float) -> None:
    pd.DataFrame({"source": [0, 1], "target": [1, 2], "weight": [1.0, weight]}).to_parquet(url)


def far_recipe(folder: Path) -> tuple[Path, str]:
    """A recipe, and the URL of the edges that it reads from the memory of this process."""
    path, url = folder / "recipe.yaml", f"memory://{folder.name}/edges.parquet"
    path.write_text(f"folder: {folder}/made\nsteps:\n  cluster: {{edges: '{url}'}}\n")
    return path, url


def test_changed_edges_of_equal_size_are_noticed_on_every_file_system(tmp_path: Path) -> None:
    path, url = far_recipe(tmp_path)
    write_far(url, 2.0)
    run(path)
    assert run(path) == {"cluster": "skip"}
    write_far(url, 3.0)
    with pytest.raises(InputError, match="its input has changed"):
        run(path)


@pytest.mark.parametrize("key", ["mtime", "LastModified", "created", "last_modified"])
def test_times_given_as_dates_are_times(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path, url = far_recipe(tmp_path)
    write_far(url, 2.0)
    prints = []
    for moment in (MOMENT, MOMENT, MOMENT + timedelta(seconds=1)):
        with monkeypatch.context() as patched:
            report_times(patched, key, moment)
            prints.append(runner(path).plan()[0].fingerprint)
    assert prints[0] == prints[1] != prints[2]


def test_fingerprints_of_local_files_stay(tmp_path: Path) -> None:
    """Records of steps hold them: another text for the same file, and finished steps would be refused."""
    edges = tmp_path / "edges.csv"
    edges.write_text("source,target,weight\n0,1,2\n")
    step = RecipeStep("ingest", "ingest", {}, None, 1)
    for seconds, expected in (
        (1_700_000_000.25, "dc5ee97a22ae9c927457b7fc76d9c0117455f173a86b5fd736317c205fcea92b"),
        (0, "1bd6c2baac9b8bf648ef0df5c090f05da348c84e37e8b2e3a4c5b5527a512442"),
    ):
        os.utime(edges, (seconds, seconds))
        assert _stamp(step, str(edges)) == expected


def test_credentials_are_refused_and_not_shown(recipe: Path) -> None:
    for change in ("cluster.edges=s3://key:secret@bucket/edges", "folder=s3://key:secret@bucket/made"):
        with pytest.raises(InputError) as refused:
            run(recipe, change)
        assert "secret" not in str(refused.value)
    with pytest.raises(InputError) as refused:
        load_recipe("https://user:secret@host/recipe.yaml")
    assert "secret" not in str(refused.value)


def test_ingest_then_cluster(tmp_path: Path) -> None:
    (tmp_path / "list.csv").write_text("a,b,w\n0,1,1.5\n1,2,2.5\n3,2,0.5\n")
    path = tmp_path / "recipe.yaml"
    path.write_text(
        f"folder: {tmp_path}/made\nsteps:\n  ingest: {{edges: {tmp_path}/list.csv, columns: [a, b, w]}}\n  cluster:\n"
    )
    assert run(path) == {"ingest": "do", "cluster": "do"}
    assert sorted(dask_rac.open(tmp_path / "made/run").merges.compute()["height"]) == [0.5, 1.5, 4.375]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("generate.degree=7", "line 4: step 'generate': degree=7 is odd"),
        ("generate.kind=ring", "step 'generate': kind='ring' is unknown"),
        ("generate.terms=5", "step 'generate': kind='lattice' does not take terms"),
        ("cluster.linkage=ward", "line 5: step 'cluster': linkage='ward'"),
        ("cut.output=labels.txt", r"step 'cut': .*must end in \.parquet"),
        ("export.output=tree.png", "step 'export': .*the ending must state what to write"),
        ("cut.n_clusters=0", "step 'cut': n_clusters: 0 is not possible"),
        ("cut.n_clusters=[]", r"step 'cut': n_clusters: \[\] is an empty list"),
        ("cluster.memory=2XB", "line 5: step 'cluster': memory='2XB' is not an amount"),
        ("cluster.shards=0", "step 'cluster': shards=0 is out of range"),
        ("scheduler=lokal:2x1", "scheduler 'lokal:2x1' is unknown: use local"),
    ],
)
def test_every_step_is_checked_before_the_first_starts(recipe: Path, tmp_path: Path, change: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        run(recipe, change)
    assert not (tmp_path / "made").exists()


def test_a_run_that_cannot_fit_is_refused_before_anything_starts(recipe: Path, tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="set memory="):
        run(recipe, "cluster.memory=1kB")
    assert not (tmp_path / "made").exists()


def test_two_runs_cannot_have_one_folder(recipe: Path, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    with Folder(tmp_path / "made").locked(), pytest.raises(StoreInUseError, match="in use by process"):
        run(recipe)


def test_forecasts_tell_sizes(recipe: Path) -> None:
    texts = [one.forecast.text for one in runner(recipe).plan()]
    assert texts[0].startswith("1,200 edges")
    assert texts[1].startswith("2 shards of")
    assert texts[2] == "reads 1,200 edges once"
    run(recipe)
    written = load_recipe(recipe).steps[1].output
    assert written is not None
    folder = Path(written).parent
    alone = folder.parent / "cut.yaml"
    alone.write_text(f"folder: {folder.parent}/more\nsteps:\n  cut: {{run: {folder}/run, n_clusters: 3}}\n")
    assert runner(alone).plan()[0].forecast.nodes == 400


def test_a_broken_record_is_named(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    (tmp_path / "made/steps/cut.json").write_text("{")
    with pytest.raises(InputError, match=r"steps/cut\.json cannot be read: delete it"):
        run(recipe)


def test_a_record_of_a_file_without_a_size_is_named(recipe: Path, tmp_path: Path) -> None:
    run(recipe)
    path = tmp_path / "made/steps/export.json"
    record = json.loads(path.read_text())
    for size in (float("inf"), float("nan"), -math.inf, "9", None, True, [9]):
        record["made"][""][0] = size
        path.write_text(json.dumps(record))
        with pytest.raises(InputError, match=r"steps/export\.json cannot be read: delete it"):
            runner(recipe).plan()
