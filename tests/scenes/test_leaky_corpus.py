"""A written benchmark reads back as such, and the truth about the corpus beside it is true."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from heldout.benchmark import read_benchmark
from heldout.errors import InputError
from heldout.scenes import (
    BY_ANSWER,
    BY_QUESTION,
    FILMS,
    KINDS,
    REWORDED_ALONE,
    SCENES,
    LeakWorld,
    WrittenBenchmark,
    WrittenCorpus,
    told_apart,
    write_benchmark,
    write_corpus,
)

IMAGES, ITEMS = 24, 90


@pytest.fixture(scope="module", params=[SCENES, FILMS], ids=lambda world: world.name)
def world(request: pytest.FixtureRequest) -> LeakWorld:
    return request.param


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory, world: LeakWorld) -> WrittenBenchmark:
    folder = tmp_path_factory.mktemp("world") / "benchmark"
    return write_benchmark(folder, images=IMAGES, seed=3, world=world)


@pytest.fixture(scope="module")
def corpus(benchmark: WrittenBenchmark, world: LeakWorld) -> WrittenCorpus:
    folder = benchmark.folder.parent / "corpus"
    return write_corpus(folder, benchmark, items=ITEMS, seed=3, shard_size=40, world=world)


@pytest.fixture(scope="module")
def samples(corpus: WrittenCorpus) -> dict[str, dict[str, bytes]]:
    """Corpus id → extension → bytes, read with nothing of ours."""
    found: dict[str, dict[str, bytes]] = {}
    for path in sorted(corpus.folder.iterdir()):
        with tarfile.open(path) as tar:
            for member in tar:
                key, _, extension = member.name.partition(".")
                file = tar.extractfile(member)
                assert file is not None
                found.setdefault(f"{path.name}/{key}", {})[extension] = file.read()
    return found


def image_of(sample: dict[str, bytes]) -> bytes | None:
    found = [data for extension, data in sample.items() if extension not in ("txt", "json")]
    assert len(found) <= 1
    return found[0] if found else None


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def test_the_benchmark_reads_back_whole_and_grouped_by_image(benchmark: WrittenBenchmark) -> None:
    read = read_benchmark(benchmark.folder)
    assert not read.dropped
    assert len(read.examples) == benchmark.items
    assert 4 * IMAGES <= benchmark.items <= 6 * IMAGES
    written = [(id, q) for asked in benchmark.questions.values() for id, q in asked]
    for example, (id, question) in zip(read.examples, written, strict=True):
        assert (example.id, example.question, example.answer) == (
            id,
            question.question,
            question.answer,
        )
        assert example.options == question.options
        assert (example.answer_index is not None) == bool(question.options)
        assert example.metadata["answer_type"] == question.answer_type
        assert example.metadata["content_type"] == question.content_type
    names = [example.images[0].name for example in read.examples]
    assert list(dict.fromkeys(names)) == list(benchmark.scenes)  # in order …
    runs = 1 + sum(a != b for a, b in itertools.pairwise(names))
    assert runs == IMAGES  # … and each image's questions together


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for name, seed in (("one", 7), ("two", 7), ("other", 8)):
        written = write_benchmark(tmp_path / name / "benchmark", images=11, seed=seed)
        write_corpus(tmp_path / name / "corpus", written, items=30, seed=seed, shard_size=10)
    one, two, other = (digests(tmp_path / name) for name in ("one", "two", "other"))
    assert one == two
    assert one.keys() == other.keys()
    assert not set(one.values()) & set(other.values())


def test_shards_hold_every_item_once(
    corpus: WrittenCorpus, samples: dict[str, dict[str, bytes]]
) -> None:
    assert corpus.shards == 3
    expected = [f"{index // 40:05d}.tar/{index:06d}" for index in range(ITEMS)]
    assert list(samples) == expected
    assert all("txt" in sample or "json" in sample for sample in samples.values())


def test_truth_lies_beside_the_corpus_and_names_every_kind(corpus: WrittenCorpus) -> None:
    assert corpus.truth_file.parent == corpus.folder.parent
    assert {path.suffix for path in corpus.folder.iterdir()} == {".tar"}
    rows = [json.loads(line) for line in corpus.truth_file.read_text().splitlines()]
    assert [row["corpus_id"] for row in rows] == [row.corpus_id for row in corpus.truth]
    broken = {"truncated PNG", "HTML named .jpg", "zero bytes"}
    assert {row["kind"] for row in rows} == {kind.name for kind in KINDS} | broken


def test_planted_truth_is_true(
    benchmark: WrittenBenchmark, corpus: WrittenCorpus, samples: dict[str, dict[str, bytes]]
) -> None:
    for row in corpus.truth:
        data = image_of(samples[row.corpus_id])
        if row.image is None or data is None:
            assert row.found_by is None
            continue
        original = (benchmark.folder / row.image).read_bytes()
        same_pixels = np.array_equal(pixels(data), pixels(original))
        assert (data == original) == (row.found_by == "bytes"), row
        assert same_pixels == (row.found_by in ("bytes", "pixels")), row


def test_nothing_else_shows_a_picture_of_the_benchmark(
    benchmark: WrittenBenchmark, corpus: WrittenCorpus, samples: dict[str, dict[str, bytes]]
) -> None:
    protected = {
        pixels((benchmark.folder / image).read_bytes()).tobytes() for image in benchmark.scenes
    }
    assert len(protected) == IMAGES
    planted = {row.corpus_id for row in corpus.truth}
    strangers = [sample for id, sample in samples.items() if id not in planted]
    assert len(strangers) == ITEMS - len(planted)
    for sample in strangers:
        data = image_of(sample)
        assert data is not None
        assert pixels(data).tobytes() not in protected


def test_the_text_that_came_along_is_what_the_truth_says(
    benchmark: WrittenBenchmark, corpus: WrittenCorpus, samples: dict[str, dict[str, bytes]]
) -> None:
    items = {item.id: item for item in read_benchmark(benchmark.folder).examples}
    relations = set()
    for row in corpus.truth:
        sample = samples[row.corpus_id]
        relations.add((row.words, row.label_relation))
        if row.benchmark_id is None:
            assert "json" not in sample and row.words is None
            continue
        sidecar, item = json.loads(sample["json"]), items[row.benchmark_id]
        assert item.images[0].name == row.image
        if row.words is not None:
            assert (sidecar["question"] == item.question) == (row.words == "exact")
            assert (sidecar["answer"] == item.answer) == (row.label_relation == "same")
    assert relations == {
        ("exact", "same"),
        ("exact", "different"),
        ("reworded", "same"),
        (None, None),
    }


def test_every_picture_leaks_once(corpus: WrittenCorpus) -> None:
    planted = [row.image for row in corpus.truth if row.image is not None]
    assert len(planted) == len(set(planted)) == len(KINDS)
    assert sum(kind.share for kind in KINDS) == pytest.approx(1.0)


def test_as_many_of_each_kind_as_are_asked_for(tmp_path: Path) -> None:
    written = write_benchmark(tmp_path / "benchmark", images=5)
    corpus = write_corpus(tmp_path / "corpus", written, items=50, each=2)
    assert {corpus.kinds[kind.name] for kind in KINDS} == {2}


def test_reworded_questions_are_planted_by_what_tells_their_items_apart(
    tmp_path: Path, benchmark: WrittenBenchmark, world: LeakWorld
) -> None:
    corpus = write_corpus(tmp_path / "corpus", benchmark, items=80, each=2, reworded=7, world=world)
    asked = [
        (item, image, question.question, question.answer)
        for image, questions in benchmark.questions.items()
        for item, question in questions
    ]
    apart = told_apart(asked)
    for by, kind in REWORDED_ALONE.items():
        planted = [row for row in corpus.truth if row.kind == kind.name]
        there = {image for item, image, *_ in asked if apart[item] == by}
        most = 7 if by == BY_QUESTION else 2
        assert {apart[row.benchmark_id or ""] for row in planted} <= {by}
        # Items that leak otherwise are left out, so that a few may lack.
        assert len(planted) == most or len(planted) == len({row.image for row in planted}) <= len(
            there
        )
        assert len({row.image for row in planted}) == len(planted)
    if world is SCENES:
        assert corpus.kinds[REWORDED_ALONE[BY_QUESTION].name] == 7
    others = {kind.name for kind in KINDS} - {kind.name for kind in REWORDED_ALONE.values()}
    assert {corpus.kinds[name] for name in others} == {2}


def test_a_question_or_its_answer_tells_items_of_other_pictures_apart() -> None:
    rows = [
        ("a", "1", "How many of 3?", "one"),
        ("b", "2", "How many of 4?", "two"),
        ("c", "2", "Is it red?", "yes"),
        ("d", "2", "Is it red?", "yes"),  # the same picture
        ("e", "3", "Where?", "left"),
        ("f", "4", "where?", "left"),
    ]
    by = {"a": BY_ANSWER, "b": BY_ANSWER, "c": BY_QUESTION, "d": BY_QUESTION}
    assert told_apart(rows) == {**by, "e": "nothing", "f": "nothing"}


def test_broken_files_are_really_broken(
    corpus: WrittenCorpus, samples: dict[str, dict[str, bytes]]
) -> None:
    broken = [row for row in corpus.truth if row.group == "broken"]
    assert len(broken) == 3
    for row in broken:
        with pytest.raises(OSError, match=r"truncated|cannot identify"):
            Image.open(io.BytesIO(image_of(samples[row.corpus_id]) or b"")).load()


def test_a_corpus_too_small_for_its_leaks_is_refused(
    benchmark: WrittenBenchmark, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"^items=5: "):
        write_corpus(tmp_path / "corpus", benchmark, items=5)


def test_leftovers_of_an_earlier_run_are_not_mixed_in(benchmark: WrittenBenchmark) -> None:
    with pytest.raises(InputError, match="empty folder"):
        write_benchmark(benchmark.folder, images=1)
    with pytest.raises(InputError, match="empty folder"):
        write_corpus(benchmark.folder, benchmark)
