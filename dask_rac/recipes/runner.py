"""Runs recipes: each step once; steps that are done are skipped when the recipe is run again.

A step leaves `steps/<name>.json` in the folder of the recipe: its keys, when it started and ended, and its fingerprint,
which covers everything that changes its result. A step with the same fingerprint whose output exists is skipped. A step
that was stopped is resumed, or done again. A step whose fingerprint has changed is an error: existing output is never
replaced unless the user names the step from which to start again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from importlib.metadata import version
from time import perf_counter
from typing import Any, Literal

from dask_rac.base.defaults import setting
from dask_rac.base.errors import InputError
from dask_rac.base.names import BEFORE, HEADER, PARTIAL, step_record_name
from dask_rac.deploy import check_spec, connected
from dask_rac.deploy.deployment import Notify
from dask_rac.files.folder import Folder
from dask_rac.files.stamps import stamp
from dask_rac.files.urls import locate
from dask_rac.recipes.kinds import KINDS
from dask_rac.recipes.kinds.kind import Forecast
from dask_rac.recipes.recipe import Recipe, RecipeStep
from dask_rac.recipes.schema import STEPS

Action = Literal["do", "resume", "skip", "again", "refuse"]


@dataclass(frozen=True)
class Record:
    """What is known of a step that has started."""

    step: str
    do: str
    given: Mapping[str, Any]
    fingerprint: str
    begun: str
    finished: str | None = None
    seconds: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)
    """The result, as a few numbers."""
    version: str = version("dask-rac")


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
            forecast = KINDS[step.do].forecast(step.given, forecasts.get(step.parent or ""), self._place(step))
            forecasts[step.name] = forecast
            planned.append(Planned(step, action, why, mark, forecast))
        return planned

    def run(self, start: str | None = None) -> Iterator[tuple[Planned, Record]]:
        """Run all steps that are not done; yield each step with its record once it is done or skipped."""
        refuse(self.plan(start))
        if self._folder.local:
            self._folder.filesystem.makedirs(self._folder.path, exist_ok=True)
        with self._folder.locked(), ExitStack() as places:
            planned = refuse(self.plan(start))
            clients: dict[str, Any] = {}
            for entry in planned:
                if entry.action == "skip":
                    yield entry, self._known(entry.step)
                    continue
                place = self._place(entry.step)
                if place not in clients and "scheduler" in entry.step.given:
                    opened = connected(place, base=self._base, require_tls=self._tls, notify=self._notify)
                    clients[place] = places.enter_context(opened)
                yield entry, self._do(entry, clients.get(place))

    def _do(self, planned: Planned, client: Any) -> Record:
        """Run a step and write its record."""
        step = planned.step
        if self._left_over(planned):
            self._forget(step)
        record = Record(step.name, step.do, step.given, planned.fingerprint, _now())
        began = perf_counter()
        with self._watch(f"step {step.name}") as report, self._named(step), self._aside(planned):
            self._keep(record)
            facts = KINDS[step.do].does(step.given, client, report)
        seconds = round(perf_counter() - began, 3)
        record = Record(**{**asdict(record), "finished": _now(), "seconds": seconds, "facts": facts})
        self._keep(record)
        if step.output is not None and self._folder.local:
            Folder(f"{step.output}{BEFORE}").remove("")  # left if redoing it was killed and then resumed
        return record

    def _left_over(self, planned: Planned) -> bool:
        """Whether a step has left something that it cannot resume."""
        record = self._record(planned.step)
        ours = record is not None and record.given.get("output") == planned.step.output
        starts_over = planned.action == "resume" and not KINDS[planned.step.do].resumable
        return ours and (planned.action == "do" or starts_over)

    @contextmanager
    def _aside(self, planned: Planned) -> Iterator[None]:
        """Keep the old output of a step until the new one is made; if that fails, restore it.

        A run that has started can be resumed, so it stays. On object stores, where moving means copying, the old
        output is deleted at once.
        """
        step, record = planned.step, self._record(planned.step)
        if planned.action != "again" or step.output is None or record is None:
            yield
            return
        made, kept = Folder(step.output), Folder(f"{step.output}{BEFORE}")
        kept.remove("")
        Folder(f"{step.output}{PARTIAL}").remove("")
        if not made.local:
            self._forget(step)
        elif made.exists():
            os.rename(made.path, kept.path)
        try:
            yield
        except BaseException:
            if kept.exists() and not made.exists(HEADER):
                made.remove("")
                os.rename(kept.path, made.path)
                self._keep(record)
            raise
        finally:
            if made.exists():
                kept.remove("")

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
        record, there = self._record(step), step.output is not None and _is_there(Folder(step.output))
        ours = record is not None and record.given.get("output") == step.output
        if again and ours:
            return "again", f"{step.output} is replaced" if there else "requested"
        if record is None or not ours:
            if there:
                return "refuse", (
                    f"{step.output} exists, but was not made by step {step.name!r}, and is never overwritten: move it "
                    "away, or choose another output: or folder:"
                )
            return "do", "new"
        if record.fingerprint != mark:
            return ("refuse", self._difference(step, record)) if there else ("do", "changed")
        if record.finished and (there or step.output is None):
            return "skip", f"done {record.finished.replace('T', ' ').replace('+00:00', ' UTC')}"
        return ("resume", "was stopped") if not record.finished else ("do", "its output is missing")

    def _difference(self, step: RecipeStep, record: Record) -> str:
        """Describe how a step has changed since it was done."""
        now = {name: step.given[name] for name, key in STEPS[step.do].items() if key.result}
        changed = [
            f"{name} was {record.given.get(name)!r}, is now {value!r}"
            for name, value in now.items()
            if name != "output" and record.given.get(name) != value
        ] or ["its input has changed"]
        return (
            f"step {step.name!r} has changed since {step.output} was made ({'; '.join(changed)}): run with --from "
            f"{step.name} to replace it and everything after it, or choose another output: or folder:"
        )

    def _fingerprint(self, step: RecipeStep, before: Mapping[str, str]) -> str:
        """Return the hash that identifies the result of a step."""
        keys = {name: step.given[name] for name, key in STEPS[step.do].items() if key.result and name != "output"}
        works_on = KINDS[step.do].works_on
        if works_on is not None:
            keys[works_on.key] = before[step.parent] if step.parent else _stamp(step, keys[works_on.key])
        return sha256(json.dumps([step.do, keys], sort_keys=True).encode()).hexdigest()

    def _record(self, step: RecipeStep) -> Record | None:
        """Return the record of a step, None if it has not started."""
        try:
            return Record(**json.loads(self._folder.read(_record_name(step))))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError):
            name = self._folder.at(_record_name(step))
            raise InputError(f"{name} cannot be read: delete it and the step's output to run the step again") from None

    def _known(self, step: RecipeStep) -> Record:
        """Return the record of a step that has one."""
        record = self._record(step)
        assert record is not None
        return record

    def _keep(self, record: Record) -> None:
        """Write the record of a step."""
        self._folder.write(step_record_name(record.step), json.dumps(asdict(record), indent=1).encode())

    def _forget(self, step: RecipeStep) -> None:
        """Delete the output of a step, complete or partial, and its record."""
        if step.output is not None:
            for name in (step.output, f"{step.output}{PARTIAL}", f"{step.output}{BEFORE}"):
                Folder(name).remove("")
        self._folder.remove(_record_name(step))


def refuse(planned: list[Planned]) -> list[Planned]:
    """Raise if a step must not run; otherwise return the plan."""
    for entry in planned:
        if entry.action == "refuse":
            raise InputError(entry.why)
    return planned


def _is_there(output: Folder) -> bool:
    """Whether an output exists; an empty folder does not count."""
    return output.exists() and (output.is_file() or bool(output.names()))


def _record_name(step: RecipeStep) -> str:
    return step_record_name(step.name)


def _stamp(step: RecipeStep, path: str) -> str:
    """Return a hash that identifies the input of a step: names, sizes and times of its files."""
    name = f"{path}/{HEADER}" if step.do not in ("cluster", "graph", "ingest") else path
    filesystem, root = locate(name)
    files = filesystem.find(root, detail=True)
    if not files:
        where = path if "://" in path else os.path.abspath(path)
        raise InputError(f"step {step.name!r} reads {where}, which does not exist")
    # "None" is what records of earlier versions hold where no time is known.
    stamps = [[file.removeprefix(root), info["size"], stamp(info) or "None"] for file, info in sorted(files.items())]
    return sha256(json.dumps(stamps).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
