"""Option lists and hints inside questions, options columns of every style, and what check says of both."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from heldout.benchmark import Benchmark, Example, read_benchmark
from heldout.benchmark._option_list import list_left, take_list
from heldout.benchmark._option_values import UnreadableOptionsError, read_options
from heldout.benchmark.benchmark import RELEASED
from heldout.benchmark.check import check
from heldout.benchmark.writers.base import open_tables
from heldout.cli.app import app
from heldout.corpus import CorpusItem
from heldout.cure._files import chosen_by_table, compare, write_file
from heldout.overlap.texts._fields import document_texts, item_texts

LETTER = "Answer with the option's letter from the given choices directly."
DIRECTLY = "Please answer directly with only the letter of the correct option and nothing else."


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


def rules(benchmark: Benchmark) -> dict[str, list[str]]:
    return {problem.rule: problem.examples for problem in check(benchmark).problems}


@pytest.mark.parametrize(
    ("question", "key", "stem", "options"),
    [
        # MMStar: commas inside options, and a letter's pattern inside one
        (
            "Which?\nOptions: A: a cat, asleep, B: 3, 4, and 5, C: None",
            "B",
            "Which?",
            ("a cat, asleep", "3, 4, and 5", "None"),
        ),
        (
            "Which?\nOptions: A: vitamin A: 2, vitamin B: 3, B: none, C: vitamin D: 5",
            "B",
            "Which?",
            ("vitamin A: 2, vitamin B: 3", "none", "vitamin D: 5"),
        ),
        # NaturalBench
        ("Which?; Option: A:deep red; B:blue;", "B", "Which?", ("deep red", "blue")),
        # RealWorldQA
        (f"Where?\n\nA. left\nB. right\n{DIRECTLY}", "A", "Where?", ("left", "right")),
        # MedXpertQA, with the option columns left out
        (
            "What is next?\nAnswer Choices: (A) Retinoids (A and B) (B) surgery",
            "A",
            "What is next?",
            ("Retinoids (A and B)", "surgery"),
        ),
        (
            "Represents cells in the Choices: (A) Superior colliculus. (B) Lateral geniculate.(C) Retina.",
            "C",
            "Represents cells in the",
            ("Superior colliculus.", "Lateral geniculate.", "Retina."),
        ),
        # MathVista
        (
            "Hint: Please answer the question and provide the correct option letter, e.g., A, B, C, D, at "
            "the end.\nQuestion: Find x.\nChoices:\n(A) 5\n(B) 6.5",
            "B",
            "Find x.",
            ("5", "6.5"),
        ),
        # VLMEvalKit
        (
            "Question: Which?\nOptions:\nA. x\nB. y\nPlease select the correct answer from the options "
            "above. \n",
            "B",
            "Which?",
            ("x", "y"),
        ),
        # two scripts, one after the other
        (
            "Question: Hint: Please answer the question and provide the correct option letter, e.g., A, B, "
            "C, D, at the end.\nQuestion: Is it?\nChoices:\n(A) Yes\n(B) No\nOptions: A: Yes, B: No",
            "B",
            "Is it?",
            ("Yes", "No"),
        ),
        # LLaVA: the hint follows the last option on its line
        (f"Which colour? (A) orange (B) black {LETTER}", "B", "Which colour?", ("orange", "black")),
        ("What is it? A. CT B. MRI C. X-ray", "B", "What is it?", ("CT", "MRI", "X-ray")),
        ("What is it? a) CT b) MRI", "b", "What is it?", ("CT", "MRI")),
        ("What is it?\n(a) CT\n(b) MRI", "MRI", "What is it?", ("CT", "MRI")),
        ("Which?\n- A) cat\n- B) dog", "B", "Which?", ("cat", "dog")),
        ("Which?\n**A.** cat\n**B.** dog", "B", "Which?", ("cat", "dog")),
        ("Which?\nOption A: cat\nOption B: dog", "B", "Which?", ("cat", "dog")),
        (
            "Which?\nA. cat    B. dog\nC. bird    D. fish",
            "D",
            "Which?",
            ("cat", "dog", "bird", "fish"),
        ),
        (
            "How much?\nOptions: A: low | B: medium | C: high\nAnswer:",
            "C",
            "How much?",
            ("low", "medium", "high"),
        ),
        (
            "Which is larger?\n(A) 3 tesla (T) (B) 1 gauss (G)",
            "A",
            "Which is larger?",
            ("3 tesla (T)", "1 gauss (G)"),
        ),
        # the key as letter and text
        ("Is it left?\nOptions: A: Yes, B: No", "B: No", "Is it left?", ("Yes", "No")),
        # the question goes on
        (
            "Options:\nA. x\nB. y\nWhich of these is shown?",
            "B",
            "Which of these is shown?",
            ("x", "y"),
        ),
        # full-width signs, Chinese styles
        ("以下哪项正确？\nＡ．肺\nＢ．肝", "B", "以下哪项正确？", ("肺", "肝")),
        ("以下哪项正确？（A）肺（B）肝\n请直接回答选项字母。", "B", "以下哪项正确？", ("肺", "肝")),
        ("这是什么？选项：A、肺 B、肝", "A", "这是什么？", ("肺", "肝")),
        # an instruction that is all there is stays the question
        (
            "Select from the following choices.\n(A) cat\n(B) dog",
            "A",
            "Select from the following choices.",
            ("cat", "dog"),
        ),
        # what follows the list and is no hint stays
        (
            "Which?\nA. cat\nB. dog\nIt was taken at noon.",
            "B",
            "Which?\nIt was taken at noon.",
            ("cat", "dog"),
        ),
        (
            "Which?\nA. cat\nB. dog\nYour answer must be one of: A, B, C or D.",
            "B",
            "Which?",
            ("cat", "dog"),
        ),
        # no key at all
        ("Which?\nOptions: A: cat, B: dog", None, "Which?", ("cat", "dog")),
    ],
)
def test_lists_are_taken_out(
    question: str, key: str | None, stem: str, options: tuple[str, ...]
) -> None:
    asked, listed = take_list(question, (), key)
    assert listed is not None
    assert (asked, listed.options) == (stem, options)


STYLES: dict[
    str, tuple[str, str, str, str]
] = {  # before the list, its labels, between them, after it
    "MMStar": ("\nOptions: ", "{}: ", ", ", ""),
    "NaturalBench": ("; Option: ", "{}:", "; ", ";"),
    "RealWorldQA": ("\n\n", "{}. ", "\n", f"\n{DIRECTLY}"),
    "MathVista": ("\nChoices:\n", "({}) ", "\n", ""),
    "MedXpertQA": ("\nAnswer Choices: ", "({}) ", " ", ""),
    "VLMEvalKit": ("\nOptions:\n", "{}. ", "\n", "\nPlease select the correct answer."),
}
AWKWARD = (
    "A cat, sitting on a mat",
    "3, 4, and 5",
    "Vitamin B: none",
    "$63,020",
    "-4",
    "-",
    "1:2",
    "6:00 a.m.",
    "12'6\"",
    "$\\frac{1}{2}x^2$",
    "A",
    "B",
    "C",
    "(3, -4)",
    "A. baumannii",
    "B. C. Smith",
    "C. albicans (C)",
    "Both A and B",
    "Does it slide faster, or not?",
    "The book is on the table.",
    "0.5 mL",
    "<5%",
    "U.S. Route 1",
    "type A; mild",
    "{a: 1, b: 2}",
    "Plan C: wait",
    "It is (b)",
    "50/50",
    "left | right",
    "肺",
    "5 ft. 6 in.",
    "(A)",
    "(A) and (C)",
    "option B",
    "the first option",
    "Figure (B)",
    "Answer: B",
    "Options: none",
    "Write a letter",
    "Select the correct word",
    "Answer the phone",
    "Choose one option",
    "Reply: yes",
    "Respond with yes or no",
    "1. benign",
    "(i) one, (ii) two",
    "[0, 1)",
)


@pytest.mark.parametrize("style", STYLES)
def test_an_option_stays_whole_in_every_place_of_every_style(style: str) -> None:
    before, label, between, after = STYLES[style]
    for stem in (
        "Which one is it?",
        "What do panels (A) and (B) show?",
        "As shown, A: B = 1:2, so x is",
    ):
        for awkward in AWKWARD:
            for place in range(3):
                options = ["x1", "y2"]
                options.insert(place, awkward)
                listed = between.join(
                    label.format(letter) + one for letter, one in zip("ABC", options, strict=True)
                )
                asked, found = take_list(f"{stem}{before}{listed}{after}", (), "B")
                assert found is not None, listed
                assert (asked, found.options) == (stem, tuple(options))


@pytest.mark.parametrize(
    ("question", "key"),
    [
        ("Vitamin A: what is it? And B: why?", "A"),
        ("What do panels (a) and (b) show?", "b"),
        ("Compare panels: (a) left lung (b) right lung. Which is abnormal?", "b"),
        ("Who is A. B. Smith?", "A"),
        ("Who wrote it? A. Smith or B. Jones?", "Jones"),
        ("In A. the lung, B. the heart and C. the liver: which is normal?", "B"),
        ("Is option A: better than option B: worse?", "yes"),
        ("The figure shows: A. heart, B. lung. What is the organ in B?", "lung"),
        ("Does patient A: male, B: female have it?", "A"),
        ("Which?\nOptions: A: x, B: y, D: z", "B"),  # a letter is missing
        ("Which?\nOptions: B: x, A: y", "B"),
        ("Which?\nOptions: A: x", "A"),
        ("Which?\nOptions: A: x, B: y", "C"),  # the key fits no option
        ("Which?\nA. x\nB. y", "neither"),
        ("A. heart\nB. lung\nWhich one is enlarged?", "B"),  # no heading: may be a figure's panels
        ("Is it a T1 image? (a) T1 is short.", "yes"),
        ("Which?\nA. heart\nB. lung\nThe arrow marks it.", "lung"),  # a letter would prove it
    ],
)
def test_text_that_only_looks_like_a_list_stays(question: str, key: str) -> None:
    assert take_list(question, (), key) == (question, None)


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        (
            "What colour is it\nAnswer the question using a single word or phrase.",
            "What colour is it",
        ),
        ("Is there a mass? Please answer yes or no.", "Is there a mass?"),
        ("How many?\n\nPlease answer directly with a single word or number.", "How many?"),
        ("Is it? Answer with Yes or No. Do not explain.", "Is it?"),
        ("Please answer the question with a short phrase.\nWhat is it?", "What is it?"),
        ("Question: What is it?", "What is it?"),
        (
            "Hint: The left lung is shown.\nQuestion: What is it?",
            "Hint: The left lung is shown.\nQuestion: What is it?",
        ),
        ("Select the number below.", "Select the number below."),
        ("Answer yes or no.", "Answer yes or no."),
        (
            "The sign says stop. Choose the correct word.",
            "The sign says stop. Choose the correct word.",
        ),
        ("Where? Select the organ above the liver.", "Where? Select the organ above the liver."),
        (" Is it?\n", " Is it?\n"),
    ],
)
def test_hints_are_taken_out(question: str, asked: str) -> None:
    assert take_list(question) == (asked, None)


def test_a_list_that_agrees_with_the_columns_goes_whatever_its_style() -> None:
    for written in (
        "Answer Choices: (A) CT (B) MRI",
        "1. CT\n2. MRI",
        "Choices: CT, MRI",
        "A- CT, B- MRI",
        "Options:\nA) ct\nB) Mri.",
    ):
        asked, listed = take_list(f"Which?\n{written}\n{LETTER}", ("CT", "MRI"), "B")
        assert (asked == "Which?") is (listed is not None) is (written[:2] != "A-"), written
    for written in ("(A) CT (B) PET", "(A) MRI (B) CT", "(A) CT (B) MRI (C) PET"):
        question = f"Which?\nAnswer Choices: {written}"
        assert take_list(question, ("CT", "MRI"), "B") == (question, None)


@pytest.mark.parametrize(
    ("value", "texts", "labels"),
    [
        ('{"A": "CT", "B": "MRI"}', ("CT", "MRI"), ("A", "B")),
        ("{'A': 'CT', 'B': None}", ("CT",), ("A",)),
        ('["CT", "MRI"]', ("CT", "MRI"), ()),
        ("['CT', \"Crohn's\"]", ("CT", "Crohn's"), ()),
        ("('CT', 'MRI')", ("CT", "MRI"), ()),
        ("A. CT\nB. MRI, old", ("CT", "MRI, old"), ("A", "B")),
        ("(A) CT (B) MRI", ("CT", "MRI"), ("A", "B")),
        ({"B": "MRI", "A": "CT", "C": None}, ("CT", "MRI"), ("A", "B")),
        ({"option_b": "MRI", "option_a": "CT"}, ("CT", "MRI"), ("A", "B")),
        ({str(k): f"no. {k}" for k in (10, 9, 2)}, ("no. 2", "no. 9", "no. 10"), ("2", "9", "10")),
        ({"text": ["CT", "MRI"], "label": ["1", "2"]}, ("CT", "MRI"), ("1", "2")),
        (["A. CT", "B. MRI"], ("CT", "MRI"), ("A", "B")),
        (["(a) CT", "(b) MRI"], ("CT", "MRI"), ("A", "B")),
        (["1. CT", "2) MRI"], ("CT", "MRI"), ("1", "2")),
        (["1.5", "2.5"], ("1.5", "2.5"), ()),
        (["A.D.", "B.C."], ("A.D.", "B.C."), ()),
        ([{"A": "CT"}, {"B": "MRI"}], ("CT", "MRI"), ("A", "B")),
        ([{"key": "A", "text": "CT"}, {"key": "B", "text": "MRI"}], ("CT", "MRI"), ("A", "B")),
        (["CT", None, "MRI", None], ("CT", "", "MRI"), ()),
        ([" A:CT ", " B:MRI ", " C: ", " D:"], ("CT", "MRI"), ("A", "B")),
        ([" A:.05 ", " B:.1 "], (".05", ".1"), ("A", "B")),
        (["A.", "B.", "C."], ("A.", "B.", "C."), ()),
        ([1, 2.0, 2.5], ("1", "2", "2.5"), ()),
        ("[]", (), ()),
        ("{}", (), ()),
        ("", (), ()),
        (None, (), ()),
        ("n/a", (), ()),
        (float("nan"), (), ()),
    ],
)
def test_options_columns(value: Any, texts: tuple[str, ...], labels: tuple[str, ...]) -> None:
    choices = read_options(value)
    assert (choices.texts, choices.labels) == (texts, labels)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("['CT', 'MRI'", "unreadable options"),
        ("{CT; MRI}", "unreadable options"),
        ("[__import__('os').getcwd()]", "unreadable options"),
        ("[" * 5000 + "]" * 5000, "options nested too deeply"),
        ("[" + "'x'," * 300_000 + "]", "options too long"),
        ([["CT"], ["MRI"]], "unreadable options"),
        ('[{"A": {"B": "C"}}]', "unreadable options"),
    ],
)
def test_a_list_that_cannot_be_read_is_an_error(value: Any, reason: str) -> None:
    with pytest.raises(UnreadableOptionsError) as caught:
        read_options(value)
    assert caught.value.reason == reason


def test_a_row_with_unreadable_options_is_dropped_with_its_reason(tmp_path: Path) -> None:
    rows = [
        {"id": "1", "question": "Which?", "options": '{"A": "CT", "B": "MRI"}', "answer": "B"},
        {"id": "2", "question": "Which?", "options": "['CT', 'MRI'", "answer": "B"},
        {"id": "4", "question": "Which?", "options": "see figure", "answer": "free"},
    ]
    benchmark = read_benchmark(lines(tmp_path / "t.jsonl", rows))
    assert [(e.id, e.answer) for e in benchmark] == [("1", "MRI"), ("4", "free")]
    (dropped,) = benchmark.dropped
    assert (dropped.id, dropped.reason) == ("t.jsonl row 2", "unreadable options")
    assert "column options" in dropped.detail
    found = rules(benchmark)
    assert found["unread-options"] == ["4"]
    assert len(found["dropped-rows"]) == 1


@pytest.mark.parametrize(("answer", "severity"), [("A", "error"), ("cat", "warning")])
def test_options_that_are_no_list_beside_a_letter_are_an_error(
    answer: str, severity: str, tmp_path: Path
) -> None:
    rows = [{"question": f"Which is {n}?", "options": "cat; dog", "answer": answer} for n in (1, 2)]
    benchmark = read_benchmark(lines(tmp_path / "t.jsonl", rows))
    found = [one for one in check(benchmark).problems if one.rule == "unread-options"]
    assert [one.severity for one in found] == [severity]


@pytest.mark.parametrize(
    ("options", "answer", "index"),
    [
        ({"1": "CT", "2": "MRI"}, "2", 1),
        ({"0": "CT", "1": "MRI"}, 1, 1),
        (["1. CT", "2. MRI"], "2", 1),
        (["CT", "MRI"], "1", 1),
        ({"B": "CT", "C": "MRI"}, "C", 1),
        (["CT", "MRI"], "B. MRI", 1),
        (["CT", "MRI"], "B. CT", None),
        (["CT", "MRI"], "2) MRI", 1),
        (["CT", "MRI"], "10. MRI", None),
    ],
)
def test_keys_follow_the_names_of_the_options(
    options: Any, answer: Any, index: int | None, tmp_path: Path
) -> None:
    row = {"question": "Which?", "options": options, "answer": answer}
    assert read_benchmark(lines(tmp_path / "t.jsonl", [row])).examples[0].answer_index == index


def test_check_reports_lists_that_were_not_taken_out(tmp_path: Path) -> None:
    rows = [
        {
            "id": "fine",
            "question": "Which?\nOptions: A: x, B: y",
            "options": ["x", "y"],
            "answer": "A",
        },
        {
            "id": "differs",
            "question": "Which?\nOptions: A: x, B: z",
            "options": ["x", "y"],
            "answer": "A",
        },
        {
            "id": "panels",
            "question": "What do (A) left lung and (B) right lung show?",
            "options": ["x", "y"],
            "answer": "A",
        },
        {"id": "no such key", "question": "Which?\nOptions: A: x, B: z", "answer": "D"},
        {"id": "open", "question": "What do A. x and B. y show?", "answer": "a mass"},
        {
            "id": "statements",
            "question": "Which hold?\n(A) It is big. (B) It is red.\n"
            "Options: A: Only (A), B: Only (B)",
            "answer": "A",
        },
    ]
    assert rules(read_benchmark(lines(tmp_path / "t.jsonl", rows)))["option-list-in-question"] == [
        "differs",
        "no such key",
    ]


def test_what_is_written_again_is_the_released_text(tmp_path: Path) -> None:
    rows = [
        {
            "id": str(k),
            "question": f"Which of {k}?\nOptions: A: x{k}, B: y\n{LETTER}",
            "answer": "B",
        }
        for k in range(4)
    ]
    path = lines(tmp_path / "test.jsonl", rows)
    opened = open_tables(path)
    assert opened.benchmark.examples[1].metadata[RELEASED] == rows[1]["question"]
    keep = [True, False, True, True]
    out = tmp_path / "out"
    out.mkdir()
    write_file(chosen_by_table(opened, keep), out / "test.jsonl", out)
    kept = [
        line for line, chosen in zip(path.read_text().splitlines(), keep, strict=True) if chosen
    ]
    assert (out / "test.jsonl").read_text().splitlines() == kept
    examples = [e for e, chosen in zip(opened.benchmark, keep, strict=True) if chosen]
    back = read_benchmark(out / "test.jsonl")
    assert compare(examples, opened.benchmark, back).differences == ()


def test_a_corpus_that_holds_the_released_text_is_compared_with_it(tmp_path: Path) -> None:
    question = f"Which animal is on the mat?\nOptions: A: a cat, B: a dog\n{LETTER}"
    path = lines(tmp_path / "t.jsonl", [{"question": question, "answer": "B"}])
    (example,) = read_benchmark(path).examples
    theirs = CorpusItem("c", question=question, answer="B")
    fields = {text for name, text in item_texts(example).fields if name == "question+options"}
    assert {document.text for document in document_texts(theirs)} & {
        question,
        " ".join(question.split()),
    }
    assert " ".join(question.split()) in fields
    plain = Example("1", question="Which?", options=("a", "b"))
    assert [name for name, _ in item_texts(plain).fields] == [
        "question",
        "question+options",
        "options",
    ]


def test_check_shows_prompts_as_a_model_gets_them(tmp_path: Path) -> None:
    rows = [
        {"id": "a", "question": f"Which?\nOptions: A: [x], B: y\n{LETTER}", "answer": "B"},
        {"id": "b", "question": "Which?", "options": ["x", "y"], "answer": "D"},
        {"id": "c", "question": "not shown?", "answer": "d"},
    ]
    path = str(lines(tmp_path / "t.jsonl", rows))
    told = json.loads(CliRunner().invoke(app, ["check", path, "--show", "2", "--json"]).stdout)
    first, second = told["prompts"]
    assert first["prompt"] == (
        "Which?\nA. [x]\nB. y\nAnswer with the letter of the right option, and nothing else."
    )
    assert (first["answer"], second["id"]) == ("B", "b")
    assert second["not asked"].startswith("answer not among")
    printed = CliRunner().invoke(app, ["check", path, "--show", "1"]).stdout
    assert first["prompt"] in printed
    assert "prompts" not in json.loads(CliRunner().invoke(app, ["check", path, "--json"]).stdout)


@pytest.mark.parametrize(
    "question",
    [
        "A: " * 6600,
        "Options: A: " + "x, B: y, " * 2000,
        "A. a\nB. b\n" * 2000,
        "Answer. " * 2400,
        "(A) x" + " " * 19_000 + "y",
        "the " * 4900 + "options: A: x, B: y",
        "A: x, B: y" * 100_000,
    ],
)
def test_hostile_questions_end(question: str) -> None:
    """Patterns that go back and forth would take hours here."""
    for given in ((), ("x", "y")):
        asked, _ = take_list(question, given, "A")
        assert asked.strip() in question


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("vqa_rad/mevf_trainset.json", 3064),
        ("slake#split=train", 9835),
        ("pathvqa#split=train", 19755),
        ("vqa_med_2019#split=train", 12792),
        ("vqa_med_2019#split=test", 500),
    ],
)
def test_real_questions_without_lists_stay_as_they_are(
    shared_data: Path, source: str, count: int
) -> None:
    benchmark = read_benchmark(f"{shared_data}/{source}")
    assert (len(benchmark), len(benchmark.dropped)) == (count, 0)
    assert not any(example.options or RELEASED in example.metadata for example in benchmark)
    assert not any(list_left(e.question or "", e.answer, ()) for e in benchmark)


def _keyed(path: Path, keys: list[int]) -> Benchmark:
    animals = ["cat", "dog", "bird", "cow"]
    rows = [
        {"id": str(k), "question": f"Which one is {k}?", "choices": animals, "answer": key}
        for k, key in enumerate(keys)
    ]
    path.write_text(json.dumps(rows))
    return read_benchmark(path)


def test_positions_that_reach_the_number_of_options_count_from_one(tmp_path: Path) -> None:
    answers = [example.answer for example in _keyed(tmp_path / "b.json", [1, 2, 3, 4] * 5)]
    assert answers[:4] == ["cat", "dog", "bird", "cow"]
    zero = [example.answer for example in _keyed(tmp_path / "a.json", [0, 1, 2, 3] * 5)]
    assert zero[:4] == ["cat", "dog", "bird", "cow"]


def test_positions_that_may_count_from_one_are_an_error(tmp_path: Path) -> None:
    codes = {p.rule for p in check(_keyed(tmp_path / "b.json", [1, 2, 3] * 7)).problems}
    assert "positions-without-zero" in codes
    codes = {p.rule for p in check(_keyed(tmp_path / "a.json", [0, 1, 2] * 7)).problems}
    assert "positions-without-zero" not in codes


def test_the_stop_of_a_sentence_is_no_part_of_its_last_option() -> None:
    _, listed = take_list("Which? Options: A: cat; B: dog; C: bird.", (), "C")
    assert listed is not None and listed.options == ("cat", "dog", "bird")
    _, listed = take_list("Which? Options: A: A cat. B: A dog. C: A bird.", (), "C")
    assert listed is not None and listed.options[0] == "A cat."


def test_arrays_without_commas_are_lists() -> None:
    assert read_options("['cat' 'dog' 'bird']").texts == ("cat", "dog", "bird")
    assert read_options("['cat', 'dog']").texts == ("cat", "dog")


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("What?\nA) cat\nB) ok dog\nAntworte nur mit dem Buchstaben.", "B"),
        ("What is it? (A) bear (B) sheep (C) fish (D) horse", "bear"),
        ("What is it?<br>A. bear<br>B. sheep", "A"),
        ("Which?\n1. cat\n2. dog", "2"),
        ("Какой?\nА. кот\nБ. пёс", "Б"),
        ("What? (A) cat (B) dog Which of the above is shown?", "AB"),
    ],
)
def test_lists_that_stay_are_reported(question: str, answer: str) -> None:
    assert list_left(question, answer, ()) is not None


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("Is vitamin A: a vitamin?", "yes"),
        ("Which lobe, (a) or (b), is larger?", "the left one"),
        ("At 1. 5 cm and 2. 5 cm, what is seen?", "a mass"),
    ],
)
def test_sentences_without_lists_are_not_reported(question: str, answer: str) -> None:
    assert list_left(question, answer, ()) is None
