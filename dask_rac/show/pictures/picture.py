"""A figure with its title and caption: shown in notebooks and browsers, saved as a page or an image."""

from __future__ import annotations

import sys
import tempfile
import webbrowser
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from bokeh.models import LayoutDOM

from dask_rac.show.cards import in_notebook
from dask_rac.show.pictures.notebook import display
from dask_rac.show.pictures.saving import save_picture


@dataclass(frozen=True, repr=False, eq=False)
class Picture:
    """A picture of a clustering; as the last value of a notebook cell, it displays itself.

    Attributes
    ----------
    figure : bokeh.models.LayoutDOM
        The figure, or a column of figures, which you can change or put into a layout like any other in Bokeh.
    title : str
        What it shows, in a few words. The figure itself has no title, as in papers.
    caption : str
        What the picture shows, with units.
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
            Where to write; the ending selects the format. `rounds.html`: a standalone page with title, caption and
            tooltips, which works offline. `rounds.svg`: vectors. `rounds.png`: pixels. Images are drawn by Chromium or
            Firefox: `pip install 'dask-rac[images]'`. Existing files are never overwritten.
        width, height : int, optional
            Size of an image in pixels; by default 800 wide, with a suitable height. A size at which its text would be
            unreadable is refused.
        scale : float
            How many pixels of a PNG there are per such pixel, each way.

        Returns
        -------
        str
            `path`.

        Raises
        ------
        InputError
            If the file exists or cannot be written, its ending is unknown, or the image would be too small.
        ImportError
            If an image is requested without selenium or a browser installed.
        """
        return save_picture(self.figure, (self.title, self.caption), path, (width, height), scale)

    def show(self) -> None:
        """Show the picture: below the cell in a notebook, otherwise in a browser."""
        if in_notebook():
            self._ipython_display_()
            return
        page = Path(tempfile.mkdtemp(prefix="dask-rac-")) / f"{self.name}.html"
        self.save(page)
        webbrowser.open(page.as_uri())

    def _ipython_display_(self) -> None:
        """Show the figure with its text below a cell; in a terminal print its name."""
        if in_notebook():
            display(self.figure, self.title, self.caption)
        else:
            sys.stdout.write(f"{self!r}\n")

    def __repr__(self) -> str:
        return f"<Picture {self.name}: {self.title}>"
