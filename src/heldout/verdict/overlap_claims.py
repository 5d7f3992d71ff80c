"""Claims about image overlap: what the counts are worth, and what they cannot say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heldout.benchmark import parse_source
from heldout.detect import POSSIBLE_IMAGES, Finding
from heldout.errors import counted, percent
from heldout.evidence import (
    BY_DIGEST,
    TOO_PLAIN,
    TOO_SMALL,
    UNDECIDED_WORDS,
    UNREAD,
    Relation,
    UnreadFiles,
)
from heldout.verdict.claim import (
    CORPUS_COVERAGE,
    NOTHING_TO_COMPARE,
    WHOLE_CORPUS,
    Claim,
    Control,
    Status,
)
from heldout.verdict.rules import COPIES, Rule, decide, rule_id

SIZE, CONTENT = "size of the pictures", "content of the pictures"  # controls
SEARCH_THE_REST = (
    "search the whole corpus: heldout overlap without the limit, in another run folder"
)


def overlap_claims(
    findings: Sequence[Finding], scanned: Mapping[str, Any], *, worded: bool = False
) -> list[Claim]:
    """One claim per corpus; ``scanned`` is the manifest's record of that corpus' scan.

    ``worded``: its words were compared, too, and have a claim of their own.
    """
    by_unit = {finding.unit: finding for finding in findings}
    images, possible = by_unit["images"], by_unit.get(POSSIBLE_IMAGES)
    items = by_unit.get("questions") or by_unit["items"]
    answers = by_unit.get("questions with their answer") or by_unit.get("items with their label")
    if imageless := _imageless(images, scanned["counts"]):
        return [_nothing_to_compare(images, imageless, worded)]
    coverage = [_benchmark_coverage(images), _corpus_coverage(scanned), *read_in_part(scanned)]
    rule = _rule(images, coverage)
    controls = [*_undecided_pairs(images), *_what_pictures_allow(images), *coverage]
    status = rule.status
    return [
        Claim(
            id=f"overlap/{images.cell.corpus}",
            cell=images.cell,
            sentence=_sentence(status, images, possible, items, answers, coverage),
            status=status,
            why=_why(status, images, controls),
            rule=rule_id(COPIES, rule),
            findings=[finding.id for finding in findings],
            controls=controls,
            next_step=_next_step(status, images, answers, coverage),
        )
    ]


def _imageless(images: Finding, counts: Mapping[str, int]) -> str:
    """Why there is nothing to compare: one side has texts alone. Images that could not be read do not count as
    such."""
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
        next_step="see the claim about words for this corpus"
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
    unread, compared = UnreadFiles.of_scan(scanned), counts["images"]
    message = "no picture of the corpus was compared"
    if compared:
        message = (
            f"the pictures of {counted(compared, 'corpus item', 'corpus items')} were compared"
        )
    message += f"; {unread.sentence()}" if unread.sentence() else ""
    if bare := counts.get("without_image", 0):
        message += f"; {counted(bare, 'item has', 'items have')} no picture"
    if failed:
        message += f"; {len(failed)} of {counted(scanned['shards'], 'piece', 'pieces')} of the corpus failed"
    unverified = counts.get("unverified_pairs", 0)
    if unverified:
        message += (
            f"; {unverified:,} pairs that look alike could not be verified (see the dropped table)"
        )
    bad = bool(failed or unread.matters or unverified or not compared)
    return Control(name=CORPUS_COVERAGE, outcome="failed" if bad else "passed", reason=message)


def read_in_part(scanned: Mapping[str, Any]) -> list[Control]:
    """The control that fails where only the first items of the corpus were read; a corpus that ended before the
    limit was read whole."""
    source = scanned.get("source")
    first = parse_source(source).limit if source else None
    counts = scanned["counts"]
    texts = counts.get("text_items", 0) + counts.get("text_lost_items", 0)
    if first is None or max(counts.get("items", 0), texts) < first:
        return []
    items = "item of the corpus was" if first == 1 else f"{first:,} items of the corpus were"
    return [
        Control(
            name=WHOLE_CORPUS,
            outcome="failed",
            reason=f"only the first {items} read",
        )
    ]


def _undecided(images: Finding) -> int:
    """Pictures without a proven copy that have an undecided match."""
    return int(images.details["by_relation"].get(Relation.UNDECIDED, 0))


def _undecided_pairs(images: Finding) -> list[Control]:
    """Also where copies are proven: undecided pairs may be further copies."""
    if not _undecided(images):
        return []
    have = counted(_undecided(images), "picture has", "pictures have")
    message = f"{have} an undecided match in the corpus and no proven copy"
    reasons = images.details.get("undecided_because", {})
    listed = "; ".join(
        f"{count:,}: {UNDECIDED_WORDS.get(reason, reason)}"
        for reason, count in reasons.items()
        if reason
    )
    return [
        Control(
            name="undecided pairs",
            outcome="missing",
            reason=f"{message} ({listed})" if listed else message,
        )
    ]


def _what_pictures_allow(images: Finding) -> list[Control]:
    """Where size or content of the pictures, not the search, leaves matches undecided."""
    reasons = images.details.get("undecided_because", {})
    kinds = (
        (SIZE, TOO_SMALL, "too small to recognise a copy"),
        (CONTENT, TOO_PLAIN, "too plain to recognise a copy: they show too little detail"),
    )
    return [
        Control(
            name=name,
            outcome="missing",
            reason=f"{counted(reasons[reason], 'picture or its match is', 'pictures or their matches are')} "
            f"{what}",
        )
        for name, reason, what in kinds
        if reasons.get(reason)
    ]


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
    # Size and content of the pictures stand among the reasons of what is undecided.
    failed = "; ".join(
        control.reason
        for control in controls
        if control.outcome != "passed" and control.name not in (SIZE, CONTENT)
    )
    compared = images.details["corpus_images_compared"]
    if status == "not testable":
        return failed or "nothing could be compared"
    if status == "survives":
        why = "equal bytes or pixels are the same image"
        if _verified(images):
            why += ", and pictures whose fine detail agrees once they are aligned are the same image or a copy of it"
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
    possible: Finding | None,
    items: Finding,
    answers: Finding | None,
    coverage: Sequence[Control],
) -> str:
    benchmark, corpus = images.cell.benchmark, images.cell.corpus
    compared = int(images.details["corpus_images_compared"])
    if status == "not testable":
        return f"{benchmark} and {corpus} could not be compared."
    if status == "qualified":
        unread = [control for control in coverage if control.outcome != "passed"]
        message = (
            f"No {_kind(images)} was {'proven' if _undecided(images) else 'found'} among the "
            f"{images.n:,} images of {benchmark} and the {compared:,} of {corpus}"
        )
        if any(control.name != WHOLE_CORPUS for control in unread):
            message += " that could be read; parts of them could not"
        message += "".join(
            f"; {control.reason}" for control in unread if control.name == WHOLE_CORPUS
        )
        return f"{message}." + _if_copies(images, possible) + _similar(images)
    if status == "clean":
        return f"No image of {benchmark} is in {corpus} as {_an(_kind(images))}." + _similar(images)
    return (
        f"{_count(images, f'images of {benchmark} ')} are in {corpus} as {_copies(images)}"
        f"{_carried(images, items)}; {_answers(images, items, answers)}."
        + _conflicts(images, items)
        + _if_copies(images, possible)
        + _similar(images)
    )


def _count(finding: Finding, what: str = "") -> str:
    effect = finding.effect
    rate = f"{percent(effect.value)} [{percent(effect.low)}, {percent(effect.high)}]"
    return f"{int(finding.statistic.value):,} of {finding.n:,} {what}({rate})"


def _carried(images: Finding, items: Finding) -> str:
    """How many items show them; nothing where an item is its picture."""
    same = (items.statistic.value, items.n) == (images.statistic.value, images.n)
    if items.unit == "items" and same:
        return ""
    verb = "carry" if items.unit == "questions" else "are shown by"
    of = f"{int(items.statistic.value):,} of {items.n:,} {items.unit}"
    if images.details["images_not_comparable"]:  # the rate of the benchmark is of all its items
        of = of.replace(" of ", " of the ") + " whose pictures could be compared"
    return f"; they {verb} {of} ({percent(items.effect.value)})"


def _answers(images: Finding, items: Finding, answers: Finding | None) -> str:
    asked = items.unit == "questions"
    if answers is None and images.details.get("answers_in_another_script"):
        return "answers were not compared, since the corpus is written in another script"
    if answers is None and asked:
        return "answers were not compared, since the corpus has no answer fields"
    if answers is None:
        return "labels were not compared, since the corpus names none"
    leaked = int(answers.statistic.value)
    if asked:
        return f"{leaked:,} of these questions leaked together with their answer"
    return f"{counted(leaked, 'item', 'items')} leaked together with their label"


def _conflicts(images: Finding, items: Finding) -> str:
    conflicts = int(images.details.get("label_conflicts", 0))
    if not conflicts:
        return ""
    what = "question" if items.unit == "questions" else "item"
    have = "has" if conflicts == 1 else "have"
    other = "answer" if items.unit == "questions" else "label"
    return f" Label conflict: {counted(conflicts, what, f'{what}s')} {have} a copy with another {other} there."


def _if_copies(images: Finding, possible: Finding | None) -> str:
    """The upper bound: the count if all undecided pictures are copies."""
    if possible is None:
        return ""
    undecided = _undecided(images)
    more = "more " if images.statistic.value else ""
    are = f"{more}image is undecided" if undecided == 1 else f"{more}images are undecided"
    copies = "it is a copy" if undecided == 1 else "all of them are copies"
    return f" {undecided:,} {are}: if {copies}, the count is {_count(possible)}."


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
    """Look-alikes are not proven copies and never counted as copies; they are not called unrelated either."""
    others = images.details["by_relation"].get(Relation.LOOK_ALIKE, 0)
    if not others:
        return ""
    have = "image has" if others == 1 else "images have"
    return (
        f" {others:,} {have} look-alikes there and nothing nearer: similar pictures, no proven copies; a copy "
        f"that could not be aligned may be among them."
    )


def _next_step(
    status: Status, images: Finding, answers: Finding | None, coverage: Sequence[Control]
) -> str:
    if status == "survives":
        step = "leave out the items whose picture leaked, or report scores with and without them"
        if answers is not None and answers.statistic.value > 0:
            what = "answer" if answers.unit.startswith("questions") else "label"
            step = (
                f"remove the leaked items before reporting a score; those with their {what} first"
            )
        if _undecided(images):
            step += "; have people judge the undecided pairs (heldout review RUN)"
        return step
    if status == "qualified" and _undecided(images):
        return "have people judge the undecided pairs (heldout review RUN)"
    if status == "qualified" and coverage[-1].name == WHOLE_CORPUS:
        return SEARCH_THE_REST
    if status == "qualified":
        return "make readable what was lost (see the dropped table) and run the same command again"
    if status == "not testable" and images.n:
        return f"see in the dropped table why no image of {images.cell.corpus} could be compared"
    if status == "not testable":
        return "run heldout check on the benchmark, and look at the dropped table"
    return "this concerns images only, and the kinds of copies that were searched for"
