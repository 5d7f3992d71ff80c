"""Parquet files and save_to_disk folders: what is read, what is left on disk, what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.readers.parquet import ArrowReader, ParquetReader
from heldout.errors import InputError
from heldout.image import ArrowCell, ImageRef, ParquetCell
from heldout.store import Dropped

Picture = Callable[..., bytes]
STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
FEATURES = {
    "image": {"_type": "Image"},
    "label": {"_type": "ClassLabel", "names": ["normal", "fracture"]},
}


def hub_table(rows: list[dict[str, object]], features: dict[str, object] | None = None) -> pa.Table:
    schema = pa.schema([("image", STRUCT), ("question", pa.string()), ("label", pa.int64())])
    described = {"huggingface": json.dumps({"info": {"features": features or FEATURES}})}
    return pa.Table.from_pylist(rows, schema=schema.with_metadata(described))


def test_hub_parquet_names_labels_and_points_at_images(tmp_path: Path, picture: Picture) -> None:
    rows = [
        {"image": {"bytes": picture(i), "path": f"{i}.png"}, "question": f"q{i}", "label": i % 2}
        for i in range(5)
    ]
    rows.append({"image": None, "question": "blind", "label": -1})
    pq.write_table(hub_table(rows), tmp_path / "test.parquet", row_group_size=2)
    benchmark = read_benchmark(tmp_path / "test.parquet")
    assert [e.answer for e in benchmark] == [
        "normal",
        "fracture",
        "normal",
        "fracture",
        "normal",
        None,
    ]
    third = benchmark.examples[3].images[0]
    assert third.name == "3.png"
    assert third.location == ParquetCell(str(tmp_path / "test.parquet"), 1, 1, "image")
    assert [e.images[0].read() for e in benchmark.examples[:5]] == [picture(i) for i in range(5)]
    assert benchmark.examples[5].images == ()


def test_iterating_never_reads_image_bytes(tmp_path: Path, picture: Picture) -> None:
    """The bytes' pages are overwritten: rows still come, and only reading the image fails."""
    path = tmp_path / "test.parquet"
    rows = [
        {"image": {"bytes": picture(i), "path": f"{i}"}, "question": "q", "label": 0}
        for i in range(3)
    ]
    pq.write_table(hub_table(rows), path, compression="none", use_dictionary=False)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    assert chunk.path_in_schema == "image.bytes"
    content = bytearray(path.read_bytes())
    start = chunk.data_page_offset
    content[start : start + chunk.total_compressed_size] = b"\0" * chunk.total_compressed_size
    path.write_bytes(content)
    read = list(ParquetReader().rows(path))
    assert [row.values["image"].name for row in read] == ["0", "1", "2"]  # type: ignore[union-attr]


@pytest.mark.parametrize("nulls", [False, True])
def test_binary_columns_and_lists_of_images(tmp_path: Path, picture: Picture, nulls: bool) -> None:
    table = pa.table(
        {
            "image": pa.array([picture(0), None if nulls else picture(1)], pa.binary()),
            "images": pa.array([[picture(2), picture(3)], []], pa.list_(pa.binary())),
            "views": pa.array([[{"bytes": picture(4), "path": "a.png"}], None], pa.list_(STRUCT)),
            "question": ["a", "b"],
        }
    )
    pq.write_table(table, tmp_path / "t.parquet")
    first, second = (row.values for row in ParquetReader().rows(tmp_path / "t.parquet"))
    assert first["image"].read() == picture(0)
    assert (second["image"] is None) is nulls
    assert [ref.read() for ref in first["images"]] == [picture(2), picture(3)]
    assert second["images"] == []
    assert (first["views"][0].name, first["views"][0].read()) == ("a.png", picture(4))
    assert second["views"] is None


def test_images_by_path_beside_the_parquet(tmp_path: Path, picture: Picture) -> None:
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "x.png").write_bytes(picture(0))
    rows = [{"image": {"bytes": None, "path": "x.png"}, "question": "q", "label": 0}]
    pq.write_table(hub_table(rows), tmp_path / "t.parquet")
    assert read_benchmark(tmp_path / "t.parquet").examples[0].images[0].read() == picture(0)


