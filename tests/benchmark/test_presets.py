"""Every preset on a tiny dataset laid out as published, and on the authors' own files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from published import FILES, IMAGE, ITEMS, TABLES, publish, publish_files

from heldout.benchmark import Benchmark, read_benchmark
from heldout.benchmark.check import check
from heldout.benchmark.presets import PRESETS, find_preset
from heldout.errors import InputError
from heldout.model.asking.stage import shown_prompts
from heldout.model.request import Text, option_requests, question_request

Picture = Callable[..., bytes]


def read_published(name: str, folder: Path, picture: Picture) -> Benchmark:
    if name in FILES:
        table, images = publish_files(name, folder, picture)
        return read_benchmark(table, preset=name, images=images)
    preset = find_preset(name, by_name=True)
    assert preset is not None
    return read_benchmark(publish(folder, preset.split, TABLES[name], picture), preset=name)


def words(text: str) -> str:
    """A prompt without its pictures, their marks and its layout."""
    return " ".join(re.sub(r"\[picture[^\]]*\]|<?image \d>?", " ", text).split())


def test_every_preset_is_tested_here() -> None:
    assert {preset.name for preset in PRESETS} == set(TABLES)
    assert all(len(rows) >= 10 for rows in TABLES.values())


@pytest.mark.parametrize("name", TABLES)
def test_published_layout(name: str, tmp_path: Path, picture: Picture) -> None:
    benchmark = read_published(name, tmp_path / "published", picture)
    expected = ITEMS[name]
    read = [(e.question, e.options, e.answer, e.answer_index) for e in benchmark]
    assert read == [(one.asks, one.offers, one.right, one.key) for one in expected]
    assert benchmark.dropped == ()
    assert all(isinstance(ref.read(), bytes) for ref in benchmark.images)
    assert benchmark.examples[0].images[0].read() == picture(0)
    assert benchmark.name == name
    assert len({example.id for example in benchmark}) == len(expected)


@pytest.mark.parametrize("name", TABLES)
def test_options_stand_once_in_every_prompt_and_move_as_a_whole(
    name: str, tmp_path: Path, picture: Picture
) -> None:
    benchmark = read_published(name, tmp_path / "published", picture)
    expected = {e.id: one for e, one in zip(benchmark, ITEMS[name], strict=True)}
    prompts = shown_prompts(benchmark, len(benchmark), "original,rotation-all")
    assert {prompt["id"] for prompt in prompts} == set(expected)
    for prompt in prompts:
        one = expected[prompt["id"]]
        if "prompt" not in prompt:
            bound = "options refer to their places" if one.offers else "no options"
            assert prompt["not asked"].startswith(bound if one.right else "no answer")
            continue
        places = int(prompt["variant"].partition("-")[2] or 0)
        offered = [*one.offers[places:], *one.offers[:places]]
        listed = [f"{chr(65 + place)}. {option}" for place, option in enumerate(offered)]
        *asked, instruction = prompt["prompt"].splitlines()
        assert words("\n".join(asked)) == words("\n".join([one.asks or "", *listed]))
        assert instruction.startswith("Answer with ")
        if listed:
            assert f"{prompt['answer']}. {one.right}" in listed
        else:
            assert prompt["answer"] == (one.right or "").strip()
    # What is scored has the question alone before it.
    for example, one in zip(benchmark, ITEMS[name], strict=True):
        for request in (question_request(example), *option_requests(example)):
            asked = "".join(p.text for p in request.content if isinstance(p, Text) and not p.scored)
            assert words(asked) == words(one.asks or "")


def test_options_that_are_pictures_show_them(tmp_path: Path, picture: Picture) -> None:
    benchmark = read_published("mmmu-med", tmp_path / "published", picture)
    prompts = shown_prompts(benchmark, len(benchmark), "original,rotation-1")
    drawn = [one["prompt"] for one in prompts if one["id"] == "validation_Pharmacy_4"]
    places = [re.findall(r"(A\.|B\.)? ?\[picture (\d)", prompt) for prompt in drawn]
    assert places == [
        [("", "1"), ("A.", "2"), ("B.", "3")],
        [("", "1"), ("A.", "3"), ("B.", "2")],
    ]


def test_naturalbench_rows_become_four_items(tmp_path: Path, picture: Picture) -> None:
    benchmark = read_published("naturalbench", tmp_path / "nb", picture)
    assert [(e.question, e.answer, e.images[0].read()) for e in benchmark.examples[:4]] == [
        ("Is it sunny?", "Yes", picture(0)),
        ("Is it sunny?", "No", picture(1)),
        ("Which colour?", "deep red", picture(0)),
        ("Which colour?", "dark blue", picture(1)),
    ]
    assert [e.answer_index for e in benchmark.examples[:4]] == [None, None, 0, 1]
    assert len(set(benchmark.clusters)) * 4 == len(benchmark)
    assert benchmark.examples[0].metadata["Source"] == "DOCCI"


def test_the_other_release_of_pmc_vqa(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "PMC1_F1.jpg").write_bytes(picture(0))
    (tmp_path / "test.csv").write_text(
        "index,Figure_path,Caption,Question,Choice A,Choice B,Choice C,Choice D,Answer,split\n"
        "0,PMC1_F1.jpg,a caption,Which uptake?, A:Diffuse , B:Focal , C:None , D:Unknown ,B,test\n"
    )
    example = read_benchmark(tmp_path / "test.csv", preset="pmc-vqa").examples[0]
    assert example.options == ("Diffuse", "Focal", "None", "Unknown")
    assert (example.answer, example.answer_index) == ("Focal", 1)
    assert example.images[0].read() == picture(0)


def test_mmmu_validation_is_not_dev(tmp_path: Path, picture: Picture) -> None:
    """A download of the hub's repository: a folder for every subject, three splits in each."""
    for subject in ("Art", "Pharmacy", "Public_Health"):
        for split in ("dev", "test", "validation"):
            row = {**TABLES["mmmu-med"][0], "id": f"{split}_{subject}_1"}
            folder = publish(tmp_path / "here", split, [row], picture) / "data"
            place = tmp_path / "MMMU" / subject
            place.mkdir(parents=True, exist_ok=True)
            name = f"{split}-00000-of-00001.parquet"
            (folder / name).rename(place / name)

    def ids(chosen: str) -> list[str]:
        return [e.id for e in read_benchmark(f"{tmp_path / 'MMMU'}{chosen}", preset="mmmu-med")]

    assert ids("") == ["validation_Pharmacy_1", "validation_Public_Health_1"]
    assert ids("#split=dev") == ["dev_Pharmacy_1", "dev_Public_Health_1"]
    assert ids("#split=validation+dev") == [
        "validation_Pharmacy_1",
        "dev_Pharmacy_1",
        "validation_Public_Health_1",
        "dev_Public_Health_1",
    ]
    both = read_benchmark(f"{tmp_path / 'MMMU'}#split=validation+dev", preset="mmmu-med")
    assert both.split == "validation+dev"


