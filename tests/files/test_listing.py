"""What is at a path is found out in one way for edges and vectors."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from dask_rac.base.errors import InputError
from dask_rac.base.names import INCOMPLETE
from dask_rac.edges.columns import open_columns
from dask_rac.edges.source import open_edges
from dask_rac.edges.text import TextLayout
from dask_rac.files.folder import Folder
from dask_rac.files.listing import list_files
from dask_rac.vectors.sources.opening import open_vectors

OPENERS: dict[str, Callable[[str], Any]] = {
    "edges": open_edges,
    "columns": lambda path: open_columns(path, TextLayout(("source", "target"), None, True)),
    "vectors": open_vectors,
}


@pytest.fixture(params=["disk", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Folder]:
    folder = Folder(tmp_path / "given" if request.param == "disk" else f"memory://{tmp_path.name}/given")
    for name in ("a", "b/c"):
        folder.write(name, b"xyz")
    yield folder
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]


@pytest.mark.parametrize("slash", ["", "/"])
def test_all_files_of_a_folder_and_one_file_alone(place: Folder, slash: str) -> None:
    root, infos = list_files(place.url + slash, "give a file")
    assert root == place.path
    assert sorted(infos) == [place.at("a"), place.at("b/c")]
    assert {info["size"] for info in infos.values()} == {3}
    root, infos = list_files(f"{place.url}/a", "give a file")
    assert list(infos) == [root] == [place.at("a")]


def test_links_and_pipes(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder/file").write_text("xyz")
    (tmp_path / "to folder").symlink_to(tmp_path / "folder")
    (tmp_path / "to file").symlink_to(tmp_path / "folder/file")
    os.mkfifo(tmp_path / "pipe")
    for name, expected in (("to folder", "to folder/file"), ("to file", "to file"), ("pipe", "pipe")):
        assert list(list_files(str(tmp_path / name), "")[1]) == [str(tmp_path / expected)]


def test_an_unfinished_folder_is_refused_unless_it_may_be(place: Folder) -> None:
    place.write(INCOMPLETE, b"")
    text = "is not complete: it is being written, or was left by a run that was killed; in that case delete it"
    with pytest.raises(InputError, match=text):
        list_files(place.url, "")
    assert place.at(INCOMPLETE) in list_files(place.url, "", complete=False)[1]


@pytest.mark.parametrize("opener", OPENERS)
@pytest.mark.parametrize("name", ["nothing.parquet", "a/inside.parquet"])
def test_where_nothing_is(opener: str, name: str, place: Folder) -> None:
    with pytest.raises(InputError, match=r"\.parquet does not exist: give "):
        OPENERS[opener](f"{place.url}/{name}")


@pytest.mark.parametrize("opener", OPENERS)
def test_what_is_not_complete(opener: str, place: Folder) -> None:
    place.write(INCOMPLETE, b"")
    with pytest.raises(InputError, match="is not complete: it is being written"):
        OPENERS[opener](place.url)
