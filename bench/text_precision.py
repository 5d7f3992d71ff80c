"""Precision and recall of every text method on pairs whose truth is known, and of the encoders.

    .venv/bin/python bench/text_precision.py --shared ../shared/data

Items: one question per picture of PathVQA's test split with at least eight words, each with four
options drawn from other answers. For every item the corpus holds one document of each kind below,
all real documents of VQA-RAD and SLAKE, and hard negatives: the same question with one word that
matters replaced (left for right, T2 for T1, "not" put in) and therefore another answer. A match is
right if the document was made from the item and not as a negative. Paraphrases are VQA-RAD's human
rephrasings, each question with its own answer. Intervals are Clopper–Pearson, for precision by item;
items share no picture.
Writes bench/out/text_precision.json.
"""

from __future__ import annotations

import argparse
import collections
import json
import random
import re
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import scipy.sparse
from numpy.typing import NDArray

from heldout.benchmark import Benchmark, Example, parse_source, read_examples
from heldout.corpus import open_corpus
from heldout.engine import open_engine
from heldout.overlap import TextSearch, scan, scan_texts
from heldout.overlap.texts.encoders import CROSS, READER, open_cross_encoder, open_text_encoder
from heldout.overlap.texts.index import METHODS
from heldout.overlap.texts.normalise import strict
from heldout.stats import binomial_interval, cluster_rate_interval
from heldout.store import Dropped, Run
from rewording_sets import problems, programs, questions, rewritten_programs

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "text_precision.json"
MATTERS = {
    "left": "right",
    "right": "left",
    "upper": "lower",
    "lower": "upper",
    "increased": "decreased",
    "large": "small",
    "small": "large",
    "benign": "malignant",
    "malignant": "benign",
    "lung": "liver",
    "liver": "kidney",
    "kidney": "spleen",
    "heart": "brain",
    "acute": "chronic",
    "chronic": "acute",
    "cells": "nuclei",
    "tumor": "abscess",
    "anterior": "posterior",
    "high": "low",
    "low": "high",
    "normal": "abnormal",
    "with": "without",
    "male": "female",
    "white": "red",
    "red": "white",
}
NEAREST = 20  # the published 5 would be crowded out: every item has seven copies here
Row = dict[str, Any]


def examples_of(path: Path) -> list[Example]:
    return [e for e in read_examples(parse_source(str(path))) if not isinstance(e, Dropped)]


def benchmark_items(shared: Path, count: int, draw: random.Random) -> list[Example]:
    first: dict[str, Example] = {}
    for example in examples_of(shared / "pathvqa" / "pvqa_test.json"):
        if example.question and example.answer and len(example.question.split()) >= 8:
            first.setdefault(example.images[0].name, example)
    chosen = list(first.values())[:count]
    answers = sorted({str(example.answer) for example in chosen})
    items = []
    for example in chosen:
        others = [a for a in draw.sample(answers, 8) if a != example.answer][:3]
        options = draw.sample([str(example.answer), *others], 4)
        items.append(
            Example(
                id=example.id,
                question=example.question,
                options=tuple(options),
                answer=example.answer,
            )
        )
    return items


