"""Replies are on disk the moment they arrive, and an interrupt loses none that is under way."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from heldout.model.asking import Question
from heldout.model.asking.journal import Journal
from heldout.model.asking.stage import ask_questions
from heldout.model.reply import Prompt, Reply
from heldout.store import Dropped, make_table

QUESTIONS = [
    Question(f"{n}", "original", f"Which? {n // 2}", gold="x", kind="open") for n in range(8)
]


class Slow:
    """A backend with two hands, each of which needs a moment."""

    identity: Mapping[str, str] = {"model": "slow"}

    def __init__(self) -> None:
        self.seen: list[str] = []

    def ask(
        self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
    ) -> Generator[Reply | Dropped, None, None]:
        def one(prompt: Prompt) -> Reply:
            self.seen.append(prompt.request.id)
            time.sleep(0.05)
            reply = Reply(prompt.request.id, "x")
            keep(reply)
            return reply

        with ThreadPoolExecutor(2) as pool:
            yield from [future.result() for future in [pool.submit(one, p) for p in prompts][:1]]
            raise KeyboardInterrupt


def test_what_is_under_way_at_an_interrupt_is_kept(tmp_path: Path) -> None:
    backend = Slow()
    with pytest.raises(KeyboardInterrupt):
        ask_questions(backend, QUESTIONS, Journal(tmp_path / "j.jsonl"), str, title="", quiet=True)
    assert len(backend.seen) == 4  # equal prompts are one
    assert len((tmp_path / "j.jsonl").read_text().splitlines()) == 4
    again = Slow()
    with pytest.raises(KeyboardInterrupt):
        ask_questions(again, QUESTIONS, Journal(tmp_path / "j.jsonl"), str, title="", quiet=True)
    assert again.seen == []


def test_an_interrupt_of_the_reader_closes_the_backend_first(tmp_path: Path) -> None:
    closed = threading.Event()

    class Patient(Slow):
        def ask(
            self, prompts: Iterable[Prompt], keep: Callable[[Reply], None]
        ) -> Generator[Reply | Dropped, None, None]:
            try:
                for prompt in prompts:
                    yield Dropped("ask", "a stranger", "?", "?")  # not a question of ours
                    self.seen.append(prompt.request.id)
            finally:
                keep(Reply(QUESTIONS[0].id, "late"))
                closed.set()

    journal = Journal(tmp_path / "j.jsonl")
    with pytest.raises(KeyError):
        ask_questions(Patient(), QUESTIONS, journal, str, title="", quiet=True)
    assert closed.is_set()
    assert "late" in (tmp_path / "j.jsonl").read_text()


def test_half_a_character_does_not_break_the_table(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl") as journal:
        journal.keep("k", Reply("a", "B \ud83d", choice_logprobs=(None, -1.0)))
    found = Journal(tmp_path / "j.jsonl").reply("k")
    assert found.text == "B ?" and found.choice_logprobs == (None, -1.0)
    assert make_table("answers", [{"reply": found.text}]).num_rows == 1
