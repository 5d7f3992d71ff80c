"""Reproduce: what is shown was made by the last command of each stage."""

from __future__ import annotations

import json
import shlex

import pytest

from heldout.report._reproduce import commands_shown, file_place, manifest_shown, without_home


def test_a_stage_that_was_done_again_shows_its_last_command() -> None:
    first = ["heldout", "overlap", "bench", "--against", "a", "--out", "run"]
    again = ["heldout", "overlap", "bench", "--against", "b", "--out", "run"]
    detect = ["heldout", "detect", "run"]
    assert commands_shown([first, detect, again]) == [shlex.join(detect), shlex.join(again)]


def test_models_and_variants_are_stages_of_their_own() -> None:
    def score(model: str, *more: str) -> list[str]:
        return ["heldout", "score", "bench", "--model", model, *more]

    def ask(variants: str) -> list[str]:
        return ["heldout", "ask", "bench", "--model", "m", f"--variants={variants}"]

    given = [score("m"), score("n"), ask("original"), ask("twin"), score("m", "--limit", "9")]
    shown = [score("n"), ask("original"), ask("twin"), score("m", "--limit", "9")]
    assert commands_shown(given) == [shlex.join(command) for command in shown]
    both = [score("m"), score("m", "--as", "m16")]
    assert commands_shown(both) == [shlex.join(command) for command in both]


def test_calls_from_python_are_written_as_calls() -> None:
    first, again = (["python", f"heldout.overlap('bench', against=['{name}'])"] for name in "ab")
    models = [["python", f"heldout.ask('bench', model='{name}')"] for name in "mn"]
    assert commands_shown([first, again, *models]) == [
        f"Python: {text}" for _, text in (again, *models)
    ]
    typed = ["python", "-c", f"import heldout; {again[1]}"]
    assert commands_shown([first, typed]) == [shlex.join(typed)]


def test_a_page_names_no_home_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/people/ada")
    typed = ["heldout", "overlap", "/people/ada/b", "--against", "t=/people/ada/t", "--out", "r"]
    assert commands_shown([typed]) == ["heldout overlap ~/b --against t=$HOME/t --out r"]
    quoted = shlex.join(["heldout", "report", "/people/ada/my run"])
    assert without_home(quoted) == quoted  # a shell would not look into the quotes
    assert (
        without_home("/people/adams/x, /mnt/people/ada/y") == "/people/adams/x, /mnt/people/ada/y"
    )
    shown = manifest_shown({"commands": [typed], "directories": ["/srv/work"]})
    assert "directories" not in json.loads(shown)
    assert '"~/b"' in without_home(shown)


def test_a_header_names_the_file_and_its_folder() -> None:
    assert file_place("/srv/data/rad/test.json#split=a/b") == "rad/test.json#split=a/b"
    for source in ("data/rad/test.json", "s3://bucket/a/b/c.json", "owner/name", "/x.json"):
        assert file_place(source) == source
