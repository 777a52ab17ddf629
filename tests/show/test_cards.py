"""What notebooks show: escaped, well formed, without scripts, and consistent with the numbers."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from math import log10
from typing import get_args
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.show.cards import COLOURS, FINISHER_COLOUR, HEIGHT, MOST_BARS, WIDTH, State, bar, card, round_bars
from tests.support.effort import examples

HOSTILE = """<script>alert("1")</script>&'"><img src=x onerror=alert(1)>"""


class Texts(HTMLParser):
    """Collect the text that a browser would show, and the names of all elements and attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


@given(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"])),
    st.dictionaries(
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1),
        st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1),
        max_size=4,
    ),
)
@examples(50)
def test_a_card_shows_what_it_is_given_and_nothing_else(title: str, facts: dict[str, str]) -> None:
    page = Texts(card(title, facts))
    assert [text for text in page.texts if text] == [
        text for text in (title, *(text for fact in facts.items() for text in fact)) if text
    ]
    assert page.elements <= {"div", "table", "tbody", "tr", "th", "td"}
    assert page.attributes <= {"style"}


def test_hostile_names_stay_text() -> None:
    for html in (card(HOSTILE, {HOSTILE: HOSTILE}), bar(HOSTILE, 0.5, "running")):
        page = Texts(html)
        assert HOSTILE in page.texts
        assert not page.elements & {"script", "img"}
        assert "onerror" not in page.attributes


def test_a_picture_is_taken_as_it_is() -> None:
    picture = round_bars([5, 3], False)
    assert picture in card("title", {}, picture)
    assert card("title", {}).count("<div") == card("title", {}, picture).count("<div") - 1


def fill(html: str) -> str:
    """Return the filled share of a bar, in percent."""
    found = re.search(r"width:([\d.]+)%;height:100%", html)
    assert found
    return found[1]


@pytest.mark.parametrize("state", get_args(State))
def test_a_bar_is_one_line_in_the_colour_of_its_state(state: State) -> None:
    html = bar("round 3", 0.25, state)
    assert COLOURS[state] in html
    assert fill(html) == ("100.0" if state == "finished" else "25.0")
    assert f'aria-label="{state}"' in html
    assert Texts(html).texts == ["round 3"]
    assert len(set(COLOURS.values())) == len(get_args(State))


@pytest.mark.parametrize(("fraction", "shown"), [(-1.0, "0.0"), (0.0, "0.0"), (0.994, "99.4"), (7.0, "100.0")])
def test_a_bar_stays_in_its_frame(fraction: float, shown: str) -> None:
    assert fill(bar("", fraction, "running")) == shown


def test_a_bar_of_unknown_length_is_hatched() -> None:
    for state in ("running", "stopped", "failed"):
        html = bar("reading edges", None, state)
        assert "repeating-linear-gradient" in html
        assert "aria-valuenow" not in html
    assert "repeating-linear-gradient" not in bar("done", None, "finished")


def drawn(merges: Sequence[int], finisher: bool) -> list[tuple[float, float, float, str, str]]:
    """Return the bars of a picture: left, width, height, colour, title."""
    root = ET.fromstring(round_bars(merges, finisher))
    return [
        (*(float(rect.attrib[name]) for name in ("x", "width", "height")), rect.attrib["fill"], str(rect[0].text))  # type: ignore[misc]
        for rect in root.iter("rect")
    ]


@given(st.lists(st.integers(1, 10**9), min_size=1, max_size=300), st.booleans())
@examples(50)
def test_the_rounds_are_drawn_to_scale(merges: list[int], finisher: bool) -> None:
    bars = drawn(merges, finisher)
    assert len(bars) == min(len(merges) - finisher, MOST_BARS) + finisher
    ends = [*(left for left, *_ in bars[1:]), float(WIDTH)]
    for (left, width, height, _, _), following in zip(bars, ends, strict=True):
        assert width > 0
        assert left + width <= following + 0.11
        assert 1 <= height <= HEIGHT
    assert max(height for _, _, height, _, _ in bars) == pytest.approx(HEIGHT)
    if len(merges) <= MOST_BARS:
        top = log10(1 + max(merges))
        for count, (_, _, height, _, title) in zip(merges, bars, strict=True):
            assert height == pytest.approx(max(1.0, HEIGHT * log10(1 + count) / top), abs=0.06)
            assert f"{count:,} merges" in title
    assert [colour == FINISHER_COLOUR for *_, colour, _ in bars] == [False] * (len(bars) - finisher) + [True] * finisher


def test_a_bar_of_many_rounds_says_which() -> None:
    titles = [title for *_, title in drawn(list(range(1000, 1000 - 3 * MOST_BARS, -1)), False)]
    assert titles[0] == "rounds 1 to 3: at most 1,000 merges"
    assert titles[-1].startswith(f"rounds {3 * MOST_BARS - 2} to {3 * MOST_BARS}: at most")
    assert [title for *_, title in drawn([7, 5, 9], True)] == [
        "round 1: 7 merges",
        "round 2: 5 merges",
        "finisher: 9 merges",
    ]


def test_without_merges_there_is_no_picture() -> None:
    assert round_bars([], False) == ""
    html = dask_rac.cluster(([], [], []), n_nodes=3)._repr_html_()
    assert "<svg" not in html
    assert "dask_rac.Clustering" in html
