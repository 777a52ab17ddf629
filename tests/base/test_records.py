"""Records from files have the types with which they were written, or they are refused."""

from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dask_rac.base.events import RoundRecord
from dask_rac.base.names import refuse_names
from dask_rac.base.records import decoded, parse_json
from dask_rac.base.text import listed, quoted

SOUND = RoundRecord(round=3, clusters=9, edges=8, merges=2)


def test_what_was_written_is_read() -> None:
    assert decoded(RoundRecord, asdict(SOUND)) == SOUND
    assert decoded(RoundRecord, asdict(replace(SOUND, fold_seconds=1))) == replace(SOUND, fold_seconds=1)


@pytest.mark.parametrize("value", [None, "9", 1.0, True, -1, 2**63, 10**400, [9], {"a": 1}])
def test_counts_of_another_type(value: object) -> None:
    with pytest.raises(ValueError, match="'clusters' of RoundRecord is "):
        decoded(RoundRecord, asdict(SOUND) | {"clusters": value})


@pytest.mark.parametrize("fields", [None, [], 3, {"clusters": 1}, asdict(SOUND) | {"x": 1}])
def test_other_records(fields: object) -> None:
    with pytest.raises(ValueError, match="RoundRecord"):
        decoded(RoundRecord, fields)


def test_numbers_that_are_none() -> None:
    with pytest.raises(ValueError, match="fold_seconds"):
        decoded(RoundRecord, asdict(SOUND) | {"fold_seconds": float("nan")})


def test_json_that_python_gives_up_on() -> None:
    with pytest.raises(ValueError, match="nested too deeply"):
        parse_json("[" * 100_000)
    with pytest.raises(ValueError, match="digits"):
        parse_json("9" * 100_000)


@pytest.mark.parametrize(
    "name", ["x", "merges", "merges/", "merges/../x", "/merges/x", "merges//x", "rounds/x", "m\0/x"]
)
def test_names_that_lead_out_of_a_store(name: str) -> None:
    refuse_names(["merges/x", "merges/a/b"], "merges", "tree")
    with pytest.raises(ValueError, match="is not a file of a store"):
        refuse_names([name], "merges", "tree")


values = st.recursive(
    st.none() | st.integers() | st.text() | st.floats(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=30,
)


@given(values)
def test_quotes_are_short(value: object) -> None:
    text = quoted(value)
    assert len(text) < 15_000
    if len(repr(value)) < 30 and not isinstance(value, list | dict):
        assert text == repr(value)


def test_quotes_of_what_would_not_end() -> None:
    bomb: list[object] = [1]
    for _ in range(60):
        bomb = [bomb] * 9
    assert len(quoted(bomb)) < 60_000
    assert quoted(1 << 10**6) == "a number of 1,000,001 bits"
    assert listed(str(number) for number in range(10**6)).endswith("18, 19, ...")
