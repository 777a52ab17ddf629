"""YAML and JSON that were changed: recipes, specs of clusters, and our own records, also with digests that match."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

import dask_rac
from dask_rac.deploy import check_spec
from dask_rac.files.folder import Folder
from dask_rac.store.header import own_digest
from dask_rac.store.overview import overview
from dask_rac.vectors.graph.build import read_facts
from tests.campaign.campaign import Campaign
from tests.support import crash
from tests.support.folders import no_fsync, quick_folder
from tests.support.hostile import SECRET, damaged, mutated, outcome
from tests.support.recipes import run, runner
from tests.support.signed import sign_chain
from tests.support.stored import PlugPulledError, stop_after

SNIPPETS = (
    "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
    "<<: {cluster: {}}\n",
    "x: !!int y\n",
    "x: !!python/object/apply:os.system [true]\n",
    "x: 2026-02-31\n",
    "x: 2026-02-01T99:99:99\n",
    "? [a]\n: b\n",
    "x: " + "[" * 600 + "\n",
    "x: " + "{a: " * 600 + "\n",
    "".join(" " * level + "a:\n" for level in range(600)),
    "x: 0b_\n",
    "x: " + "9" * 6_000 + "\n",
    "x: 0x" + "f" * 6_000 + "\n",
    "x: 1" + ":59" * 3_000 + "\n",
    "x: =\n",
    "x: '\0'\n",
    "%YAML 9.9\n---\n",
    "--- a\n--- b\n",
    f"folder: 'https://127.0.0.1:9/x?jwt={SECRET}'\n",
    "\t\n",
    "\ufeff",
)


@dataclass(frozen=True)
class Scene:
    """Sound files, and the labels that the finished run gives."""

    folder: Path
    work: Path
    labels: NDArray[Any]

    def copied(self, name: str) -> Path:
        """A fresh copy of a folder, to be changed."""
        target = self.work / name
        shutil.rmtree(target, ignore_errors=True)
        return Path(shutil.copytree(self.folder / name, target))


@contextmanager
def scene(_: Path) -> Iterator[Scene]:
    """A finished run, a stopped one, a graph of vectors, and a recipe that has run."""
    with quick_folder() as folder, quick_folder() as work, no_fsync():
        edges = crash.write_edges(folder / "edges", crash.path_edges(40))
        done = crash.begin(edges, folder / "run")
        try:
            crash.begin(edges, folder / "stopped", progress=stop_after(2))
        except PlugPulledError:
            dask_rac.knn_graph(np.eye(6), 2, store=folder / "graph", progress=False)
        (folder / "made").mkdir()
        recipe = {
            "folder": str(folder / "made/out"),
            "scheduler": "threads",
            "steps": {
                "generate": {"nodes": 64, "degree": 4, "output": "edges"},
                "cluster": {"memory": "1GB"},
                "cut": {"n_clusters": [2, 3], "output": "cut.parquet"},
            },
        }
        (folder / "made/recipe.yaml").write_text(yaml.safe_dump(recipe, sort_keys=False))
        run(folder / "made/recipe.yaml")
        yield Scene(folder, work, done.cut(n_clusters=3))


def trial(scene: Scene, chance: Random, number: int) -> None:
    """Change one file, and use it."""
    TRIALS[number % len(TRIALS)](scene, chance)


def change_text(text: str, chance: Random) -> bytes:
    """YAML with a change of its values, its lines or its bytes."""
    kind = chance.choice(("values", "values", "snippet", "snippet", "lines", "bytes"))
    if kind == "values":
        changed = mutated(yaml.safe_load(text), chance)
        try:
            return yaml.safe_dump(changed, sort_keys=False, allow_unicode=chance.random() < 0.5).encode()
        except RecursionError:
            return json.dumps(changed).encode()  # which YAML can read
    lines = text.splitlines(keepends=True)
    at = chance.randrange(len(lines) + 1)
    if kind == "snippet":
        indent = chance.choice(("", "", "  ", "    "))
        snippet = "".join(indent + line for line in chance.choice(SNIPPETS).splitlines(keepends=True))
        return "".join([*lines[:at], snippet, *lines[at:]]).encode()
    if kind == "lines":
        chance.shuffle(lines)
        return "".join(lines).encode()
    return damaged(text.encode(), chance)


def change_recipe(scene: Scene, chance: Random) -> None:
    """A recipe is checked and planned as a whole; nothing is written."""
    path = scene.work / "recipe.yaml"
    path.write_bytes(change_text((scene.folder / "made/recipe.yaml").read_text(), chance))
    sets = [f"{chance.choice(('folder', 'cut.n_clusters', 'x'))}={chance.choice(SNIPPETS)}"] * (chance.random() < 0.2)
    outcome(lambda: runner(path, *sets).plan())


SPECS = ("kubernetes", "coiled")
DASK_CLUSTER = {
    "apiVersion": "kubernetes.dask.org/v1",
    "kind": "DaskCluster",
    "metadata": {"name": "x", "namespace": "y"},
    "spec": {
        "worker": {"replicas": 2, "spec": {"containers": [{"name": "worker", "image": "i", "args": ["dask-worker"]}]}},
        "scheduler": {
            "spec": {"containers": [{"name": "scheduler", "image": "i", "args": ["dask-scheduler"]}]},
            "service": {"type": "ClusterIP", "selector": {}, "ports": []},
        },
    },
}
OPTIONS = {"name": "x", "n_workers": 3, "worker_memory": "8GiB", "region": "y"}


def change_spec(scene: Scene, chance: Random) -> None:
    """The spec of a cluster is checked before anything is started."""
    kind = chance.choice((*SPECS, "file"))
    path = scene.work / ("spec.json" if kind == "file" else "spec.yaml")
    document: Any = (
        {"address": "tcp://127.0.0.1:9"} if kind == "file" else OPTIONS if kind == "coiled" else DASK_CLUSTER
    )
    if kind == "file":
        path.write_bytes(change_record(document, chance, signed=False))
    else:
        path.write_bytes(change_text(yaml.safe_dump(document), chance))
    outcome(lambda: check_spec(str(path) if kind == "file" else f"{kind}:{path}"))


def change_record(fields: Any, chance: Random, signed: bool) -> bytes:
    """A record with a change; `signed` gives it a digest that matches."""
    changed = mutated(fields, chance)
    if signed and isinstance(changed, dict):
        changed.pop("sha256", None)
        changed["sha256"] = own_digest(changed)
    return json.dumps(changed).encode()


def look(store: Path) -> NDArray[Any]:
    """Use a store in every way that only reads."""
    overview(store).to_json()
    result = dask_rac.open(store)
    assert result.n_trees >= 0
    labels: NDArray[Any] = result.cut(n_clusters=3)
    return labels


def change_journal(scene: Scene, chance: Random) -> None:
    """A header or a manifest is changed; if its digest does not match, the answer is right or there is none."""
    store = scene.copied("run")
    steps = sorted(store.glob("manifests/*.json"))
    path = chance.choice((store / "rac.json", *steps))
    data, signed = path.read_bytes(), chance.random() < 0.6
    torn = not signed and chance.random() < 0.5
    path.write_bytes(damaged(data, chance) if torn else change_record(json.loads(data), chance, signed))
    if signed:
        sign_chain(store, 0 if path.name == "rac.json" else steps.index(path) + 1)
    found = outcome(lambda: look(store))
    if not signed and not isinstance(found, Exception):
        np.testing.assert_array_equal(found, scene.labels)


def change_stopped(scene: Scene, chance: Random) -> None:
    """The statistics of a run that was stopped are changed, or a folder is where a file was."""
    store = scene.copied("stopped")
    (store / "statistics").mkdir(exist_ok=True)
    round_ = {"round": 3, "clusters": 9, "edges": 8, "merges": 2}
    (store / "statistics/00099.json").write_bytes(
        change_record(round_, chance, False) if chance.random() < 0.5 else damaged(json.dumps(round_).encode(), chance)
    )
    if chance.random() < 0.5:
        path = chance.choice([path for path in store.rglob("*") if path.is_file()])
        path.unlink()
        path.mkdir()
    outcome(lambda: overview(store).to_json())
    outcome(lambda: dask_rac.open(store).labels)


def change_graph(scene: Scene, chance: Random) -> None:
    """The facts of a graph of vectors are changed."""
    store = scene.copied("graph")
    path = store / "_graph.json"
    data = path.read_bytes()
    path.write_bytes(damaged(data, chance) if chance.random() < 0.5 else change_record(json.loads(data), chance, False))
    outcome(lambda: read_facts(Folder(store)))
    outcome(lambda: dask_rac.knn_graph(np.eye(6), 2, store=store, progress=False))


def change_steps(scene: Scene, chance: Random) -> None:
    """The record of a step that a recipe has done is changed."""
    path = scene.folder / "made/out/steps" / f"{chance.choice(('generate', 'cluster', 'cut'))}.json"
    data = path.read_bytes()
    try:
        changed = damaged(data, chance) if chance.random() < 0.5 else change_record(json.loads(data), chance, False)
        path.write_bytes(changed)
        outcome(lambda: runner(scene.folder / "made/recipe.yaml").plan(chance.choice((None, "cut"))))
    finally:
        path.write_bytes(data)


TRIALS: tuple[Callable[[Scene, Random], None], ...] = (
    change_recipe,
    change_journal,
    change_recipe,
    change_journal,
    change_spec,
    change_stopped,
    change_graph,
    change_steps,
)

CAMPAIGN = Campaign(
    name="recipes",
    trial_is="a changed recipe, spec of a cluster, header, manifest or other record",
    scene=scene,
    trial=trial,
    goal=5_000,
    share=60,
)
