"""Tables, bars and trees for the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from dask_rac.base.text import size_text

if TYPE_CHECKING:
    import pandas as pd

    from dask_rac.base.events import RoundRecord
    from dask_rac.tree.top import Branch

BAR = 24
MOST_ROUNDS = 24  # with more, those in the middle are left out
MOST_MERGES = 40  # as above, in two halves


def facts(rows: Mapping[str, str]) -> Table:
    """Return names and values as a table."""
    table = Table.grid("name", "value", padding=(0, 2))
    table.columns[0].style = "bold"
    table.columns[0].no_wrap = True
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def rounds(records: Sequence[RoundRecord], things: str) -> Table:
    """Return a table with one row per round, its merges as a bar; `things` are what is between clusters."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for name in ("round", "clusters", things, "merges"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("merges in the round", no_wrap=True)
    most = max((record.merges for record in records), default=1)
    left_out = len(records) - MOST_ROUNDS if len(records) > MOST_ROUNDS else 0
    for place, record in enumerate(records):
        if left_out and MOST_ROUNDS - 5 <= place < len(records) - 5:
            if place == MOST_ROUNDS - 5:
                table.add_row("…", "", "", "", f"{left_out} more rounds")
            continue
        name = "finisher" if record.finisher else str(record.round)
        numbers = (f"{number:,}" for number in (record.clusters, record.edges, record.merges))
        table.add_row(name, *numbers, "█" * max(1, round(BAR * record.merges / most)), style=_style(record))
    return table


def _style(record: RoundRecord) -> str:
    return "cyan" if record.finisher else ""


def costs(table: pd.DataFrame) -> Table:
    """Return what phases, rounds or numbers of machines take, one row each; bytes as people read them."""
    shown = Table(box=None, padding=(0, 1), header_style="bold")
    for name in (str(table.index.name), *table.columns):
        shown.add_column(name.removesuffix("_bytes"), justify="right", no_wrap=True)
    for key, row in zip(table.index, table.to_dict("records"), strict=True):
        shown.add_row(str(key), *(_cost(str(name), value) for name, value in row.items()))
    return shown


def _cost(name: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if name.endswith("_bytes"):
        return size_text(value)
    return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}"


def best_cuts(best: pd.DataFrame, names: Mapping[str, str]) -> Table:
    """Return the best cut by each measure as a table."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    table.add_column("measure", no_wrap=True)
    for name in ("best", "clusters", "height"):
        table.add_column(name, justify="right", no_wrap=True)
    for measure, row in best.iterrows():
        table.add_row(names[str(measure)], f"{row['score']:.4f}", f"{row['n_clusters']:,.0f}", f"{row['height']:.6g}")
    return table


def tree(branches: Sequence[Branch], trees: int) -> Tree:
    """Return the top of the hierarchy."""
    root = Tree("top of the tree" if trees == 1 else f"tops of {len(branches)} of {trees:,} trees")
    waiting = [(branch, root) for branch in reversed(branches)]
    while waiting:
        branch, above = waiting.pop()
        place = above.add(_branch_text(branch))
        waiting += [(child, place) for child in reversed(branch.children)]
    return root


def _branch_text(branch: Branch) -> str:
    if branch.size == 1:
        return f"node {branch.node}"
    return f"{branch.size:,} nodes at {branch.height:.4g}{'' if branch.children else ' …'}"


def path(merges: pd.DataFrame) -> Table:
    """Return a table with one row per merge of a path, those in the middle left out if there are many."""
    table = Table(box=None, padding=(0, 1), header_style="bold")
    for name in ("height", "size", "joined by", "of size"):
        table.add_column(name, justify="right", no_wrap=True)
    named = "joined_name" in merges
    if named:
        table.add_column("name", no_wrap=True)
    half, left_out = MOST_MERGES // 2, len(merges) - MOST_MERGES
    for place, merge in enumerate(merges.to_dict("records")):
        if left_out > 0 and half <= place < len(merges) - half:
            if place == half:
                table.add_row("…", f"{left_out:,} more", "", "")
            continue
        numbers = f"{merge['size']:,}", str(merge["joined"]), f"{merge['joined_size']:,}"
        table.add_row(f"{merge['height']:.6g}", *numbers, *([Text(merge["joined_name"])] if named else []))
    return table
