"""`dask-rac score`: known classes from a file, and what is printed."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import dask_rac
from dask_rac.cli import main
from dask_rac.files.class_files import read_classes

NODES = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on three groups of points, and the group of each point in files of several forms."""
    folder = tmp_path_factory.mktemp("scored")
    group = np.repeat([0, 1, 2], NODES // 3)
    points = group[:, None] * 10 + np.random.default_rng(0).normal(size=(NODES, 2))
    np.save(folder / "points.npy", points)
    dask_rac.cluster(folder / "points.npy", "ward", metric="euclidean", store=folder / "run")
    table = pd.DataFrame({"node": np.arange(NODES), "label": [f"group {k}" for k in group]})
    table.sample(frac=1, random_state=0).to_parquet(folder / "classes.parquet")
    table.to_csv(folder / "classes.csv.gz", index=False)
    table[["label"]].to_csv(folder / "plain.csv", index=False)
    table.assign(label=group - 1, other=0).rename(columns={"label": "kind"}).to_csv(folder / "two.csv", index=False)
    return folder


def score(folder: Path, *words: str) -> Result:
    return CliRunner().invoke(main, ["score", str(folder / "run"), *words])


@pytest.mark.parametrize("name", ["classes.parquet", "classes.csv.gz", "plain.csv"])
def test_finds_the_groups(folder: Path, name: str) -> None:
    done = score(folder, str(folder / name))
    assert done.exit_code == 0, done.output
    lines = [line.split() for line in done.output.splitlines()]
    assert lines[1][:5] == ["adjusted", "Rand", "index", "1.0000", "3"]
    assert ["nodes", "60", "of", "60", "in", "3", "classes"] in lines
    assert ["dendrogram", "purity", "1.0000"] in lines
    assert "Dasgupta" not in done.output


def test_compares_with_the_vectors_on_request(folder: Path) -> None:
    classes = str(folder / "classes.parquet")
    expected = dask_rac.open(folder / "run").scores(read_classes(classes), edges=True)
    for words in (["--edges"], ["--edges", str(folder / "points.npy")]):
        found = json.loads(score(folder, classes, "--json", *words).output)
        assert found["cophenetic"] == expected.cophenetic
        assert found["n_edges"] == NODES * (NODES - 1) // 2
        assert found["best"]["ami"] == expected.best.loc["ami"].to_dict()
    assert "cophenetic correlation" in score(folder, classes, "--edges").output


def test_chooses_a_column_and_leaves_labels_out(folder: Path) -> None:
    two = str(folder / "two.csv")
    assert json.loads(score(folder, two, "--column", "kind", "--json").output)["n_labelled"] == 40
    assert json.loads(score(folder, two, "--column", "kind", "--ignore", "1", "--json").output)["n_labelled"] == 40
    text = str(folder / "plain.csv")
    assert json.loads(score(folder, text, "--ignore", "group 0", "--json").output)["n_classes"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["two.csv"], "two.csv has no column 'label': it has node, kind, other; name one with --column"),
        (["two.csv", "--column", "x"], "two.csv has no column 'x': it has node, kind, other"),
        (["two.csv", "--column", "kind", "--ignore", "none"], "--ignore none is not a number"),
        (["nothing.csv"], "nothing.csv' is not a file: check the path"),
        (["classes.npy"], "classes.npy': the name must end in .parquet, .csv or .csv.gz"),
        (["damaged.parquet"], "damaged.parquet cannot be read as Parquet"),
    ],
)
def test_says_what_is_wrong(folder: Path, words: list[str], message: str) -> None:
    (folder / "damaged.parquet").write_bytes(b"PAR1")
    failed = score(folder, str(folder / words[0]), *words[1:])
    assert failed.exit_code == 2
    assert message in failed.output


def test_names_stay_text(tmp_path: Path) -> None:
    (tmp_path / "classes.csv").write_text("name,kind\n007,NA\n08,\n")
    found = read_classes(tmp_path / "classes.csv")
    assert found.index.tolist() == ["007", "08"]
    assert found.isna().tolist() == [False, True]
    assert found.iloc[0] == "NA"
