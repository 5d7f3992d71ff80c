"""How often a text is taken for another language than English: shares by probability, of real questions.

    python bench/languages.py [DIR]     # DIR: copies of the repositories of collections.yaml, for other languages

English: ../shared. Numbers in src/heldout/overlap/texts/_language.py come from here.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Iterator
from pathlib import Path

from collected_words import squad
from heldout.overlap.texts._language import foreign_probability
from quality import OUT, shared_folder
from quality_collections import entries, files_of
from quality_figures import interval
from quality_words import read_rows

BOUNDS = (0.5, 0.9, 0.99, 0.999, 0.9999)


def ours(shared: Path) -> Iterator[tuple[str, list[str]]]:
    """English questions."""
    slake = json.loads((shared / "data/slake/official_test.json").read_text("utf-8"))
    yield "SLAKE", [row["question"] for row in slake if row["q_lang"] == "en"]
    rad = json.loads((shared / "data/vqa_rad/vqa_rad_public.json").read_text("utf-8"))
    yield "VQA-RAD", [row["question"] for row in rad]
    path = json.loads((shared / "data/pathvqa/pvqa_val.json").read_text("utf-8"))
    yield "PathVQA", [question for row in path for question in row["sentf"]["pvqa"]]
    for name in ("gsm8k_reworded", "mmlu_reworded", "humaneval_reworded"):
        rows = read_rows(shared / f"quality/words/{name}/bench.jsonl")
        yield name, [str(row.get("question") or row) for row in rows]


def theirs(copies: Path) -> Iterator[tuple[str, list[str]]]:
    """Questions in other languages, and English ones of the same sets."""
    listed = {entry["name"]: entry for entry in entries()["words"]}
    folder = files_of(listed["mgsm_languages"], copies, OUT)
    for path in sorted((folder / "mgsm").glob("*.tsv")) if folder else ():
        with path.open(encoding="utf-8", newline="") as file:
            rows = csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            yield path.stem, [row[0] for row in rows if row]
    folder = files_of(listed["xquad_german"], copies, OUT)
    for path in sorted(folder.glob("xquad.*.json")) if folder else ():
        yield path.stem, [str(row["question"]) for _, row in squad(path)]


def main(words: list[str]) -> int:
    sets = list(ours(shared_folder()))
    if words:
        sets += theirs(Path(words[0]))
    print("set | texts | " + " | ".join(f"p ≥ {bound}" for bound in BOUNDS))
    english = [0] * (len(BOUNDS) + 1)
    for name, texts in sets:
        told = [foreign_probability(text) for text in texts]
        found = [sum(probability >= bound for probability in told) for bound in BOUNDS]
        print(f"{name} | {len(texts):,} | " + " | ".join(map(str, found)))
        if not name.startswith(("mgsm_", "xquad.")) or name.endswith("en"):
            english = [a + b for a, b in zip(english, [len(texts), *found], strict=True)]
    total, *wrong = english
    print(f"English | {total:,} | " + " | ".join(map(str, wrong)))
    uppers = [interval(count, total)[1] for count in wrong]
    print("upper end, 95 % | | " + " | ".join(f"{upper:.5f}" for upper in uppers))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
