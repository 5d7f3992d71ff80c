"""Names of any length and signs as names of files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from heldout.audit.overlap import _name_and_location
from heldout.store import file_name, is_path, write_atomic

LONG = "n" * 300


def test_safe_names_stay_and_others_get_a_digest() -> None:
    assert file_name("web-2.1_a") == "web-2.1_a"
    names = [LONG, f"{LONG}n", "a/b", "a_b", "a\\b", "../a", ".a", "", "é" * 300, "\0", "\ud800"]
    files = [file_name(name) for name in names]
    assert len(set(files)) == len(names)
    for name in files:
        assert len(name.encode()) < 100 and not name.startswith(".")
        assert "/" not in name


def test_a_file_of_the_longest_name_is_written(tmp_path: Path) -> None:
    longest = tmp_path / f"{'n' * 250}.json"
    write_atomic(longest, "{}")
    assert json.loads(longest.read_text()) == {}
    assert [path.name for path in tmp_path.iterdir()] == [longest.name]


@pytest.mark.parametrize("text", [LONG, f"{LONG}=corpus", "a\0b", "nothing there"])
def test_a_text_that_is_no_path_is_none(text: str, tmp_path: Path) -> None:
    assert not is_path(text)
    assert is_path(tmp_path)


def test_a_long_name_of_a_corpus_is_told_from_its_path() -> None:
    assert _name_and_location(f"{LONG}=corpus.tar") == (LONG, "corpus.tar")
