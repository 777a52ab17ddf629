"""Runs recipes: each step once, what is done is skipped when the recipe is run again.

A step leaves `steps/<name>.json` in the folder of the recipe: what it was told, when it began and ended, and its
fingerprint, made of everything that changes its result. A step with the same fingerprint whose output is there is
skipped; one that was stopped goes on, or is done again; one that was done differently is an error, as nothing that is
there is ever replaced unless the user says from which step on.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from time import perf_counter
from typing import Any, Literal

from dask_rac import __version__
from dask_rac.actions import CHECKS, DOES
from dask_rac.clusters import check_spec, connected
from dask_rac.config import check_kind
from dask_rac.defaults import setting
from dask_rac.errors import InputError
from dask_rac.forecast import Forecast, forecast
from dask_rac.recipe import Recipe, Step
from dask_rac.schema import STEPS
from dask_rac.store.files import Folder
from dask_rac.store.manifest import HEADER
from dask_rac.store.urls import locate
from dask_rac.vectors.metrics import checked_metric

Action = Literal["do", "resume", "skip", "again", "refuse"]
Tell = Callable[[str], None]

GOES_ON = ("cluster", "graph")  # steps that go on where they were stopped
BEFORE = ".before"  # ends the name of an output while it is made again


@dataclass(frozen=True)
class Record:
    """What is known of a step that has begun."""

    step: str
    do: str
    given: Mapping[str, Any]
    fingerprint: str
    begun: str
    finished: str | None = None
    seconds: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What came out, in few words and numbers."""
    version: str = __version__


@dataclass(frozen=True)
class Planned:
    """What is to become of a step."""

    step: Step
    action: Action
    why: str
    fingerprint: str
    forecast: Forecast


