"""Recipes: a pipeline as a YAML file, checked as a whole before anything starts.

    folder: quickstart              # where outputs go; by default the name of the recipe
    scheduler: threads              # where to compute
    steps:
      generate: {nodes: 20_000, output: edges}
      cluster: {memory: 1GB}        # clusters the edges made above
      coarse: {do: cut, n_clusters: 50, output: coarse.parquet}

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

from dask_rac.base.defaults import setting
from dask_rac.base.errors import InputError, ResourceError
from dask_rac.base.text import LONGEST, listed, quoted
from dask_rac.deploy import check_spec
from dask_rac.files.documents import compose, read_document, value_of
from dask_rac.recipes.kinds import KINDS
from dask_rac.recipes.schema import STEPS, TOP, Key

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
MOST_FAULTS = 20


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
        raise InputError(f"{self.path} has no step {quoted(name)}{_nearest(name, names)}; it has {listed(names)}")


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
        """Record an error; values from the command line have line 0. After a few, the rest are left out."""
        self.faults.append(f"{self.path}, line {line}: {text}" if line else f"--set: {text}")
        if len(self.faults) == MOST_FAULTS:
            self.raise_faults()

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
            if not isinstance(key, yaml.ScalarNode):
                self.fault(line, f"the keys of {what} must be text")
                continue
            if key.value in entries:
                self.fault(line, f"{what} has the key {quoted(key.value)} twice")
            entries[key.value] = value, line
        return entries

    def checked(self, values: Mapping[str, _Value], known: Mapping[str, Key], what: str) -> dict[str, Any]:
        """Return all known keys with their checked values."""
        result = {name: key.default for name, key in known.items()}
        for name, (value, line) in values.items():
            if name not in known:
                self.fault(line, f"{what} has no key {quoted(name)}{_nearest(name, known)}; it has {', '.join(known)}")
            elif value is not None:
                try:
                    result[name] = known[name].check(value)
                except ValueError as error:
                    self.fault(line, f"{name} of {what} must be {error}, not {quoted(value)}")
        return result


def load_recipe(path: str | PathLike[str], changes: Iterable[str] = ()) -> Recipe:
    """Read a recipe, apply changes (`key=value`), and check all of it."""
    name = fspath(path)
    reader = _Reader(name)
    top = reader.mapping(compose(read_document(name, "a recipe"), name), "a recipe")
    values = {key: _Value(_value(reader, node), line) for key, (node, line) in top.items() if key != "steps"}
    steps: dict[str, dict[str, _Value]] = {}
    lines: dict[str, int] = {}
    if "steps" not in top:
        reader.fault(1, "a recipe needs steps")
    else:
        for step, (node, line) in reader.mapping(top["steps"][0], "steps").items():
            inner = {} if _is_null(node) else reader.mapping(node, f"step {quoted(step)}")
            steps[step] = {key: _Value(_value(reader, value), at) for key, (value, at) in inner.items()}
            lines[step] = line
    for change in changes:
        _change(reader, change, values, steps)
    head = reader.checked(values, TOP, "a recipe")
    base = head["folder"] or os.path.splitext(os.path.basename(name))[0]
    checked = _steps(reader, steps, lines, base)
    _check_places(reader, values, steps, bool(setting("require-tls", head["require-tls"])))
    reader.raise_faults()
    return Recipe(name, base, head["scheduler"], head["require-tls"], checked)


def _value(reader: _Reader, node: yaml.Node) -> Any:
    """Return the value of a node."""
    try:
        return value_of(node)
    except ValueError as error:
        reader.fault(node.start_mark.line + 1, str(error))
        return None


def _is_null(node: yaml.Node) -> bool:
    """Whether a node is empty or `null`."""
    return isinstance(node, yaml.ScalarNode) and value_of(node) is None


def _change(reader: _Reader, change: str, values: dict[str, _Value], steps: dict[str, dict[str, _Value]]) -> None:
    """Apply one `--set`."""
    key, equals, text = change.partition("=")
    parts = key.strip().removeprefix("steps.").split(".")
    if not equals or not all(parts) or len(parts) > 2:
        reader.fault(0, f"{quoted(change)} is not key=value, such as folder=there or cluster.memory=2GB")
        return
    try:
        node = compose(text, "--set")
        value = None if node is None else value_of(node)
    except ValueError:
        value = text
    if len(parts) == 1:
        values[parts[0]] = _Value(value, 0)
    elif parts[0] not in steps:
        there = f"{_nearest(parts[0], steps)}; the steps are {listed(steps)}"
        reader.fault(0, f"there is no step {quoted(parts[0])}{there}")
    else:
        steps[parts[0]][parts[1]] = _Value(value, 0)


def _steps(
    reader: _Reader, steps: Mapping[str, dict[str, _Value]], lines: Mapping[str, int], base: str
) -> list[RecipeStep]:
    """Return the steps in order, each with its input."""
    checked: list[RecipeStep] = []
    outputs: dict[str, str] = {}
    makers: dict[str | None, Mapping[str, Any]] = {}
    for name, values in steps.items():
        line = lines[name]
        if not NAME.fullmatch(name):
            reader.fault(line, f"{quoted(name)} is not a valid step name: use up to 100 letters, digits, - and _")
        do = values.pop("do", _Value(name, line))
        if not isinstance(do.value, str) or do.value not in STEPS:
            also = "; a step with another name needs `do:`" if do.value == name else ""
            kinds = f"{_nearest(quoted(do.value)[1:-1], STEPS)}; the kinds of steps are {', '.join(STEPS)}{also}"
            reader.fault(do.line, f"step {quoted(name)}: there is no kind of step {quoted(do.value)}{kinds}")
            continue
        known = STEPS[do.value]
        given = reader.checked(values, known, f"step {quoted(name)}")
        for key, rule in known.items():
            if rule.required and given[key] is None:
                reader.fault(line, f"step {quoted(name)} needs {key}:")
        try:
            KINDS[do.value].complete(given)
        except ValueError as error:
            reader.fault(line, f"step {quoted(name)} needs {error}")
        parent = _fill_paths(reader, RecipeStep(name, do.value, given, None, line), base, outputs, checked)
        _inherit(do.value, given, makers.get(parent))
        taken = outputs.get(given.get("output") or "")
        if taken:
            both = f"steps {quoted(taken)} and {quoted(name)}"
            reader.fault(line, f"{both} have the same output, {given['output']}: change one")
        if given.get("output"):
            outputs[given["output"]] = name
        makers[name] = given
        checked.append(RecipeStep(name, do.value, given, parent, line))
    if not steps and not reader.faults:
        reader.fault(1, "a recipe needs steps")
    return checked


def _check_places(
    reader: _Reader, values: Mapping[str, _Value], steps: Mapping[str, Mapping[str, _Value]], tls: bool
) -> None:
    """Check every `scheduler:`; what only this machine lacks, such as a package, is found when the recipe runs."""
    named = {"": values} | {f"step {quoted(name)}: ": keys for name, keys in steps.items()}
    for where, keys in named.items():
        given = keys.get("scheduler", _Value(None, 0))
        if not isinstance(given.value, str):
            continue
        try:
            check_spec(given.value, reader.path.rpartition("/")[0], tls)
        except InputError as error:
            reader.fault(given.line, f"{where}{error}")
        except ResourceError:
            pass


def _fill_paths(
    reader: _Reader, step: RecipeStep, base: str, outputs: Mapping[str, str], before: Sequence[RecipeStep]
) -> str | None:
    """Complete the paths of a step; return the step whose output is its input."""
    given: dict[str, Any] = step.given  # type: ignore[assignment]
    if given.get("output"):
        given["output"] = joined(base, given["output"])
    works_on = KINDS[step.do].input_of(given)
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


def _inherit(do: str, given: dict[str, Any], maker: Mapping[str, Any] | None) -> None:
    """Fill in keys that the step that makes the input has as well."""
    for key in KINDS[do].inherits:
        if given[key] is None and maker is not None:
            given[key] = maker.get(key)


def joined(folder: str, path: str) -> str:
    """Return a path inside a folder, unless it is a URL or absolute already."""
    return path if "://" in path or os.path.isabs(path) else f"{folder.rstrip('/')}/{path}"


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant, as a question."""
    close = difflib.get_close_matches(name[:LONGEST], list(known), 1, 0.6)
    return f": did you mean {quoted(close[0])}?" if close else ""