def typos(text: str, draw: random.Random) -> str:
    """One letter in thirty swapped, dropped or doubled, at least one."""
    letters = list(text)
    for _ in range(max(1, len(letters) // 30)):
        place = draw.randrange(1, len(letters) - 1)
        kind = draw.randrange(3)
        if kind == 0:
            letters[place], letters[place - 1] = letters[place - 1], letters[place]
        else:
            letters[place] = "" if kind == 1 else letters[place] * 2
    return "".join(letters)


def other_subject(question: str) -> str | None:
    """The question with one word that matters replaced, or with a "not"; None if it has no such word."""
    words = question.split(" ")
    for place, word in enumerate(words):
        bare = re.sub(r"\W", "", word.lower())
        if bare in MATTERS:
            return " ".join(
                [*words[:place], word.lower().replace(bare, MATTERS[bare]), *words[place + 1 :]]
            )
    for place, word in enumerate(words):
        if word.lower() in ("is", "are", "does", "do", "was"):
            return " ".join([*words[: place + 1], "not", *words[place + 1 :]])
    return None


KINDS: dict[str, Callable[[Example, random.Random], Row]] = {
    "exact": lambda e, draw: {
        "question": e.question,
        "options": list(e.options),
        "answer": e.answer,
    },
    "casing, spacing, HTML": lambda e, draw: {
        "question": f"<p>{str(e.question).upper().replace(' ', '  ')}</p>",
        "options": [option.upper() for option in e.options],
        "answer": str(e.answer).upper(),
    },
    "re-ordered options": lambda e, draw: {
        "question": e.question,
        "options": list(reversed(e.options)),
        "answer": e.answer,
    },
    "numbered": lambda e, draw: {
        "question": f"{draw.randrange(2, 99)}. {e.question}",
        "answer": e.answer,
    },
    "typing errors": lambda e, draw: {
        "question": typos(str(e.question), draw),
        "options": list(e.options),
        "answer": e.answer,
    },
    "inside a page": lambda e, draw: {
        "text": f"Exam of the day. Look at the figure. {e.question} Give reasons. It is {e.answer}.",
    },
}


def rephrasings(shared: Path) -> list[tuple[str, str, str]]:
    """(question, human rephrasing, answer); no text is in two pairs."""
    seen: set[str] = set()
    pairs = []
    for row in json.loads((shared / "vqa_rad" / "vqa_rad_public.json").read_text()):
        one, other = str(row["question"]).strip(), str(row.get("question_rephrase", "NULL")).strip()
        keys = {one.lower(), other.lower()}
        if other not in ("NULL", "") and len(keys) == 2 and not keys & seen:
            seen |= keys
            pairs.append((one, other, str(row["answer"])))
    return pairs


def corpus_rows(items: Sequence[Example], shared: Path, draw: random.Random) -> list[Row]:
    rows: list[Row] = []
    for item in items:
        for kind, make in KINDS.items():
            rows.append({"id": f"{kind}|{item.id}", **make(item, draw)})
        negative = other_subject(str(item.question))
        if negative is not None:
            answer = draw.choice([option for option in item.options if option != item.answer])
            rows.append(
                {
                    "id": f"hard negative|{item.id}",
                    "question": negative,
                    "options": list(item.options),
                    "answer": answer,
                }
            )
    for name in ("vqa_rad/mevf_trainset.json", "slake/official_train.json"):
        for number, example in enumerate(examples_of(shared / name)):
            rows.append(
                {
                    "id": f"real|{name}{number}",
                    "question": example.question,
                    "answer": example.answer,
                }
            )
    draw.shuffle(rows)
    return rows


def search(
    items: Sequence[Example], rows: Sequence[Row], encoder: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """text_matches and text_queries of ``items`` against ``rows``, as `heldout overlap` has them."""
    benchmark = Benchmark("labelled", tuple(items))
    how = replace(TextSearch.installed(encoder), nearest=NEAREST)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "corpus.jsonl")
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        corpora = [open_corpus(path)]
        run = Run.create(Path(folder, "run"), command=["bench"])
        with run.writing(), open_engine("local", 1) as engine:
            scanned = scan(benchmark, corpora, run, engine, quiet=True)
            (result,) = scan_texts(
                benchmark, corpora, run, engine, how, scanned=scanned, quiet=True
            )
            if result.failed or not result.counts.get("text_documents"):
                raise SystemExit(f"the search failed: {result.failed or result.counts}")
        return run.frame("text_matches"), run.frame("text_queries")


def rate(successes: int, n: int) -> dict[str, float]:
    interval = binomial_interval(successes, n)
    return {
        "value": successes / n if n else 0.0,
        "low": interval.low,
        "high": interval.high,
        "n": n,
    }


def clustered(hits: Sequence[float], owners: Sequence[str]) -> dict[str, float]:
    """Several pairs of one item are one observation."""
    interval = cluster_rate_interval(hits, owners)
    value = float(np.mean(hits)) if hits else 0.0
    return {"value": value, "low": interval.low, "high": interval.high, "n": len(hits)}


def evaluate(
    items: Sequence[Example], matches: pl.DataFrame, rows: Sequence[Row]
) -> dict[str, Any]:
    present = collections.Counter(str(row["id"]).partition("|")[0] for row in rows)
    results: dict[str, Any] = {}
    for method in METHODS[1:]:
        here = matches.filter(pl.col("method") == method)
        row: dict[str, Any] = {}
        for title, part in (
            ("listed", here),
            ("evidence", here.filter(pl.col("degree") != "none")),
        ):
            right: collections.Counter[str] = collections.Counter()
            hits, owners = [], []
            for benchmark_id, corpus_id in (
                part.select("benchmark_id", "corpus_id").unique().iter_rows()
            ):
                kind, _, origin = corpus_id.partition("|")
                hits.append(float(kind in KINDS and origin == benchmark_id))
                owners.append(benchmark_id)
                right[kind] += int(hits[-1])
            row[title] = {
                "precision": clustered(hits, owners),
                "recall": {kind: rate(right[kind], present[kind]) for kind in KINDS},
                "hard_negatives_matched": rate(
                    part.filter(pl.col("corpus_id").str.starts_with("hard negative|"))[
                        "corpus_id"
                    ].n_unique(),
                    present["hard negative"],
                ),
            }
        results[method] = row
    return results


def paraphrases(shared: Path, encoder: str) -> dict[str, Any]:
    """How many human rephrasings each method finds, listed and as evidence."""
    pairs = rephrasings(shared)
    items = [Example(id=str(k), question=b, answer=c) for k, (_, b, c) in enumerate(pairs)]
    rows = [{"id": str(k), "question": a, "answer": c} for k, (a, _, c) in enumerate(pairs)]
    matches, _ = search(items, rows, encoder)
    found: dict[str, Any] = {"pairs": len(pairs)}
    for method in METHODS[1:]:
        here = matches.filter(pl.col("method") == method)
        right = here.filter(pl.col("benchmark_id") == pl.col("corpus_id"))
        evident, evident_right = (t.filter(pl.col("degree") != "none") for t in (here, right))
        found[method] = {
            "recall": rate(right["benchmark_id"].n_unique(), len(pairs)),
            "precision": precision(here),
            "evidence_recall": rate(evident_right["benchmark_id"].n_unique(), len(pairs)),
            "evidence_precision": precision(evident),
        }
    return found


def precision(matches: pl.DataFrame) -> dict[str, float]:
    hits = (matches["benchmark_id"] == matches["corpus_id"]).cast(pl.Float64).to_list()
    return clustered(hits, matches["benchmark_id"].to_list())


def tfidf(texts: Sequence[str]) -> Any:
    """Unit rows of character 3- to 5-grams, weighted by rarity: what an encoder has to beat."""
    vocabulary: dict[str, int] = {}
    rows, columns, values = [], [], []
    for number, text in enumerate(texts):
        padded = f" {text.lower()} "
        counted = collections.Counter(
            padded[k : k + n] for n in (3, 4, 5) for k in range(len(padded) - n + 1)
        )
        for gram, count in counted.items():
            rows.append(number)
            columns.append(vocabulary.setdefault(gram, len(vocabulary)))
            values.append(1 + np.log(count))
    matrix = scipy.sparse.csr_matrix((values, (rows, columns)))
    rarity = np.log((1 + len(texts)) / (1 + np.bincount(columns))) + 1
    matrix = matrix @ scipy.sparse.diags(rarity)
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel())
    return scipy.sparse.diags(1 / lengths) @ matrix


def reworded_sets(shared: Path) -> dict[str, tuple[list[str], list[str]]]:
    """Texts and their rewordings, in the same order."""
    human, made, code = rephrasings(shared), problems(1, 300, seed=2), programs()
    return {
        "human rephrasings": ([b for _, b, _ in human], [a for a, _, _ in human]),
        "word problems": ([p.phrasings[0] for p in made], [p.phrasings[1] for p in made]),
        "programs": ([p.text for p in code], [p.reworded for p in code]),
    }


def compare_encoders(shared: Path, names: Sequence[str]) -> dict[str, Any]:
    """Per encoder and set: own rewording first and among five, mutual nearest, and what it costs."""
    found: dict[str, Any] = {}
    for name in [*names, "character TF-IDF"]:
        encode: Callable[[list[str]], Any] = tfidf
        if name in names:
            encode = open_text_encoder(name).embed
        found[name] = {}
        for title, (ours, theirs) in reworded_sets(shared).items():
            begun = time.process_time()
            rows = encode([*ours, *theirs])
            spent = time.process_time() - begun
            scores = rows[: len(ours)] @ rows[len(ours) :].T
            scores = scores.toarray() if scipy.sparse.issparse(scores) else scores
            own: NDArray[np.float64] = np.diagonal(scores)
            better = (scores > own[:, None]).sum(axis=1)
            nearest, back = scores.argmax(axis=1), scores.argmax(axis=0)
            mutual = np.flatnonzero(back[nearest] == np.arange(len(ours)))
            found[name][title] = {
                "recall_at_1": rate(int((better == 0).sum()), len(ours)),
                "recall_at_5": rate(int((better < 5).sum()), len(ours)),
                "mutual": len(mutual),
                "mutual_right": int((nearest[mutual] == mutual).sum()),
                "texts_per_second": 2 * len(ours) / spent,
            }
    return found


def compare_readers(shared: Path, names: Sequence[str]) -> dict[str, Any]:
    """Per reader and set: is a rewording nearer to its item than the text that is easiest taken for it?

    For questions that is another from the same template, for programs a look-alike, for human rephrasings what
    `bge-small` finds nearest of the others.
    """
    human = rephrasings(shared)[::4]
    ours, theirs = [b for _, b, _ in human], [a for a, _, _ in human]
    rows = open_text_encoder(READER).embed([*ours, *theirs])
    scores = rows[: len(ours)] @ rows[len(ours) :].T
    np.fill_diagonal(scores, -1)
    asked, code = questions(1), rewritten_programs(settles=False)
    sets: dict[str, list[Any]] = {
        "questions": [(record.text, record.reworded, record.other) for record in asked],
        "programs": [tuple(map(strict, task)) for task in code],
        "human rephrasings": [
            (text, right, theirs[place])
            for text, right, place in zip(ours, theirs, scores.argmax(axis=1), strict=True)
        ],
    }
    results: dict[str, Any] = {}
    for name in [*names, CROSS]:
        results[name] = {}
        for title, triples in sets.items():
            pairs = [(a, b) for a, b, _ in triples] + [(a, c) for a, _, c in triples]
            begun = time.process_time()
            likeness = _likeness(name, pairs)
            spent = time.process_time() - begun
            right, wrong = likeness[: len(triples)], likeness[len(triples) :]
            results[name][title] = {
                "nearer": rate(int((right > wrong).sum()), len(triples)),
                "area": float((right[:, None] > wrong[None]).mean()),
                "pairs_per_second": len(pairs) / spent,
            }
    return results


def _likeness(name: str, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
    if name == CROSS:
        return open_cross_encoder(CROSS).compare(pairs)
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    row = dict(zip(texts, open_text_encoder(name).embed(texts), strict=True))
    return np.asarray([row[a] @ row[b] for a, b in pairs], np.float32)


def show(title: str, value: dict[str, float]) -> str:
    return f"{title} {value['value']:.3f} [{value['low']:.3f}, {value['high']:.3f}]"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--encoder", default="wordllama")
    parser.add_argument(
        "--encoders", default="wordllama,bge-small,minilm", help="compared on rewordings"
    )
    parser.add_argument("--only", choices=("search", "encoders", "readers"))
    options = parser.parse_args()
    results: dict[str, Any] = {}
    if options.only in (None, "search"):
        results |= searched(options)
    if options.only in (None, "encoders"):
        compare(options, results)
    if options.only in (None, "readers"):
        results["readers"] = compare_readers(options.shared, options.encoders.split(","))
        print("| reader | set | nearer than the other | area under the curve | pairs/s |")
        print("|---|---|---|--:|--:|")
        for name, sets in results["readers"].items():
            for title, found in sets.items():
                print(
                    f"| `{name}` | {title} | {show('', found['nearer'])} | {found['area']:.3f} | "
                    f"{found['pairs_per_second']:,.1f} |"
                )
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(results, indent=2) + "\n")


def searched(options: argparse.Namespace) -> dict[str, Any]:
    draw = random.Random(0)
    items = benchmark_items(options.shared, options.items, draw)
    rows = corpus_rows(items, options.shared, draw)
    print(f"{len(items)} items, {len(rows)} documents")
    matches, _ = search(items, rows, options.encoder)
    results: dict[str, Any] = {"labelled": evaluate(items, matches, rows)}
    for method, row in results["labelled"].items():
        for part in ("listed", "evidence"):
            found = row[part]
            print(f"{method:<10}{part:<9}{show('precision', found['precision'])}", end="  ")
            print(show("hard negatives", found["hard_negatives_matched"]))
            print("   ", "; ".join(show(kind, value) for kind, value in found["recall"].items()))
    results["paraphrases"] = paraphrases(options.shared, options.encoder)
    for method in METHODS[1:]:
        found = results["paraphrases"][method]
        print(
            f"rephrasings {method:<10}",
            "; ".join(show(name, value) for name, value in found.items()),
        )
    return results


def compare(options: argparse.Namespace, results: dict[str, Any]) -> None:
    results["encoders"] = compare_encoders(options.shared, options.encoders.split(","))
    print(
        "| encoder | set | R@1 | R@5 | mutual nearest, right | texts/s |\n|---|---|---|---|---|--:|"
    )
    for name, sets in results["encoders"].items():
        for title, found in sets.items():
            print(
                f"| `{name}` | {title} | {show('', found['recall_at_1'])} | {show('', found['recall_at_5'])} | "
                f"{found['mutual_right']} of {found['mutual']} | {found['texts_per_second']:,.0f} |"
            )


if __name__ == "__main__":
    main()
