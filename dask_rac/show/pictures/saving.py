"""Saving figures: as pages, or as images that a browser draws."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from math import ceil
from os import PathLike, fspath
from typing import Any

from bokeh.models import LayoutDOM, Plot

from dask_rac.base.checks import check_whole, checked_number
from dask_rac.base.errors import InputError
from dask_rac.files.output import new_output, refuse_taken
from dask_rac.show.pictures.standalone import page_html
from dask_rac.show.pictures.theme import IMAGE_WIDTH

KINDS = (".html", ".png", ".svg")
WIDTH = 800
MOST_PIXELS, MOST_SCALE = 50_000, 10
PATIENCE = 120  # seconds, on a busy machine
FLAGS = ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
MISSING = (
    "images are drawn by a browser: pip install 'dask-rac[images]', and install chromium with chromedriver, or firefox "
    "with geckodriver, on the PATH; pages (.html) need no browser"
)

KEPT = ("sizing_mode", "width", "height", "toolbar_location")
"""Properties that are changed for an image and then restored."""

Size = tuple[int | None, int | None]


def save_picture(figure: LayoutDOM, words: tuple[str, str], path: str | PathLike[str], size: Size, scale: float) -> str:
    """Write a figure with its title and caption in the format of the ending; see `Picture.save`."""
    kind = _kind(path)
    refuse_taken(path)
    if kind == ".html":
        if size != (None, None):
            raise InputError("width= and height= are for images only, as a page fits its window: leave them out")
        data = page_html(figure, *words).encode()
    else:
        _check_size(figure, size, scale)
        data = _image(figure, kind, size, scale)
    with new_output(path) as target:
        target.write("", data)
    return fspath(path)


def _kind(path: str | PathLike[str]) -> str:
    """Return the ending of a name."""
    kind = os.path.splitext(fspath(path))[1].lower()
    if kind not in KINDS:
        raise InputError(f"{fspath(path)} has an unknown ending: use {', '.join(KINDS)}")
    return kind


def _check_size(figure: LayoutDOM, size: Size, scale: float) -> None:
    """Raise unless an image can have this size and is readable at it."""
    width, height = size
    for name, value in (("width", width), ("height", height)):
        if value is not None:
            check_whole(name, value, 1, MOST_PIXELS)
    if width is not None and width < IMAGE_WIDTH:
        raise InputError(f"width={width} is too narrow for the text of a picture: set width={IMAGE_WIDTH} or more")
    least = _least_height(figure)
    if height is not None and height < least:
        raise InputError(
            f"height={height} is too low for the text of this picture: set height={least} or more, or draw less (a "
            "smaller top= of a dendrogram, fewer cuts of heights)"
        )
    if not 0 < checked_number("scale", scale) <= MOST_SCALE:
        raise InputError(f"scale={scale!r} is not above 0 and up to {MOST_SCALE}: 2 doubles the pixels each way")


def _least_height(figure: LayoutDOM) -> int:
    """Return the height below which some plot of the figure would be lower than its minimum."""
    plots = _plots(figure)
    share = max((plot.min_height or 0) / (plot.height or 1) for plot in plots)
    return ceil(share * sum(plot.height or 0 for plot in plots))


def _plots(figure: LayoutDOM) -> list[Plot]:
    """List a figure's plots, from top to bottom."""
    return [model for model in figure.references() if isinstance(model, Plot)]


def _image(figure: LayoutDOM, kind: str, size: Size, scale: float) -> bytes:
    """Let a browser draw the figure; return the contents of the image file."""
    with _browser(scale if kind == ".png" else 1) as (export, driver), _fixed(figure, size):
        if kind == ".svg":
            (text,) = export.get_svg(figure, driver=driver, timeout=PATIENCE)
            return str(text).encode()
        picture = export.get_screenshot_as_png(figure, driver=driver, scale_factor=scale, timeout=PATIENCE)
        data = io.BytesIO()
        picture.save(data, "png")
        return data.getvalue()


@contextmanager
def _browser(scale: float) -> Iterator[tuple[Any, Any]]:
    """Return Bokeh's export module and a browser for it, which is closed after the block."""
    try:
        export, webdriver = import_module("bokeh.io.export"), import_module("bokeh.io.webdriver")
    except (ImportError, RuntimeError) as error:
        raise ImportError(MISSING) from error
    alone = ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to run as root otherwise
    try:
        driver = webdriver.create_chromium_webdriver([*FLAGS, *alone], scale_factor=scale)
    except Exception as chromium:  # whatever the driver or selenium raises
        try:
            driver = webdriver.create_firefox_webdriver(scale_factor=scale)
        except Exception as firefox:
            raise ImportError(f"{MISSING} ({chromium}; {firefox})") from firefox
    try:
        yield export, driver
    finally:
        driver.quit()


@contextmanager
def _fixed(figure: LayoutDOM, size: Size) -> Iterator[None]:
    """Give a figure a fixed size and hide its tools, within the block."""
    plots = _plots(figure)
    heights = [plot.height or 0 for plot in plots]
    factor = 1.0 if size[1] is None else size[1] / sum(heights)
    before = [(model, model.properties_with_values()) for model in {figure, *plots}]
    figure.update(sizing_mode=None)
    for plot, height in zip(plots, heights, strict=True):
        plot.update(sizing_mode=None, width=size[0] or WIDTH, height=round(factor * height), toolbar_location=None)
    try:
        yield
    finally:
        for model, values in before:
            model.update(**{name: values[name] for name in KEPT if name in values})
