"""YAML from anyone is small, flat and plain data, or it is refused with its line."""

import os
import resource
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dask_rac import InputError
from dask_rac.deploy import check_spec
from dask_rac.files.documents import DEEPEST, LARGEST, MOST, compose, read_document, value_of
from dask_rac.recipes.recipe import load_recipe


def value(text: str) -> Any:
    node = compose(text, "it")
    return None if node is None else value_of(node)


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]\n" for n in range(9)
)

REFUSED = {
    BOMB: "it, line 1: anchors and aliases",
    "steps:\n  x: *y\n": "it, line 2: anchors and aliases",
    "a: 1\nb: !!int x\n": "it, line 2: tags",
    "a: !local x\n": "it, line 1: tags",
    "[" * 500: f"it, line 1: more than {DEEPEST} levels",
    "".join(" " * level + "a:\n" for level in range(500)): f"it, line {DEEPEST}: more than {DEEPEST} levels",
    f"[{'1,' * (MOST + 1)}]": f"it, line 1: more than {MOST:,} values",
    "a: '\0'": "it: invalid YAML",
    "a: [\n": "it, line 2: invalid YAML",
}


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(text: str) -> None:
    with pytest.raises(InputError) as caught:
        compose(text, "it")
    assert str(caught.value).startswith(REFUSED[text])
    assert len(str(caught.value)) < 500


def test_what_only_looks_like_another_type_is_text() -> None:
    assert value("[2026-02-31, 2026-02-01, =, <<, 0b_, 1_000, 0x1f, 1.5, .inf, yes, ~]") == [
        "2026-02-31",
        "2026-02-01",
        "=",
        "<<",
        "0b_",
        1000,
        31,
        1.5,
        float("inf"),
        True,
        None,
    ]
    assert value("9" * 5_000) == "9" * 5_000
    with pytest.raises(ValueError, match="keys must be"):
        value("{[1]: 2}")


plain = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**20), 10**20) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_plain_data_is_read_as_it_was_written(data: Any) -> None:
    text = yaml.safe_dump(data)
    if "&" not in text and "!!" not in text:
        assert value(text) == data


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "large.yaml").write_bytes(b"#" * (LARGEST + 1))
    (tmp_path / "huge.yaml").touch()
    os.truncate(tmp_path / "huge.yaml", 2**40)
    (tmp_path / "binary.yaml").write_bytes(b"a: \xff")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for name, fault in (
        ("large.yaml", "is larger than"),
        ("huge.yaml", "is larger than"),
        ("binary.yaml", "is not UTF-8 text"),
        ("nowhere.yaml", "does not exist: pass the path of a recipe"),
        ("large.yaml/x", "does not exist"),
        ("a" * 300, "File name too long.*choose a shorter path"),
        ("nul\0.yaml", "NUL"),
        ("", "is a folder: pass the path of a recipe"),
    ):
        with pytest.raises(InputError, match=fault):
            read_document(f"{tmp_path}/{name}", "a recipe")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 100_000


@pytest.mark.parametrize(
    "text", [BOMB, "x: " + "[" * 500, "a: &a !!int x\n", "steps: {a: 2026-02-31}", "? {a: b}\n: c\n"]
)
def test_recipes_and_specs_of_clusters(tmp_path: Path, text: str) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(text)
    for use in (load_recipe, lambda _: check_spec(f"kubernetes:{path}"), lambda _: check_spec(f"coiled:{path}")):
        with pytest.raises(InputError, match=r"it\.yaml"):
            use(path)


def test_many_faults_are_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "it.yaml"
    path.write_text("steps:\n" + "".join(f"  x{number}: {{do: {'y' * 50}}}\n" for number in range(900)))
    with pytest.raises(InputError) as caught:
        load_recipe(path)
    assert len(str(caught.value).splitlines()) == 20


@pytest.mark.parametrize("folder", ["nul\\0", "a" * 5_000])
def test_paths_that_no_disk_has(tmp_path: Path, folder: str) -> None:
    path = tmp_path / "it.yaml"
    path.write_text(f'folder: "{folder}"\nsteps:\n  generate: {{nodes: 9}}\n')
    with pytest.raises(InputError, match="line 1: folder of a recipe must be text of at most 4,096 characters"):
        load_recipe(path)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"address": ["tcp://x:1"]}', "{}", "3"])
def test_scheduler_files(tmp_path: Path, text: str) -> None:
    path = tmp_path / "it.json"
    path.write_text(text)
    with pytest.raises(InputError, match="is not a scheduler file"):
        check_spec(str(path))
