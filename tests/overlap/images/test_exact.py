from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from PIL import Image

from heldout.audit import audit_overlap
from heldout.benchmark import Benchmark, Example
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.errors import InputError
from heldout.image import ImageRef, InlineBytes
from heldout.overlap import build_index
from heldout.overlap.images.scan import _check
from heldout.store import Run, saved_shards

Picture = Callable[..., bytes]


def write_tars(folder: Path, samples: list[dict[str, Any]], per_shard: int = 4) -> Path:
    folder.mkdir(parents=True)
    for start in range(0, len(samples), per_shard):
        with tarfile.open(folder / f"{start // per_shard:05d}.tar", "w") as tar:
            for offset, sample in enumerate(samples[start : start + per_shard]):
                key = f"{start + offset:06d}"
                for extension, content in sample.items():
                    data = content if isinstance(content, bytes) else json.dumps(content).encode()
                    member = tarfile.TarInfo(f"{key}.{extension}")
                    member.size = len(data)
                    tar.addfile(member, io.BytesIO(data))
    return folder


def bench(*examples: tuple[str, bytes, str, str]) -> Benchmark:
    return Benchmark(
        "bench",
        tuple(
            Example(
                name, (ImageRef(f"{name}.png", InlineBytes(data, name)),), question, answer=answer
            )
            for name, data, question, answer in examples
        ),
    )


def audit(benchmark: Benchmark, corpus: Path, run: Path, hashes: bool = False) -> pl.DataFrame:
    opened = open_corpus(corpus, name="c")
    with LocalEngine(1) as engine:
        audit_overlap(
            benchmark, [opened], Run.create(run), engine, quiet=True, exact=not hashes, text=False
        )
    frame = pl.from_arrow(Run.open(run).read_table("matches"))
    assert isinstance(frame, pl.DataFrame)
    return frame


def test_copies_are_found_by_bytes_and_by_pixels_with_what_came_along(
    tmp_path: Path, picture: Picture
) -> None:
    benchmark = bench(
        ("a", picture(1), "What is it?", "CT"),
        ("b", picture(2), "What is it?", "MRI"),
        ("c", picture(3), "Is it big?", "no"),
        ("d", picture(4), "Is it big?", "yes"),
        ("e", picture(5), "Is it big?", "yes"),
    )
    corpus = write_tars(
        tmp_path / "c",
        [
            {"png": picture(1), "json": {"question": "what is it", "answer": "ct"}},
            {
                "webp": picture(2, format="WEBP"),
                "json": {"question": "What is it?", "answer": "PET"},
            },
            {"png": picture(3), "txt": b"I am not sure, is it big? no"},
            {"png": picture(4), "json": {"question": "Is it big?"}},
            {"png": picture(99)},
        ],
    )
    rows = audit(benchmark, corpus, tmp_path / "run").sort("benchmark_id").to_dicts()
    told = [(r["benchmark_id"], r["method"], r["modality"], r["label_relation"]) for r in rows]
    assert told == [
        ("a", "bytes", "full", "same"),
        ("b", "pixels", "image and question", "different"),
        ("c", "bytes", "image only", "unknown"),  # a caption is never searched for substrings
        ("d", "bytes", "image and question", "unknown"),
    ]
    assert rows[0]["corpus_id"] == "00000.tar/000000"
    assert {r["relation"] for r in rows} == {"same image"}


def test_every_question_on_a_leaked_image_is_matched(tmp_path: Path, picture: Picture) -> None:
    benchmark = bench(("a", picture(1), "q1?", "x"), ("b", picture(1), "q2?", "y"))
    corpus = write_tars(tmp_path / "c", [{"png": picture(1)}, {"png": picture(1)}])
    assert len(audit(benchmark, corpus, tmp_path / "run")) == 4


