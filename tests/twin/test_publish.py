"""Twins in the format of the input: whatever the format, ids stay, answers and pictures change."""

from __future__ import annotations

import base64
import csv
import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from drawing_tools import twinned

from heldout.benchmark import read_benchmark
from heldout.image import byte_digest

ORGANS = ["liver", "heart", "lung", "spleen"]
FORMATS = ["jsonl", "json", "tsv", "csv", "parquet", "arrow", "saved"]


def rows(picture: Callable[..., bytes], *, ids: bool, style: str) -> list[dict[str, Any]]:
    """Item 2 cannot have a twin, so that rows move up; 0 and 1 share a picture."""
    found = []
    for number in range(6):
        right = number % 4
        answer: Any = {"text": ORGANS[right], "letter": f"({chr(65 + right)})", "index": right}[
            style
        ]
        row = {"qid": f"item {number}/x"} if ids else {}
        found.append(
            {
                **row,
                "image": picture(number // 2),
                "question": f'Which, "organ"\t{number}?\nSay.',
                "options": ORGANS,
                "answer": "kidney" if number == 2 else answer,
                "level": number,
            }
        )
    return found


def write(folder: Path, made: list[dict[str, Any]], format: str) -> Path:
    folder.mkdir()
    if format in ("jsonl", "json"):
        for number, row in enumerate(made):
            (folder / f"{number // 2}.png").write_bytes(row["image"])
            row["image"] = f"{number // 2}.png"
        path = folder / f"test.{format}"
        lines = "".join(json.dumps(row) + "\n" for row in made)
        path.write_text(lines if format == "jsonl" else json.dumps(made))
        return path
    if format in ("tsv", "csv"):
        path = folder / f"test.{format}"
        with path.open("w", newline="") as file:
            names = [name for name in made[0] if name != "options"]
            columns = [*names, *"ABCD"]
            out = csv.writer(file, delimiter="\t" if format == "tsv" else ",")
            out.writerow(columns)
            for row in made:
                row["image"] = base64.b64encode(row["image"]).decode()
                row |= dict(zip("ABCD", ORGANS, strict=True))
                out.writerow([row[name] for name in columns])
        return path
    for row in made:
        row["image"] = {"bytes": row["image"], "path": None}
        row["answer"] = str(row["answer"])
    features = {
        name: {"feature": {"dtype": "string", "_type": "Value"}, "_type": "Sequence"}
        if name == "options"
        else {"_type": "Image"}
        if name == "image"
        else {"dtype": "int64" if name == "level" else "string", "_type": "Value"}
        for name in made[0]
    }
    table = pa.Table.from_pylist(made)
    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    place = table.schema.get_field_index("image")
    table = table.set_column(place, "image", table.column("image").cast(image))
    table = table.replace_schema_metadata(
        {"huggingface": json.dumps({"info": {"features": features}})}
    )
    if format == "parquet":
        pq.write_table(table, folder / "test.parquet", row_group_size=4)
        return folder / "test.parquet"
    path = folder / "test.arrow" if format == "arrow" else folder / "test" / "data.arrow"
    path.parent.mkdir(exist_ok=True)
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as out:
        out.write_table(table)
    if format == "arrow":
        return path
    state = {"_data_files": [{"filename": "data.arrow"}], "_fingerprint": "x"}
    (path.parent / "state.json").write_text(json.dumps(state))
    (path.parent / "dataset_info.json").write_text(json.dumps({"features": features}))
    return path.parent


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(("ids", "style"), [(True, "letter"), (False, "text"), (True, "index")])
def test_every_format_reads_back(
    tmp_path: Path, picture: Callable[..., bytes], format: str, ids: bool, style: str
) -> None:
    bench = write(tmp_path / "bench", rows(picture, ids=ids, style=style), format)
    run = tmp_path / "run"
    made = twinned(bench, run)
    assert made.published is not None and made.published["notes"] == []
    before = {example.id: example for example in read_benchmark(bench)}
    assert made.stages["resample"]["left_out"] == {"answer not among the options": 1}
    for place in ("benchmark", "vlmevalkit"):
        after = read_benchmark(run / made.published[place])
        assert [one.id for one in after] == [name for n, name in enumerate(before) if n != 2]
        for twin in after:
            old = before[twin.id]
            assert (twin.question, twin.options) == (old.question, old.options)
            assert twin.answer_index not in (None, old.answer_index)
            assert twin.metadata["original_answer"] == old.answer
            told = twin.metadata["twin"]
            told = json.loads(told) if isinstance(told, str) else told
            assert told["new_answer"] == twin.answer and told["filter"] == "unfiltered"
            assert told["renderer"]["settings"]["weights"] == "weights"
            picture_now = byte_digest(twin.images[0].read())
            assert told["picture_sha256"] == picture_now != byte_digest(old.images[0].read())
            if place == "benchmark":
                assert twin.metadata["level"] == old.metadata["level"]
    assert read_benchmark(run / made.published["benchmark"]).reader == read_benchmark(bench).reader
    assert made.published["ask_with"] == made.published["benchmark"]


def test_nothing_published_names_a_path_of_this_machine(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    bench = write(tmp_path / "bench", rows(picture, ids=True, style="text"), "jsonl")
    twinned(bench, tmp_path / "run")
    published = tmp_path / "run" / "twin"
    for file in [
        published / "provenance.jsonl",
        *published.glob("benchmark/*.jsonl"),
        *published.glob("vlmevalkit/*"),
        published / "render.jsonl",
    ]:
        assert str(tmp_path) not in file.read_text()
        assert not re.search(r'"/(?!/)', file.read_text())


def test_a_format_without_room_for_twins_gets_the_tsv_and_a_note(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    (tmp_path / "a.png").write_bytes(picture(0))
    entry = {"img_id": "a", "sentf": {"pvqa": ["Is it red?"]}, "labelf": {"pvqa": [{"yes": 1}]}}
    bench = tmp_path / "test_vqa.json"
    bench.write_text(json.dumps([entry]))
    made = twinned(bench, tmp_path / "run").published
    assert made is not None and made["benchmark"] is None
    assert re.match(r"only the TSV .*\bpathvqa\b", made["notes"][0])
    (twin,) = read_benchmark(tmp_path / "run" / made["ask_with"]).examples
    assert (twin.id, twin.answer) == (read_benchmark(bench).examples[0].id, "no")


def test_real_questions_keep_their_columns(shared_data: Path, tmp_path: Path) -> None:
    source = shared_data / "vqa_rad"
    every = json.loads((source / "mevf_testset.json").read_text())
    closed = [row for row in every if row["answer_type"] == "CLOSED"][:4]
    other = [row for row in every if row["answer_type"] == "OPEN"][:1]
    (tmp_path / "images").mkdir()
    for row in (*closed, *other):
        shutil.copy(source / "images" / row["image_name"], tmp_path / "images")
    bench = tmp_path / "test.json"
    bench.write_text(json.dumps([*other, *closed]))
    made = twinned(bench, tmp_path / "run")
    assert made.stages["resample"]["left_out"] == {"open question": 1}
    assert made.published is not None and made.published["notes"] == []
    rows = json.loads((tmp_path / "run" / made.published["benchmark"]).read_text())
    for row, old in zip(rows, closed, strict=True):
        assert {row["answer"].lower(), old["answer"].lower()} == {"yes", "no"}
        same = set(old) - {"answer", "image_name"}
        assert {name: row[name] for name in same} == {name: old[name] for name in same}


def test_ids_cannot_leave_the_folder(tmp_path: Path, picture: Callable[..., bytes]) -> None:
    made = rows(picture, ids=True, style="text")[:2]
    made[0]["qid"], made[1]["qid"] = "../../../escaped", "a" * 400
    bench = write(tmp_path / "bench", made, "jsonl")
    twinned(bench, tmp_path / "run")
    known = set(tmp_path.rglob("*.png"))
    assert {file.parent.name for file in known} == {
        "bench",
        "images",
        "pictures",
        "edges",
        "originals",
    }
    assert not (tmp_path.parent / "escaped.png").exists()
