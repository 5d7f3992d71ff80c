"""Suites as data: the built-in ones, a user's own, and what is said about mistakes in them."""

from __future__ import annotations

from pathlib import Path

import pytest
from made_suite import SIZES

from heldout.errors import InputError
from heldout.evaluate import EvaluateSettings, builtin_suites, read_suite
from heldout.evaluate.opening import OpenedBenchmark, open_benchmarks


def opened(suite: str | Path, **values: object) -> list[OpenedBenchmark]:
    read, folder = read_suite(str(suite))
    given = {"recorded": ("file",), **values}
    return open_benchmarks(read, folder, EvaluateSettings(suite=str(suite), **given), quiet=True)  # type: ignore[arg-type]


def test_the_medical_suites_have_the_published_number_of_items() -> None:
    for name in ("medvlsynther", "medvlsynther-originals"):
        suite = builtin_suites()[name]
        assert sum(one.items or 0 for one in suite.benchmarks) == 8220
        assert len(suite.benchmarks) == 6
        assert suite.max_new_tokens == 4096
        assert suite.prompt == "medvlthinker"


def test_every_built_in_suite_names_a_preset_that_exists() -> None:
    from heldout.benchmark.presets import find_preset

    for suite in builtin_suites().values():
        for one in suite.benchmarks:
            assert find_preset(one.source.partition("#")[0]) is not None


def test_paths_of_a_suite_start_from_its_folder(
    suite_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    found = {one.name: one.benchmark for one in opened(suite_file)}
    assert {name: len(one) for name, one in found.items()} == {
        n: items for n, (items, _) in SIZES.items()
    }
    assert len(set(found["organs"].clusters)) == SIZES["organs"][1]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\nbenchmarks: []\n", "benchmarks: "),
        ("name: x\nbenchmarks: [{name: Mean, source: b}]\n", "take another name"),
        (
            "name: x\nbenchmarks: [{name: a, source: b, image: c}]\n",
            "benchmarks.1.image: there is no such key",
        ),
        (
            "name: x\nbenchmarks: [{name: a, source: b}, {name: A, source: c}]\n",
            "'a' is listed twice",
        ),
        (
            "name: x\nprompt: nice\nbenchmarks: [{name: a, source: b}]\n",
            "'nice' is no prompt; there are direct",
        ),
        ("name: x\nscorers: [loose]\nbenchmarks: [{name: a, source: b}]\n", "'loose' is no scorer"),
        ("name: ../x\nbenchmarks: [{name: a, source: b}]\n", "name: string should match pattern"),
        ("name: x\n  - broken: [", "line 2 is not YAML"),
        ("- 1\n", "expected a mapping with name and benchmarks"),
    ],
)
def test_a_mistake_in_a_suite_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "own.yaml"
    path.write_text(text)
    with pytest.raises(InputError, match="own.yaml") as raised:
        read_suite(str(path))
    assert said in str(raised.value)


def test_an_unknown_suite_lists_those_there_are() -> None:
    with pytest.raises(InputError, match=r"mmstar\?.*: medvlsynther"):
        read_suite("mmsta")
    with pytest.raises(InputError, match=r"nothing.yaml does not exist"):
        read_suite("nothing.yaml")


def test_a_missing_image_folder_is_one_sentence(suite_file: Path, tmp_path: Path) -> None:
    broken = suite_file.with_name("broken.yaml")
    broken.write_text(suite_file.read_text().replace("sides/images", "sides/pictures"))
    with pytest.raises(InputError) as raised:
        opened(broken)
    assert "benchmark sides: " in str(raised.value)
    assert "sides=DIR" in str(raised.value)
    found = opened(broken, images={"Sides": str(suite_file.parent / "sides/images")})
    assert len(found[1].benchmark) == SIZES["sides"][0]


def test_pictures_are_needed_to_ask_and_not_to_grade(suite_file: Path, tmp_path: Path) -> None:
    lonely = tmp_path / "lonely.yaml"
    (tmp_path / "test.jsonl").write_text((suite_file.parent / "sides/test.jsonl").read_text())
    lonely.write_text("name: lonely\nbenchmarks: [{name: sides, source: test.jsonl}]\n")
    with pytest.raises(InputError, match="of its 8 images"):
        opened(lonely, models=("checkpoint",), recorded=())
    (one,) = opened(lonely)
    assert "8 of 8 images" in one.remarks[0]
    assert len(set(one.benchmark.clusters)) == 8  # by the names of the images


