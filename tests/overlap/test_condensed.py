"""Conclusions from a condensed table of matches are those from the whole table, however it is read."""

from __future__ import annotations

import itertools
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import heldout
from heldout.audit import conclude
from heldout.detect import image_overlap
from heldout.evidence import join_leaks, leak_batches, leaks_of, text_kinds
from heldout.overlap import PLACE, ROWS, CondensedMatches
from heldout.overlap.condensed import match_batches, script
from heldout.store import (
    MATCH,
    Judgement,
    Partitions,
    Run,
    append,
    empty_table,
    make_table,
    partitions,
    schema,
    sorted_frames,
    sorting,
)

ITEMS = 30  # the first twelve have copies
QUESTIONS = ("What is shown?", "Где это?", 'A "quoted" word\nand a line', "")


def evidence(draw: np.random.Generator, picture: int, theirs: int, relation: str) -> dict[str, Any]:
    record: dict[str, Any] = {
        "benchmark_image": f"{picture:064x}",
        "benchmark_pixels": f"{picture:064x}",
        "corpus_image": f"{theirs:064x}",
        "corpus_source": "",
        "corpus_text": 'say "people": {} and "reason": "none"',
        "corpus_question": QUESTIONS[draw.integers(4)],
        "corpus_answer": "yes",
    }
    if relation in ("undecided", "look-alike"):
        reason = ("agrees in part", "too small to decide", "")[draw.integers(3)]
        record["registration"] = {"reason": reason, "warp": None}
        record["unverified"] = None if draw.random() < 0.8 else "no picture"
    return record