def test_all_images_of_an_item_are_searched_for(tmp_path: Path, picture: Picture) -> None:
    refs = tuple(ImageRef(str(i), InlineBytes(picture(i), str(i))) for i in range(3))
    benchmark = Benchmark("bench", (Example("a", refs, "q?", answer="x"),))
    corpus = write_tars(tmp_path / "c", [{"png": picture(2)}])
    assert audit(benchmark, corpus, tmp_path / "run")["image_index"].to_list() == [2]


def test_thumbnails_are_small_and_remember_the_real_size(tmp_path: Path, picture: Picture) -> None:
    large = picture(1, size=(640, 400))
    corpus = write_tars(tmp_path / "c", [{"png": large}])
    audit(bench(("a", large, "q?", "x")), corpus, tmp_path / "run")
    (row,) = Run.open(tmp_path / "run").read_table("thumbnails").to_pylist()
    assert (row["width"], row["height"]) == (640, 400)
    assert Image.open(io.BytesIO(row["webp"])).size == (256, 160)


def test_a_corpus_without_answers_makes_no_statement_about_them(
    tmp_path: Path, picture: Picture
) -> None:
    corpus = write_tars(tmp_path / "c", [{"png": picture(1), "txt": b"a caption"}])
    audit(bench(("a", picture(1), "q?", "x")), corpus, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    units = [finding["unit"] for finding in run.read_json("findings.json")["findings"]]
    assert units == ["images", "questions"]
    assert "no answer fields" in run.read_json("claims.json")["claims"][0]["sentence"]


def test_flat_pictures_match_nothing(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (24, 16), "white").save(buffer, "PNG")
    benchmark = bench(("a", buffer.getvalue(), "q?", "x"))
    index, dropped = build_index(benchmark)
    assert not index.by_key
    assert [d.reason for d in dropped] == ["blank image"]
    corpus = write_tars(tmp_path / "c", [{"png": buffer.getvalue()}])
    assert audit(benchmark, corpus, tmp_path / "run").is_empty()
    claims = Run.open(tmp_path / "run").read_json("claims.json")["claims"]
    assert [claim["status"] for claim in claims] == ["not testable"]


def test_bytes_that_nobody_can_decode_are_still_the_same_bytes(tmp_path: Path) -> None:
    broken = b"\x89PNG\r\n\x1a\n" + b"not really" * 20
    corpus = write_tars(tmp_path / "c", [{"png": broken}, {"png": b""}])
    benchmark = bench(("a", broken, "q?", "x"), ("b", b"", "q?", "x"))
    rows = audit(benchmark, corpus, tmp_path / "run").to_dicts()
    assert [(row["benchmark_id"], row["method"]) for row in rows] == [("a", "bytes")]


def test_exact_matching_misses_a_lossy_copy(tmp_path: Path, picture: Picture) -> None:
    buffer = io.BytesIO()
    Image.open(io.BytesIO(picture(1))).save(buffer, "JPEG", quality=95)
    corpus = write_tars(tmp_path / "c", [{"jpg": buffer.getvalue()}])
    assert audit(bench(("a", picture(1), "q?", "x")), corpus, tmp_path / "run").is_empty()
    claim = Run.open(tmp_path / "run").read_json("claims.json")["claims"][0]
    assert claim["status"] == "clean"
    assert "re-encoded" in claim["why"]


def test_broken_corpus_images_are_dropped_with_a_reason(tmp_path: Path, picture: Picture) -> None:
    corpus = write_tars(
        tmp_path / "c",
        [
            {"png": picture(1)},
            {"png": b""},
            {"jpg": b"<html>404</html>"},
            {"png": picture(2)[:70]},
        ],
    )
    audit(bench(("a", picture(1), "q?", "x")), corpus, tmp_path / "run")
    run = Run.open(tmp_path / "run")
    dropped = run.read_table("dropped").to_pylist()
    assert {row["id"] for row in dropped} == {f"00000.tar/00000{i}" for i in (1, 2, 3)}
    claim = run.read_json("claims.json")["claims"][0]
    assert claim["status"] == "survives"
    coverage = next(c for c in claim["controls"] if c["name"] == "corpus coverage")
    assert coverage["outcome"] == "failed"
    assert "; 3 items could not be read" in coverage["reason"]


def test_findings_give_each_denominator_its_own_rate(tmp_path: Path, picture: Picture) -> None:
    rows = [(f"{i}-{k}", picture(i), f"q{k}?", "x") for i in range(10) for k in range(1 + i % 3)]
    benchmark = bench(*rows)
    corpus = write_tars(
        tmp_path / "c",
        [
            {"png": picture(2), "json": {"question": "q1?", "answer": "x"}},
            {"png": picture(50)},
        ],
    )
    audit(benchmark, corpus, tmp_path / "run")
    findings = Run.open(tmp_path / "run").read_json("findings.json")["findings"]
    counts = {f["unit"]: (f["statistic"]["value"], f["n"], f["clusters"]) for f in findings}
    assert counts == {
        "images": (1, 10, 10),
        "questions": (3, len(rows), 10),
        "questions with their answer": (1, len(rows), 10),
    }
    for finding in findings:
        assert finding["effect"]["low"] <= finding["effect"]["value"] <= finding["effect"]["high"]


def test_results_do_not_depend_on_shards_or_workers(tmp_path: Path, picture: Picture) -> None:
    benchmark = bench(*((str(i), picture(i), "q?", "x") for i in range(12)))
    samples = [{"png": picture(i % 20)} for i in range(40)]
    found = []
    for per_shard, workers in ((7, 1), (40, 1), (3, 2)):
        folder = tmp_path / f"{per_shard}-{workers}"
        corpus = write_tars(folder / "c", samples, per_shard)
        run = Run.create(folder / "run")
        with LocalEngine(workers) as engine:
            audit_overlap(
                benchmark,
                [open_corpus(corpus, name="c")],
                run,
                engine,
                quiet=True,
                text=False,
                encoder="none",
            )
        rows = run.read_table("matches").to_pylist()
        found.append([(r["benchmark_id"], r["corpus_id"].split("/")[1], r["method"]) for r in rows])
    assert found[0] == found[1] == found[2]
    assert len(found[0]) == 24


def test_a_changed_benchmark_is_not_mixed_into_an_old_run(tmp_path: Path, picture: Picture) -> None:
    corpus = write_tars(tmp_path / "c", [{"png": picture(1)}])
    audit(bench(("a", picture(1), "q?", "x")), corpus, tmp_path / "run")
    with pytest.raises(InputError, match="order changed"):
        audit(bench(("a", picture(1), "q?", "y")), corpus, tmp_path / "run")


def test_a_corpus_that_grew_is_scanned_only_where_it_grew(tmp_path: Path, picture: Picture) -> None:
    benchmark = bench(*((str(i), picture(i), "q?", "x") for i in range(4)))
    samples = [{"png": picture(i)} for i in range(3)]
    corpus = write_tars(tmp_path / "c", samples, per_shard=1)
    assert len(audit(benchmark, corpus, tmp_path / "run")) == 3
    marks = saved_shards(tmp_path / "run/stages/overlap/c")
    write_tars(tmp_path / "more", [{}] * 3 + [{"png": picture(3)}], per_shard=1)
    (tmp_path / "more/00003.tar").rename(corpus / "00003.tar")
    assert len(audit(benchmark, corpus, tmp_path / "run")) == 4
    assert len(marks) == 3
    assert marks.items() <= saved_shards(tmp_path / "run/stages/overlap/c").items()


@pytest.mark.parametrize(
    ("selection", "words"), [("", "nothing to read"), ("#lang=fr", "lang = fr")]
)
def test_a_corpus_of_nothing_is_refused_before_the_benchmark_is_read(
    selection: str, words: str, tmp_path: Path
) -> None:
    source = tmp_path / "corpus"
    source.mkdir()
    if selection:
        source = source / "rows.jsonl"
        source.write_text('{"id": "a", "question": "What?", "answer": "it", "lang": "en"}\n')
    with pytest.raises(InputError, match=words):
        _check([open_corpus(f"{source}{selection}")])
