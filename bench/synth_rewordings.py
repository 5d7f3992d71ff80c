"""What `heldout synth` removes for its words: rewordings of a benchmark's questions, and unrelated items.

    python bench/synth_rewordings.py --shared ../shared/data [--text-encoder wordllama]

Copies: VQA-RAD's questions in the words of its authors' rephrasings, with their answers. Fresh items: the
questions of PathVQA's test split and of SLAKE's English test split with their answers, against VQA-RAD's
test split. Answers "yes" and "no" are counted apart, since items with five options hardly have them. Prints
Markdown tables for docs/synth.md; intervals are Clopper–Pearson, by question.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from heldout.benchmark import Benchmark, Example, normal, read_benchmark
from heldout.stats import binomial_interval
from heldout.synth import Draft
from heldout.synth._benchmark_questions import REWORDED, BenchmarkQuestions
from text_precision import examples_of, rephrasings

THRESHOLDS = (0.4, 0.6, 0.65, 0.7, 0.75, 0.8, 0.88)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--shared", type=Path, default=Path("../shared/data"))
    parser.add_argument("--text-encoder", default="wordllama")
    given = parser.parse_args()
    pairs = rephrasings(given.shared)
    originals = Benchmark(
        "VQA-RAD", tuple(Example(str(n), question=q, answer=a) for n, (q, _, a) in enumerate(pairs))
    )
    reworded = [Example(str(n), question=q, answer=a) for n, (_, q, a) in enumerate(pairs)]
    test = read_benchmark(f"{given.shared / 'vqa_rad'}#split=test")
    pathology = examples_of(given.shared / "pathvqa" / "pvqa_test.json")
    slake = list(read_benchmark(f"{given.shared / 'slake'}#split=test,lang=en"))
    cases = (
        ("rephrasings of VQA-RAD", originals, reworded),
        ("PathVQA, against VQA-RAD", test, pathology),
        ("SLAKE, against VQA-RAD", test, slake),
    )
    print("| removed at a cosine of | " + " | ".join(f"{t:g}" for t in THRESHOLDS) + " |")
    print("|---|" + "---:|" * len(THRESHOLDS))
    chosen = []
    for name, benchmark, examples in cases:
        for kind, part in _by_answer(examples):
            cells = []
            for threshold in THRESHOLDS:
                counts = _removed(benchmark, part, given.text_encoder, threshold)
                cells.append(_share(sum(counts.values()) - counts["stock, kept"], len(part)))
                if threshold == REWORDED:
                    told = ", ".join(f"{why} {count:,}" for why, count in counts.items() if count)
                    chosen.append(f"| {name}: {kind} | {len(part):,} | {told or '–'} |")
            print(f"| {name}: {kind} ({len(part):,}) | " + " | ".join(cells) + " |", flush=True)
    print(f"\n| at {REWORDED:g} | questions | found |\n|---|---:|---|")
    print("\n".join(chosen))


def _by_answer(examples: Sequence[Example]) -> list[tuple[str, list[Example]]]:
    asked = [one for one in examples if one.question and normal(one.answer)]
    closed = [normal(one.answer) in ("yes", "no") for one in asked]
    return [
        (kind, [one for one, is_closed in zip(asked, closed, strict=True) if is_closed == wanted])
        for kind, wanted in (("other answers", False), ("yes or no", True))
    ]


def _removed(
    benchmark: Benchmark, examples: Sequence[Example], encoder: str, threshold: float
) -> dict[str, int]:
    drafts = [
        Draft(str(n), "", one.question or "", (one.answer or "",), "A")
        for n, one in enumerate(examples)
    ]
    counts: dict[str, int] = {"stock, kept": 0}
    questions = BenchmarkQuestions(benchmark, encoder, threshold)
    for start in range(0, len(drafts), 256):
        for match in questions.compare(drafts[start : start + 256]):
            why = "stock, kept" if match.stock else match.relation
            counts[why] = counts.get(why, 0) + 1
    return counts


def _share(hits: int, of: int) -> str:
    low, high, *_ = binomial_interval(hits, of)
    return f"{100 * hits / of:.1f} % [{100 * low:.1f}, {100 * high:.1f}]"


if __name__ == "__main__":
    main()
