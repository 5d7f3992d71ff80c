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
    KINDS,
    Kind,
    WrittenBenchmark,
    WrittenCorpus,
    write_benchmark,
    write_corpus,
)
from heldout.scenes.leaks import Target

IMAGES, ITEMS = 16, 90


@pytest.fixture(scope="module")
def benchmark(tmp_path_factory: pytest.TempPathFactory) -> WrittenBenchmark:
    return write_benchmark(tmp_path_factory.mktemp("world") / "benchmark", images=IMAGES, seed=3)


@pytest.fixture(scope="module")
def corpus(benchmark: WrittenBenchmark) -> WrittenCorpus:
    folder = benchmark.folder.parent / "corpus"
    return write_corpus(folder, benchmark, items=ITEMS, seed=3, shard_size=40)


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


def image_of(sample: dict[str, bytes]) -> bytes:
    (data,) = (data for extension, data in sample.items() if extension not in ("txt", "json"))
    return data


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
            id, question.question, question.answer,
        )  # fmt: skip
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
        write_corpus(tmp_path / name / "corpus", written, items=24, seed=seed, shard_size=10)
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
        if row.image is None:
            continue
        data, original = (
            image_of(samples[row.corpus_id]),
            (benchmark.folder / row.image).read_bytes(),
        )
        same_pixels = np.array_equal(pixels(data), pixels(original))
        assert (data == original) == (row.found_by == "bytes"), row
        assert same_pixels == (row.found_by in ("bytes", "pixels")), row


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.group == "leak"], ids=lambda k: k.name
)
def test_a_leak_is_what_its_kind_says_whatever_was_drawn(
    benchmark: WrittenBenchmark, kind: Kind
) -> None:
    extensions = set()
    for seed in range(12):
        image = list(benchmark.scenes)[seed]
        item_id, question = benchmark.questions[image][seed % 4]
        original = (benchmark.folder / image).read_bytes()
        target = Target(image, original, benchmark.scenes[image], item_id, question)
        sample = kind.make(target, np.random.default_rng(seed))
        extensions.add(sample.extension)
        assert (sample.data == original) == (kind.found_by == "bytes")
        assert np.array_equal(pixels(sample.data), pixels(original))
        if kind.label_relation is None:
            assert sample.caption and sample.metadata is None
        else:
            assert sample.metadata is not None
            same = sample.metadata["answer"] == question.answer
            assert same == (kind.label_relation == "same")
    assert extensions == ({"png"} if kind.found_by == "bytes" else {"png", "webp", "bmp"})


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
        assert pixels(image_of(sample)).tobytes() not in protected


def test_the_text_that_came_along_is_what_the_truth_says(
    benchmark: WrittenBenchmark, corpus: WrittenCorpus, samples: dict[str, dict[str, bytes]]
) -> None:
    items = {item.id: item for item in read_benchmark(benchmark.folder).examples}
    relations = set()
    for row in corpus.truth:
        sample = samples[row.corpus_id]
        relations.add(row.label_relation)
        if row.label_relation is None:
            assert "json" not in sample and row.benchmark_id is None
            continue
        sidecar = json.loads(sample["json"])
        assert row.benchmark_id is not None
        item = items[row.benchmark_id]
        assert item.images[0].name == row.image
        assert sidecar["question"] == item.question
        assert (sidecar["answer"] == item.answer) == (row.label_relation == "same")
    assert relations == {"same", "different", None}


def test_geometry_of_the_blind_spots(
    benchmark: WrittenBenchmark, corpus: WrittenCorpus, samples: dict[str, dict[str, bytes]]
) -> None:
    planted = {row.kind: row for row in corpus.truth}

    def pair(kind: str) -> tuple[np.ndarray, np.ndarray]:
        row = planted[kind]
        original = (benchmark.folder / str(row.image)).read_bytes()
        return pixels(image_of(samples[row.corpus_id])), pixels(original)

    flipped, original = pair("flipped")
    assert np.array_equal(flipped[:, ::-1], original)
    for kind, outer in (("cropped", False), ("inside a compound figure", True)):
        found, original = pair(kind)
        whole, part = (found, original) if outer else (original, found)
        assert whole.shape > part.shape
        assert contains(whole, part), kind
    jpeg, original = pair("JPEG re-encoded")
    assert jpeg.shape == original.shape
    assert np.abs(jpeg.astype(int) - original).mean() < 5
    resized, original = pair("resized")
    assert resized.shape != original.shape
    changed, original = pair("one attribute changed")
    different = (changed != original).any(axis=2).mean()
    assert 0 < different < 0.4  # one object, not another picture


def contains(whole: np.ndarray, part: np.ndarray) -> bool:
    height, width = part.shape[:2]
    for top, left in np.argwhere((whole == part[0, 0]).all(axis=2)):
        if np.array_equal(whole[top : top + height, left : left + width], part):
            return True
    return False


def test_broken_files_are_really_broken(
    corpus: WrittenCorpus, samples: dict[str, dict[str, bytes]]
) -> None:
    broken = [row for row in corpus.truth if row.group == "broken"]
    assert len(broken) == 3
    for row in broken:
        with pytest.raises(OSError, match=r"truncated|cannot identify"):
            Image.open(io.BytesIO(image_of(samples[row.corpus_id]))).load()


def test_a_corpus_too_small_for_its_leaks_is_refused(
    benchmark: WrittenBenchmark, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=r"items=5: .* must hold at least as many"):
        write_corpus(tmp_path / "corpus", benchmark, items=5)


def test_leftovers_of_an_earlier_run_are_not_mixed_in(benchmark: WrittenBenchmark) -> None:
    with pytest.raises(InputError, match="not an empty folder"):
        write_benchmark(benchmark.folder, images=1)
    with pytest.raises(InputError, match="not an empty folder"):
        write_corpus(benchmark.folder, benchmark)
