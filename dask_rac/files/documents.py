"""YAML that people write and pass on: recipes and specs of clusters, read within limits.

Only what JSON has as well is accepted: text, numbers, true and false, null, lists and mappings. An alias repeats what
an anchor names, so a few lines could stand for more than fits in memory; a tag names a type to be made. Both are
refused, with their line. A date stays text.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike, fspath
from typing import Any

import yaml

from dask_rac.base.errors import InputError
from dask_rac.base.text import size_text
from dask_rac.files.urls import explained, locate

LARGEST = 100_000  # bytes
DEEPEST = 20  # levels
MOST = 10_000  # values, which take a second or two
LONGEST = 100  # characters of a number

_TAGS = tuple(f"tag:yaml.org,2002:{name}" for name in ("bool", "float", "int", "null"))


class _Loader(yaml.SafeLoader):
    """Composes nodes; refuses what could grow, or be anything but data."""

    count = depth = 0
    yaml_implicit_resolvers = {  # noqa: RUF012 - an attribute of PyYAML's
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _TAGS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        """Compose a node, unless it is refused."""
        event: yaml.Event = self.peek_event()  # type: ignore[no-untyped-call]
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            self._refuse(event, "anchors and aliases (& and *) are not accepted: write the value out where it is used")
        if getattr(event, "tag", None) is not None:
            self._refuse(event, "tags (!) are not accepted: remove it, and put text that begins with ! in quotes")
        self.count += 1
        if self.count > MOST:
            self._refuse(event, f"more than {MOST:,} values are not accepted: is it another file?")
        if self.depth >= DEEPEST:
            self._refuse(event, f"more than {DEEPEST} levels, one inside the other, are not accepted: flatten it")
        self.depth += 1
        try:
            node: yaml.Node | None = super().compose_node(parent, index)
        finally:
            self.depth -= 1
        return node

    def _refuse(self, event: yaml.Event, why: str) -> None:
        raise _RefusedError(None, None, why, event.start_mark)  # type: ignore[arg-type]


class _RefusedError(yaml.MarkedYAMLError):
    """Valid YAML that is not accepted."""


def read_document(path: str | PathLike[str], what: str) -> str:
    """Return the text of a file, `what` it is to be, such as "a recipe"; raise if it is large or not text."""
    name = fspath(path)
    filesystem, root = locate(name)
    try:
        with explained(name, InputError), filesystem.open(root, "rb") as file:
            data: bytes = file.read(LARGEST + 1)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{name} does not exist: pass the path of {what}") from None
    except IsADirectoryError:
        raise InputError(f"{name} is a folder: pass the path of {what}") from None
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error}") from error
    if len(data) > LARGEST:
        raise InputError(f"{name} is larger than {size_text(LARGEST)}, too large for {what}: is it another file?")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} cannot be read: it is not UTF-8 text ({error.reason} at byte {error.start})"
        ) from None


def compose(text: str, name: str) -> yaml.Node | None:
    """Parse YAML; `name` is where it is from, for messages. Empty text gives None."""
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        invalid = "" if isinstance(error, _RefusedError) else "invalid YAML: "
        raise InputError(f"{name}{line}: {invalid}{error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{name}: invalid YAML: {' '.join(str(error).split())}") from None
    return node


def value_of(node: yaml.Node) -> Any:
    """Return the value of a node, such as a list of numbers; raise ValueError if a key is a list or mapping."""
    loader = _Loader("")
    try:
        return loader.construct_object(node, deep=True)
    except yaml.YAMLError:
        raise ValueError("keys must be text or numbers") from None
    finally:
        loader.dispose()


def _number(construct: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Leave as text what only looks like a number: `0b_`, or thousands of digits."""

    def constructed(loader: Any, node: yaml.ScalarNode) -> Any:
        try:
            return node.value if len(node.value) > LONGEST else construct(loader, node)
        except ValueError:
            return node.value

    return constructed


_Loader.add_constructor("tag:yaml.org,2002:int", _number(yaml.SafeLoader.construct_yaml_int))
_Loader.add_constructor("tag:yaml.org,2002:float", _number(yaml.SafeLoader.construct_yaml_float))
