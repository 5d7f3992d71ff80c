"""Opening a corpus by looking, tables as corpora, real data."""

from __future__ import annotations

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path

import pytest

from heldout.benchmark.readers import FileRow
from heldout.corpus import CorpusItem, CorpusReader, corpus_readers, open_corpus
from heldout.errors import InputError
from heldout.image import byte_digest
from heldout.store import Dropped


def read_all(corpus):
    return [found for shard in corpus.shards() for found in corpus.read(shard)]


def test_a_table_is_a_corpus_of_questions_with_their_images(tmp_path, picture):
    (tmp_path / "images").mkdir()
    for k in range(2):
        (tmp_path / "images" / f"{k}.png").write_bytes(picture(k))
    rows = [
        {"id": "q1", "image": ["0.png", "1.png"], "question": "Same?", "answer": "no"},
        {"id": "q2", "image": "gone.png", "question": "Where?", "answer": "here"},
        {"id": "q3", "question": "Text only?", "answer": "yes"},
    ]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\nnot json\n")
    for source, prefix in ((tmp_path / "train.jsonl", ""), (tmp_path, "train.jsonl/")):
        corpus = pickle.loads(pickle.dumps(open_corpus(source)))
        assert corpus.reader == "files"
        found = read_all(corpus)
        ids = [item.id for item in found if isinstance(item, CorpusItem)]
        assert ids == [f"{prefix}{name}" for name in ("q1", "q1/1", "q2", "q3")]
        assert found[1].image.read() == picture(1)
        assert (found[0].question, found[0].answer) == ("Same?", "no")
        assert found[0].text == "Same?\nno"
        assert found[3].image is None
        assert [item.reason for item in found if isinstance(item, Dropped)] == ["not JSON"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", "number,qestion\n1,What is seen?\n"),
        ("t.tsv", "number\tqestion\n1\tWhat is seen?\n"),
        ("t.json", '[{"number": 1, "qestion": "What is seen?"}]'),
    ],
)
def test_the_rows_of_a_table_are_read_whatever_its_columns_are_called(
    tmp_path, picture, name, content
):
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / name).write_text(content)
    (item,) = read_all(open_corpus(folder))
    assert item.metadata["qestion"] in content
    (folder / "0.png").write_bytes(picture(0))
    assert [item.id for item in read_all(open_corpus(folder))] == ["0.png", f"{name}/1"]


def test_captions_are_text_not_answers(tmp_path):
    (tmp_path / "c.jsonl").write_text('{"image": "a.png", "caption": "A dog."}\n')
    (item,) = read_all(open_corpus(tmp_path / "c.jsonl"))
    assert (item.text, item.question, item.answer) == ("A dog.", None, None)


def test_notes_and_lists_beside_pictures_are_read_too(tmp_path, picture):
    for k in range(3):
        (tmp_path / f"{k}.png").write_bytes(picture(k))
        (tmp_path / f"{k}.json").write_text('[{"question": "What?", "image": "0.png"}]')
    (tmp_path / "stats.json").write_text('{"count": 3}')
    (tmp_path / "README.txt").write_text("three pictures")
    items = read_all(open_corpus(tmp_path))
    assert [item.id for item in items if item.image is None] == ["README.txt", "stats.json"]
    shown = [(item.id, item.question) for item in items if item.image is not None]
    rows = [(f"{k}.json/1", "What?") for k in range(3)]  # all of them about 0.png
    assert shown == [rows[0], rows[1], ("1.png", None), rows[2], ("2.png", None)]


def test_a_selection_means_the_table_even_beside_a_zip(tmp_path, picture):
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        archive.writestr("a.png", picture(1))
    rows = [{"id": lang, "question": "?", "answer": "!", "lang": lang} for lang in ("en", "zh")]
    (tmp_path / "train.jsonl").write_text("\n".join(map(json.dumps, rows)))
    corpus = open_corpus(f"{tmp_path}#lang=zh")
    assert [item.id for item in read_all(corpus)] == ["zh"]
    ids = [item.id for item in read_all(open_corpus(tmp_path))]
    assert ids == ["images.zip/a.png", "train.jsonl/en", "train.jsonl/zh"]


def test_what_nobody_reads_is_listed_with_its_kind(tmp_path):
    (tmp_path / "x.exe").write_bytes(b"MZ\0")
    for source in (tmp_path, tmp_path / "x.exe"):
        (lost,) = read_all(open_corpus(source))
        assert (lost.id, lost.kind, lost.scope) == ("x.exe", ".exe", "many")
    with pytest.raises(InputError, match="does not exist"):
        open_corpus(tmp_path / "nothing")
    with pytest.raises(InputError, match="there are: .*files"):
        open_corpus(tmp_path, reader="paquet")
    with pytest.raises(InputError, match="no data file"):
        open_corpus(f"{tmp_path}#lang=en")


def test_a_package_adds_its_own_reader(tmp_path, monkeypatch):
    seen = []

    def opened(request):
        seen.append((request.source.location, request.name))
        return open_corpus(request.source, reader="files")

    class Entry:
        def load(self):
            return CorpusReader("mine", lambda source: source.path.name == "own", opened)

    monkeypatch.setattr(metadata, "entry_points", lambda group: [Entry()])
    corpus_readers.cache_clear()
    (tmp_path / "own").mkdir()
    try:
        assert corpus_readers()[0].name == "mine"
        open_corpus(tmp_path / "own", name="called")
    finally:
        corpus_readers.cache_clear()
    assert seen == [(str(tmp_path / "own"), "called")]