def test_a_mirror_with_training_data_alone_is_not_called_test(
    tmp_path: Path, picture: Picture
) -> None:
    row = {
        "question_id": "A_0",
        "image": IMAGE,
        "question": "Which?",
        "gt_answer": "cyst",
        "option_A": "none",
        "option_B": "cyst",
        "option_C": None,
        "option_D": None,
    }
    folder = publish(tmp_path / "mirror", "train", [row], picture)
    benchmark = read_benchmark(folder, preset="omnimedvqa")
    assert (benchmark.split, benchmark.examples[0].answer) == ("train", "cyst")
    with pytest.raises(InputError, match="split 'train'"):
        read_benchmark(f"{folder}#split=test", preset="omnimedvqa")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("slake-en", "BoKelvin/SLAKE"),
        ("textcaps", "without captions"),
        ("conceptual-captions", "addresses"),
    ],
)
def test_a_preset_says_what_its_copy_cannot_do(
    name: str, says: str, tmp_path: Path, picture: Picture
) -> None:
    rows = [{**row, "image": IMAGE} for row in TABLES[name]]
    if name == "slake-en":  # the mirror
        rows = [{k: row[k] for k in ("image", "question", "answer")} for row in rows[:4]]
    preset = find_preset(name, by_name=True)
    assert preset is not None
    report = check(read_benchmark(publish(tmp_path, preset.split, rows, picture), preset=name))
    (limit,) = [problem for problem in report.problems if problem.rule == "preset-limit"]
    assert limit.severity == "note"
    assert says in limit.message


