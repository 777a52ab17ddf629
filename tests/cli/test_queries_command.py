"""`dask-rac cut` with all its options, `members` and `path`, and the same words in recipes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import dask_rac
from dask_rac.cli import main
from tests.support.folders import quick_folder
from tests.support.graphs import tangled_edges

EDGES = tangled_edges(120, 300, 30, seed=5)


@pytest.fixture(scope="module")
def run() -> Iterator[Path]:
    with quick_folder() as folder:
        dask_rac.cluster(EDGES, store=folder / "run")
        yield folder / "run"


def rac(*words: object) -> Result:
    return CliRunner(env={"COLUMNS": "200"}).invoke(main, [str(word) for word in words], prog_name="dask-rac")


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ("--height 12 --min-size 4 --max-size 9", {"height": 12.0, "min_size": 4, "max_size": 9}),
        ("--n-clusters 5 --min-size 3", {"n_clusters": 5, "min_size": 3}),
        ("--method eom --min-cluster-size 4", {"method": "eom", "min_cluster_size": 4}),
        (
            "--method leaf --cluster-selection-epsilon 12 --allow-single-cluster",
            {"method": "leaf", "cluster_selection_epsilon": 12.0, "allow_single_cluster": True},
        ),
        ("--method eom --max-cluster-size 30", {"method": "eom", "max_cluster_size": 30}),
    ],
)
def test_options_are_the_arguments_of_cut(words: str, wanted: dict[str, object], run: Path, tmp_path: Path) -> None:
    done = rac("cut", run, *words.split(), "-o", tmp_path / "labels.csv")
    assert done.exit_code == 0, done.output
    expected = dask_rac.open(run).cut(**wanted)  # type: ignore[arg-type]
    assert pd.read_csv(tmp_path / "labels.csv")["label"].tolist() == expected.tolist()
    members = rac("members", run, 0, *words.split(), "--limit", 0)
    assert members.stdout.split() == [str(node) for node in np.flatnonzero(expected == 0)]


def test_members_and_paths_are_short(run: Path) -> None:
    found = dask_rac.open(run)
    nodes = found.members(0, n_clusters=found.n_trees)
    done = rac("members", run, 0, "--n-clusters", found.n_trees, "--limit", 3)
    assert done.stdout.split() == [str(node) for node in nodes[:3]]
    assert f"warning: {len(nodes) - 3} more of {len(nodes)} nodes: pass --limit 0" in done.stderr
    by_node = rac("members", run, "--node", nodes[1], "--n-clusters", found.n_trees, "--limit", 3)
    assert by_node.stdout == done.stdout
    lines = rac("path", run, 7).stdout.splitlines()
    path = found.path(7)
    assert lines[0].split() == ["height", "size", "joined", "by", "of", "size"]
    assert len(lines) == min(len(path), 41) + 1
    assert lines[1].split() == [
        f"{path['height'][0]:.6g}",
        *(str(path[name][0]) for name in ("size", "joined", "joined_size")),
    ]
    assert lines[-1].split()[1] == str(path["size"].iloc[-1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("cut RUN -o x.csv", "pass either --height or --n-clusters, once or several times, or --method"),
        ("cut RUN --height 1 --min-cluster-size 4 -o x.csv", "--min-cluster-size 4 is for --method eom or"),
        ("cut RUN --method best -o x.csv", "--method best is unknown"),
        ("members RUN 999 --height 1", "label=999 does not exist"),
        ("members RUN 0 --height 1 --height 2", "is a list"),
        ("members RUN --height 1", "Give either the LABEL of a cluster, or one of its nodes with --node"),
        ("members RUN 0 --node 1 --height 1", "Give either the LABEL of a cluster"),
        ("path RUN 100000", "node=100000 does not exist"),
        ("path RUN somebody", "the nodes of this clustering have no names"),
    ],
)
def test_what_cannot_be_asked(words: str, message: str, run: Path) -> None:
    done = rac(*words.replace("RUN", str(run)).split())
    assert done.exit_code == 2
    assert message in done.stderr


def test_recipes_have_the_same_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    recipe = Path("recipe.yaml")
    recipe.write_text(
        "steps:\n  generate: {nodes: 200, degree: 6}\n  cluster:\n  cut: {height: 0.5, min_size: 3, output: a.csv}\n"
        "  stable: {do: cut, method: eom, min_cluster_size: [4, 8], output: b.csv}\n"
    )
    done = rac("run", recipe)
    assert done.exit_code == 0, done.output
    found = dask_rac.open("recipe/run")
    assert pd.read_csv("recipe/a.csv")["label"].tolist() == found.cut(height=0.5, min_size=3).tolist()
    table = pd.read_csv("recipe/b.csv")
    assert table.columns.tolist() == ["node", "min_cluster_size=4", "min_cluster_size=8"]
    recipe.write_text("steps:\n  cut: {run: recipe/run, method: eom, height: 0.5}\n")
    refused = rac("run", recipe)
    assert refused.exit_code == 2
    assert "height: 0.5 and method: eom exclude each other" in refused.stderr
