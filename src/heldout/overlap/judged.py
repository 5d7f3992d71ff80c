"""Matches as people judged them: their word replaces the tool's, pair of pictures by pair of pictures.

What people say is of two pictures, however many questions and corpus items show them. Most raters
decide; where as many say one thing as another, the pair is *undecided* and counts as no copy. Equal
bytes or pixels stay a copy whatever people say, and one rater alone makes no copy.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import polars as pl

from heldout.benchmark.example import normal
from heldout.corpus import CorpusItem
from heldout.overlap.modality import Modality, relate_text
from heldout.overlap.regrade import Bounds, regraded, searched_with
from heldout.overlap.relations import BY_DIGEST, COPIES, POSSIBLE_COPIES, Relation
from heldout.store import Run
from heldout.store.judgements import MATCH, Judgement, current

# What a person says → the relation it stands for.
RELATIONS = {
    "exact duplicate": Relation.SAME_IMAGE,
    "transformed copy": Relation.TRANSFORMED_COPY,
    "same source, other view": Relation.OTHER_VIEW,
    "same view, other subject": Relation.OTHER_SUBJECT,
    "unrelated": Relation.UNRELATED,
    "unsure": Relation.UNDECIDED,
}
RAISED_ALONE = "one rater calls it a copy; a second has to agree"
DISMISSED_ALONE = "one rater dismissed it; a second has to agree"
DISAGREE = "raters disagree"
_CUT = 500  # characters of a corpus' question that evidence keeps; a cut one equals no question


def match_subject(evidence: Mapping[str, Any], corpus: str, corpus_id: str) -> str:
    """What a judgement of a match is about: two pictures, named by their content alone."""
    theirs = evidence.get("corpus_image") or f"{corpus}\n{corpus_id}"  # an embedding has no file
    told = f"{evidence['benchmark_pixels']}\n{theirs}"
    return hashlib.sha256(told.encode()).hexdigest()[:32]


def judged_matches(
    matches: pl.DataFrame, judgements: Iterable[Judgement], items: pl.DataFrame | None = None
) -> pl.DataFrame:
    """``matches`` with the relation people gave; who judged stands in the evidence, under "people".

    ``items`` (the run's table) lets a pair that people made a copy say what leaked beside the picture.
    """
    said: dict[str, dict[str, str]] = defaultdict(dict)
    for judgement in judgements:
        if judgement.kind == MATCH and judgement.verdict in RELATIONS:
            said[judgement.subject][judgement.rater] = judgement.verdict
    if not said or matches.is_empty():
        return matches
    words = _words(items)
    rows = [_judged(row, said, words) for row in matches.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=matches.schema)


def read_matches(run: Run, bounds: Bounds | None = None) -> pl.DataFrame:
    """The table matches of ``run`` as its people judged it, so far as they did.

    ``bounds``: degrees of the search's own encoder, in place of those it was run with.
    """
    matches = run.frame("matches")
    if bounds is not None:
        matches = regraded(matches, bounds, searched_with(run))
    judgements = current(run.path, MATCH).values()
    if not judgements:
        return matches
    return judged_matches(matches, judgements, run.frame("items"))


def recognised(matches: pl.DataFrame) -> pl.DataFrame:
    """The copies among judged ``matches``; ``raters``: how many made it one, 0 where the tool did."""
    copies = matches.filter(pl.col("relation").is_in(COPIES))
    counts = []
    for evidence in copies["evidence"]:
        people = json.loads(evidence).get("people")
        counts.append(len(people["verdicts"]) if people and people["tool"] not in COPIES else 0)
    return copies.with_columns(pl.Series("raters", counts, pl.Int64))


def not_agreed(relation: str, evidence: Mapping[str, Any]) -> str:
    """What another rater has to settle of a judged pair: "" where nothing is, or nobody judged it."""
    people = evidence.get("people")
    if not people or relation in COPIES:
        return ""
    verdicts = people["verdicts"].values()
    said = {RELATIONS[verdict] for verdict in verdicts}
    if relation == Relation.UNDECIDED:
        if len(said) > 1:
            return DISAGREE
        return RAISED_ALONE if len(verdicts) == 1 and said <= COPIES else ""
    alone = len(verdicts) == 1 and people["tool"] in POSSIBLE_COPIES
    return DISMISSED_ALONE if alone else ""


def majority(verdicts: Collection[str]) -> str:
    """The relation most raters stand for. Between two kinds of copy a tie is the weaker one."""
    return most_say((RELATIONS[verdict] for verdict in verdicts), COPIES, Relation.TRANSFORMED_COPY)


def most_say(relations: Iterable[str], alike: Collection[str], weaker: str) -> str:
    """The commonest of ``relations``; in a tie between those ``alike`` the ``weaker``, else undecided."""
    counts = Counter(relations)
    most = max(counts.values())
    leading = {relation for relation, count in counts.items() if count == most}
    if len(leading) == 1:
        return leading.pop()
    return weaker if leading == set(alike) else Relation.UNDECIDED


def _judged(
    row: dict[str, Any],
    said: Mapping[str, Mapping[str, str]],
    words: Mapping[str, tuple[str, str]],
) -> dict[str, Any]:
    evidence = json.loads(row["evidence"])
    verdicts = said.get(match_subject(evidence, row["corpus"], row["corpus_id"]))
    if not verdicts:
        return row
    relation, tool = majority(verdicts.values()), row["relation"]
    if row["method"] in BY_DIGEST:
        relation = tool
    elif relation in COPIES and tool not in COPIES and len(verdicts) == 1:
        relation = Relation.UNDECIDED
    elif relation == Relation.SAME_IMAGE and tool != Relation.SAME_IMAGE:
        # An eye does not see what digests and registration say: that they differ.
        relation = Relation.TRANSFORMED_COPY
    evidence["people"] = {"verdicts": dict(sorted(verdicts.items())), "tool": tool}
    told = json.dumps(evidence, ensure_ascii=False)
    changed: dict[str, Any] = {"relation": relation, "evidence": told}
    if relation in COPIES and tool not in COPIES:
        question, answer = words.get(row["benchmark_id"], ("", ""))
        text = relate_text(question, answer, _corpus_item(row, evidence))
        changed |= {"modality": text.modality, "label_relation": text.label_relation}
    elif relation not in COPIES:
        changed |= {"modality": Modality.NONE, "label_relation": "unknown"}
        if relation != Relation.UNDECIDED:
            changed["transform"] = ""
    if relation == Relation.UNRELATED:
        changed["degree"] = "none"  # a likeness that people looked at and dismissed
    return {**row, **changed}


def label_beside(row: Mapping[str, Any], words: tuple[str, str]) -> str:
    """How the label beside a picture that is no proven copy relates to the item's own question and answer.

    The published study splits its near-identical pictures by it, too.
    """
    try:
        evidence = json.loads(row["evidence"] or "{}")
    except ValueError:
        return "unknown"
    return relate_text(*words, _corpus_item(row, evidence)).label_relation


def item_words(run: Run) -> dict[str, tuple[str, str]]:
    """Question and answer of every item, normalised."""
    return _words(run.frame("items"))


def _corpus_item(row: Mapping[str, Any], evidence: Mapping[str, Any]) -> CorpusItem:
    question = str(evidence.get("corpus_question") or "")
    if len(question) >= _CUT:
        return CorpusItem(row["corpus_id"])
    answer = str(evidence.get("corpus_answer") or "")
    return CorpusItem(row["corpus_id"], question=question or None, answer=answer or None)


def _words(items: pl.DataFrame | None) -> dict[str, tuple[str, str]]:
    if items is None:
        return {}
    rows = items.select("benchmark_id", "question", "answer").iter_rows()
    return {name: (normal(question), normal(answer)) for name, question, answer in rows}
