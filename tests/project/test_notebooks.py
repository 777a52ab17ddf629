"""The notebooks run in a clean kernel with nothing on standard error, and show what their text says."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import nbformat
import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import dask_rac
from tests.support.notebooks import FOLDER, KINDS, METADATA, PATHS, QUIET, STRICT, digest, execute, read
from tests.support.root import ROOT

each_notebook = pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)

LARGEST = 500_000  # bytes of a notebook
PICTURE = re.compile(r"\.plot_\w+\([^()]*\)$|^show\(plot\)$", re.MULTILINE)
"""Code that shows a picture."""
PLACE = re.compile(
    r"(?<![\w.`<])/(?:home|root|tmp|Users|var|work|mnt|dev|usr|opt)/|[A-Z]:\\|file://|https?://(?!127\.0\.0\.1)"
)

TOLD = """
import json
print(json.dumps([{}], default=lambda value: value.tolist()))
"""


@each_notebook
def test_outputs_are_those_of_the_code(path: Path) -> None:
    notebook = read(path)
    assert notebook.metadata.get("executed") == digest(notebook), f"{path.name} has changed: run make notebooks"


@each_notebook
def test_nothing_else_of_a_run_is_stored(path: Path) -> None:
    notebook = read(path)
    nbformat.validate(notebook)
    assert (notebook.nbformat, notebook.nbformat_minor) == (4, 5)
    assert notebook.metadata == METADATA | {"executed": notebook.metadata["executed"]}
    assert all(cell.metadata == {} for cell in notebook.cells)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    assert nbformat.writes(notebook) + "\n" == path.read_text()  # type: ignore[no-untyped-call]
    assert path.stat().st_size < LARGEST


@each_notebook
def test_outputs_can_be_looked_at_anywhere(path: Path) -> None:
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert sum(bool(cell.outputs) for cell in cells) > 0.8 * len(cells)
    for cell in cells:
        shown: dict[str, str] = {}
        for output in cell.outputs:
            assert output.output_type in ("stream", "display_data", "execute_result")
            assert output.get("name") != "stderr"
            shown |= output.get("data", {}) | ({"text/plain": output.text} if "text" in output else {})
            assert output.get("metadata", {}) == {}
        assert set(shown) <= set(KINDS)
        assert not [
            text for kind, text in shown.items() if kind != "image/png" and (PLACE.search(text) or "<script" in text)
        ]
        if PICTURE.search(cell.source):
            assert b64decode(shown["image/png"]).startswith(b"\x89PNG")


@each_notebook
def test_cells_have_names_and_no_place_is_named(path: Path) -> None:
    cells = read(path).cells
    names = [cell.id for cell in cells]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z][a-z0-9-]{0,19}", name) for name in names)
    text = "\n".join(cell.source for cell in cells)
    assert not re.search(r"(?<![\w.`])/[a-z]+/|[A-Z]:\\|file://|https?://", text)


@each_notebook
def test_what_prose_and_code_name_is_there(path: Path) -> None:
    text = "\n".join(cell.source for cell in read(path).cells)
    assert [name for name in re.findall(r"dask_rac\.(\w+)", text) if not hasattr(dask_rac, name)] == []
    assert [recipe for recipe in re.findall(r"pipelines/\w+\.yaml", text) if not (ROOT / recipe).is_file()] == []
    assert f"`{path.name}`" in (FOLDER / "README.md").read_text()


def run(name: str, folder: Path, *wanted: str) -> list[Any]:
    """Execute a notebook in a clean kernel, and return the values of the given expressions at the end."""
    notebook, before = read(FOLDER / f"{name}.ipynb"), sorted(FOLDER.iterdir())
    last = execute(notebook, folder, STRICT, QUIET + TOLD.format(", ".join(wanted)))
    assert sorted(FOLDER.iterdir()) == before
    for cell in notebook.cells:
        check_outputs(cell)
    values: list[Any] = json.loads(last.outputs[0].text)
    return values


def check_outputs(cell: Any) -> None:
    """Raise if a cell reported an error, or did not show an expected picture."""
    outputs = cell.get("outputs", [])
    assert [output.text for output in outputs if output.get("name") == "stderr"] == []
    if cell.cell_type == "code" and PICTURE.search(cell.source):
        shown = [data for output in outputs for data in output.get("data", {}).items()]
        assert any(kind == "text/html" and "<script" in text for kind, text in shown) or (
            "application/vnd.bokehjs_exec.v0+json" in dict(shown)
        )


def test_quickstart_finds_what_the_points_were_made_from(tmp_path: Path) -> None:
    counts = "[tree.n_trees, len(tree.rounds), variant.n_trees, forest.n_trees]"
    (trees, rounds, strict, forest), cuts, labels, clump, files = run(
        "quickstart", tmp_path, counts, "cuts['n_clusters']", "labels", "clump", "os.listdir()"
    )
    assert trees == 1
    assert cuts[0] == 5
    found = np.zeros((5, 5), int)
    np.add.at(found, (clump, labels), 1)
    assert found.max(axis=1).sum() >= 0.98 * len(labels)
    assert rounds < 40
    assert strict > 500
    assert 5 < forest < 100
    assert {"report.html", "rounds.html", "tree.nwk"} <= set(files)


def test_vectors_is_honest_about_scikit_learn(tmp_path: Path) -> None:
    tables = "linkages.to_dict('index')", "neighbours.to_dict('list')", "on_graph.to_dict('index')", "wines.to_dict()"
    linkages, neighbours, on_graph, wines, cuts, same = run("vectors", tmp_path, *tables, "cuts['n_clusters']", "same")
    ward = linkages["ward"]["scikit-learn"]
    assert linkages["ward"]["RAC"] == ward
    assert linkages["average"]["RAC"] == linkages["average"]["scikit-learn"] < ward
    assert abs(linkages["complete"]["RAC"] - linkages["complete"]["scikit-learn"]) < 0.02
    assert max(neighbours["ignore"]) < 0.01
    assert all(abs(index - ward) < 0.04 for index in neighbours["far"][:-1])
    assert linkages["average"]["RAC"] < neighbours["far"][-1] < ward
    assert max(on_graph["complete"].values()) < 0.1
    assert on_graph["single"]["missing=ignore"] == on_graph["single"]["missing=far"]
    assert cuts[0] == 11
    assert same
    assert wines["average"] < 0.1
    beside = [index for name, index in wines.items() if "neighbours" in name]
    assert min(beside) < wines["ward"] < max(beside)


def test_scaling_gives_the_same_merges_whatever_happens(tmp_path: Path) -> None:
    states = "[process.returncode, killed.finished, resumed.finished, handle.status]"
    same = [f"merges_of({name}).equals(merges_of(run))" for name in ("threads", "resumed")]
    state, rounds, place, *equal = run("scaling", tmp_path, states, "len(killed.rounds)", "os.getcwd()", *same)
    assert state == [-9, False, True, "finished"]
    assert rounds >= 1
    assert equal == [True, True]
    alone = dask_rac.cluster(f"{place}/edges", weights="similarity").merges
    killed = dask_rac.open(f"{place}/killed").merges.compute()
    wanted, found = (merges.drop(columns="round").set_index("right").sort_index() for merges in (alone, killed))
    pd.testing.assert_frame_equal(found, wanted)


def test_the_paper_is_measured_as_it_is_told(tmp_path: Path) -> None:
    tables = [f"{name}.to_dict('list')" for name in ("exact", "worst", "linkages", "linear", "neighbours", "tails")]
    exact, worst, linkages, linear, neighbours, tails, gaps, alpha, rounds, same = run(
        "paper", tmp_path, *tables, "gaps", "alpha", "len(sift.rounds)", "by_rounds[columns].equals(by_both[columns])"
    )
    assert exact["same merges"] == [True, True, True]
    assert np.all(2 * np.array(worst["rounds"]) > 2 ** np.array(worst["height of the tree"]))
    assert alpha[:20] == closing(np.array(gaps))[:20]
    assert linkages["rounds"] == sorted(linkages["rounds"], reverse=True)
    assert 3 < np.diff(linear["rounds"]).min() <= np.diff(linear["rounds"]).max() < 12
    assert np.ptp(linear["passes"]) < 0.1
    assert max(neighbours["passes"]) < 6
    np.testing.assert_allclose(np.divide(tails["rounds"][1:], tails["rounds"][:-1]), 4, atol=0.5)
    assert max(tails["rounds before the finisher"]) < 20
    assert rounds == 43
    assert same


def closing(gaps: NDArray[np.float64]) -> list[float]:
    """Return the fraction of points on a line that merge in each round: gaps smaller than both adjacent ones close."""
    fractions = []
    while len(gaps):
        padded = np.pad(gaps, 1, constant_values=np.inf)
        closes = (gaps < padded[:-2]) & (gaps < padded[2:])
        fractions.append(float(closes.sum() / (len(gaps) + 1)))
        gaps = gaps[~closes]
    return fractions
