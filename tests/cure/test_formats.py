"""The cure in every format: cleaned or split anew, it opens by itself and reads as it did."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.writers import open_tables
from heldout.corpus import open_corpus
from heldout.cure import Policy, write_clean_split, write_new_splits
from heldout.cure.resplit import assign
from heldout.engine import open_engine
from heldout.errors import InputError
from heldout.image import byte_digest
from heldout.overlap import scan
from heldout.store import Run, make_table

Picture = Callable[..., bytes]
Make = Callable[[Path, str, list[int], Picture], str]


def _beside(folder: Path, numbers: list[int], picture: Picture, place: str = "images") -> None:
    (folder / place).mkdir(parents=True, exist_ok=True)
    for n in numbers:
        (folder / place / f"{n}.png").write_bytes(picture(n))


def as_json(folder: Path, split: str, numbers: list[int], picture: Picture) -> str:
    _beside(folder, numbers, picture)
    rows = [
        {"qid": n, "image_name": f"{n}.png", "question": f"q{n}?", "answer": f"a{n}"}
        for n in numbers
    ]
    (folder / f"{split}.json").write_text(json.dumps(rows))
    return f"{folder}#split={split}"


def as_llava(folder: Path, split: str, numbers: list[int], picture: Picture) -> str:
    _beside(folder, numbers, picture, "img/deep")
    rows = [
        {
            "id": str(n),
            "image": f"img/deep/{n}.png",
            "conversations": [
                {"from": "human", "value": f"<image>\nq{n}?"},
                {"from": "gpt", "value": f"a{n}"},
            ],
        }
        for n in numbers
    ]
    (folder / f"{split}.json").write_text(json.dumps(rows, indent=2))
    return f"{folder}#split={split}"


def as_coco(folder: Path, split: str, numbers: list[int], picture: Picture) -> str:
    _beside(folder, numbers, picture, "val2017")
    (folder / "annotations").mkdir(exist_ok=True)
    whole = {
        "images": [{"id": n, "file_name": f"{n}.png"} for n in numbers],
        "annotations": [{"id": 100 + n, "image_id": n, "caption": f"a{n}"} for n in numbers],
    }
    path = folder / f"annotations/captions_{split}2017.json"
    path.write_text(json.dumps(whole))
    return str(path)


def as_tsv(folder: Path, split: str, numbers: list[int], picture: Picture) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"{n}\t{base64.b64encode(picture(n)).decode()}\tq{n}?\ta{n}\n" for n in numbers]
    (folder / f"{split}.tsv").write_text("index\timage\tquestion\tanswer\n" + "".join(lines))
    return f"{folder}#split={split}"


def as_csv(folder: Path, split: str, numbers: list[int], picture: Picture) -> str:
    _beside(folder, numbers, picture, f"{split}_images")
    lines = [f"{n}.png,q{n}?,a{n}\n" for n in numbers]  # no ids
    (folder / f"{split}.csv").write_text("image,question,answer\n" + "".join(lines))
    return f"{folder}#split={split}"


def as_parquet(folder: Path, split: str, numbers: list[int], picture: Picture) -> str:
    (folder / "data").mkdir(parents=True, exist_ok=True)
    for part in (0, 1):
        own = numbers[part::2]
        table = pa.table(
            {
                "question_id": [str(n) for n in own],
                "image": [{"bytes": picture(n), "path": f"{n}.png"} for n in own],
                "question": [f"q{n}?" for n in own],
                "answer": [f"a{n}" for n in own],
            }
        )
        pq.write_table(table, folder / f"data/{split}-0000{part}-of-00002.parquet")
    return f"{folder}#split={split}"


def as_folder(folder: Path, split: str, numbers: list[int], picture: Picture) -> str:
    for n in numbers:
        path = folder / split / f"class{n % 2}" / f"{n}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(picture(n))
    return f"{folder / split}"


FORMATS: tuple[Make, ...] = (as_json, as_llava, as_coco, as_tsv, as_csv, as_parquet, as_folder)


def shown(source: str | Path) -> list[tuple[str | None, str | None, bytes]]:
    return [(one.question, one.answer, one.images[0].read()) for one in read_benchmark(source)]


@pytest.mark.parametrize("make", FORMATS)
def test_a_clean_split_opens_by_itself(make: Make, tmp_path: Path, picture: Picture) -> None:
    source = make(tmp_path / "bench", "test", list(range(6)), picture)
    (tmp_path / "corpus").mkdir()
    for n in (1, 4):
        (tmp_path / f"corpus/{n}.png").write_bytes(picture(n))
    opened = open_tables(source)
    run = Run.create(tmp_path / "run", command=["test"])
    with run.writing(), open_engine("local", 1) as engine:
        scan(opened.benchmark, [open_corpus(str(tmp_path / "corpus"))], run, engine, quiet=True)
    expected = [one for one in shown(source) if one[2] not in (picture(1), picture(4))]
    manifest = write_clean_split(opened, run, tmp_path / "out", Policy())
    assert manifest["differences"] == []
    assert manifest["removed"]["items"] == 2
    shutil.rmtree(tmp_path / "bench")  # nothing of the original is needed any more
    place = tmp_path / "out" / manifest["clean"]["open"]
    assert shown(place) == expected
    assert read_benchmark(place).fingerprint == manifest["clean"]["fingerprint"]
    bytes_left = b"".join(path.read_bytes() for path in place.parent.rglob("*") if path.is_file())
    assert picture(1) not in bytes_left and base64.b64encode(picture(1)) not in bytes_left


@pytest.mark.parametrize("make", FORMATS)
def test_new_splits_open_by_themselves(make: Make, tmp_path: Path, picture: Picture) -> None:
    test = make(tmp_path / "bench", "test", [0, 1, 2, 3], picture)
    train = make(tmp_path / "bench", "train", [2, 3, *range(4, 14)], picture)
    before = sorted(map(str, shown(test) + shown(train)))
    manifest = write_new_splits([open_tables(test), open_tables(train)], tmp_path / "out")
    assert manifest["differences"] == []
    assert manifest["shared_images"] == 0
    shutil.rmtree(tmp_path / "bench")
    now = [shown(tmp_path / "out" / split["open"]) for split in manifest["splits"]]
    # A folder of images cannot hold one file twice: what was in both splits is there once.
    assert set(map(str, now[0] + now[1])) == set(before)
    assert not {one[2] for one in now[0]} & {one[2] for one in now[1]}
    if make is not as_folder:
        assert sorted(map(str, now[0] + now[1])) == before
        assert [split["items"] for split in manifest["splits"]] == [4, 12]


def test_splits_in_folders_of_their_own_keep_apart(tmp_path: Path, picture: Picture) -> None:
    for split, numbers in (("test", [0, 1, 2]), ("train", [2, 3, 4, 5, 6])):
        source = as_json(tmp_path / split, split, numbers, picture)
        Path(source.partition("#")[0], f"{split}.json").rename(tmp_path / split / "data.json")
    parts = [tmp_path / split / "data.json" for split in ("test", "train")]
    opened = [open_tables(part) for part in parts]
    with pytest.raises(InputError, match="splits are called "):
        write_new_splits(opened, tmp_path / "out")
    for split in ("test", "train"):
        (tmp_path / split / "data.json").rename(tmp_path / split / f"{split}.json")
    opened = [open_tables(tmp_path / split / f"{split}.json") for split in ("test", "train")]
    manifest = write_new_splits(opened, tmp_path / "out")
    assert (manifest["shared_images"], manifest["differences"]) == (0, [])


def test_a_saved_dataset_dict_is_one_again(tmp_path: Path, picture: Picture) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features({"question": datasets.Value("string"), "image": datasets.Image()})
    whole = datasets.DatasetDict(
        {
            split: datasets.Dataset.from_dict(
                {
                    "question": [f"{split} {n}" for n in numbers],
                    "image": [{"bytes": picture(n), "path": None} for n in numbers],
                },
                features,
            )
            for split, numbers in (("test", [0, 1]), ("train", [1, 2, 3, 4]))
        }
    )
    whole.save_to_disk(str(tmp_path / "d"))
    opened = [open_tables(f"{tmp_path / 'd'}#split={split}") for split in ("test", "train")]
    manifest = write_new_splits(opened, tmp_path / "out")
    assert (manifest["shared_images"], manifest["differences"]) == (0, [])
    again = datasets.load_from_disk(str(tmp_path / "out/clean"))
    assert sum(len(again[split]) for split in again) == 6


def test_pictures_a_run_matched_stay_in_one_split(tmp_path: Path, picture: Picture) -> None:
    test = as_json(tmp_path / "b", "test", [0, 1, 2, 3], picture)
    train = as_json(tmp_path / "b", "train", list(range(4, 16)), picture)
    opened = [open_tables(test), open_tables(train)]
    digest = {n: byte_digest(picture(n)) for n in range(16)}
    run = Run.create(tmp_path / "run", command=["test"])
    rows = [
        {
            "benchmark_id": str(n),
            "image_index": 0,
            "corpus": "train",
            "corpus_id": str(n + 4),
            "method": "pixels",
            "similarity": 0.9,
            "degree": "none",
            "relation": "undecided",
            "transform": "crop",
            "modality": "none",
            "label_relation": "unknown",
            "evidence": json.dumps({"benchmark_image": digest[n], "corpus_image": digest[n + 4]}),
        }
        for n in range(4)
    ]
    run.write_table("matches", make_table("matches", rows))
    manifest = write_new_splits(opened, tmp_path / "out", run=run)
    splits = [shown(tmp_path / "out" / split["open"]) for split in manifest["splits"]]
    home = {one[2]: number for number, split in enumerate(splits) for one in split}
    assert all(home[picture(n)] == home[picture(n + 4)] for n in range(4))
    alone = write_new_splits(opened, tmp_path / "alone")
    parted = [shown(tmp_path / "alone" / split["open"]) for split in alone["splits"]]
    home = {one[2]: number for number, split in enumerate(parted) for one in split}
    assert any(home[picture(n)] != home[picture(n + 4)] for n in range(4))
    assert manifest["groups"] == alone["groups"] - 4


def test_another_seed_splits_otherwise_and_file_order_does_not_matter(
    tmp_path: Path, picture: Picture
) -> None:
    groups = [f"g{n // 3}" for n in range(90)]
    first = assign(groups, [30, 60], seed=0)
    assert first == assign(groups, [30, 60], seed=0)
    assert first != assign(groups, [30, 60], seed=1)
    assert first[::-1] == assign(groups[::-1], [30, 60], seed=0)
    assert abs(first.count(0) - 30) <= 3
