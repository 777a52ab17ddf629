"""Mutations of files of data: of bytes, of files in folders, and of what formats are made of."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

NUMBERS = (0, 1, 2, 3, -1, 127, 255, 2**15, 2**31 - 1, 2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, 2**63, 2**70)
WORDS = tuple(
    word
    for line in (
        "x zarr array group v2 default regular bytes gzip zstd blosc crc32c sharding_indexed transpose vlen-utf8",
        "pickle numcodecs.pickle float64 float32 int8 uint64 int32 bool complex64 string object |O <f8 >i4 <U4",
        "NaN Infinity ../x \0 C F",
    )
    for word in ("", *line.split(" "))
)
VALUES: tuple[Any, ...] = (*NUMBERS, 1e308, 0.5, None, True, False, [], {}, [0], [1, 1], [2**40], {"name": "x"})
PICKLES: tuple[Any, ...] = ({"id": "pickle"}, [{"id": "pickle"}], [{"name": "numcodecs.pickle", "configuration": {}}])
TOKENS = (
    *(b'"|""|\'|\0|\xef\xbb\xbf|\r|\r\n|\n|\n\n|,|,,|\t|;| |#|%|nan|NaN|inf|-inf|null|NA|-1|-0|+7'.split(b"|")),
    *b"1e400 1e-400 1e5 0x10 1_0 0.5 1.0 007 4294967296 9223372036854775807 9223372036854775808".split(),
    *b"99999999999999999999 \\N =1+1 \xff\xfe \xe9 \xed\xa0\x80".split(),
    *("\u0661".encode(), "\u2028".encode(), b"x" * 70_000, b"9" * 400),
)
DESCRIPTIONS = ("|O", "<f4", "<f8", ">f8", "<i8", "|u1", "|S9", "<U9", "<c16", "<m8", "|V8", "[('a','<f4')]", "'", "")
METADATA = (".json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")
TEXT = (".csv", ".tsv", ".txt")


def mutate(place: Path, chance: Random) -> str:
    """Change a file, or a folder of files, in one to three ways; return what was done, for people."""
    done = []
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        files = sorted(path for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file())
        if not files:
            break
        path = chance.choice(files)
        change = chance.choice((*_changes_of(path), *(_FILES if chance.random() < 0.2 else ())))
        done.append(f"{change.__name__.strip('_')} {path.relative_to(place.parent)}")
        change(path, chance, files)
    return ", ".join(done)


class _Act:
    """What runs a command when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("true",)


PAYLOAD = pickle.dumps(_Act())

Change = Callable[[Path, Random, list[Path]], None]


def _changes_of(path: Path) -> tuple[Change, ...]:
    """Return what can be done to a file: half of it by its format."""
    if path.name.endswith(METADATA):
        return (_edit_json, _edit_json, _edit_json, _edit_json, _nest_json, *_BYTES)
    if path.name.endswith(TEXT):
        return (_insert_token, _insert_token, _replace_token, _replace_token, *_BYTES[1:6])
    if path.suffix == ".npy":
        return (_edit_npy, _edit_npy, _edit_npy, _edit_npy, *_BYTES)
    if path.suffix == ".npz":
        return (_edit_member, _edit_member, _edit_member, _edit_member, _edit_members, _edit_directory, *_BYTES)
    if path.suffix == ".parquet":
        return (_edit_footer, _edit_footer, _edit_footer, _edit_footer, *_BYTES)
    return (_put_number, _put_number, *_BYTES)


def _flip(path: Path, chance: Random, _: list[Path]) -> None:
    data = bytearray(path.read_bytes())
    for _time in range(chance.choice((1, 1, 2, 8)) if data else 0):
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
    path.write_bytes(data)


def _truncate(path: Path, chance: Random, _: list[Path]) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: chance.randrange(len(data) + 1)])


def _delete_span(path: Path, chance: Random, _: list[Path]) -> None:
    data, (start, stop) = path.read_bytes(), _span(path, chance)
    path.write_bytes(data[:start] + data[stop:])


def _repeat_span(path: Path, chance: Random, _: list[Path]) -> None:
    data, (start, stop) = path.read_bytes(), _span(path, chance)
    path.write_bytes(data[:stop] + data[start:stop] * chance.choice((1, 1, 30)) + data[stop:])


