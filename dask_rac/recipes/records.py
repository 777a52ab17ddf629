"""What is known of the steps of a recipe: one file for each that has started, in the folder of the recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from dask_rac.base.errors import InputError
from dask_rac.base.names import BEFORE, is_temporary, step_record_name
from dask_rac.base.records import decoded, parse_json
from dask_rac.files.folder import Folder
from dask_rac.files.output import replace_file
from dask_rac.recipes.made import Made
from dask_rac.recipes.recipe import RecipeStep


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
    made: Made = field(default_factory=dict)
    """The files of the output; records of earlier versions have none."""
    aside: str | None = None
    """Where the old output is while it is made again."""

    def covers(self, step: RecipeStep) -> bool:
        """Whether this is about the output that the step has now."""
        return bool(self.given.get("output") == step.output)


@dataclass(frozen=True)
class Records:
    """The records of all steps."""

    folder: Folder

    def get(self, step: RecipeStep) -> Record | None:
        """Return the record of a step, None if it has not started."""
        name = step_record_name(step.name)
        try:
            return _decoded(parse_json(self.folder.read(name)))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError, AttributeError, IsADirectoryError):
            raise InputError(
                f"{self.folder.at(name)} cannot be read: delete it and the step's output to run the step again"
            ) from None

    def ours(self, step: RecipeStep) -> Record | None:
        """Return the record of a step if it is about the output that the step has now."""
        record = self.get(step)
        return record if record is not None and record.covers(step) else None

    def known(self, step: RecipeStep) -> Record:
        """Return the record of a step that has one."""
        record = self.get(step)
        assert record is not None
        return record

    def keep(self, record: Record) -> None:
        """Write the record of a step, in place of the one before."""
        replace_file(self.folder, step_record_name(record.step), json.dumps(asdict(record), indent=1).encode())

    def forget(self, step: RecipeStep) -> None:
        """Delete the record of a step."""
        self.folder.remove(step_record_name(step.name))


def _decoded(fields: dict[str, Any]) -> Record:
    """Return a record as it was written; raise unless it is one: what it names may be deleted."""
    made = {name: (size, time, digest) for name, (size, time, digest) in fields.pop("made", {}).items()}
    if not all(list(map(type, file)) == [int, str, str] for file in made.values()):
        raise ValueError("a file is not described by its size, time and digest")
    record = decoded(Record, fields | {"made": made})
    output = record.given.get("output")
    if record.aside is not None and not is_temporary(record.aside, str(output), BEFORE):
        raise ValueError("the old output is not beside the new one")
    return record