def test_only_images_in_the_table_still_gives_every_row(tmp_path: Path, picture: Picture) -> None:
    pq.write_table(pa.table({"image": [picture(i) for i in range(3)]}), tmp_path / "t.parquet")
    assert [e.images[0].read() for e in read_benchmark(tmp_path / "t.parquet")] == [
        picture(i) for i in range(3)
    ]


def test_hostile_metadata_and_text(tmp_path: Path) -> None:
    bad = pa.StringArray.from_buffers(
        2, pa.py_buffer(b"\0\0\0\0\2\0\0\0\4\0\0\0"), pa.py_buffer(b"ok\xff\xfe")
    )
    table = pa.table({"question": bad, "answer": ["a", "b"]})
    for metadata in (b"[[[", b'{"info": 3}', b'{"info": {"features": {"question": [[]]}}}'):
        pq.write_table(
            table.replace_schema_metadata({b"huggingface": metadata}), tmp_path / "t.parquet"
        )
        first, second = ParquetReader().rows(tmp_path / "t.parquet")
        assert not isinstance(first, Dropped)
        assert first.values["question"] == "ok"
        assert isinstance(second, Dropped)
        assert (second.id, second.reason) == ("t.parquet row 2", "not UTF-8")


def test_unreadable_parquet_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_bytes(b"PAR1" + b"x" * 100)
    with pytest.raises(InputError, match=r"\.parquet.*readable Parquet"):
        read_benchmark(path)
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(InputError, match="git lfs pull"):
        read_benchmark(path)


def test_a_damaged_row_group_is_dropped_and_the_next_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"question": [f"question {i}" for i in range(6)]})
    pq.write_table(table, path, row_group_size=2, compression="none", use_dictionary=False)
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(0)
    content = bytearray(path.read_bytes())
    content[chunk.data_page_offset : chunk.data_page_offset + chunk.total_compressed_size] = (
        b"\xff" * chunk.total_compressed_size
    )
    path.write_bytes(content)
    read = list(ParquetReader().rows(path))
    dropped = [row for row in read if isinstance(row, Dropped)]
    assert [(d.id, d.reason) for d in dropped] == [
        ("t.parquet rows 3 to 4", "unreadable row group")
    ]
    assert [r.number for r in read if not isinstance(r, Dropped)] == [1, 2, 5, 6]


def test_map_to_a_missing_column_says_what_there_is(tmp_path: Path) -> None:
    pq.write_table(pa.table({"question": ["q"], "answr": ["a"]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match=r"'answer'.*'answr'"):
        read_benchmark(tmp_path / "t.parquet", mapping={"answer": "answer"})


def save_arrow(folder: Path, tables: list[pa.Table]) -> None:
    """What ``datasets.save_to_disk`` writes."""
    folder.mkdir(parents=True)
    names = [f"data-{i:05d}-of-{len(tables):05d}.arrow" for i in range(len(tables))]
    for name, table in zip(names, tables, strict=True):
        with (
            pa.OSFile(str(folder / name), "wb") as sink,
            pa.ipc.new_stream(sink, table.schema) as writer,
        ):
            writer.write_table(table)
    (folder / "state.json").write_text(
        json.dumps({"_data_files": [{"filename": n} for n in names]})
    )
    (folder / "dataset_info.json").write_text("{}")


def test_saved_dataset_keeps_order_over_parts(tmp_path: Path, picture: Picture) -> None:
    rows = [
        {"image": {"bytes": picture(i), "path": f"{i}.png"}, "question": f"q{i}", "label": i % 2}
        for i in range(4)
    ]
    save_arrow(tmp_path / "saved", [hub_table(rows[:3]), hub_table(rows[3:])])
    benchmark = read_benchmark(tmp_path / "saved")
    assert [(e.question, e.answer) for e in benchmark] == [
        ("q0", "normal"),
        ("q1", "fracture"),
        ("q2", "normal"),
        ("q3", "fracture"),
    ]
    assert [row.number for row in ArrowReader().rows(tmp_path / "saved")] == [1, 2, 3, 4]  # type: ignore[union-attr]
    assert isinstance(benchmark.examples[3].images[0].location, ArrowCell)
    assert [e.images[0].read() for e in benchmark] == [picture(i) for i in range(4)]


def test_dataset_dict_is_chosen_by_split(tmp_path: Path) -> None:
    for split, question in (("train", "seen"), ("validation", "held out")):
        save_arrow(tmp_path / split, [pa.table({"question": [question]})])
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "validation", "../x"]}')
    assert read_benchmark(f"{tmp_path}#split=val").examples[0].question == "held out"
    with pytest.raises(InputError, match="splits: train, validation"):
        read_benchmark(tmp_path)
    with pytest.raises(InputError, match="no split 'test'"):
        read_benchmark(f"{tmp_path}#split=test")


