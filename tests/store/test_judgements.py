"""Judgements survive torn lines, other writers and changes of mind."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from heldout.errors import InputError
from heldout.store.judgements import ITEM, MATCH, Following, Judgement, append, current, history


def _say(run: Path, rater: str, subject: str, verdict: str | None) -> Judgement:
    return append(run, Judgement(rater, MATCH, subject, verdict))


def test_the_last_word_counts_and_none_takes_it_back(tmp_path: Path) -> None:
    _say(tmp_path, "ada", "m1", "unrelated")
    _say(tmp_path, "ada", "m1", "exact duplicate")
    _say(tmp_path, "bo", "m1", "unsure")
    _say(tmp_path, "bo", "m2", "unsure")
    _say(tmp_path, "bo", "m2", None)
    said = {key: judgement.verdict for key, judgement in current(tmp_path, MATCH).items()}
    assert said == {("m1", "ada"): "exact duplicate", ("m1", "bo"): "unsure"}
    assert len(list(history(tmp_path))) == 5


def test_a_line_torn_by_a_crash_costs_only_itself(tmp_path: Path) -> None:
    _say(tmp_path, "ada", "m1", "unrelated")
    path = tmp_path / "review" / "judgements.jsonl"
    path.write_bytes(path.read_bytes() + b'{"rater": "ada", "kind": "mat')
    assert len(list(history(tmp_path))) == 1
    _say(tmp_path, "ada", "m2", "unsure")
    assert [judgement.subject for judgement in history(tmp_path)] == ["m1", "m2"]


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    def write(rater: str) -> None:
        for index in range(25):
            _say(tmp_path, rater, str(index), "unsure")

    threads = [threading.Thread(target=write, args=(name,)) for name in ("a", "b", "c", "d")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(current(tmp_path, MATCH)) == 100


def test_a_foreign_line_is_an_error_that_names_it(tmp_path: Path) -> None:
    _say(tmp_path, "ada", "m1", "unrelated")
    path = tmp_path / "review" / "judgements.jsonl"
    path.write_text(json.dumps({"x": 1}) + "\n" + path.read_text() + path.read_text())
    with pytest.raises(InputError, match="line 1"):
        list(history(tmp_path))


def test_following_says_what_reading_everything_says(tmp_path: Path) -> None:
    log = Following(tmp_path, MATCH)
    assert log.current() == {}
    path = tmp_path / "review" / "judgements.jsonl"
    for step, verdict in enumerate(["unsure", "unrelated", None, "unsure"]):
        _say(tmp_path, "ada", "m1", verdict)
        _say(tmp_path, "bo", f"m{step}", "unrelated")
        append(tmp_path, Judgement("ada", ITEM, "m1", "accept"))
        assert log.current() == current(tmp_path, MATCH)
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"rater": "ada", "kind": "match", "subj')  # torn, or being written
    assert log.current() == current(tmp_path, MATCH)
    _say(tmp_path, "ada", "m9", "unsure")
    assert ("m9", "ada") in log.current()
    assert log.current() == current(tmp_path, MATCH)
    path.write_bytes(whole[: whole.index(b"\n") + 1])  # an older copy was put back
    assert set(log.current()) == {("m1", "ada")}
