"""Run the notebooks in a clean kernel; as a command, save them with their outputs, so that they can be looked at.

What is saved is what GitHub and nbviewer show: pictures as PNG, no scripts, no places of the machine that ran them. A
digest of all code cells says which code the outputs are of.
"""

from __future__ import annotations

import re
import sys
import tempfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

from tests.support.command import environment
from tests.support.root import ROOT

FOLDER = ROOT / "notebooks"
PATHS = sorted(FOLDER.glob("*.ipynb"))

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PLACES = ("IPYTHONDIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "TMPDIR")
KINDS = ("image/png", "text/html", "text/markdown", "text/plain")
"""What is saved of an output."""

# On a busy machine, distributed warns about workers that are slow to stop, and gilknocker about waiting.
SETTINGS = """
logging: {distributed: error}
distributed: {admin: {system-monitor: {gil: {enabled: false}}}}
"""

STRICT = r"""
import warnings
warnings.simplefilter("error")
warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"dask(\..*)?$")
"""

QUIET = """
warnings.simplefilter("ignore")  # the kernel itself has some when it ends
"""

STILL = """
def _still(figure, title="", caption=""):
    import base64, os, tempfile
    from IPython.display import publish_display_data
    from dask_rac.show.pictures.saving import save_picture
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "picture.png")
        save_picture(figure, (title, caption), path, (None, None), 1)
        with open(path, "rb") as file:
            data = base64.b64encode(file.read()).decode()
    if title:
        publish_display_data({"text/markdown": f"**{title}**", "text/plain": title})
    publish_display_data({"image/png": data, "text/plain": "a picture"})
    if caption:
        publish_display_data({"text/markdown": caption, "text/plain": caption})

def _quiet():
    import bokeh.io
    from dask_rac.show.pictures import picture
    picture.display = _still
    bokeh.io.show = _still
    bokeh.io.output_notebook = lambda *_, **__: None

_quiet()
"""
"""Pictures as images: scripts are not shown where notebooks are only looked at."""

PORT = re.compile(r"(?<=127\.0\.0\.1:)\d+")
TEMPORARY = re.compile(r"/[\w./-]*/(tmp|dask-rac-)\w+")


def read(path: Path) -> Any:
    """Read a notebook."""
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def digest(notebook: Any) -> str:
    """Return what identifies the code of a notebook."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return sha256("\0".join(sources).encode()).hexdigest()


def execute(notebook: Any, folder: Path, first: str, last: str = "") -> Any:
    """Execute all cells in a clean kernel, between two more; return the last of these."""
    cells = notebook.cells
    before, after = (nbformat.v4.new_code_cell(source) for source in (first, last))  # type: ignore[no-untyped-call]
    notebook.cells = [before, *cells, after]
    places = {place: str(folder / place) for place in PLACES}
    Path(places["TMPDIR"]).mkdir()
    settings = folder / "dask.yaml"
    settings.write_text(SETTINGS)
    env = environment(PYTHONPATH=str(ROOT), DASK_CONFIG=str(settings), **places)
    NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(FOLDER), env=env)
    notebook.cells = cells
    return after


def executed(path: Path, folder: Path) -> str:
    """Execute a notebook, and return it with its outputs as text."""
    notebook = read(path)
    execute(notebook, folder, STRICT + STILL, QUIET)
    notebook.metadata = METADATA | {"executed": digest(notebook)}
    for number, cell in enumerate((cell for cell in notebook.cells if cell.cell_type == "code"), 1):
        cell.metadata, cell.execution_count = {}, number
        cell.outputs = _joined([_plain(output, number, folder) for output in cell.outputs])
    text: str = nbformat.writes(notebook)  # type: ignore[no-untyped-call]
    return text + "\n"


def _joined(outputs: list[Any]) -> list[Any]:
    """Return the outputs that are left, with text that was printed line by line in one piece."""
    joined: list[Any] = []
    for output in filter(None, outputs):
        if joined and output.get("name") and output.get("name") == joined[-1].get("name"):
            joined[-1].text += output.text
        else:
            joined.append(output)
    return joined


def _plain(output: Any, number: int, folder: Path) -> Any:
    """Return an output without scripts and places; None if nothing is left."""
    if output.output_type == "stream":
        output.text = _anywhere(output.text, folder)
        return output
    kept = {kind: text for kind, text in output.data.items() if kind in KINDS and "<script" not in text}
    if not kept:
        return None
    output.data = {kind: text if kind == "image/png" else _anywhere(text, folder) for kind, text in kept.items()}
    output.metadata = {}
    if output.output_type == "execute_result":
        output.execution_count = number
    return output


def _anywhere(text: str, folder: Path) -> str:
    """Return text without what is different on each machine and in each run: folders and ports."""
    text = TEMPORARY.sub("scratch", text.replace(str(folder), "")).replace(str(ROOT), "")
    return PORT.sub("8786", text)


def save(path: Path) -> None:
    """Execute a notebook, and write it with its outputs."""
    with tempfile.TemporaryDirectory() as folder:
        text = executed(path, Path(folder))
    path.write_text(text)
    sys.stdout.write(f"{path.name}: {len(text) / 1000:,.0f} kB\n")


if __name__ == "__main__":
    for each in PATHS:
        save(each)
