"""`commands`, `common-options`, `recipe-steps`: options and keys, read from the package itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import click
from docutils import nodes
from sphinx.util.docutils import SphinxDirective

COMMON = ("scheduler", "require_tls", "quiet", "log_file", "help")
"""Documented once for all commands."""


class Commands(SphinxDirective):
    """A section for each command: what it does, an example, its options."""

    def run(self) -> list[nodes.Node]:
        """Return all commands, in the order in which they are used."""
        from dask_rac.cli import main  # noqa: PLC0415 - only this page needs it

        return [self._section(name, command) for name, command in leaves(main)]

    def _section(self, name: str, command: click.Command) -> nodes.Node:
        example, text = _help(command)
        section = nodes.section(ids=[f"dask-rac-{name.replace(' ', '-')}"], names=[f"dask-rac {name}"])
        section += nodes.title("", "", nodes.literal("", name))
        section += [_prose(part.replace("\n", " ")) for part in text]
        section += nodes.literal_block(example, example, language="console")
        own = [option for option in _options(command) if option.name not in COMMON]
        if own:
            section += _table(("option", ""), [(_names(option), _explained(option)) for option in own])
        return section


class Common(SphinxDirective):
    """The options that most commands take."""

    def run(self) -> list[nodes.Node]:
        """Return the options of `cluster`, which has all of them."""
        from dask_rac.cli import main  # noqa: PLC0415 - only this page needs it

        options = [option for option in _options(main.commands["cluster"]) if option.name in COMMON]
        return [_table(("option", ""), [(_names(option), _explained(option)) for option in options])]


class Steps(SphinxDirective):
    """The steps of recipes, with their keys and defaults."""

    def run(self) -> list[nodes.Node]:
        """Return a table with one row per step."""
        from dask_rac.recipes.schema import STEPS  # noqa: PLC0415 - only this page needs it

        return [_table(("step", "keys"), [(name, _keys(keys)) for name, keys in STEPS.items()])]


def leaves(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield the commands that do something, by full name."""
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def _help(command: click.Command) -> tuple[str, list[str]]:
    """Return the example and the paragraphs after it."""
    example, *text = inspect.cleandoc(command.help or "").split("\n\n")
    return f"$ {example.removeprefix('Example: ')}", text


def _options(command: click.Command) -> list[click.Option]:
    """Return the options, without arguments and `--help`."""
    return [parameter for parameter in command.params if isinstance(parameter, click.Option)]


def _names(option: click.Option) -> str:
    """Return the names of an option, and the placeholder of its value."""
    names = ", ".join([*option.opts, *option.secondary_opts])
    return names if option.is_flag else f"{names} {option.metavar or option.type.name.upper()}"


def _explained(option: click.Option) -> str:
    """Return the help of an option, and its default."""
    text = option.help or ""
    if option.required:
        return f"{text} Required."
    has_default = option.show_default and option.default not in (None, False)
    return f"{text} By default {option.default}." if has_default else text


def _keys(keys: Any) -> nodes.paragraph:
    """Return the keys of a step as one paragraph."""
    paragraph = nodes.paragraph()
    for name, key in keys.items():
        paragraph += nodes.Text(", ") if paragraph.children else nodes.Text("")
        paragraph += nodes.literal("", name if key.default is None else f"{name}: {_yaml(key.default)}")
        paragraph += nodes.Text(" (required)") if key.required else nodes.Text("")
    return paragraph


def _prose(text: str) -> nodes.paragraph:
    """Return a paragraph in which backticks mark code."""
    parts = enumerate(text.split("`"))
    return nodes.paragraph("", "", *[nodes.literal("", part) if k % 2 else nodes.Text(part) for k, part in parts])


def _yaml(value: Any) -> str:
    """Return a value as it is written in recipes."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> nodes.table:
    """Return a table whose first column is code."""
    group = nodes.tgroup(cols=len(head))
    group += [nodes.colspec(colwidth=1) for _ in head]
    group += nodes.thead("", _row([nodes.paragraph("", name) for name in head]))
    group += nodes.tbody("", *[_row([nodes.paragraph("", "", nodes.literal("", name)), text]) for name, text in rows])
    return nodes.table("", group, classes=["options"])


def _row(cells: list[Any]) -> nodes.row:
    paragraphs = [cell if isinstance(cell, nodes.Node) else _prose(cell) for cell in cells]
    return nodes.row("", *[nodes.entry("", paragraph) for paragraph in paragraphs])


def setup(app: Any) -> dict[str, Any]:
    """Register the directives."""
    app.add_directive("commands", Commands)
    app.add_directive("common-options", Common)
    app.add_directive("recipe-steps", Steps)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
