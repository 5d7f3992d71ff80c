"""ImageCLEF VQA-Med's text files: ``image|question|answer``, or with a category in second place.

The test sets of 2020 and 2021 come as two files, ``image|question`` and ``image|answer``: the second
is read with the first.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from heldout.benchmark.readers.base import FileRow, head, open_text
from heldout.benchmark.readers.json_rows import stream_array
from heldout.store import Dropped

_FEWEST_PAIRS = 3  # lines of two fields that make a table; a caption may hold a pipe, too
_HEAD = 4096  # bytes that are looked at
_NAME = re.compile(r"\S+")


class PipesReader:
    name = "vqa-med"
    suffixes = (".txt",)

    def recognises(self, path: Path) -> bool:
        if _holds_answers(path) and _question_files(path):
            return False  # read with the questions
        lines = _first_lines(path)
        if lines and all(line.count("|") >= 2 for line in lines[:4]):
            return True
        return len(lines) >= _FEWEST_PAIRS and _are_pairs(lines)

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        pairs = _are_pairs(_first_lines(path))
        answers = PipeAnswers.beside(path) if pairs else PipeAnswers()
        with open_text(path) as file:
            for number, line in enumerate(file, 1):
                parts = line.rstrip("\n").split("|")
                if not line.strip():
                    continue
                if len(parts) < (2 if pairs else 3):
                    expected = "image|question" if pairs else "image|question|answer"
                    where = f"{path.name} line {number}"
                    yield Dropped("read", where, "too few fields", f"expected {expected}")
                elif pairs:
                    image, question = parts[0], "|".join(parts[1:])
                    accepted = answers.take(image)
                    answer = accepted[0] if len(accepted) == 1 else accepted or None
                    values = {"image": image, "img_id": image, "question": question}
                    yield FileRow(number, {**values, "answer": answer})
                else:
                    yield FileRow(number, _values(parts))
        yield from answers.left_over()


def _values(parts: list[str]) -> dict[str, str | list[str]]:
    values: dict[str, str | list[str]] = {"image": parts[0], "img_id": parts[0]}
    if len(parts) == 3:
        return {**values, "question": parts[1], "answer": parts[2]}
    if _asks(parts[1]) and not _asks(parts[2]):  # several answers, all of them right
        return {**values, "question": parts[1], "answer": parts[2:]}
    return {**values, "category": parts[1], "question": parts[2], "answer": "|".join(parts[3:])}


def _asks(text: str) -> bool:
    return text.rstrip().endswith("?")


class PipeAnswers:
    """The reference answers that lie beside a file of questions, by image and in order."""

    def __init__(self) -> None:
        self.path = Path()
        self._left: dict[str, list[tuple[int, list[str]]]] = defaultdict(list)

    @classmethod
    def beside(cls, path: Path) -> PipeAnswers:
        """The answers to the questions in ``path``; none where no file holds them."""
        answers = cls()
        files = [] if _holds_answers(path) else _answer_files(path)
        if files:
            answers.path = files[0]
            with open_text(files[0]) as file:
                for number, line in enumerate(file, 1):
                    image, *texts = line.strip().split("|")
                    if texts:
                        answers._left[image].append((number, [text.strip() for text in texts]))
        return answers

    def take(self, image: str) -> list[str]:
        """The next answers about an image, all of them right; none if none are left."""
        left = self._left.get(image)
        return left.pop(0)[1] if left else []

    def left_over(self) -> Iterator[Dropped]:
        for image, left in self._left.items():
            for number, answers in left:
                where = f"{self.path.name} line {number}"
                detail = f"{image}: no question for the answer {answers[0]!r:.80}"
                yield Dropped("read", where, "answer without a question", detail)


def _first_lines(path: Path) -> list[str]:
    lines = head(path, _HEAD).decode("utf-8", errors="replace").split("\n")
    if len(lines) > 1 and path.stat().st_size > _HEAD:
        lines.pop()  # cut
    return [line for line in lines if line.strip()][:20]


def _are_pairs(lines: list[str]) -> bool:
    """Whether every line is an image and one text."""
    fields = [line.split("|") for line in lines]
    return all(len(f) == 2 and _NAME.fullmatch(f[0]) and f[1].strip() for f in fields)


def _holds_answers(path: Path) -> bool:
    """By its name, as the organisers call it: …Test-ReferenceAnswers.txt."""
    return "answers" in path.name.lower() and "question" not in path.name.lower()


def _answer_files(path: Path) -> list[Path]:
    """Files of answers beside a file of questions, about the same images."""
    return [other for other in _neighbours(path) if _holds_answers(other) and _agree(path, other)]


def _question_files(path: Path) -> list[Path]:
    return [
        other
        for other in _neighbours(path)
        if not _holds_answers(other) and _are_pairs(_first_lines(other)) and _agree(other, path)
    ]


def _neighbours(path: Path) -> list[Path]:
    return sorted(other for other in path.parent.glob("*.txt") if other != path and other.is_file())


def _agree(first: Path, second: Path) -> bool:
    """Whether two files begin with the same images."""
    names, other = ({line.split("|")[0] for line in _first_lines(path)} for path in (first, second))
    few = min(len(names), len(other), 3)
    return few > 0 and len(names & other) >= few


# PathVQA's official files: per image two parallel lists, the questions and their answers.


class PathVqaReader:
    name = "pathvqa"
    suffixes = (".json",)

    def recognises(self, path: Path) -> bool:
        start = head(path, 4096)
        return b'"labelf"' in start and b'"sentf"' in start

    def rows(self, path: Path) -> Iterator[FileRow | Dropped]:
        number = 0
        for position, entry in enumerate(stream_array(path), 1):
            if isinstance(entry, Dropped):
                yield entry
                continue
            where = f"{path.name} image {position}"
            try:
                image = entry["img_id"]
                questions, answers = entry["sentf"]["pvqa"], entry["labelf"]["pvqa"]
            except (KeyError, TypeError) as error:
                yield Dropped(
                    "read", where, "missing field", f"expected img_id, sentf, labelf: {error}"
                )
                continue
            if len(questions) != len(answers):
                detail = f"{image}: {len(questions)} questions but {len(answers)} answers"
                yield Dropped("read", where, "questions and answers do not pair", detail)
                continue
            for index, (question, answer) in enumerate(zip(questions, answers, strict=True)):
                number += 1
                best = _best(answer)
                values = {"id": f"{image}_{index}", "image": image, "img_id": image}
                yield FileRow(number, {**values, "question": question, "answer": best})


def _best(answer: Any) -> str:
    """Answers come as {text: weight}; anything else is kept as it is written."""
    if isinstance(answer, dict) and answer:
        return str(max(answer, key=lambda text: answer[text]))
    return str(answer)
