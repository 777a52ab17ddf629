"""What a real Jupyter kernel shows: progress bars that move, handles that follow their runs, and nothing else."""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import coverage
import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

import dask_rac
from dask_rac.show import cards, progress
from tests.support.command import environment
from tests.support.root import ROOT

BEGIN = """
import time
import numpy as np
from unittest import mock
import dask_rac
from dask_rac.show import progress
from dask_rac.show.progress import listener_for
u = np.arange(300_000)
edges = u, (u * 7919 + 13) % 300_000, (u % 1013) + 1.0
edges = tuple(column[edges[0] != edges[1]] for column in edges)
event = dask_rac.Event
def slowly(event):
    time.sleep(0.1)
def shown_after(seconds):
    return mock.patch.object(progress, "UNSEEN_SECONDS", seconds)
found = dask_rac.cluster(edges, duplicates="min", progress=False)
"""


@dataclass
class Notebook:
    """A kernel that runs cells, and all messages it has sent."""

    client: NotebookClient
    messages: list[tuple[str, Any]] = field(default_factory=list)

    def run(self, source: str, fails: bool = False) -> tuple[Any, list[tuple[str, Any]]]:
        """Run a cell; return its outputs, and what was sent meanwhile."""
        cell = nbformat.v4.new_code_cell(source)  # type: ignore[no-untyped-call]
        self.client.nb.cells.append(cell)
        before = len(self.messages)
        try:
            self.client.execute_cell(cell, len(self.client.nb.cells) - 1)
        except CellExecutionError:
            if not fails:
                raise
        assert not any(kind == "stream" for kind, _ in self.messages[before:]), self.messages[before:]
        return cell.outputs, self.messages[before:]


class Listening(NotebookClient):
    """A client that keeps all messages it receives."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.messages: list[tuple[str, Any]] = []

    def process_message(self, msg: dict[str, Any], cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] in ("display_data", "update_display_data", "stream", "execute_result"):
            self.messages.append((msg["msg_type"], msg["content"].get("data", msg["content"])))
        return super().process_message(msg, cell, cell_index)


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    folder = tmp_path_factory.mktemp("notebook")
    places = {name: str(folder / name) for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR")}
    empty = nbformat.v4.new_notebook()  # type: ignore[no-untyped-call]
    client = Listening(empty, timeout=120, kernel_name="python3")
    with client.setup_kernel(cwd=str(folder), env=environment(PYTHONPATH=str(ROOT), **places)):
        made = Notebook(client, client.messages)
        with measured(made):
            made.run(BEGIN)
            yield made


@contextmanager
def measured(notebook: Notebook) -> Iterator[None]:
    """Measure the coverage of the kernel if that of this process is measured."""
    if coverage.Coverage.current() is None:
        yield
        return
    notebook.run(
        f"import coverage\nmeter = coverage.Coverage(config_file={str(ROOT / 'pyproject.toml')!r})\nmeter.start()"
    )
    yield
    notebook.run("meter.stop()\nmeter.save()")


def html_of(messages: list[tuple[str, Any]], kind: str) -> list[str]:
    return [data["text/html"] for sent, data in messages if sent == kind and "text/html" in data]


def texts_of(messages: list[tuple[str, Any]]) -> list[str]:
    return [data["text/plain"] for _, data in messages]


def test_a_bar_appears_moves_and_ends_as_one_line(notebook: Notebook) -> None:
    source = """
with listener_for(None) as report:
    report(event("load", done=1000))
    time.sleep(0.6)
    for round_ in range(8):
        report(event("round", 1001, 100 * (round_ + 1), found._records[0]))
        time.sleep(0.15)
    report(event("done", 1001, 1000))
