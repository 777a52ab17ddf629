"""Which findings get a remark, and its wording."""

import ast
import shlex
import subprocess
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dask_rac
from dask_rac.base.events import RoundRecord
from dask_rac.base.settings import checked_settings
from dask_rac.show.report.findings import Findings, findings_of
from dask_rac.show.report.remarks import remarks_of
from dask_rac.show.report.words import counted, escaped, parameters_of, quoted, share, timings_of
from dask_rac.tree.summary import LargeCluster, SizeHistogram, Snapshot
from tests.support.effort import examples
from tests.support.graphs import run
from tests.support.strategies import Graph, graphs

SETTINGS = checked_settings("average", "ignore", "distance", None, "error", True)
PLAIN = Findings(SETTINGS, 100, 99, largest=100)
"""A connected graph that leaves nothing to say."""


def names(found: Findings) -> list[str]:
    return [remark.name for remark in remarks_of(found)]


def title(found: Findings) -> str:
    """Of the only remark."""
    (remark,) = remarks_of(found)
    return remark.title


def snapshot(largest: int, clusters: int, single: int) -> Snapshot:
    nothing = np.empty(0, np.int64)
    one = LargeCluster(0, largest, 1.0, None)
    return Snapshot(1.0, clusters, single, (one,), SizeHistogram(1.0, nothing, nothing, nothing))


class TestRemarks:
    def test_of_nothing_in_particular_there_are_none(self) -> None:
        assert remarks_of(PLAIN) == ()
        assert remarks_of(replace(PLAIN, status="finished", run="run", tied=0, finisher=4)) == ()

    def test_a_forest_states_its_trees(self) -> None:
        found = replace(PLAIN, merges=83, single=12, largest=60)
        assert title(found) == "17 trees, including 12 single nodes; the largest has 60% of all nodes"
        (remark,) = remarks_of(found)
        assert "component" in remark.meaning
        assert "larger k" in remark.remedy
        (remark,) = remarks_of(replace(found, settings=replace(SETTINGS, missing="infinite")))
        assert "missing='infinite'" in remark.meaning

    def test_a_bound_of_heights_is_no_forest(self) -> None:
        bounded = replace(PLAIN, merges=83, settings=replace(SETTINGS, max_height=0.5))
        assert names(bounded) == ["max_height"]
        assert title(bounded) == "Nothing merges above 0.5: 17 trees"
        alike = replace(SETTINGS, max_height=0.5, weights="similarity")
        assert title(replace(bounded, settings=alike)) == "Nothing merges below 0.5: 17 trees"
        assert names(replace(bounded, merges=99)) == []

    @pytest.mark.parametrize(("missing", "why"), [("ignore", "no path of edges"), ("infinite", "some pair")])
    def test_a_bound_of_heights_is_not_blamed_for_what_would_never_merge(self, missing: str, why: str) -> None:
        apart = dask_rac.cluster(([0, 2], [1, 3], [1.0, 2.0]), missing=missing, max_height=10.0)
        (remark,) = remarks_of(findings_of(apart._settings, [], apart._lives))
        assert remark.title == "Nothing merges above 10: 2 trees"
        assert f"So do clusters that would never merge because {why}" in remark.meaning
        assert "if there is any" in remark.remedy

    @pytest.mark.parametrize("linkage", ["single", "complete", "average", "weighted", "ward"])
    @pytest.mark.parametrize("metric", ["euclidean", "cosine", "precomputed"])
    def test_of_all_pairs_nothing_is_missing(self, linkage: str, metric: str) -> None:
        if linkage == "ward" and metric == "cosine":
            return
        pairs = checked_settings(linkage, None, "distance", 5.0, metric=metric)
        chained = Findings(pairs, 100, 90, largest=90, finisher=90, cut=snapshot(90, 11, 10))
        assert names(chained) == ["max_height", "chained"]
        said = "".join(remark.meaning + remark.remedy for remark in remarks_of(chained))
        assert not any(word in said for word in ("missing", "edge", "graph", "finisher"))
        assert ("ward" in said) == (linkage != "ward" and metric != "cosine")
        (stopped,) = remarks_of(Findings(pairs, 0, status="stopped", run="run"))
        assert stopped.remedy == "Resume it: it continues from the last part that is finished."

    @pytest.mark.parametrize(("tied", "remarks"), [(0, 0), (9, 0), (10, 1), (999, 1)])
    def test_ties_are_reported_from_a_hundredth_on(self, tied: int, remarks: int) -> None:
        assert names(Findings(SETTINGS, 1_000, 999, largest=1_000, tied=tied)) == ["ties"] * remarks

    def test_a_long_tail(self) -> None:
        assert title(replace(PLAIN, finisher=30)) == "The finisher did 30.3% of the merges"
        assert title(replace(PLAIN, deferred=1)) == "1 round ran instead of the finisher, which did not fit in memory"

    @pytest.mark.parametrize(("missing", "deferred"), [("ignore", 0), ("ignore", 2), (1.0, 0), (1.0, 2)])
    def test_against_a_tail_only_remedies_are_advised(self, missing: str | float, deferred: int) -> None:
        settings = checked_settings("average", missing, "distance", None, "error", True)
        (remark,) = remarks_of(replace(PLAIN, settings=settings, finisher=30, deferred=deferred))
        assert ("missing=" in remark.remedy) == (missing == "ignore")
        assert ("memory" in remark.remedy) == (deferred > 0)
        assert remark.remedy

    def test_a_chained_cut(self) -> None:
        assert names(replace(PLAIN, cut=snapshot(95, 6, 5))) == ["chained"]
        assert names(replace(PLAIN, cut=snapshot(30, 60, 50))) == []
        assert names(replace(PLAIN, cut=snapshot(60, 4, 1))) == []
        assert names(replace(PLAIN, cut=snapshot(95, 2, 0))) == ["chained"]
        assert title(replace(PLAIN, cut=snapshot(95, 2, 0))).endswith("one cluster has 95% of all nodes")
        assert names(replace(PLAIN, cut=snapshot(90, 2, 0))) == []

    @pytest.mark.parametrize(
        ("linkage", "missing", "advice"),
        [
            ("single", "ignore", ["linkage='average' often chains less than 'single'"]),
            ("single", 1.0, ["linkage='average' often chains less than 'single'"]),
            ("average", "ignore", ["missing='far'"]),
            ("average", 1.0, []),
            ("average", "far", []),
            ("complete", "ignore", ["missing='far'"]),
            ("complete", 1.0, []),
        ],
    )
    def test_against_chains_only_remedies_are_advised(
        self, linkage: str, missing: str | float, advice: list[str]
    ) -> None:
        settings = checked_settings(linkage, missing, "distance", None, "error", True)
        (remark,) = remarks_of(replace(PLAIN, settings=settings, cut=snapshot(95, 6, 5)))
        for words in ("missing=", "linkage=", "complete"):
            assert (words in remark.remedy) == any(words in one for one in advice)
        assert all(one in remark.remedy for one in advice)

    def test_what_was_dropped(self) -> None:
        assert title(replace(PLAIN, loops=1)) == "1 self loop was dropped"
        assert title(replace(PLAIN, repeats=1_234)) == "1,234 rows repeat an edge"
        (remark,) = remarks_of(replace(PLAIN, repeats=2, settings=replace(SETTINGS, duplicates="min")))
        assert "duplicates='min' decided" in remark.meaning

    @pytest.mark.parametrize("status", ["running", "stopped", "unfinished"])
    def test_a_run_that_is_not_finished(self, status: str) -> None:
        found = replace(PLAIN, merges=40, status=status, run="my run")  # type: ignore[arg-type]
        (remark,) = remarks_of(found)
        assert (remark.name, remark.urgent) == ("unfinished", True)
        assert "40 merges of at most 99 so far" in remark.title
        assert remark.command == ("" if status == "running" else "dask-rac resume 'my run'")

    def test_what_is_urgent_comes_first(self) -> None:
        found = replace(PLAIN, loops=1, tied=99, status="stopped", run="run", damaged="manifests/00003.json")
        assert names(found) == ["damaged", "unfinished", "ties", "loops"]
        assert "manifests/00003.json" in remarks_of(found)[0].title

    @given(graphs(), st.sampled_from(["distance", "similarity"]))
    @examples(60)
    def test_numbers_of_a_tree(self, graph: Graph, weights: str) -> None:
        clustering = run(graph, weights=weights)
        heights = clustering.merges["height"]
        sizes = np.bincount(clustering.labels)
        found = findings_of(SETTINGS, [], clustering._lives, loops=3)
        assert found.tied == int(heights.duplicated(keep=False).sum())
        assert (found.trees, found.single, found.largest) == (len(sizes), (sizes == 1).sum(), sizes.max())
        assert found.loops == 3

    def test_rounds_are_counted(self) -> None:
        records = [RoundRecord(9, 9, 3), RoundRecord(6, 6, 2, deferred=True), RoundRecord(4, 4, 3, finisher=True)]
        clustering = dask_rac.cluster(([0], [1], [1.0]))
        found = findings_of(SETTINGS, records, clustering._lives)
        assert (found.finisher, found.deferred) == (3, 1)


