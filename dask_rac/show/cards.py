"""What notebooks show of our objects: HTML and SVG with inline styles and no scripts."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from html import escape
from math import log10
from typing import Literal

from dask_rac.base.spans import Span, even_spans

State = Literal["running", "finished", "stopped", "failed"]
"""The state of a run."""

COLOURS: Mapping[State, str] = {
    "running": "#4c86c6",
    "finished": "#4a9c5d",
    "stopped": "#c98a1b",
    "failed": "#d0524f",
}
ROUND_COLOUR, FINISHER_COLOUR = "#4c86c6", "#e08a2c"
LINE = "rgba(128,128,128,.35)"  # visible on white and on black
FONT = "font-family:var(--jp-ui-font-family,system-ui,sans-serif);font-size:13px;line-height:1.4"
INK = "color:var(--jp-ui-font-color1,inherit)"
CELL = f"border:none;border-top:1px solid {LINE};padding:3px 0;text-align:left;vertical-align:top;background:none"
HATCH = "repeating-linear-gradient(135deg,{0} 0 6px,transparent 6px 12px)"
WIDTH, HEIGHT, MOST_BARS = 168, 64, 56


def card(title: str, facts: Mapping[str, str], picture: str = "") -> str:
    """Return facts as a table under a title, all escaped, beside a picture that is our own markup and is not."""
    rows = "".join(
        f'<tr style="background:none"><th style="{CELL};padding-right:16px;font-weight:600;white-space:nowrap">'
        f'{escape(name)}</th><td style="{CELL};overflow-wrap:anywhere">{escape(value)}</td></tr>'
        for name, value in facts.items()
    )
    table = (
        f'<div><div style="font-weight:600;font-size:14px;padding-bottom:4px">{escape(title)}</div>'
        f'<table style="border-collapse:collapse;border:none;margin:0;font-size:inherit"><tbody>{rows}</tbody></table>'
        "</div>"
    )
    beside = f'<div style="padding-top:22px">{picture}</div>' if picture else ""
    return (
        f'<div style="{FONT};{INK};display:flex;flex-wrap:wrap;gap:8px 28px;align-items:flex-start;padding:4px 0">'
        f"{table}{beside}</div>"
    )


def bar(text: str, fraction: float | None, state: State) -> str:
    """Return progress as a one-line bar; hatched if the fraction is unknown."""
    colour = COLOURS[state]
    known = 1.0 if state == "finished" else fraction
    fill = HATCH.format(colour) if known is None else colour
    width = 100.0 if known is None else 100 * min(max(known, 0.0), 1.0)
    now = "" if known is None else f' aria-valuenow="{width:.0f}"'
    return (
        f'<div style="{FONT};{INK};display:flex;align-items:center;gap:10px;padding:2px 0">'
        f'<div role="progressbar" title="{state}" aria-label="{state}" aria-valuemin="0" aria-valuemax="100"{now} '
        f'style="flex:none;width:160px;max-width:30%;height:8px;border-radius:4px;overflow:hidden;background:{LINE}">'
        f'<div style="width:{width:.1f}%;height:100%;background:{fill}"></div></div>'
        f'<div style="font-variant-numeric:tabular-nums;overflow-wrap:anywhere">{escape(text)}</div></div>'
    )


def round_bars(merges: Sequence[int], finisher: bool) -> str:
    """Return the merges of each round as bars on a log scale; the finisher, if any, is last and has its own colour."""
    if not merges:
        return ""
    spans = _spans(len(merges), finisher)
    top = log10(1 + max(merges))
    step = WIDTH / max(len(spans), 12)
    bars = "".join(
        _bar(k * step, step, max(merges[first:last]), top, _bar_title(merges, first, last, finisher))
        for k, (first, last) in enumerate(spans)
    )
    caption = f"merges per round, at most {max(merges):,} (log scale)"
    return (
        f'<svg width="{WIDTH}" height="{HEIGHT + 16}" viewBox="0 0 {WIDTH} {HEIGHT + 16}" role="img" '
        f'style="max-width:100%;overflow:visible"><title>{caption}</title>{bars}'
        f'<line x1="0" y1="{HEIGHT}" x2="{WIDTH}" y2="{HEIGHT}" stroke="{LINE}"/>'
        f'<text x="0" y="{HEIGHT + 13}" font-size="11" fill="currentColor">merges per round, log scale</text></svg>'
    )


def _spans(rounds: int, finisher: bool) -> list[Span]:
    """Return the rounds of each bar: one each if there are few; the finisher always has its own."""
    plain = rounds - finisher
    return [*(even_spans(plain, MOST_BARS) if plain else ()), *([(plain, rounds)] if finisher else ())]


def _bar_title(merges: Sequence[int], first: int, last: int, finisher: bool) -> tuple[str, str]:
    """Return the tooltip of a bar, and its colour."""
    if finisher and last == len(merges):
        return f"finisher: {merges[first]:,} merges", FINISHER_COLOUR
    if last == first + 1:
        return f"round {last}: {merges[first]:,} merges", ROUND_COLOUR
    return f"rounds {first + 1} to {last}: at most {max(merges[first:last]):,} merges", ROUND_COLOUR


def _bar(left: float, step: float, merges: int, top: float, title_and_colour: tuple[str, str]) -> str:
    height = max(1.0, HEIGHT * log10(1 + merges) / top) if top else 1.0
    title, colour = title_and_colour
    gap = min(1.5, step / 4)
    return (
        f'<rect x="{left:.1f}" y="{HEIGHT - height:.1f}" width="{step - gap:.1f}" height="{height:.1f}" '
        f'fill="{colour}"><title>{title}</title></rect>'
    )


def in_notebook() -> bool:
    """Whether this process is the kernel of a notebook: only there has IPython been imported and has a kernel."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
