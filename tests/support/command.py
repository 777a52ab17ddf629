"""Run the command in this process, or the real one in its own where that makes a difference."""

import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path

import coverage
import dask
from click.testing import CliRunner

from dask_rac.cli.entry import main
from tests.support.clients import forked_workers
from tests.support.root import ROOT

SCRIPT = Path(sys.executable).parent / "dask-rac"
PERSONAL = ("DASK_", "AWS_")
"""How variables begin that hold the settings of the person running the tests, which no command may see."""
UNHEARD = (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning)
"""Warnings that Python hides, unless it is told otherwise."""


def command_line(*words: str | Path) -> list[str]:
    """Return the arguments that start the command; its coverage is measured if that of this process is."""
    measured = coverage.Coverage.current() is not None
    start = ["-m", "coverage", "run", f"--rcfile={ROOT / 'pyproject.toml'}"] if measured else []
    return [sys.executable, *start, str(SCRIPT), *map(str, words)]


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of the command."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(PERSONAL)}
    return {**ours, "COVERAGE_FILE": str(ROOT / ".coverage"), "COLUMNS": "80", **changes}


def alone(*words: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command in its own process: it takes two seconds until everything is imported, ten times what it does."""
    return subprocess.run(
        command_line(*words),
        cwd=cwd,
        env=environment(**changes),
        capture_output=True,
        text=True,
        check=False,
        timeout=180,
    )


def rac(*words: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command in this process; a bug in it is raised."""
    hidden = dict.fromkeys(name for name in os.environ if name.startswith(PERSONAL))
    runner = CliRunner(env={**hidden, "COLUMNS": "80", **changes})
    with chdir(cwd), _as_if_started(changes):
        ended = runner.invoke(main, list(map(str, words)), prog_name="dask-rac")
    if ended.exit_code == 1 and ended.exception is not None:
        raise AssertionError(ended.output) from ended.exception
    return subprocess.CompletedProcess(words, ended.exit_code, ended.stdout, ended.stderr)


@contextmanager
def _as_if_started(changes: dict[str, str]) -> Iterator[None]:
    """Warn as Python does, not as pytest does, have Dask read its settings, and start workers fast."""
    settings = dask.config.merge(dask.config.config, dask.config.collect_env(changes))
    with warnings.catch_warnings(), dask.config.set(settings), forked_workers():
        warnings.simplefilter("default")
        for kind in UNHEARD:
            warnings.simplefilter("ignore", kind)
        yield


def refused(*words: str | Path, cwd: Path, **changes: str) -> subprocess.CompletedProcess[str]:
    """Run a command that fails."""
    ended = rac(*words, cwd=cwd, **changes)
    assert ended.returncode != 0, ended.stdout
    return ended


def done(*words: str | Path, cwd: Path, **changes: str) -> str:
    """Return what a successful command prints; stderr must stay empty, as it is not a terminal."""
    result = rac(*words, cwd=cwd, **changes)
    assert result.returncode == 0, result.stderr
    assert result.stderr == ""
    return result.stdout
