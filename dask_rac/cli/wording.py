"""Messages for callers of the library, turned into those for users of the command line and of recipes."""

from __future__ import annotations

import re

CALL = re.compile(r"dask_rac\.(resume|open|run)\('([^']*)'\)")
KEYWORD = re.compile(
    r"\b(linkage|missing|weights|max_height|n_nodes|n_clusters|height|duplicates|memory|shards|join|zero|nodes|degree|seed"
    r"|columns|delimiter|header|store|path)=(?:'([^']*)'|\(([^)]*)\)|(True|False)|([\w.+-]*\w))?"
)
COMMANDS = {"open": "info"}
"""What a command is called where the function has another name."""

OPTIONS = {"n_clusters": "--clusters", "store": "-o", "path": "-o"}
KEYS = {"n_clusters": "clusters", "store": "output", "path": "output"}
"""Options and keys of recipes where the argument has another name."""

PHRASES = {
    "columns=(..., ..., None)": "--no-weights",
    "header=False": "--no-header",
    "to_scipy(join=True)": "--join",
    "with cut()": "with `dask-rac cut`",
    "verify(edges)": "--edges",
}
"""What no rule turns into an option."""


def as_command(text: str) -> str:
    """A message in the words of the command line."""
    for python, option in PHRASES.items():
        text = text.replace(python, option)
    return KEYWORD.sub(_as_option, _as_calls(text))


def as_recipe(text: str) -> str:
    """A message in the words of recipes."""
    return KEYWORD.sub(_as_key, _as_calls(text.replace("to_scipy(join=True)", "join=True")))


def _as_calls(text: str) -> str:
    """Functions as commands."""
    return CALL.sub(lambda call: f"`dask-rac {COMMANDS.get(call[1], call[1])} {call[2]}`", text)


def _as_option(keyword: re.Match[str]) -> str:
    name, text, several, _, plain = keyword.groups()
    value = text or plain or (several or "").replace(" ", "")
    option = OPTIONS.get(name) or "--" + name.replace("_", "-")
    return f"{option} {value}" if value else option


def _as_key(keyword: re.Match[str]) -> str:
    name, text, several, flag, plain = keyword.groups()
    value = text or plain or (flag or "").lower() or (several and f"[{several.replace('None', 'null')}]")
    return f"{KEYS.get(name, name)}:{f' {value}' if value else ''}"
