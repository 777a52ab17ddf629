"""What a run reports about itself."""

import io
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import dask_rac
from dask_rac.show import progress
from tests.support.graphs import tangled_edges

EDGES = tangled_edges(3000, 9000, 10**6, seed=5)


@pytest.mark.parametrize("linkage", ["average", "complete", "single"])
@pytest.mark.parametrize("weights", ["distance", "similarity"])
@pytest.mark.parametrize("finisher", [True, False])
def test_rounds_account_for_every_merge(linkage: str, weights: str, finisher: bool) -> None:
    found = dask_rac.cluster(EDGES, linkage, weights=weights, finisher=finisher)
    rounds = found.rounds
    assert rounds["round"].tolist() == list(range(1, len(rounds) + 1))
    assert rounds["merges"].sum() == len(found.merges)
    assert found.merges["round"].value_counts().sort_index().tolist() == rounds["merges"].tolist()
    assert rounds["clusters"].iloc[0] == len(np.unique(np.concatenate(EDGES[:2])))
    assert rounds["edges"].iloc[0] == len(EDGES[0])
    # Clusters fall by the merges, and by those that have no edge left.
    assert (-rounds["clusters"].diff().iloc[1:].to_numpy() >= rounds["merges"].iloc[:-1].to_numpy()).all()
    assert (rounds["merges"] > 0).all()
    assert rounds["finisher"].iloc[:-1].sum() == 0
    assert (rounds[[name for name in rounds if str(name).endswith("_seconds")]] >= 0).all(axis=None)


def test_merges_have_the_dtypes_that_are_promised() -> None:
    merges = dask_rac.cluster(EDGES).merges
    kinds = {"left": "int64", "right": "int64", "height": "float64", "size": "int64", "round": "int32"}
    assert {name: str(kind) for name, kind in merges.dtypes.items()} == kinds
    assert (merges["left"] < merges["right"]).all()


def test_nearest_updates_are_clusters_whose_nearest_merged() -> None:
    # 0-1 merge; 2's nearest is 1, 3's nearest is 2: one has lost its nearest, one has not.
    found = dask_rac.cluster(([0, 1, 2], [1, 2, 3], [1.0, 2.0, 3.0]), finisher=False)
    assert found.rounds["nearest_updates"].tolist() == [1, 1, 0]


def test_representations() -> None:
    found = dask_rac.cluster(EDGES, max_height=5e5)
    text, html = repr(found), found._repr_html_()
    for part in (
        f"nodes={found.n_nodes:,}",
        f"trees={found.n_trees:,}",
        "linkage=average",
        "missing=far (",
        "max_height=500000.0",
    ):
        assert part in text
    assert "dask_rac.Clustering" in html
    assert f">{found.n_trees:,}</td>" in html
    assert "<svg" in html
    assert "finisher" in repr(dask_rac.cluster(EDGES, missing="ignore"))


def test_progress_tells_every_stage() -> None:
    events: list[dask_rac.Event] = []
    found = dask_rac.cluster(EDGES, missing="ignore", progress=events.append)
    stages = [event.stage for event in events if event.stage not in ("compile", "round")]
    assert stages == ["load", "finisher", "done"]
    records = [event.record for event in events if event.record is not None]
    assert [record.merges for record in records] == found.rounds["merges"].tolist()
    assert events[-1].merges == len(found.merges)
    assert events[-1].n_nodes == found.n_nodes


def test_nothing_is_printed_away_from_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    dask_rac.cluster(EDGES)
    assert capfd.readouterr() == ("", "")


class Terminal(io.StringIO):
    """Standard error that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("asked", "shown"), [(None, True), (True, True), (False, False)])
def test_a_terminal_sees_the_rounds(asked: bool | None, shown: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(progress, "Console", lambda file: Console(file=file, force_terminal=True, width=120))
    dask_rac.cluster(EDGES, progress=asked)
    assert ("dask_rac" in terminal.getvalue()) is shown


@pytest.mark.parametrize("weights", ["distance", "similarity"])
def test_max_height_counts_what_is_at_it(weights: str) -> None:
    edges: Any = ([0, 2, 4], [1, 3, 5], [1.0, 2.0, 3.0])
    found = dask_rac.cluster(edges, weights=weights, max_height=2.0)
    assert sorted(found.merges["height"]) == ([1.0, 2.0] if weights == "distance" else [2.0, 3.0])
    pd.testing.assert_series_equal(found.rounds["merges"], pd.Series([2], name="merges"))
