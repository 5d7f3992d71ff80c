"""Matches as people judged them: their word replaces the tool's, pair of pictures by pair of pictures.

What people say is of two pictures, however many questions and corpus items show them. Most raters
decide; where as many say one thing as another, the pair is *undecided* and counts as no copy. Equal
bytes or pixels stay a copy whatever people say, and one rater alone makes no copy.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from heldout.benchmark import normal
from heldout.corpus import CorpusItem
from heldout.errors import InputError
from heldout.overlap.relations import (
    BY_DIGEST,
    COPIES,
    POSSIBLE_COPIES,
    Modality,
    Relation,
    relate_text,
)
from heldout.overlap.settings import Bounds
from heldout.overlap.texts.edits import OTHER
from heldout.overlap.texts.normalise import settle_degrees
from heldout.overlap.texts.relation import (
    SAME_CAPTION,
    SAME_ITEM,
    SAME_QUESTION,
    SHOWN,
    degree_of,
    settle_pictures,
)
from heldout.store import MATCH, TEXT, Judgement, Run

# Degrees that a user sets: what the encoder of a search calls hard and soft, in place of the table's.
#
# A degree is a bound on a recorded similarity, so setting it costs no search and no registration.


def searched_with(run: Run) -> list[str]:
    """Identities of the encoders whose neighbours a run holds. InputError where there are none."""
    stages = run.manifest()["stages"].values()
    encoders = sorted({stage["encoder"] for stage in stages if stage.get("encoder")})
    if not encoders:
        raise InputError(
            f"{run.path}: degrees grade what an encoder found near, and this run was searched with none. "
            f"Run heldout overlap with an encoder into it"
        )
    return encoders


def regraded(matches: pl.DataFrame, bounds: Bounds, encoders: Collection[str]) -> pl.DataFrame:
    """``matches`` with the degree of every row that one of ``encoders`` found; other rows stay."""
    similarity = pl.col("similarity")
    degree = (
        pl.when(similarity >= bounds.hard)
        .then(pl.lit("hard"))
        .when(similarity >= bounds.soft)
        .then(pl.lit("soft"))
        .otherwise(pl.lit("none"))
    )
    own = pl.col("method").is_in(list(encoders))
    return matches.with_columns(
        pl.when(own).then(degree).otherwise(pl.col("degree")).alias("degree")
    )


def regrade(run: Run, bounds: Bounds | None) -> None:
    """Give the run's own table these degrees, and say so in its manifest; None: those of the table."""
    entries = {} if bounds is None else {**bounds._asdict(), "encoders": searched_with(run)}
    if run.manifest().get("degrees", {}) != entries:
        run.update("degrees", entries, replace=True)
    if bounds is None:
        return
    encoders = searched_with(run)
    frames = (regraded(pl.DataFrame(table), bounds, encoders) for table in run.batches("matches"))
    run.write_batches("matches", (frame.to_arrow() for frame in frames))


UNSURE = "unsure"
# A person's judgement → its relation.
RELATIONS: dict[str, str] = {
    "exact duplicate": Relation.SAME_IMAGE,
    "transformed copy": Relation.TRANSFORMED_COPY,
    "same source, other view": Relation.OTHER_VIEW,
    "look-alike": Relation.LOOK_ALIKE,
    "unrelated": Relation.UNRELATED,
    UNSURE: Relation.UNDECIDED,
}
_NO_COPIES = (Relation.OTHER_VIEW, Relation.LOOK_ALIKE, Relation.UNRELATED)  # nearest first
RAISED_ALONE = "one rater calls it a copy; a second has to agree"
DISMISSED_ALONE = "one rater dismissed it; a second has to agree"
DISAGREE = "raters disagree"
_CUT = 500  # characters of a corpus' question that evidence keeps; a cut one equals no question


def match_subject(evidence: Mapping[str, Any], corpus: str, corpus_id: str) -> str:
    """What a judgement of a match is about: two pictures, named by their content alone."""
    theirs = evidence.get("corpus_image") or f"{corpus}\n{corpus_id}"  # an embedding has no file
    return pair_subject(evidence["benchmark_pixels"], theirs)


def pair_subject(picture: str, theirs: str) -> str:
    return hashlib.sha256(f"{picture}\n{theirs}".encode()).hexdigest()[:32]


