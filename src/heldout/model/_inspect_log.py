"""Logs of inspect_ai as rows of predictions: ``.eval`` archives and their JSON form.

An archive is read member by member with the standard library; members that inspect_ai compresses with
Zstandard (zip method 93) are unpacked by pyarrow. Nothing is written to disk, so names of members cannot
lead anywhere, and no member may unpack to more than ``LARGEST_SAMPLE`` bytes.
"""

from __future__ import annotations

import json
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from heldout.benchmark import FileRow
from heldout.errors import InputError
from heldout.store import Dropped

# bytes unpacked: a sample includes its pictures; a larger one is a decompression bomb
LARGEST_SAMPLE = 256 * 2**20
LARGEST_RATIO = 2_000  # unpacked over packed; text of one repeated word reaches about 1,000
MOST_MEMBERS = 2_000_000
_SAMPLE = re.compile(r"samples/[^/]+\.json")
_ATTACHED = re.compile(r"(?:attachment|tc)://([0-9a-f]{32})")
_ZSTANDARD = 93
_BLOCK = 2**16
_LOCAL_HEADER = struct.Struct("<4s22xHH")
_GRADES = {"C": True, "I": False, "N": False}
_PARTIAL = {"P": 0.5}


def is_inspect_json(value: Mapping[str, Any]) -> bool:
    """Whether a JSON object is a log in inspect_ai's JSON form."""
    return isinstance(value.get("eval"), dict) and isinstance(value.get("samples"), list)


def inspect_json_rows(path: Path, value: Mapping[str, Any]) -> Iterator[FileRow | Dropped]:
    """Rows of a log that is one JSON object."""
    about = value["eval"]
    for number, sample in enumerate(value["samples"], 1):
        yield _row(path, number, f"sample {number}", sample, about)


def inspect_rows(path: Path) -> Iterator[FileRow | Dropped]:
    """Rows of an ``.eval`` archive, one sample at a time, in the order of sample ids and epochs."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
            if len(members) > MOST_MEMBERS:
                raise InputError(
                    f"{path}: {len(members):,} members; a log has at most {MOST_MEMBERS:,}"
                )
            about = _about(archive, path, members)
            samples = [member for member in members if _SAMPLE.fullmatch(member.filename)]
            if not samples:
                raise InputError(
                    f"{path}: the archive holds no samples/*.json; was the evaluation run without "
                    f"logging its samples?"
                )
            for number, member in enumerate(sorted(samples, key=_place), 1):
                try:
                    sample = json.loads(_unpacked(archive, member, path))
                except (ValueError, RecursionError) as error:
                    detail = f"{path.name}: {type(error).__name__}: {str(error)[:80]}"
                    yield Dropped("read", member.filename[:120], "unreadable sample", detail)
                    continue
                yield _row(path, number, member.filename, sample, about)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, OSError) as error:
        raise InputError(
            f"{path}: not a readable .eval log of inspect_ai ({error}); write it anew with "
            f"'inspect log convert --to json'"
        ) from error


def _place(member: zipfile.ZipInfo) -> tuple[int, str, int, str]:
    """Sample 2 before sample 10, and the first epoch before the second."""
    match = re.fullmatch(r"samples/(.+)_epoch_(\d+)\.json", member.filename)
    name, epoch = (match[1], int(match[2][:9])) if match else (member.filename, 0)
    number = int(name) if name.isdecimal() and len(name) < 16 else 2**60
    return number, name, epoch, member.filename


def _about(
    archive: zipfile.ZipFile, path: Path, members: list[zipfile.ZipInfo]
) -> Mapping[str, Any]:
    """The header; of a run that was killed only the journal's start exists."""
    for wanted in ("header.json", "_journal/start.json"):
        for member in members:
            if member.filename == wanted:
                try:
                    value = json.loads(_unpacked(archive, member, path))
                except (ValueError, RecursionError) as error:
                    raise InputError(f"{path}: {wanted} is not JSON: {str(error)[:80]}") from error
                if isinstance(value, dict) and isinstance(value.get("eval"), dict):
                    about: Mapping[str, Any] = value["eval"]
                    return about
    raise InputError(
        f"{path}: neither header.json nor _journal/start.json names the model that was evaluated; is it "
        f"a log of inspect_ai?"
    )


def _unpacked(archive: zipfile.ZipFile, member: zipfile.ZipInfo, path: Path) -> bytes:
    where = f"{path}: {member.filename:.120}"
    if member.flag_bits & 1:
        raise InputError(f"{where} is encrypted; write the log without a password")
    if member.file_size > LARGEST_SAMPLE or (
        member.file_size > 2**20 and member.file_size > LARGEST_RATIO * member.compress_size
    ):
        raise InputError(
            f"{where} unpacks to {member.file_size:,} bytes from {member.compress_size:,}; a sample "
            f"has at most {LARGEST_SAMPLE:,}"
        )
    if member.compress_type == _ZSTANDARD:
        content = _zstandard(archive, member)
    else:
        with archive.open(member) as file:  # ends at the size that the directory claims
            content = file.read(LARGEST_SAMPLE + 1)
    if len(content) > LARGEST_SAMPLE:
        raise InputError(f"{where} unpacks to more than {LARGEST_SAMPLE:,} bytes")
    return content


