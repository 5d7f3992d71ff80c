"""Replies as models write them, and what a strict reader makes of each."""

from __future__ import annotations

import pytest

from heldout.benchmark.grading import OUTCOMES, grade

ORGANS = ("left lung", "right lung", "liver", "heart")
POLES = ("Yes", "No")
COUNTS = ("1", "2", "3", "4")
SIDES = ("on the left", "on the right", "cannot be determined", "both sides")

# reply, what is parsed ("" where nothing is): B is right
CHOICES = [
    ("B", "B"),
    ("b", "B"),
    (" B\n", "B"),
    ("B.", "B"),
    ("B)", "B"),
    ("(B)", "B"),
    ("[B]", "B"),
    ("(B).", "B"),
    ("B:", "B"),
    ("**B**", "B"),
    ("**(B)**", "B"),
    ("`B`", "B"),
    ('"B"', "B"),
    ("$\\boxed{B}$", "B"),
    ("\\boxed{\\text{B}}", "B"),
    ("Option B", "B"),
    ("option (b)", "B"),
    ("Choice B.", "B"),
    ("B<|im_end|>", "B"),
    ("B</s>", "B"),
    ("B. right lung", "B"),
    ("B. Right lung.", "B"),
    ("(B) right lung", "B"),
    ("B) the right lung", "B"),
    ("B: right lung", "B"),
    ("B - right lung", "B"),
    ("**B. right lung**", "B"),
    ("B, right lung", "B"),
    ("right lung", "B"),
    ("Right Lung.", "B"),
    ("The right lung.", "B"),
    ("  right   lung ", "B"),
    ('"right lung"', "B"),
    ("**right lung**", "B"),
    ("A", "A"),
    ("D. heart", "D"),
    ("C) Liver", "C"),
    ("liver", "C"),
    ("<answer>B</answer>", "B"),
    ("<answer>(B)</answer>", "B"),
    ("<answer> B. right lung </answer>", "B"),
    ("<answer>right lung</answer>", "B"),
    ("<Answer>b</Answer>", "B"),
    ("It could be <answer>A</answer>. Looking again: <answer>B</answer>", "B"),
    ("The opacity lies on the viewer's left, so A is out. <answer>B</answer>", "B"),
    ("The reasoning.\n<answer>\nB\n</answer>\n", "B"),
    ("Long thought <answer>B", "B"),
    ("<think>A? No, the answer is A. Hmm.</think>B", "B"),
    ("so it is A\n</think>\n\nB", "B"),
    ("<think>It is A</think>\nThe answer is B.", "B"),
    ("The answer is B", "B"),
    ("The answer is B.", "B"),
    ("The answer is (B).", "B"),
    ("The answer is **B**.", "B"),
    ("the answer is: B", "B"),
    ("Answer: B", "B"),
    ("Answer: (B) right lung", "B"),
    ("**Answer:** B", "B"),
    ("Final answer: B", "B"),
    ("The correct answer is B. right lung.", "B"),
    ("The correct answer is B: right lung", "B"),
    ("The correct option is B.", "B"),
    ("The correct choice is (B) right lung.", "B"),
    ("Therefore, the answer is B.", "B"),
    ("The answer is right lung.", "B"),
    ("The answer is the right lung.", "B"),
    ("The best answer is B because the trachea is shifted.", "B"),
    ("The answer would be B.", "B"),
    ("The picture shows a chest. The answer is B.", "B"),
    ("The answer is B. The trachea is shifted to the other side.", "B"),
    ("The answer is B. right lung. The trachea is shifted.", "B"),
    ("The answer to the question is B.", "B"),
    ("I would choose B.", "B"),
    ("I choose option B", "B"),
    ("B is correct.", "B"),
    ("Option B is the correct answer.", "B"),
    ("B is the best choice.", "B"),
    ("B\n\nThe opacity is in the right lung.", "B"),
    ("B. right lung\n\nExplanation: the heart is normal.", "B"),
    ("Let us look at the picture.\nThe heart is normal.\n\nB", "B"),
    ("B because the opacity is there", "B"),
    ("B, because the opacity is there.", "B"),
    ("B. right lung. The trachea is shifted.", "B"),
    ("right lung, because the trachea is shifted", "B"),
    ("The answer is A. Wait, I looked at the wrong side. Final answer: B", "B"),
    ("The answer is A.", "A"),
    ("The correct answer is: **B) right lung**", "B"),
    ("**Answer: B. right lung**", "B"),
    ("Answer：B", "B"),
    ("Based on the image, the answer is B.", "B"),
    ("B. right lung is the correct answer.", "B"),
    ("The correct option is **(B)**: right lung.", "B"),
    ("I think the answer is B.", "B"),
    ("The answer is option B, right lung.", "B"),
    ("B.right lung", "B"),
    ("B)right lung", "B"),
    ("A) left lung\nB) right lung\nC) liver\nD) heart\n\nAnswer: B", "B"),
    ("A is wrong. C is wrong. B is correct.", "B"),
    ("Neither A nor C is correct. B is the answer.", "B"),
    ("### Answer\nB", "B"),
    ("B\n\nExplanation:\nA. left lung is normal.\nC. liver is not shown.", "B"),
    ("Let me count the options: A, B, C.\n\n**Final Answer: B**", "B"),
    # Nothing that may be read in two ways is read.
    ("", ""),
    ("   \n", ""),
    ("A or B", ""),
    ("A,B", ""),
    ("A) left lung\nB) right lung\nC) liver\nD) heart\nI am not sure", ""),
    ("A. left lung. B. right lung.", ""),
    ("Is B correct? I cannot say.", ""),
    ("B is not correct.", ""),
    ("The answer could be B.", ""),
    ("Both A and B are correct.", ""),
    ("a.m.", ""),
    ("B-mode ultrasound", ""),
    ("The answer is Bright.", ""),
    ("A and B", ""),
    ("A, B", ""),
    ("A/B", ""),
    ("AB", ""),
    ("not A", ""),
    ("Not B", ""),
    ("B?? or A", ""),
    ("It is not B.", ""),
    ("The answer is not B.", ""),
    ("I don't think the answer is B.", ""),
    ("I am not sure whether the answer is B.", ""),
    ("If the picture is mirrored, the answer is B.", ""),
    ("The answer is A or B.", ""),
    ("The answer is either B or C.", ""),
    ("The answer is B or maybe C", ""),
    ("The answer is A. The answer is B.", ""),
    ("A. right lung", ""),
    ("The answer is A. right lung", ""),
    ("left lung or right lung", ""),
    ("left lung, right lung", ""),
    ("left lung. right lung.", ""),
    ("A\nB\nC\nD", ""),
    ("E", ""),
    ("E. spleen", ""),
    ("spleen", ""),
    ("lung", ""),
    ("A dog", ""),
    ("A large opacity in the right lung", ""),
    ("The right lung shows an opacity.", ""),
    ("The options are A, B, C and D.", ""),
    ("<answer>A or B</answer>", ""),
    ("<answer></answer>", ""),
    ("<answer>spleen</answer> B", ""),
    ("<think>the answer is B, but let me", ""),
    ("The answer is", ""),
    ("Answer:", ""),
    ("None of the above", ""),
    ("All of the above", ""),
    ("1", ""),
    ("2", ""),
    ("?", ""),
    ("yes", ""),
]


