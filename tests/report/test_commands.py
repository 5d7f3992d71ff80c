"""Reproduce: what is shown was made by the last command of each stage."""

from __future__ import annotations

from heldout.report.commands import commands_shown


def test_a_stage_that_was_done_again_shows_its_last_command() -> None:
    first = ["heldout", "overlap", "bench", "--against", "a", "--out", "run"]
    again = ["heldout", "overlap", "bench", "--against", "b", "--out", "run"]
    detect = ["heldout", "detect", "run"]
    assert commands_shown([first, detect, again]) == [detect, again]


def test_models_and_variants_are_stages_of_their_own() -> None:
    def score(model: str, *more: str) -> list[str]:
        return ["heldout", "score", "bench", "--model", model, *more]

    def ask(variants: str) -> list[str]:
        return ["heldout", "ask", "bench", "--model", "m", f"--variants={variants}"]

    given = [score("m"), score("n"), ask("original"), ask("twin"), score("m", "--limit", "9")]
    shown = [score("n"), ask("original"), ask("twin"), score("m", "--limit", "9")]
    assert commands_shown(given) == shown
    assert commands_shown([score("m"), score("m", "--as", "m16")]) == [
        score("m"),
        score("m", "--as", "m16"),
    ]
