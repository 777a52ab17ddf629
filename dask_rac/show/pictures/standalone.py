"""A standalone page for a figure: one file, no network, no foreign scripts."""

from __future__ import annotations

import json
from html import escape
from secrets import token_urlsafe
from typing import Any

from bokeh.embed import json_item
from bokeh.models import LayoutDOM
from bokeh.resources import Resources

PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 Helvetica, Arial, sans-serif; color: #333; margin: 0 auto; max-width: 1100px; padding: 16px; }}
h1 {{ font-size: 19px; margin: 0 0 8px; }}
p {{ max-width: 75ch; margin: 8px 0 0; }}
</style>
</head>
<body>
<h1>{title}</h1>
<div id="picture"></div>
<p>{caption}</p>
<script type="application/json" id="item">{item}</script>
{scripts}
</body>
</html>
"""

POLICY = "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'unsafe-inline'; img-src data:; font-src data:"
START = "Bokeh.embed.embed_item(JSON.parse(document.getElementById('item').textContent), 'picture')"


def resources() -> Resources:
    """Return BokehJS for embedding, without widgets and tables, which no picture needs."""
    return Resources(mode="inline", components=["bokeh"], log_level="warn")


def embedded_json(value: Any, ascii_only: bool = True) -> str:
    """Return JSON that cannot close the HTML element around it; other letters than ASCII may stay as they are."""
    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=ascii_only)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def figure_json(figure: LayoutDOM) -> str:
    """Return a figure as JSON for BokehJS, to embed in a page."""
    return embedded_json(json_item(figure))


def page_html(figure: LayoutDOM, title: str, caption: str) -> str:
    """Return the page of a figure."""
    nonce = token_urlsafe(16)
    scripts = "\n".join(f'<script nonce="{nonce}">{text}</script>' for text in [*resources().js_raw, START])
    return PAGE.format(
        policy=POLICY.format(nonce=nonce),
        title=escape(title),
        caption=escape(caption),
        item=figure_json(figure),
        scripts=scripts,
    )
