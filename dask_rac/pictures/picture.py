"""A figure with its words: shown in notebooks and browsers, saved as a page or an image."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from bokeh.models import LayoutDOM

from dask_rac.cards import in_notebook
from dask_rac.pictures.notebook import display
from dask_rac.pictures.saving import save_picture


@dataclass(frozen=True, repr=False, eq=False)
class Picture:
    """A picture of a clustering; at the end of a cell of a notebook it shows itself.

    Attributes
    ----------
    figure : bokeh.models.LayoutDOM
        The figure, or a column of them, to be changed or put into a layout as Bokeh allows.
    title : str
        What it shows, in a few words. The figure itself has no title, as in papers.
    caption : str
        What one sees, with units.
    name : str
        Which picture it is, such as "rounds".
    """

    figure: LayoutDOM
    title: str
    caption: str
    name: str

    def save(
        self, path: str | PathLike[str], *, width: int | None = None, height: int | None = None, scale: float = 2
    ) -> str:
        """Write the picture as a page, or as an image for a paper.

        Parameters
        ----------
        path : path or URL
            Where to; the name's ending says what is written. `rounds.html`: a page of its own, with title, caption and
            tooltips, which needs no network. `rounds.svg`: vectors. `rounds.png`: pixels. Images are drawn by Chromium
            or Firefox: `pip install 'dask-rac[images]'`. What exists is never written over.
        width, height : int, optional
            Pixels of an image; 800 by default, and as high as is best. So few that its texts could not be read are
            refused.
        scale : float
            How many pixels of a PNG each of these becomes.

        Returns
        -------
        str
            `path`.

        Raises
        ------
        InputError
            If the file exists or cannot be made, its name says nothing known, or the image would be too small.
        ImportError
            If an image is wanted and there is no selenium or no browser.
        """
        return save_picture(self.figure, (self.title, self.caption), path, (width, height), scale)

    def show(self) -> None:
        """Show the picture: in a notebook below the cell, else in a browser."""
        if in_notebook():
            self._ipython_display_()
            return
        page = Path(tempfile.mkdtemp(prefix="dask-rac-")) / f"{self.name}.html"
        self.save(page)
        webbrowser.open(page.as_uri())

    def _ipython_display_(self) -> None:
        """Show the figure and its words below a cell; in a terminal print what it is."""
        if in_notebook():
            display(self.figure, self.title, self.caption)
        else:
            sys.stdout.write(f"{self!r}\n")

    def __repr__(self) -> str:
        return f"<Picture {self.name}: {self.title}>"
