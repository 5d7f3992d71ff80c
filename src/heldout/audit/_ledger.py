"""The finished stages of an audit: a stage stays finished while the fingerprint of its inputs is the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from heldout import __version__
from heldout.audit.cases import AuditCase
from heldout.audit.reader import Audit
from heldout.errors import InputError
from heldout.store import Run, write_json

FILE = "stages.json"
_VERSION = 1


class AuditLedger:
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
        """The result of a finished stage; None if it has to run: it never did, its inputs changed, or its
        output is gone."""
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
            (str(entry.relative_to(path)), entry.stat().st_size, entry.stat().st_mtime_ns)
            for entry in sorted(path.rglob("*"))
            if entry.is_file()
        ]
        return fingerprint({"listing": listing})
    if not path.is_file():
        return "absent"
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# An output folder that holds another revision of a benchmark, or another seed, is refused before any work.


def refuse_changed(audit: Audit, cases: Sequence[AuditCase]) -> None:
    """Refuse to mix results of two revisions; the message says what to write instead, and what is kept."""
    reasons = [reason for case in cases if (reason := _changed(case, audit.file.seed))]
    if not reasons:
        return
    fresh = _free(audit.output)
    written = Path(audit.file.output).with_name(fresh.name)
    stale = " ".join(str(case.folder) for case in cases if _changed(case, audit.file.seed))
    raise InputError(
        f"{audit.output} holds results that do not fit {audit.path} any more: {'; '.join(reasons)}. To keep "
        f"both, write `output: {written}` in {audit.path} and run the audit again; then heldout "
        f"compare {audit.output} {fresh} says what changed. To start over, remove {stale}: all else "
        f"in {audit.output} is kept"
    )


def _changed(case: AuditCase, seed: int) -> str:
    if not (case.folder / "manifest.json").exists():
        return ""
    manifest = Run.open(case.folder).manifest()
    if manifest["seed"] != seed:
        return f"{case.name} was audited with seed {manifest['seed']}, not {seed}"
    known = manifest["inputs"].get("benchmark")
    if known is None or known["fingerprint"] == case.benchmark.fingerprint:
        return ""
    items = known.get("items"), len(case.benchmark)
    count = f"{items[0]:,} items → {items[1]:,}" if items[0] != items[1] else f"{items[1]:,} items"
    return (
        f"the benchmark {case.name} changed its content or order ({count}, revision "
        f"{known['fingerprint'][:12]} → {case.benchmark.fingerprint[:12]})"
    )


def _free(output: Path) -> Path:
    """A name beside ``output`` that is not taken."""
    number = 2
    while (name := output.with_name(f"{output.name}-{number}")).exists():
        number += 1
    return name
