"""Messages for callers of the library, turned into those for users of the command line and of recipes."""

from __future__ import annotations

import ast
import re
import shlex

TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
CALL = re.compile(rf"dask_rac\.(resume|open|run|ingest)\(({TEXT})(, 'edges')?\)")
NAMES = (
    "linkage|missing|weights|max_height|n_nodes|n_clusters|height|duplicates|memory|shards|join|zero|nodes|degree|seed|"
    "columns|delimiter|header|store|path|kind|k|eps|metric|mode|method|dimensions|terms|length|topics"
)
KEYWORD = re.compile(  # what is quoted is the user's, and so is what is part of a path
    rf"(?<!\w)(?:{TEXT})|(?<![\w/.,=-])({NAMES})=(?:'([^']*)'|\(([^)]*)\)|(True|False)|([\w.+-]*\w))?"
)
COMMANDS = {"open": "info"}
"""What a command is called where the function has another name."""

OPTIONS = {"n_clusters": "--clusters", "store": "-o", "path": "-o"}
KEYS = {"n_clusters": "clusters", "store": "output", "path": "output"}
"""Options and keys of recipes where the argument has another name."""

PHRASES = {
    "columns=(..., ..., None)": "--no-weights",
    "header=False": "--no-header",
    "overwrite=True": "--overwrite",
    "to_scipy(join=True)": "--join",
    "with cut()": "with `dask-rac cut`",
    "verify(edges)": "--edges",
    "with graph=dict(k=15) or knn_graph": "with `dask-rac graph knn`",
}
"""What no rule turns into an option."""


def as_command(text: str) -> str:
    """A message in the words of the command line."""
    for python, option in PHRASES.items():
        text = text.replace(python, option)
    return CALL.sub(_as_call, KEYWORD.sub(_as_option, text))


def as_recipe(text: str) -> str:
    """A message in the words of recipes."""
    return CALL.sub(_as_call, KEYWORD.sub(_as_key, text.replace("to_scipy(join=True)", "join=True")))


def _as_call(call: re.Match[str]) -> str:
    """A function as a command."""
    name, path, edges = call.groups()
    output = " -o edges" if edges else ""
    return f"`dask-rac {COMMANDS.get(name, name)} {shlex.quote(ast.literal_eval(path))}{output}`"


def _as_option(keyword: re.Match[str]) -> str:
    """An argument as an option."""
    name, text, several, _, plain = keyword.groups()
    if name is None:
        return keyword[0]
    value = text or plain or (several or "").replace(" ", "")
    option = OPTIONS.get(name) or "--" + name.replace("_", "-")
    return f"{option} {value}" if value else option


def _as_key(keyword: re.Match[str]) -> str:
    """An argument as a key."""
    name, text, several, flag, plain = keyword.groups()
    if name is None:
        return keyword[0]
    value = text or plain or (flag or "").lower() or (several and f"[{several.replace('None', 'null')}]")
    return f"{KEYS.get(name, name)}:{f' {value}' if value else ''}"
