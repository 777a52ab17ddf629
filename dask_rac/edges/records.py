"""What a folder of edges records about itself once it is complete, so that a lost file is noticed."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.base.names import EDGES_FACTS, GRAPH_FACTS, part_name
from dask_rac.files.folder import Folder
from dask_rac.files.reading import readable
from dask_rac.files.urls import locate

PART = re.compile(r"part-(\d+)\.parquet")


def write_record(folder: Folder, edges: int, files: int) -> None:
    """Record how many edges and files a complete folder holds."""
    folder.write(EDGES_FACTS, json.dumps({"edges": edges, "files": files}).encode())


def check_record(name: str, root: str, rows: Mapping[str, int], others: Mapping[str, Any]) -> None:
    """Raise unless files of edges, given with their rows, are all that a folder recorded when it was complete."""
    record = next((file for file in (EDGES_FACTS, GRAPH_FACTS) if f"{root}/{file}" in others), None)
    if record is None:
        return
    edges, files = _recorded(name, f"{root}/{record}")
    here = sum(rows.values())
    if here == edges and files in (None, len(rows)):
        return
    lost = _first_missing(root, rows, files)
    what = f"{root}/{lost} is missing" if lost else f"{root}/{record} does not belong to the files beside it"
    raise InputError(
        f"{what}: {name} had {edges} edges{'' if files is None else f' in {files} files'} when it was complete and has "
        f"{here} in {len(rows)}; restore it or write it again; if you have chosen these files yourself, delete "
        f"{record}"
    )


def _recorded(name: str, path: str) -> tuple[int, int | None]:
    """Return the recorded number of edges, and of files if that is recorded."""
    with readable(path, url=name):
        known = json.loads(locate(name)[0].cat_file(path))
        edges, files = known["edges"], known.get("files")
    if not isinstance(edges, int) or not isinstance(files, int | None):
        raise InputError(f"{path} is damaged: it does not state numbers of edges and files; restore it or delete it")
    return edges, files


def _first_missing(root: str, rows: Mapping[str, int], files: int | None) -> str | None:
    """Return the first file that should be there by its number, None if there is no gap."""
    here = {path.removeprefix(f"{root}/") for path in rows}
    found = [match for match in map(PART.fullmatch, here) if match]
    numbers = {int(match[1]) for match in found}
    digits = min((len(match[1]) for match in found), default=len(str((files or 1) - 1)))
    stop = max(numbers, default=-1) + 1 if files is None else files
    # A gap is among the first numbers, one more than there are files.
    lost = next((number for number in range(min(stop, len(numbers) + 1)) if number not in numbers), None)
    return None if lost is None else part_name(lost, digits)
