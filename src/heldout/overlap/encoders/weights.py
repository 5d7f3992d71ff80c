"""A model file named in an --encoder: where it is, what identifies it, which options follow it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from heldout.errors import InputError


def split_options(argument: str) -> tuple[str, dict[str, str]]:
    """``model.onnx#size=288,resize=crop`` as the file and its options."""
    path, _, text = argument.partition("#")
    options = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals:
            raise InputError(f"--encoder …{argument}: expected key=value after '#', found '{part}'")
        options[key.strip()] = value.strip()
    return path, options


def existing_file(path: str, kind: str) -> Path:
    file = Path(path)
    if not file.is_file():
        raise InputError(f"--encoder {kind}:{path}: there is no such file")
    return file


def digest_files(files: list[Path]) -> str:
    """A short digest of the weights themselves: a file's name says nothing about what is in it."""
    hasher = hashlib.sha256()
    for file in files:
        with file.open("rb") as stream:
            hasher.update(hashlib.file_digest(stream, "sha256").digest())
    return hasher.hexdigest()[:16]
