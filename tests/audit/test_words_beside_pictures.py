"""Equal words beside other pictures, beside pictures that are not there, and where there never were any."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from heldout.audit.reader import read_audit
from heldout.audit.runner import run_audit
from heldout.overlap.texts.encoders import carried

Picture = Callable[..., bytes]
QUESTIONS = [
    "Which vascular structure is most likely occluded in this patient with acute aphasia?",
    "What does the arrow in the upper left lobe of the second radiograph point to?",
    "How many calcified nodules are visible below the diaphragm in the coronal section?",
    "Which stain was used for the fibrous tissue that surrounds the central granuloma?",
]
ANSWERS = [f"finding {number}" for number in range(len(QUESTIONS))]


def _side(
    folder: Path,
    picture: Picture,
    first: int,
    pictures: str,
    questions: Sequence[str] = QUESTIONS,
    answers: Sequence[str] = ANSWERS,
) -> None:
    """A table of questions; ``pictures``: there, missing, broken or none."""
    folder.mkdir()
    rows = []
    for number, (question, answer) in enumerate(zip(questions, answers, strict=True)):
        row = {"id": f"q{number}", "question": question, "answer": answer}
        if pictures != "none":
            row["image"] = f"{number}.png"
        if pictures in ("there", "broken"):
            whole = picture(first + number)
            (folder / f"{number}.png").write_bytes(whole if pictures == "there" else whole[:50])
        rows.append(json.dumps(row))
    (folder / "rows.jsonl").write_text("\n".join(rows) + "\n")


def _cell(folder: Path, picture: Picture, ours: str, theirs: str) -> Mapping[str, Any]:
    _side(folder / "ours", picture, 0, ours)
    _side(folder / "theirs", picture, 100, theirs)
    return _audited(folder)


def _audited(folder: Path) -> Mapping[str, Any]:
    (folder / "audit.yaml").write_text(
        "benchmarks:\n  - {name: b, source: ours/rows.jsonl}\n"
        "corpora:\n  - {name: c, source: theirs/rows.jsonl}\n"
        "search: {workers: 1}\noutput: out\n"
    )
    run_audit(read_audit(folder / "audit.yaml"), quiet=True)
    (cell,) = json.loads((folder / "out/verdict.json").read_text())["cells"]
    found: Mapping[str, Any] = cell
    return found


@pytest.mark.parametrize(
    ("ours", "theirs"), [("missing", "missing"), ("there", "missing"), ("there", "broken")]
)
def test_equal_words_beside_pictures_nobody_compared_are_not_counted(
    tmp_path: Path, picture: Picture, ours: str, theirs: str
) -> None:
    cell = _cell(tmp_path, picture, ours, theirs)
    assert (cell["status"], cell["leak_rate"]["leaked"]) == ("qualified", 0)
    assert cell["evidence"] == {"question and answer, pictures that could not be compared": 4}
    (words,) = [claim for claim in cell["claims"] if claim["id"] == "text/c"]
    assert "not counted" in words["sentence"] and words["status"] == "qualified"
    assert "another picture" not in words["sentence"]
    rows = [json.loads(row) for row in (tmp_path / "out/b/actions.jsonl").read_text().splitlines()]
    assert {row["action"] for row in rows} == {"make its pictures readable, and compare them"}


def test_equal_words_beside_another_picture_are_told_and_not_counted(
    tmp_path: Path, picture: Picture
) -> None:
    cell = _cell(tmp_path, picture, "there", "there")
    assert (cell["status"], cell["leak_rate"]["leaked"]) == ("qualified", 0)
    assert cell["evidence"] == {"question and answer beside another picture": 4}
    (words,) = [claim for claim in cell["claims"] if claim["id"] == "text/c"]
    assert "not counted" in words["sentence"] and words["status"] == "qualified"


def test_a_different_question_beside_a_copy_of_the_picture_does_not_confirm_the_words(
    tmp_path: Path, picture: Picture
) -> None:
    """A benchmark of two, whose pictures leaked: one question is there in other words, of the other only the frame."""
    for package in ("wordllama", "onnxruntime", "tokenizers"):
        pytest.importorskip(package)
    if carried("bge-small") is None:
        pytest.skip("no package carries bge-small")
    hat, chart = "Is the man wearing a hat?", "Which month has the lowest rainfall?"
    beside = {"glasses": "Is the man wearing glasses?", "least": "When does it rain least?"}
    sides = {"ours": (hat, chart), "theirs": (beside["glasses"], beside["least"])}
    for name, questions in sides.items():
        _side(tmp_path / name, picture, 0, "there", questions, ("yes", "July"))
    cell = _audited(tmp_path)
    (words,) = [claim for claim in cell["claims"] if claim["id"] == "text/c"]
    findings = json.loads((tmp_path / "out/b/findings.json").read_text())["findings"]
    (joined,) = [each for each in findings if each["detector"] == "joined-leakage"]
    modality = joined["details"]["by_modality"]
    assert (modality["full"], modality["image only"]) == (1, 1)
    together = [each["details"].get("all_methods", {}) for each in findings]
    assert {each["possible_rewordings"] for each in together if each} == {1}
    assert "people have to read" in words["sentence"]


@pytest.mark.parametrize(("ours", "theirs"), [("missing", "none"), ("none", "missing")])
def test_equal_words_are_a_leak_where_one_side_never_had_a_picture(
    tmp_path: Path, picture: Picture, ours: str, theirs: str
) -> None:
    cell = _cell(tmp_path, picture, ours, theirs)
    assert (cell["status"], cell["leak_rate"]["leaked"]) == ("survives", 4)
