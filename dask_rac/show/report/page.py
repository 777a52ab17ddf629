"""Writing a report: to a new file, or in place of an older report."""

from __future__ import annotations

from importlib.util import find_spec
from os import PathLike, fspath

from dask_rac.base.errors import InputError
from dask_rac.files.folder import Folder
from dask_rac.files.output import new_output, refuse_inside, replace_file, writable
from dask_rac.show.report.facts import ReportFacts
from dask_rac.show.report.html import GENERATOR, make_html

ENDINGS = (".html", ".htm")
HEAD_BYTES = 512  # a report identifies itself within these


def check_page(path: str | PathLike[str]) -> None:
    """Raise unless a report with that name can be created."""
    if find_spec("bokeh") is None:
        raise InputError("a report needs Bokeh, which is not installed: pip install 'dask-rac[plot]'")
    if not fspath(path).lower().endswith(ENDINGS):
        raise InputError(f"{fspath(path)}: the name of a report must end in .html")


def check_title(title: object) -> None:
    """Raise unless a page can have this title; None is its name."""
    if title is not None and not (isinstance(title, str) and title.strip()):
        raise InputError(f"title={title!r} is not a title: give some text, or leave it out")


def check_report(path: str | PathLike[str], overwrite: bool = False) -> Folder:
    """Return where the report goes; raise if it cannot be written there."""
    check_page(path)
    target = refuse_inside(path)
    if not target.exists():
        return target
    if not overwrite:
        raise InputError(f"{fspath(path)} exists: choose another name, or pass overwrite=True to replace a report")
    if not _is_report(target):
        raise InputError(f"{fspath(path)} is not a dask_rac report and will not be overwritten: choose another name")
    return target


def write_report(path: str | PathLike[str], facts: ReportFacts, overwrite: bool = False) -> str:
    """Write a report, completely or not at all, and return `path`.

    An existing file is refused. `overwrite` replaces it if it is itself a report, never anything else.
    """
    check_report(path, overwrite)
    page = make_html(facts).encode()
    target = check_report(path, overwrite)
    if target.exists():
        with writable(path):
            replace_file(target, "", page)
    else:
        with new_output(path) as new:
            new.write("", page)
    return fspath(path)


def _is_report(target: Folder) -> bool:
    """Whether a file is a report of dask_rac."""
    return target.is_file() and GENERATOR.encode() in target.read("", 0, HEAD_BYTES)
