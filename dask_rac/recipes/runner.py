"""Runs recipes: each step once; steps that are done are skipped when the recipe is run again.

A step leaves `steps/<name>.json` in the folder of the recipe: its keys, when it started and ended, its fingerprint,
which covers everything that changes its result, and what identifies the files that it made (`made`). A step with the
same fingerprint whose output is still what it made is skipped. A step that was stopped is resumed, or done again, even
if its output is there, as long as it is what the step was about to name; so is one whose output is lost. A step whose
fingerprint or output has changed is an error: existing output is never replaced unless the user names the step from
which to start again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from time import perf_counter
from typing import Any, Literal

from dask_rac.base.defaults import setting
from dask_rac.base.errors import InputError, StoreError
from dask_rac.base.names import BEFORE, HEADER, STEPS, temporary_name
from dask_rac.base.text import quoted
from dask_rac.deploy import check_spec, connected
from dask_rac.deploy.deployment import Notify
from dask_rac.files.flushing import make_folders, move
from dask_rac.files.folder import Folder
from dask_rac.files.links import refuse_links
from dask_rac.files.listing import find_files
from dask_rac.files.output import noted, remove_unfinished
from dask_rac.files.patience import asked
from dask_rac.files.stamps import stamp
from dask_rac.files.urls import locate
from dask_rac.recipes.kinds import KINDS
from dask_rac.recipes.kinds.kind import Forecast
from dask_rac.recipes.made import difference, is_whole, made_files
from dask_rac.recipes.recipe import Recipe, RecipeStep
from dask_rac.recipes.records import Record, Records
from dask_rac.recipes.schema import STEPS as KEYS

Action = Literal["do", "resume", "skip", "again", "refuse"]


@dataclass(frozen=True)
class Planned:
    """What will be done with a step."""

    step: RecipeStep
    action: Action
    why: str
    fingerprint: str
    forecast: Forecast


class Runner:
    """Runs the steps of a recipe."""

    def __init__(self, recipe: Recipe, notify: Notify, watch: Callable[[str], Any]) -> None:
        """`notify` receives notices; `watch` returns a context whose value receives the progress of a step."""
        self.recipe = recipe
        self._notify, self._watch = notify, watch
        self._folder = Folder(recipe.folder)
        self._records = Records(self._folder)
        self._base = recipe.path.rpartition("/")[0]
        self._tls = bool(setting("require-tls", recipe.require_tls))

    def check(self) -> None:
        """Raise if any step is invalid, before anything starts."""
        for spec in {self._place(step) for step in self.recipe.steps}:
            check_spec(spec, self._base, self._tls)
        for step in self.recipe.steps:
            parent = None if step.parent is None else self.recipe.step(step.parent).given
            try:
                KINDS[step.do].check(step.given, parent)
            except InputError as error:
                raise InputError(f"{self.recipe.path}, line {step.line}: step {step.name!r}: {error}") from error

    def plan(self, start: str | None = None) -> list[Planned]:
        """Plan what a run does with each step; steps from `start` on are done again."""
        again = False
        prints: dict[str, str] = {}
        planned: list[Planned] = []
        forecasts: dict[str, Forecast] = {}
        fresh: set[str | None] = set()
        for step in self.recipe.steps:
            again = again or step.name == start
            prints[step.name] = mark = self._fingerprint(step, prints)
            action, why = self._action(step, mark, again)
            # What leaves no output says something of the run that is there, not of any with the same fingerprint.
            if step.output is None and action == "skip" and step.parent in fresh:
                action, why = "do", "its run is new"
            if action != "skip":
                fresh.add(step.name)
            forecasts[step.name] = forecast = self._forecast(step, forecasts, step.parent in fresh)
            planned.append(Planned(step, action, why, mark, forecast))
        return planned

    def _forecast(self, step: RecipeStep, forecasts: Mapping[str, Forecast], renewed: bool) -> Forecast:
        """Estimate the sizes of a step; the input that is there now may be unreadable if it is going to be renewed."""
        try:
            return KINDS[step.do].forecast(step.given, forecasts.get(step.parent or ""), self._place(step))
        except (InputError, StoreError):
            if not renewed:
                raise
            return Forecast("known later")

    def run(self, start: str | None = None) -> Iterator[tuple[Planned, Record]]:
        """Run all steps that are not done; yield each step with its record once it is done or skipped."""
        refuse(self.plan(start))
        if self._folder.local:
            make_folders(self._folder.path)
            refuse_links(self._folder, (STEPS,))
        with self._folder.locked(), ExitStack() as places:
            planned = refuse(self.plan(start))
            clients: dict[str, Any] = {}
            for entry in map(self._look_again, planned):
                if entry.action == "skip":
                    yield entry, self._records.known(entry.step)
                    continue
                place = self._place(entry.step)
                if place not in clients and "scheduler" in entry.step.given:
                    opened = connected(place, base=self._base, require_tls=self._tls, notify=self._notify)
                    clients[place] = places.enter_context(opened)
                yield entry, self._do(entry, clients.get(place))

    def _look_again(self, planned: Planned) -> Planned:
        """Decide again what to do with a step whose turn has come: its output may have been put there meanwhile."""
        if planned.action == "skip" or planned.step.output is None:
            return planned
        action, why = self._action(planned.step, planned.fingerprint, planned.action == "again")
        refuse([now := replace(planned, action=action, why=why)])
        return now

    def _do(self, planned: Planned, client: Any) -> Record:
        """Run a step and write its record."""
        step = planned.step
        aside = self._place_aside(planned)
        if self._left_over(planned):
            self._forget(step)
        record = Record(step.name, step.do, step.given, planned.fingerprint, _now(), aside=aside)
        began = perf_counter()
        with (
            self._watch(f"step {step.name}") as report,
            self._named(step),
            self._aside(planned, record),
            self._noted(step, record),
        ):
            facts = KINDS[step.do].does(step.given, client, report)
        seconds, made = round(perf_counter() - began, 3), {} if step.output is None else made_files(step.output)
        record = replace(record, finished=_now(), seconds=seconds, facts=facts, made=made)
        self._records.keep(record)
        if aside is not None:
            Folder(aside).remove("")
            record = replace(record, aside=None)
            self._records.keep(record)
        return record

    @contextmanager
    def _noted(self, step: RecipeStep, record: Record) -> Iterator[None]:
        """Record what identifies the output of a step before it gets its name.

        If the process dies before the step is recorded as done, the output is known to be the step's own.
        """

        def note(new: Folder, target: Folder) -> None:
            if step.output is not None and target.path == Folder(step.output).path:
                self._records.keep(replace(record, made=made_files(new.path)))

        with noted(note):
            yield

    def _left_over(self, planned: Planned) -> bool:
        """Whether a step has left something that it cannot resume."""
        starts_over = planned.action == "resume" and not KINDS[planned.step.do].resumable
        return (planned.action == "do" or starts_over) and self._records.ours(planned.step) is not None

    def _place_aside(self, planned: Planned) -> str | None:
        """Return where the old output of a step is kept while it is made again, by this attempt or one that died."""
        step, record = planned.step, self._records.ours(planned.step)
        if record is None or step.output is None or not Folder(step.output).local:
            return None
        if planned.action != "again" or (record.aside is not None and not Folder(step.output).exists()):
            return record.aside
        if record.aside is not None:
            Folder(record.aside).remove("")
        return temporary_name(step.output, BEFORE)

    @contextmanager
    def _aside(self, planned: Planned, record: Record) -> Iterator[None]:
        """Keep the old output of a step until the new one is made; if that fails, restore it.

        A run that has started can be resumed, so it stays. On object stores, where moving means copying, the old
        output is deleted at once.
        """
        step, before = planned.step, self._records.get(planned.step)
        if planned.action != "again" or step.output is None or before is None:
            self._records.keep(record)
            yield
            return
        made = Folder(step.output)
        remove_unfinished(made)
        if record.aside is None:
            self._forget(step)
            self._records.keep(record)
            yield
            return
        self._records.keep(record)  # so that what is moved away is found again
        kept = Folder(record.aside)
        if made.exists():
            move(made.path, kept.path)
        try:
            yield
        except BaseException:
            if made.exists(HEADER):
                kept.remove("")
            elif kept.exists():
                made.remove("")
                move(kept.path, made.path)
                self._records.keep(before)
            raise

    @contextmanager
    def _named(self, step: RecipeStep) -> Iterator[None]:
        """Note in which step an error occurred."""
        try:
            yield
        except KeyboardInterrupt as stopped:
            stopped.__notes__ = [f"in step {step.name!r}; continue with dask_rac.run({self.recipe.path!r})"]
            raise
        except Exception as error:
            error.add_note(f"step {step.name!r}")
            raise

    def _place(self, step: RecipeStep) -> str:
        """Return where a step computes."""
        place: str = setting("scheduler", step.given.get("scheduler") or self.recipe.scheduler)
        return place

    def _action(self, step: RecipeStep, mark: str, again: bool) -> tuple[Action, str]:
        """Decide what to do with a step; return that and why."""
        record, there = self._records.ours(step), step.output is not None and _is_there(Folder(step.output))
        if record is None:
            return ("refuse", _foreign_text(step)) if there else ("do", "new")
        if again:
            return "again", f"{step.output} is replaced" if there else "requested"
        if record.fingerprint != mark:
            return ("refuse", self._difference(step, record)) if there else ("do", "changed")
        if record.finished is None:
            unsure = there and not KINDS[step.do].resumable and not is_whole(str(step.output), record.made)
            return ("refuse", _unrecorded_text(step)) if unsure else ("resume", "was stopped")
        return self._finished(step, record) if there or step.output is None else ("do", "its output is missing")

    def _finished(self, step: RecipeStep, record: Record) -> tuple[Action, str]:
        """Decide what to do with a step that is done: skip it if its output is still what it made."""
        assert record.finished is not None
        changed = None if step.output is None else difference(step.output, record.made)
        if changed is None:
            return "skip", f"done {record.finished.replace('T', ' ').replace('+00:00', ' UTC')}"
        if changed.lost and not KINDS[step.do].resumable:
            return "do", changed.text
        return "refuse", (
            f"step {step.name!r} made {step.output}, which has been changed or damaged since: {changed.text}. Restore "
            f"it, run with --from {step.name} to make it and everything after it again, or choose another output: or "
            "folder:"
        )

    def _difference(self, step: RecipeStep, record: Record) -> str:
        """Describe how a step has changed since it was done."""
        now = {name: step.given[name] for name, key in KEYS[step.do].items() if key.result}
        changed = [
            f"{name} was {quoted(record.given.get(name))}, is now {quoted(value)}"
            for name, value in now.items()
            if name != "output" and record.given.get(name, KEYS[step.do][name].default) != value
        ] or ["its input has changed"]
        return (
            f"step {step.name!r} has changed since {step.output} was made ({'; '.join(changed)}): run with --from "
            f"{step.name} to replace it and everything after it, or choose another output: or folder:"
        )

    def _fingerprint(self, step: RecipeStep, before: Mapping[str, str]) -> str:
        """Return the hash that identifies the result of a step."""
        keys = {name: step.given[name] for name, key in KEYS[step.do].items() if key.result and name != "output"}
        works_on = KINDS[step.do].input_of(step.given)
        if works_on is not None:
            keys[works_on.key] = before[step.parent] if step.parent else _stamp(step, keys[works_on.key])
        if not keys.get("epsilon"):
            keys.pop("epsilon", None)  # which records of earlier versions do not have
        if keys.get("names") is None:
            keys.pop("names", None)  # as above
        elif isinstance(keys["names"], str):
            keys["names"] = _stamp(step, keys["names"])
        return sha256(json.dumps([step.do, keys], sort_keys=True).encode()).hexdigest()

    def _forget(self, step: RecipeStep) -> None:
        """Delete the output of a step, complete or partial, and its record."""
        if step.output is not None:
            Folder(step.output).remove("")
            remove_unfinished(Folder(step.output))
        self._records.forget(step)


def refuse(planned: list[Planned]) -> list[Planned]:
    """Raise if a step must not run; otherwise return the plan."""
    for entry in planned:
        if entry.action == "refuse":
            raise InputError(entry.why)
    return planned


def _foreign_text(step: RecipeStep) -> str:
    """Return the message for an output that the step has not made."""
    return (
        f"{step.output} exists, but was not made by step {step.name!r}, and is never overwritten: move it away, or "
        "choose another output: or folder:"
    )


def _unrecorded_text(step: RecipeStep) -> str:
    """Return the message for an output of a step that was stopped: it may be what a user has put there."""
    return (
        f"{step.output} exists, but step {step.name!r} was stopped before it was recorded: run with --from {step.name} "
        "to replace it and everything after it, or move it away"
    )


def _is_there(output: Folder) -> bool:
    """Whether an output exists; an empty folder does not count."""
    return output.exists() and (output.is_file() or bool(output.names()))


def _stamp(step: RecipeStep, path: str) -> str:
    """Return a hash that identifies the input of a step: names, sizes and times of its files."""
    name = f"{path}/{HEADER}" if step.do not in ("cluster", "graph", "ingest") else path
    filesystem, root = locate(name)
    try:
        files = asked(name, InputError, find_files, filesystem, root)
    except (FileNotFoundError, NotADirectoryError):
        files = {}
    if not files:
        where = path if "://" in path else os.path.abspath(path)
        raise InputError(f"step {step.name!r} reads {where}, which does not exist: check the path")
    # "None" is what records of earlier versions hold where no time is known.
    stamps = [[file.removeprefix(root), info["size"], stamp(info) or "None"] for file, info in sorted(files.items())]
    return sha256(json.dumps(stamps).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
