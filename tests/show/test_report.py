"""The report in a browser: what it shows is right, its contents are escaped, and it needs no other file."""

import errno
import json
import math
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement

import dask_rac
from dask_rac import InputError, ResourceError
from dask_rac.files.folder import Folder
from dask_rac.show.report.facts import Remark, ReportFacts, Table
from dask_rac.show.report.html import make_html
from dask_rac.show.report.page import check_report, write_report
from dask_rac.show.report.words import distinct_texts
from tests.support.browser import Page

HOSTILE = "<script>alert(1)</script>\u202egnp.exe'\"{{7*7}}{% x %}</script><!--&amp;\\"
"""What a path or a column may be called."""

ESCAPED = HOSTILE.replace("\u202e", "\\u202e")
"""As it is to be read."""


def weighted_graph(nodes: int, degree: int, levels: int, seed: int = 0) -> pd.DataFrame:
    """Return random edges with few distinct weights, hence ties; with a low degree, a forest."""
    rng = np.random.default_rng(seed)
    edges = np.sort(rng.integers(0, nodes, (nodes * degree // 2, 2)), axis=1)
    edges = np.unique(edges[edges[:, 0] < edges[:, 1]], axis=0)
    weight = rng.integers(1, levels, len(edges)) / 8
    return pd.DataFrame({"source": edges[:, 0], "target": edges[:, 1], "weight": weight})


CASES: dict[str, Callable[[], dask_rac.Clustering]] = {
    "distances": lambda: dask_rac.cluster(weighted_graph(3_000, 10, 100_000)),
    "ties": lambda: dask_rac.cluster(weighted_graph(2_000, 8, 9), "complete"),
    "forest": lambda: dask_rac.cluster(weighted_graph(900, 2, 1_000), n_nodes=950),
    "similarities": lambda: dask_rac.cluster(weighted_graph(2_000, 8, 1_000), weights="similarity"),
}


@pytest.fixture(scope="module")
def clusterings() -> dict[str, dask_rac.Clustering]:
    return {name: make() for name, make in CASES.items()}


@pytest.fixture(scope="module")
def reports(clusterings: dict[str, dask_rac.Clustering], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    return {name: Path(made.report(folder / f"{name}.html")) for name, made in clusterings.items()}


@pytest.fixture
def report(reports: dict[str, Path], page: Page) -> Iterator[Page]:
    """One that shows everything, in the browser."""
    yield page.size(1280).open(reports["similarities"])
    page.run("sessionStorage.clear()")


def slider(page: Page) -> WebElement:
    return page.driver.find_element(By.ID, "slider")


def texts(page: Page, selector: str) -> list[str]:
    found: list[str] = page.run(f"return [...document.querySelectorAll('{selector}')].map(one => one.textContent)")
    return found


def move(page: Page, place: int) -> None:
    """Drag the slider."""
    page.run(
        "const s = document.getElementById('slider'); s.value = arguments[0]; s.dispatchEvent(new Event('input'))",
        place,
    )
    page.wait()


def rows(page: Page) -> list[list[str]]:
    """The numbers in the table of the largest clusters."""
    found: list[list[str]] = page.run(
        "return [...document.querySelectorAll('#largest tbody tr')]"
        ".map(r => [...r.querySelectorAll('td:not([class])')].map(c => c.textContent))"
    )
    return found


def bars(page: Page) -> dict[int, int]:
    """Return the histogram that is drawn: clusters by minimum size."""
    data = page.run(
        "const source = Bokeh.documents.map(d => d.get_model_by_name('sizes')).find(m => m?.data);"
        "return [[...source.get('left')], [...source.get('clusters')], [...source.get('top')]]"
    )
    assert [top for top in data[2] if top is not None] == [count for count in data[1] if count]
    return {low: count for low, count in zip(data[0], data[1], strict=True) if count}


def position_count(page: Page) -> int:
    return int(page.run("return Number(document.getElementById('slider').max)")) + 1


def positions_of(html: str) -> list[list[Any]]:
    """What the script of a page shows at each position of the slider."""
    data: dict[str, list[list[Any]]] = json.loads(html.partition('id="slider-data">')[2].partition("</script>")[0])
    return data["positions"]


class TestNumbers:
    @pytest.mark.parametrize("name", CASES)
    def test_table_and_histogram_are_those_of_a_cut(
        self, name: str, clusterings: dict[str, dask_rac.Clustering], reports: dict[str, Path], page: Page
    ) -> None:
        clustering, _ = clusterings[name], page.size(1280).open(reports[name])
        last = position_count(page) - 1
        for place in sorted({0, last // 3, 2 * last // 3, last - 20, last - 3, last}):
            move(page, place)
            line = texts(page, "#cut .line code")[0]
            found = re.fullmatch(r"clustering\.cut\(height=([-+.\de]+)\)", line)
            assert found is not None
            labels = clustering.cut(height=float(found[1]))
            sizes = np.bincount(labels)
            smallest = np.unique(labels, return_index=True)[1]
            several = sorted(
                (-size, node) for node, size in zip(smallest.tolist(), sizes.tolist(), strict=True) if size > 1
            )
            assert [[row[0], row[1]] for row in rows(page)] == [
                [str(node), f"{-size:,}"] for size, node in several[:20]
            ]
            assert texts(page, "#now dd")[1:] == [f"{len(sizes):,}", f"{(sizes == 1).sum():,}"]
            powers, counts = np.unique(np.floor(np.log2(sizes)), return_counts=True)
            assert bars(page) == dict(zip((2**powers).astype(int).tolist(), counts.tolist(), strict=True))
        page.run("sessionStorage.clear()")

    @pytest.mark.parametrize("name", CASES)
    def test_clusters_are_made_and_merge_where_the_merges_say(
        self, name: str, clusterings: dict[str, dask_rac.Clustering], reports: dict[str, Path], page: Page
    ) -> None:
        merges, _ = clusterings[name].merges, page.size(1280).open(reports[name])
        move(page, 2 * position_count(page) // 3)
        assert rows(page)
        for node, size, share, made, end in rows(page):
            nodes = int(size.replace(",", ""))
            assert share == f"{100 * nodes / clusterings[name].n_nodes:.3g}%"
            (height,) = merges[(merges["left"] == int(node)) & (merges["size"] == nodes)]["height"]
            assert made == f"{height:.6g}"
            larger = merges[(merges[["left", "right"]] == int(node)).any(axis=1) & (merges["size"] > nodes)]
            assert end == (f"{larger.sort_values('size')['height'].iloc[0]:.6g}" if len(larger) else "never")
        page.run("sessionStorage.clear()")

    def test_suggested_cuts_are_listed(self, clusterings: dict[str, dask_rac.Clustering], report: Page) -> None:
        cuts = clusterings["similarities"].suggest_cuts()
        shown = texts(report, "#choices tbody tr td:nth-child(1)"), texts(report, "#choices tbody tr td:nth-child(2)")
        assert shown == ([f"{at:.6g}" for at in cuts["height"]], [f"{count:,}" for count in cuts["n_clusters"]])

    def test_heights_asked_for_come_first(self, clusterings: dict[str, dask_rac.Clustering], tmp_path: Path) -> None:
        made = clusterings["distances"].report(tmp_path / "report.html", height=[700.5, 9_000.25])
        html = Path(made).read_text()
        positions = positions_of(html)
        start = int(re.findall(r'id="slider"[^>]* value="(\d+)"', html)[0])
        assert positions[start][0] == "700.5"
        assert {"700.5", "9000.25"} <= {position[0] for position in positions}

    def test_heights_that_differ_look_different(self, tmp_path: Path) -> None:
        weights = [0.3, 0.1 + 0.2, 0.3 + 1e-9, 2.0]
        tree = dask_rac.cluster((np.arange(4), np.arange(1, 5), np.array(weights)), "single")
        positions = positions_of(Path(tree.report(tmp_path / "report.html")).read_text())
        shown = {float(exact): height for exact, height, *_ in positions}
        assert {height: shown[height] for height in weights} == {
            0.3: "0.3",
            0.1 + 0.2: "0.30000000000000004",
            0.3 + 1e-9: "0.300000001",
            2.0: "2",
        }


CLOSE = st.builds(lambda base, part: base + part, st.sampled_from([0.0, 0.3, 100.0]), st.floats(0, 0.01))


@given(st.lists(st.floats(allow_nan=False) | CLOSE | st.sampled_from([0.1, 0.3, 0.1 + 0.2, 1 / 3]), max_size=30))
def test_texts_of_numbers_are_distinct_in_few_digits(heights: list[float]) -> None:
    found = distinct_texts(heights)
    assert found.keys() == set(heights)
    assert len(set(found.values())) == len(found)
    assert sorted(found, key=lambda height: float(found[height])) == sorted(found)
    assert all(math.isclose(float(text), height, rel_tol=5e-6) for height, text in found.items())  # half a sixth digit
    assert all(text == f"{height:.6g}" for height, text in distinct_texts(heights[:1]).items())


class TestInBrowser:
    @pytest.mark.parametrize("name", CASES)
    def test_nothing_overlaps_nor_sticks_out_and_nothing_is_fetched(
        self, name: str, reports: dict[str, Path], page: Page
    ) -> None:
        page.size(1280).open(reports[name])
        page.run("for (const one of document.querySelectorAll('details')) one.open = true")
        for width in (1280, 400):
            page.size(width)
            assert page.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
            assert page.overlaps() == []
            assert outside(page) == []
        assert page.errors() == []
        assert page.requests() == []
        assert page.run("return document.querySelectorAll('.canvas').length") == 5
        assert page.run("return [...document.querySelectorAll('.canvas')].every(one => one.children.length === 1)")

    def test_is_small(self, reports: dict[str, Path]) -> None:
        assert max(path.stat().st_size for path in reports.values()) < 2_500_000

    def test_keys_move_the_slider(self, report: Page) -> None:
        before = (slider(report).get_attribute("value"), rows(report), bars(report), texts(report, "#now dd"))
        handle = slider(report)
        handle.send_keys(Keys.HOME)
        for key in (Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.PAGE_UP):
            handle.send_keys(key)
        report.wait()
        after = (slider(report).get_attribute("value"), rows(report), bars(report), texts(report, "#now dd"))
        assert int(after[0] or 0) > 2
        assert all(one != other for one, other in zip(before, after, strict=True))
        text = handle.get_attribute("aria-valuetext")
        assert text == f"height {after[3][0]}, {after[3][1]} clusters"

    def test_a_click_on_a_suggested_cut_moves_it(self, report: Page) -> None:
        for place in (2, 0, 4):
            choice = report.driver.find_elements(By.CSS_SELECTOR, ".choice")[place]
            choice.click()
            report.wait()
            assert slider(report).get_attribute("value") == choice.get_attribute("data-position")
            assert texts(report, "#now dd")[0] == choice.text
            assert texts(report, '.choice[aria-pressed="true"]') == [choice.text]

    def test_all_is_reached_by_keyboard(self, report: Page) -> None:
        report.run("document.body.focus()")
        reached = set()
        body = report.driver.find_element(By.TAG_NAME, "body")
        body.send_keys(Keys.TAB)
        for _ in range(40):
            focused = report.driver.switch_to.active_element
            reached.add(focused.get_attribute("id") or focused.get_attribute("class"))
            focused.send_keys(Keys.TAB)
        assert {"slider", "choice", "copy"} <= reached

    def test_the_line_in_the_picture_follows(self, report: Page) -> None:
        move(report, 7)
        place = "Bokeh.documents.flatMap(d => [...d._all_models.values()]).find(m => m.name === 'slider')"
        exact = texts(report, "#cut .exact")[0]
        assert report.run(f"return {place}.location") == float(exact)

    def test_the_position_outlives_a_reload(self, report: Page) -> None:
        move(report, 11)
        expected = texts(report, "#now dd")
        report.driver.refresh()
        report.wait()
        assert texts(report, "#now dd") == expected

    def test_a_page_that_reads_itself_again_keeps_its_place(
        self, clusterings: dict[str, dask_rac.Clustering], tmp_path: Path, page: Page
    ) -> None:
        path = clusterings["ties"].report(tmp_path / "report.html", refresh=3)
        page.size(1280).open(path)
        move(page, 2)
        page.run("slider.focus({preventScroll: true}); scrollTo(0, 700)")
        expected = texts(page, "#now dd")
        clusterings["ties"].report(path, height=[0.0, 0.001], overwrite=True)
        page.wait_for(
            "!document.querySelector('meta[http-equiv=refresh]') && window.Bokeh?.documents.length === 5"
        ).wait()
        assert texts(page, "#now dd") == expected
        assert slider(page).get_attribute("value") == "4"
        assert page.run("return [document.activeElement.id, scrollY]") == ["slider", 700]
        page.run("sessionStorage.clear()")

    def test_without_scripts_texts_and_tables_are_there(self, reports: dict[str, Path], page: Page) -> None:
        page._command("Emulation.setScriptExecutionDisabled", {"value": True})
        try:
            page.driver.get(reports["similarities"].as_uri())
            body = page.driver.find_element(By.TAG_NAME, "body").text
            assert "JavaScript is off" in body
            assert len(page.driver.find_elements(By.CSS_SELECTOR, "#largest tbody tr")) > 0
            assert not slider(page).is_enabled()
            assert not page.driver.find_element(By.CSS_SELECTOR, ".copy").is_displayed()
        finally:
            page._command("Emulation.setScriptExecutionDisabled", {"value": False})

    def test_dark_and_print(self, reports: dict[str, Path], page: Page) -> None:
        page.size(1280).open(reports["ties"])
        colours = []
        for scheme in ("light", "dark"):
            page._command(
                "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
            )
            style = "getComputedStyle(document.querySelector('{}')).backgroundColor"
            colours.append([page.run(f"return {style.format(one)}") for one in ("body", ".paper")])
        page._command("Emulation.setEmulatedMedia", {"media": "print", "features": []})
        hidden = page.run("return getComputedStyle(document.getElementById('slider')).display")
        page._command("Emulation.setEmulatedMedia", {"media": "", "features": []})
        assert colours[0][0] != colours[1][0]
        assert colours[0][1] == colours[1][1] == "rgb(255, 255, 255)"
        assert hidden == "none"


def outside(page: Page) -> list[str]:
    """Return texts beyond the edges of the page, except those in tables that scroll by themselves."""
    boxes = page.run(
        "return [...document.querySelectorAll('.wide')].map(one => one.getBoundingClientRect())"
        ".map(r => [r.top + scrollY, r.bottom + scrollY])"
    )
    width = page.run("return document.documentElement.clientWidth")
    return [
        text.text
        for text in page.texts()
        if (text.cut or text.left < -1 or text.right > width + 1)
        and not any(top - 1 <= text.top <= text.bottom <= bottom + 1 for top, bottom in boxes)
    ]


class TestSafety:
    def test_a_policy_is_there_and_works(self, report: Page) -> None:
        policy = report.run("return document.querySelector('meta[http-equiv=Content-Security-Policy]').content")
        assert policy.startswith("default-src 'none'; script-src 'sha256-")
        scripts = policy.partition("script-src")[2].partition(";")[0]
        assert "unsafe" not in scripts
        assert "http" not in policy
        report.run(
            "const script = document.createElement('script'); script.textContent = 'window.taken = true';"
            "document.body.append(script);"
            "const image = document.createElement('div'); "
            "image.innerHTML = '<img src=x onerror=\"window.taken = true\">';"
            "document.body.append(image)"
        )
        report.wait()
        assert report.run("return window.taken") is None
        refused = "\n".join(report.errors())
        assert refused.count("Content Security Policy") >= 2
        report.run("setTimeout('window.taken = true', 0)")
        report.wait()
        assert report.run("return window.taken") is None
        reached = report.run("return fetch('http://127.0.0.1:9/').then(() => 'reached', () => 'refused')")
        assert reached == "refused"

    def test_what_users_name_stays_text(self, tmp_path: Path, page: Page) -> None:
        facts = hostile_facts()
        write_report(tmp_path / "report.html", facts)
        html = (tmp_path / "report.html").read_text()
        assert "<script>alert" not in html
        assert "\u202e" not in html
        assert len(re.findall("<script", html)) == len(re.findall("</script", html))
        page.size(400).open(tmp_path / "report.html")
        page.run("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.errors() == []
        assert texts(page, "h1") == [ESCAPED]
        assert page.driver.title == f"{ESCAPED} - dask_rac"
        for selector in ("#facts td", "#facts th", "#versions td", "#timings th", "#timings td", ".remark h3"):
            assert ESCAPED in texts(page, selector), selector
        assert page.run("return document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        assert page.overlaps() == []

    def test_a_store_with_a_hostile_name(self, tmp_path: Path, page: Page) -> None:
        name = HOSTILE.replace("/", "_")
        edges = tmp_path / f"{name}.parquet"
        weighted_graph(300, 6, 100).to_parquet(edges)
        made = dask_rac.cluster(str(edges), store=tmp_path / name).report(tmp_path / "report.html")
        page.size(1280).open(made)
        assert page.errors() == []
        shown = str(tmp_path / name).replace("\u202e", "\\u202e")
        assert texts(page, "h1") == [shown]
        assert f"{shown}.parquet" in texts(page, "#facts td")
        command, python = texts(page, "#cut .line code")
        assert command.isprintable()
        assert python.isprintable()
        exact = texts(page, "#cut .exact")[0]
        namespace: dict[str, Any] = {"dask_rac": dask_rac}
        labels = eval(python, namespace)
        assert np.array_equal(labels, dask_rac.open(tmp_path / name).cut(height=float(exact)))


def hostile_facts() -> ReportFacts:
    remark = Remark(HOSTILE, HOSTILE, HOSTILE, HOSTILE, HOSTILE)
    words = {HOSTILE: HOSTILE}
    return ReportFacts(
        HOSTILE,
        "stopped",
        10,
        False,
        words,
        words,
        words,
        run=HOSTILE,
        remarks=[remark],
        timings=Table((HOSTILE,), ((HOSTILE,),)),
        versions=words,
    )


def table(html: str, name: str) -> list[list[str]]:
    """The body of a table, as it is before any script runs."""
    body = html.partition(f'id="{name}"')[2].partition("<tbody>")[2].partition("</tbody>")[0]
    cells = [re.findall(r"<td>(.*?)</td>", row) for row in body.split("<tr>")[1:]]
    return [[re.sub("<[^>]*>", "", cell) for cell in row] for row in cells]


class TestWhatIsNotMerged:
    """When a cluster merges that has merged with nothing."""

    def page(self, facts: ReportFacts, **changes: Any) -> list[list[str]]:
        """The largest clusters at the farthest height."""
        last = facts.snapshots[-1]
        return table(make_html(replace(facts, snapshots=[last], cuts=[], pictures=[], **changes)), "largest")

    def test_never_merges_once_all_is_done(self) -> None:
        facts = dask_rac.cluster(([0, 2], [1, 3], [1.0, 2.0]))._subject().facts(np.empty(0), None)
        assert [row[-1] for row in self.page(facts)] == ["never", "never"]
        assert [row[-1] for row in self.page(facts, status="finished")] == ["never", "never"]

    @pytest.mark.parametrize("status", ["running", "stopped", "unfinished"])
    def test_may_merge_while_the_run_is_not_finished(self, status: str) -> None:
        facts = dask_rac.cluster(([0, 2], [1, 3], [1.0, 2.0]), max_height=10.0)._subject().facts(np.empty(0), None)
        assert [row[-1] for row in self.page(facts, status=status)] == ["not yet", "not yet"]

    def test_may_merge_beyond_the_bound_of_heights(self) -> None:
        facts = dask_rac.cluster(([0, 2, 1], [1, 3, 2], [1.0, 2.0, 9.0]), max_height=2.5)._subject()
        assert [row[-1] for row in self.page(facts.facts(np.empty(0), None))] == ["not up to 2.5"] * 2
        alike = dask_rac.cluster(([0, 2], [1, 3], [0.9, 0.8]), weights="similarity", max_height=0.25)._subject()
        assert [row[-1] for row in self.page(alike.facts(np.empty(0), None))] == ["not down to 0.25"] * 2


class TestChoices:
    """Return the table of suggested cuts."""

    ORDER = "The heights you asked for come first, then the most stable."

    def test_of_cuts_that_are_suggested(self, reports: dict[str, Path]) -> None:
        html = reports["distances"].read_text()
        assert "<h3>Suggested cuts</h3>" in html
        assert "The most stable come first." in html
        assert self.ORDER not in html

    def test_of_heights_that_were_asked_for_each_once(
        self, clusterings: dict[str, dask_rac.Clustering], tmp_path: Path
    ) -> None:
        clustering = clusterings["distances"]
        cuts = clustering.suggest_cuts()
        second = float(cuts["height"][1])
        html = Path(clustering.report(tmp_path / "report.html", height=[700.5, second, 700.5])).read_text()
        assert "<h3>Cuts to consider</h3>" in html
        assert "The most stable come first." not in html
        assert self.ORDER in html
        others = [f"{height:.6g}" for height in cuts["height"] if height != second]
        listed = table(html, "choices")
        assert [row[0] for row in listed] == ["700.5", f"{second:.6g}", *others]
        assert [row[2] for row in listed[:2]] == ["your choice", f"{cuts['lifetime'][1]:.4g}"]

    def test_where_none_is_stable(self, tmp_path: Path) -> None:
        equal = dask_rac.cluster(([0, 1, 2], [1, 2, 3], [1.0, 1.0, 1.0]), "single")
        assert len(equal.suggest_cuts()) == 0
        html = Path(equal.report(tmp_path / "report.html", height=0.5)).read_text()
        assert table(html, "choices") == [["0.5", "4", "your choice"]]
        assert "stable" not in html.partition('id="cut"')[2].partition('id="slider"')[0]

    def test_without_merges_there_is_no_cut_to_choose(self, tmp_path: Path) -> None:
        empty = np.empty(0, np.int64)
        clustering = dask_rac.cluster((empty, empty, np.empty(0)), n_nodes=1_000)
        html = Path(clustering.report(tmp_path / "report.html", height=1e9)).read_text()
        assert "Choosing a cut" not in html
        assert 'id="cut"' not in html
        assert "black line" not in html


class TestFile:
    def test_what_exists_is_not_written_over(self, tmp_path: Path) -> None:
        clustering = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]))
        target = tmp_path / "report.html"
        assert clustering.report(target) == str(target)
        before = target.read_bytes()
        with pytest.raises(InputError, match=r"report\.html exists"):
            clustering.report(target)
        assert target.read_bytes() == before
        clustering.report(target, overwrite=True)
        assert target.read_bytes() != before
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]

    @pytest.mark.parametrize(
        ("code", "kind", "message"),
        [
            (errno.ENOSPC, ResourceError, r"the disk of .*report\.html is full: make room"),
            (errno.EROFS, InputError, r"report\.html cannot be written: .*Read-only"),
        ],
    )
    def test_a_full_disk_is_reported_and_the_old_page_stays(
        self, code: int, kind: type[Exception], message: str, tmp_path: Path
    ) -> None:
        clustering = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]))
        target = Path(clustering.report(tmp_path / "report.html"))
        before = target.read_bytes()
        failing = OSError(code, os.strerror(code))
        with mock.patch("os.fsync", side_effect=failing), pytest.raises(kind, match=message):
            clustering.report(target, overwrite=True)
        assert target.read_bytes() == before
        assert [path.name for path in tmp_path.iterdir()] == ["report.html"]

    def test_may_go_to_a_url(self) -> None:
        clustering = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]))
        for overwrite in (False, True):
            clustering.report("memory://reports/report.html", overwrite=overwrite)
        with pytest.raises(InputError, match="exists"):
            clustering.report("memory://reports/report.html")
        assert Folder("memory://reports").names() == ["report.html"]

    @pytest.mark.parametrize("content", ["", "mine", "<!DOCTYPE html>\n<html><head></head></html>"])
    def test_what_is_no_report_is_never_replaced(self, tmp_path: Path, content: str) -> None:
        target = tmp_path / "mine.html"
        target.write_text(content)
        with pytest.raises(InputError, match=r"mine\.html is not a dask_rac report"):
            check_report(target, overwrite=True)
        (tmp_path / "folder.html").mkdir()
        with pytest.raises(InputError, match="is not a dask_rac report"):
            check_report(tmp_path / "folder.html", overwrite=True)
        assert target.read_text() == content

    def test_the_name_says_what_it_is(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"must end in \.html"):
            check_report(tmp_path / "report.txt")

    def test_a_page_that_cannot_be_made_leaves_nothing(self, tmp_path: Path) -> None:
        broken = replace(hostile_facts(), timings=Table(("a",), ((object(),),)), made="now")  # type: ignore[arg-type]
        with pytest.raises(Exception, match="isoformat"):
            write_report(tmp_path / "report.html", broken)
        assert list(tmp_path.iterdir()) == []

    def test_a_page_that_is_written_again_says_so(self) -> None:
        html = make_html(replace(hostile_facts(), refresh=0.2))
        assert '<meta http-equiv="refresh" content="1">' in html
        assert 'http-equiv="refresh"' not in make_html(hostile_facts())

    @pytest.mark.parametrize("nodes", [1, 3])
    def test_of_a_graph_without_edges(self, nodes: int, tmp_path: Path, page: Page) -> None:
        empty = np.empty(0, np.int64)
        clustering = dask_rac.cluster((empty, empty, np.empty(0)), n_nodes=nodes)
        page.size(400).open(clustering.report(tmp_path / "report.html"))
        assert page.errors() == []
        assert page.run("return document.getElementById('slider')") is None

    def test_of_one_merge(self, tmp_path: Path, page: Page) -> None:
        page.size(1280).open(dask_rac.cluster(([0], [1], [0.5])).report(tmp_path / "report.html"))
        assert page.errors() == []
        assert rows(page) == [["0", "2", "100%", "0.5", "never"]]

    def test_of_similarities_down_to_nothing(self, tmp_path: Path, page: Page) -> None:
        edges = [0, 2, 1], [1, 3, 2], [0.9, 0.8, 0.5]
        clustering = dask_rac.cluster(edges, "complete", weights="similarity")
        assert clustering.merges["height"].min() == 0
        page.size(1280).open(clustering.report(tmp_path / "report.html"))
        assert page.errors() == []
        assert page.overlaps() == []

    def test_remarks_reach_the_page(self, tmp_path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            edges = pd.DataFrame({"source": [0, 1, 3, 4], "target": [1, 2, 4, 4], "weight": [1.0, 1.0, 1.0, 1.0]})
            edges.to_parquet(tmp_path / "edges.parquet")
            run = dask_rac.cluster(str(tmp_path / "edges.parquet"), store=tmp_path / "run", n_nodes=6)
            in_memory = dask_rac.cluster(edges, n_nodes=6)
        for number, one in enumerate((run, in_memory)):
            html = Path(one.report(tmp_path / f"{number}.html")).read_text()
            assert re.findall(r'id="remark-(\w+)"', html) == ["forest", "ties", "loops"]
