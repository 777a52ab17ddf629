"""The public function that adds edges to a clustering by single linkage."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from os import PathLike
from typing import Any, overload

from dask_rac.base.checks import check_whole, check_word
from dask_rac.base.defaults import setting
from dask_rac.base.errors import InputError
from dask_rac.base.events import Listener
from dask_rac.base.parameters import SETTINGS
from dask_rac.base.settings import Settings
from dask_rac.edges.given_names import open_names
from dask_rac.engines.forest.state import ForestEdges
from dask_rac.files.folder import Folder
from dask_rac.results.clustering import Clustering
from dask_rac.results.stored import StoredClustering, open_result
from dask_rac.runs.begin import begin_run
from dask_rac.runs.extend import extend_edges, total_nodes
from dask_rac.runs.options import PlanOptions, RunOptions, check_options
from dask_rac.show.progress import listener_for
from dask_rac.store.advice import refuse_taken_store
from dask_rac.tasks.client import choose_scheduler


@overload
def extend(
    clustering: Clustering | str | PathLike[str],
    edges: Any,
    *,
    n_nodes: int | None = ...,
    duplicates: str = ...,
    store: None = ...,
    memory: str | float | None = ...,
    shards: int | None = ...,
    client: Any = ...,
    progress: Listener | bool | None = ...,
) -> Clustering: ...


@overload
def extend(
    clustering: Clustering | str | PathLike[str],
    edges: Any,
    *,
    n_nodes: int | None = ...,
    duplicates: str = ...,
    store: str | PathLike[str],
    memory: str | float | None = ...,
    shards: int | None = ...,
    client: Any = ...,
    progress: Listener | bool | None = ...,
) -> StoredClustering: ...


def extend(
    clustering: Clustering | str | PathLike[str],
    edges: Any,
    *,
    n_nodes: int | None = None,
    duplicates: str = "error",
    store: str | PathLike[str] | None = None,
    memory: str | float | None = None,
    shards: int | None = None,
    client: Any = None,
    progress: Listener | bool | None = None,
) -> Clustering:
    """Add edges to a clustering by single linkage, without the edges that it was made of.

    By single linkage only the edges of the minimum spanning forest matter, one per merge, and these are kept with the
    merges. The hierarchy of the old forest and the new edges is that of all edges, the same to the last bit. The given
    clustering does not change.

    Parameters
    ----------
    clustering : Clustering, path or URL
        A finished clustering by single linkage, or the folder of a run.
    edges
        The new edges, in any form that `cluster` accepts. They may lead to new nodes, whose ids continue the old ones.
        An edge that is already there counts with the nearer of its two weights.
    n_nodes : int, optional
        The number of all nodes, if there are more than the largest id implies.
    duplicates : {"error", "min", "max", "mean"}
        What to do with an edge that occurs among the new ones with different weights, as for `cluster`.
    store : path or URL, optional
        A new folder for the result, as for `cluster`. By default the result is computed in memory.
    memory : str or int, optional
        As for `cluster`. Only with `store=`.
    shards : int, optional
        As for `cluster`. Only with `store=`.
    client : distributed.Client, optional
        As for `cluster`.
    progress : callable or bool, optional
        As for `cluster`.

    Returns
    -------
    Clustering
        With `store=`, a `StoredClustering`. `rounds` tells of the new edges only. In `merges`, the round of a merge by
        an old edge is 0. All other columns are those of `cluster` on all edges at once.

    Raises
    ------
    InputError
        If the linkage is not single, the clustering is unfinished or was written by an earlier version, or the edges
        are invalid.
    """
    check_word("duplicates", duplicates, SETTINGS["duplicates"].words)
    for name, value in (("memory", memory), ("shards", shards)):
        if value is not None and store is None:
            raise InputError(f"{name}= is only for runs through the disk: give store= as well, or leave it out")
    place = choose_scheduler(client)
    options = PlanOptions(n_nodes, setting("memory", memory), setting("shards", shards), place)
    check_options(options)
    if store is not None:
        options = RunOptions(**vars(options), store=store)
        refuse_taken_store(Folder(store))
    with listener_for(progress) as report:
        old = clustering if isinstance(clustering, Clustering) else open_result(clustering, report)
        result, loops = _extend(old, edges, _extended_settings(old, duplicates), options, report)
    if loops:
        warnings.warn(
            f"dropped {loops:,} self loop{'s' * (loops != 1)}: a node has no distance to itself", stacklevel=2
        )
    return result


def _extend(
    old: Clustering, edges: Any, settings: Settings, options: PlanOptions, report: Listener
) -> tuple[Clustering, int]:
    """Add edges in memory or through a store; return the result and the number of new self loops."""
    _check_count(old, options.n_nodes)
    nodes = total_nodes(old.n_nodes, edges, settings, options, report)
    if old.names is not None and nodes > old.n_nodes:
        raise InputError(
            f"the nodes of this clustering have names, and the edges lead to {nodes - old.n_nodes:,} new ones, which "
            "have none: cluster all edges at once"
        )
    names = None if old.names is None else open_names(old.names)
    options, forest = replace(options, n_nodes=nodes, names=names), _forest(old)
    if isinstance(options, RunOptions):
        journal = begin_run(edges, settings, options, report, forest)
        result: Clustering = StoredClustering(journal, report, trusted=True)
        loops = journal.facts.loops
    else:
        found = extend_edges(forest, edges, settings, options, report)
        result, loops = Clustering(found, settings, names=old.names), found.loops
    return result, loops


def _extended_settings(old: Clustering, duplicates: str) -> Settings:
    """Return the settings of the result: those of the clustering, whose pairs become the edges of a graph."""
    settings = old._settings
    if settings.linkage != "single":
        raise InputError(
            f"edges can be added by single linkage only, and this clustering is by {settings.linkage} linkage, where a "
            "new edge may change any merge: cluster all edges at once; for new points see assign()"
        )
    return replace(settings, duplicates=duplicates, metric="")  # type: ignore[arg-type]


def _check_count(old: Clustering, n_nodes: int | None) -> None:
    """Raise if there would be fewer nodes than before."""
    if n_nodes is not None:
        check_whole("n_nodes", n_nodes, 0)
        if n_nodes < old.n_nodes:
            raise InputError(
                f"n_nodes={n_nodes} is less than the {old.n_nodes:,} nodes of the clustering: leave it out"
            )


def _forest(old: Clustering) -> Iterator[ForestEdges]:
    """Return the spanning forest of a clustering in parts, whose smaller weights are nearer."""
    old._require_finished()
    rest = old._forest_parts()
    first = list(islice(rest, 1))  # raises now if there is no forest
    sign = old._settings.sign
    return (ForestEdges(part["source"], part["target"], sign * part["height"]) for part in chain(first, rest))