def table(seed: int, rows: int = 400) -> pl.DataFrame:
    """Few items and many corpus items; some rows are the same pair by another image or method."""
    draw = np.random.default_rng(seed)
    entries = []
    for _ in range(rows):
        item, theirs = int(draw.integers(ITEMS)), int(draw.integers(60))
        relation = ("same image", "transformed copy", "undecided", "look-alike", "unrelated")[
            draw.integers(5) if item < 12 else 2 + draw.integers(2)
        ]
        copy = relation in ("same image", "transformed copy")
        entries.append(
            {
                "benchmark_id": f"q{item}",
                "image_index": int(draw.integers(2)),
                "corpus": ("web", "crawl")[draw.integers(2)],
                "corpus_id": f"{theirs:03d}",
                "method": ("bytes", "pdq")[draw.integers(2)],
                "similarity": None if draw.random() < 0.1 else float(draw.integers(90, 95)) / 100,
                "degree": ("hard", "soft", "none")[draw.integers(3)],
                "relation": relation,
                "transform": ("cropped", "resized", "")[draw.integers(3)],
                "modality": ("full", "image only")[draw.integers(2)] if copy else "none",
                "label_relation": ("same", "different", "unknown")[draw.integers(3)],
                "evidence": json.dumps(
                    evidence(draw, item // 2, theirs, relation), ensure_ascii=False
                ),
            }
        )
    return pl.DataFrame(make_table("matches", entries))


def words(matches: pl.DataFrame) -> pl.DataFrame:
    """Text matches of some pairs that match by their pictures, too."""
    entries = [
        {
            "benchmark_id": row["benchmark_id"],
            "corpus": row["corpus"],
            "corpus_id": row["corpus_id"],
            "method": "exact",
            "field": "question",
            "corpus_field": "question",
            "similarity": 1.0,
            "degree": "hard",
            "relation": ("same item", "same question")[place % 2],
            "answer_relation": ("same", "unknown")[place % 2],
            "evidence": "{}",
        }
        for place, row in enumerate(matches.gather_every(23).iter_rows(named=True))
    ]
    return pl.DataFrame(make_table("text_matches", entries))


def whole(matches: pl.DataFrame) -> CondensedMatches:
    """Nothing left out."""
    copies = matches.filter(pl.col("relation").is_in(["same image", "transformed copy"]))
    return CondensedMatches(
        matches.with_columns(
            pl.lit(1, pl.Int64).alias(ROWS), pl.int_range(pl.len(), dtype=pl.Int64).alias(PLACE)
        ),
        copies.group_by("benchmark_id", "corpus").agg(
            pl.col("corpus_id").n_unique().cast(pl.Int64).alias("image_hits")
        ),
        copies.group_by("corpus", "transform").agg(pl.len().cast(pl.Int64).alias(ROWS)),
    )


def items() -> pl.DataFrame:
    rows = (
        {
            "benchmark_id": f"q{number}",
            "position": number,
            "cluster": str(number // 2),
            "question": f"What is {number}?",
            "answer": "yes",
            "image_digests": [f"{number // 2:064x}"] * 2,
            "image_names": ["a.png", "b.png"],
            "options": [],
            "metadata": "{}",
        }
        for number in range(ITEMS)
    )
    return pl.DataFrame(make_table("items", rows))


@pytest.mark.parametrize("seed", range(3))
def test_conclusions_do_not_need_the_rows_that_are_left_out(seed: int) -> None:
    matches = table(seed)
    texts = words(matches)
    condensed = CondensedMatches.of(list(matches.iter_slices(37)), texts)
    every = whole(matches)
    assert len(condensed.table) < len(matches) == condensed.table[ROWS].sum()
    assert matches[condensed.table[PLACE].to_list()].equals(condensed.table.drop(ROWS, PLACE))
    leaked = join_leaks(condensed, texts)
    assert leaked.equals(join_leaks(every, texts))
    assert text_kinds(texts, condensed.table).equals(text_kinds(texts, matches))
    for corpus in ("web", "crawl"):
        facts = {"benchmark": "b", "corpus": corpus, "corpus_images": 9, "corpus_answers": 9}
        findings, expected = (
            image_overlap(items(), source, leaked, **facts) for source in (condensed, every)
        )
        assert [entry.model_dump() for entry in findings] == [
            entry.model_dump() for entry in expected
        ]


def test_the_script_of_words_tells_groups_apart() -> None:
    assert script("Где is это?") == "CYRILLIC"
    condensed = CondensedMatches.of([table(1)])
    copies = condensed.table.filter(pl.col("relation") == "same image")
    beside = {json.loads(text)["corpus_question"] for text in copies["evidence"]}
    assert QUESTIONS[1] in beside and QUESTIONS[0] in beside


def filled(folder: Path) -> Run:
    """A run with the tables above and people's judgements."""
    run = Run.create(folder, command=["heldout", "overlap", "b"])
    identity = {"name": "b", "source": "b", "fingerprint": "0" * 64, "reader": "made up"}
    run.claim_benchmark({**identity, "split": None, "items": ITEMS})
    matches = table(7).with_columns(pl.col("similarity").fill_null(0.5))
    run.write_table("items", items().to_arrow().cast(schema.SCHEMAS["items"]))
    run.write_table("matches", matches.to_arrow().cast(schema.SCHEMAS["matches"]))
    for name in ("thumbnails", "dropped"):
        run.write_table(name, empty_table(name))
    counts = ("lost_items", "without_image", "with_answer", "missing", "dropped")
    for corpus in ("web", "crawl"):
        facts = {"corpus": corpus, "source": corpus, "reader": "made up", "fingerprint": corpus}
        facts |= {"shards": 1, "reused": 0, "failed": {}, "hashes": True, "encoder": None}
        sums = {**dict.fromkeys(counts, 0), "items": 60, "images": 60}
        run.update("stages", {f"overlap:{corpus}": {**facts, "nearest": 2, "counts": sums}})
    from heldout.overlap import match_subject

    judged = matches.filter(pl.col("relation").is_in(["undecided", "look-alike"]))
    verdicts = itertools.cycle(["transformed copy", "unrelated", "unsure", "look-alike"])
    for row in judged.gather_every(5).iter_rows(named=True):
        subject = match_subject(json.loads(row["evidence"]), row["corpus"], row["corpus_id"])
        for rater in ("ann", "bob"):
            append(run.path, Judgement(rater, MATCH, subject, next(verdicts)))
    return run


def outputs(run: Run, folder: Path) -> dict[str, bytes]:
    conclude(run, quiet=True)
    heldout.gate(run, folder / "gate", strict=True)
    for name in ("csv", "json", "md"):
        heldout.export(run, name, out=folder / f"as-{name}")
    paths = [*folder.rglob("*"), *run.path.glob("*.json"), run.path / "report.html"]
    return {
        path.name: path.read_bytes()
        for path in paths
        if path.is_file() and path.suffix != ".parquet" and path.name != "manifest.json"
    } | {
        path.name: pl.read_parquet(path).write_ndjson().encode()
        for path in folder.rglob("*.parquet")
    }


def test_files_are_the_same_however_little_memory_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = filled(tmp_path / "run")
    plenty = outputs(run, tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    monkeypatch.setattr(Run, "batches", partial_batches)
    for module, name, value in (
        (partitions, "_HELD", 16),
        (sorting, "_HELD", 5_000),
        (sorting, "_BATCH", 8),
    ):
        monkeypatch.setattr(module, name, value)
    monkeypatch.setattr("heldout.overlap.condensed._MOST", 64)
    monkeypatch.setattr("heldout.report._gallery._WAITING", 32)
    from heldout.overlap import condensed

    condensed._condensed.cache_clear()
    little = outputs(run, tmp_path / "out")
    assert plenty.keys() == little.keys()
    assert [name for name in plenty if plenty[name] != little[name]] == []


def partial_batches(run: Run, name: str, *, rows: int = 0) -> Iterator[Any]:
    return schema.read_batches(run.table_path(name), 17)


def test_the_gallery_lists_the_gravest_pairs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heldout.report._gallery import gravest_pairs

    run = filled(tmp_path / "run")
    every, count = gravest_pairs(run)
    assert len(every) == count
    monkeypatch.setattr("heldout.report._gallery.MOST", 5)
    monkeypatch.setattr(partitions, "_HELD", 16)
    few, total = gravest_pairs(run)
    assert (few, total) == (every[:5], count)


def test_leaks_count_the_matches_they_stand_for(tmp_path: Path) -> None:
    run = filled(tmp_path / "run")
    judged = pl.concat(match_batches(run))
    stands = pl.col("relation").is_in(["same image", "transformed copy", "undecided"])
    alike = pl.col("degree").is_in(["hard", "soft"])
    counts = dict(judged.filter(stands | alike).group_by("benchmark_id").len().iter_rows())
    assert all(leaked.matches >= counts[name] for name, leaked in leaks_of(run).items())
    assert sum(leaked.matches for leaked in leaks_of(run).values()) < len(judged)


def test_what_must_be_removed_is_listed_with_every_corpus_item(tmp_path: Path) -> None:
    run = filled(tmp_path / "run")
    copies = pl.col("relation").is_in(["same image", "transformed copy"])
    pair = ["benchmark_id", "corpus", "corpus_id"]
    expected = pl.concat(match_batches(run)).filter(copies).select(pair).unique().sort(pair)
    rungs = pl.col("rung").is_in(["same image", "same image and answer"])
    assert (
        pl.concat(leak_batches(run)).filter(rungs).select(pair).unique().sort(pair).equals(expected)
    )
    removed = heldout.gate(run, tmp_path / "gate").removed
    assert removed.select(pair).unique().sort(pair).equals(expected)
    listed = (tmp_path / "gate" / "remove_ids.txt").read_text().splitlines()
    assert listed == [
        f"{row[0]}\t{row[1]}"
        for row in expected.select("corpus", "corpus_id")
        .unique()
        .sort("corpus", "corpus_id")
        .iter_rows()
    ]


def test_records_with_one_key_come_in_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitions, "_HELD", 100)
    draw = np.random.default_rng(0)
    keys = draw.integers(0, 2**63, 50, dtype=np.uint64)[draw.integers(0, 50, 2000)]
    with Partitions({"key": np.uint64, "value": np.int64}, by="key") as kept:
        for start in range(0, 2000, 90):
            values = np.arange(start, min(2000, start + 90))
            kept.add(key=keys[values], value=values)
        parts = [part for part in kept if len(part)]
    assert len(parts) > 1
    assert sum(len(np.unique(part["key"])) for part in parts) == len(np.unique(keys))
    assert sorted(int(value) for part in parts for value in part["value"]) == list(range(2000))
    assert all(
        (np.diff(part["value"][part["key"] == key]) > 0).all()
        for part in parts
        for key in part["key"][:3]
    )


def test_a_sort_that_exceeds_memory_is_a_stable_sort(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(3)
    names = [f"n{value}" for value in draw.integers(0, 300, 3000)]
    frame = pl.DataFrame({"a": [name[:2] for name in names], "b": names, "place": range(3000)})
    monkeypatch.setattr(sorting, "_HELD", 4_000)
    monkeypatch.setattr(sorting, "_BATCH", 32)
    pieces = list(sorted_frames(frame.iter_slices(70), ["a", "b"]))
    assert len(pieces) > 5
    assert pl.concat(pieces).equals(frame.sort("a", "b", maintain_order=True))
    held = [set(piece["b"]) for piece in pieces]
    assert all(not first & second for first, second in itertools.combinations(held, 2))
