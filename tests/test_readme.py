"""What the README shows is so."""

import re
from pathlib import Path

import numpy as np
import pytest

import dask_rac

README = (Path(__file__).parent.parent / "README.md").read_text()
SQUARE = [0, 2, 0, 1], [1, 3, 2, 3], [1.0, 1.0, 2.0, 4.0]  # a, b, c, d


def test_the_example_runs_and_prints_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL):
        exec(block, names)
    clustering = names["clustering"]
    assert isinstance(clustering, dask_rac.Clustering)
    assert repr(clustering) in README
    assert isinstance(names["Z"], np.ndarray)
    assert (tmp_path / "labels.parquet" / "height=0.3").is_dir()
    report = names["report"]
    assert isinstance(report, dask_rac.AuditReport)
    assert report.ok


@pytest.mark.parametrize(
    ("missing", "average", "complete"), [("ignore", 3.0, 4.0), ("infinite", None, None), (10.0, 6.5, 10.0)]
)
def test_the_table_of_missing(missing: str | float, average: float | None, complete: float | None) -> None:
    for linkage, expected in (("average", average), ("complete", complete)):
        heights = dask_rac.cluster(SQUARE, linkage, missing).merges["height"].tolist()
        assert heights == [1.0, 1.0] + [expected] * (expected is not None)


def test_the_table_of_missing_for_similarities() -> None:
    edges = SQUARE[0], SQUARE[1], [9.0, 9.0, 2.0, 4.0]
    assert dask_rac.cluster(edges, weights="similarity").merges["height"].tolist() == [9.0, 9.0, 1.5]
    assert dask_rac.cluster(edges, "complete", weights="similarity").merges["height"].tolist() == [9.0, 9.0, 0.0]
