"""What the README shows is correct."""

import re
import shlex
from pathlib import Path

import click
import numpy as np
import pytest

import dask_rac
from dask_rac.cli import main
from tests.support.root import ROOT

README = (ROOT / "README.md").read_text()


def test_the_examples_run_one_after_the_other_and_print_what_is_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    examples = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", README, flags=re.DOTALL)
    assert len(examples) == 3
    names: dict[str, object] = {}
    for code, shown in examples:
        exec(code, names)
        assert capsys.readouterr().out == shown
    assert isinstance(names["clustering"], dask_rac.Clustering)
    clump, labels, z = (names[name] for name in ("clump", "labels", "Z"))
    assert isinstance(clump, np.ndarray)
    assert isinstance(labels, np.ndarray)
    assert isinstance(z, np.ndarray)
    assert z.shape == (19_999, 4)
    assert sum(np.bincount(clump[labels == cluster]).max() for cluster in range(8)) > 0.98 * len(clump)


def test_it_is_short_and_names_the_two_commands() -> None:
    assert len(README.splitlines()) <= 175
    assert "make demo" in README
    assert "make test" in README


def test_every_command_shown_is_one() -> None:
    shown = re.findall(r"^\$ dask-rac (.*)$", README, re.MULTILINE)
    assert len(shown) > 10
    for line in shown:
        command: click.Command = main
        context, rest = None, shlex.split(line, comments=True)
        while isinstance(command, click.Group):
            context = click.Context(command, context)
            _, chosen, rest = command.resolve_command(context, rest)
            assert chosen is not None, line
            command = chosen
        command.make_context("", rest, context)


def test_no_link_is_dead() -> None:
    links = re.findall(r"\]\(([^)#]+)(?:#([\w-]+))?\)", README) + re.findall(r'src="([^"]+)"()', README)
    assert len(links) > 10
    for path, place in links:
        assert (ROOT / path).exists(), path
        if place:
            heads = re.findall(r"^#+ (.*)$", (ROOT / path).read_text(), re.MULTILINE)
            assert place in {head.lower().replace(" ", "-") for head in heads}, f"{path}#{place}"
