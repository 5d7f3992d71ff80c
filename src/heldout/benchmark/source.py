"""``path#split=test,lang=en,limit=100``: where a dataset is, and which of its rows are meant."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from heldout.benchmark.frames import is_frame, kept
from heldout.errors import InputError
from heldout.remote import is_remote, located, without_secrets

# What a selection key may be called in the data, most common first.
ALIASES = {
    "lang": ("lang", "q_lang", "language", "question_lang"),
    "split": ("split", "subset_split", "partition"),
}

LIMIT = "limit"  # so many rows; no column can be selected by this name

_SPLIT_WORDS = {
    "train": "train",
    "training": "train",
    "trainset": "train",
    "val": "val",
    "valid": "val",
    "validate": "val",
    "validation": "val",
    "valset": "val",
    "dev": "val",
    "test": "test",
    "testing": "test",
    "testset": "test",
    "testmini": "testmini",
}


@dataclass(frozen=True)
class BenchmarkSource:
    location: str
    selection: Mapping[str, str] = field(default_factory=dict)
    limit: int | None = None  # only so many of the selected rows, the first ones

    @property
    def path(self) -> Path:
        return located(self.location)

    @property
    def split(self) -> str | None:
        split = self.selection.get("split")
        return _SPLIT_WORDS.get(split.lower(), split) if split else None

    @property
    def splits(self) -> tuple[str, ...]:
        """``split=validation+dev`` names several, in this order; each by its common name."""
        parts = [part.strip().lower() for part in self.selection.get("split", "").split("+")]
        return tuple(_SPLIT_WORDS.get(part, part) for part in parts if part)

    @property
    def filters(self) -> dict[str, str]:
        """The selection less the split, which chooses files rather than rows where it can."""
        return {key: value for key, value in self.selection.items() if key != "split"}

    def __str__(self) -> str:
        parts = [f"{key}={value}" for key, value in self.selection.items()]
        parts += [f"{LIMIT}={self.limit}"] if self.limit is not None else []
        return f"{self.location}#{','.join(parts)}" if parts else self.location


def parse_source(text: Any) -> BenchmarkSource:
    """Where data is: a path, an address or a name with a selection behind it, or a data frame."""
    if isinstance(text, BenchmarkSource):
        return text
    if is_frame(text):
        return BenchmarkSource(str(kept(text)))
    if not isinstance(text, str | os.PathLike):
        kind = type(text)
        raise InputError(
            f"expected a path, a name, a data frame, a dataset, or an opened Benchmark or Corpus; got "
            f"{kind.__module__}.{kind.__qualname__}"
        )
    text = str(text)
    if not text.strip():
        raise InputError("empty path: name a file, a folder or a dataset ('.' is this folder)")
    remote = is_remote(text)
    if not remote and _exists(text):  # a path may contain '#'
        return BenchmarkSource(text)
    location, mark, chosen = text.rpartition("#")
    if remote:
        location = without_secrets(location if mark else text)
        text = f"{location}{mark}{chosen if mark else ''}"
    if not mark:
        return BenchmarkSource(text)
    selection: dict[str, str] = {}
    for part in chosen.split(","):
        key, equals, value = part.partition("=")
        if not equals or not key.strip() or not value.strip():
            raise InputError(
                f"'{text}': after '#' comes key=value[,key=value], for example #split=test,lang=en; "
                f"'{part}' is not that"
            )
        selection[key.strip()] = value.strip()
    limit = _limit(selection.pop(LIMIT, None), text)
    if not location.strip():
        raise InputError(f"'{text}': empty path: name a file, a folder or a dataset before '#'")
    if remote:
        return BenchmarkSource(location, selection, limit)
    _exists(location)
    return BenchmarkSource(location, selection, limit)


def images_folder(images: str | Path | None) -> Path | None:
    """The folder of images that the user named; credentials in an address are taken out of it first."""
    if images is None:
        return None
    if isinstance(images, str) and is_remote(images):
        images = without_secrets(images)
    folder = located(images)
    try:
        if folder.is_dir():
            return folder
    except OSError as error:
        raise InputError(f"images: {folder} cannot be read: {error.strerror or error}") from error
    raise InputError(f"images: the folder {folder} does not exist")


def _limit(value: str | None, text: str) -> int | None:
    if value is None:
        return None
    if not (value.isascii() and value.isdigit() and int(value)):
        raise InputError(f"'{text}': limit: expected a whole number not below 1, not '{value}'")
    return int(value)


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError as error:  # a name too long, a folder above that may not be entered
        if error.errno == errno.ENAMETOOLONG and "#" in text:
            return False
        raise InputError(f"{text:.200}: cannot be opened: {error.strerror}") from error


def split_of(name: str) -> str | None:
    """The split in a file or folder name: 'official_test.json' → test, 'mevf_trainset' → train."""
    words = re.split(r"[^a-z]+", name.lower())
    splits = {_SPLIT_WORDS[word] for word in words if word in _SPLIT_WORDS}
    return splits.pop() if len(splits) == 1 else None
