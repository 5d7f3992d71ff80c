"""Pictures in the quality table: what the judge says of pairs whose truth is known, and what a whole scan costs.

A pair is a copy, a copy in part (a mark, an edit, another thing somewhere), undecided, or no copy. Copies and marked
copies are to be found, decoys and other pictures are not to be taken for copies.
"""

from __future__ import annotations

import csv
import fcntl
import hashlib
import json
import random
import shutil
import subprocess
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from PIL import Image

from quality_figures import HIGHER, LOWER, NEITHER, Figure, share
from quality_words import half_of, heldout, write_rows

WORDS = COPY, PARTLY, UNDECIDED, NOT = "copy", "in part", "undecided", "not"
PER = 3  # copies of each transform that make_pairs.py draws; the rest in proportion
Judge = Callable[[Image.Image, Image.Image], str]


@dataclass(frozen=True)
class Pair:
    query: Path
    candidate: Path
    truth: str
    kind: str
    half: int


@dataclass(frozen=True)
class Judged:
    pair: Pair
    said: str
    milliseconds: float


def read_pairs(path: Path, half: int) -> list[Pair]:
    with path.open(encoding="utf-8") as file:
        rows = csv.DictReader(file, delimiter="\t")
        return [
            Pair(
                path.parent / row["query"],
                path.parent / row["candidate"],
                row["truth"],
                row["kind"],
                half,
            )
            for row in rows
            if int(row["half"]) == half
        ]


