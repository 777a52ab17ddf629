"""What a project has beside its code: workflows, a citation and a recipe for conda agree with the package."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import dask_rac
from tests.support.root import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PYTHONS = [text.rpartition(" ")[2] for text in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", text)]
CITATION = yaml.safe_load((ROOT / "CITATION.cff").read_text())
RECIPE = yaml.safe_load((ROOT / "conda/recipe.yaml").read_text())
each_workflow = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def valid(schema: str, *paths: Path) -> None:
    """Check files against a schema that comes with check-jsonschema; nothing is fetched."""
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def jobs(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text())["jobs"]
    return found


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in jobs(path).values() for step in job["steps"]]


def test_schemas() -> None:
    assert {path.stem for path in WORKFLOWS} == {"docs", "tests", "wheel"}
    valid("github-workflows", *WORKFLOWS)
    valid("citation-file-format", ROOT / "CITATION.cff")


@each_workflow
def test_workflows_may_only_read_and_end(path: Path) -> None:
    assert yaml.safe_load(path.read_text())["permissions"] == {"contents": "read"}
    assert all(0 < job["timeout-minutes"] <= 60 for job in jobs(path).values())


@each_workflow
def test_actions_have_a_version(path: Path) -> None:
    used = [step["uses"] for step in steps(path) if "uses" in step]
    assert used
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+\.\d+\.\d+", name) for name in used)


@each_workflow
def test_workflows_run_what_there_is(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    ran = [step["run"] for step in steps(path) if "run" in step]
    assert ran
    for command in ran:
        words = command.split()
        assert (words[0] == "make" and words[1] in targets) or (ROOT / words[0]).is_file(), command


def test_every_python_is_tested_on_both_systems() -> None:
    found = jobs(ROOT / ".github/workflows/tests.yml")
    assert PYTHONS == ["3.11", "3.12", "3.13", "3.14"]
    assert {job["runs-on"].partition("-")[0] for job in found.values()} == {"ubuntu", "macos"}
    assert all(job["strategy"]["matrix"]["python"] == PYTHONS for job in found.values())
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"


def test_the_citation_is_of_this_version() -> None:
    assert CITATION["version"] == dask_rac.__version__
    assert CITATION["license"] == PROJECT["license"]
    assert CITATION["keywords"] == PROJECT["keywords"]


def test_conda_installs_what_pip_installs() -> None:
    assert RECIPE["context"]["version"] == dask_rac.__version__
    needed = {re.sub(r"\[.*\]", "", text).replace(">=", " >=") for text in PROJECT["dependencies"]}
    needed = {"dask-core" + text.removeprefix("dask") if text.startswith("dask ") else text for text in needed}
    assert set(RECIPE["requirements"]["run"]) == {*needed, f"python {PROJECT['requires-python']}", "__unix"}
    assert RECIPE["requirements"]["host"][0] == "hatchling >=1.27"
    assert RECIPE["build"]["python"]["entry_points"] == [f"dask-rac = {PROJECT['scripts']['dask-rac']}"]
    assert RECIPE["about"]["license"] == PROJECT["license"]
    assert RECIPE["about"]["summary"] == PROJECT["description"]
    assert (ROOT / RECIPE["about"]["license_file"]).is_file()
