"""The recipes run, small."""

import subprocess
import sys
from pathlib import Path

PIPELINES = Path(__file__).parent.parent / "pipelines"


def recipe(name: str, *arguments: str, quiet: bool = True) -> str:
    """What a recipe prints; progress, if it tells any, goes elsewhere."""
    command = [sys.executable, str(PIPELINES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("dask_rac: ") for line in done.stderr.splitlines())
    assert not (quiet and done.stderr)
    return done.stdout


def test_demo() -> None:
    printed = recipe("demo.py", "--nodes", "20000")
    assert "20,000 points" in printed
    assert "Top of the tree: 20,000 nodes" in printed
    assert "cut into 12 clusters" in printed

    assert "stopped after two rounds" in printed
    assert "merges come out of 200,000 edges" in printed


def test_billion(tmp_path: Path) -> None:
    folder = "--folder", str(tmp_path / "made")
    printed = recipe("billion.py", "--nodes", "3000", "--memory", "2GB", *folder, "--no-keep", quiet=False)
    assert "60,000 edges generated" in printed
    assert "2,999 merges come out of 60,000 edges" in printed
    assert not (tmp_path / "made").exists()


def test_bench_out_of_core(tmp_path: Path) -> None:
    scratch = str(tmp_path / "scratch")
    printed = recipe("bench_out_of_core.py", "--nodes", "3000", "--folder", scratch, "--repeat", "1")
    for line in ("60,000 edges", "in memory, 2", "two workers are", "relabel"):
        assert line in printed


def test_bench_memory() -> None:
    printed = recipe("bench_memory.py", "--nodes", "2000", "--repeats", "1", "--quick")
    for line in ("scipy connected_components", "dask_rac similarity average", "dask_rac single"):
        assert line in printed
