"""Rewording of messages for callers of the library into messages for users of the command line and of recipes.

Only fragments of code are replaced (`dask_rac.resume('run')`, `store=`): the prose around them may change freely.
"""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Callable

from dask_rac.recipes.schema import STEPS

TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
CALL = re.compile(rf"`?dask_rac\.(resume|open|run|ingest)\(({TEXT})(?:, ({TEXT}))?((?:, \w+=(?:{TEXT}|[\w.+-]+))*)\)`?")
OTHERWISE_NAMED = {"store": "output", "path": "output"}
"""Arguments whose keys in recipes have other names."""

POSITIONAL = {"edges", "vectors", "run"}  # never written as `edges=` in a message, nor are the two below
KEYS = {key for keys in STEPS.values() for key in keys} - POSITIONAL - {"scheduler", "finisher"}
COMMANDS_ONLY = {"points", "constants", "like", "like_on", "machines", "sample"}
"""Options that are not a key of any step."""
NAMES = "|".join(sorted(KEYS - set(OTHERWISE_NAMED.values()) | set(OTHERWISE_NAMED) | COMMANDS_ONLY))
KEYWORD = re.compile(  # quoted text is the user's, and so is anything that is part of a path
    rf"(?<!\w)(?:{TEXT})|(?<![\w/.,=-])({NAMES})=(?:'([^']*)'|\(([^)]*)\)|(True|False)|([\w.+-]*\w)|\.\.\.(?!\w))?"
)
COMMANDS = {"open": "info"}
"""Commands whose names differ from the function's."""

OPTIONS = {"store": "-o", "path": "-o"}
"""Options whose names differ from the argument's."""

KNN = r"`?(?:dask_rac\.)?knn_graph\b(?:\([^)]*\))?`?"
GRAPH = r"`?graph=dict\([^)]*\)`?"

FRAGMENTS = (
    (re.compile(r"columns=\(\.\.\., \.\.\., None\)"), "--no-weights", None),
    (re.compile(r"header=False"), "--no-header", None),
    (re.compile(r"overwrite=True"), "--overwrite", None),
    (re.compile(r"trust_source=True"), "--trust-source", None),
    (re.compile(r"(?:\w+\.)?to_scipy\(join=True\)"), "--join", "join: true"),
    (re.compile(r"`?(?<![\w.])(?:\w+\.)?cut\(\)`?"), "`dask-rac cut`", None),
    (re.compile(r"suggest_cuts\(\) finds"), "`dask-rac report` shows", "`dask-rac report` shows"),
    (re.compile(r"(?:\w+\.)?verify\((?:edges|vectors)\)"), "--edges", None),
    (re.compile(r"(?:\w+\.)?scores\(labels, edges=(?:edges|vectors)\)"), "--edges PATH", None),
    (re.compile(r"name one with column="), "name one with --column", None),
    (re.compile(r"^(error: )?labels="), r"\1LABELS ", None),
    (re.compile(r"graph=dict\(eps[^)]*\) or eps_graph"), "`dask-rac graph eps`", "one of `kind: eps`"),
    (re.compile(rf"{GRAPH},? or (?:with )?{KNN}|{GRAPH}|{KNN}"), "`dask-rac graph knn`", "a `graph` step"),
)
"""Code that the rules above do not cover: its pattern, its form on the command line and, if it has one, in recipes."""


def as_command(text: str) -> str:
    """Return a message in the terms of the command line."""
    for pattern, option, _ in FRAGMENTS:
        text = pattern.sub(option, text)
    return _reworded(text, _as_option)


def as_recipe(text: str) -> str:
    """Return a message in the terms of recipes."""
    for pattern, _, key in FRAGMENTS:
        text = text if key is None else pattern.sub(key, text)
    return _reworded(text, _as_key)


def _reworded(text: str, keyword: Callable[[re.Match[str]], str]) -> str:
    """Turn calls into commands, and `keyword` arguments outside them into whatever `keyword` makes of them."""
    parts, end = [], 0
    for call in CALL.finditer(text):
        parts += [KEYWORD.sub(keyword, text[end : call.start()]), _as_call(call)]
        end = call.end()
    return "".join((*parts, KEYWORD.sub(keyword, text[end:])))


def _as_call(call: re.Match[str]) -> str:
    """Return a function call as a command."""
    name, path, output, arguments = call.groups()
    words = [COMMANDS.get(name, name), shlex.quote(ast.literal_eval(path))]
    words += ["-o", shlex.quote(ast.literal_eval(output))] if output else []
    options = KEYWORD.sub(_as_option, arguments.replace(", ", " "))
    return f"`dask-rac {' '.join(words)}{options}`"


def _as_option(keyword: re.Match[str]) -> str:
    """Return an argument as an option."""
    name, text, several, _, plain = keyword.groups()
    if name is None:
        return keyword[0]
    value = text or plain or (several or "").replace(" ", "")
    option = OPTIONS.get(name) or "--" + name.replace("_", "-")
    return f"{option} {value}" if value else option


def _as_key(keyword: re.Match[str]) -> str:
    """Return an argument as a key."""
    name, text, several, flag, plain = keyword.groups()
    if name is None:
        return keyword[0]
    value = text or plain or (flag or "").lower() or (several and f"[{several.replace('None', 'null')}]")
    return f"{OTHERWISE_NAMED.get(name, name)}:{f' {value}' if value else ''}"
