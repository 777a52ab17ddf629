"""Where a report goes: a new file, or in the place of an older report."""

from __future__ import annotations

from importlib.util import find_spec
from os import PathLike, fspath

from dask_rac.errors import InputError
from dask_rac.report.facts import ReportFacts
from dask_rac.report.html import GENERATOR, make_html
from dask_rac.store.files import Folder
from dask_rac.store.output import new_output, refuse_inside, writable

ENDINGS = (".html", ".htm")
HEAD_BYTES = 512  # within which a report says that it is one


def check_page(path: str | PathLike[str]) -> None:
    """Raise unless a page of that name can be made."""
    if find_spec("bokeh") is None:
        raise InputError("a report needs Bokeh, which is not installed: pip install 'dask-rac[plot]'")
    if not fspath(path).lower().endswith(ENDINGS):
        raise InputError(f"{fspath(path)}: the name of a report must end in .html")


def check_report(path: str | PathLike[str], overwrite: bool = False) -> Folder:
    """The place of a report; raises if there can be none."""
    check_page(path)
    target = refuse_inside(path)
    if not target.exists():
        return target
    if not overwrite:
        raise InputError(f"{fspath(path)} exists: choose another name, or overwrite=True to replace a report")
    if not _is_report(target):
        raise InputError(f"{fspath(path)} is no report of dask_rac's, and is not written over: choose another name")
    return target


def write_report(path: str | PathLike[str], facts: ReportFacts, overwrite: bool = False) -> str:
    """Write a report, whole or not at all; gives `path`.

    What exists is refused. `overwrite` replaces a file if it is a report itself, and nothing else.
    """
    check_report(path, overwrite)
    page = make_html(facts).encode()
    target = check_report(path, overwrite)
    if target.exists():
        with writable(path):
            target.write("", page)
    else:
        with new_output(path) as new:
            new.write("", page)
    return fspath(path)


def _is_report(target: Folder) -> bool:
    """Whether a file is a report of ours."""
    return target.is_file() and GENERATOR.encode() in target.read("", 0, HEAD_BYTES)