def _zstandard(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> bytes:
    file = archive.fp
    assert file is not None
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER.size)
    if len(header) < _LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
        raise zipfile.BadZipFile(f"no file header at byte {member.header_offset:,}")
    _, name, extra = _LOCAL_HEADER.unpack(header)
    file.seek(name + extra, 1)
    packed = file.read(member.compress_size)
    content = bytearray()
    try:
        with pa.CompressedInputStream(pa.BufferReader(packed), "zstd") as stream:
            while len(content) <= LARGEST_SAMPLE and (block := stream.read(_BLOCK)):
                content += block
    except (pa.ArrowInvalid, OSError) as error:
        raise zipfile.BadZipFile(f"{member.filename:.120}: {error}") from error
    if len(content) <= LARGEST_SAMPLE and zlib.crc32(content) != member.CRC:
        raise zipfile.BadZipFile(f"{member.filename:.120} is damaged: its checksum differs")
    return bytes(content)


def _row(
    path: Path, number: int, where: str, sample: Any, about: Mapping[str, Any]
) -> FileRow | Dropped:
    if not isinstance(sample, dict) or "id" not in sample:
        return Dropped("read", where[:120], "unreadable sample", f"{path.name}: no sample id")
    attachments = sample.get("attachments")
    texts = attachments if isinstance(attachments, dict) else {}
    values: dict[str, Any] = {
        "id": sample["id"],
        "model": about.get("model"),
        "task": about.get("task"),
        "draw": max(_whole(sample.get("epoch"), 1) - 1, 0),
        "question": _question(sample.get("input"), texts),
        **_usage(sample.get("output")),
    }
    # A sample that ended in an error has none, which is not the same as an empty one.
    if (completion := _completion(sample.get("output"), texts)) is not None:
        values["prediction"] = completion
    if isinstance(sample.get("choices"), list):
        values["options"] = [_attached(choice, texts) for choice in sample["choices"]]
    target = sample.get("target")
    target = target[0] if isinstance(target, list) and len(target) == 1 else target
    # several targets are all correct, which a single column cannot express
    if isinstance(target, str):
        values["answer"] = _attached(target, texts).strip()
    return FileRow(number, {**values, **_score(sample.get("scores"))})


def _score(scores: Any) -> dict[str, Any]:
    """The first scorer's verdict: C and I are right and not, P is half of it, numbers stay numbers."""
    if not isinstance(scores, dict) or not scores:
        return {}
    name, score = next(iter(scores.items()))
    if not isinstance(score, dict):
        return {}
    record = {"scorer": name, "scorer_answer": score.get("answer")}
    value = score.get("value")
    if isinstance(value, bool) or (isinstance(value, str) and value in _GRADES):
        return {**record, "correct": value if isinstance(value, bool) else _GRADES[value]}
    if isinstance(value, str):
        return {**record, "score": _PARTIAL.get(value)}
    return {**record, "score": value if isinstance(value, int | float) else None}


def _completion(output: Any, texts: Mapping[str, Any]) -> str | None:
    """The model's final reply; None if it never answered (an error, a limit)."""
    choices = output.get("choices") if isinstance(output, dict) else None
    first = choices[0] if isinstance(choices, list) and choices else None
    message = first.get("message") if isinstance(first, dict) else None
    return _text(message.get("content"), texts) if isinstance(message, dict) else None


def _question(content: Any, texts: Mapping[str, Any]) -> str | None:
    if not isinstance(content, list):
        return _text(content, texts)
    asked = [
        record for record in content if isinstance(record, dict) and record.get("role") == "user"
    ]
    return _text(asked[-1].get("content"), texts) if asked else None


def _text(content: Any, texts: Mapping[str, Any]) -> str | None:
    if isinstance(content, str):
        return _attached(content, texts)
    if isinstance(content, list):  # text beside pictures, or beside what the model thought
        parts = [
            _attached(part["text"], texts)
            for part in content
            if isinstance(part, dict)
            and part.get("type") == "text"
            and isinstance(part.get("text"), str)
        ]
        return "\n".join(parts)
    return None


def _attached(text: Any, texts: Mapping[str, Any]) -> str:
    """Long texts are stored separately, under a hash that replaces them."""
    match = _ATTACHED.fullmatch(str(text))
    kept = texts.get(match[1]) if match else None
    return kept if isinstance(kept, str) else str(text)


def _usage(output: Any) -> dict[str, int]:
    usage = output.get("usage") if isinstance(output, dict) else None
    if not isinstance(usage, dict):
        return {}
    names = {"prompt_tokens": "input_tokens", "reply_tokens": "output_tokens"}
    return {ours: n for ours, theirs in names.items() if (n := _whole(usage.get(theirs), -1)) >= 0}


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
