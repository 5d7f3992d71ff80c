"""Words in the quality table: the whole of `heldout overlap --text` on sets whose truth is known.

An item is right if its own rewording is among what was found for it; every other counted item is wrong. Of a set the
search always sees both halves, and the figures are of one.
"""

from __future__ import annotations

import csv
import hashlib
import json
import os
import resource
import shutil
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from quality_figures import LOWER, NEITHER, Figure, share

Row = dict[str, Any]
PARALLEL_TEXT = ("rewording", "same", "translation")  # what counts as leaked in a truth file
SETS = {  # the slowest first
    "gsm8k_reworded": "GSM8K reworded among its train split, an eighth of both",
    "gsm_plus_siblings": "GSM-Plus, siblings alone: nothing leaked",
    "gsm_plus": "GSM-Plus reworded among siblings, no answers",
    "gsm_plus_answers": "GSM-Plus reworded among siblings, with answers",
    "mmlu_reworded_answers": "MMLU reworded, with answers",
    "mmlu_reworded": "MMLU reworded, no answers",
    "humaneval_reworded": "HumanEval rewritten",
}
# Quiet, one process: CPU is counted, and sets run beside each other.
OPTIONS = ("--text", "--workers", "1", "--quiet", "--json")
# Programs are read by what the extra "text" brings; the suite's environment has a slower reader beside it.
AS_INSTALLED = {"humaneval_reworded": ("--text-reader", "bge-small")}
DRAWN, EVERY = {"gsm8k_reworded"}, 8  # every eighth item and text, to save time
ONE_THREAD = {"OMP_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1", "OPENCV_FOR_THREADS_NUM": "1"}


@dataclass(frozen=True)
class Search:
    """What a search said: items with the texts found for them, the status of its claim, CPU seconds."""

    run: Path
    found: Mapping[str, frozenset[str]]
    status: str
    seconds: float


@dataclass(frozen=True)
class Truth:
    """Of every item its half, and the texts that are the same question; ``beside``: texts that are others."""

    halves: Mapping[str, int]
    leaked: Mapping[str, frozenset[str]]
    beside: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def items(self, half: int) -> list[str]:
        return [item for item, place in self.halves.items() if place == half]

    def of(self, items: Sequence[str]) -> Truth:
        """Of these items alone."""
        parts = (
            {item: each[item] for item in items if item in each}
            for each in (self.leaked, self.beside)
        )
        return Truth({item: self.halves[item] for item in items}, *parts)


def half_of(name: str) -> int:
    """0 settles, 1 is reported; for sets that do not say it themselves, by a digest of what a pair is made of."""
    return int(hashlib.sha256(name.encode()).hexdigest()[:6], 16) % 2


def read_truth(path: Path) -> Truth:
    halves: dict[str, int] = {}
    pairs: tuple[defaultdict[str, set[str]], ...] = (defaultdict(set), defaultdict(set))
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            item = row["benchmark_id"]
            halves[item] = int(row["half"])
            if row["truth"] != "nothing":
                pairs[row["truth"] not in PARALLEL_TEXT][item].add(row["corpus_id"])
    leaked, beside = ({key: frozenset(texts) for key, texts in each.items()} for each in pairs)
    return Truth(halves, leaked, beside)


