"""Figures below the cells of a notebook, without network."""

from __future__ import annotations

from html import escape
from importlib import import_module

from bokeh.embed import components
from bokeh.io import output_notebook
from bokeh.io.state import curstate
from bokeh.models import LayoutDOM

from dask_rac.show.pictures.standalone import resources


def display(figure: LayoutDOM, title: str, caption: str) -> None:
    """Show a figure in the output of the cell, with its title above and its caption below."""
    if not curstate().notebook:
        output_notebook(resources(), hide_banner=True)
    script, place = components(figure)
    words = f"<div><strong>{escape(title)}</strong>{place}<p>{escape(caption)}</p></div>"
    import_module("IPython.display").publish_display_data(
        {"text/html": f"{words}{script}", "text/plain": f"{title}. {caption}"}
    )
