"""The tree of a report: names and examples, walking, searching, the box for the number of clusters, colours."""

import ast
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

import dask_rac
from dask_rac import InputError
from dask_rac.files.node_names import NamesInMemory
from dask_rac.show.pictures.standalone import embedded_json
from dask_rac.show.pictures.theme import CLUSTER_COLOURS
from dask_rac.show.report import walk
from tests.support.browser import Page

HOSTILE = "<script>alert(1)</script>\u202egnp.exe'\"{{7*7}}</script><!--&amp;\\ $(touch x)"
ESCAPED = HOSTILE.replace("\u202e", "\\u202e")


def points_of(nodes: int, seed: int = 0) -> np.ndarray:
    """Points in groups of different sizes."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 9, nodes)
    centres: np.ndarray = random.random((9, 2)) * 10
    return centres[group] + random.normal(0, 0.3, (nodes, 2))


def named(clustering: dask_rac.Clustering, names: list[str] | None = None) -> dask_rac.Clustering:
    clustering.names = NamesInMemory(names or [f"point {node}" for node in range(clustering.n_nodes)])
    return clustering


def random_graph(nodes: int, linkage: str, **options: Any) -> dask_rac.Clustering:
    random = np.random.default_rng(1)
    ends = random.integers(0, nodes, (2, nodes))
    ends = ends[:, ends[0] != ends[1]]
    made: dask_rac.Clustering = dask_rac.cluster((*ends, random.random(ends.shape[1])), linkage, **options)
    return made


def forest_of(nodes: int) -> dask_rac.Clustering:
    return random_graph(nodes, "single", duplicates="min", n_nodes=nodes + 3)


def data_of(html: str, name: str) -> Any:
    return json.loads(html.partition(f'id="{name}">')[2].partition("</script>")[0])


def tree_data(clustering: dask_rac.Clustering) -> Any:
    return walk.walkable_tree(clustering._lives, np.empty(0, np.int64), clustering.names).data


def members(clustering: dask_rac.Clustering, top: int) -> set[int]:
    """The nodes of a cluster of `Lifetimes`, from the labels of a cut."""
    lives = clustering._lives
    labels = clustering.cut(n_clusters=clustering.n_nodes - top - 1, names=False)
    return set(np.flatnonzero(labels == labels[lives.node[top]]).tolist())


@pytest.fixture(scope="module")
def clustering() -> dask_rac.Clustering:
    return named(dask_rac.cluster(points_of(150), "average", metric="euclidean"))


@pytest.fixture(scope="module")
def path(clustering: dask_rac.Clustering, tmp_path_factory: pytest.TempPathFactory) -> str:
    return clustering.report(tmp_path_factory.mktemp("walk") / "report.html", title="Points & groups")


@pytest.fixture
def report(path: str, page: Page) -> Iterator[Page]:
    yield page.size(1280).open(path)
    page.run("sessionStorage.clear()")


@pytest.fixture(scope="module")
def partial(tmp_path_factory: pytest.TempPathFactory) -> tuple[dask_rac.Clustering, str]:
    """A run of which a page holds a part only."""
    folder = tmp_path_factory.mktemp("partial")
    edges = dask_rac.datasets.lattice(3_000, 8, 0, folder / "edges")
    run = named(dask_rac.cluster(edges, store=folder / "it's a run"))
    with mock.patch.multiple(walk, SEARCHABLE=1_000, SPLITS=60):
        return run, run.report(folder / "report.html")


class TestData:
    @pytest.mark.parametrize("kind", ["tree", "forest", "similarities"])
    def test_the_nodes_of_a_branch_are_a_range_of_the_list(self, kind: str) -> None:
        if kind == "tree":
            clustering = dask_rac.cluster(points_of(60), "average", metric="euclidean")
        elif kind == "forest":
            clustering = forest_of(60)
        else:
            clustering = random_graph(50, "average", weights="similarity", duplicates="max")
        for splits in (2_000, 7):
            with mock.patch.object(walk, "SPLITS", splits):
                data = tree_data(clustering)
            assert data["whole"]
            assert sorted(map(int, data["texts"])) == list(range(clustering.n_nodes))
            own = data["size"].copy()
            for branch, outer in enumerate(data["parent"][1:], 1):
                own[outer] -= data["size"][branch]
            starts = np.concatenate(([0], np.cumsum(own)))
            for branch, (top, size) in enumerate(zip(data["top"], data["size"], strict=True)):
                held = {int(text) for text in data["texts"][starts[branch] : starts[branch] + size]}
                if top >= 0:
                    assert held == members(clustering, top)
                    height = clustering._lives.sign * clustering._lives.distance[top]
                    assert float(data["formed"][branch]) == pytest.approx(height, rel=1e-5)
                examples = {int(data["texts"][place]) for place in data["examples"][branch]}
                assert examples <= held
                assert len(examples) == (0 if top < 0 < size - 1 else min(3, size))

    def test_nodes_have_their_names_in_memory_and_in_a_store(self, tmp_path: Path) -> None:
        random = np.random.default_rng(3)
        edges = pd.DataFrame({"source": np.arange(99), "target": np.arange(1, 100), "weight": random.random(99)})
        edges.to_parquet(tmp_path / "edges.parquet")
        in_memory = named(dask_rac.cluster(edges))
        stored = named(dask_rac.cluster(str(tmp_path / "edges.parquet"), store=tmp_path / "run"))
        found = [tree_data(one) for one in (in_memory, stored)]
        assert sorted(found[0]["texts"]) == sorted(f"point {node}" for node in range(100))
        assert found[0]["named"]
        assert found[0] == found[1]

    def test_of_many_nodes_or_long_names_only_examples_are_held(self, clustering: dask_rac.Clustering) -> None:
        for name, limit in {"SEARCHABLE": 100, "NAME_BYTES": 1_600}.items():
            with mock.patch.object(walk, "SPLITS", 8), mock.patch.object(walk, name, limit):
                data = tree_data(clustering)
            assert not data["whole"]
            assert len(data["texts"]) == len(data["home"]) < 150
            for text, home in zip(data["texts"], data["home"], strict=True):
                if data["top"][home] >= 0:
                    assert int(text.removeprefix("point ")) in members(clustering, data["top"][home])

    def test_a_page_has_a_bounded_size(self, tmp_path: Path) -> None:
        random = np.random.default_rng(4)
        clustering = dask_rac.cluster((np.arange(59_999), np.arange(1, 60_000), random.pareto(0.5, 59_999)), "single")
        named(clustering, ["a name that is long, far too long to be shown in full " * 9] * 60_000)
        size = Path(clustering.report(tmp_path / "long.html")).stat().st_size
        data = tree_data(clustering)
        assert sum(split >= 0 for split in data["split"]) == walk.SPLITS - 1  # and one tree
        assert max(map(len, data["texts"])) == walk.LONGEST
        assert data["texts"][0].endswith("…")
        assert 2_000_000 < size < 10_000_000

    def test_names_that_grow_in_a_page_are_shortened(self, clustering: dask_rac.Clustering) -> None:
        names = NamesInMemory([f"{node}{'<&>' * 20}" for node in range(150)])
        with mock.patch.object(walk, "SPLITS", 8), mock.patch.object(walk, "NAME_BYTES", 9_000):
            data = walk.walkable_tree(clustering._lives, np.empty(0, np.int64), names).data
        assert not data["whole"]
        assert len(embedded_json(data["texts"], ascii_only=False)) < 12_000
        assert all(text.endswith("…") for text in data["texts"])

    def test_the_table_shows_the_members_that_merge_first(self, clustering: dask_rac.Clustering, path: str) -> None:
        data = data_of(Path(path).read_text(), "slider-data")
        for cells, examples, *_ in data["rows"]:
            node, size = int(cells[0]), int(cells[1].replace(",", ""))
            (top,) = clustering._lives.find(np.array([node]), np.array([size]))
            first = clustering._lives.first
            inside = sorted(members(clustering, top), key=lambda one: (first[one], one))
            assert len(examples) == min(3, size)
            for place, example in enumerate(examples):
                assert first[int(example.removeprefix("point "))] == first[inside[place]]


class TestTitle:
    def test_is_the_users(self, report: Page) -> None:
        assert report.driver.title == "Points & groups - dask_rac"
        assert report.driver.find_element(By.TAG_NAME, "h1").text == "Points & groups"
        assert report.driver.find_element(By.CSS_SELECTOR, "header .name").text == "clustering in memory"

    @pytest.mark.parametrize("title", ["", "  ", 3, ["a"]])
    def test_must_be_text(self, title: Any, clustering: dask_rac.Clustering, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"title=.* is not a title: give some text"):
            clustering.report(tmp_path / "report.html", title=title)
        assert list(tmp_path.iterdir()) == []


def leaves(page: Page) -> list[tuple[int, str, str]]:
    """Branch, badge and text of each row of the drawing."""
    found: list[list[Any]] = page.run(
        "return [...document.querySelectorAll('#leaves li > *')].map(one => [Number(one.dataset.branch), "
        "one.querySelector('.badge')?.textContent ?? '', one.querySelector('.called').title])"
    )
    return [(branch, badge, text) for branch, badge, text in found]


def crumbs(page: Page) -> list[str]:
    return [one.text for one in page.driver.find_elements(By.CSS_SELECTOR, "#crumbs li > *")]


def ask(page: Page, box: str, text: str) -> None:
    """Type a text into a box, and press Enter."""
    found = page.driver.find_element(By.ID, box)
    found.clear()
    found.send_keys(text, Keys.ENTER)
    page.wait()


class TestWalking:
    def test_into_a_branch_and_back_to_the_root(self, clustering: dask_rac.Clustering, report: Page) -> None:
        assert crumbs(report) == ["the root: 150 nodes"]
        assert len(leaves(report)) == 30
        report.driver.find_element(By.CSS_SELECTOR, "#leaves button").click()
        inner = crumbs(report)
        assert inner[0] == "the root: 150 nodes"
        assert len(inner) > 1
        size = int(inner[-1].split()[0])
        assert 1 < len(leaves(report)) <= min(30, size)
        assert report.run("return document.activeElement.id") == "branch"
        described = report.driver.find_element(By.ID, "branch").text
        assert described.startswith(f"{size} nodes, together from height ")
        report.driver.find_element(By.CSS_SELECTOR, "#crumbs button").click()
        assert crumbs(report) == ["the root: 150 nodes"]
        assert report.errors() == []

    def test_down_to_single_nodes_by_keyboard(self, report: Page) -> None:
        for _ in range(20):
            buttons = report.driver.find_elements(By.CSS_SELECTOR, "#leaves button")
            if not buttons:
                break
            buttons[0].send_keys(Keys.ENTER)
        assert {text.split()[0] for _, _, text in leaves(report)} == {"point"}
        assert report.driver.find_elements(By.CSS_SELECTOR, "#leaves button") == []

    def test_a_click_into_the_picture_opens_a_branch_too(self, report: Page) -> None:
        report.run("document.querySelector('#lines .fan').dispatchEvent(new MouseEvent('click'))")
        assert len(crumbs(report)) > 1

    def test_more_branches_can_be_shown(self, report: Page) -> None:
        more = report.driver.find_element(By.ID, "more")
        for expected in (60, 120, 150):
            more.click()
            assert len(leaves(report)) == expected
        assert not more.is_displayed()
        assert sorted(text for _, _, text in leaves(report)) == sorted(f"point {node}" for node in range(150))

    def test_all_members_of_a_branch_are_listed(self, report: Page) -> None:
        report.driver.find_element(By.CSS_SELECTOR, "#leaves button").click()
        size = int(crumbs(report)[-1].split()[0])
        report.driver.find_element(By.CSS_SELECTOR, "#members summary").click()
        report.wait_for("document.querySelectorAll('#members span').length")
        assert report.run("return document.querySelectorAll('#members span').length") == size

    def test_the_branch_outlives_a_reload(self, report: Page) -> None:
        report.driver.find_element(By.CSS_SELECTOR, "#leaves button").click()
        before = crumbs(report)
        report.driver.refresh()
        report.wait()
        assert crumbs(report) == before

    def test_a_forest_begins_with_its_trees(self, tmp_path: Path, page: Page) -> None:
        clustering = forest_of(200)
        page.size(400).open(clustering.report(tmp_path / "report.html"))
        assert crumbs(page) == [f"all {clustering.n_trees} trees"]
        ask(page, "find", "202")
        assert page.driver.find_element(By.ID, "find-says").text == "1 found."
        assert page.errors() == []
        assert page.overlaps() == []
        assert page.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        page.run("sessionStorage.clear()")


class TestSearch:
    def test_shows_the_path_to_the_root(self, clustering: dask_rac.Clustering, report: Page) -> None:
        lives = clustering._lives
        for node in (0, 17, 149):
            ask(report, "find", f"point {node}")
            path, place = [], int(lives.first[node])
            while place < len(lives):
                path.append(f"{lives.size[place]} nodes")
                place = int(lives.end[place])
            shown = [one.text for one in report.driver.find_elements(By.CSS_SELECTOR, "#path li button")]
            assert shown == path or (len(path) > 20 and shown[:10] + shown[-10:] == path[:10] + path[-10:])
            assert (
                report.driver.find_element(By.CSS_SELECTOR, "#path h3").text == f"point {node}: from here to the root"
            )
            sought = [one.text for one in report.driver.find_elements(By.CSS_SELECTOR, "#leaves .sought .called")]
            assert sought == [f"point {node}"]

    def test_lists_what_contains_the_text_equal_names_first(self, report: Page) -> None:
        ask(report, "find", "POINT 1")
        hits = [one.text for one in report.driver.find_elements(By.CSS_SELECTOR, "#hits button")]
        assert hits[:3] == ["point 1", "point 10", "point 11"]
        assert report.driver.find_element(By.ID, "find-says").text == "61 found; the first 24 are listed."
        report.driver.find_elements(By.CSS_SELECTOR, "#hits button")[2].click()
        assert report.driver.find_element(By.CSS_SELECTOR, "#path h3").text.startswith("point 11:")
        ask(report, "find", "nothing like it")
        assert report.driver.find_element(By.ID, "find-says").text == "No node has this name."
        assert not report.driver.find_element(By.ID, "path").is_displayed()

    def test_says_what_a_page_does_not_hold_and_how_to_ask(
        self, partial: tuple[dask_rac.Clustering, str], page: Page
    ) -> None:
        run, path = partial
        page.size(400).open(path)
        held = page.driver.find_element(By.ID, "held").text
        assert re.search(r"Of 2,999 merges this page holds the \d+ whose smaller part is largest", held)
        assert re.search(r"Of 3,000 nodes this page holds \d+, .* only these can be searched for", held)
        assert page.run("return document.querySelectorAll('#members:not([hidden])').length") == 0
        name = 'it\'s "$(date)" \\ here'
        ask(page, "find", name)
        assert page.driver.find_element(By.ID, "find-says").text == "No node on this page has this name."
        shell, python = (one.text for one in page.driver.find_elements(By.CSS_SELECTOR, "#path code"))
        assert shlex.split(shell) == ["dask-rac", "path", run.store, name]  # type: ignore[attr-defined]
        call = ast.parse(python, mode="eval").body
        assert isinstance(call, ast.Call)
        assert ast.literal_eval(call.args[0]) == name
        assert page.errors() == []
        assert page.overlaps() == []
        page.run("sessionStorage.clear()")

    def test_of_what_a_page_holds(self, partial: tuple[dask_rac.Clustering, str], page: Page) -> None:
        _, path = partial
        data = data_of(Path(path).read_text(), "tree-data")
        page.size(1280).open(path)
        for place in (0, len(data["texts"]) // 2):
            ask(page, "find", data["texts"][place])
            sizes, branch = [], data["home"][place]
            while branch >= 0:
                sizes += [f"{data['size'][branch]:,} nodes"] if data["size"][branch] > 1 else []
                branch = data["parent"][branch]
            shown = [one.text for one in page.driver.find_elements(By.CSS_SELECTOR, "#path li button")]
            assert shown[:10] == sizes[:10]
            assert shown[-1] == sizes[-1] == "3,000 nodes"
        page.run("sessionStorage.clear()")

    def test_by_number_where_nodes_have_no_names(self, tmp_path: Path, page: Page) -> None:
        clustering = dask_rac.cluster(points_of(50), "average", metric="euclidean")
        page.size(1280).open(clustering.report(tmp_path / "report.html"))
        ask(page, "find", "7")
        assert page.driver.find_element(By.CSS_SELECTOR, "#path h3").text == "node 7: from here to the root"
        ask(page, "find", "seven")
        assert page.driver.find_element(By.ID, "find-says").text == "No node has this number."
        page.run("sessionStorage.clear()")


class TestBox:
    def test_goes_to_that_number_of_clusters(self, clustering: dask_rac.Clustering, report: Page) -> None:
        for count in (8, 1, 23, 50):
            ask(report, "count", str(count))
            assert report.driver.find_element(By.ID, "now-clusters").text == str(count)
            height = float(report.driver.find_element(By.CSS_SELECTOR, "#cut .exact").text)
            assert len(np.unique(clustering.cut(height=height, names=False))) == count
            noun = "cluster" if count == 1 else "clusters"
            assert report.driver.find_element(By.ID, "count-says").text.startswith(f"{count} {noun} at height ")

    def test_says_which_number_it_really_is(self, tmp_path: Path, page: Page) -> None:
        heights = [1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 3.0]
        tree = dask_rac.cluster((np.arange(7), np.arange(1, 8), np.array(heights)), "single")
        page.size(1280).open(tree.report(tmp_path / "report.html"))
        ask(page, "count", "4")
        assert page.driver.find_element(By.ID, "now-clusters").text == "3"
        says = page.driver.find_element(By.ID, "count-says").text
        assert re.fullmatch(r"No position of the slider has 4; the nearest has 3 clusters at height 1(\.\d+)?\.", says)
        for wrong in ("many", "0", "-3", "2.5"):
            ask(page, "count", wrong)
            assert page.driver.find_element(By.ID, "count-says").text.startswith("Type a whole number")
            assert page.driver.find_element(By.ID, "now-clusters").text == "3"
        page.run("sessionStorage.clear()")


def rgb(colour: str) -> str:
    return "rgb({}, {}, {})".format(*bytes.fromhex(colour[1:]))


class TestColours:
    @pytest.mark.parametrize("count", [2, 8, 31])
    def test_are_those_of_the_cut(self, count: int, clustering: dask_rac.Clustering, report: Page) -> None:
        ask(report, "count", str(count))
        labels = clustering.cut(n_clusters=count, names=False)
        table = report.run(
            "return [...document.querySelectorAll('#largest tbody tr')].map(row => [row.cells[0].textContent, "
            "getComputedStyle(row.querySelector('.badge')).backgroundColor, row.cells[2].textContent])"
        )
        assert [row[0] for row in table] == [str(number) for number in range(1, len(table) + 1)]
        assert [row[1] for row in table] == [rgb(CLUSTER_COLOURS[k % len(CLUSTER_COLOURS)]) for k in range(len(table))]
        number = {int(labels[int(row[2])]): row[0] for row in table}
        for _ in range(3):
            report.driver.find_element(By.ID, "more").click()
        assert len(leaves(report)) == 150
        for _, badge, text in leaves(report):
            assert badge == number.get(int(labels[int(text.removeprefix("point "))]), "")
        strokes = set(report.run("return [...document.querySelectorAll('#lines .line')].map(one => one.style.stroke)"))
        assert strokes - {""} == {row[1] for row in table}

    def test_a_click_on_a_number_shows_the_cluster(self, report: Page) -> None:
        ask(report, "count", "8")
        badge = report.driver.find_elements(By.CSS_SELECTOR, "#largest .badge")[2]
        assert badge.get_attribute("aria-label") == "Show cluster 3 in the tree"
        badge.click()
        size = report.run("return document.querySelectorAll('#largest tbody tr')[2].cells[3].textContent")
        assert crumbs(report)[-1] == f"{size} nodes"
        assert {number for _, number, _ in leaves(report)} == {"3"}

    def test_follow_the_slider(self, report: Page) -> None:
        said = []
        for count in (2, 9):
            ask(report, "count", str(count))
            said.append(report.driver.find_element(By.ID, "colours").text)
            assert f"{count} clusters at height" in said[-1]
            assert report.run("return document.querySelectorAll('#lines .cut').length") == 1
        assert said[0] != said[1]


class TestSafety:
    def test_names_stay_text(self, tmp_path: Path, page: Page) -> None:
        clustering = dask_rac.cluster(points_of(40), "average", metric="euclidean")
        path = Path(
            named(clustering, [f"{HOSTILE}{node}" for node in range(40)]).report(tmp_path / "r.html", title=HOSTILE)
        )
        html = path.read_text()
        assert "<script>alert" not in html
        assert "\u202e" not in html
        assert len(re.findall("<script", html)) == len(re.findall("</script", html))
        for width in (1280, 400):
            page.size(width).open(path)
            assert page.driver.find_element(By.TAG_NAME, "h1").text == ESCAPED
            assert {text.partition("),")[0][: len(ESCAPED) - 9] for _, _, text in leaves(page)}
            ask(page, "find", ESCAPED[:30])
            assert page.driver.find_element(By.ID, "find-says").text.startswith("40 found")
            assert page.driver.find_element(By.CSS_SELECTOR, "#path h3").text.startswith(ESCAPED[:40])
            assert page.errors() == []
            assert page.requests() == []
            assert page.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        page.run("sessionStorage.clear()")

    def test_all_is_reached_by_keyboard(self, report: Page) -> None:
        reached = set()
        report.driver.find_element(By.ID, "slider").send_keys(Keys.TAB)
        for _ in range(45):
            focused = report.driver.switch_to.active_element
            inside = focused.find_element(By.XPATH, "..").tag_name
            reached.add(focused.get_attribute("id") or f"{inside} {focused.tag_name}")
            focused.send_keys(Keys.TAB)
        assert {"count", "count-go", "find", "find-go", "td button", "li button", "more"} <= reached


def test_nothing_overlaps_light_or_dark(path: str, page: Page) -> None:
    for width in (1280, 400):
        for scheme in ("light", "dark"):
            page._command(
                "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            )
            page.size(width).open(path)
            ask(page, "count", "8")
            ask(page, "find", "point 1")
            assert page.overlaps() == []
            assert page.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            assert page.errors() == []
            page.run("sessionStorage.clear()")
    page._command("Emulation.setEmulatedMedia", {"media": "", "features": []})
