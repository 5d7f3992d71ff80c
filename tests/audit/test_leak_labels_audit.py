"""Leak labels made elsewhere in an audit file: corrected scores, what is said of them, what is refused."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest

from heldout.audit.cases import open_cases
from heldout.audit.plan import make_plan
from heldout.audit.reader import read_audit
from heldout.audit.runner import AuditResult, run_audit
from heldout.errors import InputError
from heldout.evidence.leak_labels import NOT_VERIFIED

AUDIT = """\
benchmarks:
  - {name: bench, source: test.jsonl, leaks: labels.csv}
models:
  - {name: target, answers: {bench: answers.jsonl}}
permutations: 199
output: out
"""


def write(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Thirty items, the first ten labelled as leaked and answered, five without a label."""
    items = [
        {"id": f"q{n}", "question": f"What is number {n}?", "answer": f"thing {n}"}
        for n in range(30)
    ]
    write(tmp_path / "test.jsonl", items)
    write(
        tmp_path / "answers.jsonl",
        [
            {
                "id": f"q{n}",
                "prediction": f"Thing {n}." if n < 15 else "no idea",
                "is_correct": n < 10,
            }
            for n in range(30)
        ],
    )
    labels(tmp_path, leaked=10)
    (tmp_path / "audit.yaml").write_text(AUDIT)
    return tmp_path


def labels(folder: Path, leaked: int) -> None:
    lines = [f"q{n},{int(n < leaked)}\n" for n in range(25)]
    (folder / "labels.csv").write_text("id,leaked\n" + "".join(lines))


def audited(folder: Path) -> AuditResult:
    return run_audit(read_audit(folder / "audit.yaml"), quiet=True)


def subsets(folder: Path) -> dict[str, tuple[int, float]]:
    kept = json.loads((folder / "out/bench/corrected.json").read_text())
    return {one["subset"]: (one["items"], one["value"]) for one in kept["models"][0]["lines"]}


def test_scores_are_corrected_by_labels_and_their_source_is_kept(folder: Path) -> None:
    audited(folder)
    found = subsets(folder)
    assert found["original"] == (30, 0.5)
    assert found["leaked"] == (10, 1.0)
    assert found["non-leaked"] == (15, pytest.approx(1 / 3))  # what has no label is in neither
    digest = hashlib.sha256((folder / "labels.csv").read_bytes()).hexdigest()
    told = json.loads((folder / "out/bench/manifest.json").read_text())
    assert told["inputs"]["leaks"]["sha256"] == digest
    assert told["inputs"]["leaks"]["unlabelled"] == 5
    assert told["models"]["target"]["own_grades"]["heldout_only"] == 5
    verdict = json.loads((folder / "out/verdict.json").read_text())
    assert verdict["corrected"]["bench"]["labels"]["sha256"] == digest
    sentence = f"L{NOT_VERIFIED[1:]}"
    for page in ("out/report.html", "out/bench/report.html"):
        assert sentence in (folder / page).read_text()
    # The number that a reader sees first says whose labels it rests on.
    numbers = re.findall(r'<dl class="numbers">.*?</dl>', (folder / "out/report.html").read_text())
    assert "points" in numbers[0] and "not verified" in numbers[0]
    for page in ("out/bench/report.html", "out/bench/report.md"):
        assert "5 of 30 rows" in (folder / page).read_text()


def test_the_plan_names_the_labels(folder: Path) -> None:
    file = read_audit(folder / "audit.yaml")
    steps = {one.stage: one for one in make_plan(open_cases(file), file.file).steps}
    assert (steps["labels"].on, steps["labels"].items) == ("labels.csv", 25)
    assert re.findall(r"\d+ \w+", steps["labels"].note) == ["10 leaked", "15 clean"]


def test_other_labels_make_the_report_again_and_nothing_else(folder: Path) -> None:
    audited(folder)
    assert audited(folder).made == []
    labels(folder, leaked=5)
    assert audited(folder).made == ["bench/report"]
    assert subsets(folder)["leaked"] == (5, 1.0)
    (folder / "audit.yaml").write_text(AUDIT.replace(", leaks: labels.csv", ""))
    audited(folder)
    assert subsets(folder)["leaked"][0] == 0
    assert "leaks" not in json.loads((folder / "out/bench/manifest.json").read_text())["inputs"]
    assert NOT_VERIFIED[1:] not in (folder / "out/bench/report.html").read_text()


def test_labels_of_other_items_are_refused_before_any_work(folder: Path) -> None:
    (folder / "labels.csv").write_text("id,leaked\nq1,1\nz7,1\n")
    with pytest.raises(InputError, match=r"line 2: .*\b1 of 2\b.* z7"):
        audited(folder)
    assert not (folder / "out").exists()


def test_a_proven_copy_stays_leaked_whatever_a_label_says(audit_folder: Path) -> None:
    """The corpus holds the pictures of q0 to q19; labels call q0 clean and q39 leaked."""
    write(
        audit_folder / "labels.jsonl",
        [
            {"id": "q0", "leaked": False},
            {"id": "q1", "leaked": True},
            {"id": "q39", "leaked": True},
        ],
    )
    text = (audit_folder / "audit.yaml").read_text()
    named = text.replace(
        "source: leaky/test.jsonl}", "source: leaky/test.jsonl, leaks: labels.jsonl}"
    )
    assert named != text
    (audit_folder / "audit.yaml").write_text(named)
    audited(audit_folder)
    kept = json.loads((audit_folder / "out/leaky/corrected.json").read_text())
    lines = {one["subset"]: one for one in kept["models"][0]["lines"]}
    assert lines["leaked"]["leakage"] == "proven or labelled"
    assert lines["leaked"]["items"] == 21 and lines["non-leaked"]["items"] == 19
    told = kept["labels"]
    assert (told["confirmed"], told["contradicted"]) == (1, ["q0"])
    for page in ("out/report.html", "out/leaky/report.html"):
        text = (audit_folder / page).read_text()
        assert "confirmed 1 of 2 labels" in text and "leaked: q0" in text
        assert "not verified" not in text
