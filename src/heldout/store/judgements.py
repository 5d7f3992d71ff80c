"""Judgements: what people said of matches and items, appended and never rewritten."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from heldout.errors import InputError
from heldout.store.files import exclusive, opened

MATCH, TEXT, ITEM, TWIN = "match", "text", "item", "twin"


@dataclass(frozen=True)
class Judgement:
    """One judgement of one person. A later one by the same rater on the same subject replaces it."""

    rater: str
    kind: str  # match, text, item or twin
    subject: str  # key of the match or item; it depends on the data alone
    verdict: str | None  # None takes an earlier one back
    note: str = ""
    ratings: Mapping[str, int] = field(default_factory=dict)  # scale → 1 to 4
    time: str = ""
    seconds: float | None = None  # how long the card was looked at


def append(run: Path, judgement: Judgement) -> Judgement:
    """On disk before this returns; two writers never tear each other's lines."""
    path = log_path(run)
    stamped = Judgement(**{**asdict(judgement), "time": datetime.now(UTC).isoformat()})
    line = json.dumps(asdict(stamped), ensure_ascii=False) + "\n"
    with exclusive(path.with_name(".judgements.lock")), opened(path, "ab") as file:
        if file.tell() and not _ends_with_newline(path):
            file.write(b"\n")  # a line torn by a crash stays torn, and alone
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())
    return stamped


def history(run: Path) -> Iterator[Judgement]:
    """Every judgement in the order in which it was made; a torn last line is passed over."""
    path = log_path(run)
    try:
        with opened(path) as file:
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield Judgement(**_object(json.loads(line)))
        except (ValueError, TypeError) as error:
            if number >= len(lines) - 1 or not line.rstrip().endswith(b"}"):
                continue
            raise InputError(f"{path}, line {number} is not a judgement: {error}") from error


def current(run: Path, kind: str) -> dict[tuple[str, str], Judgement]:
    """The latest judgement of each rater on each subject, by (subject, rater)."""
    latest: dict[tuple[str, str], Judgement] = {}
    for judgement in history(run):
        if judgement.kind == kind:
            latest[judgement.subject, judgement.rater] = judgement
    return {
        key: latest_judgement
        for key, latest_judgement in latest.items()
        if latest_judgement.verdict is not None
    }


class Following:
    """``current`` for repeated calls: only what was appended since the last call is read."""

    def __init__(self, run: Path, kind: str) -> None:
        self.run, self.kind = run, kind
        self._lock = threading.Lock()
        self._read = 0  # bytes, up to the end of a line
        self._latest: dict[tuple[str, str], Judgement] = {}

    def current(self) -> dict[tuple[str, str], Judgement]:
        path = log_path(self.run)
        with self._lock:
            size = path.stat().st_size if path.exists() else 0
            if size < self._read:  # the file was replaced
                self._read, self._latest = 0, {}
            if size > self._read:
                self._follow(path)
            return {
                key: judgement
                for key, judgement in self._latest.items()
                if judgement.verdict is not None
            }

    def _follow(self, path: Path) -> None:
        with opened(path) as file:
            file.seek(self._read)
            data = file.read()
        whole = data[: data.rfind(b"\n") + 1]  # a line that is still being written comes next time
        for line in whole.split(b"\n"):
            if line.strip() and line.rstrip().endswith(b"}"):
                try:
                    judgement = Judgement(**_object(json.loads(line)))
                except (ValueError, TypeError) as error:
                    raise InputError(
                        f"{path} holds a line that is no judgement: {error}"
                    ) from error
                if judgement.kind == self.kind:
                    self._latest[judgement.subject, judgement.rater] = judgement
        self._read += len(whole)


def log_path(run: Path) -> Path:
    return run / "review" / "judgements.jsonl"


#: earlier names of verdicts on matches
_RENAMED = {"same view, other subject": "look-alike"}


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError("expected an object")
    if value.get("kind") == MATCH and value.get("verdict") in _RENAMED:
        return {**value, "verdict": _RENAMED[value["verdict"]]}
    return value


def _ends_with_newline(path: Path) -> bool:
    with opened(path) as file:
        file.seek(-1, os.SEEK_END)
        return bool(file.read(1) == b"\n")
