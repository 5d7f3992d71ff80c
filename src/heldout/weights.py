"""Weights that installed packages carry are loaded only if they are the ones heldout was tested with."""

from __future__ import annotations

import hashlib
from pathlib import Path

from heldout.errors import InputError

_KNOWN = Path(__file__).with_suffix(".sha256")  # as sha256sum writes it; .ci/lock.py writes it


def check_weights(package: Path, below: str, install: str) -> None:
    """Raise an InputError unless the files that heldout loads of an installed package are those it knows.

    Args:
        package: The package's folder.
        below: Which of them: the folder in it.
        install: What somebody has to do if one differs.
    """
    here = f"{package.name}/{below}/" if below else f"{package.name}/"
    lines = _KNOWN.read_text(encoding="utf-8").splitlines()
    known = [(digest, name) for digest, _, name in (line.partition("  ") for line in lines)]
    ours = [(digest, name) for digest, name in known if name.startswith(here)]
    if not ours:
        raise AssertionError(f"{_KNOWN.name} names nothing in {here}")
    for digest, name in ours:
        path = package.parent / name
        try:
            with path.open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as error:
            found = f"unknown: {error.strerror}"
        if found != digest:
            raise InputError(
                f"{path} is not the file that heldout was tested with: its SHA-256 is {found}, expected {digest}. "
                f"It was changed, or is of another version of its package; {install}"
            )
