"""Cross-check: what a model that reads both texts says of a paraphrase candidate."""

from __future__ import annotations

import json
from typing import Any, Literal, Protocol

import pyarrow as pa

from heldout.overlap.text.relation import PARAPHRASE
from heldout.store import make_table

Opinion = Literal["same", "different", "unsure"]


class Judge(Protocol):
    """Anything that can tell whether two texts ask the same thing of the same subject."""

    name: str

    def compare(self, benchmark_text: str, corpus_text: str) -> Opinion: ...


def cross_check(matches: pa.Table, judge: Judge) -> pa.Table:
    """``matches`` with the judge's opinion in the evidence of every paraphrase candidate.

    A candidate the judge calls different no longer counts; its agreement makes nothing hard, since a
    model's opinion is no proof. Equal pairs of texts are asked once.
    """
    asked: dict[tuple[str, str], Opinion] = {}
    rows: list[dict[str, Any]] = matches.to_pylist()
    for row in rows:
        if row["relation"] != PARAPHRASE:
            continue
        evidence = json.loads(row["evidence"])
        texts = (evidence["benchmark_text"], evidence["corpus_text"])
        if texts not in asked:
            asked[texts] = judge.compare(*texts)
        evidence["judge"] = {"name": judge.name, "opinion": asked[texts]}
        row["evidence"] = json.dumps(evidence, ensure_ascii=False)
        if asked[texts] == "different":
            row["degree"] = "none"
    return make_table("text_matches", rows)
