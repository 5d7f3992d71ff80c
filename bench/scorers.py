"""Scorers against published ones, reply by reply, on real recorded files.

    python bench/scorers.py [SHARED]

SHARED holds data/predictions (logs of inspect_ai, replies of two LLaVA-13B models), golden and seeds; the
default is ../shared, or where HELDOUT_SHARED points. Every number of docs/scorers.md is printed here.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from heldout.benchmark.grading import grade, letter
from heldout.evaluate.published import study_published
from heldout.evaluate.scorers import SCORERS, llava_choice
from heldout.model.asking.forms import Question
from heldout.model.prediction_files import open_predictions
from heldout.stats.paired import cluster_sums, paired_bounds

ROOT = Path(__file__).resolve().parents[1]
UNKNOWN = tuple(f"[option {number}: not in the file]" for number in range(1, 6))
LLAVA = ("test_sqa_llava_13b_v0", "test_sqa_llava_lcs_558k_sqa_12e_vicuna_v1_3_13b")


def main() -> None:
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("HELDOUT_SHARED")
    shared = Path(given) if given else ROOT.parent / "shared"
    inspect_logs(shared / "data/predictions/inspect")
    llava(shared / "data/predictions/llava")
    appendix(shared / "seeds")
    design_effects(shared)


def inspect_logs(folder: Path) -> None:
    print("inspect_ai: strict grading beside the log's own scorer")
    for path in sorted(folder.iterdir()):
        rows, columns, _ = open_predictions(path)
        counts: Counter[str] = Counter()
        told = []
        for row in rows:
            values = row.values
            own = columns.cell(values, "correct")
            if own is None or "answer" not in values:
                counts["not graded in the log" if own is None else "several targets"] += 1
                continue
            options = tuple(values.get("options") or ())
            found = grade(values["prediction"] or "", values["answer"], options)
            same = (found.outcome == "right") == own
            counts["agree" if same else "differ"] += 1
            if not same:
                told.append(
                    f"    {values['id']}: {values['scorer']} says {'right' if own else 'wrong'}, strict "
                    f"{found.outcome} ({found.rule}): key {values['answer'][:50]!r}, reply "
                    f"{values['prediction'][:60]!r}"
                )
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        print(f"  {path.name}: {len(rows)} samples: {listed}")
        print("\n".join(told) + ("\n" if told else ""), end="")


def llava(folder: Path) -> None:
    print("\nLLaVA-13B on ScienceQA: the option that we read beside the one their script read")
    chosen: list[dict[str, Any]] = []
    right: list[int] = []
    for name in LLAVA:
        file = json.loads((folder / f"{name}.json").read_text())
        theirs = {key: letter(k) if k >= 0 else None for key, k in file["results"].items()}
        differ: dict[str, list[str]] = {"strict": [], "llava-scienceqa": []}
        for key, reply in file["outputs"].items():
            ours = grade(reply, "A", UNKNOWN)
            for which, read in (
                ("strict", ours.parsed or None),
                ("llava-scienceqa", llava_choice(reply)),
            ):
                if read != theirs[key]:
                    why = f" ({ours.rule})" if which == "strict" else ""
                    end = " ".join(reply.split())[-110:]
                    differ[which].append(
                        f"    {key}: theirs {theirs[key]}, {which} {read}{why}: …{end}"
                    )
        print(f"  {name}: {file['correct']:,} of {file['count']:,} right, {file['acc']:.2f} %")
        for which, lines in differ.items():
            print(f"   {which}: {len(theirs) - len(lines):,} of {len(theirs):,} read alike")
            print("\n".join(lines) + ("\n" if lines else ""), end="")
        chosen.append(theirs)
        right.append(file["correct"])
    items = len(chosen[0])
    apart = sum(chosen[0][key] != chosen[1][key] for key in chosen[0])
    bounds = paired_bounds(items, right[1], right[0], apart)
    print("\n  paired, without the keys:")
    print(f"    the two choose differently on {apart} of {items:,} items ({apart / items:.1%})")
    print(f"    right alone: between {bounds.least} and {bounds.most} items")
    print(
        f"    McNemar's p: between {bounds.p_least:.4f} and {bounds.p_most:.2f}; below 0.05 only if "
        f"fewer than {bounds.clear_below} items are right for one alone"
    )
    gap = (right[1] - right[0]) / items
    half = 1.959964 * np.sqrt(bounds.most / items - gap**2) / np.sqrt(items)
    print(f"    difference {100 * gap:+.2f} points, at the widest ± {100 * half:.2f}")
    first, second = (count / items for count in right)
    independent = first * (1 - second) + second * (1 - first)
    share = (bounds.most / items - abs(gap)) / (independent - abs(gap))
    print(
        f"    independent models of these accuracies would disagree on {independent:.1%}; these two "
        "are at "
        f"most {share:.0%} of the way there"
    )


def appendix(folder: Path) -> None:
    """The replies that MedVLSynther prints in its appendix, all of them called right there."""
    path = next(iter(sorted(folder.glob("002_*.txt"))), None)
    if path is None:
        return
    print("\nMedVLSynther's appendix: replies that the paper calls right")
    text = path.read_text()
    counts: Counter[str] = Counter()
    for part in re.split(r"\nMedVLSynther-(?=\d+B \d+K output)", text)[1:]:
        name = part.splitlines()[0].strip()
        listed = part.partition("Correct Answer")[0]
        options = [
            found[1].strip(" *\n-")
            for found in re.finditer(r"\([A-E]\) (.+?)(?=\([A-E]\) |\n|$)", listed)
        ]
        key = re.search(r"Correct Answer: \(([A-E])\)", part)
        reply = re.search(r"<think>.*?</answer>", part, re.S)
        if key is None or reply is None or ord(key[1]) - 65 >= len(options):
            counts["not legible in the text"] += 1
            continue
        question = Question(name, "original", "", (), tuple(options), (), key[1])
        strict = grade(reply[0], key[1], options)
        theirs = SCORERS["medvlthinker"](reply[0], question)
        counts[f"strict {strict.outcome}, medvlthinker {'right' if theirs.right else 'wrong'}"] += 1
        if (strict.outcome == "right") != theirs.right:
            print(
                f"    {name}: medvlthinker compares {theirs.read!r} with {key[1]!r}, "
                f"{options[ord(key[1]) - 65]!r}"
            )
    print("  " + "; ".join(f"{name}: {count}" for name, count in counts.items()))


def design_effects(shared: Path) -> None:
    """What items that share an image cost, on SLAKE's closed questions: variance by image over variance by
    item, of five models' published log-probabilities and of their differences."""
    published = shared / "golden/medvlm/slake_en_overlap_inflation.json"
    questions = shared / "data/slake/official_test.json"
    if not (published.exists() and questions.exists()):
        return
    asked = {str(row["qid"]): row for row in json.loads(questions.read_text())}
    found = [
        (asked[key]["img_name"], row["mean_logprob"])
        for row in json.loads(published.read_text())["records"]
        if asked[key := row["example_id"].rpartition("::")[2]]["answer_type"] == "CLOSED"
    ]
    images = [image for image, _ in found]
    models = list(found[0][1])
    table = {name: np.array([scores[name] for _, scores in found]) for name in models}
    single = [_design_effect(values, images) for values in table.values()]
    pairs = [
        _design_effect(table[a] - table[b], images)
        for n, a in enumerate(models)
        for b in models[n + 1 :]
    ]
    print(
        f"\nSLAKE, {len(found)} closed questions on {len(set(images))} images: design effect of five "
        f"models {min(single):.2f} to {max(single):.2f}, of their ten differences {min(pairs):.2f} to "
        f"{max(pairs):.2f} (mean {np.mean(pairs):.2f})"
    )

    wider = study_published("medvlsynther", design_effect=max(pairs)).counts()
    listed = ", ".join(f"{name} {count}" for name, count in wider.items())
    print(f"MedVLSynther's differences at a design effect of {max(pairs):.2f} everywhere: {listed}")


def _design_effect(values: Any, clusters: list[str]) -> float:
    sums, sizes = cluster_sums(values, clusters)
    mean = values.mean()
    return float(((sums - mean * sizes) ** 2).sum() / ((values - mean) ** 2).sum())


if __name__ == "__main__":
    main()
