"""The paper's evaluation on stand-ins of its six data sets: runs what is missing, then writes docs/paper.md.

Each part runs in a process of its own and leaves a file in the folder of results. A part whose file is there is not run
again, so a command that was interrupted goes on where it stopped. At the end all numbers are kept in
docs/_static/paper.json, from which the page, its pictures and notebooks/paper.ipynb are made.

    python pipelines/paper.py                    all, in about two hours of a quiet machine with two cores
    python pipelines/paper.py --minutes 12       smaller stand-ins
    python pipelines/paper.py --page             only the page and its pictures, from the numbers that are kept
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from evaluation.sets import JOBS, MINUTES

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 700
"""Of a picture, in pixels."""
SCALE = 1.5
WARM_UP = 500
"""Nodes of a run before the measured one, so that kernels are loaded."""


@click.command(help=__doc__)
@click.option("--minutes", default=float(MINUTES), show_default=True, help="Sizes are chosen to take about as long.")
@click.option("--results", default="paper-results", show_default=True, help="The folder of results.")
@click.option("--docs", default=str(ROOT / "docs"), show_default="docs", help="Where the page is written.")
@click.option("--page", is_flag=True, help="Run nothing: write the page from the numbers that are kept.")
@click.option("--part", help="Run only this part, in this process; used internally.")
def main(minutes: float, results: str, docs: str, page: bool, part: str | None) -> None:
    """Run all parts that are missing, or one, or none."""
    folder, kept = Path(results), Path(docs) / "_static" / "paper.json"
    if not page:
        folder.mkdir(parents=True, exist_ok=True)
    if part is not None:
        run(part, minutes, folder)
        return
    if not page:
        for name in (*JOBS, *PARTS):
            if not (folder / f"{name}.json").exists():
                words = "--minutes", str(minutes), "--results", results, "--part", name
                subprocess.run([sys.executable, __file__, *words], check=True)
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(gathered(folder, minutes))
        print("The words of the page are about the numbers before: read it again.")
    write_page(json.loads(kept.read_text()), Path(docs))


def run(name: str, minutes: float, folder: Path) -> None:
    """Run a part, and write what it found."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        if name in JOBS:
            found = run_job(name, JOBS[name].nodes(minutes), Path(scratch))
        else:
            found = PARTS[name](Path(scratch), minutes)
    text = json.dumps(found, default=float)
    partial_path = folder / f"{name}.json.partial"
    partial_path.write_text(text)
    partial_path.rename(folder / f"{name}.json")
    print(f"{name}: done", flush=True)


def run_job(name: str, nodes: int, scratch: Path) -> dict[str, Any]:
    """Run a stand-in, after a small one that loads all kernels."""
    from evaluation.runs import measured

    for count in (WARM_UP, nodes):
        place = scratch / str(count)
        place.mkdir()
        found = measured(JOBS[name], count, place)
    return found


def run_theorems(folder: Path, minutes: float) -> dict[str, Any]:
    """Run the small graphs of the theorems; they do not grow beyond those of 12 minutes."""
    from evaluation.theorems import theorem_numbers

    return theorem_numbers(folder, min(1.0, minutes / 12))


def run_workers(folder: Path, minutes: float) -> list[dict[str, Any]]:
    """Run on one worker and on two."""
    from evaluation.workers import worker_numbers

    return worker_numbers(folder, minutes / 12)


PARTS: dict[str, Callable[[Path, float], Any]] = {"theorems": run_theorems, "workers": run_workers}


def gathered(folder: Path, minutes: float) -> str:
    """Return all results as one text, one line per part."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    numbers = {"minutes": minutes, "cores": os.cpu_count(), "memory": memory}
    parts = {name: json.loads((folder / f"{name}.json").read_text()) for name in (*JOBS, *PARTS)}
    lines = [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in (numbers | parts).items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def write_page(numbers: dict[str, Any], docs: Path) -> None:
    """Write the page and its pictures."""
    from evaluation.page import page_text
    from evaluation.pictures import FIGURES

    for name, draw in FIGURES.items():
        path = docs / "_static" / name
        path.unlink(missing_ok=True)
        draw(numbers).save(path, width=WIDTH, scale=SCALE)
    (docs / "paper.md").write_text(page_text(numbers))


if __name__ == "__main__":
    main()
