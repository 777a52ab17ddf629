"""Options shared by several commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from dask_rac.base.parameters import PAIRS_ENGINE, PAIRS_METRIC, SETTINGS, Parameter
from dask_rac.cli.shell import Shell
from dask_rac.recipes.schema import whole

Command = Callable[..., Any]

PLACES = ("threads", "local:2x1", "tcp://", "tls://", "kubernetes:", "coiled:")


def command(example: str, name: str | None = None) -> Callable[[Command], click.Command]:
    """Make a command whose help is an example followed by the docstring."""

    def made(function: Command) -> click.Command:
        text = inspect.getdoc(function) or ""
        short = text.partition("\n")[0]
        return click.command(name, help=f"Example: {example}\n\n{text}", short_help=short)(function)

    return made


class Word(click.ParamType[Any]):
    """One of several words, or a number; the library rejects anything else and says why."""

    name = "word"

    def __init__(self, *words: str) -> None:
        self._words = words

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a number if it is one, else the text unchanged."""
        try:
            return float(value)
        except ValueError:
            return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the words."""
        return [CompletionItem(word) for word in self._words if word.startswith(incomplete)]


class Whole(click.ParamType[int]):
    """A whole number, also as 1e6 or 1_000_000, as in recipes."""

    name = "whole number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return an int."""
        try:
            return whole(value)
        except ValueError as error:
            self.fail(f"{value!r} is not {error}", param, ctx)


class PathOrUrl(click.Path):
    """A path or URL; the library checks whether it exists, and says what to do."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return it unchanged; refuse an empty text, which is what a shell makes of an unset variable."""
        if not value:
            self.fail("it is empty: pass a path or URL", param, ctx)
        return super().convert(value, param, ctx)


PATH = PathOrUrl()


class Output(PathOrUrl):
    """A path or URL that still exists when the command has ended."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return it unchanged."""
        if str(value).startswith("memory:"):
            self.fail(
                f"{value} vanishes when this command ends: pass a path, or the URL of an object store", param, ctx
            )
        return super().convert(value, param, ctx)


class Place(click.Path):
    """Where to run, or the path of a scheduler file."""

    name = "place"

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Complete the forms it may have, and files."""
        forms = [CompletionItem(form) for form in PLACES if form.startswith(incomplete)]
        return forms or super().shell_complete(ctx, param, incomplete)


def _be_quiet(ctx: click.Context, _: click.Parameter, quiet: bool) -> None:
    ctx.ensure_object(Shell).quiet |= quiet


def _open_log(ctx: click.Context, _: click.Parameter, path: str | None) -> None:
    if path is not None and not ctx.resilient_parsing:
        ctx.ensure_object(Shell).open_log(path)


def common(command: Command) -> Command:
    """Add the options that every command takes."""
    quiet = click.option(
        "-q", "--quiet", is_flag=True, expose_value=False, callback=_be_quiet, help="Print only results and errors."
    )
    log = click.option(
        "--log-file", type=PATH, metavar="FILE", expose_value=False, callback=_open_log, help="Also log to this file."
    )
    return click.pass_obj(quiet(log(command)))


def computing(command: Command) -> Command:
    """Add the options of commands that compute."""
    place = click.option("--scheduler", type=Place(), metavar="WHERE", help="threads, local:2x1, tls://…, FILE.json, …")
    tls = click.option("--require-tls", is_flag=True, default=None, help="Refuse unencrypted clusters.")
    return place(tls(command))


def memory(command: Command) -> Command:
    """Add --memory."""
    return click.option("--memory", metavar="SIZE", help="Limit for arrays in all processes, e.g. 6GB.")(command)


def shards(command: Command) -> Command:
    """Add --shards."""
    return click.option("--shards", type=Whole(), metavar="N", help="Default: as few as memory allows.")(command)


def words(name: str, parameter: Parameter, metavar: str, text: str) -> Callable[[Command], Command]:
    """Return an option that is one of several words."""
    return click.option(f"--{name}", type=Word(*parameter.words), default=parameter.default, metavar=metavar, help=text)


def weights(command: Command) -> Command:
    """Add --weights."""
    return words("weights", SETTINGS["weights"], "KIND", "distance (default) or similarity.")(command)


def epsilon(command: Command) -> Command:
    """Add --epsilon."""
    text = "Merges within 1 + E of the nearest; default: 0."
    return click.option("--epsilon", type=float, default=SETTINGS["epsilon"].default, metavar="E", help=text)(command)


def settings(command: Command) -> Command:
    """Add the options that determine the result."""
    options: list[Callable[[Command], Command]] = [
        words("linkage", SETTINGS["linkage"], "NAME", "average (default), complete, single, ward, …"),
        words("missing", SETTINGS["missing"], "WEIGHT", "Absent pairs: far, ignore, infinite, 0.5."),
        weights,
        words("metric", PAIRS_METRIC, "NAME", "All pairs of vectors, by euclidean, cosine, …"),
        words("engine", PAIRS_ENGINE, "NAME", "For all pairs: matrix, points or certain."),
        click.option("--n-nodes", type=Whole(), metavar="N", help="Number of nodes; default: largest id + 1."),
        epsilon,
    ]
    for option in reversed(options):
        command = option(command)
    return command


def cuts(command: Command) -> Command:
    """Add the options that say which flat clusters are wanted."""
    options: list[Callable[[Command], Command]] = [
        click.option("--height", type=float, multiple=True, metavar="H", help="Clusters at this height; repeatable."),
        click.option("--n-clusters", type=Whole(), multiple=True, metavar="K", help="This many clusters; repeatable."),
        click.option("--min-size", type=Whole(), metavar="N", help="Label smaller clusters -1."),
        click.option("--max-size", type=Whole(), metavar="N", help="Split larger clusters further."),
        click.option("--method", type=Word("eom", "leaf"), metavar="NAME", help="By stability: eom or leaf."),
        click.option("--min-cluster-size", type=Whole(), multiple=True, metavar="N", help="For --method; repeatable."),
        click.option("--cluster-selection-epsilon", type=float, metavar="H", help="For --method: no splits below."),
        click.option("--allow-single-cluster", is_flag=True, default=None, help="For --method: one may be all."),
        click.option("--max-cluster-size", type=Whole(), metavar="N", help="For --method eom."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def wanted_cuts(given: dict[str, Any]) -> dict[str, Any]:
    """Return the options of `cuts` that were given, as arguments of `Clustering.cut`."""
    if given["method"] is None and bool(given["height"]) == bool(given["n_clusters"]):
        raise click.UsageError("pass either --height or --n-clusters, once or several times, or --method")
    wanted = {name: value for name, value in given.items() if value is not None and value != ()}
    several = {name: list(value) for name, value in wanted.items() if isinstance(value, tuple)}
    return wanted | {name: values if len(values) > 1 else values[0] for name, values in several.items()}


def trust_source(command: Command) -> Command:
    """Add --trust-source."""
    text = "Open the input that RUN names, even at another server."
    return click.option("--trust-source", is_flag=True, help=text)(command)


def as_json(command: Command) -> Command:
    """Add --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(command)
