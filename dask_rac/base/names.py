"""Every name on disk: of stores, graphs, outputs and recipes.

Numbers in names have leading zeros, so that names sort by them. What a task writes ends in a few random characters: a
task that runs twice writes to two places, and the manifest names the one that counts.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable

from dask_rac.base.text import quoted

# Anywhere

UNFINISHED = ".new"  # suffix of a file of ours that is still being written
PARTIAL = ".partial"  # suffix of an output that is still being written, on a local disk
INCOMPLETE = "_incomplete"  # is in a folder on an object store until all its files are there
LOCK = "lock"  # held by the process that works on a local folder
RECORD = ".json"  # suffix of records


def refuse_names(names: Iterable[str], *folders: str) -> None:
    """Raise ValueError unless all names, which a record holds, are of files in one of the folders of a store."""
    for name in names:
        first, *rest = name.split("/")
        if first not in folders or not rest or {"", ".", ".."} & set(rest) or "\0" in name:
            raise ValueError(f"{quoted(name)} is not a file of a store")


def unique(name: str) -> str:
    """Return a name that no other task, attempt or process uses."""
    return f"{name}-{uuid.uuid4().hex[:8]}"


def temporary_name(name: str, ending: str = UNFINISHED) -> str:
    """Return a name beside another that nothing has and that cannot be foreseen."""
    return f"{name}.{uuid.uuid4().hex[:8]}{ending}"


def is_temporary(name: str, of: str = "", ending: str = UNFINISHED) -> bool:
    """Whether `temporary_name` gave this name, for the name `of` or for any."""
    before = re.escape(of) if of else r".+"
    return re.fullmatch(rf"{before}\.[0-9a-f]{{8}}{re.escape(ending)}", name) is not None


# Stores

HEADER = "rac.json"  # what a run computes, and from what
MANIFESTS = "manifests"  # one file for each step: the file is the commit
ROUNDS = "rounds"  # one folder for each attempt at a step: states, and what goes between tasks
MERGES = "merges"  # Parquet files, which stay
TREE = "tree"  # edges of the spanning forest of single linkage
STATISTICS = "statistics"  # what each round did, for others to look at
INPUT = "input"  # the folder for the partitions of a Dask DataFrame, until they are read
NAMES = "names"  # the names of nodes, which stay
VECTORS = "vectors"  # the folder for vectors that are not on disk, or for those that differ
NEAR = "near"  # the graph of near pairs of vectors

STORE_FOLDERS = (MANIFESTS, ROUNDS, MERGES, STATISTICS, TREE, INPUT, NAMES)
"""Folders of a store, in which anything with a name of ours that no manifest names is deleted."""
PAIRS_FOLDERS = (VECTORS, NEAR, f"{NEAR}.partial")
"""Folders of a store that are deleted as a whole once no state needs them."""
STORE_NAMES = (HEADER, LOCK, *STORE_FOLDERS, *PAIRS_FOLDERS)
"""All that a run writes to its folder."""

_ATTEMPT = r"\d{5,}-[0-9a-f]{8}"
_GIVEN = r"given-[0-9a-f]{8}"
_OURS = {
    "": re.escape(HEADER),
    MANIFESTS: r"\d{5,}\.json",
    ROUNDS: rf"(verify-)?{_ATTEMPT}",
    MERGES: rf"{_ATTEMPT}-{_ATTEMPT}\.parquet",
    STATISTICS: r"\d{5,}\.json",
    TREE: _ATTEMPT,
    INPUT: r"partition-\d{5,}\.parquet",
    NAMES: rf"{_GIVEN}|{_ATTEMPT}",
}


def is_ours(folder: str, name: str) -> bool:
    """Whether a run gives such a name, complete or not, in this folder of its store."""
    complete = name[: -len(f".12345678{UNFINISHED}")] if is_temporary(name) else name
    return re.fullmatch(_OURS[folder], complete) is not None


COUNTED = "counted"  # how often ids of each bin occur
ROUTED = "routed"  # edges of the input, by pair of shards or by group of shards
SORTED = "sorted"  # the edges of a group, by shard
COMPONENT = "component"  # the component of each node, in single linkage
ARRANGED = "arranged"  # the new position of each cluster, for good merges
TALLY = "tally"  # what a part of an audit has added up
WANTED = "wanted"  # is in the folder of an audit as long as a process waits for its tallies


def step_name(step: int) -> str:
    """Return what the names of all that a step writes begin with."""
    return f"{step:05d}"


def manifest_name(step: int) -> str:
    """Return the file that commits a step."""
    return f"{MANIFESTS}/{step_name(step)}{RECORD}"


def statistics_name(round_: int) -> str:
    """Return the file with the record of a round."""
    return f"{STATISTICS}/{round_:05d}{RECORD}"


def attempt_name(step: int) -> str:
    """Return a name for an attempt at a step."""
    return unique(step_name(step))


def attempt_folder(attempt: str) -> str:
    """Return the folder for what an attempt writes."""
    return f"{ROUNDS}/{attempt}"


def merges_name(attempt: str, number: int) -> str:
    """Return a file for some merges of an attempt."""
    return f"{unique(f'{MERGES}/{attempt}-{number:05d}')}.parquet"


def tree_name(attempt: str) -> str:
    """Return a group for the edges of the spanning forest that an attempt finds; it outlives their round."""
    return unique(f"{TREE}/{attempt}/tree")


def shard_name(number: int) -> str:
    """Return the group of a shard, in the folder of its attempt."""
    return f"shard-{number:05d}"


def moved_name(group: int, number: int) -> str:
    """Return the group of the rows that a shard sends to a group of others, in the folder of the attempt."""
    return f"moved-{group}-{number:05d}"


def gathered_name(group: int, batch: int) -> str:
    """Return the file of the rows that a batch of shards sends to a group of others, in the folder of the attempt."""
    return f"gathered-{group:05d}-{batch:05d}"


def copied_name(column: str, batch: int) -> str:
    """Return the file of a column of the clusters of a batch of shards, in the folder of the attempt."""
    return f"copied-{column}-{batch:05d}"


def became_name(number: int) -> str:
    """Return the group of what became of the clusters of a shard by good merges, in the folder of the attempt."""
    return f"became-{number:05d}"


def united_name(number: int) -> str:
    """Return the group of their rows."""
    return f"united-{number:05d}"


def candidates_name(number: int) -> str:
    """Return the group of the edges that a shard proposes, in the folder of the attempt."""
    return f"candidates-{number:05d}"


def partition_name(number: int) -> str:
    """Return the file of a partition of a Dask DataFrame."""
    return f"{INPUT}/partition-{number:05d}.parquet"


NUMBERED = "numbered"  # edges whose ids were text, in the folder of an attempt
PIECE = "piece"  # some of these edges with their own names
RANGE = "range"  # the numbers of the names in a range


def names_folder(attempt: str) -> str:
    """Return the folder for the names that an attempt finds in the edges."""
    return f"{NAMES}/{attempt}"


def given_names_folder() -> str:
    """Return a folder for names that are known before the edges are read; the header of the store records them."""
    return unique(f"{NAMES}/given")


def is_given(name: str) -> bool:
    """Whether names in such a folder were known before the edges were read."""
    return re.fullmatch(_GIVEN, name) is not None


def names_part(folder: str, number: int) -> str:
    """Return the group for the names of some successive nodes."""
    return f"{folder}/part-{number:05d}"


# Files of edges

EDGE_NAMES = "_names"  # the folder for the names of nodes; readers of Parquet ignore it
NAMES_RECORD = f"{EDGE_NAMES}/record.json"  # the parts of these names
SHUFFLED = "_shuffled"  # the folder for edges that are being numbered
PARQUET_ENDINGS = (".parquet", ".parq", ".pq")
NODES_KEY = b"dask_rac.nodes"  # the number of nodes, in the metadata of Parquet files
WEIGHTS_KEY = b"dask_rac.weights"  # distance or similarity, likewise
EDGES_FACTS = "_edges.json"  # how many edges and files a complete folder of them holds


def part_name(number: int, digits: int = 5) -> str:
    """Return a file of edges in a folder."""
    return f"part-{number:0{digits}}.parquet"


# Graphs of vectors: beside the files of edges

GRAPH_FACTS = "_graph.json"  # what is known of the finished graph
WORK = "work"  # what tasks leave for each other, until the graph is finished
GRAPH_HEADER = f"{WORK}/header.json"  # the vectors and the requested graph

# Recipes


BEFORE = ".before"  # suffix of the old output while it is made again
STEPS = "steps"  # one file for each step that has started


def step_record_name(step: str) -> str:
    """Return the file that records what a step of a recipe did."""
    return f"{STEPS}/{step}{RECORD}"
