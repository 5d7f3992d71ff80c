"""Claims about image overlap: what the counts are worth, and what they cannot say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heldout.detect import Finding
from heldout.errors import counted
from heldout.evidence import BY_DIGEST, Relation
from heldout.verdict.claim import NOTHING_TO_COMPARE, Claim, Control, Status
from heldout.verdict.rules import COPIES, Rule, decide, rule_id

# Above this share of unread images, "none found" is a statement about the readable part only.
UNREAD = 0.01


def overlap_claims(
    findings: Sequence[Finding], scanned: Mapping[str, Any], *, worded: bool = False
) -> list[Claim]:
    """One claim per corpus; ``scanned`` is the manifest's record of that corpus' scan.

    ``worded``: its words were compared, too, and have a claim of their own.
    """
    images, questions, *rest = findings
    answers = rest[0] if rest else None
    if imageless := _imageless(images, scanned["counts"]):
        return [_nothing_to_compare(images, imageless, worded)]
    coverage = [_benchmark_coverage(images), _corpus_coverage(scanned)]
    rule = _rule(images, coverage)
    controls = [*_undecided_pairs(images), *coverage]
    status = rule.status
    return [
        Claim(
            id=f"overlap/{images.cell.corpus}",
            cell=images.cell,
            sentence=_sentence(status, images, questions, answers, coverage),
            status=status,
            why=_why(status, images, controls),
            rule=rule_id(COPIES, rule),
            findings=[finding.id for finding in findings],
            controls=controls,
            next_step=_next_step(status, images, answers),
        )
    ]


def _imageless(images: Finding, counts: Mapping[str, int]) -> str:
    """Why there is nothing to compare: a side of words alone. Images that were lost are no such side."""
    items = counts.get("items", 0)
    if items and counts.get("without_image", 0) == items:
        return f"no item of {images.cell.corpus} has an image ({items:,} read)"
    if images.n == 0 and not images.details["images_not_comparable"]:
        return f"no item of {images.cell.benchmark} has an image"
    return ""


def _nothing_to_compare(images: Finding, why: str, worded: bool) -> Claim:
    return Claim(
        id=f"overlap/{images.cell.corpus}",
        cell=images.cell,
        sentence=f"{images.cell.benchmark} and {images.cell.corpus} have no images to compare.",
        status="not testable",
        why=why,
        rule=rule_id(COPIES, decide(COPIES, {"both sides have pictures": False})),
        findings=[],
        controls=[Control(name=NOTHING_TO_COMPARE, outcome="missing", reason=why)],
        next_step="the claim about words speaks of this corpus"
        if worded
        else "switch the text search on: heldout overlap … --text, or text: true in an audit file",
    )


def _benchmark_coverage(images: Finding) -> Control:
    lost = int(images.details["images_not_comparable"])
    message = f"{images.n:,} pictures of the benchmark could be compared"
    if lost:
        message += f", {lost:,} could not (missing, unreadable or flat)"
    share = lost / (lost + images.n) if lost + images.n else 1.0
    return Control(
        name="benchmark coverage", outcome="failed" if share > UNREAD else "passed", reason=message
    )


def _corpus_coverage(scanned: Mapping[str, Any]) -> Control:
    counts, failed = scanned["counts"], scanned["failed"]
    compared, lost, archives = counts["images"], counts["lost_items"], counts["lost_containers"]
    share = lost / (lost + compared) if lost + compared else 1.0
    of = counted(compared, "corpus item was", "corpus items were")
    message = f"pictures of {of} compared, {lost:,} items were lost" + (
        f" ({share:.2%})" if lost + compared else ""
    )
    if archives:
        message += (
            f", and {counted(archives, 'archive, file or folder', 'archives, files or folders')}"
        )
        message += " in whole or in part"
    if failed:
        message += f"; {len(failed)} of {counted(scanned['shards'], 'shard', 'shards')} failed"
    unverified = counts.get("unverified_pairs", 0)
    if unverified:
        message += (
            f"; {unverified:,} pairs that look alike could not be verified (see the dropped table)"
        )
    bad = bool(failed or archives or share > UNREAD or unverified)
    return Control(name="corpus coverage", outcome="failed" if bad else "passed", reason=message)


def _undecided(images: Finding) -> int:
    """Pictures that look like one of the corpus, nobody knows whether they are it."""
    return int(images.details["by_relation"].get(Relation.UNDECIDED, 0))


def _undecided_pairs(images: Finding) -> list[Control]:
    """Asked where no copy is proven: one that is needs no others."""
    if images.statistic.value or not _undecided(images):
        return []
    have = counted(_undecided(images), "picture has", "pictures have")
    message = f"{have} an undecided likeness in the corpus"
    return [Control(name="undecided pairs", outcome="missing", reason=message)]


def _rule(images: Finding, controls: Sequence[Control]) -> Rule:
    compared = images.n > 0 and images.details["corpus_images_compared"] > 0
    facts = {
        "both sides have pictures": True,
        "pictures were compared": compared,
        "a copy was proven": images.statistic.value > 0,
        # What people judged since is taken in by verdict/people.py.
        "one rater alone dismissed pairs": False,
        "every pair was decided": not _undecided(images),
        "all was read": all(control.outcome == "passed" for control in controls),
    }
    return decide(COPIES, facts)


def _why(status: Status, images: Finding, controls: Sequence[Control]) -> str:
    failed = "; ".join(control.reason for control in controls if control.outcome != "passed")
    compared = images.details["corpus_images_compared"]
    if status == "not testable":
        return failed or "nothing could be compared"
    if status == "survives":
        why = "equal bytes or pixels are the same image"
        if _verified(images):
            why += (
                ", and aligned pixels that agree in their detail are the same image or a copy of it"
            )
        return f"{why}; this is a lower bound, because {failed}" if failed else why
    if status == "qualified":
        return failed
    return (
        f"every one of {images.n:,} pictures was compared with those of "
        f"{counted(compared, 'corpus item', 'corpus items')}; "
        f"not looked for: {'; '.join(images.blind_to)}"
    )


def _sentence(
    status: Status,
    images: Finding,
    questions: Finding,
    answers: Finding | None,
    coverage: Sequence[Control],
) -> str:
    benchmark, corpus = images.cell.benchmark, images.cell.corpus
    compared = int(images.details["corpus_images_compared"])
    if status == "not testable":
        return f"{benchmark} and {corpus} could not be compared."
    if status == "qualified":
        read = all(control.outcome == "passed" for control in coverage)
        message = (
            f"No {_kind(images)} was {'proven' if _undecided(images) else 'found'} among the "
            f"{images.n:,} images of {benchmark} and the {compared:,} of {corpus}"
        )
        message += "" if read else " that could be read; parts of them could not"
        have = counted(_undecided(images), "picture has", "pictures have")
        left = f" {have} an undecided match there: it may be a copy." if _undecided(images) else ""
        return f"{message}.{left}"
    if status == "clean":
        return f"No image of {benchmark} is in {corpus} as {_an(_kind(images))}." + _similar(images)
    effect = images.effect
    message = "answers were not compared, since the corpus has no answer fields"
    if answers is not None:
        message = f"{int(answers.statistic.value):,} of them leaked together with their answer"
    return (
        f"{int(images.statistic.value):,} of {images.n:,} images of {benchmark} "
        f"({effect.value:.1%} [{effect.low:.1%}, {effect.high:.1%}]) are in {corpus} as {_copies(images)}; "
        f"they carry {int(questions.statistic.value):,} of {questions.n:,} questions "
        f"({questions.effect.value:.1%}); {message}." + _similar(images)
    )


def _verified(images: Finding) -> bool:
    return not any("re-encoded" in unseen for unseen in images.blind_to)


def _kind(images: Finding) -> str:
    return "copy" if _verified(images) else "exact copy"


def _an(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _copies(images: Finding) -> str:
    if not _verified(images):
        return "exact copies"
    methods = images.details["by_method"]
    exact = sum(count for method, count in methods.items() if method in BY_DIGEST)
    rest = images.details["copies"] - exact
    if not rest:
        return "exact copies"
    # Pictures, like the number before it: matches are pairs, and repeat with questions and copies.
    relations = images.details["by_relation"]
    texts = [
        f"{counted(count, 'image', 'images')} as {kind}"
        for relation, kind in (
            (Relation.SAME_IMAGE, "the same image"),
            (Relation.TRANSFORMED_COPY, "a transformed copy"),
        )
        if (count := relations.get(relation, 0))
    ]
    return f"copies ({', '.join(texts)})"


def _similar(images: Finding) -> str:
    """Source overlap: a neighbour of the same view is not a copy, and is never counted as one."""
    others = images.details["by_relation"].get(Relation.OTHER_SUBJECT, 0)
    if not others:
        return ""
    have = "picture has" if others == 1 else "pictures have"
    return f" {others:,} {have} a neighbour of the same view but another subject."


def _next_step(status: Status, images: Finding, answers: Finding | None) -> str:
    if status == "survives" and answers is not None and answers.statistic.value > 0:
        return "remove the leaked items before reporting a score; those with their answer first"
    if status == "survives":
        return "report the score with and without the leaked images"
    if status == "qualified" and _undecided(images):
        return "have people judge the undecided pairs (heldout review RUN)"
    if status == "qualified":
        return "make readable what was lost (see the dropped table) and run the same command again"
    if status == "not testable" and images.n:
        return f"see in the dropped table why no image of {images.cell.corpus} could be compared"
    if status == "not testable":
        return "run heldout check on the benchmark, and look at the dropped table"
    return "this speaks of images only, and of the kinds of copies that were looked for"
