"""Whatever a user points at: a benchmark, or one sentence that says why not."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from heldout.benchmark import read_benchmark
from heldout.benchmark.check import check
from heldout.corpus import Corpus, CorpusItem, open_corpus
from heldout.errors import InputError
from heldout.store import Dropped

Picture = Callable[..., bytes]
NOBODY = 65534


@contextlib.contextmanager
def as_somebody_else() -> Iterator[None]:
    """Root may read everything; nobody may not."""
    user = os.geteuid()
    if user == 0:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(user)


def rows(path: Path, *values: dict[str, object]) -> Path:
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


@pytest.mark.parametrize("source", ["", "  ", "#split=test"])
def test_an_empty_path_is_not_this_folder(source: str) -> None:
    with pytest.raises(InputError, match="empty path"):
        read_benchmark(source)


@pytest.mark.parametrize("reader", [None, "json", "image-folder"])
def test_a_pipe_is_not_waited_for(tmp_path: Path, reader: str | None) -> None:
    os.mkfifo(tmp_path / "test.json")
    with pytest.raises(InputError, match=r"test\.json .*\bpipe\b"):
        read_benchmark(tmp_path / "test.json", reader=reader)


@pytest.mark.parametrize("path", ["/dev/null", "/dev/zero", "/proc/self/environ"])
def test_devices_and_the_kernels_files_are_refused(path: str) -> None:
    if not Path(path).exists():
        pytest.skip(f"this system has no {path}")
    with pytest.raises(InputError, match=r"\b(socket|device|pipe|kernel)\b"):
        read_benchmark(path)


def test_a_name_longer_than_the_system_allows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be opened"):
        read_benchmark(tmp_path / ("x" * 300))


def test_a_folder_that_may_not_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir(mode=0o000)
    tmp_path.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    denied = pytest.raises(InputError, match=r"^closed: .*Permission denied")
    with denied, as_somebody_else():
        read_benchmark("closed")


def test_a_reader_of_folders_on_a_file_and_of_files_on_a_folder(tmp_path: Path) -> None:
    path = rows(tmp_path / "test.jsonl", {"question": "q", "answer": "a"})
    with pytest.raises(InputError, match="'image-folder'.*folders"):
        read_benchmark(path, reader="image-folder")
    assert len(read_benchmark(tmp_path, reader="jsonl")) == 1
    with pytest.raises(InputError, match="'parquet' finds no file"):
        read_benchmark(tmp_path, reader="parquet")


LONG = "9" * 5000


def test_an_endless_number_costs_its_own_row(tmp_path: Path) -> None:
    first, long, last = '{"question": "a"}', f'{{"question": {LONG}}}', '{"question": "b"}'
    (tmp_path / "lines.jsonl").write_text("\n".join([first, long, last]))
    (tmp_path / "array.json").write_text(f"[{first}, {long}, {last}]")
    for name in ("lines.jsonl", "array.json"):
        benchmark = read_benchmark(tmp_path / name)
        assert [e.question for e in benchmark] == ["a", "b"]
        assert [d.reason for d in benchmark.dropped] == ["number too long"]
    (tmp_path / "object.json").write_text(f'{{"data": [{first}, {long}]}}')
    with pytest.raises(InputError, match="can(not)? be read"):
        read_benchmark(tmp_path / "object.json")


def test_a_mistyped_key_on_several_tables(tmp_path: Path) -> None:
    for split in ("train", "test"):
        rows(tmp_path / f"{split}.jsonl", {"question": split})
    with pytest.raises(InputError, match=r"'splt'.*'split'\?"):
        read_benchmark(f"{tmp_path}#splt=test")
    assert read_benchmark(f"{tmp_path}#split=test").examples[0].question == "test"


def test_lines_that_end_with_carriage_returns(tmp_path: Path) -> None:
    (tmp_path / "old.csv").write_bytes(b"id,image,question,answer\r1,a.png,q,a\r2,b.png,x,b\r")
    with pytest.raises(InputError, match="carriage returns"):
        read_benchmark(tmp_path / "old.csv")
    (tmp_path / "new.csv").write_bytes(b"id,image,question,answer\r\n1,a.png,q,a\r\n")
    assert len(read_benchmark(tmp_path / "new.csv")) == 1


def test_images_are_looked_for_only_where_the_user_says(tmp_path: Path, picture: Picture) -> None:
    for place, seed in (("images", 1), ("elsewhere/images", 2), ("wrong", 3)):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / ("b.png" if place == "wrong" else "a.png")).write_bytes(picture(seed))
    path = rows(tmp_path / "test.jsonl", {"question": "q", "image": "images/a.png"})
    found = {
        str(place): read_benchmark(path, images=place).examples[0].images[0]
        for place in (None, tmp_path / "elsewhere", tmp_path / "wrong")
    }
    assert found["None"].read() == picture(1)
    assert found[str(tmp_path / "elsewhere")].read() == picture(2)
    assert "missing image" in found[str(tmp_path / "wrong")].source


def test_an_image_folder_reads_what_a_corpus_of_images_reads(
    tmp_path: Path, picture: Picture
) -> None:
    from heldout.corpus import CorpusItem
    from heldout.corpus.files import FilesCorpus

    named = [b".hidden.png", b"plain.jpg", b"without", b"odd.xyz", b"\xff.png", b"mpo.mpo"]
    for seed, name in enumerate(named):
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(picture(seed))
    for name in ("README", "article.nxml", "article.xml", "plain.txt", "refs.bib", ".DS_Store"):
        (tmp_path / name).write_text("words")
    (tmp_path / "notes.bin").write_text("no picture")
    (tmp_path / ".cache").mkdir()
    os.mkfifo(tmp_path / "fifo.png")
    benchmark = read_benchmark(tmp_path)
    corpus = FilesCorpus(str(tmp_path), "photos", str(tmp_path))
    found = [item for shard in corpus.shards() for item in corpus.read(shard)]
    items = [item for item in found if isinstance(item, CorpusItem) and item.image is not None]
    assert sorted(e.id for e in benchmark) == sorted(item.id for item in items)
    assert sorted(e.images[0].read() for e in benchmark) == sorted(picture(i) for i in range(6))
    expected = {
        (".cache", "hidden folder"),
        ("notes.bin", "not an image"),
        ("fifo.png", "not a regular file"),
    }
    assert {(d.id, d.reason) for d in benchmark.dropped} == expected
    lost = {item.id for item in found if not isinstance(item, CorpusItem)}
    assert lost == {".cache", "fifo.png"}  # a corpus reads words, too


@pytest.mark.parametrize(
    ("preset", "row", "expected"),
    [
        ("slake-en", {"image_name": "a.jpg", "question": "q", "answer": "a"}, "lang or q_lang"),
        ("mmstar", {"image": "a.jpg", "question": "q?", "answer": "yes"}, "letters as answers"),
        ("omnimedvqa", {"question": "q?", "answer": "yes"}, "options to choose from"),
        ("pmc-vqa", {"question": "q?", "answer": "yes"}, "one of the columns Figure_path"),
    ],
)
def test_a_preset_refuses_what_is_clearly_something_else(
    tmp_path: Path, preset: str, row: dict[str, object], expected: str
) -> None:
    path = rows(tmp_path / "test.jsonl", row)
    with pytest.raises(InputError, match=f"{preset} .*{expected}"):
        read_benchmark(path, preset=preset)
    assert len(read_benchmark(path)) == 1


def test_a_line_that_is_too_long_is_skipped_to_its_end_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heldout.benchmark.readers.json_rows.MAX_LINE", 1000)
    rows = [json.dumps({"id": n, "question": f"q{n}?", "answer": "a"}) for n in range(4)]
    # Longer than twice the limit: its rest would be read as a second line, and a third.
    rows[1] = json.dumps({"id": 1, "question": "x" * 2500, "answer": "a"})
    (tmp_path / "test.jsonl").write_text("\n".join(rows))
    benchmark = read_benchmark(tmp_path / "test.jsonl")
    assert [example.id for example in benchmark] == ["0", "2", "3"]
    assert [(d.id, d.reason) for d in benchmark.dropped] == [("test.jsonl line 2", "line too long")]


@pytest.mark.parametrize("depth", [101, 900, 5000])
@pytest.mark.parametrize("name", ["test.jsonl", "test.json"])
def test_a_row_nested_too_deeply_is_dropped_alone(tmp_path: Path, name: str, depth: int) -> None:
    rows = [json.dumps({"id": n, "question": f"q{n}?", "answer": "a"}) for n in range(4)]
    nested = "[" * depth + '"]["' + "]" * depth  # brackets inside a text close nothing
    rows[2] = '{"id": 2, "question": "q2?", "answer": "a", "extra": ' + nested + "}"
    text = "\n".join(rows) if name.endswith("l") else f"[{','.join(rows)}]"
    (tmp_path / name).write_text(text)
    benchmark = read_benchmark(tmp_path / name)
    assert [example.id for example in benchmark] == ["0", "1", "3"]
    assert [d.reason for d in benchmark.dropped] == ["nested too deeply"]
    (problem,) = [one for one in check(benchmark).problems if one.rule == "dropped-rows"]
    assert "nested too deeply" in problem.examples[0]
    found = list(everything(open_corpus(tmp_path / name, reader="table")))
    assert [one.reason for one in found if isinstance(one, Dropped)] == ["nested too deeply"]
    assert len(found) == 4


def everything(corpus: Corpus) -> Iterator[CorpusItem | Dropped]:
    for shard in corpus.shards():
        yield from corpus.read(shard)


def test_a_row_at_the_limit_is_read(tmp_path: Path) -> None:
    extra = "[" * 99 + "]" * 99  # and the row itself
    row = '{"question": "q?", "answer": "a", "extra": ' + extra + "}"
    (tmp_path / "test.jsonl").write_text(row)
    assert len(read_benchmark(tmp_path / "test.jsonl")) == 1
