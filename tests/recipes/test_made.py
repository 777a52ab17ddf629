"""A step is skipped only if what it made is still there as it was made, and nothing of a user's is replaced."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest

from dask_rac.base.errors import InputError, StoreError
from dask_rac.base.events import Event
from dask_rac.recipes import made
from dask_rac.recipes.records import Record, Records
from tests.support.flushes import watched
from tests.support.folders import no_fsync, quick_folder, snapshot
from tests.support.recipes import actions, run
from tests.support.recipes import runner as runner_of

RECIPE = """
folder: {folder}/made
steps:
  generate: {{nodes: 300, degree: 6, weights: similarity, output: edges}}
  cluster: {{weights: similarity, shards: 2}}
  cut: {{n_clusters: [5, 9], output: labels.parquet}}
  fifty: {{do: cut, n_clusters: 50, output: fifty.csv}}
  export: {{output: tree.nwk}}
"""
STEPS = ["generate", "cluster", "cut", "fifty", "export"]
OUTPUTS = {"generate": "edges", "cluster": "run", "cut": "labels.parquet", "fifty": "fifty.csv", "export": "tree.nwk"}


@pytest.fixture(scope="module")
def finished() -> Iterator[Path]:
    """A recipe that has run, to be copied."""
    with quick_folder() as folder, no_fsync():
        (folder / "recipe.yaml").write_text(RECIPE.format(folder=folder))
        run(folder / "recipe.yaml")
        yield folder


@pytest.fixture
def folder(finished: Path) -> Iterator[Path]:
    """A recipe that has run, in a place of its own."""
    saved = finished / "saved"
    shutil.copytree(finished / "made", saved, symlinks=True)
    with no_fsync():
        yield finished
    shutil.rmtree(finished / "made")
    saved.rename(finished / "made")
    for path in finished.iterdir():
        if path.name not in {"made", "recipe.yaml"}:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def plan(folder: Path, start: str | None = None) -> dict[str, str]:
    return actions(runner_of(folder / "recipe.yaml").plan(start))


def files(folder: Path, step: str) -> list[Path]:
    """The files of a step's output that count."""
    output = folder / "made" / OUTPUTS[step]
    found = [output] if output.is_file() else sorted(path for path in output.rglob("*") if path.is_file())
    return [path for path in found if path.name != "lock" and "statistics" not in path.parts]