def heldout(
    *words: str | Path, allowed: Sequence[int] = (0, 1), one_thread: bool = True
) -> tuple[str, float, int]:
    """Standard output, CPU seconds and exit code of a command, as a user would run it."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "heldout", *map(str, words)]
    threads = ONE_THREAD if one_thread else {}
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | threads)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if done.returncode not in allowed:
        raise RuntimeError(f"heldout {' '.join(command[3:])}\n{done.stderr[-2000:]}")
    return done.stdout, seconds, done.returncode


def search(
    benchmark: Path | str,
    corpus: Path | str,
    out: Path,
    options: Sequence[str] = (),
    rows: Callable[[Row], bool] = lambda _: True,
) -> Search:
    """``rows``: which of the matches are asked for."""
    shutil.rmtree(
        out, ignore_errors=True
    )  # what an earlier run finished would not be done, nor counted, again
    words = ("overlap", str(benchmark), "--against", f"c={corpus}", "--out", out)
    printed, seconds, _ = heldout(*words, *OPTIONS, *options)
    status = next(c["status"] for c in json.loads(printed)["claims"] if c["id"] == "text/c")
    found: defaultdict[str, set[str]] = defaultdict(set)
    for row in counted_matches(out):
        if rows(row):
            found[row["benchmark_id"]].add(row["corpus_id"].split("/")[-1].split("#")[0])
    return Search(out, {item: frozenset(texts) for item, texts in found.items()}, status, seconds)


def counted_matches(run: Path) -> Iterable[Row]:
    """The text matches that count as leaked, whatever found them."""
    matches = pq.read_table(run / "tables/text_matches.parquet").to_pylist()
    return [row for row in matches if row["degree"] != "none" and row["method"] != "provenance"]


def figures_of(name: str, searched: Search, truth: Truth, half: int) -> list[Figure]:
    """Recall, precision, items wrongly counted, the claim's status and CPU seconds."""
    items = truth.items(half)
    leaked = [item for item in items if item in truth.leaked]
    others = [item for item in items if item not in truth.leaked]

    def is_right(item: str) -> bool:
        return bool(searched.found.get(item, frozenset()) & truth.leaked.get(item, frozenset()))

    figures = []
    if leaked:
        figures.append(share("words", name, "recall", [is_right(item) for item in leaked]))
        right = [is_right(item) for item in items if item in searched.found]
        figures.append(share("words", name, "precision", right, chosen=True))
    if others:
        wrong = [item in searched.found for item in others]
        figures.append(share("words", name, "wrong items", wrong, LOWER))
    seconds = Figure("words", name, "CPU of both halves", searched.seconds, "s", LOWER)
    return [*figures, said("words", name, searched.status), seconds]


def said(section: str, name: str, status: str) -> Figure:
    return Figure(section, name, "claim", None, better=NEITHER, said=status)


