"""Recipes: a pipeline as a YAML file, checked as a whole before anything starts.

    folder: quickstart              # where outputs go; by default the name of the recipe
    scheduler: threads              # where it runs
    steps:
      generate: {nodes: 20_000, output: edges}
      cluster: {memory: 1GB}        # of the edges made before
      coarse: {do: cut, clusters: 50, output: coarse.parquet}

A step does what it is called, or what `do` says. Outputs lie in the folder. What a step works on is what the nearest
step before it has made, unless it says otherwise: an output by its name, or any other path or URL.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any, NamedTuple

import yaml

from dask_rac.errors import InputError
from dask_rac.schema import INPUTS, OUTPUTS, STEPS, TOP, Key
from dask_rac.store.urls import locate

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Step:
    """One step of a recipe, all its keys checked and filled in."""

    name: str
    do: str
    given: Mapping[str, Any]
    """Every key that its kind knows; paths are whole."""
    parent: str | None
    """The step whose output it works on, if one does."""
    line: int

    @property
    def output(self) -> str | None:
        """Where what it makes goes."""
        return self.given.get("output")


@dataclass(frozen=True)
class Recipe:
    """A pipeline that is known to make sense."""

    path: str
    folder: str
    scheduler: str | None
    require_tls: bool | None
    steps: Sequence[Step]

    def step(self, name: str) -> Step:
        """A step by its name."""
        for step in self.steps:
            if step.name == name:
                return step
        names = [step.name for step in self.steps]
        raise InputError(f"{self.path} has no step {name!r}{_nearest(name, names)}; it has {', '.join(names)}")


class _Value(NamedTuple):
    """A value and where it stands."""

    value: Any
    line: int


@dataclass
class _Reader:
    """Collects all that is wrong with a recipe."""

    path: str
    faults: list[str] = field(default_factory=list)

    def fault(self, line: int, text: str) -> None:
        """Take note of a fault; lines that come from the command line have no number."""
        self.faults.append(f"{self.path}, line {line}: {text}" if line else f"--set: {text}")

    def raise_faults(self) -> None:
        """Raise if there are any."""
        if self.faults:
            raise InputError("\n".join(self.faults))

    def mapping(self, node: yaml.Node | None, what: str) -> dict[str, tuple[yaml.Node, int]]:
        """The keys of a mapping, each once."""
        if not isinstance(node, yaml.MappingNode):
            line = node.start_mark.line + 1 if node is not None else 1
            self.fault(line, f"{what} must be a mapping, `key: value` on each line")
            return {}
        found: dict[str, tuple[yaml.Node, int]] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if str(key.value) in found:
                self.fault(line, f"{what} has the key {key.value!r} twice")
            found[str(key.value)] = value, line
        return found

    def checked(self, values: Mapping[str, _Value], known: Mapping[str, Key], what: str) -> dict[str, Any]:
        """All known keys with their values."""
        result = {name: key.default for name, key in known.items()}
        for name, (value, line) in values.items():
            if name not in known:
                self.fault(line, f"{what} has no key {name!r}{_nearest(name, known)}; it has {', '.join(known)}")
            elif value is not None:
                try:
                    result[name] = known[name].check(value)
                except ValueError as error:
                    self.fault(line, f"{name} of {what} must be {error}, not {value!r}")
        return result


def load_recipe(path: str | PathLike[str], changes: Iterable[str] = ()) -> Recipe:
    """Read a recipe, with some values changed (`key=value`), and check all of it."""
    name = fspath(path)
    reader = _Reader(name)
    top = reader.mapping(_compose(name), "a recipe")
    values = {key: _Value(_construct(node), line) for key, (node, line) in top.items() if key != "steps"}
    steps: dict[str, dict[str, _Value]] = {}
    lines: dict[str, int] = {}
    if "steps" not in top:
        reader.fault(1, "a recipe needs steps")
    else:
        for step, (node, line) in reader.mapping(top["steps"][0], "steps").items():
            inner = {} if _construct(node) is None else reader.mapping(node, f"step {step!r}")
            steps[step] = {key: _Value(_construct(value), at) for key, (value, at) in inner.items()}
            lines[step] = line
    for change in changes:
        _change(reader, change, values, steps)
    head = reader.checked(values, TOP, "a recipe")
    base = head["folder"] or os.path.splitext(os.path.basename(name))[0]
    checked = _steps(reader, steps, lines, base)
    reader.raise_faults()
    return Recipe(name, base, head["scheduler"], head["require-tls"], checked)


def _compose(name: str) -> yaml.Node | None:
    """The YAML of a file."""
    filesystem, path = locate(name)
    try:
        text = filesystem.cat_file(path).decode()
    except FileNotFoundError:
        raise InputError(f"{name} does not exist: give the path of a recipe") from None
    except IsADirectoryError:
        raise InputError(f"{name} is a folder: give the path of a recipe") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name} cannot be read: {error}") from error
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{name}{line}: no YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{name}: no YAML: {' '.join(str(error).split())}") from None
    return node


def _construct(node: yaml.Node) -> Any:
    """The value of a node; what no safe loader makes stays text."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except yaml.YAMLError:
        return str(node.value)
    finally:
        loader.dispose()


