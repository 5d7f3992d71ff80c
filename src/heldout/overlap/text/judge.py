"""Cross-check: what a judge that reads both texts says of a paraphrase candidate."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

import pyarrow as pa

from heldout.errors import InputError
from heldout.overlap.text.relation import PARAPHRASE
from heldout.store import Dropped, make_table

Verdict = Literal["same", "different", "unsure"]
VERDICTS: tuple[Verdict, ...] = ("same", "different", "unsure")
STAGE = "judge"
JUDGED_DIFFERENT = "judged different"  # the relation of what was a paraphrase candidate
SAID = 600  # characters of a judge's reasons that travel as evidence


class TextPair(NamedTuple):
    benchmark_text: str
    corpus_text: str


@dataclass(frozen=True)
class Opinion:
    """``unread``: why no verdict could be had, in few stable words; the verdict is then *unsure*.
    ``lost``: the pair was never answered, so that asking again may help."""

    verdict: Verdict
    why: str = ""
    unread: str = ""
    lost: bool = False


@dataclass
class Opinions:
    """One per pair. ``fresh``: how many were asked for now, and paid for. ``ended``: what put an end to
    the asking, if something did."""

    given: Mapping[TextPair, Opinion]
    fresh: int = 0
    ended: InputError | None = None


class Judge(Protocol):
    """Anything that can tell whether two texts ask the same thing of the same subject."""

    @property
    def identity(self) -> Mapping[str, str]:
        """Everything an opinion depends on besides the texts; ``model`` is what it is called."""
        ...

    def compare(self, pairs: Sequence[TextPair]) -> Opinions: ...


@dataclass
class CrossChecked:
    """``records`` say per corpus what the judge thought of how many pairs."""

    matches: pa.Table
    records: dict[str, dict[str, Any]] = field(default_factory=dict)
    dropped: list[Dropped] = field(default_factory=list)
    fresh: int = 0
    ended: InputError | None = None


def cross_check(matches: pa.Table, judge: Judge, *, every: bool = False) -> CrossChecked:
    """``matches`` with the judge's opinion in the evidence of the paraphrase candidates that count, or
    of ``every`` one that is listed. Equal pairs of texts are asked once.

    A candidate the judge calls different no longer counts; its agreement makes nothing hard, since a
    model's opinion is no proof.
    """
    rows: list[dict[str, Any]] = matches.to_pylist()
    evidence: dict[int, dict[str, Any]] = {
        place: json.loads(row["evidence"])
        for place, row in enumerate(rows)
        if row["relation"] == PARAPHRASE and (every or row["degree"] != "none")
    }
    pairs = {
        place: TextPair(told["benchmark_text"], told["corpus_text"])
        for place, told in evidence.items()
    }
    opinions = judge.compare(list(dict.fromkeys(pairs.values())))
    made = CrossChecked(matches, fresh=opinions.fresh, ended=opinions.ended)
    tallies: dict[str, Counter[str]] = {row["corpus"]: Counter() for row in rows}
    unread: dict[str, Counter[str]] = {row["corpus"]: Counter() for row in rows}
    for place, pair in pairs.items():
        row, opinion = rows[place], opinions.given[pair]
        told = {"name": judge.identity["model"], "verdict": opinion.verdict,
                "why": opinion.why[:SAID], "degree_before": row["degree"]}  # fmt: skip
        if opinion.unread:
            told["unread"] = opinion.unread
            unread[row["corpus"]][opinion.unread] += 1
        tallies[row["corpus"]][opinion.verdict] += 1
        row["evidence"] = json.dumps({**evidence[place], "judge": told}, ensure_ascii=False)
        if opinion.verdict == "different":
            tallies[row["corpus"]]["lowered"] += row["degree"] != "none"
            row["degree"], row["relation"] = "none", JUDGED_DIFFERENT
        if opinion.lost:
            detail = f"{row['corpus']}/{row['corpus_id']}: {opinion.why}"
            made.dropped.append(Dropped(STAGE, row["benchmark_id"], opinion.unread, detail))
    made.matches = make_table("text_matches", rows)
    for corpus, tally in tallies.items():
        made.records[corpus] = judge_record(judge, tally, unread[corpus])
    return made


def judge_record(
    judge: Judge, tally: Mapping[str, int], unread: Mapping[str, int]
) -> dict[str, Any]:
    """What a manifest keeps: who judged, and how often what was said; ``unread`` are among unsure,
    ``lowered`` are the different ones that counted until then."""
    said: dict[str, int] = {verdict: tally.get(verdict, 0) for verdict in VERDICTS}
    return {
        "identity": dict(judge.identity),
        "pairs": sum(said.values()),
        **said,
        "lowered": tally.get("lowered", 0),
        "unread": dict(sorted(unread.items())),
    }