@pytest.mark.parametrize(("reply", "parsed"), CHOICES)
def test_choices_are_read_strictly(reply: str, parsed: str) -> None:
    found = grade(reply, "B", ORGANS)
    assert found.parsed == parsed, found
    assert found.outcome == ({"B": "right", "": "unparsed"}.get(parsed, "wrong")), found
    assert found.rule


REFUSALS = [
    "I'm sorry, but I can't assist with that.",
    "I’m sorry, I cannot provide medical advice.",
    "I cannot determine this from the picture.",
    "As an AI language model, I cannot look at images.",
    "I’m unable to view images. Please describe it.",
    "No image was provided. Please upload it.",
    "It is not possible to determine the organ from this picture.",
    "I can't help with identifying people in photographs.",
]


@pytest.mark.parametrize("reply", REFUSALS)
def test_a_refusal_is_an_outcome_of_its_own(reply: str) -> None:
    assert grade(reply, "B", ORGANS).outcome == "refused"
    assert grade(reply, "liver").outcome == "refused"


def test_a_choice_behind_an_apology_counts() -> None:
    assert grade("I'm sorry for the delay. The answer is B.", "B", ORGANS).outcome == "right"


@pytest.mark.parametrize(
    ("reply", "gold", "options", "outcome", "parsed"),
    [
        ("Yes", "A", POLES, "right", "A"),
        ("Yes, there is a mass.", "A", POLES, "right", "A"),
        ("No, there isn't.", "A", POLES, "wrong", "B"),
        ("No. Yes would be wrong.", "A", POLES, "unparsed", ""),
        ("Yes and no", "A", POLES, "unparsed", ""),
        ("yes or no", "A", POLES, "unparsed", ""),
        ("not sure", "B", POLES, "unparsed", ""),
        ("Nothing abnormal", "B", POLES, "unparsed", ""),
        ("No idea", "B", POLES, "unparsed", ""),
        ("B. No", "B", POLES, "right", "B"),
        ("A. No", "B", POLES, "unparsed", ""),
        ("True", "A", ("True", "False"), "right", "A"),
        ("False, the lines cross.", "A", ("True", "False"), "wrong", "B"),
        ("2", "B", COUNTS, "right", "B"),
        ("B. 2", "B", COUNTS, "right", "B"),
        ("The answer is 3.", "B", COUNTS, "wrong", "C"),
        ("1.5", "A", COUNTS, "unparsed", ""),
        ("Cannot be determined", "C", SIDES, "right", "C"),
        ("C. cannot be determined", "C", SIDES, "right", "C"),
        ("A", "A", ("B", "A"), "unparsed", ""),  # the letter A, or the text of option B?
        ("same", "A", ("same", "same"), "unparsed", ""),
        ("J", "J", tuple("abcdefghij"), "right", "J"),
    ],
)
def test_options_of_every_kind(
    reply: str, gold: str, options: tuple[str, ...], outcome: str, parsed: str
) -> None:
    found = grade(reply, gold, options)
    assert (found.outcome, found.parsed) == (outcome, parsed), found


