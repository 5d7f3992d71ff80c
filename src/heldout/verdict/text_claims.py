"""Claims about text overlap and shared sources: what shared words are worth.

A common question never counts: "is the lung healthy?" is asked of every radiograph. It cannot be
found, so a search that found nothing says nothing about it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import polars as pl

from heldout.detect import Finding, texts_missed
from heldout.errors import counted, percent
from heldout.evidence import QUESTION_OTHER_IMAGE, Modality, UnreadFiles
from heldout.overlap import NO_WORDS
from heldout.verdict._reworded import (
    READ_FEW,
    SEARCH_REWORDINGS,
    TOO_FEW,
    after_failed_rewordings,
    rewordings_searched,
)
from heldout.verdict.claim import CORPUS_COVERAGE, NOTHING_TO_COMPARE, Claim, Control, Status
from heldout.verdict.overlap_claims import (
    SEARCH_THE_REST,
    read_in_part,
)
from heldout.verdict.rules import SOURCES, WORDS, Rule, decide, rule_id

WITHIN_REACH = (
    "most items can be identified"  # the control that asks what a search could have found
)
REACH = (
    0.8  # share of items that must be findable inside longer texts before "nothing found" is clean
)


def text_claim(
    findings: Sequence[Finding],
    joined: Finding,
    kinds: Mapping[str, int],
    scanned: Mapping[str, Any],
    *,
    pictured: bool = True,
) -> Claim:
    """One claim per corpus: ``findings`` per method, ``kinds`` from count_kinds.

    ``pictured``: the corpus has pictures, which may show what texts cannot.
    """
    cell = joined.cell
    control, partly = text_coverage(scanned), read_in_part(scanned)
    documents = int(scanned["counts"].get("text_documents", 0))
    # A shared source only says where to look: names of files and articles repeat.
    words = [finding for finding in findings if not finding.id.endswith("/provenance")]
    evidence = words_compared(words or findings, scanned)
    together = findings[0].details["all_methods"] if findings else dict.fromkeys(_TOGETHER, 0)
    reach = _reach(together)
    rewordings = rewordings_searched(scanned, int(together["items"]))
    whole = int(joined.details["by_modality"][Modality.FULL])
    rule = _rule(together, documents, [control, *partly], reach, rewordings, whole)
    status = rule.status
    return Claim(
        id=f"text/{cell.corpus}",
        cell=cell,
        sentence=_sentence(
            status, findings, joined, kinds, documents, together, (reach, rewordings)
        ),
        status=status,
        why=_why(
            status, together, documents, [control, *partly], (reach, rewordings), words, whole
        ),
        rule=rule_id(WORDS, rule),
        findings=[*(finding.id for finding in evidence), joined.id] if evidence else [],
        # Where a side has no words, nothing that would find them is missing.
        controls=[
            control,
            *partly,
            *(_wordless(together, documents, control) or [reach, rewordings]),
        ],
        next_step=SEARCH_THE_REST
        if partly and rule.name == "parts-unread"
        else _next_step(status, together, documents, reach, control, rewordings, pictured),
    )


def words_compared(findings: Sequence[Finding], scanned: Mapping[str, Any]) -> list[Finding]:
    """Those of ``findings`` that have a rate: none where one side has no words, besides shared sources."""
    both = scanned["counts"].get("text_documents", 0) and any(
        finding.details["all_methods"]["items"] for finding in findings
    )
    return [finding for finding in findings if both or finding.statistic.value]


READ_TEXTS = "have people read the listed pairs (heldout review RUN --kind texts)"
_NEXT: Mapping[Status, str] = {
    "survives": "remove these items before reporting a score (heldout sanitize)",
    "qualified": f"{READ_TEXTS}: a question without its answer, or reworded, may be another one",
    "clean": "translations need a multilingual encoder (heldout overlap … --text-encoder E), and free "
    "rewordings may be left",
    "not testable": "give a corpus with text fields, or switch the text search off (heldout "
    "overlap … --no-text)",
}


_TOGETHER = ("items", "eligible", "eligible_inside_longer_texts", "evident", "hard")
_BY_PICTURE = "words alone identify too few of these items: compare their pictures, too"
BY_NOTHING = (
    "words alone identify too few of these items, and this corpus has no pictures to compare: search the "
    "corpus that its words were taken from"
)


def _next_step(
    status: Status,
    together: Mapping[str, Any],
    documents: int,
    reach: Control,
    control: Control,
    rewordings: Control,
    pictured: bool,
) -> str:
    if together["evident"] or status in ("survives", "clean"):
        return _NEXT[status]
    if together["items"] and documents and reach.outcome == "failed":
        return _BY_PICTURE if pictured else BY_NOTHING
    if status == "qualified" and control.outcome != "failed" and rewordings.outcome == "missing":
        return READ_FEW if TOO_FEW in rewordings.reason else SEARCH_REWORDINGS
    if status == "qualified" and control.outcome != "failed" and rewordings.outcome == "failed":
        return after_failed_rewordings(rewordings.reason)
    if status == "qualified":
        return "make readable what the dropped table lists, and give the same heldout overlap again"
    if together["items"] and control.outcome == "failed":
        return "the dropped table says why the corpus could not be read: mend it, and search again"
    if together["items"] and not documents and pictured:
        return f"read the words inside its pictures (heldout overlap … --ocr), or {_NEXT[status]}"
    return _NEXT[status]


def _reach(together: Mapping[str, Any]) -> Control:
    """Could the items have been found if they had been there?"""
    items, inside = int(together["items"]), int(together["eligible_inside_longer_texts"])
    bad = inside < REACH * items or not items
    eligible = int(together["eligible"])
    if not eligible:
        message = f"none of {items:,} items with words can be identified by them"
    elif bad:
        message = (
            f"only {inside:,} of {items:,} items with words can be identified inside a longer text, "
            f"{eligible:,} as a text of their own"
        )
    else:
        message = (
            f"{eligible:,} of {items:,} items with words can be identified by them, "
            f"{inside:,} also inside a longer text"
        )
    others = {why: n for why, n in together.get("untestable", {}).items() if why != NO_WORDS}
    if others:
        message += f"; of the others {', '.join(f'{n:,} {why}' for why, n in others.items())}"
    return Control(name=WITHIN_REACH, outcome="failed" if bad else "passed", reason=message)


def _wordless(together: Mapping[str, Any], documents: int, control: Control) -> list[Control]:
    """A side that has no texts; if texts were lost, there may have been some."""
    if (together["items"] and documents) or control.outcome == "failed":
        return []
    side = "corpus" if together["items"] else "benchmark"
    reason = f"the {side} has no words"
    return [Control(name=NOTHING_TO_COMPARE, outcome="missing", reason=reason)]


def text_coverage(scanned: Mapping[str, Any]) -> Control:
    counts, failed = scanned["counts"], scanned["failed"]
    read, wordless = int(counts.get("text_items", 0)), int(counts.get("text_wordless", 0))
    unread = UnreadFiles.of_scan(scanned, "text_lost_items")
    message = "no text of the corpus was read"
    if read > wordless:
        message = (
            f"the texts of {counted(read - wordless, 'corpus item', 'corpus items')} were read"
        )
    elif read:
        message = f"{counted(read, 'corpus item was', 'corpus items were')} read; none has text"
    message += f"; {unread.sentence()}" if unread.sentence() else ""
    if 0 < wordless < read:
        message += f"; {counted(wordless, 'item has', 'items have')} no text"
    if failed:
        message += f"; {counted(len(failed), 'piece', 'pieces')} of the corpus failed"
    bad = bool(failed or unread.matters)
    return Control(name=CORPUS_COVERAGE, outcome="failed" if bad else "passed", reason=message)


def _rule(
    together: Mapping[str, Any],
    documents: int,
    coverage: Sequence[Control],
    reach: Control,
    rewordings: Control,
    whole: int,
) -> Rule:
    facts = {
        "words were compared": bool(documents),
        "an item leaked whole": bool(whole),
        "some item can be identified by its words": bool(together["eligible"]),
        "question and answer are in the corpus": bool(together["hard"]),
        "similar words are in the corpus": bool(together["evident"]),
        "all was read": all(control.outcome != "failed" for control in coverage),
        "most items can be found": reach.outcome != "failed",
        "rewordings were looked for": rewordings.outcome == "passed",
    }
    return decide(WORDS, facts)


def _sentence(
    status: Status,
    findings: Sequence[Finding],
    joined: Finding,
    kinds: Mapping[str, int],
    documents: int,
    together: Mapping[str, Any],
    controls: tuple[Control, Control],
) -> str:
    reach, rewordings = controls
    benchmark, corpus = joined.cell.benchmark, joined.cell.corpus
    if status == "not testable":
        if together["items"] and documents:
            return (
                f"None of the {together['items']:,} items of {benchmark} with words can be identified by "
                f"them in {corpus}.{_common(kinds, together)}"
            )
        return f"The words of {benchmark} and {corpus} could not be compared."
    searched = f"{counted(documents, 'text', 'texts')} of {corpus}"
    if status == "clean":
        return f"No item of {benchmark} was found by its words in {searched}.{_common(kinds, together)}"
    limits = _limits(together) if reach.outcome == "failed" else ""
    few = TOO_FEW in rewordings.reason
    if rewordings.outcome == "missing" and not few:
        limits += " Rewordings were not looked for."
    if rewordings.outcome == "failed" or few:
        limits += f" Rewordings: {rewordings.reason.rpartition('; ')[2]}."
    by_method = {finding.id.rsplit("/", 1)[1]: finding for finding in findings}
    message = ", ".join(
        f"{int(finding.statistic.value):,} by {_METHODS[method]}"
        for method, finding in by_method.items()
        if finding.statistic.value and method != "provenance"
    )
    sources = by_method.get("provenance")
    named = int(sources.statistic.value) if sources else 0
    names = counted(named, "item names", "items name")
    source = f" {names} the same file, article or address as {corpus}." if named else ""
    modality = joined.details["by_modality"]
    if not message and not modality[Modality.FULL]:
        read = f"No item of {benchmark} was found by its words in {searched}."
        return f"{read}{limits}{source}{_common(kinds, together)}"
    own = f"Items of {benchmark} found by their words in {corpus}: {message}." if message else ""
    return (
        f"{own}{_joined(modality, benchmark, corpus)}{_beside(together)}{limits}{source}"
        f"{_common(kinds, together)}"
    ).strip()


_IDENTIFIED = (
    "item that can be identified by its words alone is",
    "items that can be identified by their words alone are",
)
_METHODS = {
    "exact": "equal texts",
    "ngram": "runs of words",
    "edit": "small edits",
    "embedding": "similar meaning",
}


_PARTS = {
    Modality.FULL: "with picture, question and answer (small edits and rewordings included)",
    Modality.IMAGE_AND_QUESTION: "with picture and question",
    Modality.IMAGE_ONLY: "with the picture alone",
    Modality.TEXT_ONLY: "with the words alone",
}


def _joined(modality: Mapping[str, int], benchmark: str, corpus: str | None) -> str:
    """What leaked of items, pictures and words taken together; what no item has is left out."""
    parts = [f"{modality[part]:,} {words}" for part, words in _PARTS.items() if modality[part]]
    if not parts:
        return ""
    return f" Items of {benchmark} in {corpus}, by picture and words together: {', '.join(parts)}."


def _limits(together: Mapping[str, Any]) -> str:
    inside = int(together["eligible_inside_longer_texts"])
    return (
        f" {f'Only {inside:,}' if inside else 'None'} of its {together['items']:,} items with words can be identified "
        f"inside a longer text."
    )


def _beside(together: Mapping[str, Any]) -> str:
    """Items with question and answer that are not counted, because nothing shows that they are about the same
    picture."""
    message = ""
    for name, where in (
        ("pictures_not_compared", "pictures that could not be compared"),
        ("beside_another_picture", "another picture"),
    ):
        if count := int(together.get(name, 0)):
            which = counted(count, "item has its", "items have their")
            message += (
                f" {which} question and answer there beside {where}; that alone is not counted."
            )
    if count := int(together.get("possible_rewordings", 0)):
        which = counted(count, "item has", "items have")
        message += (
            f" {which} a question with the same answer beside a copy of the picture there that may be a rewording or "
            f"another question: people have to read it."
        )
    return message


def _exactly(together: Mapping[str, Any]) -> str:
    """How the text matches: to the letter, or after normalisation."""
    whole = "question and answer (and options, where both sides have them)"
    judged = int(together.get("judged", 0))
    if not judged:
        return f"word for word, {whole}"
    return f"as {whole}, {judged:,} of them by people's word"


def _common(kinds: Mapping[str, int], together: Mapping[str, Any]) -> str:
    """Common questions, named so that they are not counted as leaks; those with their answer are listed
    already."""
    other = int(kinds.get(QUESTION_OTHER_IMAGE, 0))
    other -= int(together.get("beside_another_picture", 0))
    if other <= 0:
        return ""
    ask = counted(other, "item asks", "items ask")
    return f" {ask} a question that the corpus asks of another picture; that alone is no leak."


def _why(
    status: Status,
    together: Mapping[str, Any],
    documents: int,
    coverage: Sequence[Control],
    controls: tuple[Control, Control],
    words: Sequence[Finding],
    whole: int,
) -> str:
    reach, rewordings = controls
    failed = "; ".join(entry.reason for entry in (*coverage, reach) if entry.outcome == "failed")
    unread = "; ".join(entry.reason for entry in coverage if entry.outcome == "failed")
    if status == "not testable":
        compared = together["items"] and documents
        return unread or (reach.reason if compared else "one side has no text")
    if status == "survives":
        why = (
            f"{counted(together['hard'], *_IDENTIFIED)} there {_exactly(together)}"
            if together["hard"]
            else f"{counted(whole, 'item is', 'items are')} there with picture, question and answer"
        )
        return f"{why}; this is a lower bound, because {failed}" if failed else why
    if status == "qualified":
        similar = (
            "the words are similar, part of a longer text, short, a template with the same numbers and "
            "answer, or equal without the answer or beside a picture that is not known to be the item's"
        )
        unsearched = rewordings.reason if rewordings.outcome != "passed" else ""
        parts = (similar if together["evident"] else "", failed, unsearched)
        return "; ".join(part for part in parts if part)
    unseen = "; ".join(texts_missed(words))
    return f"{coverage[0].reason}; {reach.reason}; not seen by the methods used: {unseen}"


# Claims about provenance: items from a source that the corpus names as well.


_KINDS = {"pmc": "article (PMC id)", "doi": "article (DOI)", "url": "address", "file": "file name"}
_ADVICE = (
    "report scores with and without these items (text_matches lists them, method provenance), or make "
    "splits that share no source (heldout sanitize --resplit, grouped by the source)"
)
_FILES = "look whether these files show the same: different files can have one name"


def source_claim(
    finding: Finding,
    text_matches: pl.DataFrame,
    items: int,
    scanned: Mapping[str, Any],
    leaked: Collection[str] = (),
) -> Claim | None:
    """What ``finding`` (text-overlap by provenance) says of one corpus, beside the items that ``leaked`` into it:
    their origin says nothing new. None where no other item shares a source."""
    corpus = finding.cell.corpus
    shared = text_matches.filter(
        (pl.col("method") == "provenance") & (pl.col("corpus") == corpus)
    ).select("benchmark_id", "field", "evidence")
    rows = shared.filter(~pl.col("benchmark_id").is_in(list(leaked)))
    leaked_too = shared["benchmark_id"].n_unique() - rows["benchmark_id"].n_unique()
    if rows.is_empty():
        return None
    by_kind = {
        str(kind): part["benchmark_id"].n_unique()
        for (kind,), part in rows.group_by("field", maintain_order=True)
    }
    named = rows["benchmark_id"].n_unique()
    sources = rows["evidence"].n_unique()
    article = any(kind != "file" for kind in by_kind)
    rule = decide(SOURCES, {"an article or address is named": article})
    kinds = ", ".join(
        f"{count:,} by {_KINDS.get(kind, kind)}" for kind, count in sorted(by_kind.items())
    )
    return Claim(
        id=f"source/{corpus}",
        cell=finding.cell,
        sentence=(
            f"{counted(named, 'item', 'items')} of {items:,} ({percent(named / max(1, items))}) of "
            f"{finding.cell.benchmark} {'names' if named == 1 else 'name'} the same source as {corpus}: "
            f"{kinds}; {counted(sources, 'source', 'sources')}. The origin is the same; that alone is no copy."
            + (f" {leaked_too:,} more do, and are counted as leaked already." if leaked_too else "")
        ),
        status=rule.status,
        why=rule.reason,
        rule=rule_id(SOURCES, rule),
        findings=[finding.id],
        controls=[text_coverage(scanned), *read_in_part(scanned)],
        next_step=_ADVICE if article else _FILES,
    )