def test_slake_rows_are_selected_by_split_and_language(shared_data):
    corpus = open_corpus(f"{shared_data / 'slake'}#split=train,lang=zh")
    assert corpus.reader == "table"
    found = read_all(corpus)
    assert all(item.metadata["q_lang"] == "zh" for item in found)
    english = read_all(open_corpus(f"{shared_data / 'slake'}#split=test,lang=en"))
    assert len(english) == 1061
    # Known of SLAKE: 72 of the 96 English test images are Chinese training images.
    test_images = {item.image.source for item in english}
    assert len(test_images) == 96
    assert len(test_images & {item.image.source for item in found}) == 72


def test_vqa_rad_test_images_are_all_training_images(shared_data):
    folder = shared_data / "vqa_rad"
    train = read_all(open_corpus(folder / "mevf_trainset.json"))
    test = read_all(open_corpus(folder / "mevf_testset.json"))
    assert (len(train), len(test)) == (3064, 451)
    seen = {byte_digest(image.read()) for image in {item.image for item in train}}
    asked = {byte_digest(image.read()) for image in {item.image for item in test}}
    assert (len(seen), len(asked)) == (314, 203)
    assert asked <= seen


def test_images_beside_tars_are_not_forgotten(
    tmp_path: Path, picture: Callable[..., bytes]
) -> None:
    with tarfile.open(tmp_path / "00000.tar", "w") as tar:
        member = tarfile.TarInfo("000.png")
        member.size = len(picture(1))
        tar.addfile(member, io.BytesIO(picture(1)))
    for number in range(3):
        (tmp_path / f"loose{number}.png").write_bytes(picture(number))
    corpus = open_corpus(tmp_path)
    found = [item for shard in corpus.shards() for item in corpus.read(shard)]
    loose = [f"loose{number}.png" for number in range(3)]
    assert [item.id for item in found] == ["00000.tar/000", *loose]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("empty.jsonl", "", "empty.jsonl is empty"),
        ("empty.csv", "", "empty.csv is empty"),
        ("blank.jsonl", "\n\n", "holds no line"),
        ("broken.jsonl", 'not json\n{"a":\n', "no line is a JSON object .*line 1, not JSON"),
        ("numbers.jsonl", "1\n2\n", "no line is a JSON object .*not an object"),
        ("none.json", "[]", "holds no row"),
        ("header.csv", "image,question\n", "holds no row"),
    ],
)
def test_a_file_that_holds_nothing_is_refused_with_a_sentence(tmp_path, name, content, told):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match=told):
        open_corpus(tmp_path / name)


def test_one_good_line_is_enough(tmp_path):
    (tmp_path / "some.jsonl").write_text('not json\n{"text": "words of it"}\n')
    found = read_all(open_corpus(tmp_path / "some.jsonl"))
    assert [isinstance(one, Dropped) for one in found] == [True, False]


def test_the_first_items_alone_whatever_holds_them(tmp_path, picture):
    (tmp_path / "pictures").mkdir()
    for k in range(5):
        (tmp_path / "pictures" / f"{k}.png").write_bytes(picture(k))
    for name, ids in (("a", (0, 1)), ("b", (2, 3))):
        with tarfile.open(tmp_path / f"{name}.tar", "w") as archive:
            for k in ids:
                archive.add(tmp_path / "pictures" / f"{k}.png", f"{k}.png")
    rows = "".join(f'{{"id": "q{k}", "question": "What? {k}", "answer": "a"}}\n' for k in range(5))
    (tmp_path / "rows.jsonl").write_text("not json\n" + rows)
    for place in ("pictures", "{a,b}.tar", "rows.jsonl"):
        whole = open_corpus(tmp_path / place) if "{" not in place else None
        for limit in (1, 3, 99):
            corpus = pickle.loads(pickle.dumps(open_corpus(f"{tmp_path / place}#limit={limit}")))
            items = [item for item in read_all(corpus) if isinstance(item, CorpusItem)]
            there = 4 if whole is None else 5
            assert len(items) == min(limit, there)
            if whole is not None:
                every = [item for item in read_all(whole) if isinstance(item, CorpusItem)]
                assert items == every[:limit]
            assert corpus.name.endswith(f"first-{limit}")
            assert corpus.source.endswith(f"#limit={limit}")
    with pytest.raises(InputError, match="limit: expected a whole number"):
        open_corpus(f"{tmp_path / 'rows.jsonl'}#limit=many")


@pytest.mark.parametrize("source", ["owner/name#split=train", "hf://owner/name#split=train"])
def test_a_name_on_the_hub_is_a_table(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    asked = []

    def rows(name: str, config: str | None, split: str | None) -> Iterator[FileRow]:
        asked.append((name, split))
        yield FileRow(1, {"id": "a", "question": "What?", "answer": "this"})

    monkeypatch.setattr("heldout.benchmark.read.hub_rows", rows)
    (item,) = read_all(open_corpus(source))
    assert (item.question, asked) == ("What?", [("owner/name", "train")])
