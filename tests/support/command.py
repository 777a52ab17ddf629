"""Run the real command in its own process, or in this one where it makes no difference."""

import os
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import coverage
from click.testing import CliRunner

from dask_rac.cli.entry import main
from tests.support.root import ROOT

SCRIPT = Path(sys.executable).parent / "dask-rac"


def command_line(*words: str | Path) -> list[str]:
    """Return the arguments that start the command; its coverage is measured if that of this process is."""
    measured = coverage.Coverage.current() is not None
    start = ["-m", "coverage", "run", f"--rcfile={ROOT / 'pyproject.toml'}"] if measured else []
    return [sys.executable, *start, str(SCRIPT), *map(str, words)]


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of the command, without the Dask and AWS settings of the person running the tests."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("DASK_", "AWS_"))}
    return {**ours, "COVERAGE_FILE": str(ROOT / ".coverage"), "COLUMNS": "80", **changes}


def rac(*words: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command and return the completed process."""
    return subprocess.run(
        command_line(*words),
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def refused(*words: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command that fails early in this process, as starting another would take longer than the command."""
    with chdir(cwd):
        ended = CliRunner(env={"COLUMNS": "80", **changes}).invoke(main, list(map(str, words)), prog_name="dask-rac")
    assert ended.exit_code not in (0, 1), ended.output
    return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout, ended.stderr)


def done(*words: str | Path, cwd: Path, **changes: str) -> str:
    """Return what a successful command prints; stderr must stay empty, as it is not a terminal."""
    result = rac(*words, cwd=cwd, **changes)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout
