"""Run the trials of a campaign in processes of their own, within a time limit; one that crashes is a failure."""

from __future__ import annotations

import importlib
import multiprocessing
import tempfile
import traceback
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic

from tests.campaign.campaign import Campaign, chance

_context = multiprocessing.get_context("spawn")  # a campaign may start threads, which a fork would not survive


@dataclass(frozen=True)
class Assignment:
    """Which trials a process makes: `first`, `first + stride` and so on."""

    module: str
    seed: int
    first: int
    stride: int
    until: float
    """By the monotonic clock, which all processes share."""


@dataclass
class Tally:
    """What came of a campaign."""

    trials: int = 0
    failures: dict[int, str] = field(default_factory=dict)
    """What went wrong, by the number of the trial."""
    possible: int | None = None
    """How many different trials there are, if that is known."""
    seconds: float = 0.0


def campaign_of(module: str) -> Campaign:
    """The campaign that a module of this package defines."""
    found = importlib.import_module(f"tests.campaign.{module}").CAMPAIGN
    assert isinstance(found, Campaign)
    return found


def run_trials(module: str, seed: int, seconds: float, jobs: int) -> Tally:
    """Make the trials of a campaign in several processes at once."""
    began, tally = monotonic(), Tally()
    with ThreadPoolExecutor(jobs) as threads:
        parts = [Assignment(module, seed, job, jobs, began + seconds) for job in range(jobs)]
        for done in threads.map(_supervise, parts):
            tally.trials += done.trials
            tally.failures |= done.failures
            tally.possible = tally.possible or done.possible
    tally.seconds = monotonic() - began
    return tally


def _supervise(part: Assignment) -> Tally:
    """Have a process make its trials, and another go on after one that crashed or hung."""
    tally = Tally()
    while monotonic() < part.until:
        ours, theirs = _context.Pipe()
        process = _context.Process(target=_make_trials, args=(part, theirs), daemon=False)
        process.start()
        theirs.close()
        last, end = _listen(ours, tally, part)
        process.kill() if end == "hung" else None
        process.join()
        if end == "done":
            break
        tally.trials += 1
        tally.failures[last] = f"the process {end} (exit code {process.exitcode})"
        part = replace(part, first=last + part.stride)
    return tally


def _listen(pipe: Connection, tally: Tally, part: Assignment) -> tuple[int, str]:
    """Take down what a process reports; return the trial it was at, and how it ended."""
    number, patience = part.first, campaign_of(part.module).patience
    try:
        while pipe.poll(patience):
            word, value = pipe.recv()
            if word == "done":
                return number, "done"
            if word == "possible":
                tally.possible = value
            elif word == "trial":
                number = value
            else:
                tally.trials += 1
                if value:
                    tally.failures[number] = value
    except EOFError:
        return number, "crashed"
    return number, "hung"


def _make_trials(part: Assignment, pipe: Connection) -> None:
    """Make trials one after the other, and report each."""
    campaign = campaign_of(part.module)
    with tempfile.TemporaryDirectory() as folder, campaign.scene(Path(folder)) as scene:
        possible = campaign.count(scene) if campaign.count else None
        pipe.send(("possible", possible))
        for number in range(part.first, possible or campaign.goal, part.stride):
            if monotonic() > part.until:
                break
            pipe.send(("trial", number))
            pipe.send(("made", _fault(campaign, scene, part.seed, number)))
    pipe.send(("done", None))


def _fault(campaign: Campaign, scene: object, seed: int, number: int) -> str:
    """Make one trial, and return what went wrong."""
    try:
        campaign.trial(scene, chance(campaign.name, seed, number), number)
    except BaseException:
        return traceback.format_exc(limit=-6)
    return ""
