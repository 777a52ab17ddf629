"""`dask-rac` itself: its commands and its exit codes."""

from __future__ import annotations

import signal
import threading
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click

from dask_rac.base.secrets import masked
from dask_rac.cli.shell import Shell
from dask_rac.cli.stopping import INTERRUPTED, Interrupts
from dask_rac.cli.translation import as_command, as_recipe

BUG, BAD_INPUT, NO_RESOURCES, DAMAGED, IN_USE = 1, 2, 3, 4, 5


class Commands(click.Group):
    """Commands whose errors end in a message and an exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """List commands in the order in which they are typically used."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command, and turn its error, if any, into a message and an exit code."""
        shell = ctx.ensure_object(Shell)
        interrupts = Interrupts(shell)

        def words(text: str) -> str:
            return as_recipe(text) if ctx.invoked_subcommand == "run" else as_command(text)

        try:
            with _warnings_to(shell, words), _stopped_by_sigterm(), interrupts:
                return super().invoke(ctx)
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except KeyboardInterrupt as stopped:
            _say_stopped(shell, getattr(stopped, "__notes__", []))
            ctx.exit(INTERRUPTED)
        except Exception as error:
            code, error = exit_code(error), _typed(error)
            if code == BUG and interrupts.pressed:  # such as a compiler that was interrupted where it cannot be
                _say_stopped(shell, [text] if (text := shell.continuation()) else [])
                ctx.exit(INTERRUPTED)
            where = "".join(f"{note}: " for note in getattr(error, "__notes__", []) if note.startswith("step "))
            if code == BUG:
                shell.fail(f"error: {where}{type(error).__name__}: {error}; this is a bug in dask_rac", error)
                if not shell.logged:
                    click.echo(masked(traceback.format_exc()), err=True)
            else:
                shell.fail(words(f"error: {where}{error}"), error)
            ctx.exit(code)


def exit_code(error: Exception) -> int:
    """Return the exit code of a command that failed with `error`."""
    from dask_rac.base.errors import (
        AuditError,
        DamagedStoreError,
        InputError,
        ResourceError,
        StoreError,
        StoreInUseError,
    )
    from dask_rac.files.full import is_disk_full
    from dask_rac.files.trouble import is_trouble

    codes: list[tuple[type[Exception] | tuple[type[Exception], ...], int]] = [
        (StoreInUseError, IN_USE),
        ((DamagedStoreError, AuditError), DAMAGED),
        ((ResourceError, MemoryError), NO_RESOURCES),
        ((InputError, StoreError), BAD_INPUT),
    ]
    if is_disk_full(error):
        return NO_RESOURCES
    if is_trouble(error):
        return BAD_INPUT
    return next((code for kinds, code in codes if isinstance(error, kinds)), BUG)


def _typed(error: Exception) -> Exception:
    """Return an error with a text for users: an error of the operating system says what to do as well."""
    from dask_rac.files.trouble import is_trouble, trouble_text

    if isinstance(error, OSError) and is_trouble(error):
        said = OSError(trouble_text("a file", error)).with_traceback(error.__traceback__)
        said.__notes__ = getattr(error, "__notes__", [])
        return said
    return error


def _say_stopped(shell: Shell, notes: Sequence[str]) -> None:
    """Say that the user has stopped the command, and what to do next."""
    _ignore_interrupts()
    text = "; ".join(notes)
    shell.fail(as_command(f"stopped{'; ' if text and not text.startswith('in ') else ' '}{text}".strip()))


def _ignore_interrupts() -> None:
    """Ignore further Ctrl-C, so that a second one does not cut off the message."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)


@contextmanager
def _warnings_to(shell: Shell, words: Callable[[str], str]) -> Iterator[None]:
    """Print warnings as all other messages are printed."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: shell.warn(words(str(message)))
        yield


@contextmanager
def _stopped_by_sigterm() -> Iterator[None]:
    """Treat the signal by which schedulers and containers stop a program as Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def version() -> str:
    """Return the version of the package, which is imported only for that."""
    from dask_rac import __version__

    return __version__


def _print_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        click.echo(f"dask-rac {version()}")
        ctx.exit()


@click.group("rac", cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def main() -> None:
    """Exact hierarchical clustering of graphs of any size.

    \b
    dask-rac demo                                            a short tour
    dask-rac generate lattice --nodes 100000 -o edges        edges to try things on
    dask-rac graph knn vectors.npy -o edges                  edges from vectors
    dask-rac cluster edges -o run                            the tree
    dask-rac cluster vectors.npy --linkage ward -o run       the tree of all pairs of vectors
    dask-rac cut run --n-clusters 50 -o labels.parquet       flat clusters
    dask-rac run recipe.yaml                                 all of it, as a pipeline

    Exit codes: 0 done, 2 invalid input, 3 too little disk, memory or workers, 4 damaged store, 5 store in use,
    130 interrupted.
    """


def _register() -> None:
    """Add all commands."""
    from dask_rac.cli import (
        additions,
        completion,
        demo,
        edges,
        forecasts,
        pipeline,
        queries,
        report,
        results,
        runs,
        scores,
        vectors,
    )

    modules = (demo, edges, vectors, runs, forecasts, results, queries, scores, additions, report, pipeline, completion)
    for module in modules:
        for command in module.COMMANDS:
            main.add_command(command)


_register()
