"""Try everything that can go wrong, for a given time: `python -m tests.campaign --seconds 1800 --seed 1 kills fuzz`."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click

from tests.campaign.campaign import chance
from tests.campaign.modules import MODULES
from tests.campaign.processes import Tally, campaign_of, run_trials

HEAD = "| campaign | one trial is | trials | failures | seconds |\n|---|---|---|---|---|"


@click.command()
@click.argument("names", nargs=-1, type=click.Choice(MODULES))
@click.option("--seconds", default=1800.0, show_default=True, help="Time for all campaigns together.")
@click.option("--seed", default=0, show_default=True, help="Chooses the trials.")
@click.option("--jobs", default=2, show_default=True, help="Processes at the same time.")
@click.option("--trial", type=int, help="Make this trial of one campaign only, in this process.")
def main(names: tuple[str, ...], seconds: float, seed: int, jobs: int, trial: int | None) -> None:
    """Make the trials of campaigns, all by default, and print a table of what came of them."""
    if trial is not None:
        repeat(names, seed, trial)
        return
    rows, failed, left = [], False, seconds
    chosen = names or MODULES
    for at, name in enumerate(chosen):
        reason = campaign_of(name).missing()
        if reason:
            rows.append(f"| {name} | {reason} | 0 | | |")
            continue
        tally = run_trials(name, seed, left / (len(chosen) - at), jobs)
        left -= tally.seconds
        failed |= bool(tally.failures) or not tally.trials
        rows.append(row(name, tally))
        click.echo(rows[-1], err=True)
        for number, fault in tally.failures.items():
            click.echo(f"python -m tests.campaign {name} --seed {seed} --trial {number}\n{fault}", err=True)
    click.echo("\n".join([HEAD, *rows]))
    sys.exit(failed)


def row(name: str, tally: Tally) -> str:
    """One row of the table."""
    campaign = campaign_of(name)
    whole = tally.possible if tally.possible is not None else campaign.goal
    trials = f"{tally.trials:,}" if tally.trials == whole else f"{tally.trials:,} of {whole:,}"
    return f"| {name} | {campaign.trial_is} | {trials} | {len(tally.failures)} | {tally.seconds:.0f} |"


def repeat(names: tuple[str, ...], seed: int, trial: int) -> None:
    """Make one trial again, where a debugger can follow it."""
    if len(names) != 1:
        raise click.UsageError("--trial needs the name of one campaign")
    campaign = campaign_of(names[0])
    with tempfile.TemporaryDirectory() as folder, campaign.scene(Path(folder)) as scene:
        campaign.trial(scene, chance(campaign.name, seed, trial), trial)


if __name__ == "__main__":
    main()