def cut_short(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def flip(path: Path) -> None:
    """Change one byte in the middle, as a user's editor would."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def test_a_copy_is_the_same(folder: Path) -> None:
    """Times do not count where contents are known."""
    for path in (folder / "made").rglob("*"):
        os.utime(path, (1, 1))
    assert plan(folder) == dict.fromkeys(STEPS, "skip")
    (folder / "made/edges/notes.txt").write_text("mine")
    assert plan(folder) == dict.fromkeys(STEPS, "skip")


@pytest.mark.parametrize("step", ["fifty", "export", "cut", "generate"])
def test_outputs_emptied_by_a_power_cut_are_made_again(step: str, folder: Path) -> None:
    expected = {path: path.read_bytes() for path in files(folder, step)}
    for path in expected:
        os.truncate(path, 0)
    assert plan(folder)[step] == "do"
    assert run(folder / "recipe.yaml")[step] == "do"
    assert {path: path.read_bytes() for path in files(folder, step)} == expected
    assert plan(folder) == dict.fromkeys(STEPS, "skip")


def test_a_lost_part_is_made_again(folder: Path) -> None:
    first, second = files(folder, "cut")
    expected = first.read_bytes()
    first.unlink()
    assert run(folder / "recipe.yaml")["cut"] == "do"
    assert first.read_bytes() == expected
    assert second.exists()


@pytest.mark.parametrize("change", [cut_short, flip])
@pytest.mark.parametrize("step", STEPS)
def test_changed_outputs_are_refused_and_left_alone(step: str, change: Callable[[Path], None], folder: Path) -> None:
    for path in files(folder, step):
        kept = path.read_bytes()
        change(path)
        before = snapshot(folder / "made")
        text = rf"step '{step}' made .*changed or damaged since: {path} has .*--from {step}"
        with pytest.raises(InputError, match=text):
            run(folder / "recipe.yaml")
        assert snapshot(folder / "made") == before
        path.write_bytes(kept)
    assert plan(folder) == dict.fromkeys(STEPS, "skip")


@pytest.mark.parametrize("lose", [Path.unlink, lambda path: os.truncate(path, 0)])
def test_a_damaged_run_is_refused(lose: Callable[[Path], None], folder: Path) -> None:
    """It took long to make, and a copy of the lost file may exist."""
    for path in files(folder, "cluster"):
        kept = path.read_bytes()
        lose(path)
        planned = runner_of(folder / "recipe.yaml").plan()[STEPS.index("cluster")]
        assert planned.action == "refuse"
        assert f"{path} is {'empty' if path.exists() else 'missing'}" in planned.why
        path.write_bytes(kept)


def test_a_lost_part_is_not_made_again_over_a_users_file(folder: Path) -> None:
    files(folder, "generate")[0].unlink()
    (folder / "made/edges/notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"changed or damaged since: .* is missing"):
        run(folder / "recipe.yaml")
    assert (folder / "made/edges/notes.txt").read_text() == "mine"


def test_a_lost_input_is_made_again_before_it_is_read(folder: Path) -> None:
    """Even where sizes are known from the files alone."""
    (folder / "list.csv").write_text("a,b,w\n0,1,1.5\n1,2,2.5\n3,2,0.5\n")
    recipe = folder / "two.yaml"
    steps = f"  ingest: {{edges: {folder}/list.csv, columns: [a, b, w]}}\n  cluster:\n"
    recipe.write_text(f"folder: {folder}/two\nsteps:\n{steps}")
    run(recipe)
    os.truncate(folder / "two/edges/part-00000.parquet", 0)
    assert run(recipe) == {"ingest": "do", "cluster": "skip"}


def test_large_files_are_read_in_part_and_only_if_their_time_differs(tmp_path: Path) -> None:
    path = tmp_path / "large"
    path.write_bytes(os.urandom(4 * made.WHOLE))
    known, read = made.made_files(str(path)), mock.Mock(side_effect=open)
    with mock.patch.object(made, "open", read, create=True):
        assert made.difference(str(path), known) is None
        assert not read.called
        os.utime(path, (1, 1))
        assert made.difference(str(path), known) is None
        assert read.called
    for place in (0, made.WHOLE * 4 - 1):  # the first block and the last
        kept = path.read_bytes()
        with path.open("r+b") as file:
            file.seek(place)
            file.write(bytes([kept[place] ^ 1]))
        found = made.difference(str(path), known)
        assert found == made.Difference(f"{path} has other contents", lost=False)
        path.write_bytes(kept)


def test_records_of_earlier_versions_know_only_that_there_is_an_output(folder: Path) -> None:
    for path in (folder / "made/steps").iterdir():
        record = json.loads(path.read_text())
        path.write_text(json.dumps({key: value for key, value in record.items() if key not in {"made", "aside"}}))
    flip(folder / "made/tree.nwk")
    assert plan(folder) == dict.fromkeys(STEPS, "skip")
    (folder / "made/tree.nwk").unlink()
    assert plan(folder)["export"] == "do"


def test_an_output_that_appears_after_a_stop_is_not_deleted(folder: Path) -> None:
    """It may be the user's, who has done by hand what was stopped."""
    path = folder / "made/steps/export.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"finished": None, "made": {}}))
    with pytest.raises(InputError, match=r"tree\.nwk exists, but step 'export' was stopped before .*--from export"):
        run(folder / "recipe.yaml")
    assert (folder / "made/tree.nwk").exists()
    assert run(folder / "recipe.yaml", start="export")["export"] == "again"


@pytest.mark.parametrize("ending", [".before", ".partial", ".0123abcd.before"])
def test_files_of_a_user_beside_an_output_are_left_alone(ending: str, folder: Path) -> None:
    mine = folder / f"made/tree.nwk{ending}"
    mine.mkdir()
    (mine / "thesis.txt").write_text("years of work")
    assert run(folder / "recipe.yaml", start="export")["export"] == "again"
    (folder / "made/tree.nwk").unlink()
    assert run(folder / "recipe.yaml")["export"] == "do"
    assert (mine / "thesis.txt").read_text() == "years of work"


def test_leftovers_of_a_killed_step_are_deleted(folder: Path) -> None:
    left = folder / "made/tree.nwk.0123abcd.partial"
    left.write_text("half")
    (folder / "made/tree.nwk").unlink()
    run(folder / "recipe.yaml")
    assert not left.exists()


class KilledError(BaseException):
    """The process is killed: nothing that it would do afterwards is done."""


@contextmanager
def killed_before_the_record() -> Iterator[None]:
    """A step is killed when its output has its name, but is not recorded as done."""
    keep = Records.keep

    def keep_or_die(records: Records, record: Record) -> None:
        if record.finished is not None:
            raise KilledError
        keep(records, record)

    with mock.patch.object(Records, "keep", keep_or_die), pytest.raises(KilledError):
        yield


@pytest.mark.parametrize(("step", "output"), [("generate", "edges"), ("fifty", "fifty.csv"), ("export", "tree.nwk")])
def test_a_step_killed_before_it_was_recorded_is_done_again(step: str, output: str, folder: Path) -> None:
    path = folder / "made" / output
    before = snapshot(path).keys()
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with killed_before_the_record():
        run(folder / "recipe.yaml")
    assert snapshot(path).keys() == before
    assert run(folder / "recipe.yaml")[step] == "resume"
    assert snapshot(path).keys() == before


@pytest.mark.parametrize("change", ["added", "changed", "touched"])
def test_what_a_killed_step_made_is_not_deleted_with_a_users_change(change: str, folder: Path) -> None:
    edges = folder / "made/edges"
    shutil.rmtree(edges)
    with killed_before_the_record():
        run(folder / "recipe.yaml")
    if change == "touched":
        os.utime(min(edges.iterdir()))
    else:
        (edges / "notes.txt" if change == "added" else min(edges.iterdir())).write_text("mine")
    before = snapshot(edges)
    with pytest.raises(InputError, match=r"edges exists, but step 'generate' was stopped before it was recorded"):
        run(folder / "recipe.yaml")
    assert snapshot(edges) == before


def test_the_old_output_stays_until_the_new_one_is_recorded(folder: Path) -> None:
    old = (folder / "made/fifty.csv").read_bytes()
    with killed_before_the_record():
        run(folder / "recipe.yaml", "fifty.n_clusters=40", start="fifty")
    (kept,) = folder.glob("made/fifty.csv.*.before")
    assert kept.read_bytes() == old
    assert json.loads((folder / "made/steps/fifty.json").read_text())["aside"] == str(kept)
    assert run(folder / "recipe.yaml", "fifty.n_clusters=40")["fifty"] == "resume"
    assert not kept.exists()


@pytest.mark.parametrize("change", [{"aside": "{folder}/mine"}, {"made": []}, {"made": {"": 1}}, {"given": 3}])
def test_a_forged_record_deletes_nothing(change: dict[str, object], folder: Path) -> None:
    (folder / "mine").mkdir()
    path = folder / "made/steps/export.json"
    fields = json.loads(json.dumps(change).replace("{folder}", str(folder)))
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))
    with pytest.raises(InputError, match=r"export\.json cannot be read"):
        run(folder / "recipe.yaml", start="export")
    assert (folder / "mine").exists()