class TestWords:
    def test_invisible_characters_are_escaped(self) -> None:
        assert escaped("plain é 漢 עברית") == "plain é 漢 עברית"
        assert escaped("a\u202egnp.exe\x00\n\udcff\U000e0001") == "a\\u202egnp.exe\\x00\\x0a\\udcff\\U000e0001"

    @given(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1))
    @examples(40)
    def test_a_shell_reads_what_was_quoted(self, path: str) -> None:
        words = quoted(path)
        assert words.isprintable()
        if path.isprintable():
            assert shlex.split(words) == [path]
        else:
            said = subprocess.run(["bash", "-c", f"printf %s {words}"], capture_output=True, check=True)
            assert said.stdout.decode() == path

    def test_bytes_that_are_no_text_are_quoted(self) -> None:
        words = quoted("é-\udcff")
        said = subprocess.run(["bash", "-c", f"printf %s {words}"], capture_output=True, check=True)
        assert said.stdout == "é-".encode() + b"\xff"

    def test_counts_and_shares(self) -> None:
        assert (counted(1, "tree"), counted(1_000, "tree")) == ("1 tree", "1,000 trees")
        assert [share(part, 100_000) for part in (0, 3, 12_345, 99_990, 100_000)] == [
            "0%",
            "0.003%",
            "12.3%",
            "99.9%",
            "100%",
        ]

    def test_parameters(self) -> None:
        words = parameters_of(replace(SETTINGS, max_height=0.5))
        assert (words["linkage"], words["missing"], ast.literal_eval(words["max_height"])) == ("average", "ignore", 0.5)
        assert "max_height" not in parameters_of(SETTINGS)

    def test_timings_have_sums(self) -> None:
        seconds = pd.DataFrame({"read": [1.0, 0.0], "fold": [0.25, 200.0], "idle": [0.0, 0.0]}, ["edges", "1"])
        table = timings_of(seconds, "step")
        assert table.columns == ("step", "read", "fold", "all")
        assert table.rows == (
            ("edges", "1", "0.25", "1.25"),
            ("1", "0", "200", "200"),
            ("all", "1", "200", "201"),
        )
