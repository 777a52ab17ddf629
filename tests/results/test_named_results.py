"""Names come back: in Newick, in merges, in the dendrogram, from the command line and from recipes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from bokeh.models import ColumnDataSource
from click.testing import CliRunner
from hypothesis import given

import dask_rac
from dask_rac.cli import main
from tests.support.effort import examples
from tests.support.folders import quick_folder
from tests.support.recipes import run
from tests.support.text_ids import NamedGraph, named_graphs, random_graph

GRAPH = random_graph(60, 200)
QUOTED = re.compile(r"'((?:[^']|'')*)'")


def results(graph: NamedGraph, folder: Path) -> list[dask_rac.Clustering]:
    """Return the clustering in memory and in a store."""
    graph.frame.to_parquet(folder / "edges.parquet")
    return [dask_rac.cluster(graph.frame), dask_rac.cluster(folder / "edges.parquet", store=folder / "run")]


@examples(15)
@given(named_graphs())
def test_leaves_of_newick_are_quoted_names(graph: NamedGraph) -> None:
    with quick_folder() as folder:
        for place, found in enumerate(results(graph, folder)):
            numbers = Path(found.export(folder / f"numbers{place}.nwk", names=False)).read_text()
            named = Path(found.export(folder / f"named{place}.nwk")).read_text()
            quoted = (f"'{graph.names[int(leaf[0])]}'".replace("'", "''")[1:-1] for leaf in leaves(numbers))
            assert [leaf[0] for leaf in QUOTED.finditer(named)] == list(quoted)
            assert sorted(leaf[1].replace("''", "'") for leaf in QUOTED.finditer(named)) == sorted(graph.names)
            # Without leaves, the two are one tree.
            assert QUOTED.sub("", named) == re.sub(r"(?<=[(,\n])\d+|^\d+", "", numbers)


def leaves(newick: str) -> list[re.Match[str]]:
    """Return the leaves of a tree whose leaves are numbers."""
    return list(re.finditer(r"(?<=[(,\n])\d+|^\d+", newick))


def test_merges_have_names_on_request(tmp_path: Path) -> None:
    for place, found in enumerate(results(GRAPH, tmp_path)):
        merges: Any = found.named_merges()
        frame = merges.compute() if hasattr(merges, "compute") else merges
        assert list(frame) == ["left", "right", "height", "size", "round", "left_name", "right_name"]
        for side in ("left", "right"):
            assert frame[f"{side}_name"].tolist() == [GRAPH.names[node] for node in frame[side]]
        written = pd.read_parquet(found.export(tmp_path / f"named{place}.parquet", names=True))
        pd.testing.assert_frame_equal(written, frame.reset_index(drop=True), check_dtype=False)
        assert "left_name" not in pd.read_parquet(found.export(tmp_path / f"plain{place}.parquet"))


def test_without_names_none_can_be_written(tmp_path: Path) -> None:
    found = dask_rac.cluster(GRAPH.numbered)
    for name in ("tree.nwk", "merges.parquet"):
        with pytest.raises(
            dask_rac.InputError, match="names=True needs names, and the nodes of this clustering have none"
        ):
            found.export(tmp_path / name, names=True)
    with pytest.raises(dask_rac.InputError, match=r"named_merges\(\) needs names"):
        found.named_merges()
    with pytest.raises(dask_rac.InputError, match="Z holds numbers only"):
        dask_rac.cluster(GRAPH.frame).export(tmp_path / "tree.npy", names=True)
    assert not list(tmp_path.iterdir())


def test_the_dendrogram_shows_names() -> None:
    found = dask_rac.cluster(GRAPH.frame)
    figure: Any = found.plot_dendrogram(10).figure
    data = {source.name: source.data for source in figure.select({"type": ColumnDataSource})}
    for node, size, label in zip(*(data["cut"][name] for name in ("node", "nodes", "label")), strict=True):
        name, _, shown = label.rpartition(" ")
        assert shown == f"({size})"
        assert GRAPH.names.index(name) >= node  # one that stands for the branch, whose smallest node this is
    for node, label in zip(data["single"]["node"], data["single"]["label"], strict=True):
        assert label == GRAPH.names[node]
    whole: Any = found.plot_dendrogram(1000).figure
    shown = set(whole.yaxis[0].major_label_overrides.values())
    assert shown <= set(GRAPH.names)


def test_commands_take_and_write_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    GRAPH.frame.to_csv("edges.csv", index=False)
    commands = [
        ["ingest", "edges.csv", "-o", "edges"],
        ["cluster", "edges", "-o", "run"],
        ["export", "run", "-o", "merges.parquet", "--names"],
        ["cluster", "edges", "--names", "edges.csv", "-o", "other"],
    ]
    answers = [CliRunner().invoke(main, words) for words in commands]
    assert [answer.exit_code for answer in answers] == [0, 0, 0, 2], [answer.output for answer in answers]
    left = pd.read_parquet("merges.parquet")
    assert left["left_name"].tolist() == [GRAPH.names[node] for node in left["left"]]


def test_a_recipe_takes_a_file_of_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pd.DataFrame(dict(zip(GRAPH.frame, GRAPH.numbered, strict=True))).to_parquet("edges.parquet")
    Path("names.txt").write_text("\n".join(GRAPH.names))
    recipe = Path("recipe.yaml")
    recipe.write_text(
        "steps:\n  cluster: {edges: edges.parquet, names: names.txt}\n  export: {output: tree.nwk, names: true}\n"
    )
    run(recipe)
    names = dask_rac.open("recipe/run").names
    assert names is not None
    assert names.texts(np.arange(len(names))) == GRAPH.names
    assert {leaf[1] for leaf in QUOTED.finditer(Path("recipe/tree.nwk").read_text())} == set(GRAPH.names)
    Path("names.txt").write_text("\n".join(reversed(GRAPH.names)))
    with pytest.raises(dask_rac.InputError, match="step 'cluster' has changed"):
        run(recipe)
