"""The recipes run, small."""

import subprocess
import sys
from pathlib import Path

PIPELINES = Path(__file__).parent.parent / "pipelines"


def recipe(name: str, *arguments: str) -> str:
    """What a recipe prints."""
    command = [sys.executable, str(PIPELINES / name), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_demo() -> None:
    printed = recipe("demo.py", "--nodes", "20000")
    assert "20,000 points" in printed
    assert "Top of the tree: 20,000 nodes" in printed
    assert "cut into 12 clusters" in printed


def test_bench_memory() -> None:
    printed = recipe("bench_memory.py", "--nodes", "2000", "--repeats", "1", "--quick")
    for line in ("scipy connected_components", "dask_rac similarity average", "dask_rac single"):
        assert line in printed
