"""The loop of a run with a store: begin, then step after step, each committed; resume from any of them.

The loop is the journal's half of a run. What a step computes is its engine's (`engines.contract`); when a step counts,
which states stay on disk, and what to say when something stops it, is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import islice
from time import monotonic, perf_counter
from typing import Any

from dask_rac.base.errors import DamagedStoreError, ResourceError, StoppedError, StoreError, StoreInUseError
from dask_rac.base.events import Event, Listener, RoundRecord
from dask_rac.base.names import MANIFESTS, MERGES, ROUNDS, TREE
from dask_rac.engines import engine_for
from dask_rac.engines.contract import Limits, Step, Work
from dask_rac.files.folder import Folder
from dask_rac.files.full import disk_full_text, is_disk_full
from dask_rac.files.stored_names import NamesRecord
from dask_rac.files.trouble import is_trouble, trouble_text
from dask_rac.store import manifest as manifests
from dask_rac.store.cleanup import clean_store
from dask_rac.store.header import Header
from dask_rac.store.journal import Journal
from dask_rac.store.manifest import Facts, Manifest, State
from dask_rac.store.statistics import write_statistics
from dask_rac.tasks.budget import Budget
from dask_rac.tasks.scheduler import Scheduler

NEXT = 1.4  # of a state's bytes: the most that the next one and the rows that move take, as a rule
RECENT = 16  # rounds whose records an engine gets


@dataclass
class StoredRun:
    """A run in progress."""

    store: Folder
    header: Header
    scheduler: Scheduler
    budget: Budget
    report: Listener
    limits: Limits = field(default_factory=Limits)
    chain: list[Manifest] = field(default_factory=list)
    exclusive: bool = False
    """Whether this process holds the lock of the store."""
    names: NamesRecord | None = None
    """The names that were found in the edges, for the first step to commit."""
    beside: int = 0
    """Bytes on disk that the first step reads besides the input: edges that were numbered for it."""
    _flushed: int = -1
    """The newest step that survives a power failure."""
    _flushed_at: float = field(default_factory=monotonic)
    _began: float = field(default_factory=perf_counter)
    _before: float = 0.0
    _attempt: str = ""

    def go(self, given: Any = None) -> None:
        """Run to the end, from wherever the store is; `given` are the edges, if they have not been read yet."""
        self._before = self.chain[-1].seconds if self.chain else 0.0
        if not self.chain:
            in_memory = self.header.source is None
            with not_resumable(self.store) if in_memory else nullcontext(), self.explained():
                work = self._work()
                self._commit(engine_for(self.header.settings, self.header.engine).begin(given, work), work)
        if len(self.chain) == 1:
            self.report(Event("rounds", self.facts.nodes))
        while (state := self.chain[-1].state) is not None:
            with self.explained():
                self._advance(state)

    def adopt(self, chain: list[Manifest]) -> None:
        """Go on after these steps. From now on the last one survives a power failure, whichever process wrote it."""
        self.chain = chain
        if chain:
            self.store.flush((*_merge_names(chain[:-1]), *manifests.file_names(chain[-1]), MERGES, MANIFESTS))
            self._flushed, self._flushed_at = chain[-1].step, monotonic()

    def _advance(self, state: State) -> None:
        """One step further."""
        began, work = perf_counter(), self._work()
        step = engine_for(self.header.settings, state.engine or self.header.engine).advance(state, work)
        self._commit(step, work)
        if step.event is not None:
            self.report(replace(step.event, seconds=perf_counter() - began, bytes=sum(work.bytes.values())))

    @property
    def facts(self) -> Facts:
        """What was found out when the edges were read."""
        return self.chain[0].facts

    @property
    def journal(self) -> Journal:
        """What has been committed."""
        return Journal(self.store, self.header, self.chain)

    def _work(self) -> Work:
        """What the engine gets for the next step."""
        work = Work(
            self.store,
            self.header,
            self.scheduler,
            self.budget,
            self.report,
            self.limits,
            len(self.chain),
            self.facts if self.chain else None,
            self.journal.merged,
            *self._last_records(),
        )
        self._attempt = work.attempt
        return work

    def _last_records(self) -> tuple[RoundRecord | None, list[RoundRecord]]:
        """What the last round did, and the last few."""
        newest = (record for manifest in reversed(self.chain) for record in reversed(manifest.records))
        recent = list(islice(newest, RECENT))[::-1]
        return (recent[-1] if recent else None), recent

    def _commit(self, step: Step, work: Work) -> None:
        """Make a step count, then delete what is no longer needed."""
        number = len(self.chain)
        disk = self._disk() + step.scratch + _step_bytes(step) + (0 if number else self.beside)
        facts = self.facts if self.chain else step.facts
        assert facts is not None
        manifest = Manifest(
            number,
            manifests.parent_digest(self.store, number),
            facts,
            step.state,
            step.merges,
            step.records,
            peak_disk=max([disk, *(manifest.peak_disk for manifest in self.chain)]),
            seconds=round(self._before + perf_counter() - self._began, 3),
            phases=work.seconds,
            traffic=work.bytes,
            names=None if number else self.names,
        )
        durable = self._flush_is_due(manifest)
        if durable:
            self.store.flush((*_merge_names(self.chain[self._flushed + 1 :]), *manifests.file_names(manifest), MERGES))
            self._flushed_at = monotonic()
        for record in step.records:
            write_statistics(self.store, record)
        if not manifests.commit(self.store, manifest):
            raise self._overtaken()
        self.chain.append(manifest)
        self._flushed = number if durable else self._flushed
        self.clean()

    def _flush_is_due(self, manifest: Manifest) -> bool:
        """Whether a step must survive a power failure before it counts.

        The first must, every minute of work one must, and the last; and any whose state cannot be beside the state that
        does survive, which is deleted then.
        """
        if not self.store.local or self._flushed < 0 or manifest.state is None:
            return True
        waited = monotonic() - self._flushed_at >= self.limits.durable_seconds
        return waited or not self._room_for([*self._states({self._flushed}), manifest.state])

    def clean(self) -> None:
        """Delete everything that no step needs any more."""
        clean_store(self.store, self.chain, self._kept())

    def _kept(self) -> list[State]:
        """Return the states that stay: the last, the one that survives a power failure, and if there is room a third.

        That is the one before the last: should a file be damaged, one step is lost.
        """
        if not self.chain or self.chain[-1].state is None:
            return []
        last = len(self.chain) - 1
        needed, wanted = self._states({self._flushed, last}), self._states({self._flushed, max(0, last - 1), last})
        return wanted if self._room_for(wanted) else needed

    def _states(self, steps: set[int]) -> list[State]:
        """Return the states after some steps, in order."""
        return [state for step in sorted(steps) if (state := self.chain[step].state)]

    def _room_for(self, states: Sequence[State]) -> bool:
        """Whether states may be on disk while the next one is written."""
        room = max(self.limits.disk_share * self.facts.input_bytes, self.limits.small_states)
        return _state_bytes(states) + NEXT * states[-1].bytes <= room

    def _disk(self) -> int:
        """Return the bytes of all committed files in the store."""
        names = [self.header.names, self.chain[0].names if self.chain else self.names]
        merges = sum(table.bytes for manifest in self.chain for table in manifest.merges)
        return merges + _state_bytes(self._kept()) + sum(record.bytes for record in names if record is not None)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Explain what to do about a full or failing disk, or about another run in the same store."""
        try:
            yield
        except BrokenPipeError:  # of the function that reports progress
            raise
        except (OSError, DamagedStoreError) as error:
            committed = manifests.count_manifests(self.store) > len(self.chain)
            if committed and not self._has_committed():
                raise self._overtaken() from error
            if not is_disk_full(error):
                if isinstance(error, OSError) and is_trouble(error):
                    raise StoreError(trouble_text(self.store.url, error)) from error
                raise
            if not committed:
                self.clean_attempt()
            remedy = f"make room, then resume with dask_rac.resume({self.store.url!r})"
            raise StoppedError(disk_full_text(self.store.url, remedy)) from error

    def _has_committed(self) -> bool:
        """Whether this run has committed the step, although flushing the manifest's name failed afterwards."""
        later = manifests.read_chain(self.store)[len(self.chain) :]
        return any(self._attempt in name for step in later[:1] for name in manifests.file_names(step))

    def _overtaken(self) -> StoreInUseError:
        """Another run has done this step: delete what this one has written, and say so."""
        for folder in (ROUNDS, MERGES, TREE):
            for name in self.store.names(folder):
                if self._attempt and name.startswith(self._attempt):
                    self.store.remove(f"{folder}/{name}")
        return StoreInUseError(f"{self.store.url}: another run has already done step {len(self.chain)}; this one stops")

    def clean_attempt(self) -> None:
        """Delete what steps that were not committed have written, where no other process can be working on one."""
        if self.exclusive:
            clean_store(self.store, self.chain, self._kept(), everything=True)


@contextmanager
def not_resumable(store: Folder) -> Iterator[None]:
    """Do not advise to resume what only the memory of this process holds."""
    try:
        yield
    except StoppedError as error:
        full = is_disk_full(error.__cause__)
        raise ResourceError(disk_full_text(store.url, "make room and start again") if full else str(error)) from error


def _merge_names(steps: Sequence[Manifest]) -> list[str]:
    """Return the files of the merges of some steps."""
    return [table.name for step in steps for table in step.merges]


def _step_bytes(step: Step) -> int:
    """Return the bytes of what a step has written and keeps."""
    return sum(table.bytes for table in step.merges) + (step.state.bytes if step.state else 0)


def _state_bytes(states: Sequence[State]) -> int:
    """Return the bytes of states on disk; some share arrays."""
    return sum({file.name: file.bytes for state in states for file in state.arrays}.values())
