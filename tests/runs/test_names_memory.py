"""Names of many nodes are numbered, kept and read out of memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

import dask_rac
from tests.support.folders import quick_folder
from tests.support.resident import measured

NODES = 3_000_000
PREFIX = "https://www.example.org/people/of/this/world/"
MEMORY = 300_000_000
"""The budget, which the names alone exceed."""


def named(numbers: NDArray[np.int64]) -> Any:
    """Return names of 57 bytes whose order is that of the numbers."""
    digits: Any = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 12, "0")
    return pc.binary_join_element_wise(pa.scalar(PREFIX), digits, pa.scalar(""))


def write_path(path: Path) -> None:
    """Write a path through all nodes, in any order of rows, and its numbered twin."""
    random = np.random.default_rng(0)
    kinds: Any = {"source": pa.string(), "target": pa.string(), "weight": pa.float64()}
    schema = pa.schema(kinds)
    with pq.ParquetWriter(path, schema) as out:
        for source in np.array_split(random.permutation(NODES - 1), 12):
            weight = (source * 7919 % 1000 + 1).astype(float)
            out.write_table(pa.table([named(source), named(source + 1), pa.array(weight)], schema=schema))


def run_named(edges: str, store: str) -> tuple[int, list[str], list[int]]:
    """Cluster edges between names within the budget; return what is asked of the names."""
    found = dask_rac.cluster(edges, "single", store=store, memory=MEMORY)
    assert found.names is not None
    asked = np.array([NODES - 1, 0, 1_234_567])
    return found.n_nodes, found.names.texts(asked), found.names.find(found.names.texts(asked)).tolist()


@pytest.mark.soak
def test_names_of_millions_of_nodes_stay_on_disk(tmp_path: Path) -> None:
    write_path(tmp_path / "edges.parquet")
    (nodes, texts, places), peak = measured(run_named, str(tmp_path / "edges.parquet"), str(tmp_path / "run"))
    assert nodes == NODES
    assert texts == named(np.array([NODES - 1, 0, 1_234_567])).to_pylist()
    assert places == [NODES - 1, 0, 1_234_567]
    size = len(PREFIX) + 12
    assert size * NODES > 0.5 * MEMORY
    assert peak < MEMORY + 400_000_000, f"{peak / 1e6:.0f} MB"


@pytest.mark.soak
def test_ingest_of_names_stays_within_its_memory() -> None:
    with quick_folder() as folder:
        write_path(folder / "edges.parquet")
        _, peak = measured(dask_rac.ingest, str(folder / "edges.parquet"), str(folder / "edges"))
        assert peak < 700_000_000, f"{peak / 1e6:.0f} MB"
        first = pd.read_parquet(folder / "edges/part-00000.parquet")
        assert (first["target"] == first["source"] + 1).all()
