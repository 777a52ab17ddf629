"""The recipes run, small."""

import subprocess
import sys
from pathlib import Path

from tests.command import done

PIPELINES = Path(__file__).parent.parent / "pipelines"


def benchmark(name: str, *arguments: str) -> str:
    """What a benchmark prints."""
    command = [sys.executable, str(PIPELINES / name), *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert not result.stderr
    return result.stdout


def test_quickstart(tmp_path: Path) -> None:
    words = "run", PIPELINES / "quickstart.yaml", "--set", "generate.nodes=3000"
    lines = done(*words, cwd=tmp_path).splitlines()
    assert [line.partition(":")[0] for line in lines] == ["generate", "cluster", "verify", "cut", "fifty", "export"]
    assert all("skipped" in line for line in done(*words, cwd=tmp_path).splitlines())
    assert (tmp_path / "quickstart/tree.nwk").exists()


def test_billion(tmp_path: Path) -> None:
    words = "run", PIPELINES / "billion.yaml", "--set", "generate.nodes=3000", "--set", "cluster.memory=2GB"
    lines = done(*words, cwd=tmp_path).splitlines()
    assert lines[2].endswith("2,999 merges, 60,000 edges, largest relative error 0.0e+00")
    plan = done("run", PIPELINES / "billion.yaml", "--set", "folder=other", "--dry-run", cwd=tmp_path)
    assert "1,000,000,000 edges, 12 GB" in plan


def test_bench_out_of_core(tmp_path: Path) -> None:
    scratch = str(tmp_path / "scratch")
    printed = benchmark("bench_out_of_core.py", "--nodes", "3000", "--folder", scratch, "--repeat", "1")
    for line in ("60,000 edges", "in memory, 2", "two workers are", "relabel"):
        assert line in printed


def test_bench_memory() -> None:
    printed = benchmark("bench_memory.py", "--nodes", "2000", "--repeats", "1", "--quick")
    for line in ("scipy connected_components", "dask_rac similarity average", "dask_rac single"):
        assert line in printed
