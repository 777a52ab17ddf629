"""The recipes run, small."""

import importlib
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from sklearn.metrics import adjusted_rand_score

from tests.support.browser import missing_browser
from tests.support.command import done, rac
from tests.support.needs import need
from tests.support.root import ROOT

PIPELINES = ROOT / "pipelines"


def benchmark(name: str, *arguments: str) -> str:
    """Return what a benchmark prints."""
    command = [sys.executable, str(PIPELINES / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    return result.stdout


def test_quickstart(tmp_path: Path) -> None:
    words = "run", PIPELINES / "quickstart.yaml", "--set", "generate.nodes=3000"
    lines = done(*words, cwd=tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["generate", "cluster", "verify", "cut", "fifty", "export"]
    assert all("skipped" in line for line in done(*words, cwd=tmp_path).splitlines())
    assert (tmp_path / "quickstart/tree.nwk").exists()


def test_billion(tmp_path: Path) -> None:
    words = "run", PIPELINES / "billion.yaml", "--set", "generate.nodes=3000", "--set", "cluster.memory=2GB"
    lines = done(*words, cwd=tmp_path).splitlines()
    assert lines[2].endswith("2,999 merges, 60,000 edges, largest relative error 0.0e+00")
    plan = done("run", PIPELINES / "billion.yaml", "--set", "folder=other", "--dry-run", cwd=tmp_path)
    assert "1,000,000,000 edges, 12 GB" in plan


@pytest.mark.parametrize(
    ("name", "nodes", "graph"),
    [
        pytest.param("sift1b", 600, "knn", marks=pytest.mark.soak),
        ("sift1m", 600, ""),
        pytest.param("sift200k", 600, "", marks=pytest.mark.soak),
        ("web88m", 600, "eps"),
        ("news20", 600, ""),
        pytest.param("rcv1", 600, "", marks=pytest.mark.soak),
    ],
)
def test_data_sets_of_the_paper(name: str, nodes: int, graph: str, tmp_path: Path) -> None:
    """Generate each dataset, build its graph if it has one, cluster and verify; one of them from given vectors."""
    words = "run", PIPELINES / f"{name}.yaml", "--set", f"generate.nodes={nodes}", "--set", "cluster.memory=1GB"
    lines = rac(*words, cwd=tmp_path).stdout.splitlines()
    steps = ["generate", *(["graph"] if graph else []), "cluster", "verify", "cut"]
    assert [line.partition(":")[0] for line in lines] == steps
    assert float(lines[-2].partition("largest relative error ")[2]) == 0
    if not graph:
        return
    (vectors,) = (tmp_path / name).glob("*.bvecs") if name.startswith("sift") else (tmp_path / name).glob("*.zarr")
    facts = json.loads((tmp_path / name / "edges/_graph.json").read_text())
    assert (facts["kind"], facts["nodes"]) == (graph, nodes)
    if name != "web88m":
        return
    moved = vectors.rename(tmp_path / f"own{vectors.suffix}")
    again = rac(*words, "--set", "folder=real", "--set", f"graph.vectors={moved}", cwd=tmp_path)
    told = [line.partition(" s, ")[2].replace("real/", f"{name}/") for line in again.stdout.splitlines()]
    assert told[3:] == [line.partition(" s, ")[2] for line in lines[3:]]


def test_all_pairs(tmp_path: Path) -> None:
    words = "run", PIPELINES / "all_pairs.yaml", "--set", "generate.nodes=600", "--set", "cut.n_clusters=5"
    lines = done(*words, cwd=tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["generate", "cluster", "verify", "cut", "report"]
    assert "599 merges, 179,700 pairs, largest relative error" in lines[2]
    assert all("skipped" in line for line in done(*words, cwd=tmp_path).splitlines())
    vectors = np.fromfile(tmp_path / "all_pairs/sift.bvecs", np.uint8).reshape(600, 132)[:, 4:].astype(np.float64)
    expected = fcluster(linkage(vectors, "ward"), 5, "maxclust")
    found = pd.read_parquet(tmp_path / "all_pairs/labels.parquet")["label"]
    assert adjusted_rand_score(expected, found) == 1.0


@pytest.mark.soak
def test_bench_out_of_core(tmp_path: Path) -> None:
    scratch = str(tmp_path / "scratch")
    printed = benchmark("bench_out_of_core.py", "--nodes", "3000", "--folder", scratch, "--repeat", "1")
    for line in ("60,000 edges", "in memory, 2", "two workers are", "relabel"):
        assert line in printed


def test_bench_graph() -> None:
    printed = benchmark("bench_graph.py", "--scale", "0.01", "--repeats", "1")
    for line in ("faiss-cpu, exact", "scipy cKDTree", "scikit-learn, brute force", "dask_rac, SIFT-like"):
        assert line in printed


def test_distances(tmp_path: Path) -> None:
    printed = benchmark("distances.py", "--vectors", "900", "--memory", "100MB", "--folder", str(tmp_path))
    assert "heights equal those from the vectors: True" in printed
    assert "899 merges verified against 404,550 pairs" in printed
    assert not list(tmp_path.iterdir())


def test_glosses(tmp_path: Path) -> None:
    """A WordNet of four files: a licence, eighteen meanings, and one whose gloss has only stop words."""
    lines = ["  1 This software and database is being provided to you, the LICENSEE"]
    for number, gloss in enumerate([f"a {size} {kind}" for kind in ("cap", "fern", "river") for size in "abcdef"]):
        lines.append(f'{number:08d} 03 n 01 word_{number} 0 000 | {gloss} of some {gloss.split()[2]}; "it is"  ')
    for part in ("noun", "verb", "adj", "adv"):
        (tmp_path / f"data.{part}").write_text("\n".join(lines if part == "noun" else lines[:1]))
    with (tmp_path / "data.adv").open("a") as file:
        file.write("\n00000001 02 r 01 however 0 000 | being one more than two")
    words = "--wordnet", str(tmp_path), "--folder", str(tmp_path / "out"), "--height", "0.5"
    for _ in range(2):  # the second time the run is finished
        printed = benchmark("glosses.py", *words)
        assert "left out, as they have only stop words: 1, such as 'being one more than two'" in printed
        assert "17 merges verified against 153 pairs" in printed
        assert "3 clusters at 0.5; the largest has 6 glosses" in printed
        assert "word 7  " in printed


def test_bench_missing() -> None:
    printed = benchmark("bench_missing.py", "--data", "iris", "--neighbours", "10", "--subsamples", "2").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed if line.startswith("| iris")]
    assert [row[:2] for row in rows] == [["iris", "10"]] * 2
    assert [line.split("|")[4].strip() for line in printed if "neighbours" in line] == [
        'average, "ignore"',
        'complete, "ignore"',
    ]
    ignored, _, _, far, _ = (float(cell.split()[0]) for cell in rows[0][3:])
    assert ignored < far


@pytest.mark.soak
def test_bench_memory() -> None:
    printed = benchmark("bench_memory.py", "--nodes", "2000", "--repeats", "1", "--quick")
    for line in ("scipy connected_components", "dask_rac similarity average", "dask_rac single"):
        assert line in printed


def test_bench_finisher() -> None:
    printed = benchmark("bench_finisher.py", "--leaves", "80", "--edges", "2000", "4000").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in printed if line]
    assert {row[0] for row in rows[2:-4]} == {"star", "double star", "chain of hubs", "caterpillar"}
    assert all(np.isfinite(float(row[3])) and np.isfinite(float(row[5])) for row in rows[2:-4])
    assert rows[-1][4].endswith(" x")


def test_the_page_on_the_paper_is_made_from_the_numbers_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(PIPELINES))
    page = importlib.import_module("evaluation.page")
    numbers = json.loads((ROOT / "docs/_static/paper.json").read_text())
    assert page.page_text(numbers) == (ROOT / "docs/paper.md").read_text()


@pytest.mark.parametrize("name", ["paper_merges", "paper_times", "paper_updates"])
def test_pictures_of_the_paper_are_light(name: str) -> None:
    assert 10_000 < (ROOT / f"docs/_static/{name}.png").stat().st_size < 200_000


def test_a_part_of_the_paper(tmp_path: Path) -> None:
    words = "--minutes", "0.002", "--results", str(tmp_path), "--part", "web88m"
    assert "web88m: done" in benchmark("paper.py", *words)
    found = json.loads((tmp_path / "web88m.json").read_text())
    rounds = found["rounds"]
    assert sum(rounds["merges"]) == found["merges"] == found["nodes"] - found["trees"]
    assert abs(found["merges"] / found["nodes"] - 69 / 88) < 0.02
    left = np.subtract(rounds["clusters"], rounds["merges"])
    assert np.all(left[:-1] >= rounds["clusters"][1:])  # those without an edge that is left do not count


@pytest.mark.soak
def test_the_paper_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    need(not missing_browser(), f"{missing_browser()}: pictures are drawn by Chromium")
    words = "--minutes", "0.02", "--results", str(tmp_path / "results"), "--docs", str(tmp_path / "docs")
    first = benchmark("paper.py", *words)
    assert first.count(": done") == 10
    (tmp_path / "results/news20.json").unlink()
    assert benchmark("paper.py", *words).count(": done") == 1
    assert "**RCV1, here**" in (tmp_path / "docs/paper.md").read_text()


def test_bench_epsilon() -> None:
    printed = benchmark("bench_epsilon.py", "--edges", "3000", "--repeats", "1")
    assert printed.count("| epsilon = 0.1 |") == 2
    assert [line[:5] for line in printed.splitlines() if "M edges" in line] == ["| R-M", "| nei"]


def test_hosts() -> None:
    """What it does on hosts is in `tests/runs/test_hosts.py`."""
    printed = benchmark("hosts.py", "--help")
    assert "[plain|lost|late|adaptive|memory|version]" in printed
