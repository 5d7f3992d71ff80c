"""VQA-RAD's widely used split, whose leaks are known: every test image is a training image."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
import yaml

from heldout.audit.reader import read_audit
from heldout.audit.runner import AuditResult, run_audit

ITEMS = 120


@pytest.fixture(scope="module")
def audited(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> AuditResult:
    """Test against train and against VQA-Med's training images, with recorded answers of two models."""
    folder = tmp_path_factory.mktemp("rad")
    rad = shared_data / "vqa_rad"
    (folder / "images").symlink_to(rad / "images")
    rows = json.loads((rad / "mevf_testset.json").read_text())[:ITEMS]
    (folder / "test.json").write_text(json.dumps(rows))
    # One row for each training image is enough to hold every picture.
    shown = {row["image_name"] for row in rows}
    train = {row["image_name"]: row for row in json.loads((rad / "mevf_trainset.json").read_text())}
    kept = [row for name, row in train.items() if name in shown or name < "synpic25"]
    (folder / "train.json").write_text(json.dumps(kept))
    for model, share in (("often", 3), ("seldom", 2)):
        replies = [
            {"id": row["qid"], "reply": str(row["answer"]) if number % share else "cannot tell"}
            for number, row in enumerate(rows)
        ]
        (folder / f"{model}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in replies))
    told = {
        "benchmarks": [{"name": "rad", "source": "test.json"}],
        "corpora": [
            {"name": "train", "source": "train.json"},
            {"name": "med", "source": str(shared_data / "vqa_med_2019/train_images")},
        ],
        "models": [{"name": name, "answers": f"{name}.jsonl"} for name in ("often", "seldom")],
        "search": {"exact": True, "text": False, "workers": 1},
        "output": "out",
    }
    (folder / "audit.yaml").write_text(yaml.safe_dump(told))
    return run_audit(read_audit(folder), quiet=True)


def test_every_item_leaked_into_the_training_split(audited: AuditResult, shared_data: Path) -> None:
    cells = {cell.on: cell for cell in audited.overall.cells}
    train, med = cells["train"], cells["med"]
    assert (train.status, med.status) == ("survives", "survives")
    assert train.leak is not None
    assert (train.leak.leaked, train.leak.items) == (ITEMS, ITEMS)
    assert sum(train.evidence.values()) == ITEMS
    assert med.leak is not None
    truth = _same_bytes(shared_data)
    assert truth > 0
    assert med.leak.leaked == truth
    assert med.leak.interval.low < truth / ITEMS < med.leak.interval.high


def _same_bytes(data: Path) -> int:
    """Items whose image file is byte for byte one of VQA-Med's."""
    theirs = {_digest(path) for path in (data / "vqa_med_2019/train_images").iterdir()}
    rows = json.loads((data / "vqa_rad/mevf_testset.json").read_text())[:ITEMS]
    return sum(_digest(data / "vqa_rad/images" / row["image_name"]) in theirs for row in rows)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_split_without_a_clean_item_has_no_corrected_score(audited: AuditResult) -> None:
    corrected = audited.overall.benchmarks[0].corrected
    assert [line["items"] for line in corrected["models"][0]["lines"]] == [ITEMS, 0, ITEMS, ITEMS]
    assert corrected["rankings"][0]["tau_b"] is None
    told = [advice["sentence"] for advice in audited.overall.recommendations]
    assert any(one.startswith("No item of") for one in told)
    assert {cell.on: cell.status for cell in audited.overall.cells}["often"] == "not testable"