def _change(reader: _Reader, change: str, values: dict[str, _Value], steps: dict[str, dict[str, _Value]]) -> None:
    """Set a value as `--set` says."""
    key, equals, text = change.partition("=")
    parts = key.strip().removeprefix("steps.").split(".")
    if not equals or not all(parts) or len(parts) > 2:
        reader.fault(0, f"{change!r} is not key=value, such as folder=there or cluster.memory=2GB")
        return
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        value = text
    if len(parts) == 1:
        values[parts[0]] = _Value(value, 0)
    elif parts[0] not in steps:
        reader.fault(0, f"there is no step {parts[0]!r}{_nearest(parts[0], steps)}; there is {', '.join(steps)}")
    else:
        steps[parts[0]][parts[1]] = _Value(value, 0)


def _steps(reader: _Reader, steps: Mapping[str, dict[str, _Value]], lines: Mapping[str, int], base: str) -> list[Step]:
    """The steps in order, with what they work on."""
    checked: list[Step] = []
    outputs: dict[str, str] = {}
    for name, values in steps.items():
        line = lines[name]
        if not NAME.fullmatch(name):
            reader.fault(line, f"{name!r} is no name for a step: use letters, digits, - and _")
        do = values.pop("do", _Value(name, line))
        if not isinstance(do.value, str) or do.value not in STEPS:
            also = "; a step does what it is called, or what `do:` says" if do.value == name else ""
            kinds = f"{_nearest(str(do.value), STEPS)}; known are {', '.join(STEPS)}{also}"
            reader.fault(do.line, f"step {name!r} cannot {do.value!r}{kinds}")
            continue
        known = STEPS[do.value]
        given = reader.checked(values, known, f"step {name!r}")
        for key, rule in known.items():
            if rule.required and given[key] is None:
                reader.fault(line, f"step {name!r} needs {key}:")
        if do.value == "cut" and (given["height"] is None) == (given["clusters"] is None):
            reader.fault(line, f"step {name!r} needs either height: or clusters:")
        if do.value == "generate" and given["output"] is None:
            given["output"] = OUTPUTS.get(given["kind"], "edges")
        parent = _fill_paths(reader, Step(name, do.value, given, None, line), base, outputs, checked)
        taken = outputs.get(given.get("output") or "")
        if taken:
            reader.fault(line, f"steps {taken!r} and {name!r} have the same output, {given['output']}: change one")
        if given.get("output"):
            outputs[given["output"]] = name
        checked.append(Step(name, do.value, given, parent, line))
    if not steps and not reader.faults:
        reader.fault(1, "a recipe needs steps")
    return checked


def _fill_paths(
    reader: _Reader, step: Step, base: str, outputs: Mapping[str, str], before: Sequence[Step]
) -> str | None:
    """Make the paths of a step whole; gives the step whose output it works on."""
    given: dict[str, Any] = step.given  # type: ignore[assignment]
    if given.get("output"):
        given["output"] = joined(base, given["output"])
    if step.do not in INPUTS:
        return None
    key, makers = INPUTS[step.do]
    if given[key] is not None:
        inside = joined(base, given[key])
        given[key] = inside if inside in outputs else given[key]
        return outputs.get(inside)
    for earlier in reversed(before):
        if earlier.do in makers:
            given[key] = earlier.output
            return earlier.name
    reader.fault(step.line, f"step {step.name!r} needs {key}:, or a step before it that does {' or '.join(makers)}")
    return None


def joined(folder: str, path: str) -> str:
    """A path in a folder, unless it is whole already."""
    return path if "://" in path or os.path.isabs(path) else f"{folder.rstrip('/')}/{path}"


def _nearest(name: str, known: Iterable[str]) -> str:
    """The known name that was probably meant."""
    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f": did you mean {close[0]!r}?" if close else ""
