"""Pictures show the numbers they are made from, and look right in wide and narrow browser windows."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import fsspec
import nbformat
import numpy as np
import pandas as pd
import pytest
from bokeh.embed import json_item
from bokeh.models import ColumnDataSource, Plot
from nbclient import NotebookClient
from numpy.typing import NDArray
from scipy.cluster.hierarchy import dendrogram

import dask_rac
from dask_rac import InputError
from dask_rac.base.events import RoundRecord
from dask_rac.files.node_names import NamesInMemory
from dask_rac.show.pictures import (
    CutMark,
    Picture,
    alpha_beta_picture,
    dendrogram_picture,
    heights_picture,
    phases_picture,
    rounds_picture,
    scores_picture,
    sizes_columns,
    sizes_picture,
)
from dask_rac.show.pictures.axes import Scale, height_format, height_scale
from dask_rac.show.pictures.labels import percent, plain, plural, seconds_text
from dask_rac.show.pictures.standalone import resources
from dask_rac.show.pictures.theme import BLUE, GREY, ORANGE
from dask_rac.tree.lifetimes import Lifetimes
from dask_rac.tree.summary import HeightCurve, height_curve, size_histogram
from dask_rac.tree.top import Branch
from tests.support.browser import Page

PHASES = ("nearest", "match", "fold", "finish")
HOSTILE = "<script>window.hit = 1</script><img src=x onerror='window.hit = 2'> $$x^2$$ \\[y\\] &amp;"
WIDTHS = (1280, 400)

STRICT = "default-src 'none'; script-src 'nonce-X'; style-src 'unsafe-inline'; img-src data:; font-src data:"
TOGETHER = """<!DOCTYPE html><html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<script nonce="X">{script}</script></head><body>{places}
<script type="application/json" id="items">{items}</script><script nonce="X">
for (const [place, item] of Object.entries(JSON.parse(document.getElementById("items").textContent)))
  Bokeh.embed.embed_item(item, place)
