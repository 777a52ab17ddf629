"""What the steps that work on a run have in common: what is known of the run before it exists."""

from __future__ import annotations

from dask_rac.base.text import size_text
from dask_rac.files.folder import Folder
from dask_rac.files.urls import full_name
from dask_rac.recipes.kinds.kind import Forecast, StepInput
from dask_rac.store.header import read_header
from dask_rac.store.manifest import read_chain

RUN = StepInput("run", ("cluster",))


def known_run(path: str, before: Forecast | None) -> Forecast:
    """Return what is known of a run that may not have started."""
    if before is not None and before.nodes is not None:
        return before
    folder = Folder(path)
    if not folder.exists():
        return Forecast("")
    read_header(folder)
    chain = read_chain(folder)
    facts = chain[0].facts if chain else None
    return Forecast("", facts.nodes, facts.edges, bytes=facts.input_bytes) if facts else Forecast("")


def names_input(path: str, given: str | None) -> bool:
    """Whether the input that a run names is that which the recipe names: then its user has named it."""
    return given is not None and read_header(Folder(path)).source == full_name(given)


def at_most(known: Forecast, node_bytes: int) -> Forecast:
    """Forecast an output of the given bytes per node."""
    if known.nodes is None:
        return Forecast("known later")
    size = node_bytes * known.nodes
    return Forecast(f"{size_text(size)} at most", known.nodes, bytes=size)