def make_pairs(shared: Path, out: Path) -> Path:
    """Copies, marked copies, decoys and nearest others of real pictures, made once for a checkout."""
    table = out / f"pairs-{PER}/pairs.tsv"
    out.mkdir(parents=True, exist_ok=True)
    with (out / "pairs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one process makes them, the others wait
        if not table.exists():
            script = shared / "quality/pictures/make_pairs.py"
            command = [sys.executable, script, table.parent, "--per", str(PER)]
            subprocess.run([*map(str, command)], check=True, stdout=subprocess.DEVNULL)
    return table


def product() -> Judge:
    """The search's own verification, pair by pair."""
    from heldout.overlap.images import features, register, verify

    opened: dict[Any, Any] = {}
    looked_at: dict[Any, Any] = {}
    verify.__dict__.update(_opened=opened.__getitem__, _features=looked_at.__getitem__)

    def judge(query: Image.Image, candidate: Image.Image) -> str:
        opened["query"], looked_at["query"] = query, features.cheap_features(query)
        other = features.cheap_features(candidate)
        ref: Any = "query"
        found = verify._in_doubt(register.register(looked_at["query"], other), ref, candidate)
        if looked_at["query"].coloured and other.coloured:
            found = verify._recoloured_as_a_whole(found, ref, candidate)
        if found.is_copy:
            return COPY
        if str(found.relation) == "undecided":
            return UNDECIDED if found.reason.startswith("too ") else PARTLY
        return NOT

    return judge


def opened(path: Path) -> Image.Image:
    """On white where it is transparent."""
    picture = Image.open(path).convert("RGBA")
    return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")


def judged(pairs: Iterable[Pair], judge: Judge) -> list[Judged]:
    """Decoding is not counted, features are."""
    results = []
    for pair in pairs:
        query, candidate = opened(pair.query), opened(pair.candidate)
        start = time.process_time()
        said = judge(query, candidate)
        results.append(Judged(pair, said, 1000 * (time.process_time() - start)))
    return results


def shared_pairs(shared: Path, out: Path, half: int) -> list[Pair]:
    made = read_pairs(make_pairs(shared, out), half)
    pairs = made + read_pairs(shared / "quality/pictures/pairs.tsv", half)
    random.Random(1).shuffle(pairs)  # so that shares of the work take alike long
    return pairs


def judge_share(shared: Path, out: Path, half: int, turn: int, turns: int) -> list[Judged]:
    import cv2

    cv2.setNumThreads(1)
    return judged(shared_pairs(shared, out, half)[turn::turns], product())


GROUPS = (
    "copy",
    "marked",
    "chart drawn again",
    "decoy",
    "other",
    "chart of the same template",
    "32 px",
)


def asked_of(pair: Pair, group: str) -> tuple[str, str, frozenset[str]]:
    """What is counted of a kind of pairs, which way is better, and the words that count."""
    if pair.truth == "other":
        return "copy or in part", LOWER, frozenset({COPY, PARTLY})
    if "decoy" in group:
        return "taken for a whole copy", LOWER, frozenset({COPY})
    if group == "copy" or group.startswith("32 px"):
        return "copy", HIGHER, frozenset({COPY})
    return "copy or in part", HIGHER, frozenset({COPY, PARTLY})


def _place(group: str) -> int:
    return next((place for place, name in enumerate(GROUPS) if group.startswith(name)), len(GROUPS))


def figures_of(results: Sequence[Judged], section: str = "pictures") -> list[Figure]:
    """A row per kind, rows per transform or mark below it, and CPU milliseconds a pair."""
    groups: defaultdict[tuple[str, str, str], list[Judged]] = defaultdict(list)
    for each in sorted(results, key=lambda each: (each.pair.query.name, each.pair.candidate.name)):
        group, _, kind = each.pair.kind.partition(": ")
        if group == "32 px":
            group, kind = each.pair.kind, ""
        for part in {"", kind}:
            groups[group, each.pair.truth, part].append(each)
    figures = []
    for group, truth, part in sorted(groups, key=lambda key: (_place(key[0]), key)):
        rows = groups[group, truth, part]
        name, better, counts = asked_of(rows[0].pair, group)
        tally = Counter(each.said for each in rows)
        title = f"{group}: {part}" if part else f"all: {group}"
        if group == "chart drawn again" and truth != "copy":
            title += ", something beside it"
        said = "/".join(str(tally[word]) for word in WORDS)
        hits = [each.said in counts for each in rows]
        figures.append(share(section, title, name, hits, better, said))
        if not part:
            cost = sum(each.milliseconds for each in rows) / len(rows)
            figures.append(Figure(section, title, "CPU of a pair", cost, "ms", LOWER))
    return figures


# Whole scans


def scan(shared: Path, out: Path, half: int) -> list[Figure]:
    """VQA-RAD's pictures searched for in every third of VQA-Med's, by default: some are equal files, other near
    pictures are neighbouring slices. CPU is of the whole command, per picture of the corpus."""
    data = shared / "data"
    names = sorted(path.name for path in (data / "vqa_rad/images").iterdir())
    folder = out / "scan"
    rows = [{"id": name, "image": f"images/{name}", "question": "What is shown?"} for name in names]
    benchmark = write_rows(folder / "bench.jsonl", rows)
    shutil.copytree(data / "vqa_rad/images", folder / "images", dirs_exist_ok=True)
    corpus = folder / "corpus"
    shutil.rmtree(folder / "run", ignore_errors=True)
    corpus.mkdir(parents=True, exist_ok=True)
    for path in sorted((data / "vqa_med_2019/train_images").iterdir())[::3]:
        shutil.copy(path, corpus)
    words = ("overlap", benchmark, "--against", f"c={corpus}", "--out", folder / "run")
    _, seconds, _ = heldout(*words, "--workers", "1", "--quiet")
    matches = pq.read_table(folder / "run/tables/matches.parquet").to_pylist()
    best: dict[str, str] = {}
    for match in matches:
        word = _word(match)
        item = match["benchmark_id"]
        best[item] = min(word, best.get(item, NOT), key=WORDS.index)
    known = equal_files(data / "vqa_rad/images", corpus)
    mine = [name for name in names if half_of(name) == half]
    others = [best.get(name) for name in mine if name not in known]
    doubtful = [word in (PARTLY, UNDECIDED) for word in others]
    title = "scan: VQA-RAD in a third of VQA-Med 2019"
    count = sum(1 for _ in corpus.iterdir())
    return [
        share(
            "pictures",
            title,
            "equal files found",
            [best.get(n) == COPY for n in mine if n in known],
        ),
        share("pictures", title, "others undecided or in part", doubtful, LOWER),
        share("pictures", title, "others called copies", [w == COPY for w in others], NEITHER),
        Figure("pictures", title, "CPU of a picture", 1000 * seconds / count, "ms", LOWER),
    ]


def _word(match: dict[str, Any]) -> str:
    """A row of the table of matches in the four words."""
    relation = str(match["relation"])
    if relation in ("same image", "transformed copy"):
        return COPY
    if relation == "undecided":
        reason = (json.loads(match["evidence"]).get("registration") or {}).get("reason") or ""
        return UNDECIDED if reason.startswith("too ") or not reason else PARTLY
    return NOT


def equal_files(ours: Path, theirs: Path) -> set[str]:
    digests = {hashlib.sha256(path.read_bytes()).digest() for path in theirs.iterdir()}
    return {
        path.name
        for path in ours.iterdir()
        if hashlib.sha256(path.read_bytes()).digest() in digests
    }
