"""Recipes are checked as a whole, and every fault is reported with its line."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dask_rac import InputError
from dask_rac.recipes.recipe import load_recipe
from dask_rac.recipes.schema import STEPS
from tests.support.root import ROOT

PIPELINES = sorted((ROOT / "pipelines").glob("*.yaml"))


def written(folder: Path, text: str) -> Path:
    path = folder / "recipe.yaml"
    path.write_text(text)
    return path


def faults(folder: Path, text: str, *changes: str) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_recipe(written(folder, text), changes)
    return str(caught.value).replace(f"{folder}/", "").splitlines()


@pytest.mark.parametrize("path", PIPELINES, ids=lambda path: path.stem)
def test_ready_recipes_are_sound_and_say_what_they_need(path: Path) -> None:
    recipe = load_recipe(path)
    made = [step.do for step in recipe.steps if step.do != "graph"]
    assert made[:3] == ["generate", "cluster", "verify"]
    head = path.read_text().partition("\n\n")[0]
    assert all(line.startswith("#") for line in head.splitlines())
    for word in ("Shows", "Needs", "dask-rac run pipelines/"):
        assert word in head
    assert "Takes" in head or "Not run here" in head


def test_steps_work_on_what_was_made_before(tmp_path: Path) -> None:
    text = "steps:\n generate: {nodes: 100}\n cluster:\n cut: {n_clusters: [2, 3]}\n z: {do: export, output: z.npy}\n"
    recipe = load_recipe(written(tmp_path, text))
    assert recipe.folder == "recipe"
    generate, cluster, cut, last = recipe.steps
    assert generate.output == cluster.given["edges"] == "recipe/edges"
    assert cut.given["run"] == last.given["run"] == cluster.output == "recipe/run"
    assert [step.parent for step in recipe.steps] == [None, "generate", "cluster", "cluster"]
    assert last.output == "recipe/z.npy"


def test_a_step_may_name_what_it_works_on(tmp_path: Path) -> None:
    text = """
folder: s3://bucket/there
steps:
  one: {do: generate, nodes: 100, output: one}
  two: {do: generate, nodes: 100, output: two}
  cluster: {edges: one}
  other: {do: cluster, edges: /data/edges.parquet, output: /data/run}
  cut: {height: 0.5, run: run}
