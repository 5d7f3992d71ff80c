"""What an audit has finished: a stage is done while the fingerprint of its inputs stays the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout import __version__
from heldout.errors import InputError
from heldout.store import write_json

FILE = "stages.json"
_VERSION = 1


class Ledger:
    """``stages.json`` of an audit's output folder; written whole and by one rename, stage by stage."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / FILE
        self._stages: dict[str, dict[str, Any]] = {}
        if self.path.exists():
            try:
                known = json.loads(self.path.read_text())
            except ValueError as error:
                raise InputError(f"{self.path} is not JSON: remove it to start over") from error
            if known.get("schema_version") == _VERSION:
                self._stages = known["stages"]

    def finished(self, key: str, fingerprint: str, outputs: Sequence[Path]) -> Any | None:
        """What a finished stage left, None if it is to do: never done, other inputs, or output gone."""
        known = self._stages.get(key)
        if known is None or known["fingerprint"] != fingerprint:
            return None
        return known["result"] if all(path.exists() for path in outputs) else None

    def finish(self, key: str, fingerprint: str, result: Any) -> None:
        self._stages[key] = {"fingerprint": fingerprint, "result": result}
        write_json(self.path, {"schema_version": _VERSION, "stages": self._stages})


def fingerprint(inputs: Mapping[str, Any]) -> str:
    """Of everything a stage's result depends on, the version of heldout among it."""
    text = json.dumps({"heldout": __version__, **inputs}, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_digest(path: Path) -> str:
    """Of a file's content; of a folder's listing (a checkpoint is too large to read twice)."""
    if path.is_dir():
        listing = [
            (str(one.relative_to(path)), one.stat().st_size, one.stat().st_mtime_ns)
            for one in sorted(path.rglob("*"))
            if one.is_file()
        ]
        return fingerprint({"listing": listing})
    if not path.is_file():
        return "absent"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