def test_real_save_to_disk_with_several_images(
    tmp_path: Path, picture: Picture, monkeypatch: pytest.MonkeyPatch
) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    features = datasets.Features(
        {"images": datasets.Sequence(datasets.Image()), "question": datasets.Value("string")}
    )
    rows = {"images": [[{"bytes": picture(0)}, {"bytes": picture(1)}], []], "question": ["a", "b"]}
    datasets.Dataset.from_dict(rows, features=features).save_to_disk(str(tmp_path / "saved"))
    first, second = read_benchmark(tmp_path / "saved").examples
    assert [ref.read() for ref in first.images] == [picture(0), picture(1)]
    assert second.images == ()


def test_state_that_names_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    save_arrow(tmp_path / "saved", [pa.table({"question": ["q"]})])
    (tmp_path / "saved" / "state.json").write_text('{"_data_files": [{"filename": "../x.arrow"}]}')
    with pytest.raises(InputError, match=r"state\.json: "):
        read_benchmark(tmp_path / "saved")


def test_single_arrow_file_and_a_broken_one(tmp_path: Path) -> None:
    save_arrow(tmp_path / "saved", [pa.table({"question": ["q"]})])
    part = next((tmp_path / "saved").glob("*.arrow"))
    assert read_benchmark(part).examples[0].question == "q"
    (tmp_path / "broken.arrow").write_bytes(b"ARROW1\0\0" + b"x" * 64)
    with pytest.raises(InputError, match="readable Arrow file"):
        read_benchmark(tmp_path / "broken.arrow")


def test_unmapped_image_columns_do_not_carry_paths(tmp_path: Path, picture: Picture) -> None:
    table = pa.table({"image": [picture(0)], "mask": [picture(1)], "question": ["q"]})
    pq.write_table(table, tmp_path / "t.parquet")
    example = read_benchmark(tmp_path / "t.parquet").examples[0]
    assert example.metadata["mask"] == "t.parquet row 1"
    assert not any(isinstance(value, ImageRef) for value in example.metadata.values())


def test_a_folder_with_a_card_is_read_by_its_data(tmp_path: Path, picture: Picture) -> None:
    """As the hub lays datasets out; statistics, images and lines for trainers lie beside the data."""
    rows = [
        {"image": {"bytes": picture(i), "path": f"{i}.png"}, "question": f"q{i}", "label": i % 2}
        for i in range(4)
    ]
    (tmp_path / "data").mkdir()
    for part in range(2):
        path = tmp_path / "data" / f"train-{part:05d}-of-00002.parquet"
        pq.write_table(hub_table(rows[2 * part : 2 * part + 2]), path)
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "0.png").write_bytes(picture(0))
    (tmp_path / "statistics.json").write_text('{"items": 4}')
    for name in ("trl", "verl"):
        line = json.dumps({"id": 1, "question": "other", "answer": "yes"}) + "\n"
        (tmp_path / f"{name}.jsonl").write_text(line)
    with pytest.raises(InputError, match="several tables"):  # nothing says which is the dataset
        read_benchmark(tmp_path)
    (tmp_path / "README.md").write_text("---\nlicense: mit\n---\n# Four questions\n")
    benchmark = read_benchmark(tmp_path)
    assert [e.question for e in benchmark] == ["q0", "q1", "q2", "q3"]
    assert benchmark.name == tmp_path.name
    assert len(read_benchmark(f"{tmp_path}#split=train")) == 4
    with pytest.raises(InputError, match="not 'test'"):
        read_benchmark(f"{tmp_path}#split=test")
    pq.write_table(hub_table(rows[:1]), tmp_path / "data" / "test-00000-of-00001.parquet")
    assert len(read_benchmark(f"{tmp_path}#split=test")) == 1
    with pytest.raises(InputError, match="several tables"):
        read_benchmark(tmp_path)
