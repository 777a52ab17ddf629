"""Every output is on disk before it gets its name, and its name is on disk before the call returns."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import dask.array as da
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

import dask_rac
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.datasets import documents, lattice, sift
from dask_rac.files.flushing import flush_folder
from dask_rac.files.folder import Folder
from dask_rac.files.npz import write_bundle
from dask_rac.files.output import continued, new_output, replace_file
from dask_rac.vectors.graph import build
from dask_rac.vectors.sources.writing import write_vectors
from tests.support.flushes import watched
from tests.support.ways import quiet

EDGES = pd.DataFrame({"source": [0, 1, 2, 4], "target": [1, 2, 3, 5], "weight": [1.0, 2.0, 4.0, 3.0]})
VECTORS = np.arange(12.0, dtype=np.float32).reshape(6, 2) ** 2

Write = Callable[[Path], Any]


def cut(**options: Any) -> Write:
    return lambda path: dask_rac.cluster(EDGES).cut(**options, store=path)


def export(path: Path) -> Any:
    return dask_rac.cluster(EDGES[:3]).export(path)


def rows(values: Any) -> Write:
    return lambda path: write_vectors(path, [values], 6, 2, "float32")


def ingest(path: Path) -> Any:
    EDGES.to_csv(path.parents[2] / "list.csv", index=False)
    return dask_rac.ingest(path.parents[2] / "list.csv", path)


def graph(function: Any, **options: Any) -> Write:
    return lambda path: quiet(function, VECTORS, **options, store=path)


def picture(path: Path) -> Any:
    return dask_rac.cluster(EDGES).plot_sizes(1.5).save(path)


def report(path: Path) -> Any:
    return dask_rac.cluster(EDGES).report(path)


def report_again(path: Path) -> Any:
    report(path)
    return dask_rac.cluster(EDGES).report(path, overwrite=True)


OUTPUTS: dict[str, Write] = {
    "labels.parquet": cut(height=1.5),
    "several.parquet": cut(height=[1.5, 2.5]),
    "labels.zarr": cut(n_clusters=[3, 4]),
    "labels.csv": cut(height=1.5),
    "labels.csv.gz": cut(height=1.5),
    "tree.npy": export,
    "tree.nwk": export,
    "merges.parquet": export,
    "rows.npy": rows(VECTORS),
    "rows.fvecs": rows(VECTORS),
    "rows.zarr": rows(VECTORS),
    "sparse.zarr": rows(sp.csr_array(VECTORS)),
    "sift.bvecs": lambda path: sift(10, store=path),
    "documents.zarr": lambda path: documents(10, 200, store=path),
    "lattice": lambda path: lattice(100, 4, store=path),
    "ingested": ingest,
    "knn": graph(dask_rac.knn_graph, k=2),
    "eps": graph(dask_rac.eps_graph, eps=40.0),
    "complete": graph(dask_rac.complete_graph),
    "picture.html": picture,
    "report.html": report,
    "again.html": report_again,
    "record.json": lambda path: replace_file(Folder(path.parent), path.name, b"{}"),
    "bundle.npz": lambda path: write_bundle(Folder(path.parent), path.stem, {"values": VECTORS}),
}


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_output_is_on_disk_before_and_after_it_gets_its_name(name: str, folder: Path) -> None:
    output = folder / "new" / "inside" / name
    if name == "bundle.npz":  # always in a folder of ours
        output.parent.mkdir(parents=True)
    with watched() as seen:
        OUTPUTS[name](output)
    assert output.exists()
    assert not seen.missing(output, output.parent if name == "bundle.npz" else folder)
    assert os.listdir(output.parent) == [name]


def test_a_folder_that_is_continued_is_on_disk_with_its_mark_before_it_has_its_name(folder: Path) -> None:
    def mark(new: Folder) -> None:
        os.makedirs(new.at("work"))
        Path(new.at("work/header.json")).write_text("{}")

    with watched() as seen, continued(Folder(folder / "edges"), mark, lambda _: True):
        assert not seen.missing(folder / "edges.partial", folder)


def test_the_parts_of_a_graph_are_on_disk_when_their_record_is(folder: Path) -> None:
    with watched() as seen:
        quiet(dask_rac.knn_graph, VECTORS, k=2, store=folder / "edges")
    top = f"{folder}/edges.partial/"  # kernels may be compiled meanwhile, and cached elsewhere
    work = {path.removeprefix(top): risk for path, risk in seen.at_risk.items() if path.startswith(top)}
    assert {"work/checked/00000.npz", "part-0.parquet", "work/part-0.parquet.json"} <= set(work)
    assert not {path: risk for path, risk in work.items() if risk}


def test_vectors_are_on_disk_before_it_is_recorded_that_they_are(folder: Path) -> None:
    work, found = folder / "edges.partial/work", []

    def flush(path: str) -> None:
        found.append((path, sorted(os.listdir(path)), (work / "spooled").exists()))

    with mock.patch.object(build, "flush_tree", flush):
        quiet(dask_rac.knn_graph, da.from_array(VECTORS, chunks=(3, 2)), k=2, store=folder / "edges")
    assert found == [(str(work / "vectors"), ["part-00000000.npy", "part-00000001.npy"], False)]


def test_a_graph_in_memory_waits_for_no_disk(folder: Path) -> None:
    before = mock.Mock(side_effect=os.fsync)
    with mock.patch.object(os, "fsync", before), mock.patch.dict(os.environ, {"TMPDIR": str(folder)}):
        quiet(dask_rac.knn_graph, VECTORS, k=2)
    few = before.call_count
    with mock.patch.object(os, "fsync", before):
        quiet(dask_rac.knn_graph, VECTORS, k=2, store=folder / "edges")
    assert few < before.call_count - few


def failing(number: int) -> Any:
    return mock.patch.object(os, "fsync", side_effect=OSError(number, os.strerror(number)))


@pytest.mark.parametrize(("number", "kind"), [(errno.ENOSPC, ResourceError), (errno.EIO, InputError)])
@pytest.mark.parametrize("several", [False, True])
def test_an_output_that_cannot_be_flushed_is_not_there(
    number: int, kind: type[Exception], several: bool, folder: Path
) -> None:
    with failing(number), pytest.raises(kind, match=r"is full|cannot be written"):  # noqa: SIM117
        with new_output(folder / "new", several) as new:
            Path(new.at("file" if several else "")).write_text("x")
    assert not os.listdir(folder)


def test_folders_that_cannot_be_flushed(folder: Path) -> None:
    with failing(errno.EINVAL):
        flush_folder(str(folder))
    with failing(errno.EIO), pytest.raises(OSError, match="Input/output"):
        flush_folder(str(folder))
