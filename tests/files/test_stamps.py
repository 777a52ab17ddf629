"""One text for each version of a file, whatever the file system reports about it."""

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest

from dask_rac.files.stamps import stamp

MOMENT = datetime(2026, 3, 1, 12, 30, 15, 250_000, tzinfo=UTC)


@pytest.mark.parametrize("key", ["mtime", "LastModified", "created", "last_modified"])
def test_a_time_is_one_text_in_both_forms(key: str) -> None:
    assert stamp({key: MOMENT}) == stamp({key: MOMENT.timestamp()}) == "1772368215.25"


@pytest.mark.parametrize(
    ("info", "expected"),
    [
        ({"mtime": 3.5, "created": 7.0}, "3.5"),
        ({"ETag": '"abc"', "LastModified": MOMENT}, '"abc"'),
        ({"ETag": None, "LastModified": MOMENT}, "1772368215.25"),
        ({"LastModified": "Sun, 01 Mar 2026", "created": 7.0}, "Sun, 01 Mar 2026"),
        ({"size": 5}, ""),
    ],
)
def test_the_surest_sign_of_a_change_is_taken(info: dict[str, Any], expected: str) -> None:
    assert stamp(info) == expected


def test_a_local_file_is_known_by_the_time_it_was_modified(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    filesystem = fsspec.filesystem("file")
    for seconds, expected in ((1_700_000_000.25, "1700000000.25"), (1_700_000_000, "1700000000.0"), (0, "")):
        os.utime(file, (seconds, seconds))
        assert stamp(filesystem.info(str(file))) == expected
        assert stamp(filesystem.find(str(tmp_path), detail=True)[str(file)]) == expected
