"""Public classes are known by the package's name, wherever they live."""

import pickle
import subprocess
import sys
from traceback import format_exception_only
from typing import Any, get_type_hints

import numpy as np
import pytest

import dask_rac
from dask_rac.results.audit import WrongMerge
from tests.support.root import ROOT

CLASSES = {name: value for name in dask_rac.__all__ if isinstance(value := getattr(dask_rac, name), type)}
ERRORS = {name: cls for name, cls in CLASSES.items() if issubclass(cls, Exception)}
REPORT = dask_rac.AuditReport(2, 2, 0, 0, 1, WrongMerge(0, 0, 1, 2.0, 1.0, "is wrong"), 0.5)

HOMES = """
import importlib, sys, dask_rac
for module, names in dask_rac._HOMES.items():
    home = importlib.import_module(f"dask_rac.{module}")
    for name, inside in names.items():
        value = getattr(home, inside)
        if isinstance(value, type):
            print(name, value.__module__, value is getattr(dask_rac, name))
"""
UNPICKLED = "import pickle, sys; print(*map(type, pickle.loads(sys.stdin.buffer.read())))"


def instances() -> dict[str, Any]:
    """Return one of every public class that can be pickled."""
    made: dict[str, Any] = {name: cls("why") for name, cls in ERRORS.items() if name != "AuditError"}
    made["AuditError"] = dask_rac.AuditError(REPORT)
    made["AuditReport"] = REPORT
    made["Clustering"] = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]))
    made["Scores"] = made["Clustering"].scores([0, 0, 1])
    made["Event"] = dask_rac.Event("load", done=7)
    if "RAC" in CLASSES:
        made["RAC"] = dask_rac.RAC().fit(np.arange(6.0).reshape(3, 2))
    return made


def python(code: str, stdin: bytes = b"") -> list[str]:
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().splitlines()


@pytest.mark.parametrize("name", CLASSES)
def test_is_named_after_the_package(name: str) -> None:
    assert (CLASSES[name].__module__, CLASSES[name].__qualname__) == ("dask_rac", name)
    assert repr(CLASSES[name]) == f"<class 'dask_rac.{name}'>"
    assert not any(isinstance(hint, str) for hint in get_type_hints(CLASSES[name]).values())


def test_also_if_its_own_module_is_imported_first() -> None:
    assert sorted(python(HOMES)) == sorted(f"{name} dask_rac True" for name in CLASSES)


@pytest.mark.parametrize("name", ERRORS)
def test_tracebacks_name_the_package(name: str) -> None:
    lines = format_exception_only(instances()[name])
    assert lines[0].startswith(f"dask_rac.{name}: ")


def test_pickles_come_back() -> None:
    made = instances()
    assert made.keys() == CLASSES.keys() - {"RunHandle", "StoredClustering"}  # a thread and a listener cannot travel
    back = {name: pickle.loads(pickle.dumps(value)) for name, value in made.items()}
    assert {name: type(value) for name, value in back.items()} == {name: CLASSES[name] for name in made}
    assert {str(back[name]) for name in ERRORS} == {"why", str(REPORT)}
    assert (back["AuditReport"], back["AuditError"].report, back["Event"]) == (REPORT, REPORT, made["Event"])
    assert back["Clustering"].merges.equals(made["Clustering"].merges)
    pickled = pickle.dumps(list(made.values()))
    assert b"dask_rac.base.errors" not in pickled
    assert python(UNPICKLED, pickled) == [" ".join(repr(CLASSES[name]) for name in made)]


def test_pickles_by_the_names_of_modules_are_still_read() -> None:
    pickled = b"cdask_rac.base.errors\nInputError\n(Vwhy\ntR."
    assert isinstance(pickle.loads(pickled), dask_rac.InputError)
