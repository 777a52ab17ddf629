"""Shell completion."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from dask_rac.cli import options
from dask_rac.cli.shell import PROGRAM

VARIABLE = "_DASK_RAC_COMPLETE"  # as click derives it from the program's name


@options.command("dask-rac completion bash >> ~/.bashrc")
@click.argument("shell", type=click.Choice(("bash", "zsh", "fish")))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete `dask-rac`.

    For fish: > ~/.config/fish/completions/dask-rac.fish
    """
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())


COMMANDS = (completion,)
