"""A secret in a URL appears nowhere: not on the screen, in the log, or in anything that is written."""

from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from click.testing import CliRunner

import dask_rac
from dask_rac.cli import main

HUSH = "hush4711"
URLS = (
    f"https://127.0.0.1:9/x.parquet?code={HUSH}",
    f"https://127.0.0.1:9/x.parquet#token={HUSH}",
    f"simplecache::https://127.0.0.1:9/x.parquet?jwt={HUSH}",
    f"s3://key%3A{HUSH}@bucket/x.parquet",
)
COMMANDS = (
    ("cluster", "URL", "-o", "run"),
    ("cluster", "edges.parquet", "-o", "URL"),
    ("resume", "URL"),
    ("info", "URL", "--json"),
    ("verify", "run", "--edges", "URL"),
    ("cut", "run", "--n-clusters", "2", "-o", "URL"),
    ("report", "run", "-o", "URL"),
    ("graph", "knn", "URL", "-o", "edges"),
    ("plan", "URL", "--scheduler", "threads"),
    ("cluster", "URL", "-o", "new", "--scheduler", f"tcp://me:{HUSH}@127.0.0.1:9"),
    ("run", "recipe.yaml", "--set", "cluster.edges=URL"),
    ("run", "recipe.yaml", "--set", "folder=URL"),
    ("run", "recipe.yaml", "--set", "cut.output=URL"),
    ("run", "URL"),
)
RECIPE = "folder: made\nsteps:\n  cluster: {edges: edges}\n  cut: {n_clusters: 2}\n"


def everything(folder: Path) -> str:
    """All that was written."""
    return "".join(path.read_bytes().decode("latin-1") for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize("url", URLS)
def test_what_commands_say_and_write(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    dask_rac.cluster((np.array([0, 1]), np.array([1, 2]), np.array([1.0, 2.0])), store="run")
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    for words in COMMANDS:
        said = CliRunner().invoke(main, [*(word.replace("URL", url) for word in words), "--log-file", "log"])
        assert said.exit_code == 2, (words, said.output)
        assert HUSH not in said.output, words
        assert "bug" not in said.output, words
    log = (tmp_path / "log").read_text()
    assert log.count("ERROR") >= len(COMMANDS)
    assert HUSH not in everything(tmp_path)


def test_what_other_libraries_say(tmp_path: Path) -> None:
    """Even in the traceback of an error that nobody foresaw."""
    for log in ([], ["--log-file", str(tmp_path / "log")]):
        with mock.patch("dask_rac.store.overview.overview", side_effect=RuntimeError(f"403 at {URLS[0]}")):
            said = CliRunner().invoke(main, ["info", "run", *log])
        assert said.exit_code == 1
        assert "403 at https://127.0.0.1:9/x.parquet?***" in said.output
        assert HUSH not in said.output
    assert "Traceback" in everything(tmp_path)
    assert HUSH not in everything(tmp_path)
