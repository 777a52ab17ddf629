"""Options that several commands take."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from dask_rac.cli.shell import Shell
from dask_rac.schema import whole

Command = Callable[..., Any]

PLACES = ("threads", "local:2x1", "tcp://", "tls://", "kubernetes:", "coiled:")


def command(example: str, name: str | None = None) -> Callable[[Command], click.Command]:
    """A command whose help begins with an example; its docstring tells the rest."""

    def made(function: Command) -> click.Command:
        text = inspect.getdoc(function) or ""
        short = text.partition("\n")[0]
        return click.command(name, help=f"Example: {example}\n\n{text}", short_help=short)(function)

    return made


class Word(click.ParamType[Any]):
    """One of some words, or a number; the library says why another will not do."""

    name = "word"

    def __init__(self, *words: str) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As it is, or as a number."""
        try:
            return float(value)
        except ValueError:
            return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The words."""
        return [CompletionItem(word) for word in self._words if word.startswith(incomplete)]


class Whole(click.ParamType[int]):
    """A whole number, also as 1e6 or 1_000_000, as in recipes."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """As an int."""
        try:
            return whole(value)
        except ValueError as error:
            self.fail(f"{value!r} is not {error}", param, ctx)


class Given(click.Path):
    """A path or URL; whether it is there the library tells, with what to do."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As it is; empty is what a shell makes of a variable that is not set."""
        if not value:
            self.fail("it is empty: give a path or URL", param, ctx)
        return super().convert(value, param, ctx)


PATH = Given()


class Output(Given):
    """A path or URL that is there when the command has ended."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """As it is."""
        if str(value).startswith("memory:"):
            self.fail(f"{value} vanishes with this command: give a path, or the URL of an object store", param, ctx)
        return super().convert(value, param, ctx)


class Place(click.Path):
    """Where to run, or the path of a scheduler file."""

    name = "place"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The forms it may have, and files."""
        forms = [CompletionItem(form) for form in PLACES if form.startswith(incomplete)]
        return forms or super().shell_complete(ctx, param, incomplete)


def _be_quiet(ctx: click.Context, _: click.Parameter, quiet: bool) -> None:
    ctx.ensure_object(Shell).quiet |= quiet


def _open_log(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is not None and not ctx.resilient_parsing:
        ctx.ensure_object(Shell).open_log(path)


def common(command: Command) -> Command:
    """What every command takes."""
    quiet = click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=_be_quiet, help="Only results and errors."
    )
    log = click.option(
        "--log-file", type=PATH, metavar="FILE", expose_value=False, callback=_open_log, help="Write all to it, too."
    )
    return click.pass_obj(quiet(log(command)))


def computing(command: Command) -> Command:
    """What every command takes that computes."""
    place = click.option("--scheduler", type=Place(), metavar="WHERE", help="threads, local:2x1, tls://…, FILE.json, …")
    tls = click.option("--require-tls", is_flag=True, default=None, help="Refuse a cluster in plain text.")
    return place(tls(command))


def memory(command: Command) -> Command:
    """What arrays may use."""
    return click.option("--memory", metavar="SIZE", help="For arrays, all processes together: 6GB.")(command)


def shards(command: Command) -> Command:
    """Into how many shards."""
    return click.option("--shards", type=Whole(), metavar="N", help="At first; as few as memory allows.")(command)


def weights(command: Command) -> Command:
    """What weights are."""
    kinds = Word("distance", "similarity")
    text = "distance (default) or similarity."
    return click.option("--weights", type=kinds, default="distance", metavar="KIND", help=text)(command)


def settings(command: Command) -> Command:
    """What is computed."""
    options: list[Callable[[Command], Command]] = [
        click.option(
            "--linkage",
            type=Word("average", "complete", "single"),
            default="average",
            metavar="NAME",
            help="average (default), complete or single.",
        ),
        click.option(
            "--missing",
            type=Word("ignore", "infinite"),
            metavar="WEIGHT",
            help="Of a pair without edge: ignore, infinite, 0.5.",
        ),
        weights,
        click.option("--n-nodes", type=Whole(), metavar="N", help="If more than the largest id says."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def as_json(command: Command) -> Command:
    """For other programs."""
    return click.option("--json", "as_json", is_flag=True, help="For other programs.")(command)
