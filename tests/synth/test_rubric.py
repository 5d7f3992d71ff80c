"""The rubric's arithmetic is the paper's, and its six worked rejections fall at the right gate."""

from __future__ import annotations

import json

import pytest
from appendix_h import cases

from heldout.model.request import Reply
from heldout.synth import Draft, Normalisation, PaperFigure, SynthSettings
from heldout.synth._generate import UnreadableError
from heldout.synth._mechanical import check_by_code
from heldout.synth._verify import counts, read_opinion, verdict_row
from heldout.synth.rubric import BY_KEY, CRITERIA, Category, RubricScore, of_category

PERFECT = {one.key: one.category is not Category.PENALTY for one in CRITERIA}
THRESHOLD = 0.9670


def test_the_criteria_and_weights_are_those_of_the_paper() -> None:
    essentials = of_category(Category.ESSENTIAL)
    assert len(essentials) == 7 and {one.weight for one in essentials} == {5}
    assert [one.weight for one in of_category(Category.BONUS)] == [4, 3, 2, 2, 3, 3]
    assert [one.weight for one in of_category(Category.PENALTY)] == [-2, -1, -2, -2]


def test_with_essentials_tolerates_the_loss_of_exactly_one_point() -> None:
    way = Normalisation.WITH_ESSENTIALS
    assert RubricScore(PERFECT).score(way) == 1.0
    one = RubricScore({**PERFECT, "synonym-drift": True})  # costs one point
    assert one.score(way) == pytest.approx(51 / 52) and one.accepted(way, THRESHOLD)
    for key in ("forbidden-terms", "multiple-keys", "medical-inaccuracy"):  # cost two
        assert not RubricScore({**PERFECT, key: True}).accepted(way, THRESHOLD)
    for criterion in of_category(Category.BONUS):  # cost two to four
        assert not RubricScore({**PERFECT, criterion.key: False}).accepted(way, THRESHOLD)


def test_bonus_only_tolerates_no_loss_and_never_leaves_the_unit_interval() -> None:
    way = Normalisation.BONUS_ONLY
    assert RubricScore(PERFECT).score(way) == 1.0
    assert not RubricScore({**PERFECT, "synonym-drift": True}).accepted(way, THRESHOLD)
    nothing = RubricScore({one.key: one.category is Category.PENALTY for one in CRITERIA})
    assert nothing.score(way) == 0.0


@pytest.mark.parametrize("key", [one.key for one in of_category(Category.ESSENTIAL)])
def test_a_failed_essential_rejects_whatever_the_score(key: str) -> None:
    judged = RubricScore({**PERFECT, key: False})
    assert judged.failed_essentials == (key,)
    assert not judged.accepted(Normalisation.BONUS_ONLY, 0.0)


@pytest.mark.parametrize(("criterion", "draft", "figure", "note"), cases())
def test_a_worked_rejection_falls_at_its_gate(
    criterion: str, draft: Draft, figure: PaperFigure, note: str
) -> None:
    said = {key: (met, "") for key, met in PERFECT.items()} | {criterion: (False, note)}
    row = verdict_row(draft, check_by_code(draft, figure), said, SynthSettings(source="x"), "v")
    assert not row["accepted"] and row["reason"] == f"essential: {criterion}"


@pytest.mark.parametrize("criterion", ["self-contained", "diagnosis-leak", "option-type"])
def test_code_alone_sees_what_words_show(criterion: str) -> None:
    draft, figure = next((draft, figure) for key, draft, figure, _ in cases() if key == criterion)
    assert check_by_code(draft, figure)[criterion].met is False


def test_code_disputes_a_verifier_that_overlooks_the_caption() -> None:
    """Age and sex stand in the caption: the item stays rejected, and the table shows that code
    disagrees."""
    draft, figure = next((d, f) for key, d, f, _ in cases() if key == "vocabulary")
    said = {key: (met, "") for key, met in PERFECT.items()} | {"vocabulary": (False, "age")}
    row = verdict_row(draft, check_by_code(draft, figure), said, SynthSettings(source="x"), "v")
    line = next(line for line in row["rubric"] if line["criterion"] == "vocabulary")
    assert (line["code"], line["verifier"], line["met"]) == (True, False, False)


@pytest.mark.parametrize("key", [one.key for one in CRITERIA])
def test_a_fault_that_only_the_verifier_sees_counts(key: str) -> None:
    penalty = BY_KEY[key].category is Category.PENALTY
    for code in (None, not penalty):
        assert counts(BY_KEY[key], code, opinion=penalty) is penalty
    assert (
        counts(BY_KEY[key], penalty, opinion=not penalty) is penalty
    )  # and one that only code sees


def _reply(value: object) -> Reply:
    return Reply("x", value if isinstance(value, str) else json.dumps(value))


def test_a_reply_that_lacks_a_criterion_is_no_verdict() -> None:
    whole = {key: {"met": met, "note": "because"} for key, met in PERFECT.items()}
    assert read_opinion(_reply(whole))["schema"] == (True, "because")
    assert read_opinion(_reply(f"```json\n{json.dumps(whole)}\n```"))["clarity"][0] is True
    partial = {key: value for key, value in whole.items() if key != "clarity"}
    for reply, reason in (
        (partial, "criteria missing"),
        ({**whole, "clarity": {"met": "yes"}}, "criteria unreadable"),
        ({"error": "insufficient_evidence"}, "insufficient evidence"),
        ("I am sorry, I cannot do that.", "refused"),
        ("Here you are.", "malformed JSON"),
        ('{"a": 1, "a": 2}', "malformed JSON"),
        ({key: {"met": True, "note": "…"} for key in PERFECT}, "form repeated"),
    ):
        with pytest.raises(UnreadableError) as caught:
            read_opinion(_reply(reply))
        assert caught.value.reason == reason
    assert set(whole) == set(BY_KEY)