def read_rows(path: Path) -> list[Row]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write_rows(path: Path, rows: Iterable[Row]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


# The sets


def shared_set(
    shared: Path, out: Path, half: int, name: str, options: Sequence[str]
) -> list[Figure]:
    folder = shared / "quality/words" / name
    benchmark, corpus = folder / "bench.jsonl", folder / "corpus.jsonl"
    truth = read_truth(folder / "truth.tsv")
    if name in DRAWN:
        items = read_rows(benchmark)[::EVERY]
        truth = truth.of([row["id"] for row in items])
        mine = frozenset().union(*truth.leaked.values())
        others = [row for row in read_rows(corpus) if not row["id"].startswith("r")][::EVERY]
        texts = [row for row in read_rows(corpus) if row["id"] in mine] + others
        benchmark = write_rows(out / f"drawn/{name}/bench.jsonl", items)
        corpus = write_rows(out / f"drawn/{name}/corpus.jsonl", texts)
    options = (*AS_INSTALLED.get(name, ()), *options)
    return figures_of(SETS[name], search(benchmark, corpus, out / name, options), truth, half)


def clean_problems(shared: Path, out: Path, half: int, options: Sequence[str]) -> list[Figure]:
    """GSM8K's test items against its own train split: other problems of the same authors."""
    folder = shared / "quality/words/gsm8k_reworded"
    truth = read_truth(folder / "truth.tsv")
    reworded = frozenset().union(*truth.leaked.values())
    texts = [row for row in read_rows(folder / "corpus.jsonl") if row["id"] not in reworded]
    items = read_rows(folder / "bench.jsonl")[::EVERY]
    place = out / "clean_problems"
    corpus = write_rows(place / "corpus.jsonl", texts[::EVERY])
    searched = search(write_rows(place / "bench.jsonl", items), corpus, place / "run", options)
    alone = Truth(truth.of([row["id"] for row in items]).halves, {})
    return figures_of("GSM8K against its train split, an eighth of both", searched, alone, half)


def linked(
    shared: Path, out: Path, half: int, options: Sequence[str], pictures: bool
) -> list[Figure]:
    """VQA-RAD's usual split: test questions that a training question on the same picture rewords, as its authors linked
    them, with the same answer. Halves are of pictures. Verbatim questions are not counted: every test picture is a
    training picture, and usual questions are asked of many."""
    data = shared / "data/vqa_rad"
    groups: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for row in json.loads((data / "vqa_rad_public.json").read_text("utf-8")):
        for column in ("question", "question_rephrase", "question_frame"):
            text = plain(row.get(column))
            if text and text != "null":
                groups[row["image_name"], text].add(row["qid_linked_id"])
    sides = {
        side: json.loads((data / f"mevf_{side}set.json").read_text("utf-8"))
        for side in ("test", "train")
    }
    asked = {side: [ours(row, pictures) for row in rows] for side, rows in sides.items()}
    by_picture: defaultdict[str, list[Row]] = defaultdict(list)
    for raw, row in zip(sides["train"], asked["train"], strict=True):
        by_picture[raw["image_name"]].append(row)
    halves, leaked = {}, {}
    for raw, row in zip(sides["test"], asked["test"], strict=True):
        image, question = raw["image_name"], plain(row["question"])
        halves[row["id"]] = half_of(image)
        same = {
            other["id"]
            for other in by_picture[image]
            if plain(other["question"]) != question
            and plain(other["answer"]) == plain(row["answer"])
            and groups[image, question] & groups[image, plain(other["question"])]
        }
        if same:
            leaked[row["id"]] = frozenset(same)
    kind = "pictures" if pictures else "words"
    paths = {side: write_rows(out / f"linked_{kind}/{side}.jsonl", asked[side]) for side in asked}
    verbatim = {
        (row["id"], other["id"])
        for raw, row in zip(sides["test"], asked["test"], strict=True)
        for other in by_picture[raw["image_name"]]
        if plain(other["question"]) == plain(row["question"])
    }
    run = out / f"linked_{kind}/run"
    if pictures:  # a table names pictures below its own folder
        shutil.copytree(data / "images", run.parent / "images", dirs_exist_ok=True)
    searched = search(
        paths["test"],
        paths["train"],
        run,
        ("--exact", *options) if pictures else options,
        lambda row: (
            row["relation"].startswith("paraphrase")
            and (row["benchmark_id"], row["corpus_id"]) not in verbatim
        ),
    )
    name = f"VQA-RAD's linked rewordings, {'with' if pictures else 'without'} pictures"
    truth = Truth(halves, leaked)
    figures = figures_of(name, searched, truth, half)
    if pictures:
        clean = out / "linked_pictures/clean"
        shutil.rmtree(clean, ignore_errors=True)
        words = ("sanitize", paths["test"], "--run", run, "--out", clean, "--policy", "full")
        heldout(*words, "--quiet")
        kept = {row["id"] for row in read_rows(next(clean.rglob("*.jsonl")))}
        left = [item in kept for item in truth.items(half) if item in leaked]
        figures.insert(2, share("words", name, "left by sanitize --policy full", left, LOWER))
    return figures


def ours(row: Row, pictures: bool) -> Row:
    shown = {"image": f"images/{row['image_name']}"} if pictures else {}
    return {
        "id": f"q{row['qid']}",
        "question": row["question"],
        "answer": str(row["answer"]),
    } | shown


def plain(value: Any) -> str:
    """Words alone, for reading the authors' links; independent of what the search does."""
    text = "".join(c if c.isalnum() else " " for c in str(value or "").casefold())
    return " ".join(text.split())


def translated(
    shared: Path, out: Path, half: int, options: Sequence[str], among: bool
) -> list[Figure]:
    """SLAKE's English test questions against the Chinese ones of the same pictures, words alone: whether or not they
    are found, the claim may not say that nothing is there. ``among``: a tenth of them in Chinese among PathVQA's
    English questions."""
    rows = json.loads((shared / "data/slake/official_test.json").read_text("utf-8"))
    asked = {
        language: [
            {"id": f"{language}{row['qid']}", "question": row["question"], "answer": row["answer"]}
            for row in rows
            if row["q_lang"] == language
        ]
        for language in ("en", "zh")
    }
    corpus = asked["zh"]
    name = "SLAKE English against Chinese"
    if among:
        name = "SLAKE English against 100 Chinese among 6,279 English texts"
        pages = json.loads((shared / "data/pathvqa/pvqa_val.json").read_text("utf-8"))
        others = [
            (question, next(iter(answer)))
            for each in pages
            for question, answer in zip(each["sentf"]["pvqa"], each["labelf"]["pvqa"], strict=True)
        ]
        texts = [
            {"id": f"p{place}", "question": question, "answer": answer}
            for place, (question, answer) in enumerate(others)
        ]
        corpus = corpus[:: len(corpus) // 100][:100] + texts
    folder = out / f"translated_{'among' if among else 'alone'}"
    benchmark = write_rows(folder / "bench.jsonl", asked["en"])
    searched = search(
        benchmark, write_rows(folder / "corpus.jsonl", corpus), folder / "run", options
    )
    quiet = searched.status in ("clean", "nothing found")
    items = [
        f"en{row['qid']}"
        for row in rows
        if row["q_lang"] == "en" and half_of(row["img_name"]) == half
    ]
    return [
        Figure("words", name, "said that nothing is there", float(quiet), better=LOWER),
        share("words", name, "items counted", [item in searched.found for item in items], NEITHER),
        said("words", name, searched.status),
        Figure("words", name, "CPU of both halves", searched.seconds, "s", LOWER),
    ]