"""
    steps = {step.name: step for step in load_recipe(written(tmp_path, text)).steps}
    assert (steps["cluster"].parent, steps["cluster"].given["edges"]) == ("one", "s3://bucket/there/one")
    assert (steps["other"].parent, steps["other"].given["edges"]) == (None, "/data/edges.parquet")
    assert steps["other"].output == "/data/run"
    assert (steps["cut"].parent, steps["cut"].given["run"]) == ("cluster", "s3://bucket/there/run")


def test_values_are_set_from_outside(tmp_path: Path) -> None:
    path = written(tmp_path, "steps:\n generate: {nodes: 100}\n cut: {run: there, height: 1}\n")
    changes = [
        "folder=/x",
        "generate.nodes=1e6",
        "steps.cut.height=[0.1, 0.2]",
        "scheduler=local:2x1",
        "require-tls=true",
    ]
    recipe = load_recipe(path, changes)
    assert (recipe.folder, recipe.scheduler, recipe.require_tls) == ("/x", "local:2x1", True)
    assert recipe.steps[0].given["nodes"] == 1_000_000
    assert recipe.steps[1].given["height"] == [0.1, 0.2]


def test_an_unknown_key_gets_the_nearest_and_the_line(tmp_path: Path) -> None:
    text = "foldr: x\nsteps:\n  generate:\n    nods: 100\n    nodes: 100\n  clustr: {}\n  cut: {heights: 3}\n"
    found = faults(tmp_path, text)
    assert found[0].startswith("recipe.yaml, line 1: a recipe has no key 'foldr': did you mean 'folder'?")
    assert found[1].startswith("recipe.yaml, line 4: step 'generate' has no key 'nods': did you mean 'nodes'?")
    assert found[2].startswith(
        "recipe.yaml, line 6: step 'clustr': there is no kind of step 'clustr': did you mean 'cluster'?"
    )
    assert found[3].startswith("recipe.yaml, line 7: step 'cut' has no key 'heights': did you mean 'height'?")


def test_a_scheduler_that_is_unknown_gets_its_line(tmp_path: Path) -> None:
    text = "folder: x\nscheduler: locl:2x1\nsteps:\n  generate: {nodes: 100, degre: 3}\n  cluster:\n    shards: 2\n"
    text += "    scheduler: local:2xtwo\n  verify: {scheduler: kubernetes:there.yaml}\n"
    found = faults(tmp_path, text)
    assert len(found) == 4
    assert found[0].startswith("recipe.yaml, line 4: step 'generate' has no key 'degre'")
    assert found[1] == "recipe.yaml, line 2: scheduler 'locl:2x1' is unknown: use local:WORKERSxTHREADS"
    assert found[2].startswith("recipe.yaml, line 7: step 'cluster': scheduler 'local:2xtwo'")
    assert found[3].startswith("recipe.yaml, line 8: step 'verify': scheduler 'kubernetes:there.yaml'")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "recipe.yaml, line 1: a recipe must be a mapping"),
        ("- a\n- b\n", "recipe.yaml, line 1: a recipe must be a mapping"),
        ("folder: x\n", "recipe.yaml, line 1: a recipe needs steps"),
        ("steps: {}\n", "recipe.yaml, line 1: a recipe needs steps"),
        ("steps: [cut]\n", "recipe.yaml, line 1: steps must be a mapping"),
        ("steps:\n  cut: 3\n", "recipe.yaml, line 2: step 'cut' must be a mapping"),
        ("steps:\n  generate:\n", "recipe.yaml, line 2: step 'generate' needs nodes:"),
        ("steps:\n  generate: {nodes: many}\n", "line 2: nodes of step 'generate' must be a whole number, not 'many'"),
        ("steps:\n  generate: {nodes: 1.5}\n", "must be a whole number, not 1.5"),
        ("steps:\n  generate: {nodes: true}\n", "must be a whole number, not True"),
        ("steps:\n  cluster:\n", "line 2: step 'cluster' needs edges:, or an earlier graph or"),
        ("steps:\n  cut: {run: x}\n", "line 2: step 'cut' needs either height: or n_clusters:"),
        ("steps:\n  cut: {run: x, height: 1, n_clusters: 2}\n", "needs either height: or n_clusters:"),
        ("steps:\n  cut: {run: x, n_clusters: [2, a]}\n", "must be a whole number, or a list of these, not [2, 'a']"),
        ("steps:\n  'a/b': {do: verify, run: x}\n", "line 2: 'a/b' is not a valid step name"),
        ("steps:\n  verify: {run: x}\n  verify: {run: y}\n", "line 3: steps has the key 'verify' twice"),
        (
            "steps:\n  a: {do: generate, nodes: 9}\n  b: {do: generate, nodes: 9}\n",
            "have the same output, recipe/edges",
        ),
        ("steps:\n  export: {run: x}\n", "line 2: step 'export' needs output:"),
        ("steps:\n  cluster: {edges: x, finisher: maybe}\n", "finisher of step 'cluster' must be true or false"),
        ("steps:\n  a: {do: {b: c}}\n", "line 2: step 'a': there is no kind of step {'b': 'c'}"),
        ("steps: {a: [\n", "recipe.yaml, line 2: invalid YAML"),
        ("steps: !!python/object:os.system {}\n", "recipe.yaml, line 1: tags (!) are not accepted: remove it"),
        ("steps:\n\tcut:\n", "recipe.yaml, line 2: invalid YAML"),
        ("\x00\x01", "recipe.yaml: invalid YAML"),
    ],
)
def test_garbage(tmp_path: Path, text: str, fault: str) -> None:
    assert any(fault in found for found in faults(tmp_path, text))


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("nodes", "--set: 'nodes' is not key=value"),
        ("=3", "is not key=value"),
        ("a.b.c=3", "is not key=value"),
        ("generat.nodes=3", "--set: there is no step 'generat': did you mean 'generate'?"),
        ("generate.nods=3", "--set: step 'generate' has no key 'nods': did you mean 'nodes'?"),
        ("scheduler=thread", "--set: scheduler 'thread' is unknown: use threads"),
        ("generate.nodes=x", "--set: nodes of step 'generate' must be a whole number, not 'x'"),
        ("foldr=3", "--set: a recipe has no key 'foldr': did you mean 'folder'?"),
    ],
)
def test_bad_changes(tmp_path: Path, change: str, fault: str) -> None:
    assert fault in faults(tmp_path, "steps:\n  generate: {nodes: 100}\n", change)[0]


def test_no_such_recipe(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere\.yaml does not exist"):
        load_recipe(tmp_path / "nowhere.yaml")
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00\xd8")
    with pytest.raises(InputError, match=r"binary\.yaml cannot be read"):
        load_recipe(tmp_path / "binary.yaml")
    with pytest.raises(InputError, match="is a folder: pass the path of a recipe"):
        load_recipe(tmp_path)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*STEPS, "other"]), anything, max_size=3) | anything)
def test_whatever_is_written_is_a_recipe_or_an_input_error(
    tmp_path_factory: pytest.TempPathFactory, steps: object
) -> None:
    path = written(tmp_path_factory.mktemp("recipes"), yaml.safe_dump({"steps": steps}))
    try:
        recipe = load_recipe(path)
    except InputError:
        return
    assert recipe.steps
    assert all(step.do in STEPS for step in recipe.steps)