class Runner:
    """A recipe on its way."""

    def __init__(self, recipe: Recipe, tell: Tell, watch: Callable[[str], Any]) -> None:
        """`tell` gets a line now and then, `watch` gives a context whose value is told of a step's progress."""
        self.recipe = recipe
        self._tell, self._watch = tell, watch
        self._folder = Folder(recipe.folder)
        self._base = recipe.path.rpartition("/")[0]
        self._tls = bool(setting("require-tls", recipe.require_tls))

    def check(self) -> None:
        """Raise if any step is told what it cannot do; nothing has started then."""
        for spec in {self._place(step) for step in self.recipe.steps}:
            check_spec(spec, self._base, self._tls)
        graphs = {step.name: step.given["metric"] for step in self.recipe.steps if step.do == "graph"}
        for step in self.recipe.steps:
            try:
                if step.do in CHECKS:
                    CHECKS[step.do](step.given)
                if step.do == "cluster" and step.parent in graphs:
                    check_kind(checked_metric(graphs[step.parent]).weights, step.given["weights"])
            except InputError as error:
                raise InputError(f"{self.recipe.path}, line {step.line}: step {step.name!r}: {error}") from error

    def plan(self, start: str | None = None) -> list[Planned]:
        """What a run would do with each step, those from `start` on anew."""
        again = False
        prints: dict[str, str] = {}
        planned: list[Planned] = []
        forecasts: dict[str, Forecast] = {}
        fresh: set[str | None] = set()
        for step in self.recipe.steps:
            again = again or step.name == start
            prints[step.name] = mark = self._fingerprint(step, prints)
            action, why = self._action(step, mark, again)
            if step.do == "verify" and action == "skip" and step.parent in fresh:
                action, why = "do", "its run is new"
            if action != "skip":
                fresh.add(step.name)
            seen = forecast(step.do, step.given, forecasts.get(step.parent or ""), self._place(step))
            forecasts[step.name] = seen
            planned.append(Planned(step, action, why, mark, seen))
        return planned

    def run(self, start: str | None = None) -> Iterator[tuple[Planned, Record]]:
        """Do what is to be done; gives each step with its record when it is done or found done."""
        refuse(self.plan(start))
        if self._folder.local:
            self._folder.filesystem.makedirs(self._folder.path, exist_ok=True)
        with self._folder.locked(), ExitStack() as places:
            planned = refuse(self.plan(start))
            clients: dict[str, Any] = {}
            for one in planned:
                if one.action == "skip":
                    yield one, self._known(one.step)
                    continue
                place = self._place(one.step)
                if place not in clients and "scheduler" in STEPS[one.step.do]:
                    opened = connected(place, base=self._base, require_tls=self._tls, tell=self._tell)
                    clients[place] = places.enter_context(opened)
                yield one, self._do(one, clients.get(place))

    def _do(self, one: Planned, client: Any) -> Record:
        """Do a step, and keep a record of it."""
        step = one.step
        if self._left_over(one):
            self._forget(step)
        record = Record(step.name, step.do, step.given, one.fingerprint, _now())
        began = perf_counter()
        with self._watch(f"step {step.name}") as report, self._named(step), self._aside(one):
            self._keep(record)
            facts = DOES[step.do](step.given, client, report)
        seconds = round(perf_counter() - began, 3)
        record = Record(**{**asdict(record), "finished": _now(), "seconds": seconds, "facts": facts})
        self._keep(record)
        if step.output is not None and self._folder.local:
            Folder(f"{step.output}{BEFORE}").remove("")  # left where doing it again was killed, and went on
        return record

    def _left_over(self, one: Planned) -> bool:
        """Whether a step has left something that it cannot go on with."""
        record = self._record(one.step)
        ours = record is not None and record.given.get("output") == one.step.output
        return ours and (one.action == "do" or (one.action == "resume" and one.step.do not in GOES_ON))

    @contextmanager
    def _aside(self, one: Planned) -> Iterator[None]:
        """Keep what a step made before until it has made it again; if it cannot, that is put back.

        A run that has begun can go on, and stays. On object stores, where to move is to copy, it is deleted at once.
        """
        step, record = one.step, self._record(one.step)
        if one.action != "again" or step.output is None or record is None:
            yield
            return
        made, kept = Folder(step.output), Folder(f"{step.output}{BEFORE}")
        kept.remove("")
        Folder(f"{step.output}.partial").remove("")
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
    def _named(self, step: Step) -> Iterator[None]:
        """Say in which step something went wrong."""
        try:
            yield
        except KeyboardInterrupt as stopped:
            stopped.__notes__ = [f"in step {step.name!r}; go on with dask_rac.run({self.recipe.path!r})"]
            raise
        except Exception as error:
            error.add_note(f"step {step.name!r}")
            raise

    def _place(self, step: Step) -> str:
        """Where a step runs."""
        place: str = setting("scheduler", step.given.get("scheduler") or self.recipe.scheduler)
        return place

    def _action(self, step: Step, mark: str, again: bool) -> tuple[Action, str]:
        """What to do with a step, and why."""
        record, there = self._record(step), step.output is not None and _is_there(Folder(step.output))
        ours = record is not None and record.given.get("output") == step.output
        if again and ours:
            return "again", f"{step.output} is replaced" if there else "asked for"
        if record is None or not ours:
            if there:
                return "refuse", (
                    f"{step.output} is there, and step {step.name!r} has not made it: nothing is written over, so move "
                    "it away, or choose another output: or folder:"
                )
            return "do", "new"
        if record.fingerprint != mark:
            return ("refuse", self._difference(step, record)) if there else ("do", "changed")
        if record.finished and (there or step.output is None):
            return "skip", f"done {record.finished.replace('T', ' ').replace('+00:00', ' UTC')}"
        return ("resume", "was stopped") if not record.finished else ("do", "its output is gone")

    def _difference(self, step: Step, record: Record) -> str:
        """What to say of a step that was done differently."""
        now = {name: step.given[name] for name, key in STEPS[step.do].items() if key.result}
        changed = [
            f"{name} was {record.given.get(name)!r}, is {value!r}"
            for name, value in now.items()
            if name != "output" and record.given.get(name) != value
        ] or ["what it works on has changed"]
        return (
            f"step {step.name!r} has changed since {step.output} was made ({'; '.join(changed)}): run with --from "
            f"{step.name} to replace that and all that follows, or choose another output: or folder:"
        )

    def _fingerprint(self, step: Step, before: Mapping[str, str]) -> str:
        """What tells the result of a step from any other."""
        told = {name: step.given[name] for name, key in STEPS[step.do].items() if key.result and name != "output"}
        works_on = next((key for key in ("vectors", "edges", "run") if key in told), None)
        if works_on is not None:
            told[works_on] = before[step.parent] if step.parent else _stamp(step, told[works_on])
        return sha256(json.dumps([step.do, told], sort_keys=True).encode()).hexdigest()

    def _record(self, step: Step) -> Record | None:
        """What is known of a step."""
        try:
            return Record(**json.loads(self._folder.read(_record_name(step))))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError):
            name = self._folder.at(_record_name(step))
            raise InputError(f"{name} cannot be read: delete it, and the step's output, to do the step again") from None

    def _known(self, step: Step) -> Record:
        """The record of a step that has one."""
        record = self._record(step)
        assert record is not None
        return record

    def _keep(self, record: Record) -> None:
        """Write down what is known of a step."""
        self._folder.write(f"steps/{record.step}.json", json.dumps(asdict(record), indent=1).encode())

    def _forget(self, step: Step) -> None:
        """Delete what a step has made, whole or in part, and the record of it."""
        if step.output is not None:
            for name in (step.output, f"{step.output}.partial", f"{step.output}{BEFORE}"):
                Folder(name).remove("")
        self._folder.remove(_record_name(step))


def refuse(planned: list[Planned]) -> list[Planned]:
    """Raise if a step must not be done."""
    for one in planned:
        if one.action == "refuse":
            raise InputError(one.why)
    return planned


def _is_there(output: Folder) -> bool:
    """Whether a step has left something; an empty folder is nothing."""
    return output.exists() and (output.is_file() or bool(output.names()))


def _record_name(step: Step) -> str:
    return f"steps/{step.name}.json"


def _stamp(step: Step, path: str) -> str:
    """What tells what a step is given from anything else: names, sizes and times of its files."""
    name = f"{path}/{HEADER}" if step.do not in ("cluster", "graph", "ingest") else path
    filesystem, root = locate(name)
    files = filesystem.find(root, detail=True)
    if not files:
        where = path if "://" in path else os.path.abspath(path)
        raise InputError(f"step {step.name!r} works on {where}, which does not exist")
    stamps = [
        [file.removeprefix(root), info["size"], str(info.get("mtime") or info.get("ETag") or info.get("LastModified"))]
        for file, info in sorted(files.items())
    ]
    return sha256(json.dumps(stamps).encode()).hexdigest()


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
