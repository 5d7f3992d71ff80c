"""Shortcuts: what a model without the image guesses in every rotation, and what lengths give away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from made_items import figure, five, item, write_run

from heldout.synth import LETTERS, Draft, SynthStage, synth
from heldout.synth._mechanical import answer_is_overlong
from heldout.synth.ledger import writing
from heldout.synth.shortcut import (
    FLAGGED_BY_CHANCE,
    NEEDED,
    NO_IMAGE,
    OPTIONS_ONLY,
    QUESTION_ONLY,
    probe_rates,
    rotated,
    shortcut_prompts,
    solved_probes,
)

DRAFT = item("x", "Which organ is shown?", five("liver", "spleen", "kidney", "heart", "lung"), "B")


def replies(
    answer: Callable[[str, str, tuple[str, ...], str], str | None],
) -> dict[str, str | None]:
    """What ``answer(probe, turn, options, right letter)`` says to every prompt."""
    said: dict[str, str | None] = {}
    for name in shortcut_prompts(DRAFT):
        probe, turn, _ = name.split("/")
        said[name] = answer(probe, turn, *rotated(DRAFT, int(turn)))
    return said


def test_every_rotation_moves_the_right_option_to_another_letter() -> None:
    letters = [rotated(DRAFT, turn)[1] for turn in range(5)]
    assert sorted(letters) == list(LETTERS)
    for turn in range(5):
        options, letter = rotated(DRAFT, turn)
        assert options[LETTERS.index(letter)] == "spleen"
    assert len(shortcut_prompts(DRAFT)) == 11


def test_what_is_right_in_four_of_five_rotations_is_solved() -> None:
    for misses, solved in ((0, True), (1, True), (2, False)):
        wrong = {str(turn) for turn in range(misses)}
        found = solved_probes(
            DRAFT,
            replies(
                lambda probe, turn, _, right, wrong=wrong: (
                    "E" if turn in wrong and right != "E" else "A" if turn in wrong else right
                )
            ),
        )
        assert found[NO_IMAGE] == found[OPTIONS_ONLY] == (solved, (5 - misses) / 5)
    assert NEEDED == 4 and pytest.approx(0.00672) == FLAGGED_BY_CHANCE


def test_one_letter_always_is_no_knowledge() -> None:
    found = solved_probes(DRAFT, replies(lambda *_: "C"))
    assert found[NO_IMAGE] == found[OPTIONS_ONLY] == (False, 0.2)
    assert found[QUESTION_ONLY] == (False, 0.0)


def test_the_question_alone_is_solved_by_the_right_words_alone() -> None:
    for said, solved in (("Spleen.", True), ("the liver", False), ("spleen or liver", False)):
        found = solved_probes(
            DRAFT, replies(lambda probe, *_, said=said: said if probe == QUESTION_ONLY else "C")
        )
        assert found[QUESTION_ONLY].solved is solved


def test_missing_replies_leave_open_only_what_they_could_decide() -> None:
    def two_missing(probe: str, turn: str, _: tuple[str, ...], right: str) -> str | None:
        if turn in "01":
            return None
        return right if probe == NO_IMAGE else "C"

    found = solved_probes(DRAFT, replies(two_missing))
    assert found[NO_IMAGE] == (None, None)  # three of three: four of five is still possible
    assert found[OPTIONS_ONLY] == (False, None)  # at most one of three was right


@pytest.mark.parametrize(
    ("options", "given"),
    [
        (five("a" * 50, "b" * 30, "c" * 30, "d" * 30, "e" * 30), True),
        (five("a" * 40, "b" * 30, "c" * 30, "d" * 30, "e" * 30), False),
        (five("a" * 12, "b" * 2, "c" * 2, "d" * 2, "e" * 2), False),  # short options vary
        (five("a" * 50, "b" * 50, "c" * 30, "d" * 30, "e" * 30), False),
    ],
)
def test_a_right_option_by_far_the_longest_gives_itself_away(
    options: tuple[str, ...], given: bool
) -> None:
    assert answer_is_overlong(item("x", "Which?", options)) is given
    assert not answer_is_overlong(item("x", "Which?", options, "E"))


def test_flagged_items_stay_and_come_last_unless_they_are_to_be_dropped(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    long = (
        "the whole of the left lobe with its veins and ducts",
        *(f"the {n} part of the right lobe" for n in ("upper", "lower", "outer", "inner")),
    )
    items: list[tuple[Draft, object]] = []
    for number, options in enumerate((long, five("cyst", "stone", "clot", "node", "scar"))):
        one = figure(tmp_path, f"PMC{number}/f", [picture(number, (40, 30))])
        items.append((item(one.id, f"What does scan {number} show?", options), one))
    write_run(tmp_path, items)  # type: ignore[arg-type]
    stages = ("shortcut", "balance")
    made = synth(source="made", stages=stages, out=tmp_path, quiet=True)
    flags = {row["id"]: row["reason"] for row in made.frame("shortcut").to_dicts()}
    assert flags == {"PMC0/f": "overlong-answer", "PMC1/f": ""}
    assert made.frame("balance").sort("rank")["id"].to_list() == ["PMC1/f", "PMC0/f"]
    flagged = probe_rates(made.run)
    assert [(one.probe, one.items, one.flagged) for one in flagged] == [("overlong-answer", 2, 1)]
    made = synth(source="made", stages=stages, drop_shortcuts=True, out=tmp_path, quiet=True)
    assert probe_rates(made.run) == flagged  # of accepted items, whatever becomes of them
    step = next(step for step in made.funnel.steps if step.name == "shortcut")
    assert (step.entered, step.left, step.reasons) == (2, 1, {"shortcut": 1})
    assert made.frame("balance")["id"].to_list() == ["PMC1/f"]
    lost = made.dropped.filter(made.dropped["stage"] == "shortcut").to_dicts()
    assert [(one["id"], one["reason"], one["detail"]) for one in lost] == [
        ("PMC0/f", "shortcut", "overlong-answer")
    ]


def test_probes_are_tested_against_guessing_article_by_article(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    """Eight articles with two items each: one probe knows six items, the other guesses."""
    data, rows = picture(1, (40, 30)), []
    items: list[tuple[Draft, object]] = []
    for number in range(16):
        one = figure(tmp_path, f"PMC{number % 8}/f{number}", [data])
        items.append(
            (item(one.id, f"What is {number}?", five("cyst", "stone", "clot", "node", "scar")), one)
        )
        known = 1.0 if number % 3 == 0 else 0.2
        said = None if number == 3 else number == 5
        right = [
            (NO_IMAGE, known),
            (OPTIONS_ONLY, {0: 0.4, 9: 0.4, 1: 0.0, 8: 0.0}.get(number, 0.2)),
            (QUESTION_ONLY, said if said is None else float(said)),
        ]
        probes = [(NO_IMAGE, known == 1.0), (OPTIONS_ONLY, False), (QUESTION_ONLY, said)]
        row = {"id": one.id, "probes": probes, "flagged": False, "reason": "", "right": right}
        rows.append(row)
    run = write_run(tmp_path, items)  # type: ignore[arg-type]
    with writing(run, SynthStage.SHORTCUT, "made") as table:
        for row in rows:
            table.keep(row)
    found = {one.probe: one for one in probe_rates(run)}
    seen, guessed, written = (found[name] for name in (NO_IMAGE, OPTIONS_ONLY, QUESTION_ONLY))
    assert (seen.items, seen.flagged, seen.right) == (16, 6, pytest.approx(0.5))
    assert seen.p is not None and seen.p < 0.05 and seen.method == "korn-graubard"
    assert seen.interval is not None and 0.2 < seen.interval[0] < 0.5 < seen.interval[1]
    assert guessed.right == pytest.approx(0.2) and guessed.p == 1.0
    assert guessed.interval is not None and guessed.interval[0] < 0.1  # no spread is no certainty
    # What is written freely cannot be guessed; one item of one article: the exact interval.
    assert (written.undecided, written.answered, written.chance, written.p) == (1, 15, None, None)
    assert written.method == "clopper-pearson over effective clusters"
