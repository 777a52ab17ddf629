"""A folder of edges that has lost a file is refused, as the rest would give another tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dask_rac
from dask_rac.api.graphs import Resources, run_graph
from dask_rac.base.names import EDGES_FACTS, GRAPH_FACTS
from dask_rac.edges.columns import open_columns
from dask_rac.edges.convert import convert
from dask_rac.edges.source import open_edges
from dask_rac.edges.text import TextLayout
from dask_rac.edges.writing import FileSizes
from dask_rac.vectors.graph.plan import GraphLimits
from dask_rac.vectors.graph.request import GraphRequest, checked_request
from tests.support.graphs import random_edges

POINTS = np.random.default_rng(4).random((60, 2))
K = 3


def ingested(folder: Path) -> Path:
    """Edges of an edge list, in files of 20."""
    columns = dict(zip(("source", "target", "weight"), random_edges(30, 110), strict=True))
    pd.DataFrame(columns).to_csv(folder / "edges.csv", index=False)
    layout = TextLayout(("source", "target", "weight"), None, True)
    convert(open_columns(folder / "edges.csv", layout), folder / "edges", lambda _: None, FileSizes(10, 2))
    return folder / "edges"


def graph(folder: Path) -> Path:
    """Edges of some vectors."""
    request = GraphRequest(checked_request("knn", "euclidean", k=K, mode="union", method="exact", seed=0), None)
    resources = Resources(limits=GraphLimits(file_edges=20 * K))
    run_graph(POINTS, request, folder / "edges", resources, False)
    return folder / "edges"


MAKERS = [ingested, graph]


@pytest.mark.filterwarnings("ignore:the graph has")
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("lost", [0, 1, -1])
def test_a_lost_file_is_named(make: Callable[[Path], Path], lost: int, tmp_path: Path) -> None:
    edges = make(tmp_path)
    whole = open_edges(edges)
    parts = sorted(edges.glob("*.parquet"))
    assert len(parts) > 2
    parts[lost].unlink()
    for read in (dask_rac.cluster, lambda path: dask_rac.ingest(path, tmp_path / "again")):
        with pytest.raises(dask_rac.InputError, match=f"{parts[lost].name} is missing: .*had {whole.rows} edges"):
            read(edges)


@pytest.mark.filterwarnings("ignore:the graph has")
def test_a_graph_that_was_built_before_files_were_counted(tmp_path: Path) -> None:
    edges = graph(tmp_path)
    facts = json.loads((edges / GRAPH_FACTS).read_text())
    assert facts.pop("files") == len(list(edges.glob("*.parquet")))
    (edges / GRAPH_FACTS).write_text(json.dumps(facts))
    open_edges(edges)
    assert graph(tmp_path) == edges  # as it is complete, it is not built again
    sorted(edges.glob("*.parquet"))[1].unlink()
    with pytest.raises(dask_rac.InputError, match=r"part-1.parquet is missing: .*restore it or write it again"):
        graph(tmp_path)


def test_a_file_that_does_not_belong_there(tmp_path: Path) -> None:
    edges = ingested(tmp_path)
    parts, whole = sorted(edges.glob("*.parquet")), open_edges(edges).rows
    (edges / "more.parquet").write_bytes(parts[0].read_bytes())
    with pytest.raises(dask_rac.InputError, match=f"does not belong to the files beside it.*delete {EDGES_FACTS}"):
        open_edges(edges)
    (edges / EDGES_FACTS).unlink()
    assert open_edges(edges).rows == whole + 20
    assert open_edges(parts[0]).rows == 20  # a file on its own is all that was asked for


@pytest.mark.parametrize("record", [b"{", b"[]", b"{}", b'{"edges": "x"}', b'{"edges": 1, "files": 0.5}', b"\xff"])
def test_a_damaged_record(record: bytes, tmp_path: Path) -> None:
    edges = ingested(tmp_path)
    (edges / EDGES_FACTS).write_bytes(record)
    with pytest.raises(dask_rac.InputError, match=EDGES_FACTS):
        open_edges(edges)
