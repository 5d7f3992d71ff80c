"""Claims about text overlap: what shared words are worth.

| evidence                                          | status                          |
|---------------------------------------------------|---------------------------------|
| items that stand there word for word, with answer | survives                        |
| reworded, contained or unanswered items only      | qualified: people must read them|
| none, and everything was read                     | clean, as to what was searched  |
| none, parts not read                              | qualified                       |
| no text on one side                               | not testable                    |

A common question never counts: "is the lung healthy?" is asked of every radiograph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heldout.detect import Finding
from heldout.verdict.claim import NOTHING_TO_COMPARE, Claim, Control, Status
from heldout.verdict.overlap_claims import UNREAD


def text_claim(
    findings: Sequence[Finding],
    joined: Finding,
    kinds: Mapping[str, int],
    scanned: Mapping[str, Any],
) -> Claim:
    """One claim per corpus: ``findings`` per method, ``kinds`` from count_kinds."""
    cell = joined.cell
    control = _coverage(scanned)
    documents = int(scanned["counts"].get("text_documents", 0))
    # A shared source is a hint where to look: names of files and of articles repeat.
    words = [one for one in findings if not one.id.endswith("/provenance")]
    hard = max((int(one.details["hard"]) for one in words), default=0)
    evident = max((int(one.statistic.value) for one in words), default=0)
    tested = max((one.n for one in findings), default=0)
    status = _status(tested, documents, hard, evident, control)
    return Claim(
        id=f"text/{cell.corpus}",
        cell=cell,
        sentence=_sentence(status, findings, joined, kinds, documents),
        status=status,
        why=_why(status, hard, control, findings),
        findings=[*(one.id for one in words or findings), joined.id],
        controls=[control, *_wordless(tested, documents, control)],
        next_step=_NEXT[status],
    )


_NEXT: Mapping[Status, str] = {
    "survives": "remove these items before reporting a score (heldout sanitize)",
    "qualified": "read the listed pairs: a reworded question may be another one",
    "clean": "paraphrases and translations need --text-encoder, and even then only near ones show",
    "not testable": "give a corpus with text fields, or leave --text out",
}


def _wordless(tested: int, documents: int, control: Control) -> list[Control]:
    """A side that never had words; where words were lost, there may have been some."""
    if (tested and documents) or control.outcome == "failed":
        return []
    side = "corpus" if tested else "benchmark"
    reason = f"the {side} has no words"
    return [Control(name=NOTHING_TO_COMPARE, outcome="missing", reason=reason)]


def _coverage(scanned: Mapping[str, Any]) -> Control:
    counts, failed = scanned["counts"], scanned["failed"]
    read = int(counts.get("text_items", 0))
    lost, archives = (
        int(counts.get("text_lost_items", 0)),
        int(counts.get("text_lost_containers", 0)),
    )
    share = lost / (lost + read) if lost + read else 1.0
    told = f"{read:,} corpus items were read, {lost:,} were lost ({share:.2%})"
    if archives:
        told += f", and {archives:,} archives, files or folders in whole or in part"
    if failed:
        told += f"; {len(failed)} shards failed"
    bad = bool(failed or archives or share > UNREAD)
    return Control(name="corpus coverage", outcome="failed" if bad else "passed", reason=told)


def _status(tested: int, documents: int, hard: int, evident: int, control: Control) -> Status:
    if not tested or not documents:
        return "not testable"
    if hard:
        return "survives"
    if evident or control.outcome == "failed":
        return "qualified"
    return "clean"


def _sentence(
    status: Status,
    findings: Sequence[Finding],
    joined: Finding,
    kinds: Mapping[str, int],
    documents: int,
) -> str:
    benchmark, corpus = joined.cell.benchmark, joined.cell.corpus
    if status == "not testable":
        return f"The words of {benchmark} and {corpus} could not be compared."
    searched = f"{documents:,} texts of {corpus}"
    if status == "clean":
        return f"No item of {benchmark} has its own words among {searched}.{_common(kinds)}"
    by_method = {one.id.rsplit("/", 1)[1]: one for one in findings}
    told = ", ".join(
        f"{int(one.statistic.value):,} by {_METHODS[method]}"
        for method, one in by_method.items()
        if one.statistic.value and method != "provenance"
    )
    sources = by_method.get("provenance")
    named = int(sources.statistic.value) if sources else 0
    source = f" {named:,} items name a source that {corpus} names, too." if named else ""
    if not told:
        read = f"No item of {benchmark} has its own words among what could be read of {corpus}."
        return read + source
    modality = joined.details["by_modality"]
    return (
        f"Items of {benchmark} with their own words in {corpus}: {told}. Joined with the pictures: "
        f"{modality['full']:,} items leaked whole (picture, question and answer; small edits included), "
        f"{modality['image and question']:,} with picture and question, "
        f"{modality['image only']:,} with the picture alone, {modality['text only']:,} with the "
        f"words alone.{source}{_common(kinds)}"
    )


_METHODS = {
    "exact": "equal texts",
    "ngram": "runs of words",
    "edit": "small edits",
    "embedding": "similar meaning",
}


def _common(kinds: Mapping[str, int]) -> str:
    """Said so that nobody counts them as leaks."""
    other = int(kinds.get("same question, another image", 0))
    if not other:
        return ""
    return (
        f" {other:,} items ask a question that the corpus asks of another picture; that alone leaks "
        f"nothing."
    )


def _why(status: Status, hard: int, control: Control, findings: Sequence[Finding]) -> str:
    failed = control.reason if control.outcome == "failed" else ""
    if status == "not testable":
        return failed or "one side has no text"
    if status == "survives":
        why = f"{hard:,} items stand there word for word, and say too much to be there by chance"
        return f"{why}; this is a lower bound, because {failed}" if failed else why
    if status == "qualified":
        return failed or "the words are similar, not equal, or equal without an answer"
    unseen = sorted({text for one in findings for text in one.blind_to})
    return f"{control.reason}; not seen by the methods used: {'; '.join(unseen)}"
