"""Peak memory of a text search, against the number of documents: the line must be flat.

    .venv/bin/python bench/text_memory.py --documents 10000 100000 1000000 --items 5000

Benchmark: questions of PathVQA's test split with their answers, cycled with a running number where
there are fewer than asked for. Documents: JSON Lines of PathVQA's training questions with a few words
of another one in front, so that all are different; every hundredth (--planted-every) is a benchmark
question word for word. Each size is searched in a fresh process by everything `heldout overlap --text`
does (image scan, text scan, tables, findings, claims, report), with the work in that one process. Peak
resident memory is the kernel's (VmHWM), and is given after the benchmark was read and at the end.
Matches that are kept cost memory, too: with few items (--items 200), or many planted copies of each,
their number has soon reached its ceiling.
Writes bench/out/text_memory.json.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from heldout.audit import audit_overlap
from heldout.benchmark import parse_source, read_benchmark, read_examples
from heldout.corpus import open_corpus
from heldout.engine import LocalEngine
from heldout.store import Dropped, Run
from memory import peak_mib

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "bench" / "out" / "text_memory.json"


def asked(path: Path) -> list[tuple[str, str]]:
    found = (one for one in read_examples(parse_source(path)) if not isinstance(one, Dropped))
    return [(example.question or "", example.answer or "") for example in found]


def write_benchmark(path: Path, shared: Path, items: int) -> list[tuple[str, str]]:
    known = list(dict.fromkeys(asked(shared / "pathvqa/pvqa_test.json")))
    chosen = [
        known[k]
        if k < len(known)
        else (f"{known[k % len(known)][0]} (case {k})", known[k % len(known)][1])
        for k in range(items)
    ]
    with path.open("w") as file:
        for number, (question, answer) in enumerate(chosen):
            file.write(json.dumps({"id": number, "question": question, "answer": answer}) + "\n")
    return chosen


def write_documents(
    path: Path, ours: list[tuple[str, str]], shared: Path, count: int, every: int
) -> None:
    others = asked(shared / "pathvqa/pvqa_train.json")
    draw = random.Random(0)
    with path.open("w") as file:
        for number in range(count):
            question, answer = others[number % len(others)]
            front = " ".join(draw.choice(others)[0].split()[:4])
            row = {"question": f"{front}: {question}", "answer": answer}
            if number % every == 0:
                question, answer = ours[number // every % len(ours)]
                row = {"question": question, "answer": answer}
            file.write(json.dumps(row) + "\n")


def search(benchmark: str, corpus: str, run: str, encoder: str) -> dict[str, Any]:
    ours = read_benchmark(benchmark)
    before = peak_mib()
    begun = time.perf_counter()
    with LocalEngine(1) as engine:
        audit_overlap(
            ours,
            [open_corpus(corpus)],
            run,
            engine,
            text_encoder=encoder or None,
            quiet=True,
        )
    spent, peak = time.perf_counter() - begun, peak_mib()
    searched = Run.open(Path(run))
    counts = next(iter(searched.manifest()["text"].values()))["counts"]
    return {
        "items": len(ours),
        "documents": counts["text_documents"],
        "matches": searched.read_table("text_matches").num_rows,  # kept: ten an item and method
        "read_mib": round(before, 1),
        "peak_mib": round(peak, 1),
        "seconds": round(spent, 1),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--shared", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--documents", type=int, nargs="*", default=[10**4, 10**5, 10**6])
    parser.add_argument("--items", type=int, default=5000)
    parser.add_argument("--planted-every", type=int, default=100, help="documents per planted one")
    parser.add_argument("--text-encoder", default="", help="also the embedding pass")
    parser.add_argument("--search", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.search:
        print(json.dumps(search(*options.search)))
        return
    rows = []
    for count in options.documents:
        with tempfile.TemporaryDirectory(prefix="heldout-text-") as folder:
            ours, corpus = Path(folder, "test.jsonl"), Path(folder, "corpus.jsonl")
            planted = write_benchmark(ours, options.shared, options.items)
            write_documents(corpus, planted, options.shared, count, options.planted_every)
            command = [sys.executable, __file__, "--search", str(ours), str(corpus)]
            done = subprocess.run(
                [*command, f"{folder}/run", options.text_encoder],
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            )
            found = json.loads(done.stdout)
            rows.append({"bytes": corpus.stat().st_size, "every": options.planted_every, **found})
        print(rows[-1], flush=True)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_text(json.dumps(rows, indent=2) + "\n")


if __name__ == "__main__":
    main()
