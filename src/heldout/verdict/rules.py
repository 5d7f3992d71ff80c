"""The rules of the verdict: from what is known about a finding to a status. The table is data.

``decide`` takes the first row of a kind whose facts all hold. Code establishes facts; only this table
turns them into a status. `heldout audit --rules` prints it, and docs/verdict.md holds what that prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from heldout.verdict.claim import Status

COPIES, WORDS, SOURCES, NEARNESS = "copies", "words", "sources", "nearness"
ORDER, MEMBERSHIP, COHORT, ANSWERS = "order", "membership", "cohort", "answers"
OF_MODELS = (ORDER, MEMBERSHIP, COHORT, ANSWERS)
KINDS = (COPIES, WORDS, SOURCES, NEARNESS, *OF_MODELS)


class Rule(NamedTuple):
    """``when``: facts and whether they have to hold; facts that are not named do not matter."""

    name: str
    kinds: tuple[str, ...]
    when: Mapping[str, bool]
    status: Status
    reason: str


def decide(kind: str, facts: Mapping[str, bool]) -> Rule:
    """The rule that applies. A fact that the table asks for and the code did not establish is a bug."""
    return next(
        rule
        for rule in RULES
        if kind in rule.kinds and all(facts[fact] == held for fact, held in rule.when.items())
    )


def rule_id(kind: str, rule: Rule) -> str:
    """What a claim's ``rule`` says: the kind of finding and the row that decided."""
    return f"{kind}/{rule.name}"


