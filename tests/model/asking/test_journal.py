"""Replies are on disk the moment they arrive, and an interrupt loses none that is under way."""

from __future__ import annotations

import hashlib
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from heldout.model.asking import Question
from heldout.model.asking.prompts import Journal, prompt_key
from heldout.model.asking.stage import ask_questions
from heldout.model.request import Prompt, Reply, Request, Text
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


def test_a_journal_keeps_places_and_not_replies(tmp_path: Path) -> None:
    """Its memory does not grow with the length of the replies."""
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        for number in range(300):
            journal.keep(f"key {number}", Reply(f"{number}", f"{number} " + "x" * 20_000))
        assert journal.reply("key 7").text.startswith("7 x")  # while it is open for writing
    tracemalloc.start()
    opened = Journal(path)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(opened) == 300
    assert size < 300 * 1_000 < path.stat().st_size / 10
    assert opened.reply("key 299").text.startswith("299 x")
    assert "key 300" not in opened


def test_a_line_cut_short_by_a_kill_is_ignored_and_the_next_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    with Journal(path) as journal:
        for number in range(3):
            journal.keep(
                f"key {number}", Reply(f"{number}", "{é}" * 10, choice_logprobs=(-0.5, None))
            )
    whole = path.read_bytes()
    for cut in range(len(whole)):
        path.write_bytes(whole[:cut])
        journal = Journal(path)
        with journal:
            journal.keep("late", Reply("9", "late"))
        again = Journal(path)
        assert again.reply("late").text == "late"
        kept = [number for number in range(3) if f"key {number}" in again]
        ends = [place for place, byte in enumerate(whole) if byte == ord("\n")]
        assert kept == [number for number, end in enumerate(ends) if cut >= end]
        for number in kept:
            assert again.reply(f"key {number}") == Reply(
                f"{number}", "{é}" * 10, choice_logprobs=(-0.5, None)
            )


def test_the_last_of_two_replies_to_one_key_counts(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl") as journal:
        journal.keep("k", Reply("1", "first"))
        journal.keep("k", Reply("1", "second"))
        assert journal.reply("k").text == "second"
    assert Journal(tmp_path / "j.jsonl").reply("k").text == "second"


def test_a_file_that_somebody_rewrote_is_noticed(tmp_path: Path) -> None:
    with Journal(tmp_path / "j.jsonl") as journal:
        journal.keep("k", Reply("1", "first"))
    (tmp_path / "j.jsonl").write_text("{}\n")
    with pytest.raises(OSError, match="changed"):
        journal.reply("k")


def test_a_schema_is_part_of_what_a_reply_depends_on(tmp_path: Path) -> None:
    """Without one the key is what it always was: older journals stay valid."""
    request = Request("a", (Text("Which?"),))
    schemas: list[Mapping[str, Any] | None] = [None, {"type": "object"}, {"type": "array"}]
    keys = {prompt_key({"model": "m"}, Prompt(request, schema=one), str) for one in schemas}
    assert len(keys) == 3
    known = json.dumps([{"model": "m"}, ["Which?"], 0])
    assert hashlib.sha256(known.encode()).hexdigest() in keys
