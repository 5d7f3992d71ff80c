"""Two real, small language models write and judge items from real articles, through the whole funnel.

    python bench/synth_small_models.py ARTICLES --python small/bin/python \\
        --referee gemma-3-270m-q4_k_m.gguf [--limit 20] [--swap] [--free] [--out RUN]

ARTICLES holds JATS XML with images. ``small/bin/python`` has the packages that bench/small_model_server.py
names. SmolLM2-135M-Instruct writes; the GGUF file of another model judges, or with ``--swap`` the other way
round. ``--free`` serves both without JSON grammars. Prints Markdown for docs/synth-smollm.md: the funnel,
which criteria fail by whose word, and every rejection.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import heldout
from heldout.synth import LETTERS, Draft, PaperFigure, Synthesis
from heldout.synth._mechanical import check_by_code
from heldout.synth.rubric import CRITERIA, Category

SERVER = Path(__file__).with_name("small_model_server.py")
MOST_TOKENS = 900  # of a reply: a whole verdict has about 600


@contextmanager
def serving(python: Path, name: str, weights: Path | None, free: bool) -> Iterator[str]:
    """The address of a model; its name tells it apart from the other one."""
    command = [str(python), str(SERVER), "--port", "0", "--name", name]
    command += ["--weights", str(weights)] if weights is not None else []
    command += ["--free"] if free else []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        assert process.stdout is not None
        try:
            lines = (line.strip() for line in process.stdout)
            yield next(line for line in lines if line.startswith("http://"))
        finally:
            process.kill()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("articles", type=Path)
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--referee", type=Path, required=True, help="GGUF file of another model")
    parser.add_argument("--swap", action="store_true", help="the other model writes")
    parser.add_argument("--limit", type=int, default=20)
    parser.add_argument("--free", action="store_true", help="no JSON grammars")
    parser.add_argument("--attempts", type=int, default=2)
    parser.add_argument("--out", type=Path, help="where to keep the run")
    given = parser.parse_args()
    start = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        serving(given.python, "SmolLM2-135M-Instruct", None, given.free) as small,
        serving(given.python, given.referee.stem, given.referee, given.free) as other,
    ):
        writer_url, referee_url = (other, small) if given.swap else (small, other)
        model = {"concurrency": 1, "timeout": 900.0, "max_tokens": MOST_TOKENS}
        made = heldout.synth(
            source=str(given.articles),
            generator={"url": writer_url, **model},
            verifier={"url": referee_url, **model},
            limit=given.limit,
            attempts=given.attempts,
            labels=("all",),
            out=given.out or Path(folder) / "run",
            quiet=True,
            workers=1,
        )
        print(told(made, time.monotonic() - start))


def told(made: Synthesis, seconds: float) -> str:
    spent = "; ".join(
        f"{cost.stage}: {cost.requests} requests, {cost.prompt_tokens:,} + {cost.reply_tokens:,} tokens"
        for cost in made.spent
    )
    return "\n\n".join(
        (_funnel(made), f"{spent}; {seconds / 60:.0f} minutes.", _criteria(made), _items(made))
    )


def _funnel(made: Synthesis) -> str:
    lines = ["| step | in | out | dropped |", "|---|---:|---:|---|"]
    for step in made.funnel.steps:
        why = ", ".join(f"{reason} {count}" for reason, count in step.reasons.items() if count)
        lines.append(f"| {step.name} | {step.entered} | {step.left} | {why or '–'} |")
    return "\n".join(lines)


def _criteria(made: Synthesis) -> str:
    """How many items have a fault by code, graded or not, and how many graded ones by the verifier."""
    code: Counter[str] = Counter()
    verifier: Counter[str] = Counter()
    figures = {row["id"]: PaperFigure.of_row(row) for row in made.figures.to_dicts()}
    drafts = [Draft.of_row(_with_pairs(row)) for row in made.drafts.to_dicts()]
    for draft in drafts:
        for key, check in check_by_code(draft, figures[draft.figure]).items():
            code[key] += check.met is (_category(key) is Category.PENALTY)
    graded = [row for row in made.verdicts.to_dicts() if row["rubric"]]
    for row in graded:
        for line in row["rubric"]:
            fault = _category(line["criterion"]) is Category.PENALTY
            verifier[line["criterion"]] += line["verifier"] is fault
    lines = [
        f"| criterion | fault by code, of {len(drafts)} | fault by the verifier, of {len(graded)} |",
        "|---|---:|---:|",
    ]
    lines += [
        f"| {one.title} | {code[one.key] if one.by_code else '–'} | {verifier[one.key]} |"
        for one in CRITERIA
    ]
    return "\n".join(lines)


def _with_pairs(row: dict[str, Any]) -> dict[str, Any]:
    """A map's entries as Polars gives them, as the pairs that a draft is read from."""
    return {**row, "extra": [(one["key"], one["value"]) for one in row["extra"]]}


def _category(key: str) -> Category:
    return next(one.category for one in CRITERIA if one.key == key)


def _items(made: Synthesis) -> str:
    verdicts = {row["id"]: row for row in made.verdicts.to_dicts()}
    dropped = {row["id"]: row for row in made.dropped.to_dicts() if row["stage"] == "verify"}
    lines = []
    for draft in made.drafts.to_dicts():
        verdict = verdicts[draft["id"]]
        options = " · ".join(
            f"**{letter}. {option}**" if letter == draft["answer"] else f"{letter}. {option}"
            for letter, option in zip(LETTERS, draft["options"], strict=True)
        )
        fate = "accepted" if verdict["accepted"] else verdict["reason"]
        detail = dropped.get(draft["id"], {}).get("detail", "")
        lines.append(f"- `{draft['id']}`: {draft['question']}\n  {options}\n  → {fate}. {detail}")
    lost = made.dropped.to_dicts()
    lines += [
        f"- `{row['id']}` → no item: {row['reason']}. {row['detail']}"
        for row in lost
        if row["stage"] == "generate"
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