@pytest.mark.parametrize(
    ("reply", "gold", "outcome"),
    [
        ("yes", "Yes", "right"),
        ("Yes.", "yes", "right"),
        ("No, the heart is normal.", "no", "right"),
        ("Yes, there is no fracture.", "yes", "right"),
        ("The answer is no.", "no", "right"),
        ("<answer>no</answer>", "no", "right"),
        ("Answer: yes", "no", "wrong"),
        ("not sure", "no", "unparsed"),
        ("nope", "no", "unparsed"),
        ("yes/no", "no", "unparsed"),
        ("There is a mass.", "yes", "unparsed"),
        ("left lung", "left lung", "right"),
        ("The left lung.", "left lung", "right"),
        ("Left  Lung", "left lung", "right"),
        ("The answer is the left lung.", "left lung", "right"),
        ("It shows a chest.\nAnswer: left lung", "left lung", "right"),
        ("<answer>left lung</answer>", "left lung", "right"),
        ("right lung", "left lung", "wrong"),
        ("lung", "left lung", "wrong"),
        ("left lung or right lung", "left lung", "unparsed"),
        ("", "left lung", "unparsed"),
        (
            "The chest radiograph shows an opacity that is in the left lung and also elsewhere",
            "left lung",
            "unparsed",
        ),
        ("Spinal Cord, Lung", "Lung, Spinal Cord", "right"),
        ("lung and spinal cord", "Lung, Spinal Cord", "right"),
        ("Lung", "Lung, Spinal Cord", "wrong"),
        ("lung, heart, spinal cord", "Lung, Spinal Cord", "wrong"),
        ("3", "3", "right"),
        ("three", "3", "right"),
        ("3.0", "3", "right"),
        ("There are 3 dogs.", "3", "right"),
        ("There are three.", "3", "right"),
        ("13", "3", "wrong"),
        ("4", "3", "wrong"),
        ("3 or 4", "3", "unparsed"),
        ("between 2 and 4", "3", "unparsed"),
        ("3 cm", "3 cm", "right"),
        ("3", "3 cm", "right"),
        ("3 mm", "3 cm", "wrong"),
        ("12%", "12 %", "right"),
        ("12 percent", "12%", "right"),
        ("1,200", "1200", "right"),
        ("1/2", "0.5", "right"),
        ("2.1 × 10^3", "2100", "right"),
        ("−3", "-3", "right"),
        ("3", "-3", "wrong"),
        ("$4.50", "4.5", "right"),
        ("many", "3", "wrong"),
        ("1e999", "3", "unparsed"),
        ("1/0", "3", "unparsed"),
        ("1999", "2000", "wrong"),
    ],
)
def test_open_answers(reply: str, gold: str, outcome: str) -> None:
    assert grade(reply, gold).outcome == outcome, grade(reply, gold)


