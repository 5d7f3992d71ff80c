"""Logs of inspect_ai: real ones, and archives that mean harm."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from command_line import run_inside
from heldout.benchmark.readers.base import FileRow
from heldout.errors import InputError
from heldout.model import _inspect_log as inspect_log
from heldout.model.prediction_files import open_predictions

HEADER = json.dumps({"version": 2, "eval": {"model": "openai/gpt", "task": "t"}})


def sample(number: int, **values: Any) -> str:
    output = {"choices": [{"message": {"role": "assistant", "content": "B"}}]}
    return json.dumps(
        {"id": number, "epoch": 1, "input": "q", "target": "B", "output": output, **values}
    )


def log(path: Path, members: dict[str, str | bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def test_real_logs(shared_data: Path) -> None:
    folder = shared_data / "predictions/inspect"
    found = {path.name: open_predictions(path) for path in sorted(folder.iterdir())}
    rows = {name: [row.values for row in read[0]] for name, read in found.items()}
    assert {name: len(listed) for name, listed in rows.items()} == {
        "2025-02-11T15-17-00-05-00_popularity.eval": 10,
        "2025-05-12T20-28-26-04-00_security-guide.json": 3,
        "log_formats.eval": 1,
        "log_images.json": 1,
        "mmlu-summary-choices.eval": 1,
    }
    (mmlu,) = rows["mmlu-summary-choices.eval"]
    assert (mmlu["prediction"], mmlu["answer"], mmlu["correct"], mmlu["scorer"]) == (
        "ANSWER: C",
        "A",
        False,
        "choice",
    )
    assert mmlu["options"] == ["6.0 e", "6.8 eV", "12.2 eV", "13.6 eV"]
    assert mmlu["model"] == "openai/gpt-4o"
    assert [row["id"] for row in rows["2025-02-11T15-17-00-05-00_popularity.eval"]] == list(
        range(1, 11)
    )
    (picture,) = rows["log_images.json"]
    assert picture["question"] == "What is this a picture of?"
    assert "answer" not in picture  # two targets are both right


def test_texts_that_lie_apart_are_put_back(tmp_path: Path) -> None:
    digest = "0123456789abcdef" * 2
    long = {"content": f"attachment://{digest}", "role": "assistant"}
    told = sample(
        1, output={"choices": [{"message": long}]}, attachments={digest: "the whole reply"}
    )
    path = log(tmp_path / "a.eval", {"header.json": HEADER, "samples/1_epoch_1.json": told})
    assert open_predictions(path)[0][0].values["prediction"] == "the whole reply"


def test_zstandard_members_are_unpacked(tmp_path: Path) -> None:
    """inspect_ai writes zip method 93, which Python reads from 3.14 on."""
    path = tmp_path / "z.eval"
    path.write_bytes(
        zstandard_zip(
            {"header.json": HEADER.encode(), "samples/1_epoch_1.json": sample(1).encode()}
        )
    )
    rows, _, dropped = open_predictions(path)
    assert (rows[0].values["prediction"], dropped) == ("B", [])
    broken = bytearray(path.read_bytes())
    broken[60:70] = b"\0" * 10
    path.write_bytes(bytes(broken))
    with pytest.raises(InputError, match=r"\.eval log .*header\.json"):
        open_predictions(path)


def zstandard_zip(members: dict[str, bytes], most: int = 2**30) -> bytes:
    """A zip by hand: the standard library cannot write this method. ``most``: the largest claimed size."""
    out, directory = io.BytesIO(), b""
    for name, content in members.items():
        packed = pa.compress(content, codec="zstd", asbytes=True)
        start, title = out.tell(), name.encode()
        common = struct.pack(
            "<HHHHHIIIH",
            63,
            0,
            93,
            0,
            0,
            zlib.crc32(content),
            len(packed),
            min(len(content), most),
            len(title),
        )
        out.write(b"PK\3\4" + common + struct.pack("<H", 0) + title + packed)
        directory += (
            b"PK\1\2"
            + struct.pack("<H", 63)
            + common
            + struct.pack("<HHHHII", 0, 0, 0, 0, 0, start)
            + title
        )
    start = out.tell()
    end = b"PK\5\6" + struct.pack(
        "<HHHHIIH", 0, 0, len(members), len(members), len(directory), start, 0
    )
    return out.getvalue() + directory + end


def test_a_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bomb = log(
        tmp_path / "bomb.eval", {"header.json": HEADER, "samples/1_epoch_1.json": b" " * 40_000_000}
    )
    monkeypatch.setattr(inspect_log, "LARGEST_SAMPLE", 2**24)
    with pytest.raises(InputError, match=r"samples/1_epoch_1\.json .*40,000,000 bytes"):
        open_predictions(bomb)


def test_a_bomb_that_lies_about_its_size_is_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inspect_log, "LARGEST_SAMPLE", 2**20)
    members = {"header.json": HEADER.encode(), "samples/1_epoch_1.json": b" " * 30_000_000}
    path = tmp_path / "liar.eval"
    path.write_bytes(zstandard_zip(members, most=500))
    tracemalloc.start()
    with pytest.raises(InputError, match="more than 1,048,576 bytes"):
        open_predictions(path)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 10_000_000


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ({"samples/1_epoch_1.json": sample(1)}, "neither header.json nor _journal/start.json"),
        ({"header.json": HEADER}, r"holds no samples/\*.json"),
        ({"header.json": "{", "samples/1_epoch_1.json": sample(1)}, "header.json is not JSON"),
        (
            {"header.json": HEADER, "../../etc/samples/1.json": sample(1)},
            r"holds no samples/\*.json",
        ),
    ],
)
def test_what_is_no_log_is_said(tmp_path: Path, members: dict[str, str], said: str) -> None:
    with pytest.raises(InputError, match=said):
        open_predictions(log(tmp_path / "x.eval", members))


def test_no_zip_at_all(tmp_path: Path) -> None:
    path = tmp_path / "x.eval"
    path.write_text("hello")
    with pytest.raises(InputError, match=r"\.eval log of inspect_ai"):
        open_predictions(path)


def test_samples_that_cannot_be_read_are_listed(tmp_path: Path) -> None:
    members: dict[str, str | bytes] = {
        "header.json": HEADER,
        "samples/1_epoch_1.json": sample(1),
        "samples/2_epoch_1.json": "{broken",
        "samples/3_epoch_1.json": "[" * 100_000,
        "samples/4_epoch_1.json": "[]",
        "samples/5_epoch_1.json": json.dumps(
            {"id": 5, "output": {"choices": "x"}, "scores": {"a": 1}}
        ),
    }
    rows, _, dropped = open_predictions(log(tmp_path / "x.eval", members))
    assert [row.values["id"] for row in rows] == [1, 5]
    assert "prediction" not in rows[1].values  # never answered, which is not an empty answer
    assert [drop.id for drop in dropped] == [f"samples/{n}_epoch_1.json" for n in (2, 3, 4)]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("C", {"correct": True}),
        ("I", {"correct": False}),
        ("N", {"correct": False}),
        ("P", {"score": 0.5}),
        (0.25, {"score": 0.25}),
        (True, {"correct": True}),
        ("odd", {"score": None}),
        ([1], {"score": None}),
    ],
)
def test_verdicts_of_scorers(tmp_path: Path, value: Any, told: dict[str, Any]) -> None:
    scores = {"match": {"value": value, "answer": "B"}}
    members = {"header.json": HEADER, "samples/1_epoch_1.json": sample(1, scores=scores)}
    (row,), _, _ = open_predictions(log(tmp_path / "x.eval", members))
    assert isinstance(row, FileRow)
    assert {name: row.values[name] for name in ("correct", "score") if name in row.values} == told


def test_a_log_goes_into_ask_score_and_impact(tmp_path: Path) -> None:
    """One reader of predictions: what one command reads, all read."""
    bench = tmp_path / "bench.jsonl"
    rows = [
        {"id": n, "question": f"q {n}?", "options": ["x", "y"], "answer": "B"} for n in range(1, 11)
    ]
    bench.write_text("\n".join(map(json.dumps, rows)))
    members = {
        f"samples/{n}_epoch_1.json": sample(n, input=f"q {n}?", choices=["x", "y"])
        for n in range(1, 11)
    }
    path = log(tmp_path / "x.eval", {"header.json": HEADER, **members})
    asked = run_inside(
        "ask", bench, "--recorded", path, "--out", tmp_path / "run", "--json", "--quiet"
    )
    told = json.loads(asked.stdout)
    assert told["models"][0]["model"] == "openai/gpt"
    assert told["models"][0]["summary"]["variants"][0]["rate"] == 1.0
    scored = run_inside("score", bench, "--recorded", path, "--out", tmp_path / "score", "--quiet")
    assert scored.returncode == 2
    assert "'logprobs' nor 'sum_logprob'" in scored.stderr
    labels = tmp_path / "leaks.csv"
    labels.write_text("id,leaked\n" + "".join(f"{n},{n % 2}\n" for n in range(1, 11)))
    owed = run_inside("impact", path, "--leaks", labels, "--bench", bench, "--json")
    assert json.loads(owed.stdout)["impacts"][0]["items"] == 10
