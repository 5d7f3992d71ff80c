"""LLaVA conversations (and role/content messages): every question with its answer becomes a row."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.benchmark.readers.base import Row, head
from heldout.benchmark.readers.json_rows import JsonLinesReader, numbered, stream_array
from heldout.store import Dropped

_ASKS = ("human", "user")
_ANSWERS = ("gpt", "assistant", "model", "bot")
_TAG = re.compile(r"(?<=\s)<image>\s|<image>\n?")


class LlavaReader:
    name = "llava"
    suffixes = (".json", ".jsonl", ".ndjson")

    def recognises(self, path: Path) -> bool:
        start = head(path)
        if start.lstrip()[:1] not in (b"[", b"{"):
            return False
        return (b'"conversations"' in start and b'"from"' in start) or (
            b'"messages"' in start and b'"role"' in start and b'"content"' in start
        )

    def rows(self, path: Path) -> Iterator[Row | Dropped]:
        if head(path).lstrip()[:1] == b"[":
            items = numbered(path, stream_array(path))
        else:
            items = JsonLinesReader().rows(path)
        number = 0
        for item in items:
            if isinstance(item, Dropped):
                yield item
                continue
            for row in turns(item, f"{path.name} row {item.number}"):
                if isinstance(row, Dropped):
                    yield row
                else:
                    number += 1
                    yield Row(number, row)


def turns(item: Row, where: str) -> Iterator[dict[str, Any] | Dropped]:
    """One row per question and answer; what does not pair is dropped with its turn."""
    key = "conversations" if "conversations" in item.values else "messages"
    conversation = item.values.get(key)
    if not isinstance(conversation, list) or not conversation:
        detail = f"expected '{key}' with a list of turns, found {conversation!r:.80}"
        yield Dropped("read", where, "broken conversation", detail)
        return
    rest = {name: value for name, value in item.values.items() if name not in (key, "id")}
    identity = str(item.values.get("id", item.number))
    pairs: list[tuple[str, str]] = []
    pictures: list[Any] = []
    question: str | None = None
    problem = ""
    for position, turn in enumerate(conversation, 1):
        role, text, shown = _turn(turn)
        if role == "system" and text is not None and question is None:
            rest["system"] = text
        elif role in _ASKS and text is not None and question is None:
            question = text
            pictures += shown
        elif role in _ANSWERS and text is not None and question is not None:
            pairs.append((question, text))
            question = None
        else:
            problem = f"turn {position} of {len(conversation)}: {turn!r:.80}"
            break
    if question is not None and not problem:
        problem = f"the question in turn {len(conversation)} has no answer"
    # One name for the column, so that items with one image and with several read alike.
    several = rest.pop("images", None)
    rest["image"] = rest.get("image") or several or pictures or None
    for turn_number, (asked, answered) in enumerate(pairs, 1):
        single = len(pairs) == 1
        row = {
            **rest,
            "id": identity if single else f"{identity}_{turn_number}",
            "question": _TAG.sub("", asked).strip(),
            "answer": answered.strip(),
        }
        if turn_number > 1:  # a later question may only make sense after the earlier ones
            row["conversation"] = "\n".join(f"{q}\n{a}" for q, a in pairs[: turn_number - 1])
        yield row
    if problem or not pairs:
        detail = problem or "no question with an answer"
        yield Dropped("read", where, "broken conversation", f"{identity}: {detail}")


def _turn(turn: Any) -> tuple[str, str | None, list[Any]]:
    """Role, text and images of one turn; the text is None where the turn is not one."""
    if not isinstance(turn, dict):
        return "", None, []
    role = str(turn.get("from", turn.get("role", ""))).lower()
    content = turn.get("value", turn.get("content"))
    if isinstance(content, str):
        return role, content, []
    if not isinstance(content, list):
        return role, None, []
    texts: list[str] = []
    pictures: list[Any] = []
    for part in content:  # [{"type": "image", "image": …}, {"type": "text", "text": …}]
        if isinstance(part, str):
            texts.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            texts.append(part["text"])
        elif isinstance(part, dict):
            named = [part.get(name) for name in ("image", "image_url", "path", "url")]
            picture = next((value for value in named if value), None)
            if isinstance(picture, dict):
                picture = picture.get("url")
            pictures += [picture] if isinstance(picture, str) else []
    return role, "\n".join(texts), pictures