RULES: tuple[Rule, ...] = (
    # Copies are compared, not inferred: equal digests and aligned pixels need no control of their own.
    Rule(
        "no-pictures",
        (COPIES,),
        {"both sides have pictures": False},
        "not testable",
        "one side never had a picture",
    ),
    Rule(
        "nothing-read",
        (COPIES,),
        {"pictures were compared": False},
        "not testable",
        "no picture could be compared",
    ),
    Rule(
        "copy-found",
        (COPIES,),
        {"a copy was proven": True},
        "survives",
        "a proven copy needs no further control; a lower bound where parts were not read",
    ),
    Rule(
        "dismissed-alone",
        (COPIES,),
        {"one rater alone dismissed pairs": True},
        "qualified",
        "one rater alone dismissed what the tool calls copies or undecided: a second has to agree",
    ),
    Rule(
        "undecided-left",
        (COPIES,),
        {"every pair was decided": False},
        "qualified",
        "none proven, but pairs are left that neither aligning them nor two people who agree decided",
    ),
    Rule(
        "parts-unread",
        (COPIES,),
        {"all was read": False},
        "qualified",
        "none found, but parts of either side could not be read",
    ),
    Rule(
        "none-found",
        (COPIES,),
        {},
        "clean",
        "none found, and all was read: as to what was looked for",
    ),
    # A text identifies an item only together with its answer, or beside its own picture.
    Rule(
        "leaked-whole",
        (WORDS,),
        {"words were compared": True, "an item leaked whole": True},
        "survives",
        "beside its own picture and with its answer even a common question is the item's",
    ),
    Rule(
        "nothing-to-find",
        (WORDS,),
        {"some item can be identified by its words": False},
        "not testable",
        "no text on one side, or no item that any method could find",
    ),
    Rule(
        "no-words", (WORDS,), {"words were compared": False}, "not testable", "one side has no text"
    ),
    Rule(
        "word-for-word",
        (WORDS,),
        {"question and answer are in the corpus": True},
        "survives",
        "question and answer (and options) word for word",
    ),
    Rule(
        "like-words",
        (WORDS,),
        {"similar words are in the corpus": True},
        "qualified",
        "reworded, contained, short, templates, unanswered, or beside a picture that is another or could "
        "not be compared: people must read them",
    ),
    Rule(
        "parts-unread",
        (WORDS,),
        {"all was read": False},
        "qualified",
        "none found, but parts were not read",
    ),
    Rule(
        "out-of-reach",
        (WORDS,),
        {"most items can be found": False},
        "qualified",
        "none found, but too few items can be identified by their words inside a longer text",
    ),
    Rule(
        "rewordings-unsearched",
        (WORDS,),
        {"rewordings were looked for": False},
        "qualified",
        "none found, but rewordings were not searched for, or are mostly not found (another language, "
        "programs, few items, a threshold that was set)",
    ),
    Rule("none-found", (WORDS,), {}, "clean", "none found, and most items could have been"),
    # A source that both sides name says where they come from, and is not a leak by itself.
    Rule(
        "source-named",
        (SOURCES,),
        {"an article or address is named": True},
        "qualified",
        "one article, DOI or address on both sides: what is asked of it may be known from the corpus",
    ),
    Rule(
        "file-named",
        (SOURCES,),
        {},
        "qualified",
        "only file names are the same, and different files can have one name",
    ),
    # Nearness is never a leak, whatever its status: copies have a claim of their own.
    Rule(
        "no-threshold",
        (NEARNESS,),
        {"the null resolves a threshold": False},
        "not testable",
        "the null is too small for any threshold",
    ),
    Rule(
        "null-misfit",
        (NEARNESS,),
        {"fewer flags than chance": True},
        "qualified",
        "pictures of the null lie closer together than these do: it does not fit",
    ),
    Rule(
        "copies-beside",
        (NEARNESS,),
        {"more flags than chance": False, "copies were proven": True},
        "qualified",
        "no more flags than chance, but copies are proven: few flags do not clear these pictures",
    ),
    Rule(
        "interval-off",
        (NEARNESS,),
        {"more flags than chance": False, "the interval holds the expected rate": False},
        "qualified",
        "the test does not fire, but its own interval excludes the expected rate",
    ),
    Rule(
        "nothing-near",
        (NEARNESS,),
        {"more flags than chance": False, "light copies are flagged": True},
        "clean",
        "no nearer than different pictures are, and light copies would have been",
    ),
    Rule(
        "blind",
        (NEARNESS,),
        {"more flags than chance": False},
        "qualified",
        "nothing is flagged, but light copies would not be, either",
    ),
    Rule(
        "copies-explain",
        (NEARNESS,),
        {"more than chance without copies": False},
        "re-attributed",
        "only proven copies are near: they have a claim of their own",
    ),
    Rule(
        "control-fires-too",
        (NEARNESS,),
        {"a control is flagged as much": True},
        "collapses",
        "pictures that cannot be in the corpus are flagged as much, or paintings are flagged at all",
    ),
    Rule(
        "control-unsettled",
        (NEARNESS,),
        {"the in-domain control passed": False},
        "qualified",
        "without clean pictures of the same kind, nearness of the kind is not ruled out",
    ),
    Rule(
        "nearer-than-control",
        (NEARNESS,),
        {},
        "survives",
        "nearer than clean pictures of the same kind: that is nearness, and no proof of a copy",
    ),
    # Models: a finding has to be more than in a model that cannot have seen the benchmark.
    Rule("untested", OF_MODELS, {"tested": False}, "not testable", "no test could be made"),
    Rule(
        "no-p",
        OF_MODELS,
        {"fires": False, "has a p": False},
        "qualified",
        "a rate without a test settles nothing",
    ),
    Rule(
        "both-drop",
        (ANSWERS,),
        {"fires": False, "a baseline fires too": True},
        "collapses",
        "it drops by itself, and so do clean models, as much",
    ),
    Rule(
        "own-interval",
        OF_MODELS,
        {"fires": False, "its interval excludes no effect": True},
        "qualified",
        "nothing fires once corrected, but an interval lies above no effect",
    ),
    Rule(
        "out-of-reach",
        OF_MODELS,
        {"fires": False, "no effect could have fired": True},
        "not testable",
        "the smallest p that could have come out is too large for the family",
    ),
    Rule(
        "no-reference",
        OF_MODELS,
        {"fires": False, "a reference is missing": True},
        "qualified",
        "nothing fires, but without a clean reference an absent difference proves nothing",
    ),
    Rule(
        "too-few-pairs",
        (ANSWERS,),
        {
            "fires": False,
            "a large effect need not have shown": True,
            "a control failed": False,
        },
        "qualified",
        "nothing fires, but so few pairs need not show an effect of half the items",
    ),
    Rule(
        "doubt",
        OF_MODELS,
        {"fires": False, "every control passed": False},
        "qualified",
        "nothing fires, but a control leaves a doubt",
    ),
    Rule(
        "quiet",
        OF_MODELS,
        {"fires": False},
        "clean",
        "no effect found; one of the stated size would have been detected",
    ),
    # Two-sided tests fire in this direction, too, but then nothing looks seen that could collapse.
    Rule(
        "baseline-fires-alone",
        (ANSWERS,),
        {"a baseline fires alone": True},
        "qualified",
        "the baseline fires by itself and this model does not: the baseline may have seen the benchmark",
    ),
    Rule(
        "structure",
        (ORDER,),
        {"structure explains it": True},
        "re-attributed",
        "gone within a field that the release is grouped by",
    ),
    # A cap, not an explanation: controls of this finding by baselines or covariates come before it.
    Rule(
        "fires-on-clean",
        (ORDER,),
        {
            "clean lab models fire too": True,
            "a baseline fires too": False,
            "covariates explain it": False,
        },
        "qualified",
        "on clean models of the lab this detector fires more often than its level allows",
    ),
    Rule(
        "fires-on-clean",
        (MEMBERSHIP, COHORT, ANSWERS),
        {"clean lab models fire too": True, "a baseline fires too": False},
        "qualified",
        "on clean models of the lab this detector fires more often than its level allows",
    ),
    # Before what a sign of memory would have to pass: this is none, and more items or baselines make it none.
    Rule(
        "away-from-memory",
        OF_MODELS,
        {
            "points to memory": False,
            "a baseline fires too": False,
            "covariates explain it": False,
        },
        "qualified",
        "significant on the side away from memory: no sign of it, but what it is compared with differs from it",
    ),
    Rule(
        "no-baseline",
        OF_MODELS,
        {"every baseline was recorded": False},
        "qualified",
        "no external baseline, or one that cannot be compared",
    ),
    Rule(
        "baseline-fires-too",
        (ORDER,),
        {"a baseline fires too": True},
        "re-attributed",
        "a model that cannot have seen it shows it as much: the release has structure",
    ),
    Rule(
        "baseline-fires-too",
        (MEMBERSHIP, COHORT, ANSWERS),
        {"a baseline fires too": True},
        "collapses",
        "a model that cannot have seen it shows it as much",
    ),
    Rule(
        "covariates",
        (ORDER,),
        {"covariates explain it": True},
        "re-attributed",
        "gone when adjusted for answer and question length",
    ),
    Rule("control-failed", OF_MODELS, {"a control failed": True}, "qualified", "a control failed"),
    Rule(
        "control-missing",
        OF_MODELS,
        {"a control is missing": True},
        "qualified",
        "a control is missing",
    ),
    Rule(
        "stands", OF_MODELS, {}, "survives", "more than in every baseline, and every control passed"
    ),
)


def as_markdown() -> str:
    """The table as people read it, one kind after the other, first row that holds decides."""
    blocks = []
    for kind in KINDS:
        lines = [f"**{kind}**", "", "| rule | holds when | status | because |", "|---|---|---|---|"]
        for rule in RULES:
            if kind in rule.kinds:
                lines.append(f"| `{rule.name}` | {_facts(rule)} | {rule.status} | {rule.reason} |")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _facts(rule: Rule) -> str:
    texts = [fact if held else f"not: {fact}" for fact, held in rule.when.items()]
    return "; ".join(texts) or "none of the above"
