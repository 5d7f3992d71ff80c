"""Parquet corpora and img2dataset's logs: columns, shards, damage, what was never downloaded."""

from __future__ import annotations

import base64
import pickle
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from heldout.corpus import CorpusItem, open_corpus
from heldout.corpus.files import FilesCorpus
from heldout.errors import InputError
from heldout.image import ImageError
from heldout.store import Dropped


def read_all(corpus):
    return [found for shard in corpus.shards() for found in corpus.read(shard)]


def write(path: Path, columns, group=1000) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


def test_images_come_as_struct_bytes_or_data_url_with_their_words(tmp_path, picture):
    url = "data:image/png;base64," + base64.b64encode(picture(3)).decode()
    shapes = {
        "struct": [{"bytes": picture(3), "path": "x.png"}],
        "bytes": [picture(3)],
        "url": [url],
    }
    for name, cell in shapes.items():
        path = write(
            tmp_path / f"{name}.parquet",
            {"image": cell, "caption": ["a dog"], "question": ["What?"], "answer": ["dog"]},
        )
        (item,) = read_all(open_corpus(path))
        assert item.id == f"{name}.parquet/1"
        assert item.image.read() == picture(3)
        assert (item.text, item.question, item.answer) == ("a dog", "What?", "dog")


def test_a_picture_column_of_any_name_is_found_by_its_type(tmp_path, picture):
    path = write(tmp_path / "t.parquet", {"slide": [{"bytes": picture(1), "path": None}]})
    (item,) = read_all(open_corpus(path))
    assert item.image.read() == picture(1)


def test_a_large_file_is_many_shards_each_readable_alone(tmp_path, picture):
    images = [{"bytes": picture(k), "path": None} for k in range(12)]
    path = write(tmp_path / "t.parquet", {"image": images, "id": [f"i{k}" for k in range(12)]}, 2)
    corpus = FilesCorpus(str(path), "t", "t", row_bytes=8000)
    shards = list(corpus.shards())
    assert len(shards) > 2
    assert len({shard.key for shard in shards}) == len(shards)
    whole = read_all(corpus)
    assert [item.id for item in whole] == [f"t.parquet/i{k}" for k in range(12)]
    again, last = pickle.loads(pickle.dumps((corpus, shards[-1])))
    alone = list(again.read(last))
    assert 0 < len(alone) < 12
    assert [item.id for item in alone] == [item.id for item in whole[-len(alone) :]]
    assert alone[-1].image.read() == picture(11)


def test_row_numbers_go_on_across_shards(tmp_path):
    path = write(tmp_path / "t.parquet", {"text": [f"row {k}" for k in range(10)]}, 3)
    corpus = FilesCorpus(str(path), "t", "t", row_bytes=1)
    assert len(list(corpus.shards())) == 4
    assert [item.id for item in read_all(corpus)] == [f"t.parquet/{k}" for k in range(1, 11)]


def test_conversations_are_text_question_and_answer(tmp_path, picture):
    talk = [
        {"from": "human", "value": "<image>\nWhat is it?"},
        {"from": "gpt", "value": "A liver."},
        {"from": "human", "value": "Which organ next to it?"},
    ]
    path = write(tmp_path / "t.parquet", {"image": [picture(1)], "conversations": [talk]})
    (item,) = read_all(open_corpus(path))
    assert (item.question, item.answer) == ("What is it?", "A liver.")
    assert item.text == "What is it?\nA liver.\nWhich organ next to it?"


def test_a_list_of_images_is_several_items(tmp_path, picture):
    path = write(tmp_path / "t.parquet", {"images": [[picture(1), picture(2)]], "text": ["two"]})
    found = read_all(open_corpus(path))
    assert [item.id for item in found] == ["t.parquet/1", "t.parquet/1/1"]
    assert found[1].image.read() == picture(2)


def test_columns_that_nobody_knows_are_read_as_they_are(tmp_path):
    path = write(tmp_path / "t.parquet", {"width": [1], "befund": ["normal"]})
    (item,) = read_all(open_corpus(path))
    assert (item.text, item.metadata) == (None, {"width": 1, "befund": "normal"})
    with pytest.raises(InputError, match="'nope'"):
        open_corpus(path, mapping={"text": "nope"})


def test_mapping_names_the_columns(tmp_path):
    path = write(tmp_path / "t.parquet", {"befund": ["normal"], "frage": ["ok?"], "note": [1]})
    (item,) = read_all(open_corpus(path, mapping={"text": "befund", "question": "frage"}))
    assert (item.text, item.question, item.metadata["note"]) == ("normal", "ok?", 1)


def test_a_selection_chooses_files_by_split_and_rows_by_column(tmp_path):
    rows = {"text": ["a", "b", "c"], "q_lang": ["en", "zh", "zh"]}
    write(tmp_path / "data" / "train-00000-of-00001.parquet", rows)
    write(tmp_path / "data" / "test-00000-of-00001.parquet", {"text": ["t"], "q_lang": ["zh"]})
    found = read_all(open_corpus(f"{tmp_path}#split=train,lang=zh"))
    assert [item.text for item in found] == ["b", "c"]
    with pytest.raises(InputError, match="has a column 'organ'"):
        open_corpus(f"{tmp_path}#organ=liver")