"""
    outputs, messages = notebook.run(source)
    (first,), updates = html_of(messages, "display_data"), html_of(messages, "update_display_data")
    assert "reading edges, 1,000 so far" in first
    assert "repeating-linear-gradient" in first
    assert 'aria-label="finished"' in updates[-1]
    line = r"1,001 nodes, 1,000 merges in 1 round, (\d+\.\d) s"
    took = re.search(f">{line}<", updates[-1])
    assert took
    assert 3 <= len(updates) <= float(took[1]) / progress.DRAW_SECONDS + 2
    moving = [html for html in updates[:-1] if "aria-valuenow" in html]
    assert moving
    assert all('aria-label="running"' in html and "round 1: " in html for html in moving)
    widths = [float(re.findall(r"width:([\d.]+)%;height", html)[0]) for html in moving]
    assert widths == sorted(widths)
    assert len(outputs) == 1
    assert outputs[0]["data"]["text/html"] == updates[-1]
    assert re.fullmatch(line, outputs[0]["data"]["text/plain"])


def test_the_bar_of_a_run_ends_with_its_numbers(notebook: Notebook) -> None:
    source = "with shown_after(0):\n    result = dask_rac.cluster(edges, duplicates='min')\nresult"
    (bar, shown), _ = notebook.run(source)
    text = re.fullmatch(r"([\d,]+) nodes, ([\d,]+) merges in (\d+) rounds, [\d.]+ s", bar["data"]["text/plain"])
    assert text
    (numbers,), _ = notebook.run("f'{result.n_nodes:,} {len(result.merges):,} {len(result.rounds)}'")
    assert numbers["data"]["text/plain"] == f"'{' '.join(text.groups())}'"
    assert "dask_rac.Clustering" in shown["data"]["text/html"]
    assert "<svg" in shown["data"]["text/html"]


@pytest.mark.parametrize(
    ("source", "state"),
    [
        ("raise ValueError('no')", "failed"),
        ("raise KeyboardInterrupt", "stopped"),
    ],
)
def test_a_bar_shows_what_ended_badly(notebook: Notebook, source: str, state: str) -> None:
    begin = "with listener_for(True) as report:\n    report(event('load'))\n    time.sleep(0.5)\n    "
    outputs, _ = notebook.run(begin + source, fails=True)
    html = outputs[0]["data"]["text/html"]
    assert f'aria-label="{state}"' in html
    assert re.search(rf">{state} after [\d.]+ s: reading edges<", html)


@pytest.mark.parametrize(
    "source",
    [
        "with shown_after(60):\n    dask_rac.cluster(edges, duplicates='min')",
        "with listener_for(False) as report:\n    report(event('load'))\n    time.sleep(0.5)",
        "heard = []\nwith listener_for(heard.append) as report:\n    report(event('load'))\n    time.sleep(0.5)",
        "dask_rac.cluster(edges, duplicates='min', wait=False).wait();",
    ],
)
def test_what_is_short_or_unwanted_shows_nothing(notebook: Notebook, source: str) -> None:
    assert notebook.run(source) == ([], [])


def test_a_handle_follows_its_run(notebook: Notebook) -> None:
    source = "run = dask_rac.cluster(edges, duplicates='min', progress=slowly, wait=False)\nrun"
    outputs, messages = notebook.run(source)
    assert len(html_of(messages, "display_data")) == 1
    shown = outputs[0]["data"]
    assert "dask_rac.RunHandle" in shown["text/html"]
    assert 'aria-label="running"' in shown["text/html"]
    assert shown["text/plain"].startswith("<RunHandle: running, 0:0")
    began = time.monotonic()
    _, messages = notebook.run("run.wait(); time.sleep(0.5)")
    updates = html_of(messages, "update_display_data")
    assert 2 <= len(updates) <= (time.monotonic() - began) / 0.25 + 2
    assert len(html_of(messages, "display_data")) == 0
    assert 'aria-label="finished"' in updates[-1]
    assert outputs[0]["data"]["text/html"] == updates[-1], "the first cell was not updated"
    assert outputs[0]["data"]["text/plain"].startswith("<RunHandle: finished, 300,000 nodes, ")
    again, messages = notebook.run("run")
    assert again[0]["data"]["text/html"] == updates[-1]
    assert len(messages) == 1


def test_a_handle_stops_and_resumes(notebook: Notebook) -> None:
    source = """
run = dask_rac.cluster(edges, duplicates='min', store='run', shards=3, progress=slowly, wait=False)
while run.progress.event is None or run.progress.event.stage != "round":
    time.sleep(0.01)
run.stop()
run
"""
    outputs, _ = notebook.run(source)
    text = outputs[0]["data"]["text/plain"]
    assert re.match(r"<RunHandle: stopped after [\d.]+ s: resume with dask_rac\.resume\('.*/run'\), store=", text)
    assert 'aria-label="stopped"' in outputs[0]["data"]["text/html"]
    source = "again = dask_rac.resume('run', wait=False).result()\n"
    source += "merges = again.merges.compute().reset_index(drop=True)\n"
    source += "assert merges.equals(dask_rac.cluster(edges, duplicates='min', progress=False).merges)"
    assert notebook.run(source)[0] == []


def test_a_bar_from_a_client_in_the_notebook(notebook: Notebook) -> None:
    source = """
import logging
from distributed import Client
client = Client(n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=logging.CRITICAL)
"""
    notebook.run(source)
    outputs, messages = notebook.run("with shown_after(0):\n    dask_rac.cluster(edges, duplicates='min')")
    assert any("round" in text for text in texts_of(messages)), messages
    assert re.search(r"300,000 nodes, [\d,]+ merges in \d+ rounds", outputs[0]["data"]["text/plain"])
    failing = "dask_rac.cluster(([0, 1], [1, 2], [1.0, -2.0]), wait=False).exception()"
    outputs, _ = notebook.run(failing)
    assert outputs[0]["data"]["text/plain"].startswith("""dask_rac.InputError("column 'weight' is negative""")
    notebook.run("client.shutdown()")


def test_outside_a_notebook_ipython_shows_the_text() -> None:
    assert not cards.in_notebook()
    run = dask_rac.cluster(([0, 1], [1, 2], [1.0, 2.0]), wait=False)
    run.wait()
    with pytest.raises(NotImplementedError):
        run._ipython_display_()
