"""Small benchmarks beside copies of their pictures: rewordings found, and different questions taken for rewordings.

    python bench/text_rewordings.py --shared ../shared/data --only small      # the table in docs/text.md
    python bench/text_rewordings.py --shared ../shared/data --only prior      # the table in texts/_prior.py

Below 30 pairs a benchmark shows too little of how near different questions about one picture come. Here benchmarks
of 5, 10, 20 and 29 items, one of a picture, meet a corpus that has every picture with a rewording of the item (of
every other item), with up to two different questions that have its answer, and with one that has another answer.

VQA-RAD's rewordings were written and linked by people; those about photographs, charts, counts, documents and
diagrams were written for this script before any score was known (``pictured`` in rewording_sets.json), each with one
different question from the same template and one in other words. Different questions of SLAKE are of two content
types. Halves are by picture: one settles the table of chances, the other is reported.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import random
import shutil
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import polars as pl
from PIL import Image
from rapidfuzz.distance import Levenshtein

import heldout
from heldout.benchmark import normal
from heldout.overlap import PARAPHRASE, open_text_encoder
from heldout.overlap.texts._prior import GRID
from heldout.overlap.texts._questions import other_subject, same_amounts, same_frame
from heldout.overlap.texts.edits import OTHER, RENUMBERED, SAME, compare_wording
from heldout.overlap.texts.normalise import mask
from heldout.overlap.texts.relation import DOUBTFUL_REWORDING, TEMPLATE
from heldout.scenes import write_benchmark
from heldout.stats import binomial_interval
from rewording_sets import DATA

SIZES = (5, 10, 20, 29)
SCENES = ((211, 213), (212, 214))  # seeds that settle, and that are reported
RULES: Mapping[str, dict[str, Any]] = {
    "cosine .72": {"text_threshold": 0.72},
    "cosine .80": {"text_threshold": 0.80},
    "as it is": {},
}
_DRAWN = 58  # items of a set that are drawn for each size, at the most
_OTHERS = 2
_LEAST = 10  # pairs of a set that have a say in the table of chances


class AskedItem(NamedTuple):
    """A question about a picture, and what else is asked of it."""

    picture: str
    path: Path | None  # None: any picture will do
    question: str
    answer: str
    reworded: tuple[str, ...]
    others: tuple[str, ...]  # different, with the same answer
    contradicting: tuple[str, str] | None  # different, with another answer


def asked_items(shared: Path, half: int, folder: Path) -> dict[str, list[AskedItem]]:
    return {
        "VQA-RAD": _rad(shared / "vqa_rad", half),
        "SLAKE": _slake(shared / "slake", half),
        "VQA-Med": _med(shared / "vqa_med_2019", half),
        "written, same template": _written(half, 0),
        "written, other words": _written(half, 1),
        "scenes": _scenes(folder, half),
    }


def _half(picture: str) -> int:
    return hashlib.md5(picture.encode()).digest()[-1] % 2


class _Row(NamedTuple):
    question: str
    answer: str
    groups: frozenset[str]  # rows that have one in common ask the same, or may do so


def _items(pictures: Mapping[str, Sequence[_Row]], paths: Mapping[str, Path]) -> list[AskedItem]:
    """Every question with those that share its answer: rewordings only where ``groups`` says so."""
    made = []
    for picture, rows in pictures.items():
        for row in rows:
            same = [other for other in rows if other.answer == row.answer and _differ(other, row)]
            others = [other.question for other in same if not row.groups & other.groups]
            reworded = [other.question for other in same if row.groups & other.groups]
            contradicting = [
                (other.question, other.answer)
                for other in rows
                if other.answer != row.answer and not row.groups & other.groups
            ]
            made.append(
                AskedItem(
                    *(picture, paths[picture], row.question, row.answer),
                    *(tuple(dict.fromkeys(reworded)), tuple(dict.fromkeys(others))),
                    contradicting[0] if contradicting else None,
                )
            )
    return made


def _differ(row: _Row, other: _Row) -> bool:
    return normal(row.question) != normal(other.question)


def _rad(data: Path, half: int) -> list[AskedItem]:
    groups: dict[str, dict[tuple[str, str], set[str]]] = defaultdict(lambda: defaultdict(set))
    for row in json.loads((data / "vqa_rad_public.json").read_text()):
        for column in ("question", "question_rephrase"):
            text = str(row.get(column) or "")
            if _half(row["image_name"]) == half and normal(text) not in ("", "null"):
                key = text, normal(str(row["answer"]))
                groups[row["image_name"]][key].add(row["qid_linked_id"])
    pictures = {
        name: [_Row(text, answer, frozenset(ids)) for (text, answer), ids in rows.items()]
        for name, rows in groups.items()
    }
    return _items(pictures, {name: data / "images" / name for name in pictures})


def _slake(data: Path, half: int) -> list[AskedItem]:
    pictures: dict[str, list[_Row]] = defaultdict(list)
    paths: dict[str, Path] = {}
    for split in ("train", "validate", "test"):
        for row in json.loads((data / f"official_{split}.json").read_text(encoding="utf-8")):
            name = row["img_name"].partition("/")[0]
            if row["q_lang"] == "en" and _half(row["img_name"]) == half:
                kind = frozenset({row["content_type"]})
                pictures[name].append(_Row(row["question"], normal(str(row["answer"])), kind))
                paths[name] = data / "images" / f"{name}.jpg"
    return [item._replace(reworded=()) for item in _items(pictures, paths)]


def _med(data: Path, half: int) -> list[AskedItem]:
    """One question of each of four kinds; few have an answer in common."""
    pictures: dict[str, list[_Row]] = defaultdict(list)
    for split in ("train", "val"):
        for line in (data / f"All_QA_Pairs_{split}.txt").read_text(errors="replace").splitlines():
            name, question, answer = line.split("|")
            if _half(name) == half:
                kind = frozenset({str(len(pictures[name]))})
                pictures[name].append(_Row(question, normal(answer), kind))
    found = {path.stem: path for path in data.glob("*_images/*")}
    missing = dict.fromkeys(pictures, Path())
    return [
        item._replace(path=found.get(item.picture))
        for item in _items(pictures, missing)
        if item.others
    ]


def _written(half: int, other: int) -> list[AskedItem]:
    """Yes-or-no questions alternate with others, so that halves are of pairs."""
    return [
        AskedItem(
            *(str(place), None, record["text"], record["answer"]),
            *((record["reworded"],), (record["others"][other],), None),
        )
        for place, record in enumerate(DATA["pictured"])
        if place // 2 % 2 == half
    ]


def _scenes(folder: Path, half: int) -> list[AskedItem]:
    made = []
    for seed in SCENES[half]:
        place = folder / f"scenes-{seed}"
        if not place.exists():
            write_benchmark(place, images=40, seed=seed)
        pictures: dict[str, list[_Row]] = defaultdict(list)
        for line in (place / "test.jsonl").read_text().splitlines():
            row = json.loads(line)
            pictures[row["image"]].append(
                _Row(row["question"], normal(str(row["answer"])), frozenset({row["id"]}))
            )
        items = _items(pictures, {name: place / name for name in pictures})
        made += [item._replace(picture=f"{seed}-{item.picture}") for item in items]
    return made


def report_small(folder: Path, given: argparse.Namespace, settings: dict[str, Any]) -> None:
    rules = {name: chosen for name, chosen in RULES.items() if given.rows in name}
    print("\n| pairs beside the own picture, with the answer | of | " + " | ".join(rules) + " |")
    print("|---|--:|" + "--:|" * len(rules))
    for half, title in enumerate(("settling", "reported")):
        sets = asked_items(given.shared, half, folder)
        by_size: dict[tuple[bool, int], list[list[str]]] = defaultdict(list)
        for name, items in sets.items():
            verdicts: dict[bool, list[list[str]]] = {True: [], False: []}
            for size, benchmark in _benchmarks(items):
                for right, found in _judged(folder, benchmark, list(rules.values()), settings):
                    verdicts[right].append(found)
                    by_size[right, size].append(found)
            for right, kind in ((True, "rewordings"), (False, "different questions")):
                if verdicts[right]:
                    print(f"| {title}: {name}, {kind} | {_cells(verdicts[right])} |", flush=True)
        for right, kind in ((True, "rewordings"), (False, "different questions")):
            for size in SIZES:
                cells = _cells(by_size[right, size])
                print(f"| {title}: benchmarks of {size}, {kind} | {cells} |", flush=True)


def _cells(found: Sequence[Sequence[str]]) -> str:
    """For each rule the share that is called a rewording, and in brackets what is called a possible one."""
    columns = []
    for verdicts in zip(*found, strict=True):
        hits, possible = (
            sum(verdict == name for verdict in verdicts) for name in ("sure", "possible")
        )
        low, high, *_ = binomial_interval(hits, len(verdicts))
        share = f"{hits / len(verdicts):.3f} [{low:.3f}, {high:.3f}]"
        columns.append(f"{share}, possible {possible / len(verdicts):.3f}" if possible else share)
    return " | ".join([f"{len(found):,}", *columns])


def _benchmarks(items: Sequence[AskedItem]) -> Iterator[tuple[int, list[AskedItem]]]:
    """Small benchmarks of one item a picture, those with something beside them to find or to refuse."""
    for size in SIZES:
        draw = random.Random(size)
        shuffled = draw.sample(list(items), len(items))
        shuffled.sort(
            key=lambda item: not item.reworded
        )  # stable: rewordings first, where a set has any
        single = {item.picture: item for item in reversed(shuffled) if item.reworded or item.others}
        chosen = draw.sample(list(single.values()), len(single))[:_DRAWN]
        for first in range(0, len(chosen) - size + 1, size):
            yield size, chosen[first : first + size]


def _judged(
    folder: Path,
    benchmark: Sequence[AskedItem],
    rules: Sequence[Mapping[str, Any]],
    settings: Mapping[str, Any],
) -> Iterator[tuple[bool, list[str]]]:
    """For every pair beside a picture, is it a rewording, and what each rule calls it: sure, possible or nothing."""
    here = folder / "small"
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    rows, corpus = [], []
    for place, item in enumerate(benchmark):
        path = here / f"{place}{item.path.suffix if item.path else '.png'}"
        if item.path is not None:
            shutil.copyfile(item.path, path)
        else:
            noise = np.random.default_rng(place).integers(0, 256, (96, 96, 3), np.uint8)
            Image.fromarray(noise).resize((256, 256)).save(path)
        shown = {"image": path.name}
        rows.append({"id": str(place), **shown, "question": item.question, "answer": item.answer})
        beside = [
            (f"same|{place}", text, item.answer) for text in item.reworded[:1] if place % 2 == 0
        ]
        beside += [
            (f"other|{place}|{number}", text, item.answer)
            for number, text in enumerate(item.others[:_OTHERS])
        ]
        beside += [(f"no|{place}", *item.contradicting)] if item.contradicting else []
        corpus += [
            {"id": name, **shown, "question": text, "answer": answer}
            for name, text, answer in beside
        ]
    for name, records in (("bench", rows), ("corpus", corpus)):
        lines = "".join(json.dumps(record) + "\n" for record in records)
        (here / f"{name}.jsonl").write_text(lines)
    found: list[dict[str, str]] = []
    for rule in rules:
        result = heldout.overlap(
            here / "bench.jsonl",
            against=f"corpus={here / 'corpus.jsonl'}",
            run=here / "run",
            exact=True,  # the pictures are equal files
            workers=1,
            quiet=True,
            **{**settings, **rule},
        )
        counted = result.run.frame("text_matches").filter(
            (pl.col("relation") == PARAPHRASE) & (pl.col("degree") != "none")
        )
        verdicts = {}
        for item_id, there, evidence in counted.select(
            "benchmark_id", "corpus_id", "evidence"
        ).iter_rows():
            if there.split("|")[1] == item_id:
                possible = json.loads(evidence)["reading"].get(DOUBTFUL_REWORDING, False)
                verdicts[there] = "possible" if possible else "sure"
        found.append(verdicts)
    for row in corpus:
        kind = row["id"].partition("|")[0]
        if kind != "no":
            yield kind == "same", [verdicts.get(row["id"], "") for verdicts in found]


def print_prior(folder: Path, given: argparse.Namespace, settings: dict[str, Any]) -> None:
    """Of different questions with the same answer beside one picture, the share that is so near: the mean of the
    sets that settle, in other words and in the same frame."""
    encoder = open_text_encoder(settings.get("text_reader", "bge-small"))
    shares: dict[bool, list[list[float]]] = {False: [], True: []}
    sets = asked_items(given.shared, 0, folder)
    sets["written"] = sets.pop("written, same template") + sets.pop("written, other words")
    for items in sets.values():
        pairs = sorted(
            {
                min((item.question, other), (other, item.question))
                for item in items
                for other in item.others
                if _read(item.question, other)
            }
        )
        texts = sorted(set(itertools.chain.from_iterable(pairs)))
        row = dict(zip(texts, encoder.embed(texts), strict=True))
        for framed in shares:
            cosines = np.asarray([row[a] @ row[b] for a, b in pairs if same_frame(a, b) == framed])
            if len(cosines) >= _LEAST:
                shares[framed].append([float((cosines >= bound).mean()) for bound in GRID])
    print(f"\n{encoder.identity}, cosines of {GRID[0]:.2f} to {GRID[-1]:.2f}:")
    for framed, name in ((False, "in other words"), (True, "in the same frame")):
        mean = np.mean(shares[framed], axis=0)
        print(f"  {name}, {len(shares[framed])} sets:", ", ".join(f"{share:.3f}" for share in mean))


def _read(text: str, other: str) -> bool:
    """May the pair count at all?"""
    wording = compare_wording(text, other)
    alike = Levenshtein.normalized_similarity(mask(text), mask(other)) >= TEMPLATE
    return (
        wording not in (SAME, RENUMBERED)
        and not (wording == OTHER and alike)
        and not other_subject(text, other)
        and same_amounts(text, other)
    )