def test_every_file_has_its_own_columns(tmp_path):
    write(tmp_path / "a.parquet", {"text": ["fine"]})
    write(tmp_path / "b.parquet", {"befund": ["normal"]})
    found = read_all(open_corpus(tmp_path, mapping={"text": "befund"}))
    assert [item.text for item in found] == ["fine", "normal"]


def test_text_that_is_not_utf8_is_decoded_all_the_same(tmp_path):
    raw = pa.array(["Röntgen".encode("cp1252"), "µm".encode(), None], pa.binary())
    text = pa.Array.from_buffers(pa.string(), 3, raw.buffers())
    path = write(tmp_path / "t.parquet", {"text": text, "key": ["x", "y", "z"]})
    found = read_all(open_corpus(path))
    assert [item.text for item in found] == ["Röntgen", "µm", None]


def test_image_paths_stay_below_the_folder(tmp_path, picture):
    (tmp_path / "secret.png").write_bytes(picture(1))
    folder = tmp_path / "data"
    path = write(folder / "t.parquet", {"image": ["in.png", "../secret.png", "/etc/passwd"]})
    (folder / "in.png").write_bytes(picture(2))
    found = read_all(open_corpus(path))
    assert found[0].image.read() == picture(2)
    for item in found[1:]:
        with pytest.raises(ImageError):
            item.image.read()


def test_a_damaged_file_is_reported_and_the_others_are_read(tmp_path, picture):
    images = [{"bytes": picture(k), "path": None} for k in range(20)]
    whole = write(tmp_path / "a.parquet", {"image": images}, 5).read_bytes()
    write(tmp_path / "z.parquet", {"image": images[:1]})
    chance = random.Random(1)
    for position in [0, 4, len(whole) - 1, *chance.sample(range(len(whole)), 25)]:
        (tmp_path / "a.parquet").write_bytes(whole[:position])
        found = read_all(open_corpus(tmp_path))
        assert isinstance(found[0], Dropped)
        assert found[0].reason == "unreadable file"
        assert [item.id for item in found[1:]] == ["z.parquet/1"]
    for _ in range(25):
        broken = bytearray(whole)
        start = chance.randrange(4, len(whole) // 2)
        broken[start : start + 50] = bytes(chance.randrange(256) for _ in range(50))
        (tmp_path / "a.parquet").write_bytes(broken)
        found = read_all(open_corpus(tmp_path))
        assert all(isinstance(item, CorpusItem | Dropped) for item in found)
        assert found[-1].id == "z.parquet/1"


def log(path: Path) -> None:
    write(
        path,
        {
            "key": ["000", "001", "002"],
            "status": ["success", "failed_to_download", "failed_to_resize"],
            "error_message": [None, "HTTP 404", "bad JPEG"],
            "url": ["http://a", "http://b", "http://c"],
        },
    )


def test_img2dataset_folders_report_what_was_never_downloaded(tmp_path, picture):
    (tmp_path / "00000").mkdir()
    (tmp_path / "00000" / "000.jpg").write_bytes(picture(1, format="JPEG"))
    (tmp_path / "00000" / "000.txt").write_text("first")
    (tmp_path / "00000" / "000.json").write_text('{"url": "http://a"}')
    (tmp_path / "00000_stats.json").write_text('{"count": 3}')
    log(tmp_path / "00000.parquet")
    corpus = open_corpus(tmp_path)
    assert corpus.reader == "files"
    found = read_all(corpus)
    item, stats = (one for one in found if isinstance(one, CorpusItem))
    assert (item.id, item.text, item.metadata) == ("00000/000.jpg", "first", {"url": "http://a"})
    assert stats.id == "00000_stats.json"
    lost = [one for one in found if isinstance(one, Dropped)]
    assert [(d.id, d.reason) for d in lost] == [
        ("00000/001", "not downloaded"),
        ("00000/002", "not downloaded"),
    ]
    assert "HTTP 404" in lost[0].detail


def test_img2dataset_tars_report_what_was_never_downloaded(tmp_path, picture):
    from test_webdataset import sample, write_tar

    write_tar(tmp_path / "00000.tar", sample("000", picture(1)))
    log(tmp_path / "00000.parquet")
    corpus = open_corpus(tmp_path)
    assert corpus.reader == "files"
    ids = [found.id for found in read_all(corpus)]
    assert ids == ["00000.tar/001", "00000.tar/002", "00000.tar/000"]
    (tmp_path / "00000.parquet").write_bytes(b"PAR1 cut")
    broken = open_corpus(tmp_path)
    assert [type(found) for found in read_all(broken)] == [Dropped, CorpusItem]


def test_img2dataset_parquet_rows_without_an_image_say_why(tmp_path, picture):
    path = write(
        tmp_path / "00000.parquet",
        {"jpg": [picture(1), None], "key": ["0", "1"], "status": ["success", "failed_to_download"]},
    )
    item, lost = read_all(open_corpus(path))
    assert item.image.read() == picture(1)
    assert (lost.id, lost.reason) == ("00000.parquet/1", "not downloaded")