def _overwrite(path: Path, chance: Random, _: list[Path]) -> None:
    data, (start, stop) = path.read_bytes(), _span(path, chance)
    path.write_bytes(data[:start] + chance.randbytes(stop - start) + data[stop:])


def _put_number(path: Path, chance: Random, _: list[Path]) -> None:
    data, form = bytearray(path.read_bytes()), chance.choice(("<I", "<Q", "<d", "<f", "B"))
    size = struct.calcsize(form)
    if len(data) < size:
        return
    number: float = chance.choice((*NUMBERS, *NUMBERS[:6]))
    if form in ("<d", "<f"):
        number = chance.choice((float("nan"), float("inf"), -1.0, 0.0, 1e38, 5e-324))
    else:
        number = int(number) % 2 ** (8 * size)
    at = chance.randrange(len(data) - size + 1)
    at -= at % 4 if chance.random() < 0.7 else 0
    data[at : at + size] = struct.pack(form, number)
    path.write_bytes(data)


def _span(path: Path, chance: Random) -> tuple[int, int]:
    """Return a short range of the bytes of a file."""
    size = path.stat().st_size
    start = chance.randrange(size + 1)
    return start, min(size, start + chance.choice((1, 4, 16, 200)))


def _put_payload(path: Path, chance: Random, _: list[Path]) -> None:
    data, at = path.read_bytes(), chance.choice((0, 128, path.stat().st_size // 2))
    path.write_bytes(data[:at] + PAYLOAD)


_BYTES: tuple[Change, ...] = (_put_payload, _flip, _truncate, _delete_span, _repeat_span, _overwrite, _put_number)


def _delete(path: Path, _: Random, __: list[Path]) -> None:
    path.unlink()


def _empty(path: Path, _: Random, __: list[Path]) -> None:
    path.write_bytes(b"")


def _make_folder(path: Path, _: Random, __: list[Path]) -> None:
    path.unlink()
    path.mkdir()


def _swap(path: Path, chance: Random, files: list[Path]) -> None:
    other = chance.choice(files)
    ours, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(ours)


def _copy_over(path: Path, chance: Random, files: list[Path]) -> None:
    path.write_bytes(chance.choice(files).read_bytes())


def _delete_parent(path: Path, _: Random, files: list[Path]) -> None:
    if path.parent != files[0].parent:
        shutil.rmtree(path.parent)


_FILES: tuple[Change, ...] = (_delete, _delete, _empty, _make_folder, _swap, _copy_over, _delete_parent)


def _edit_json(path: Path, chance: Random, _: list[Path]) -> None:
    try:
        tree = json.loads(path.read_bytes())
    except (ValueError, RecursionError):  # of an earlier change
        return
    holders = list(_holders(tree))
    if not holders:
        return
    holder, key = chance.choice(holders)
    if chance.random() < 0.15:
        del holder[key]
    elif isinstance(holder[key], int) and chance.random() < 0.7:
        holder[key] = chance.choice((*NUMBERS, holder[key] + 1, holder[key] - 1, holder[key] * 2))
    else:
        holder[key] = chance.choice((*VALUES, *WORDS))
    if chance.random() < 0.05 and isinstance(tree, dict):
        tree[chance.choice(("compressor", "filters", "codecs"))] = chance.choice(PICKLES)
        for chunk in path.parent.rglob("*"):
            if chunk.is_file() and not chunk.name.endswith(METADATA):
                chunk.write_bytes(PAYLOAD)
    path.write_text(json.dumps(tree))


def _holders(tree: Any) -> Any:
    """Yield every place in JSON, as its container and its key."""
    for key in list(tree) if isinstance(tree, dict) else range(len(tree)) if isinstance(tree, list) else ():
        yield tree, key
        yield from _holders(tree[key])


def _nest_json(path: Path, chance: Random, _: list[Path]) -> None:
    deep = chance.choice((100, 5_000, 200_000))
    path.write_text(chance.choice(("[" * deep, "[" * deep + "]" * deep, '{"a":' * deep + "1" + "}" * deep)))


def _edit_npy(path: Path, chance: Random, _: list[Path]) -> None:
    path.write_bytes(_edited_npy(path.read_bytes(), chance))


def _edited_npy(data: bytes, chance: Random) -> bytes:
    """Return a .npy whose header, or a value, is another."""
    start, stop = data.find(b"{"), data.find(b"\n") + 1
    if start < 0 or not stop or chance.random() < 0.35:
        data = data.ljust(8, b"\0")
        at = chance.randrange(len(data) - 7)
        at -= (at - stop) % 8 if chance.random() < 0.8 and at > stop + 8 else 0
        return data[:at] + struct.pack("<q", chance.choice(NUMBERS[:15])) + data[at + 8 :]
    header = data[start:stop]
    if chance.random() < 0.5:
        found = list(re.finditer(rb"\d+", header))
        if found:
            one = chance.choice(found)
            header = header[: one.start()] + str(chance.choice(NUMBERS)).encode() + header[one.end() :]
    elif chance.random() < 0.6:
        header = re.sub(rb"'descr': [^,]*", b"'descr': " + repr(chance.choice(DESCRIPTIONS)).encode(), header)
    else:
        at = chance.randrange(len(header))
        header = (
            header[:at]
            + chance.choice((b"(", b")", b"'", b"True", b"-", b"__import__('os')", b"\xff", b"9" * 50))
            + header[at:]
        )
    if chance.random() < 0.8:  # as long as before, so that the values stay in place
        header = header.rstrip(b" \n").ljust(stop - start - 1)[: stop - start - 1] + b"\n"
    return data[:start] + header + data[stop:]


def _edit_member(path: Path, chance: Random, _: list[Path]) -> None:
    members = _members(path)
    if members:
        name = chance.choice(sorted(members))
        members[name] = _edited_npy(members[name], chance)
        _write_members(path, members, chance)


def _edit_members(path: Path, chance: Random, _: list[Path]) -> None:
    members = _members(path)
    if members:
        name, other = chance.choice(sorted(members)), chance.choice(sorted(members))
        data = members[name] if chance.random() < 0.5 else members.pop(name)
        members[chance.choice((other, "x.npy", "../x.npy", "format", "data"))] = data
        _write_members(path, members, chance)


def _members(path: Path) -> dict[str, bytes]:
    """Return the files in a zip; none if it is damaged already."""
    try:
        with zipfile.ZipFile(path) as bundle:
            return {name: bundle.read(name) for name in bundle.namelist()}
    except Exception:
        return {}


def _write_members(path: Path, members: dict[str, bytes], chance: Random) -> None:
    """Write files as a zip."""
    buffer = io.BytesIO()
    packing = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(buffer, "w", packing) as bundle:
        for name, data in members.items():
            bundle.writestr(name, data)
    path.write_bytes(buffer.getvalue())


def _edit_directory(path: Path, chance: Random, _: list[Path]) -> None:
    """Change a number in the directory at the end of a zip."""
    data = bytearray(path.read_bytes())
    found = [match.start() for match in re.finditer(b"PK\x01\x02|PK\x03\x04", data)]
    if found:
        at = chance.choice(found) + chance.choice((6, 8, 10, 14, 16, 18, 20, 22, 24, 28, 42))
        data[at : at + 4] = struct.pack("<I", chance.choice(NUMBERS) % 2**32)
        path.write_bytes(data)


def _edit_footer(path: Path, chance: Random, _: list[Path]) -> None:
    """Change bytes of the footer of a Parquet file, or its length."""
    data = bytearray(path.read_bytes())
    if len(data) < 12:
        return
    length = min(int.from_bytes(data[-8:-4], "little"), len(data) - 8)
    for _time in range(chance.choice((1, 1, 2, 4))):
        at = len(data) - 8 - chance.randrange(1, length + 1) if length and chance.random() < 0.9 else len(data) - 8
        data[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, data[at] ^ 1 << chance.randrange(8), (data[at] + 2) % 256))
    path.write_bytes(data)


def _insert_token(path: Path, chance: Random, _: list[Path]) -> None:
    data, at = path.read_bytes(), chance.randrange(path.stat().st_size + 1)
    path.write_bytes(data[:at] + chance.choice(TOKENS) + data[at:])


def _replace_token(path: Path, chance: Random, _: list[Path]) -> None:
    data = path.read_bytes()
    found = list(re.finditer(rb"[^,\t \n]+|[,\t \n]", data))
    if found:
        one = chance.choice(found)
        path.write_bytes(data[: one.start()] + chance.choice(TOKENS) + data[one.end() :])
