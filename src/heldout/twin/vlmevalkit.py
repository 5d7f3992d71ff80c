"""Twins as VLMEvalKit's TSV: index, base64 image, question, a column per option, the answer's letter."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path

from heldout.benchmark import letter
from heldout.store import Dropped
from heldout.twin.published import OLD_ANSWER, PROVENANCE, Published

STAGE = "twin publish"
MOST_OPTIONS = 10  # columns A to J: what our reader takes for options


def write_tsv(twins: Sequence[Published], target: Path) -> list[Dropped]:
    """The items that this format cannot hold."""
    fitting = [twin for twin in twins if len(twin.example.options) <= MOST_OPTIONS]
    width = max((len(twin.example.options) for twin in fitting), default=0)
    letters = [letter(place) for place in range(width)]
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, delimiter="\t", lineterminator="\n")
        out.writerow(["index", "image", "question", *letters, "answer", OLD_ANSWER, PROVENANCE])
        for twin in fitting:
            options = list(twin.example.options)
            answer = twin.new_answer if twin.new_index is None else letter(twin.new_index)
            out.writerow(
                [
                    twin.example.id,
                    twin.encoded(),
                    twin.example.question,
                    *options,
                    *[""] * (width - len(options)),
                    answer,
                    twin.example.answer,
                    json.dumps(twin.provenance),
                ]
            )
    return [
        Dropped(
            STAGE, twin.example.id, "too many options for the TSV", f"{len(twin.example.options)}"
        )
        for twin in twins
        if len(twin.example.options) > MOST_OPTIONS
    ]
