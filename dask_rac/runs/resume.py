"""Resume a stored run from its newest sound step."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from os import PathLike

from dask_rac.base.defaults import setting
from dask_rac.base.errors import InputError, ResourceError, StoreError
from dask_rac.base.events import Event, Listener
from dask_rac.base.names import STORE_NAMES, manifest_name
from dask_rac.edges.source import EdgeSource, open_edges
from dask_rac.engines.warmup import compile_kernels, compile_pair_kernels
from dask_rac.files.folder import Folder
from dask_rac.files.links import refuse_links
from dask_rac.files.listing import files_fingerprint
from dask_rac.files.urls import explained
from dask_rac.kernels.jit import compiling
from dask_rac.runs.begin import run_to_end
from dask_rac.runs.loop import StoredRun
from dask_rac.runs.options import PlanOptions
from dask_rac.store.advice import resumable
from dask_rac.store.cleanup import clean_store, intact_end, newest_sound
from dask_rac.store.header import Header, check_source, check_trusted, is_elsewhere, read_header
from dask_rac.store.journal import Journal
from dask_rac.store.manifest import Manifest, read_chain
from dask_rac.tasks.budget import SHARE, Budget
from dask_rac.tasks.client import choose_scheduler
from dask_rac.tasks.scheduler import Scheduler


def resume_run(
    path: str | PathLike[str], options: PlanOptions, report: Listener, trust_source: bool = False
) -> Journal:
    """Finish the run in a store; `trust_source` allows to contact another server, if the store names one."""
    store = Folder(path)
    refuse_links(store, STORE_NAMES)
    header = read_header(store)
    scheduler = choose_scheduler(options.client)
    chain = intact_end(store)
    if not chain:
        with store.locked() as held, resumable(store):
            budget = _budget(scheduler, options, header)
            run = StoredRun(store, header, scheduler, budget, report, options.limits, exclusive=held)
            _continue(run, trust_source)
            chain = run.chain
    else:
        _tidy(store, chain)
    journal = Journal(store, header, chain)
    report(Event("done", journal.facts.nodes, journal.merged))
    return journal


def _budget(scheduler: Scheduler, options: PlanOptions, header: Header) -> Budget:
    """Return what the run may use: what is given now, what it was given when it began, or the default.

    What it was given may be more than this machine or these workers have; then it is the default, too.
    """
    default = scheduler.budget(setting("memory", options.memory))
    if options.memory is not None or header.memory is None or header.memory > scheduler.budget(None).memory / SHARE:
        return default
    with suppress(ResourceError):
        return scheduler.budget(header.memory)
    return default


def _tidy(store: Folder, chain: list[Manifest]) -> None:
    """Delete what a finished run has left, unless others use the store, or the disk is read-only.

    Before the lock was held, another process may have taken steps back and done them again.
    """
    with suppress(StoreError, OSError), store.locked() as held:
        if read_chain(store) == chain:
            store.flush([manifest_name(chain[-1].step)])
            clean_store(store, chain, (), everything=held)


def _continue(run: StoredRun, trust_source: bool) -> None:
    """Run to the end from the newest intact step."""
    store, header = run.store, run.header
    with explained(store.url):
        run.adopt(newest_sound(store, edges=header.source is not None))
    if header.settings.metric:
        _continue_pairs(run, trust_source)
        return
    source = None
    if header.source is not None and (not run.chain or run.chain[-1].state is not None):
        source = _input_again(run, trust_source)
    if not run.chain and source is None:
        raise StoreError(
            f"{store.url} was stopped before its edges were read, and they were not on disk: start a new run in "
            "another folder"
        )
    with compiling(partial(run.report, Event("compile"))):
        compile_kernels("int32", run.header.settings.epsilon > 0)
    with explained(store.url):
        run.scheduler.check(store, source if not run.chain else None, run.budget)
        run.clean_attempt()
    run_to_end(run, source)


def _continue_pairs(run: StoredRun, trust_source: bool) -> None:
    """Run on all pairs to the end; by the matrix engine such a run is one step, and begins again."""
    store, header = run.store, run.header
    if run.chain and run.chain[-1].state is None:
        return
    if header.source is None and not run.chain:
        raise StoreError(
            f"{store.url} was stopped before anything was written, and its vectors or distances were not on disk: "
            "start a new run in another folder"
        )
    if header.source is not None:
        if not trust_source:
            check_trusted(store, header.source)
        check_source(header, header.source, files_fingerprint(header.source))
    with compiling(partial(run.report, Event("compile"))):
        compile_pair_kernels()
    with explained(store.url):
        run.scheduler.check(store, None, run.budget)
        run.clean_attempt()
    run.go(header.source)


def _input_again(run: StoredRun, trust_source: bool) -> EdgeSource | None:
    """Open the edges of a resumed run, which must be unchanged, but may be gone once they have been read."""
    header, needed = run.header, not run.chain
    assert header.source is not None
    if not trust_source and is_elsewhere(run.store, header.source):
        if needed:
            check_trusted(run.store, header.source)
        return None
    try:
        source = open_edges(header.source)
    except InputError:
        if needed:
            raise
        return None
    check_source(header, source.name, source.fingerprint)
    return source