# Two ways of writing one answer; both directions are right.
EQUAL = [
    (r"\frac{4}{5}", "4/5"),
    (r"\dfrac45", r"\frac{4}{5}"),
    ("$0.8$", r"\tfrac{4}{5}"),
    (r"\(\frac{4}{5}\)", "0.8"),
    (r"-\frac{1}{2}", "-0.5"),
    (r"1\frac{1}{2}", "1.5"),
    ("1 1/2", "3/2"),
    (r"$72^\circ$", "72°"),
    (r"$72^{\circ}$", "72 degrees"),
    (r"37^\circ\text{C}", "37 degrees Celsius"),
    (r"3\text{ cm}", "3 cm"),
    (r"$3\mathrm{~cm}$", "3cm"),
    (r"\SI{5}{cm}", r"5\,\mathrm{cm}"),
    (r"5\text{ cm}^2", "5 cm²"),
    (r"5\,\mu\text{m}", "5 µm"),
    (r"50\%", "50 percent"),
    (r"1{,}200", "1200"),
    (r"12\,000", "12,000"),
    ("12 000", "12000"),
    (r"2.1 \times 10^{3}", "2.1 × 10³"),
    ("x^{2}", "x²"),
    ("$x^{2} + 2x + 1$", "x^2+2x+1"),
    (r"\sqrt{2}", "√2"),
    (r"$\sqrt 2$", "sqrt(2)"),
    (r"\boxed{\frac{\sqrt{3}}{2}}", "√3/2"),
    (r"\frac{x+1}{2}", "(x + 1)/2"),
    (r"\left( 1, 2 \right)", "(1,2)"),
    (r"25\pi", "25π"),
    (r"\angle A = 72^\circ", "∠A=72°"),
    (r"\mathrm{H}_2\mathrm{O}", "H₂O"),
    (r"\text{left lung}", "Left lung."),
]
DIFFERENT = [
    (r"\frac{4}{5}", "5/4"),
    (r"0.\overline{3}", "0.3"),
    (r"\vec{a}", "a"),
    (r"\frac{\sqrt{3}}{2}", "0.866"),
    ("1/3", "0.333"),
    ("x^2", "x2"),
    ("10²", "102"),
    ("2^2", "4"),  # notation is compared, nothing is computed
    ("1, 200", "1200"),
    ("1 12", "112"),
    ("(1,2)", "(2,1)"),
    ("(1,2)", "[1,2]"),
    ("72°C", "72°"),
    ("5 cm", "5 cm²"),
    (r"\text{no}", "not sure"),
    (r"$-x$", "x"),
]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal_in_latex_is_equal(one: str, other: str) -> None:
    assert grade(one, other).outcome == grade(other, one).outcome == "right"


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_other_formulas_stay_other_answers(one: str, other: str) -> None:
    assert "right" not in (grade(one, other).outcome, grade(other, one).outcome)


def test_latex_is_read_where_replies_put_it() -> None:
    assert grade(r"So we get \[\boxed{\frac{\sqrt{3}}{2}}\]", "√3/2").outcome == "right"
    assert grade(r"The answer is $\frac{4}{5}$.", "0.8").outcome == "right"
    assert grade(r"$x^{2}$", "B", ("x", "x²", "2x")).parsed == "B"
    assert grade(r"B. $\frac{1}{2}$", "B", ("1/3", "1/2")).parsed == "B"
    assert grade(r"A. $\frac{1}{2}$", "B", ("1/3", "1/2")).outcome == "unparsed"


def test_hostile_latex_stays_as_it_is() -> None:
    for text in (
        r"\frac" * 4_000,
        "{" * 19_000,
        "x^{" * 6_000,
        r"\sqrt[" * 3_000,
        "^" * 19_000,
        r"\text{" * 40 + "4/5" + "}" * 40,
        r"\boxed{" * 2_000 + "4/5",
    ):
        assert grade(text, "4/5").outcome != "right"
        assert grade("4/5", text).outcome != "right"


def test_a_number_may_be_off_by_its_tolerance() -> None:
    assert grade("96", "100").outcome == "wrong"
    assert grade("96", "100", tolerance=0.05).outcome == "right"
    assert grade("94", "100", tolerance=0.05).outcome == "wrong"
    assert grade("0.01", "0", tolerance=0.05).outcome == "wrong"


def test_the_table_is_large_and_every_outcome_is_in_it() -> None:
    assert len(CHOICES) >= 120
    assert {grade(reply, "B", ORGANS).outcome for reply, _ in CHOICES} | {"refused"} == set(
        OUTCOMES
    )


def test_hostile_replies_are_read_in_no_time() -> None:
    for reply in (
        "A" * 10**6,
        "the answer is " * 20_000,
        "(" * 10**5,
        "<answer>" * 10**4,
        "a. " * 10**5,
        "<think>" * 10**4,
        "not " * 10**5 + "A",
        "1," * 10**5,
        "\\boxed{" * 10**4,
    ):
        assert grade(reply, "B", ORGANS).outcome == "unparsed"
        assert grade(reply, "42").outcome in ("unparsed", "wrong")


@pytest.mark.parametrize(
    ("reply", "gold", "outcome"),
    [
        ("4", "$x=4$", "right"),
        ("x = 4", "4", "right"),
        ("The answer is $x=4$.", "4", "right"),
        ("$x = \\frac{1}{2}$", "0.5", "right"),
        ("y=4", "x=4", "wrong"),
        ("x=5", "4", "wrong"),
        ("50%", "0.5", "wrong"),
        ("0.5", "50\\%", "wrong"),
    ],
)
def test_latex_with_a_variable_on_the_left(reply: str, gold: str, outcome: str) -> None:
    assert grade(reply, gold).outcome == outcome
