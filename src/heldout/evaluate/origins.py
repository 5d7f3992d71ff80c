"""Where the answers of a model come from: a run folder never mixes or replaces two that share a name."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc

from heldout.errors import InputError
from heldout.evaluate.result import FOLDER, SECTION
from heldout.model import stage_folder
from heldout.store import Run, without_credentials

_KEY = "origins"


class AnswerOrigin(NamedTuple):
    """``named``: for people. ``identity``: digest of a file, or who is asked at which address."""

    kind: str
    named: str
    identity: str


def file_origin(path: Path) -> AnswerOrigin:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return AnswerOrigin("recorded", f"{path.name} (sha256 {digest[:12]})", digest)


def server_origin(url: str, model: str) -> AnswerOrigin:
    named = f"'{model}' at {without_credentials(url).rstrip('/')}"
    return AnswerOrigin("endpoint", named, named)


def check_origins(run: Run, given: Mapping[str, Mapping[str, AnswerOrigin]]) -> None:
    """By model and benchmark; call before anything is asked or written."""
    known = run.manifest().get(SECTION, {}).get(_KEY, {})
    for model, parts in given.items():
        for benchmark, told in known.get(model, {}).items():
            earlier = AnswerOrigin(*told)
            others = [
                part
                for name, part in parts.items()
                # Files may answer a benchmark each; a server answers all of them.
                if (part.kind, part.identity) != (earlier.kind, earlier.identity)
                and (name == benchmark or {part.kind, earlier.kind} != {"recorded"})
            ]
            if others and _holds(Run(run.path / FOLDER / benchmark), model):
                raise InputError(
                    f"{run.path} holds answers of '{model}' to {benchmark} from {earlier.named}; these "
                    f"are from {others[0].named}. Name this model otherwise with --as, or use another "
                    f"--out"
                )


def keep_origin(run: Run, model: str, benchmark: str, origin: AnswerOrigin) -> None:
    known = run.manifest()[SECTION].get(_KEY, {})
    mine = {**known.get(model, {}), benchmark: list(origin)}
    run.update(SECTION, {_KEY: {**known, model: mine}})


def _holds(part: Run, model: str) -> bool:
    """An attempt that failed before its first answer binds nobody."""
    journal = part.path / "stages" / "ask" / stage_folder(model) / "replies.jsonl"
    if journal.exists() and journal.stat().st_size:
        return True
    if not part.table_path("answers").exists():
        return False
    return bool(pc.any(pc.equal(part.read_table("answers").column("model"), model)).as_py())