</script></body></html>"""


def clusterings() -> Iterator[tuple[str, dask_rac.Clustering]]:
    """Small and large, of distances and similarities, trees and forests, tied and far apart."""
    random = np.random.default_rng(0)
    points = np.concatenate([random.normal(centre, 0.04, (300, 3)) for centre in random.random((8, 3))])
    with pytest.warns(UserWarning, match="components"):
        forest = dask_rac.knn_graph(points, k=6)
    edges = dask_rac.knn_graph(random.random((5_000, 3)), k=10)
    similar = edges["source"].to_numpy(), edges["target"].to_numpy(), np.exp(-30 * edges["weight"].to_numpy())
    chain = np.arange(599), np.arange(1, 600), 1.03 ** np.arange(599)
    wide = random.integers(0, 500, 1_500), random.integers(500, 1_000, 1_500), 10.0 ** random.uniform(-9, 9, 1_500)
    yield "distances", dask_rac.cluster(edges, missing="ignore")  # the finisher has a share in it
    yield "forest", dask_rac.cluster(forest)
    yield "similarities", dask_rac.cluster(similar, weights="similarity")
    yield "many rounds", dask_rac.cluster(chain, missing="ignore", finisher=False)
    yield "far apart", dask_rac.cluster(wide, linkage="single", duplicates="min", n_nodes=1_005)
    yield "zero heights", dask_rac.cluster((np.arange(9), np.arange(1, 10), np.zeros(9)), missing="ignore")
    yield "three merges", dask_rac.cluster(([0, 1, 2], [1, 2, 3], [1.0, 2.0, 4.0]))
    yield "one round", dask_rac.cluster(([0], [1], [0.5]))
    yield "no merges", dask_rac.cluster(([], [], []), n_nodes=1)
    yield "no nodes", dask_rac.cluster(([], [], []), n_nodes=0)


@pytest.fixture(scope="module")
def made() -> dict[str, dask_rac.Clustering]:
    return dict(clusterings())


def records_of(clustering: dask_rac.Clustering) -> list[RoundRecord]:
    rows: list[Any] = clustering.rounds.to_dict("records")
    return [RoundRecord(**row) for row in rows]


def lives_of(clustering: dask_rac.Clustering) -> Lifetimes:
    parts = [{name: clustering.merges[name].to_numpy() for name in ("left", "right", "height", "size")}]
    return Lifetimes.of(clustering.n_nodes, parts, sign_of(clustering))


def sign_of(clustering: dask_rac.Clustering) -> float:
    return -1.0 if clustering.facts()["weights"] == "similarity" else 1.0


def middle_height(clustering: dask_rac.Clustering) -> float:
    heights = np.sort(clustering.merges["height"].to_numpy())
    return float(heights[len(heights) // 2]) if len(heights) else 0.0


def scores_of(clustering: dask_rac.Clustering) -> tuple[pd.DataFrame, pd.DataFrame, bool]:
    """Return what a picture of scores is made from, with every third node in a class."""
    if not clustering.n_nodes:
        return pd.DataFrame({"height": [-np.inf]}), pd.DataFrame(), False
    found = clustering.scores(np.arange(clustering.n_nodes) % 3)
    return found.curve, found.best, found.similarity


def phases_of(clustering: dask_rac.Clustering) -> pd.DataFrame:
    rounds = clustering.rounds
    numbers = zip(rounds["round"], rounds["finisher"], strict=True)
    index = ["finisher" if last else str(number) for number, last in numbers]
    return pd.DataFrame({name: rounds[f"{name}_seconds"].to_numpy() for name in PHASES}, index=index)


def all_pictures(clustering: dask_rac.Clustering) -> list[Picture]:
    lives, heights = lives_of(clustering), np.unique(clustering.merges["height"])
    marked = heights[np.unique(np.linspace(0, len(heights) - 1, 6).astype(int))] if len(heights) else heights
    cuts = [CutMark(height, int(lives.counts(lives.sign * np.array([height]))[0])) for height in marked.tolist()]
    return [
        rounds_picture(records_of(clustering)),
        phases_picture(phases_of(clustering)),
        alpha_beta_picture(records_of(clustering)),
        dendrogram_picture(clustering.top(50), clustering.n_trees, lives.sign < 0),
        heights_picture(height_curve(lives), cuts),
        sizes_picture(size_histogram(lives, middle_height(clustering))),
        scores_picture(*scores_of(clustering)),
    ]


def data_of(picture: Picture, name: str) -> dict[str, Any]:
    """Return what the data source of that name in a figure holds."""
    (source,) = picture.figure.select({"type": ColumnDataSource, "name": name})
    assert isinstance(source, ColumnDataSource)
    return dict(source.data)


def save_together(pictures: list[Picture], path: Path) -> Path:
    """Write a page with figures one below the other."""
    items = json.dumps([json_item(picture.figure) for picture in pictures]).replace("<", "\\u003c")
    places = "".join(f'<div id="{place}"></div>' for place in range(len(pictures)))
    script = "\n".join(resources().js_raw)
    path.write_text(TOGETHER.format(policy=STRICT, script=script, places=places, items=items))
    return path


def assert_fine(page: Page) -> None:
    """Check that there are no errors and no network requests, and that all texts are readable at every width."""
    for width in WIDTHS:
        page.size(width)
        assert page.overlaps() == [], width
        assert page.sticking_out() == [], width
    assert page.errors() == []
    assert page.requests() == []


NAMES = ("rounds", "phases", "alpha_beta", "dendrogram", "heights", "sizes", "scores")
LARGE = ("distances", "forest", "similarities", "many rounds", "far apart")
SMALL = ("zero heights", "three merges", "one round", "no merges", "no nodes")


@pytest.mark.parametrize("names", [*((name,) for name in LARGE), SMALL], ids=[*LARGE, "small"])
def test_all_pictures_look_right_below_a_strict_policy(
    made: dict[str, dask_rac.Clustering],
    names: tuple[str, ...],
    page: Page,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    pictures = [picture for name in names for picture in all_pictures(made[name])]
    assert_fine(page.open(save_together(pictures, tmp_path / "all.html")))
    assert page.run("return Bokeh.documents.length") == len(pictures)
    assert caplog.messages == []  # Bokeh logs faults of a figure
    assert all(picture.caption.endswith(".") and picture.title for picture in pictures)
    assert tuple(picture.name for picture in pictures) == NAMES * len(names)


@pytest.mark.parametrize("name", ["alpha_beta", "dendrogram", "scores"])  # two plots, high ones, a long caption
def test_a_saved_page_has_all_it_needs(
    made: dict[str, dask_rac.Clustering], name: str, page: Page, tmp_path: Path
) -> None:
    picture = all_pictures(made["distances"])[NAMES.index(name)]
    path = tmp_path / f"{picture.name}.html"
    assert picture.save(path) == str(path)
    page.open(path)
    texts = " ".join(text.text for text in page.texts())
    assert picture.title in texts
    assert picture.caption in texts
    assert_fine(page)


@pytest.mark.parametrize("name", ["distances", "similarities", "far apart"])
def test_rounds_are_those_of_the_records(made: dict[str, dask_rac.Clustering], name: str) -> None:
    rounds = made[name].rounds
    data = data_of(rounds_picture(records_of(made[name])), "rounds")
    for column in ("round", "clusters", "edges", "merges"):
        assert np.array_equal(data[column], rounds[column])
    assert np.array_equal(data["fraction"], rounds["merges"] / rounds["clusters"])
    shown = np.nan_to_num(data["round_merges"]) + np.nan_to_num(data["finisher_merges"])
    assert np.array_equal(shown, rounds["merges"])
    assert np.array_equal(~np.isnan(data["finisher_merges"]), rounds["finisher"])
    assert ("finisher" in data["name"]) == rounds["finisher"].any()


def test_a_round_without_merges_has_no_point_on_a_logarithmic_axis() -> None:
    records = [RoundRecord(clusters=8, edges=9, merges=3, round=1), RoundRecord(clusters=5, edges=4, merges=0, round=2)]
    assert np.isnan(data_of(rounds_picture(records), "rounds")["round_merges"]).tolist() == [False, True]
    assert np.isnan(data_of(alpha_beta_picture(records), "alpha_beta")["beta"]).tolist() == [False, True]


@pytest.mark.parametrize("name", ["distances", "similarities"])
def test_alpha_and_beta_leave_the_finisher_out(made: dict[str, dask_rac.Clustering], name: str) -> None:
    rounds = made[name].rounds
    kept = rounds[~rounds["finisher"]]
    picture = alpha_beta_picture(records_of(made[name]))
    data = data_of(picture, "alpha_beta")
    assert np.array_equal(data["round"], kept["round"])
    assert np.array_equal(data["alpha"], kept["merges"] / kept["clusters"])
    assert np.array_equal(data["beta"], kept["nearest_updates"] / kept["merges"])
    marked = data_of(picture, "alpha_beta_finisher")
    assert list(marked["round"]) == rounds["round"][rounds["finisher"]].tolist()
    assert f"({kept['merges'].sum() / kept['clusters'].sum():.2g} on average)" in picture.caption


def test_a_lone_finisher_has_a_picture_without_ratios() -> None:
    picture = alpha_beta_picture([RoundRecord(clusters=8, edges=9, merges=7, round=1, finisher=True)])
    assert list(data_of(picture, "alpha_beta")["alpha"]) == []


@pytest.mark.parametrize("steps", [1, 60, 61, 130, 599])
def test_phases_are_summed_into_few_bars(steps: int) -> None:
    seconds = np.random.default_rng(steps).random((steps, 3))
    picture = phases_picture(pd.DataFrame(seconds, index=range(1, steps + 1), columns=["read", "fold", "write"]))
    each = -(-steps // 60)
    starts = np.arange(0, steps, each)
    for place, name in enumerate(["read", "fold", "write"]):
        data = data_of(picture, name)
        sums = np.add.reduceat(seconds[:, place], starts)
        assert len(sums) <= 60
        assert np.allclose(data["seconds"], sums)
        assert np.allclose(data["top"] - data["bottom"], sums)
        assert data["step"][0] == ("1" if each == 1 else f"1-{each}")
        assert data["step"][-1].endswith(str(steps))
    assert np.allclose(data_of(picture, "write")["top"], np.add.reduceat(seconds.sum(axis=1), starts))
    assert seconds_text(seconds.sum()) in picture.caption


def test_phases_beyond_the_colours_become_one(page: Page, tmp_path: Path) -> None:
    seconds = np.arange(1, 13) * np.ones((4, 1))
    phases = pd.DataFrame(seconds, index=list("abcd"), columns=[f"a phase {place}" for place in range(12)])
    picture = phases_picture(phases)
    names = [source.name for source in picture.figure.select({"type": ColumnDataSource})]
    assert len(names) == 8
    assert np.allclose(data_of(picture, "other phases")["seconds"], sum(range(1, 6)))
    page.open(picture.save(tmp_path / "phases.html"))
    assert_fine(page)


def test_a_phase_that_took_no_time_is_left_out() -> None:
    picture = phases_picture(pd.DataFrame({"fold": [1.0, 3.0], "finish": [0.0, 0.0]}, index=["1", "2"]))
    assert [source.name for source in picture.figure.select({"type": ColumnDataSource})] == ["fold"]
    assert picture.caption == "Seconds of each phase, step by step: 4 s in all, 100% of it in fold."


@pytest.mark.parametrize("name", ["distances", "forest", "similarities", "many rounds", "far apart"])
def test_a_dendrogram_has_the_last_merges(made: dict[str, dask_rac.Clustering], name: str) -> None:
    clustering, sign = made[name], sign_of(made[name])
    picture = dendrogram_picture(clustering.top(50), clustering.n_trees, sign < 0)
    merges = clustering.merges
    last = merges.iloc[np.lexsort((merges["left"], merges["size"], sign * merges["height"]))[-50:]]
    data = data_of(picture, "merges")
    drawn = sorted(zip(data["height"], data["nodes"], data["node"], strict=True))
    assert drawn == sorted(zip(last["height"], last["size"], last["left"], strict=True))
    leaves = [data_of(picture, kind) for kind in ("cut", "single")]
    rows = [row for leaf in leaves for row in leaf["row"]]
    assert len(set(rows)) == len(rows) == 50 + len(clustering.top(50))
    sizes = sum(size for leaf in leaves for size in leaf["nodes"])
    assert sizes == sum(branch.size for branch in clustering.top(50))
    labels = leaves[0]["label"] + leaves[1]["label"]
    assert labels[0] == plural(leaves[0]["nodes"][0], "node")
    assert all(re.fullmatch(r"[\d,]+ nodes|node \d+", label) for label in labels)


def test_a_dendrogram_is_that_of_scipy(made: dict[str, dask_rac.Clustering]) -> None:
    clustering = made["many rounds"]
    data = data_of(dendrogram_picture(clustering.top(clustering.n_nodes), 1, False), "merges")
    scipys = dendrogram(clustering.to_scipy(), no_plot=True)
    floor = min(min(ends) for ends in data["xs"])
    brackets = sorted(sorted([max(ends[0], 0.0), ends[1], max(ends[3], 0.0)]) for ends in data["xs"])
    expected = sorted(sorted([ends[0], ends[1], ends[3]]) for ends in scipys["dcoord"])
    ours = [[0.0 if end == max(floor, 0.0) else end for end in ends] for ends in brackets]
    assert ours == expected


def deep_branch(depth: int) -> Branch:
    """A chain: a single node joins at every height."""
    branch = Branch(0, 70, 0.5)
    for place in range(1, depth + 1):
        branch = Branch(0, 70 + place, 1.0 + place, (branch, Branch(69 + place, 1, float("nan"))))
    return branch


def test_a_dendrogram_a_thousand_deep_keeps_its_labels_apart(page: Page, tmp_path: Path) -> None:
    picture = dendrogram_picture([deep_branch(1_100)], 1, False)
    assert isinstance(picture.figure, Plot)
    assert (picture.figure.height or 0) >= 14 * 1_101
    path = tmp_path / "deep.html"
    picture.save(path)
    page.open(path)
    assert_fine(page)
    assert {"node 70", "node 1169", "70 nodes"} <= {text.text for text in page.texts()}


@pytest.mark.parametrize("similarity", [False, True])
def test_the_root_is_on_the_right(similarity: bool, page: Page, tmp_path: Path) -> None:
    low, high = (0.2, 0.9) if similarity else (0.9, 0.2)
    inner = Branch(0, 5, high, (Branch(0, 3, high), Branch(4, 2, high)))
    root = Branch(0, 6, low, (inner, Branch(5, 1, float("nan"))))
    picture = dendrogram_picture([root], 1, similarity)
    across: Any = picture.figure.x_range  # type: ignore[attr-defined]
    place = [(height - across.start) / (across.end - across.start) for height in (high, low)]
    assert 0 < place[0] < place[1] < 1
    page.open(picture.save(tmp_path / "root.html"))
    assert ("similarity" if similarity else "height") in {text.text for text in page.texts()}
    assert_fine(page)


def test_heights_far_apart_are_drawn_logarithmically() -> None:
    leaves = Branch(0, 2, 1e-5), Branch(2, 1, float("nan"))
    near = Branch(0, 3, 1e-4, leaves)
    for height, kind in ((0.11, "LogScale"), (0.09, "LinearScale")):
        figure: Any = dendrogram_picture([Branch(0, 4, height, (near, Branch(3, 1, float("nan"))))], 1, False).figure
        assert type(figure.x_scale).__name__ == kind, height


@pytest.mark.parametrize("name", ["distances", "forest", "similarities", "far apart", "zero heights"])
def test_the_curve_counts_clusters(made: dict[str, dask_rac.Clustering], name: str) -> None:
    clustering, sign = made[name], sign_of(made[name])
    picture = heights_picture(height_curve(lives_of(clustering)), [])
    data = data_of(picture, "heights")
    merged = sign * clustering.merges["height"].to_numpy()
    counted = [clustering.n_nodes - np.count_nonzero(merged <= sign * height) for height in data["height"]]
    assert np.array_equal(data["clusters"], counted)
    across: Any = picture.figure.x_range  # type: ignore[attr-defined]
    assert (across.start > across.end) == (sign < 0)


@pytest.mark.parametrize(
    ("where", "similarity"), [("left", False), ("middle", False), ("right", True), ("spread", True)]
)
def test_labels_of_cuts_keep_apart(where: str, similarity: bool, page: Page, tmp_path: Path) -> None:
    heights = np.linspace(0.1, 0.9, 200)
    curve = HeightCurve(
        heights[::-1] if similarity else heights, np.arange(20_000_000, 0, -100_000), 20_000_001, similarity
    )
    middle = {"left": 0.12, "middle": 0.5, "right": 0.88, "spread": 0.5}[where]
    apart = 0.08 if where == "spread" else 1e-3
    cuts = [CutMark(middle + apart * place, 10 ** (abs(place) + 2)) for place in range(-4, 5)]
    picture = heights_picture(
        curve, [*cuts, CutMark(float("inf"), 1), CutMark(-1.0, 20_000_001, "before anything merges")]
    )
    data = data_of(picture, "cuts")
    assert sorted(data["height"]) == sorted([*(cut.height for cut in cuts), float("inf"), -1.0])
    path = tmp_path / "cuts.html"
    picture.save(path)
    page.open(path)
    assert_fine(page)
    assert "100 clusters" in {text.text for text in page.texts()}


def test_labels_that_face_each_other_keep_apart(page: Page, tmp_path: Path) -> None:
    curve = HeightCurve(np.linspace(0, 40_000, 100), np.arange(99, -1, -1) + 1, 101, False)
    places = {0.02: "", 0.28: "", 0.75: "x", 0.98: "nearly one"}
    cuts = [CutMark(40_000 * place, round(101 * (1 - place)), label) for place, label in places.items()]
    picture = heights_picture(curve, cuts)
    data = data_of(picture, "cuts")
    assert dict(zip(data["text"], data["align"], strict=True)) == {
        "99 clusters": "left",
        "73 clusters": "left",
        "25 clusters, x": "right",
        "2 clusters, nearly one": "right",
    }
    page.open(picture.save(tmp_path / "facing.html"))
    assert_fine(page)
    assert {"10,000", "40,000"} <= {text.text for text in page.size(1280).texts()}


@pytest.mark.parametrize("name", ["distances", "forest", "similarities", "three merges", "no merges"])
def test_sizes_are_those_of_the_cut(made: dict[str, dask_rac.Clustering], name: str) -> None:
    clustering = made[name]
    height = middle_height(clustering)
    picture = sizes_picture(size_histogram(lives_of(clustering), height))
    data = data_of(picture, "sizes")
    sizes = np.bincount(clustering.cut(height=height))
    assert sum(data["clusters"]) == len(sizes)
    for left, right, clusters, nodes in zip(
        *(data[key] for key in ("left", "right", "clusters", "nodes")), strict=True
    ):
        inside = sizes[(sizes >= left) & (sizes < right)]
        assert (clusters, nodes) == (len(inside), inside.sum())
    assert f"{len(sizes):,} cluster" in picture.caption


@pytest.mark.parametrize("name", ["distances", "forest", "similarities", "far apart", "zero heights"])
def test_scores_are_those_of_the_curve(made: dict[str, dask_rac.Clustering], name: str) -> None:
    clustering = made[name]
    found = clustering.scores(np.arange(clustering.n_nodes) // 40)
    picture = found.plot()
    data = data_of(picture, "scores")
    for measure in ("ari", "nmi", "ami"):
        assert np.array_equal(data[measure][:-1], found.curve[measure])
        best = data_of(picture, f"best_{measure}")
        assert best["score"] == [found.best.at[measure, "score"]]
        assert best["clusters"] == [found.best.at[measure, "n_clusters"]]
    across: Any = picture.figure.x_range  # type: ignore[attr-defined]
    low, high = sorted((across.start, across.end))
    place = np.asarray(data["place"])
    assert ((place >= low) & (place <= high)).all()
    assert (np.diff(sign_of(clustering) * place) >= 0).all()
    inside = np.isfinite(data["height"][:-1]) & (data["height"][:-1] >= low)
    assert np.array_equal(place[:-1][inside], data["height"][:-1][inside])


def test_a_script_can_replace_the_sizes(made: dict[str, dask_rac.Clustering], page: Page, tmp_path: Path) -> None:
    lives, height = lives_of(made["forest"]), middle_height(made["forest"])
    first, later = size_histogram(lives, 0.0), size_histogram(lives, height)
    n_nodes = made["forest"].n_nodes
    page.size(1280)
    page.open(sizes_picture(first, largest=n_nodes, most=n_nodes).save(tmp_path / "sizes.html"))
    page.run("Bokeh.documents[0].get_model_by_name('sizes').data = arguments[0]", sizes_columns(later))
    page.wait()
    assert later.clusters[0] > 0
    box = page.run("const box = document.getElementById('picture').getBoundingClientRect(); return [box.x, box.y]")
    page.hover(box[0] + 120, box[1] + 275)
    assert sizes_columns(later)["text"][0] in {text.text for text in page.texts()}
    assert page.errors() == []


def test_tooltips_say_what_a_round_did(made: dict[str, dask_rac.Clustering], page: Page, tmp_path: Path) -> None:
    records = records_of(made["distances"])
    page.size(1280)
    page.open(rounds_picture(records).save(tmp_path / "rounds.html"))
    box = page.run("const box = document.getElementById('picture').getBoundingClientRect(); return [box.x, box.y]")
    for across in range(80, 200, 10):  # where the first bar is depends on the number of rounds
        page.hover(box[0] + across, box[1] + 150)
        texts = [text.text for text in page.texts()]
        if "round:" in texts:
            break
    first = [f"{number:,}" for number in (records[0].clusters, records[0].edges, records[0].merges)]
    tooltip = texts[texts.index("round:") :]
    expected = ["1", *first, f"{records[0].merges / records[0].clusters:.4f}"]
    assert tooltip == [
        word
        for pair in zip(["round:", "live clusters:", "edges:", "merges:", "fraction merged:"], expected, strict=True)
        for word in pair
    ]


def test_names_that_others_gave_stay_text(page: Page, tmp_path: Path) -> None:
    phases = pd.DataFrame([[1.0, 2.0], [3.0, 4.0]], index=[HOSTILE, "$$x$$"], columns=[HOSTILE, "$$y$$"])
    curve = HeightCurve(np.array([1.0, 2.0, 3.0]), np.array([30, 20, 1]), 40, False)
    pictures = [phases_picture(phases), heights_picture(curve, [CutMark(1.5, 30, HOSTILE), CutMark(2.5, 20, "$$z$$")])]
    pictures += [Picture(pictures[0].figure, HOSTILE, HOSTILE, "hostile")]
    for picture in pictures:
        page.open(picture.save(tmp_path / f"{picture.name}.html"))
        assert_fine(page)
        page.size(1280)
        for across in range(100, 1_180, 60):
            page.hover(across, 200)
        assert page.run("return window.hit ?? null") is None
        assert (page.errors(), page.requests()) == ([], [])
    assert HOSTILE in {text.text for text in page.texts()}


def test_words_for_readers() -> None:
    assert [plural(1, "round"), plural(1_203, "round")] == ["1 round", "1,203 rounds"]
    assert [percent(share) for share in (0, 0.00123, 0.05, 0.62, 1)] == ["0%", "0.12%", "5%", "62%", "100%"]
    durations = [seconds_text(seconds) for seconds in (0.00042, 0.25, 12.34, 200, 3_599.9, 7_500)]
    assert durations == ["0.42 ms", "0.25 s", "12.3 s", "3 min 20 s", "60 min 0 s", "2 h 5 min"]
    assert plain("a\n\tb") == "a b"
    assert plain("abcdef", 4) == "abc…"
    assert "$$" not in plain("$$$$x$$")


def png_size(path: Path) -> tuple[int, int]:
    """Read width and height from the header."""
    head = path.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


def test_a_png_has_the_size_asked_for(made: dict[str, dask_rac.Clustering], page: Page, tmp_path: Path) -> None:
    picture = rounds_picture(records_of(made["distances"]))
    assert isinstance(picture.figure, Plot)
    picture.save(tmp_path / "rounds.png", width=500, height=300, scale=3)
    assert png_size(tmp_path / "rounds.png") == (1500, 900)
    assert (picture.figure.sizing_mode, picture.figure.toolbar_location) == ("stretch_width", "right")
    assert picture.figure.width is None or picture.figure.width != 500
    two = alpha_beta_picture(records_of(made["distances"]))
    two.save(tmp_path / "two.png", height=500)
    assert png_size(tmp_path / "two.png") == (1600, 1000)


@pytest.mark.parametrize("place", [0, 2], ids=[NAMES[0], NAMES[2]])
def test_an_svg_is_made_of_vectors(
    made: dict[str, dask_rac.Clustering], place: int, page: Page, tmp_path: Path
) -> None:
    picture = all_pictures(made["distances"])[place]
    path = tmp_path / "picture.svg"
    picture.save(path, width=600)
    tree = ElementTree.parse(path).getroot()
    kinds = [element.tag.rpartition("}")[2] for element in tree.iter()]
    assert tree.attrib["width"] == "600"
    assert kinds.count("path") > 20
    assert "image" not in kinds
    words = {element.text for element in tree.iter() if element.tag.endswith("text")}
    labels = {"alpha: fraction merged", "beta: updates per merge"} if place else {"clusters", "merges"}
    assert {"finisher", "round"} | labels <= words
    page.open(path)
    assert page.errors() == []


def test_what_exists_is_not_written_over(made: dict[str, dask_rac.Clustering], tmp_path: Path) -> None:
    picture = sizes_picture(size_histogram(lives_of(made["three merges"]), 2.0))
    for name in ("sizes.html", "sizes.svg", "sizes.png"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(dask_rac.InputError, match="exists and is never overwritten"):
            picture.save(tmp_path / name)
        assert (tmp_path / name).read_text() == "mine"


def test_a_page_may_go_to_a_url() -> None:
    picture = rounds_picture([])
    picture.save("memory://pictures/rounds.html")
    with pytest.raises(dask_rac.InputError, match="exists"):
        picture.save("memory://pictures/rounds.html")
    assert fsspec.filesystem("memory").cat_file("/pictures/rounds.html").startswith(b"<!DOCTYPE html>")


def test_what_cannot_be_saved_is_refused(tmp_path: Path) -> None:
    picture = rounds_picture([])
    with pytest.raises(dask_rac.InputError, match=r"has an unknown ending: use \.html, \.png, \.svg"):
        picture.save(tmp_path / "rounds.pdf")
    with pytest.raises(dask_rac.InputError, match="are for images"):
        picture.save(tmp_path / "rounds.html", width=300)
    with pytest.raises(dask_rac.InputError, match="width=0 is out of range: use 1 to 50000"):
        picture.save(tmp_path / "rounds.png", width=0)
    with pytest.raises(dask_rac.InputError, match=r"width=359 is too narrow .*: set width=360 or more"):
        picture.save(tmp_path / "rounds.png", width=359)
    with pytest.raises(dask_rac.InputError, match="scale=0"):
        picture.save(tmp_path / "rounds.png", scale=0)
    assert list(tmp_path.iterdir()) == []


def test_without_a_browser_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ImportError, match=r"dask-rac\[images\].*chromium with chromedriver, or firefox"):
        rounds_picture([]).save(tmp_path / "rounds.png")


def test_without_selenium_the_error_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "bokeh.io.webdriver", raising=False)
    monkeypatch.setitem(sys.modules, "selenium.webdriver", None)
    with pytest.raises(ImportError, match=r"pip install 'dask-rac\[images\]'"):
        rounds_picture([]).save(tmp_path / "rounds.svg")


def test_without_bokeh_the_error_says_what_to_install() -> None:
    script = "import sys; sys.modules['bokeh'] = None; import dask_rac.show.pictures"
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert "pip install 'dask-rac[plot]'" in result.stderr.splitlines()[-1]


def test_outside_notebooks_it_opens_a_browser(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    opened: list[str] = []
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("webbrowser.open", opened.append)
    picture = rounds_picture([])
    picture.show()
    assert Path(opened[0].removeprefix("file://")).read_text().startswith("<!DOCTYPE html>")
    picture._ipython_display_()
    assert capsys.readouterr().out == "<Picture rounds: Merges and clusters by round>\n"


CELL = """
from dask_rac.base.events import RoundRecord
from dask_rac.show.pictures import rounds_picture
first = RoundRecord(clusters=9, edges=20, merges=4, round=1)
rounds_picture([first, RoundRecord(clusters=5, edges=8, merges=2, round=2)])
"""


def test_in_a_notebook_it_shows_itself_without_network(page: Page, tmp_path: Path) -> None:
    cell: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": CELL}
    written = json.dumps({"cells": [cell, cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    notebook = nbformat.reads(written, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=120, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [[output["data"] for output in cell["outputs"]] for cell in notebook["cells"]]
    assert [len(shown) for shown in outputs] == [2, 1]  # BokehJS is included once
    assert all(shown[-1]["text/plain"].startswith("Merges and clusters by round. ") for shown in outputs)
    body = [
        f"<script>{data['application/javascript']}</script>" if "application/javascript" in data else data["text/html"]
        for shown in outputs
        for data in shown
    ]
    (tmp_path / "notebook.html").write_text("<!DOCTYPE html><meta charset='utf-8'>" + "\n".join(body))
    page.open(tmp_path / "notebook.html").wait_for("window.Bokeh?.documents?.length == 2").wait()
    assert [text.text for text in page.texts()].count("clusters, merges") == 2
    assert_fine(page)


@pytest.mark.parametrize(("low", "high"), [(-3, 305), (-320, 2), (-307, 305), (-320, -310), (-321, -320), (-300, 57)])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_the_farthest_heights_can_be_drawn(low: int, high: int, weights: str) -> None:
    edges = np.arange(9), np.arange(1, 10), 10.0 ** np.linspace(low, high, 9)
    clustering = dask_rac.cluster(edges, "single", weights=weights)
    for made in (clustering.plot_heights(), clustering.plot_dendrogram()):
        assert json_item(made.figure)["doc"]
        assert isinstance(made.figure, Plot)
        ends = made.figure.x_range.start, made.figure.x_range.end  # type: ignore[attr-defined]
        assert np.isfinite(ends).all()
        low_end, high_end = sorted(ends)
        log = type(made.figure.x_scale).__name__ == "LogScale"
        assert np.isfinite(high_end / low_end if log else 50_000 / (high_end - low_end))  # rounded as in BokehJS
    places = data_of(clustering.plot_dendrogram(), "merges")["place"]
    assert low_end < min(places) <= max(places) < high_end


def test_heights_beyond_the_farthest_are_drawn_at_the_end_of_the_axis() -> None:
    heights = np.array([1e-300, 1e-290, 1e-100, 1e50])
    branch = Branch(0, 2, 1e-301)
    for place, height in enumerate(heights.tolist()):
        branch = Branch(0, 3 + place, height, (branch, Branch(2 + place, 1, float("nan"))))
    data = data_of(dendrogram_picture([branch], 1, False), "merges")
    assert data["height"] == heights[::-1].tolist()
    assert np.allclose(np.log10(data["place"]), [50, -100, -220, -220])


def test_an_axis_of_zeros_begins_there() -> None:
    assert height_scale(np.zeros(3), 2.0) == Scale(0.0, 1.0, False)


SPREAD: NDArray[np.float64] = np.linspace(0.0, 1.0, 200)
CLOSE: dict[str, NDArray[np.float64]] = {
    "1e5": 1e5 + SPREAD * 1e-3,
    "0.9999": 0.9999 + SPREAD * 1e-6,
    "last bits": 1 + np.linspace(1, 59, 59) * 2.0**-52,
}


def ticks_of(page: Page) -> list[str]:
    """Return the labels of the axis of heights, from left to right."""
    texts = page.texts()
    (title,) = [text for text in texts if text.text == "height"]
    labels = [text for text in texts if 0 < title.top - text.top < 30]
    return [text.text for text in sorted(labels, key=lambda text: text.left)]


@pytest.mark.parametrize("name", CLOSE)
def test_ticks_of_close_heights_are_distinct(name: str, page: Page, tmp_path: Path) -> None:
    heights = CLOSE[name]
    clustering = dask_rac.cluster((np.arange(len(heights)), np.arange(1, len(heights) + 1), heights), "single")
    for picture in (clustering.plot_heights(), clustering.plot_dendrogram(5)):
        page.size(1280).open(picture.save(tmp_path / f"{picture.name}.html"))
        ticks = [float(label.replace(",", "")) for label in ticks_of(page)]
        across: Any = picture.figure.x_range  # type: ignore[attr-defined]
        assert len(ticks) >= 4
        assert across.start <= ticks[0] < ticks[-1] <= across.end
        assert np.allclose(np.diff(ticks), ticks[1] - ticks[0], rtol=1e-3, atol=0)
        assert max(map(len, ticks_of(page))) <= 15
        assert page.overlaps() == []
        assert page.sticking_out() == []


def test_tooltips_of_close_heights_are_distinct(page: Page, tmp_path: Path) -> None:
    for heights, form in ((SPREAD, "%.6g"), (SPREAD[:1] + 1 / 3, "%.6g"), (CLOSE["last bits"], "%.17g")):
        assert height_format(heights) == form
    heights = CLOSE["1e5"]
    assert len({height_format(heights) % height for height in heights}) == len(heights)
    picture = heights_picture(HeightCurve(heights, np.arange(200, 0, -1), 201, False), [])
    page.size(1280).open(picture.save(tmp_path / "heights.html"))
    page.hover(600, 200)
    texts = [text.text for text in page.texts()]
    height, clusters = texts[texts.index("height:") + 1], int(texts[texts.index("clusters:") + 1])
    assert abs(float(height) - heights[200 - clusters]) < 1e-8


def test_images_may_be_as_low_as_their_texts_allow(
    made: dict[str, dask_rac.Clustering], page: Page, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dask_rac.show.pictures.saving._image", lambda *_: b"drawn")
    pictures = all_pictures(made["distances"])
    for picture in pictures:
        plots = [model for model in picture.figure.references() if isinstance(model, Plot)]
        usual = sum(plot.height or 0 for plot in plots)
        with pytest.raises(dask_rac.InputError, match=r"height=40 is too low .* smaller top=") as refused:
            picture.save(tmp_path / "low.png", height=40)
        least = int(re.findall(r"set height=(\d+) or more", str(refused.value))[0])
        assert least < usual
        with pytest.raises(dask_rac.InputError, match="too low"):
            picture.save(tmp_path / "low.png", height=least - 1)
        for height in (least, usual, None):
            picture.save(tmp_path / f"{picture.name}_{height}.png", width=360, height=height)
        for plot in plots:
            plot.height = round(least / usual * (plot.height or 0))
    page.size(400).open(save_together(pictures, tmp_path / "low.html"))
    assert page.overlaps(slack=4.0) == []  # lines of text are higher than their letters
    assert page.sticking_out() == []


def leaf_data(picture: Picture) -> dict[int, tuple[str, str, str]]:
    """Return colour, label and name of each leaf, by its smallest node."""
    found: dict[int, tuple[str, str, str]] = {}
    for source in ("cut", "single"):
        data = data_of(picture, source)
        rows = zip(data["node"], data["colour"], data["label"], data["name"], strict=True)
        found |= {node: (colour, label, name) for node, colour, label, name in rows}
    return found


@pytest.mark.filterwarnings("ignore:one cluster holds")
@pytest.mark.parametrize("name", ["distances", "forest", "similarities", "three merges"])
@pytest.mark.parametrize("extra", [0, 3, 12, 200])
def test_a_dendrogram_has_the_colours_of_a_cut(made: dict[str, dask_rac.Clustering], name: str, extra: int) -> None:
    clustering = made[name]
    count = min(clustering.n_trees + extra, clustering.n_nodes)
    labels = clustering.cut(n_clusters=count)
    picture = clustering.plot_dendrogram(20, n_clusters=count)
    sizes, heights = np.bincount(labels), data_of(picture, "merges")["height"]
    cut_off = data_of(picture, "cut")
    by_cluster: dict[int, set[str]] = {}
    for node, nodes, colour in zip(cut_off["node"], cut_off["nodes"], cut_off["colour"], strict=True):
        assert (colour != GREY) == (sizes[labels[node]] >= nodes)  # wholly in a cluster, or cut further down
        if colour != GREY:
            by_cluster.setdefault(int(labels[node]), set()).add(colour)
    assert all(len(colours) == 1 for colours in by_cluster.values())
    grey = np.count_nonzero(np.array(data_of(picture, "merges")["colour"]) == GREY)
    assert grey == min(count - clustering.n_trees, len(heights))
    assert f"the clusters of the cut into {count:,};" in picture.caption
    middle = middle_height(clustering)
    sign = sign_of(clustering)
    at_height = data_of(clustering.plot_dendrogram(20, height=middle), "merges")
    applied = sign * np.array(at_height["height"]) <= sign * middle
    assert [colour != GREY for colour in at_height["colour"]] == applied.tolist()


def test_a_dendrogram_without_a_cut_has_no_colours_of_clusters(made: dict[str, dask_rac.Clustering]) -> None:
    picture = made["distances"].plot_dendrogram(20)
    assert set(data_of(picture, "merges")["colour"]) == {BLUE}
    assert set(data_of(picture, "cut")["colour"]) == {ORANGE}
    assert "Colours" not in picture.caption


@pytest.mark.filterwarnings("ignore:one cluster holds")
def test_a_dendrogram_has_names(made: dict[str, dask_rac.Clustering]) -> None:
    names = [f"$$node$$ with a rather long name {node}" for node in range(5_000)]
    clustering = made["distances"]
    clustering.names = NamesInMemory(names)
    try:
        found = leaf_data(clustering.plot_dendrogram(30))
    finally:
        clustering.names = None
    lives = lives_of(clustering)
    for branch in (leaf for root in clustering.top(29) for leaf in root.leaves()):
        _, label, name = found[branch.node]
        assert "$$" not in label + name
        node = int(name.rpartition(" ")[2])
        assert label.endswith(f" ({branch.size:,})") == (branch.size > 1)
        if branch.size == 1:
            assert node == branch.node
        else:
            (cluster,) = lives.find(np.array([branch.node]), np.array([branch.size]))
            labels = clustering.cut(n_clusters=clustering.n_nodes - int(cluster) - 1)
            inside = np.flatnonzero(labels == labels[branch.node])
            assert lives.first[node] == lives.first[inside].min()
            assert node in inside


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"height": 1.0, "n_clusters": 3}, r"either height= or n_clusters="),
        ({"n_clusters": 0}, "n_clusters=0"),
        ({"n_clusters": 9}, "n_clusters=9 is not possible: the 4 nodes form 1 tree; choose 1 to 4"),
        ({"height": "high"}, "height='high'"),
    ],
)
def test_a_dendrogram_refuses_a_cut_that_is_none(
    made: dict[str, dask_rac.Clustering], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        made["three merges"].plot_dendrogram(**options)
