"""Items in variants: what is shown, where the right answer went, and what cannot be shown that way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from heldout.benchmark import Benchmark, Example, read_benchmark
from heldout.benchmark.grading.choice import same
from heldout.errors import InputError
from heldout.image import ImageRef, InlineBytes
from heldout.model.asking import Question, QuestionSet, expand, parse_variants, write
from heldout.model.asking.stage import graded
from heldout.model.request import Reply, Text

ORGANS = ("liver", "heart", "left lung", "spleen")


@pytest.fixture
def benchmark(picture: Callable[..., bytes]) -> Benchmark:
    made = []
    for number in range(12):
        ref = ImageRef(f"{number}.png", InlineBytes(picture(number), f"{number}.png"))
        gold = number % 4
        options = tuple(f"{organ} {number}" for organ in ORGANS)
        made.append(
            Example(
                f"i{number}",
                (ref,),
                f"Which organ carries the arrow of slide {number}?",
                options,
                options[gold],
                gold,
                metadata={"again": f"The arrow marks which organ ({number})?"},
            )
        )
    return Benchmark("organs", tuple(made))


def asked(benchmark: Benchmark, variants: str, **how: object) -> QuestionSet:
    return expand(benchmark, benchmark.examples, parse_variants(variants), **how)  # type: ignore[arg-type]


def by_variant(made: QuestionSet, name: str) -> list[Question]:
    return [question for question in made.questions if question.variant == name]


def test_every_order_of_options_keeps_the_right_one(benchmark: Benchmark) -> None:
    made = asked(benchmark, "rotation-all,shuffle-1..3")
    assert not made.dropped
    counts = Counter(question.variant for question in made.questions)
    rotations = {f"rotation-{k}": 12 for k in (1, 2, 3)}
    shuffles = {f"shuffle-{k}": 12 for k in (1, 2, 3)}
    assert counts == {"original": 12, **rotations, **shuffles}
    examples = {example.id: example for example in benchmark}
    for question in made.questions:
        example = examples[question.benchmark_id]
        assert question.options[ord(question.gold) - ord("A")] == example.answer
        assert question.options == tuple(example.options[place] for place in question.order)
        if question.variant.startswith("shuffle"):
            assert ord(question.gold) - ord("A") != example.answer_index
    golds = {
        q.gold for q in made.questions if q.benchmark_id == "i0" and "shuffle" not in q.variant
    }
    assert golds == set("ABCD")  # every place once: that is what makes it circular
    assert by_variant(made, "rotation-1")[0].order == (1, 2, 3, 0)


def test_shuffles_depend_on_item_and_seed_alone(benchmark: Benchmark) -> None:
    few = expand(benchmark, benchmark.examples[3:5], parse_variants("shuffle-2"))
    every = {q.id: q for q in asked(benchmark, "shuffle-1,shuffle-2").questions}
    assert all(every[question.id] == question for question in few.questions)
    other = asked(benchmark, "shuffle-2", seed=1)
    assert [q.order for q in by_variant(other, "shuffle-2")] != [
        every[q.id].order for q in by_variant(other, "shuffle-2")
    ]


def test_confused_choices_are_right_answers_of_other_clusters(benchmark: Benchmark) -> None:
    made = by_variant(asked(benchmark, "confused-choices"), "confused-choices")
    answers = {example.answer for example in benchmark}
    assert len(made) == 12
    for question, example in zip(made, benchmark, strict=True):
        assert question.gold == "ABCD"[example.answer_index or 0]
        assert set(question.options) <= answers
        assert len({same(option) for option in question.options}) == 4
        assert sorted(question.order) == [-1, -1, -1, example.answer_index]
    few = expand(
        Benchmark("b", benchmark.examples[:2]),
        benchmark.examples[:2],
        parse_variants("confused-choices"),
    )
    assert {one.reason for one in few.dropped} == {"too few other answers"}


def test_confused_choices_do_not_come_from_the_same_picture(benchmark: Benchmark) -> None:
    pictures = [example.images for example in benchmark]
    shared = [
        Example(e.id, pictures[n // 6], e.question, e.options, e.answer, e.answer_index)
        for n, e in enumerate(benchmark)
    ]
    made = by_variant(
        asked(Benchmark("two", tuple(shared)), "confused-choices"), "confused-choices"
    )
    halves = [{e.answer for e in shared[:6]}, {e.answer for e in shared[6:]}]
    for number, question in enumerate(made):
        own = halves[number // 6] & set(question.options)
        assert own == {shared[number].answer}


def test_ablations_and_the_identical_template(benchmark: Benchmark) -> None:
    made = asked(benchmark, "no-image,no-question")
    whole, blind, deaf = made.questions[:3]
    assert [whole.variant, blind.variant, deaf.variant] == ["original", "no-image", "no-question"]
    read = [write(question).content for question in (whole, blind, deaf)]
    assert read[0][0] == whole.images[0] and read[0][1:] == read[1]
    assert isinstance(read[1][0], Text) and isinstance(read[2][1], Text)
    assert read[1][0].text == f"{whole.text}\n{read[2][1].text}"
    assert read[2][1].text.startswith(
        "A. liver 0\nB. heart 0\nC. left lung 0\nD. spleen 0\nAnswer with"
    )
    thought = write(whole, thought=True).content[-1]
    assert isinstance(thought, Text) and "<answer>" in thought.text


def test_twins_are_paired_by_id(benchmark: Benchmark, picture: Callable[..., bytes]) -> None:
    twins = []
    for example in benchmark.examples[:3]:
        ref = ImageRef("t.png", InlineBytes(picture(99), "t.png"))
        options = tuple(reversed(example.options))
        twins.append(Example(example.id, (ref,), example.question, options, options[0], 0))
    stranger = Example("stranger", (), "?", ("a", "b"), "a", 0)
    twins[2] = Example("i2", (), "Is it?", (), "yes")
    other = Benchmark("twins", (*twins, stranger))
    made = asked(benchmark, "twin=x", twins={"twin": other})
    pairs = by_variant(made, "twin")
    assert [(q.benchmark_id, q.gold, q.order) for q in pairs] == [
        ("i0", "A", (3, 2, 1, 0)),
        ("i1", "A", (3, 2, 1, 0)),
    ]
    assert pairs[0].images[0].name == "t.png"
    reasons = Counter(one.reason for one in made.dropped)
    assert reasons == {"no twin": 9, "twin of no item": 1, "twin of another kind": 1}


def test_slots_mask_a_telling_word_the_same_in_both_wordings(benchmark: Benchmark) -> None:
    made = asked(benchmark, "slot-paraphrase=again")
    first = {q.variant: q for q in made.questions if q.benchmark_id == "i0"}
    assert first["slot"].gold == first["slot-paraphrase"].gold == "organ"
    assert first["slot"].text == "Which [MASK] carries the arrow of slide 0?"
    assert first["slot-paraphrase"].text == "The arrow marks which [MASK] (0)?"
    assert first["slot"].kind == "slot" and not first["slot"].options
    alone = by_variant(asked(benchmark, "slot"), "slot")[0]
    assert alone.gold == "carries"  # as rare as the others, and longer
    odd = Benchmark(
        "odd",
        (
            Example("q", (), "Is it?", (), "yes"),
            Example("z", (), "这是什么器官?", (), "肝"),
            Example("c", benchmark.examples[0].images, None, (), "A nodule; the nodule is round"),
        ),
    )
    slots = asked(odd, "slot")
    assert [one.reason for one in slots.dropped] == ["no word to mask"] * 2
    assert by_variant(slots, "slot")[0].text == "A [MASK]; the [MASK] is round"


def test_the_next_words_are_asked_for_in_both_wordings(benchmark: Benchmark) -> None:
    made = asked(benchmark, "ngram-paraphrase=again")
    first = {q.variant: q for q in made.questions if q.benchmark_id == "i0"}
    assert (first["ngram"].text, first["ngram"].gold) == (
        "Which organ carries the",
        "arrow of slide",
    )
    again = first["ngram-paraphrase"]
    assert (again.text, again.gold) == ("The arrow marks", "which organ (0)?")
    assert first["ngram"].kind == "ngram" and not first["ngram"].options
    short = Benchmark("short", (Example("q", (), "Is it a lung?", (), "yes"),))
    assert [lost.reason for lost in asked(short, "ngram").dropped] == ["too few words"]


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        ("arrow of slide", "right"),
        ("Arrow of slide 0?", "right"),
        ("Which organ carries the arrow of slide 0?", "right"),
        ("the arrow of", "wrong"),
        ("arrow of", "wrong"),
    ],
)
def test_a_reply_is_right_if_it_goes_on_word_for_word(reply: str, outcome: str) -> None:
    question = Question(
        "i0", "ngram", "Which organ carries the", gold="arrow of slide", kind="ngram"
    )
    assert graded(question, Reply("x", reply)).outcome == outcome


def test_what_cannot_be_shown_has_a_reason() -> None:
    odd = Benchmark(
        "odd",
        (
            Example("open", (), "Which?", (), "liver"),
            Example("none", (), "Which?", (), None),
            Example("lost", (), "Which?", ("a", "b"), "c"),
            Example("many", (), "Which?", tuple(map(str, range(30))), "3", 3),
            Example("bound", (), "Which?", ("a", "b", "All of the above"), "a", 0),
            Example("letters", (), "Which?", ("x", "y", "Both A and B"), "x", 0),
            Example("two", (), "Which?", ("a", "b"), "a", 0),
            Example("hole", (), "Which?", ("a", "", "c"), "a", 0),
            Example("blank", (), "Which?", ("a", "b", " "), None),
            Example("void"),
        ),
    )
    made = asked(odd, "rotation-all,rotation-2,shuffle-1,no-image")
    reasons: dict[str, set[str]] = {}
    for one in made.dropped:
        reasons.setdefault(one.id, set()).add(one.reason)
    assert reasons == {
        "open": {"no options", "no picture"},
        "none": {"no answer"},
        "lost": {"answer not among the options"},
        "many": {"too many options"},
        "bound": {"options refer to their places", "no picture"},
        "letters": {"options refer to their places", "no picture"},
        "two": {"no such rotation", "no picture"},
        "hole": {"empty option"},
        "blank": {"empty option"},
        "void": {"nothing to ask"},
    }
    assert [one.detail for one in made.dropped if one.id == "hole"] == ["original: B of 3"]
    assert {q.id for q in made.questions} == {
        "original/0/open",
        "original/0/bound",
        "original/0/letters",
        "original/0/two",
        "rotation-1/0/two",
        "shuffle-1/0/two",
    }


def test_variants_are_read_from_a_line() -> None:
    names = [
        v.name
        for v in parse_variants("rotation-all, shuffle-2..4,twin=a#split=test,lang=en,no-image")
    ]
    assert names == [
        "original",
        "rotation-all",
        "shuffle-2",
        "shuffle-3",
        "shuffle-4",
        "twin",
        "no-image",
    ]
    assert parse_variants("twin=a#split=test,lang=en")[1].source == "a#split=test,lang=en"
    for wrong in (
        "circular",
        "rotation-0",
        "shuffle-",
        "twins",
        "",
        "twin=a,twin=b",
        "shuffle-3..2",
    ):
        with pytest.raises(InputError, match="^variants: "):
            parse_variants(wrong)


def test_real_questions_are_masked_and_paired(shared_data: Path) -> None:
    found = read_benchmark(str(shared_data / "vqa_rad/vqa_rad_public.json"))
    made = asked(found, "slot-paraphrase=question_rephrase")
    pairs = by_variant(made, "slot-paraphrase")
    assert len(pairs) > 300
    for question in pairs:
        assert "[MASK]" in question.text and question.gold not in question.text.lower().split()
