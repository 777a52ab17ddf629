"""The pipeline runner: run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from dask_rac.cli import options
from dask_rac.cli.shell import Shell

if TYPE_CHECKING:
    from dask_rac.recipes.runner import Planned


@options.command("dask-rac run pipelines/quickstart.yaml --dry-run", "run")
@click.argument("recipe", type=options.PATH, metavar="PIPELINE.yaml")
@click.option("--set", "changes", multiple=True, metavar="KEY=VALUE", help="Override a value: cluster.memory=2GB.")
@click.option("--dry-run", is_flag=True, help="Show what would be done, with sizes.")
@click.option("--from", "start", metavar="STEP", help="Redo this step and all after it.")
@options.computing
@options.common
def run_recipe(
    shell: Shell,
    recipe: str,
    changes: Sequence[str],
    dry_run: bool,
    start: str | None,
    scheduler: str | None,
    require_tls: bool | None,
) -> None:
    """Run the steps of a recipe.

    Steps that are done are skipped; a step that was stopped is resumed.
    """
    from dask_rac.recipes.recipe import load_recipe
    from dask_rac.recipes.runner import Runner, refuse

    if scheduler is not None:
        changes = [*changes, f"scheduler={scheduler}"]
    if require_tls:
        changes = [*changes, "require-tls=true"]
    loaded = load_recipe(recipe, changes)
    if start is not None:
        loaded.step(start)
    shell.continuation = lambda: f"continue with dask_rac.run({recipe!r})"
    runner = Runner(loaded, shell.notify, shell.watch)
    runner.check()
    if dry_run:
        steps = runner.plan(start)
        _show_plan(shell, steps)
        refuse(steps)
        return
    for planned, record in runner.run(start):
        if planned.action == "skip":
            shell.out.print(f"{planned.step.name}: skipped, {planned.why}", soft_wrap=True)
        else:
            facts = "".join(f", {text}" for text in _facts(record.facts))
            output = f" -> {planned.step.output}" if planned.step.output else ""
            shell.out.print(f"{planned.step.name}: {record.seconds:.1f} s{facts}{output}", soft_wrap=True)


def _show_plan(shell: Shell, planned: Sequence[Planned]) -> None:
    """Print what would be done."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 1), header_style="bold")
    for name in ("step", "now", "takes", "output"):
        table.add_column(name, overflow="fold", no_wrap=name in ("step", "now"))
    for entry in planned:
        also = "" if entry.step.name == entry.step.do else f" ({entry.step.do})"
        table.add_row(f"{entry.step.name}{also}", entry.action, entry.forecast.text, entry.step.output or "")
    shell.show(table)
    for entry in planned:
        if entry.action == "again":
            shell.warn(f"step {entry.step.name!r}: {entry.why}")


def _facts(facts: Mapping[str, Any]) -> list[str]:
    """Return numbers with their names."""
    from dask_rac.base.text import size_text

    texts = []
    for name, value in facts.items():
        if name == "peak_disk":
            texts.append(f"{size_text(value)} of disk at its peak")
        elif name == "worst_error":
            texts.append(f"largest relative error {value:.1e}")
        elif name == "epsilon":
            texts.append(f"epsilon {value:.3g}")
        elif name in ("method", "height", "n_clusters", "min_cluster_size"):
            texts.append(f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}")
        else:
            texts.append(f"{value:,} {name.removesuffix('s') if value == 1 else name}")
    return texts


COMMANDS = (run_recipe,)