def test_one_source_for_a_packed_suite(tmp_path: Path) -> None:
    """The published packed form: options as a JSON string, six suites in one table."""
    import json

    import polars as pl

    names = (
        "MMMU-medical",
        "MedXpertQA-MM",
        "pathvqa_closed",
        "pmc_vqa",
        "slake_closed",
        "vqa_rad_closed",
    )
    rows = [
        {
            "images": [],
            "question": f"Is it {name} {number}?",
            "dataset_name": name,
            "options": json.dumps({"A": "Yes", "B": "No"}),
            "answer_label": "AB"[number % 2],
            "answer": ("Yes", "No")[number % 2],
            "dataset_index": 10 * place + number,
        }
        for place, name in enumerate(names)
        for number in range(3)
    ]
    pl.DataFrame(
        rows, schema_overrides={"images": pl.List(pl.Struct({"bytes": pl.Binary}))}
    ).write_parquet(tmp_path / "test.parquet")
    found = opened("medvlsynther", sources={"*": str(tmp_path / "test.parquet")})
    assert [len(one.benchmark) for one in found] == [3] * 6
    assert found[4].benchmark.examples[1].options == ("Yes", "No")
    assert found[4].benchmark.examples[1].answer == "No"
    assert found[4].remarks[0].startswith("SLAKE: 3 items (416 ")


def test_a_benchmark_that_the_suite_does_not_have(suite_file: Path) -> None:
    with pytest.raises(InputError, match="'bones'.*: organs, sides"):
        opened(suite_file, benchmarks=("bones",))


def test_prompts_word_for_word() -> None:
    from heldout.benchmark import Example
    from heldout.evaluate.suite import SuitePrompt
    from heldout.image import ImageRef, InlineBytes
    from heldout.model.asking.forms import Question, original

    picture = ImageRef("1.png", InlineBytes(b"", "1.png"))
    released = "Where is it?\nOptions: A: left, B: right"
    item = Example(
        "1",
        (picture,),
        "Where is it <image 1>?",
        ("left", "{options}"),
        "left",
        0,
        metadata={"released_question": released},
    )
    shown = original(item)
    assert isinstance(shown, Question)

    def parts(prompt: str, question: Question = shown) -> list[str]:
        request = SuitePrompt(prompt).request(question, item)
        return [part.name if isinstance(part, ImageRef) else part.text for part in request.content]

    assert parts("released") == ["1.png", released]
    assert parts("mmstar") == [
        "1.png",
        f"{released}\nAnswer with the option's letter from the given choices directly",
    ]
    assert parts("Q: {question}\n{options}") == [
        "Q: Where is it ",
        "1.png",
        "?\nA. left\nB. {options}",
    ]
    assert parts("medvlthinker")[1].endswith(
        "\n\nQuestion: Where is it <image 1>?\n\nOptions:\n\nA. left\n\nB. {options}"
    )
    without = original(Example("2", (), "What is it?", answer="a lung"))
    assert isinstance(without, Question)
    assert parts("medvlthinker", without)[0].endswith("tags.\n\nQuestion: What is it?")
    assert "letter" not in parts("reasoning", without)[0]
    assert parts("train")[1].startswith(
        "Where is it <image 1>?\nA. left\nB. {options}\n\nThink about"
    )
    names = [
        SuitePrompt(one).name(shown) for one in ("medvlthinker", "a {question}", "b {question}")
    ]
    assert names[0] == "medvlthinker/1"
    assert len(set(names)) == 3


def test_the_official_prompts_show_the_question_as_released(tmp_path: Path) -> None:
    import json

    from heldout.model.asking.forms import Question, original

    pictures = tmp_path / "images"
    pictures.mkdir()
    asked = {
        "mmstar": "Which animal is it?\nOptions: A: cat, B: dog, C: cow, D: hen",
        "realworldqa": "In which direction does the car go?\n\nA. Left\nB. Right\nC. Straight\n"
        "Please answer directly with only the letter of the correct option and nothing else.",
    }
    for name, text in asked.items():
        rows = [
            {
                "index": n,
                "image": f"{n}.png",
                "question": text.replace("Which", f"({n}) Which"),
                "answer": "B",
            }
            for n in range(4)
        ]
        path = tmp_path / f"{name}.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        (one,) = opened(name, sources={"*": str(path)})
        item = one.benchmark.examples[0]
        shown = original(item)
        assert isinstance(shown, Question)
        assert (len(shown.options), shown.gold) == (4 if name == "mmstar" else 3, "B")
        sent = "".join(
            part.text for part in one.prompt.request(shown, item).content if hasattr(part, "text")
        )
        end = (
            "\nAnswer with the option's letter from the given choices directly"
            if name == "mmstar"
            else ""
        )
        assert sent == rows[0]["question"] + end


def test_a_trained_model_is_evaluated_with_the_prompt_of_its_training() -> None:
    from heldout.benchmark import Example
    from heldout.evaluate.suite import SuitePrompt
    from heldout.model.asking.forms import Question, original
    from heldout.train._training_set import TrainingItem, asked
    from heldout.train.reward import Solution

    for options in (("left", "right"), ()):
        item = Example("1", (), "Where is it?", options, "left", 0 if options else None)
        shown = original(item)
        assert isinstance(shown, Question)
        solution = Solution("left", "A", options) if options else Solution("left")
        learnt = TrainingItem("1", (), "Where is it?", options, "left", solution)
        for ours, theirs in (("train", ""), ("medvlthinker", "medvlthinker")):
            if options or ours == "train":
                (part,) = SuitePrompt(ours).request(shown, item).content
                assert getattr(part, "text", None) == asked(learnt, theirs)