def test_records_are_not_written_through_a_link(folder: Path) -> None:
    (folder / "made/steps").rename(folder / "mine")
    (folder / "made/steps").symlink_to(folder / "mine")
    (folder / "made/tree.nwk").unlink()
    before = snapshot(folder / "mine")
    with pytest.raises(StoreError, match=r"made/steps is a symbolic link"):
        run(folder / "recipe.yaml")
    assert snapshot(folder / "mine") == before


def test_records_are_on_disk_after_what_they_record(tmp_path: Path) -> None:
    recipe, made_in = tmp_path / "recipe.yaml", tmp_path / "new/made"
    recipe.write_text(f"folder: {made_in}\nsteps:\n  generate: {{nodes: 50, degree: 4, output: edges}}\n")
    kept = []

    def progress(event: Event) -> None:
        kept.append(seen.missing(made_in / "steps/generate.json", made_in / "steps"))

    with watched() as seen:
        run(recipe, report=progress)
    assert kept == [[]]  # that it has begun, while it makes its output
    assert not seen.missing(made_in / "steps/generate.json", tmp_path)
    assert not seen.missing(made_in / "edges", tmp_path)
    names = [path for path in seen.at_risk if path.endswith(("/edges", "/generate.json"))]
    assert [os.path.basename(path) for path in names] == ["generate.json", "edges"]
