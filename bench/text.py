"""Text passes against datasketch (and rensa) on the same texts, one run, one table.

    .venv/bin/python bench/text.py --shared ../shared/data

Benchmark: the distinct questions of PathVQA's test split. Documents: questions of PathVQA train and
validation, VQA-RAD, SLAKE and VQA-Med, paragraphs of the open-access articles cut to caption length,
and for one benchmark question in ten a copy with a few keystrokes changed. All of it real text, in the
published profile, all of it given to every side.

Near pass: pairs with normalised Levenshtein similarity of at least .90. datasketch: MinHash with 256
permutations of character 3-grams, LSH at Jaccard .50, candidates confirmed with the same rapidfuzz
call as ours. Recall is against all pairs computed by brute force. Wall-clock seconds on one core,
index built inside the time, best of --repeats, alternating. The n-gram pass: documents a second on
one process and on two, from texts in memory (and per second of CPU time, which a busy machine changes
least), and from a JSON Lines file through the whole scan.
Writes bench/out/text.json.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import random
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import Levenshtein

from heldout.benchmark import Benchmark, Example, parse_source, read_examples
from heldout.corpus import open_corpus
from heldout.engine import open_engine
from heldout.overlap.texts.edits import SHORTEST, SIMILAR, EditIndex, NgramIndex
from heldout.overlap.texts.index import TextSearch, build_text_index
from heldout.overlap.texts.normalise import WordBatch, published
from heldout.overlap.texts.scan import scan_text_shard
from heldout.store import Dropped

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "text.json"
PERMUTATIONS, JACCARD = 256, 0.50
CAPTION = 400  # characters of a paragraph that stand for a caption
Pairs = set[tuple[int, int]]


def questions(path: str) -> list[str]:
    found = (one for one in read_examples(parse_source(path)) if not isinstance(one, Dropped))
    return [example.question or "" for example in found]


def paragraphs(shared: Path) -> Iterator[str]:
    for path in sorted((shared / "pmc_articles").rglob("*ml")):
        for element in ElementTree.parse(path).getroot().iter("p"):
            text = " ".join("".join(element.itertext()).split())
            for start in range(0, len(text), CAPTION):
                yield text[start : start + CAPTION]


def edited(text: str, draw: random.Random) -> str:
    """Up to one keystroke in twelve changed."""
    letters = list(text)
    for _ in range(draw.randint(1, max(1, len(letters) // 12))):
        place = draw.randrange(len(letters))
        letters[place : place + 1] = draw.choice([[], [letters[place], "e"], ["x"]])
    return "".join(letters) or text


def texts(shared: Path) -> tuple[list[str], list[str]]:
    ours = sorted(
        {published(one) for one in questions(str(shared / "pathvqa/pvqa_test.json"))} - {""}
    )
    documents = [
        one
        for name in (
            "pathvqa/pvqa_train.json",
            "pathvqa/pvqa_val.json",
            "vqa_rad/vqa_rad_public.json",
            "slake/official_train.json",
            "slake/official_validate.json",
            "vqa_med_2019/All_QA_Pairs_train.txt",
        )
        for one in questions(str(shared / name))
    ]
    documents += paragraphs(shared)
    draw = random.Random(0)
    documents += [edited(text, draw) for text in ours[::10]]
    draw.shuffle(documents)
    return ours, [text for text in map(published, documents) if text]


def near_by_heldout(ours: Sequence[str], documents: Sequence[str]) -> Pairs:
    index = EditIndex(ours)
    found: Pairs = set()
    for first in range(0, len(documents), 4096):
        part = index.find(documents[first : first + 4096])
        found |= {(near.text, near.document + first) for near in part}
    return found


def confirmed(
    ours: Sequence[str], documents: Sequence[str], candidates: Sequence[tuple[int, int]]
) -> Pairs:
    scores = process.cpdist(
        [ours[a] for a, _ in candidates],
        [documents[b] for _, b in candidates],
        scorer=Levenshtein.normalized_similarity,
        score_cutoff=SIMILAR,
    )
    return {pair for pair, score in zip(candidates, scores, strict=True) if score >= SIMILAR}


def grams(text: str) -> set[str]:
    return {text[k : k + 3] for k in range(max(1, len(text) - 2))}


def near_by_datasketch(ours: Sequence[str], documents: Sequence[str]) -> Pairs:
    datasketch: Any = importlib.import_module("datasketch")

    def signature(text: str) -> Any:
        found = datasketch.MinHash(num_perm=PERMUTATIONS)
        found.update_batch([gram.encode() for gram in grams(text)])
        return found

    lsh = datasketch.MinHashLSH(threshold=JACCARD, num_perm=PERMUTATIONS)
    for number, text in enumerate(ours):
        lsh.insert(number, signature(text))
    candidates = [
        (key, number) for number, text in enumerate(documents) for key in lsh.query(signature(text))
    ]
    return confirmed(ours, documents, candidates)


def near_by_rensa(ours: Sequence[str], documents: Sequence[str]) -> Pairs:
    """Bands as datasketch chooses them for .50 and 256: 42 of 6 rows, here 64 of 4, which finds more."""
    rensa: Any = importlib.import_module("rensa")

    def signature(text: str) -> Any:
        found = rensa.RMinHash(num_perm=PERMUTATIONS, seed=0)
        found.update(list(grams(text)))
        return found

    lsh = rensa.RMinHashLSH(threshold=JACCARD, num_perm=PERMUTATIONS, num_bands=64)
    for number, text in enumerate(ours):
        lsh.insert(number, signature(text))
    candidates = [
        (key, number) for number, text in enumerate(documents) for key in lsh.query(signature(text))
    ]
    return confirmed(ours, documents, candidates)


def all_pairs(ours: Sequence[str], documents: Sequence[str]) -> Pairs:
    """Brute force over distinct documents."""
    distinct = sorted(set(documents))
    where: dict[str, list[int]] = {}
    for number, text in enumerate(documents):
        where.setdefault(text, []).append(number)
    found: Pairs = set()
    for first in range(0, len(distinct), 1000):
        part = distinct[first : first + 1000]
        scores = process.cdist(
            ours, part, scorer=Levenshtein.normalized_similarity, score_cutoff=SIMILAR, workers=2
        )
        for a, b in zip(*np.nonzero(scores >= SIMILAR), strict=True):
            if len(ours[a]) >= SHORTEST:
                found |= {(int(a), number) for number in where[part[b]]}
    return found


def seconds(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    value = work()
    return time.perf_counter() - begun, value


def near_pass(ours: list[str], documents: list[str], repeats: int) -> dict[str, Any]:
    truth = all_pairs(ours, documents)
    sides: dict[str, Callable[[Sequence[str], Sequence[str]], Pairs]] = {
        "heldout": near_by_heldout,
        "datasketch": near_by_datasketch,
    }
    if importlib.util.find_spec("rensa") is not None:
        sides["rensa"] = near_by_rensa
    best: dict[str, float] = {}
    recall: dict[str, float] = {}
    for _ in range(repeats):
        for name, side in sides.items():
            spent, found = seconds(lambda side=side: side(ours, documents))  # type: ignore[misc]
            best[name] = min(spent, best.get(name, np.inf))
            recall[name] = len(found & truth) / len(truth)
    rows = {
        name: {
            "seconds": spent,
            "documents_per_second": len(documents) / spent,
            "recall": recall[name],
            "times_as_slow_as_heldout": spent / best["heldout"],
        }
        for name, spent in best.items()
    }
    return {"texts": len(ours), "documents": len(documents), "pairs": len(truth), "sides": rows}


def count_grams(index: NgramIndex, documents: Sequence[str]) -> int:
    found = 0
    for first in range(0, len(documents), 1024):
        found += len(index.find(WordBatch.of(documents[first : first + 1024])))
    return found


class CountGrams:
    """Picklable: a worker gets the index with its part of the documents."""

    def __init__(self, index: NgramIndex) -> None:
        self.index = index

    def __call__(self, documents: list[str]) -> int:
        return count_grams(self.index, documents)


def ngram_pass(ours: list[str], documents: list[str], copies: int, repeats: int) -> dict[str, Any]:
    index = NgramIndex(ours)
    many = documents * copies
    parts = [many[first : first + 20_000] for first in range(0, len(many), 20_000)]
    one = two = cpu = np.inf
    with open_engine("local", 2) as engine:
        list(engine.map(CountGrams(index), [parts[0][:10]] * 4))  # workers are up before the clock
        for _ in range(repeats):
            begun = time.process_time()
            one = min(one, seconds(lambda: count_grams(index, many))[0])
            cpu = min(cpu, time.process_time() - begun)
            two = min(two, seconds(lambda: list(engine.map(CountGrams(index), parts)))[0])
    return {
        "documents": len(many),
        "mean_characters": float(np.mean([len(text) for text in documents])),
        "documents_per_cpu_second": len(many) / cpu,
        "documents_per_second_one_process": len(many) / one,
        "documents_per_second_two_processes": len(many) / two,
    }


def whole_scan(ours: list[str], documents: list[str], copies: int) -> dict[str, Any]:
    """exact, n-gram and edit passes over a JSON Lines file, reading included, on one core."""
    examples = tuple(Example(id=str(k), question=text) for k, text in enumerate(ours))
    index, _ = build_text_index(Benchmark("bench", examples), TextSearch())
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "documents.jsonl")
        with path.open("w") as file:
            for number, text in enumerate(documents * copies):
                file.write(json.dumps({"id": number, "question": text, "answer": "yes"}) + "\n")
        corpus = open_corpus(path)
        shard = next(iter(corpus.shards()))
        spent, _ = seconds(lambda: sum(1 for _ in corpus.read(shard)))
        rows["reading alone"] = len(documents) * copies / spent
        spent, result = seconds(lambda: scan_text_shard(index, corpus, shard))
        rows["reading and all passes but embedding"] = len(documents) * copies / spent
    return {"documents_per_second": rows, "matches": result.tables["text_matches"].num_rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--documents", type=int, default=None, help="only so many of them")
    parser.add_argument("--copies", type=int, default=4, help="repeat the documents, n-gram pass")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--skip-near", action="store_true", help="only the n-gram pass and the scan"
    )
    options = parser.parse_args()
    ours, every = texts(options.shared)
    documents = every[: options.documents]
    print(f"{len(ours):,} benchmark texts, {len(documents):,} documents")
    results: dict[str, Any] = {}
    if not options.skip_near:
        results["near"] = near_pass(ours, documents, options.repeats)
    for name, row in results.get("near", {}).get("sides", {}).items():
        print(
            f"near  {name:<11}{row['seconds']:8.2f} s {row['documents_per_second']:9,.0f} documents/s"
            f"  recall {row['recall']:.4f}  {row['times_as_slow_as_heldout']:5.1f}x"
        )
    captions = [text for text in every if len(text) >= CAPTION // 2]
    for name, some in (("ngram", documents), ("ngram_captions", captions)):
        results[name] = found = ngram_pass(ours, some, options.copies, options.repeats)
        print(
            f"n-gram pass, documents of {found['mean_characters']:.0f} characters: "
            f"{found['documents_per_cpu_second']:,.0f} per CPU second, "
            f"{found['documents_per_second_one_process']:,.0f}/s on one process, "
            f"{found['documents_per_second_two_processes']:,.0f}/s on two"
        )
    results["scan"] = scanned = whole_scan(ours, documents, 1)
    for name, rate in scanned["documents_per_second"].items():
        print(f"JSON Lines, one core, {name}: {rate:,.0f} documents/s")
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
