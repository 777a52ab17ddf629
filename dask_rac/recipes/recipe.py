"""Recipes: a pipeline as a YAML file, checked as a whole before anything starts.

    folder: quickstart              # where outputs go; by default the name of the recipe
    scheduler: threads              # where to compute
    steps:
      generate: {nodes: 20_000, output: edges}
      cluster: {memory: 1GB}        # clusters the edges made above
      coarse: {do: cut, clusters: 50, output: coarse.parquet}

The name of a step is the kind of work it does, unless `do` names another kind. Outputs go to the folder. The input of a
step is the output of the nearest suitable step before it, unless the step names another output, path or URL.
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

from dask_rac.base.errors import InputError
from dask_rac.files.urls import locate
from dask_rac.recipes.kinds import KINDS
from dask_rac.recipes.schema import STEPS, TOP, Key

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class RecipeStep:
    """One step of a recipe, all its keys checked and filled in."""

    name: str
    do: str
    given: Mapping[str, Any]
    """Every key of its kind; paths are complete."""
    parent: str | None
    """The step whose output is its input, if any."""
    line: int

    @property
    def output(self) -> str | None:
        """Where its output goes."""
        return self.given.get("output")


@dataclass(frozen=True)
class Recipe:
    """A pipeline that has been checked."""

    path: str
    folder: str
    scheduler: str | None
    require_tls: bool | None
    steps: Sequence[RecipeStep]

    def step(self, name: str) -> RecipeStep:
        """Return the step with the given name."""
        for step in self.steps:
            if step.name == name:
                return step
        names = [step.name for step in self.steps]
        raise InputError(f"{self.path} has no step {name!r}{_nearest(name, names)}; it has {', '.join(names)}")


class _Value(NamedTuple):
    """A value and its line."""

    value: Any
    line: int


@dataclass
class _Reader:
    """Collects all errors in a recipe."""

    path: str
    faults: list[str] = field(default_factory=list)

    def fault(self, line: int, text: str) -> None:
        """Record an error; values from the command line have line 0."""
        self.faults.append(f"{self.path}, line {line}: {text}" if line else f"--set: {text}")

    def raise_faults(self) -> None:
        """Raise if there are any."""
        if self.faults:
            raise InputError("\n".join(self.faults))

    def mapping(self, node: yaml.Node | None, what: str) -> dict[str, tuple[yaml.Node, int]]:
        """Return the keys of a mapping, each once."""
        if not isinstance(node, yaml.MappingNode):
            line = node.start_mark.line + 1 if node is not None else 1
            self.fault(line, f"{what} must be a mapping: one `key: value` per line")
            return {}
        entries: dict[str, tuple[yaml.Node, int]] = {}
        for key, value in node.value:
            line = key.start_mark.line + 1
            if str(key.value) in entries:
                self.fault(line, f"{what} has the key {key.value!r} twice")
            entries[str(key.value)] = value, line
        return entries

    def checked(self, values: Mapping[str, _Value], known: Mapping[str, Key], what: str) -> dict[str, Any]:
        """Return all known keys with their checked values."""
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
    """Read a recipe, apply changes (`key=value`), and check all of it."""
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
    """Parse the YAML of a file."""
    filesystem, path = locate(name)
    try:
        text = filesystem.cat_file(path).decode()
    except FileNotFoundError:
        raise InputError(f"{name} does not exist: pass the path of a recipe") from None
    except IsADirectoryError:
        raise InputError(f"{name} is a folder: pass the path of a recipe") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{name} cannot be read: {error}") from error
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{name}{line}: invalid YAML: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{name}: invalid YAML: {' '.join(str(error).split())}") from None
    return node


def _construct(node: yaml.Node) -> Any:
    """Return the value of a node; tags that the safe loader rejects stay text."""
    loader = yaml.SafeLoader("")
    try:
        return loader.construct_object(node, deep=True)
    except yaml.YAMLError:
        return str(node.value)
    finally:
        loader.dispose()


def _change(reader: _Reader, change: str, values: dict[str, _Value], steps: dict[str, dict[str, _Value]]) -> None:
    """Apply one `--set`."""
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
        reader.fault(0, f"there is no step {parts[0]!r}{_nearest(parts[0], steps)}; the steps are {', '.join(steps)}")
    else:
        steps[parts[0]][parts[1]] = _Value(value, 0)


def _steps(
    reader: _Reader, steps: Mapping[str, dict[str, _Value]], lines: Mapping[str, int], base: str
) -> list[RecipeStep]:
    """Return the steps in order, each with its input."""
    checked: list[RecipeStep] = []
    outputs: dict[str, str] = {}
    for name, values in steps.items():
        line = lines[name]
        if not NAME.fullmatch(name):
            reader.fault(line, f"{name!r} is not a valid step name: use letters, digits, - and _")
        do = values.pop("do", _Value(name, line))
        if not isinstance(do.value, str) or do.value not in STEPS:
            also = "; a step with another name needs `do:`" if do.value == name else ""
            kinds = f"{_nearest(str(do.value), STEPS)}; the kinds of steps are {', '.join(STEPS)}{also}"
            reader.fault(do.line, f"step {name!r}: there is no kind of step {do.value!r}{kinds}")
            continue
        known = STEPS[do.value]
        given = reader.checked(values, known, f"step {name!r}")
        for key, rule in known.items():
            if rule.required and given[key] is None:
                reader.fault(line, f"step {name!r} needs {key}:")
        try:
            KINDS[do.value].complete(given)
        except ValueError as error:
            reader.fault(line, f"step {name!r} needs {error}")
        parent = _fill_paths(reader, RecipeStep(name, do.value, given, None, line), base, outputs, checked)
        taken = outputs.get(given.get("output") or "")
        if taken:
            reader.fault(line, f"steps {taken!r} and {name!r} have the same output, {given['output']}: change one")
        if given.get("output"):
            outputs[given["output"]] = name
        checked.append(RecipeStep(name, do.value, given, parent, line))
    if not steps and not reader.faults:
        reader.fault(1, "a recipe needs steps")
    return checked


def _fill_paths(
    reader: _Reader, step: RecipeStep, base: str, outputs: Mapping[str, str], before: Sequence[RecipeStep]
) -> str | None:
    """Complete the paths of a step; return the step whose output is its input."""
    given: dict[str, Any] = step.given  # type: ignore[assignment]
    if given.get("output"):
        given["output"] = joined(base, given["output"])
    works_on = KINDS[step.do].works_on
    if works_on is None or not works_on.makers:
        return None
    key = works_on.key
    if given[key] is not None:
        inside = joined(base, given[key])
        given[key] = inside if inside in outputs else given[key]
        return outputs.get(inside)
    for earlier in reversed(before):
        if earlier.do in works_on.makers:
            given[key] = earlier.output
            return earlier.name
    reader.fault(step.line, f"step {step.name!r} needs {key}:, or an earlier {' or '.join(works_on.makers)} step")
    return None


def joined(folder: str, path: str) -> str:
    """Return a path inside a folder, unless it is a URL or absolute already."""
    return path if "://" in path or os.path.isabs(path) else f"{folder.rstrip('/')}/{path}"


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant, as a question."""
    close = difflib.get_close_matches(name, list(known), 1, 0.6)
    return f": did you mean {close[0]!r}?" if close else ""
