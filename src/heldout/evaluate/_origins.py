"""Where the answers of a model come from: a run folder never mixes or replaces two that share a name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import pyarrow.compute as pc

from heldout.errors import InputError
from heldout.evaluate.result import FOLDER, SECTION
from heldout.model import file_sha256, stage_folder
from heldout.store import Run, without_credentials

_KEY = "origins"
_MOVED = ", then at "


class AnswerOrigin(NamedTuple):
    """``named``: for people. ``identity``: digest of a file, or the name under which a model is served:
    a server that moved continues with its earlier replies."""

    kind: str
    named: str
    identity: str


def file_origin(path: Path) -> AnswerOrigin:
    digest = file_sha256(path)
    return AnswerOrigin("recorded", f"{path.name} (sha256 {digest[:12]})", digest)


def server_origin(url: str, model: str) -> AnswerOrigin:
    named = f"'{model}' at {without_credentials(url).rstrip('/')}"
    return AnswerOrigin("endpoint", named, model)


def check_origins(run: Run, origins: Mapping[str, Mapping[str, AnswerOrigin]]) -> None:
    """By model and benchmark; call before anything is asked or written."""
    known = run.manifest().get(SECTION, {}).get(_KEY, {})
    for model, parts in origins.items():
        for benchmark, record in known.get(model, {}).items():
            earlier = AnswerOrigin(*record)
            others = [
                part
                for name, part in parts.items()
                # Files may answer a benchmark each; a server answers all of them.
                if not _same(part, earlier)
                and (name == benchmark or {part.kind, earlier.kind} != {"recorded"})
            ]
            if others and _holds(Run(run.path / FOLDER / benchmark), model):
                raise InputError(
                    f"{run.path} holds answers of '{model}' to {benchmark} from {earlier.named}; these "
                    f"are from {others[0].named}. Give this model another name with the "
                    f"setting name, or use another run folder (the setting out)"
                )


def keep_origin(run: Run, model: str, benchmark: str, origin: AnswerOrigin) -> None:
    known = run.manifest()[SECTION].get(_KEY, {})
    mine = known.get(model, {})
    if benchmark in mine and _holds(Run(run.path / FOLDER / benchmark), model):
        earlier, address = AnswerOrigin(*mine[benchmark]), origin.named.rpartition(" at ")[2]
        named = (
            earlier.named
            if earlier.named.endswith(address)
            else f"{earlier.named}{_MOVED}{address}"
        )
        origin = origin._replace(named=named)
    run.update(SECTION, {_KEY: {**known, model: {**mine, benchmark: list(origin)}}})


def moved_remarks(run: Run) -> Iterator[str]:
    """Models that were asked at several addresses."""
    for model, parts in run.manifest()[SECTION].get(_KEY, {}).items():
        for named in sorted({AnswerOrigin(*record).named for record in parts.values()}):
            if _MOVED in named:
                yield f"{model} was asked of {named}: the name is the same, the weights are not compared"


def _same(origin: AnswerOrigin, other: AnswerOrigin) -> bool:
    return origin.kind == other.kind and (
        origin.identity == other.identity or origin.named == other.named
    )


def _holds(part: Run, model: str) -> bool:
    """Whether there are answers: an attempt that failed before its first answer does not count."""
    journal = part.path / "stages" / "ask" / stage_folder(model) / "replies.jsonl"
    if journal.exists() and journal.stat().st_size:
        return True
    if not part.table_path("answers").exists():
        return False
    return bool(pc.any(pc.equal(part.read_table("answers").column("model"), model)).as_py())