def test_official_slake_has_its_strata(tmp_path: Path, picture: Picture) -> None:
    rows = [
        {
            "img_id": 1,
            "img_name": "1.png",
            "question": f"{k}?",
            "answer": "Yes",
            "q_lang": "en",
            "answer_type": "CLOSED",
            "content_type": "Organ",
            "qid": k,
        }
        for k in range(2)
    ]
    (tmp_path / "test.json").write_text(json.dumps(rows))
    report = check(read_benchmark(tmp_path, preset="slake-en"))
    assert "preset-limit" not in {problem.rule for problem in report.problems}


@pytest.mark.parametrize("with_images", [True, False])
def test_pmc_vqa_names_its_archive_of_pictures(
    with_images: bool, tmp_path: Path, picture: Picture
) -> None:
    table, images = publish_files("pmc-vqa", tmp_path / "published", picture)
    if not with_images:
        images = tmp_path / "empty"
        images.mkdir()
    report = check(read_benchmark(table, preset="pmc-vqa", images=images))
    told = [p.message for p in report.problems if p.rule == "preset-limit"]
    assert told == [] if with_images else "images.zip" in told[0]
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(InputError, match=r"images\.zip"):
        read_benchmark(tmp_path / "other.csv", preset="pmc-vqa")


def test_imagenet_by_class_folder(tmp_path: Path, picture: Picture) -> None:
    for i, (split, wordnet) in enumerate((("train", "n01"), ("val", "n02"))):
        (tmp_path / split / wordnet).mkdir(parents=True)
        (tmp_path / split / wordnet / "x.JPEG").write_bytes(picture(i))
    (example,) = read_benchmark(tmp_path, preset="imagenet").examples
    assert (example.answer, example.images[0].read()) == ("n02", picture(1))


def test_language_of_slake_applies_where_there_is_one(tmp_path: Path) -> None:
    rows = [{"question": q, "answer": "a", "q_lang": q} for q in ("en", "zh")]
    (tmp_path / "test.json").write_text(json.dumps(rows))
    assert [e.question for e in read_benchmark(tmp_path, preset="slake-en")] == ["en"]
    chosen = read_benchmark(f"{tmp_path}#lang=zh", preset="slake-en")
    assert [e.question for e in chosen] == ["zh"]


@pytest.mark.parametrize(
    ("folder", "preset", "count"),
    [("slake", "slake-en", 1061), ("vqa_rad", "vqa-rad", 451), ("pathvqa", "pathvqa", 6761)],
)
def test_authors_own_files(shared_data: Path, folder: str, preset: str, count: int) -> None:
    benchmark = read_benchmark(shared_data / folder, preset=preset)
    assert (len(benchmark), benchmark.split, len(benchmark.dropped)) == (count, "test", 0)
    assert all(e.question for e in benchmark)
    if folder != "pathvqa":  # whose images are not in the shared data
        assert all("missing" not in e.images[0].source for e in benchmark)


def test_a_named_file_wins_over_the_split_of_the_preset(shared_data: Path) -> None:
    benchmark = read_benchmark(shared_data / "slake" / "official_train.json", preset="slake-en")
    assert (len(benchmark), benchmark.split) == (4919, "train")


def test_unknown_preset_names_the_nearest() -> None:
    with pytest.raises(InputError, match=r"did you mean .*slake-en"):
        find_preset("slake", by_name=True)
    assert find_preset("slake") is None
    assert find_preset("mmstar") is not None
