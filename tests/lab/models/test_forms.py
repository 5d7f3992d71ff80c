"""Training reads what the product writes, to the letter: else models would meet prompts they never saw."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from small_models import tokenizer

from heldout.benchmark import Example
from heldout.lab.models.vlm import TOY, new_processor
from heldout.lab.models.worlds import (
    LabItem,
    Piece,
    RowPacker,
    beginning,
    document,
    gap,
    instructed,
    plain,
)
from heldout.model.asking import forms
from heldout.model.asking.forms import Question, masked, original
from heldout.model.asking.stage import write
from heldout.model.item_scores import item_text
from heldout.model.local.load import Family
from heldout.model.local.writing import Writer
from heldout.model.request import question_request

OPEN = Example(id="1", images=(), question="How many stars are there?", options=(), answer="2")
CHOICE = Example(
    id="2",
    images=(),
    question="What colour is it?",
    options=("red", "blue", "green"),
    answer="blue",
    answer_index=1,
)


@pytest.mark.parametrize("example", [OPEN, CHOICE])
def test_forms_are_the_products_prompts(example: Example) -> None:
    item = LabItem(example.question or "", example.answer or "", tuple(example.options))
    writer = Writer(new_processor(TOY, tokenizer()), tokenizer(), Family())
    scored = writer.write(question_request(example))
    assert plain(item) == Piece("".join(scored.segments), scored.answer)
    shown = original(example)
    assert isinstance(shown, Question)
    asked = writer.write_prompt(write(shown))
    assert instructed(item) == Piece("".join(asked.segments), f" {shown.gold}")
    assert document(item).learn == item_text(example)


def test_a_gap_is_the_products_slot() -> None:
    writer = Writer(new_processor(TOY, tokenizer()), tokenizer(), Family())
    item = LabItem("Are the STARS larger than other stars?", "no")
    base = Question("1", "slot", item.question, ())
    seen = set()
    for drawn in (0.0, 0.3, 0.6, 0.99, 1.0):
        piece = gap(item, drawn)
        word = piece.learn.strip()
        asked = writer.write_prompt(write(masked(base, "slot", item.question, word)))
        assert piece.read == "".join(asked.segments) and word not in piece.read.lower()
        seen.add(word)
    assert seen == {"stars", "larger", "than", "other"}
    assert gap(LabItem("Is it so?", "no"), 0.5) == plain(LabItem("Is it so?", "no"))


def test_a_beginning_is_the_products() -> None:
    writer = Writer(new_processor(TOY, tokenizer()), tokenizer(), Family())
    for text in ("Is the red star left of the blue ring?", "Are there two red stars here?"):
        shown = forms.beginning(Question("1", "ngram", text, ()), "ngram", text)
        assert shown is not None
        asked = writer.write_prompt(write(shown))
        assert beginning(LabItem(text, "no")) == Piece("".join(asked.segments), f" {shown.gold}")
    short = LabItem("Is it red?", "no")
    assert forms.beginning(Question("1", "ngram", "Is it red?", ()), "ngram", "Is it red?") is None
    assert beginning(short) == plain(short)


def test_rows_hold_whole_pieces_and_learn_answers_and_their_end() -> None:
    rows = RowPacker(tokenizer(), 40)
    items = [LabItem(f"How many stars are there in {n}?", str(n)) for n in range(8)]
    made = rows.rows([plain(item) for item in items])
    assert len(made) > 1
    texts = [tokenizer().decode(ids[ids > 0]) for ids, _ in made]
    assert "".join(text.removeprefix("<s>") for text in texts) == "".join(
        f"{plain(item).read}{plain(item).learn}</s>" for item in items
    )
    ids, learnt = made[0]
    told = tokenizer().decode(ids[learnt > 0])
    assert told == "".join(f" {n}</s>" for n in range(told.count("</s>")))


def test_a_piece_longer_than_a_row_is_left_out() -> None:
    rows = RowPacker(tokenizer(), 8)
    assert rows.rows([plain(LabItem("word " * 30, "2"))]) == []