def judged_matches(
    matches: pl.DataFrame, judgements: Iterable[Judgement], items: pl.DataFrame | None = None
) -> pl.DataFrame:
    """``matches`` with the relation people gave; the raters are in the evidence, under "people".

    With ``items`` (the run's table), a pair that people judged a copy also states what leaked beside the picture.
    """
    verdicts_of: dict[str, dict[str, str]] = defaultdict(dict)
    for judgement in judgements:
        if judgement.kind == MATCH and judgement.verdict in RELATIONS:
            verdicts_of[judgement.subject][judgement.rater] = judgement.verdict
    if not verdicts_of or matches.is_empty():
        return matches
    words = _words(items)
    rows = [_judged(row, verdicts_of, words) for row in matches.iter_rows(named=True)]
    return pl.DataFrame(rows, schema=matches.schema)


# Class folders: ``cat/1.jpg`` names what the picture shows, in a corpus as in a benchmark.


_CLASSED = (
    0.5  # share of a corpus' copies whose folder has to be a label, at the depth of the classes
)


class FolderLabels:
    """Labels that copies of pictures without a question have by their folder.

    A benchmark of class folders has labels for answers; a corpus of folders names none, but where its
    folders are called like these labels, they are its labels: the same, or a label conflict. Which folder names
    the class is known once all matches were looked at.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self.labels = labels
        self._hits: dict[str, Counter[int]] = defaultdict(Counter)  # by corpus, then depth
        self._copies: Counter[str] = Counter()

    @classmethod
    def of(cls, items: pl.DataFrame | None) -> FolderLabels:
        words = _words(items).items()
        return cls({name: label for name, (question, label) in words if label and not question})

    def __bool__(self) -> bool:
        return bool(self.labels)

    def look(self, matches: pl.DataFrame) -> None:
        classes = set(self.labels.values())
        for corpus, name in (
            matches.filter(self._unlabelled()).select("corpus", "corpus_id").iter_rows()
        ):
            self._copies[corpus] += 1
            self._hits[corpus].update(
                depth
                for depth, folder in enumerate(name.split("/")[:-1])
                if normal(folder) in classes
            )

    def give(self, matches: pl.DataFrame) -> pl.DataFrame:
        """``matches`` with the labels of their folders."""
        depths = self._depths()
        if not depths or matches.filter(self._unlabelled()).is_empty():
            return matches
        rows = [_with_label(row, self.labels, depths) for row in matches.iter_rows(named=True)]
        return pl.DataFrame(rows, schema=matches.schema)

    def _unlabelled(self) -> pl.Expr:
        return (
            pl.col("relation").is_in(COPIES)
            & (pl.col("label_relation") == "unknown")
            & pl.col("benchmark_id").is_in(list(self.labels))
            & pl.col("corpus_id").str.contains("/", literal=True)
        )

    def _depths(self) -> dict[str, int]:
        """By corpus, at which folder below it its classes stand; none where no folder is called like a label."""
        depths = {}
        for corpus, hits in self._hits.items():
            if hits:
                depth, count = min(hits.items(), key=lambda entry: (-entry[1], entry[0]))
                if count >= _CLASSED * self._copies[corpus]:
                    depths[corpus] = depth
        return depths


def _with_label(
    row: dict[str, Any], labels: Mapping[str, str], depths: Mapping[str, int]
) -> dict[str, Any]:
    depth, folders = depths.get(row["corpus"]), row["corpus_id"].split("/")[:-1]
    if (
        row["benchmark_id"] not in labels
        or row["relation"] not in COPIES
        or row["label_relation"] != "unknown"
        or depth is None
        or depth >= len(folders)
    ):
        return row
    evidence = json.loads(row["evidence"])
    if evidence.get("corpus_answer"):
        return row
    evidence["corpus_answer"] = folders[depth]
    same = normal(folders[depth]) == labels[row["benchmark_id"]]
    return {
        **row,
        "modality": Modality.FULL if same else row["modality"],
        "label_relation": "same" if same else "different",
        "evidence": json.dumps(evidence, ensure_ascii=False),
    }


def recognised(matches: pl.DataFrame) -> pl.DataFrame:
    """The copies among judged ``matches``; ``raters``: how many made it one, 0 where the tool did."""
    copies = matches.filter(pl.col("relation").is_in(COPIES))
    counts = []
    for evidence in copies["evidence"]:
        people = json.loads(evidence).get("people")
        counts.append(len(people["verdicts"]) if people and people["tool"] not in COPIES else 0)
    return copies.with_columns(pl.Series("raters", counts, pl.Int64))


def not_agreed(relation: str, evidence: Mapping[str, Any]) -> str:
    """What another rater has to settle of a judged pair: "" if nothing is open or nobody judged it."""
    people = evidence.get("people")
    if not people or relation in COPIES:
        return ""
    verdicts = people["verdicts"].values()
    relations = {RELATIONS[verdict] for verdict in verdicts}
    if relation == Relation.UNDECIDED:
        if len(relations) > 1:
            return DISAGREE
        return RAISED_ALONE if len(verdicts) == 1 and relations <= COPIES else ""
    alone = len(verdicts) == 1 and people["tool"] in POSSIBLE_COPIES
    return DISMISSED_ALONE if alone else ""


def majority(verdicts: Collection[str]) -> str:
    """The relation that most raters chose. Between two kinds of copy a tie is the weaker one, and between two kinds
    of no copy the nearer one: on what counts, the raters agree."""
    relations = [RELATIONS[verdict] for verdict in verdicts]
    chosen = most_say(relations, COPIES, Relation.TRANSFORMED_COPY)
    if chosen == Relation.UNDECIDED and set(relations) <= set(_NO_COPIES):
        return min(relations, key=_NO_COPIES.index)
    return chosen


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
    verdicts_of: Mapping[str, Mapping[str, str]],
    words: Mapping[str, tuple[str, str]],
) -> dict[str, Any]:
    evidence = json.loads(row["evidence"])
    verdicts = verdicts_of.get(match_subject(evidence, row["corpus"], row["corpus_id"]))
    if not verdicts:
        return row
    relation, tool = majority(verdicts.values()), row["relation"]
    if row["method"] in BY_DIGEST or set(verdicts.values()) == {UNSURE}:
        relation = tool  # who cannot tell decides nothing
    elif relation in COPIES and tool not in COPIES and len(verdicts) == 1:
        relation = Relation.UNDECIDED
    elif relation == Relation.SAME_IMAGE and tool != Relation.SAME_IMAGE:
        # An eye does not see what digests and registration say: that they differ.
        relation = Relation.TRANSFORMED_COPY
    evidence["people"] = {"verdicts": dict(sorted(verdicts.items())), "tool": tool}
    changed: dict[str, Any] = {
        "relation": relation,
        "evidence": json.dumps(evidence, ensure_ascii=False),
    }
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


# Text matches as people judged them: their word replaces the tool's, pair of items by pair of items.
#
# People say what two texts are. What that is worth follows by the same rules as for the tool: words that
# the benchmark asks of many pictures prove nothing, even if people recognise them.


# A person's judgement → its relation.
TEXT_RELATIONS: dict[str, str] = {
    "same question and answer": SAME_ITEM,
    "same, reworded": SAME_ITEM,
    "same question, not its answer": SAME_QUESTION,
    "same template, other subject": OTHER,
    "unrelated": Relation.UNRELATED,
    UNSURE: Relation.UNDECIDED,
}
_ASKED = {SAME_ITEM, SAME_QUESTION}
_SOURCE = "provenance"  # an id, and no words
Pair = tuple[str, str, str]  # benchmark_id, corpus, corpus_id


def text_pairs(rows: Iterable[Mapping[str, Any]]) -> dict[Pair, list[dict[str, Any]]]:
    """Rows of text_matches by pair of items, their evidence read; a shared source is no text."""
    pairs: dict[Pair, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if row["method"] != _SOURCE:
            record = {**row, "evidence": json.loads(row["evidence"])}
            pairs[row["benchmark_id"], row["corpus"], row["corpus_id"]].append(record)
    return pairs


def text_subject(item: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    """What a judgement is about: the words of an item and of a corpus item, named by themselves.

    ``rows`` are of one pair of items. The shortest text represents the corpus item: a question with its
    options holds the question. A text that was cut in the table does not identify itself.
    """
    theirs = min(
        (row["evidence"] for row in rows),
        key=lambda evidence: (len(evidence["corpus_text"]), str(evidence)),
    )
    cut = len(theirs["corpus_text"]) >= SHOWN
    content = [
        normal(item["question"]),
        [normal(option) for option in item["options"] or ()],
        normal(item["answer"]),
        theirs["corpus_text"],
        sorted(theirs.get("corpus_answers", ())),
        [rows[0]["corpus"], rows[0]["corpus_id"]] if cut else [],
    ]
    return hashlib.sha256(json.dumps(content, ensure_ascii=False).encode()).hexdigest()[:32]


def judged_texts(
    matches: pl.DataFrame,
    judgements: Iterable[Judgement],
    items: pl.DataFrame,
    images: pl.DataFrame,
    queries: pl.DataFrame,
) -> pl.DataFrame:
    """``matches`` with the relation people gave; the raters are in the evidence, under "people"."""
    verdicts_of: dict[str, dict[str, str]] = defaultdict(dict)
    for judgement in judgements:
        if judgement.kind == TEXT and judgement.verdict in TEXT_RELATIONS:
            verdicts_of[judgement.subject][judgement.rater] = judgement.verdict
    rows = matches.to_dicts()
    known = {row["benchmark_id"]: row for row in items.to_dicts()} if verdicts_of else {}
    changed: dict[int, dict[str, Any]] = {}
    subjects = {
        pair: text_subject(known[pair[0]], texts)
        for pair, texts in (text_pairs(rows) if verdicts_of else {}).items()
    }
    for place, row in enumerate(rows):
        subject = subjects.get((row["benchmark_id"], row["corpus"], row["corpus_id"]), "")
        if row["method"] != _SOURCE and subject in verdicts_of:
            changed[place] = _judged_text(row, subject, verdicts_of[subject])
    if not changed:
        return matches
    for place, worth in zip(
        changed, _settled(list(changed.values()), matches, items, images, queries), strict=True
    ):
        rows[place] = _confirmed({**changed[place], "degree": worth}, rows[place])
    return pl.DataFrame(rows, schema=matches.schema)


def text_majority(verdicts: Collection[str]) -> str:
    """The relation that most raters chose. Between item and question a tie is the question alone."""
    return most_say((TEXT_RELATIONS[verdict] for verdict in verdicts), _ASKED, SAME_QUESTION)


def _judged_text(
    row: Mapping[str, Any], subject: str, verdicts: Mapping[str, str]
) -> dict[str, Any]:
    evidence = json.loads(row["evidence"])
    relation, answer = text_majority(verdicts.values()), row["answer_relation"]
    if relation == SAME_ITEM:
        answer = "same"
    elif relation == SAME_QUESTION and answer == "same":
        answer = "unknown"
    if relation in _ASKED and row["field"].startswith("caption"):
        relation = SAME_CAPTION
    evidence["people"] = {
        "verdicts": dict(sorted(verdicts.items())),
        "subject": subject,
        "tool": row["relation"],
        "tool_degree": row["degree"],
    }
    return {
        **row,
        "relation": relation,
        "answer_relation": answer,
        "degree": _worth(relation, answer, row, evidence),
        "evidence": json.dumps(evidence, ensure_ascii=False),
    }


def _confirmed(judged: dict[str, Any], record: Mapping[str, Any]) -> dict[str, Any]:
    """What one rater alone raises to the item stays what the tool found, and is for others to read.

    So do words that are worth more only because the same rater calls their pictures copies.
    """
    alone = len(json.loads(judged["evidence"])["people"]["verdicts"]) == 1
    if not alone or judged["relation"] != SAME_ITEM:
        return judged
    worth = "soft" if judged["degree"] == "hard" != record["degree"] else judged["degree"]
    kept = {name: record[name] for name in ("relation", "answer_relation")}
    return {**judged, **kept, "degree": worth}


def _worth(relation: str, answer: str, row: Mapping[str, Any], evidence: Mapping[str, Any]) -> str:
    if relation == Relation.UNRELATED:
        return "none"
    if (
        relation == Relation.UNDECIDED
    ):  # an open question: evidence that proves nothing, if it was any
        return "none" if row["degree"] == "none" else "soft"
    generic, short = bool(evidence.get("generic")), bool(evidence.get("short"))
    # Numbers tell the items of a template apart where they stand there: people may overlook them.
    apart = bool(evidence.get("apart")) and row["relation"] == SAME_ITEM
    return degree_of(relation, answer, row["similarity"], generic=generic, short=short, apart=apart)


def _settled(
    rows: list[dict[str, Any]],
    matches: pl.DataFrame,
    items: pl.DataFrame,
    images: pl.DataFrame,
    queries: pl.DataFrame,
) -> list[str]:
    """Degrees once corpus and pictures were heard, as for the tool's own relations."""
    judged = pl.DataFrame(rows, schema=matches.schema)
    settled = settle_pictures(settle_degrees(judged, queries), images, items)
    # What nobody could decide was settled when it was found.
    return [
        row["degree"] if row["relation"] == Relation.UNDECIDED else worth
        for row, worth in zip(rows, settled["degree"], strict=True)
    ]
