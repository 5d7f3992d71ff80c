"""Which controls each kind of finding has to pass, what each asks, and what would supply a missing one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from heldout.verdict._model_claims import AWAY, BASELINE, FIRES_ALONE, MORE_ALIKE
from heldout.verdict._reworded import READ_FEW, REWORDINGS, TOO_FEW, after_failed_rewordings
from heldout.verdict.claim import CORPUS_COVERAGE, WHOLE_CORPUS, Claim, Control
from heldout.verdict.controls.same_models import SERVED
from heldout.verdict.rules import (
    ANSWERS,
    COHORT,
    COPIES,
    MEMBERSHIP,
    NEARNESS,
    ORDER,
    SOURCES,
    WORDS,
)
from heldout.verdict.text_claims import BY_NOTHING, READ_TEXTS, WITHIN_REACH


class RequiredControl(NamedTuple):
    """``control``: how the names of such controls begin; the rest names a model or a set.

    ``supply`` is the advice for runs of an audit file, ``by_hand`` (where it differs) for all others.
    """

    control: str
    kinds: tuple[str, ...]
    asks: str
    supply: str
    by_hand: str = ""


REQUIRED: tuple[RequiredControl, ...] = (
    RequiredControl(
        "benchmark coverage",
        (COPIES,),
        "were the benchmark's pictures read?",
        "make the benchmark's pictures readable (heldout check lists them)",
    ),
    RequiredControl(
        CORPUS_COVERAGE,
        (COPIES, WORDS, SOURCES),
        "was the corpus read?",
        "make readable what the dropped table lists, and run the audit again",
        "make readable what the dropped table lists, and give the same command again",
    ),
    RequiredControl(
        WHOLE_CORPUS,
        (COPIES, WORDS, SOURCES),
        "was all of the corpus read, not its first items alone?",
        "search all of it: take limit= out of the corpus in the audit file",
        "search all of it: the same heldout overlap without --limit, in another run folder",
    ),
    RequiredControl(
        "people",
        (COPIES, WORDS),
        "do two raters agree on what people changed?",
        "let one more rater judge what is not agreed on (heldout review RUN --blind)",
    ),
    RequiredControl(
        "undecided pairs",
        (COPIES,),
        "was every pair that looks alike decided?",
        "have people judge the undecided pairs (heldout review RUN)",
    ),
    RequiredControl(
        "size of the pictures",
        (COPIES,),
        "are the pictures large enough to recognise a copy?",
        "give the pictures in a larger size, or have people judge these pairs (heldout review RUN)",
    ),
    RequiredControl(
        "content of the pictures",
        (COPIES,),
        "do the pictures show enough to recognise a copy?",
        "have people judge these pairs (heldout review RUN)",
    ),
    RequiredControl(
        WITHIN_REACH,
        (WORDS,),
        "could the items have been found by their words?",
        "compare the pictures, too: these words are too common or too short",
    ),
    RequiredControl(
        "rewordings",
        (WORDS,),
        "were rewordings looked for?",
        "pip install 'heldout[text]' (English) or name a multilingual encoder; run the audit again",
        "pip install 'heldout[text]' (English) or name a multilingual encoder; give the command again",
    ),
    RequiredControl(
        "alignment of similar pictures",
        (NEARNESS,),
        "are the similar pictures copies?",
        "have people judge the undecided pairs: heldout review",
    ),
    RequiredControl(
        "in-domain control",
        (NEARNESS,),
        "are clean pictures of the same kind as similar?",
        "add clean pictures of the benchmark's kind under controls, with domain: in-domain",
        "give clean pictures of its kind: heldout overlap … --control NAME=SOURCE:in-domain",
    ),
    RequiredControl(
        "out-of-domain control",
        (NEARNESS,),
        "are pictures of another kind as similar?",
        "add pictures of another kind under controls, with domain: out-of-domain",
        "give pictures of another kind: heldout overlap … --control NAME=SOURCE:out-of-domain",
    ),
    RequiredControl(
        "light copies are similar enough",
        (NEARNESS,),
        "would copies be above the threshold?",
        "use an encoder that keeps light copies similar (heldout lab transforms measures it)",
    ),
    RequiredControl(
        "external baseline",
        (ORDER, MEMBERSHIP, COHORT, ANSWERS),
        "is it more than in a model that cannot have seen the benchmark?",
        "record a model that cannot have seen the benchmark, and name it under baselines",
        "score or ask a model that cannot have seen it, then heldout detect RUN --baseline MODEL",
    ),
    RequiredControl(
        "attainable p",
        (ORDER, MEMBERSHIP, COHORT, ANSWERS),
        "could a perfect effect have fired?",
        "record more images, shards or shuffles, or give more permutations (heldout audit --plan)",
        "record more images, shards or shuffles, or heldout detect RUN --permutations N",
    ),
    RequiredControl(
        "own interval",
        (ORDER, MEMBERSHIP, COHORT, ANSWERS),
        "does its interval contain no effect, where nothing fires?",
        "record more items, or plan fewer claims together",
        "record more items",
    ),
    RequiredControl(
        "earlier looks",
        (ORDER, MEMBERSHIP, COHORT, ANSWERS),
        "were the same models looked at before, with other detectors, settings or data?",
        "plan all detectors and baselines in one audit",
        "give all detectors and baselines in one call",
    ),
    RequiredControl(
        "covariates",
        (ORDER,),
        "does it remain when adjusted for answer and question length?",
        "score more clusters: too few are left to take lengths out",
    ),
    RequiredControl(
        "structure",
        (ORDER,),
        "does it remain within what the release is grouped by?",
        "score the whole release: strata of what it is grouped by are too small",
    ),
    RequiredControl(
        "conditional order test",
        (ORDER,),
        "does a test agree that conditions on the items before?",
        "record order-neighbour, or order-joint with a budget of order_tokens",
        "score it again: heldout score … --order-neighbour, or --order-joint --budget TOKENS",
    ),
    RequiredControl(
        "blind",
        (MEMBERSHIP,),
        "do words and metadata alone separate suspect from unseen items?",
        "add the detector blind",
        "heldout detect RUN --detector blind",
    ),
    RequiredControl(
        "cohort composition",
        (COHORT,),
        "is it flagged in every sub-cohort?",
        "score more models of one backend",
    ),
    RequiredControl(
        "calibration",
        (COHORT,),
        "does the gain gap explain the tail?",
        "score a baseline of the same kind",
    ),
    RequiredControl(
        "spread",
        (COHORT,),
        "are its scores only noisier?",
        "score the model again in higher precision, or a cohort as noisy as it is",
    ),
    RequiredControl(
        "shared difficulty",
        (COHORT,),
        "do two clean models find the same items easy, too?",
        "name the family of every model, and baselines of at least three families",
        "name families: heldout detect RUN --family MODEL=FAMILY, with baselines of at least three",
    ),
    RequiredControl(
        "spread of clean models",
        (ORDER, MEMBERSHIP, ANSWERS),
        "do clean models differ as much among themselves?",
        "name baselines of at least three families that were asked or scored the same (family: of models)",
        "give such baselines of at least three: heldout detect RUN --baseline MODEL --family MODEL=FAMILY …",
    ),
    RequiredControl(
        "skill of the references",
        (ORDER, MEMBERSHIP, ANSWERS),
        "is a reference as good on changed, fresh or shuffled items, and not better than it on all?",
        "name a baseline that is about as good, on the originals and on the changed, fresh or shuffled items",
        "give one that is about as good on both: heldout detect RUN --baseline MODEL",
    ),
    RequiredControl(
        "twins that differ",
        (ANSWERS,),
        "do most twins show another picture than their originals?",
        "make twins that show what their new answer says (heldout twin)",
    ),
    RequiredControl(
        "twins that were judged",
        (ANSWERS,),
        "did a verifier or people look at the twins?",
        "judge them: heldout twin --from filter --verifier URL, or heldout review RUN --kind twins",
    ),
    RequiredControl(
        "reach of the test",
        (ANSWERS,),
        "are there pairs enough to see a large effect?",
        "ask more items",
    ),
    RequiredControl(
        "unreadable replies",
        (ANSWERS,),
        "does it remain without unreadable replies?",
        "ask again with a longer limit, or with answers in tags",
    ),
    RequiredControl(
        "answers that are recorded",
        (ANSWERS,),
        "are nine in ten of the pairs recorded, for it and for every reference?",
        "record the answers to every item in both forms: those that lack may be the right ones",
    ),
    RequiredControl(
        "drop in a category",
        (ANSWERS,),
        "where nothing fires over all items, does it drop in no category that was asked for?",
        "audit the items of that category by themselves, with more of them",
        "detect again on the items of that category alone, with more of them",
    ),
    RequiredControl(
        "measured false positives",
        (ORDER, MEMBERSHIP, COHORT, ANSWERS),
        "does the detector keep its level on clean models of the lab?",
        "add one that does (heldout detect --list), or measure models like yours: heldout lab power",
    ),
    RequiredControl(
        "place of the right option",
        (ANSWERS,),
        "does a favourite place explain it?",
        "record which options were shown, in their order",
    ),
    RequiredControl(
        "items that both answer wrong",
        (ANSWERS,),
        "is the old answer more frequent on items that a reference answers wrong, too?",
        "ask more items, or name more baselines",
        "ask more items, or give more baselines: heldout detect RUN --baseline MODEL",
    ),
    RequiredControl(
        SERVED,
        (ORDER, MEMBERSHIP, COHORT, ANSWERS),
        "did the server name one model in all its replies?",
        "ask again for a version that does not change, in another run folder",
    ),
)


#: where the control failed, another one like it settles nothing
_FAILED = {
    "blind": "compare with unseen items that words and metadata do not tell from the suspect ones",
    "external baseline": "ask or score more items: it is not clearly more than in this baseline",
    "spread of clean models": "name baselines of more families, which narrows how far a clean model may lie",
}


LIKE_WORDS = f"{WORDS}/like-words"  # the rule of claims that found words like the item's own


def settled_by(claim: Claim, audited: bool = True) -> list[str]:
    """What would settle a claim: a sentence for each control that it did not pass.

    ``audited``: an audit file made the run, so the advice names its keys; else options of commands.
    """
    if claim.status not in ("qualified", "not testable"):
        return []
    if claim.rule.endswith(f"/{AWAY}"):
        return [f"{BASELINE}: {MORE_ALIKE}"]
    texts = [
        f"{control.name}: {supply}"
        for control in claim.controls
        if control.outcome != "passed" and (supply := _supply(control, audited))
    ]
    if claim.rule == LIKE_WORDS:
        # Something was found: that other items could not have been found does not settle what it is.
        others = [text for text in texts if not text.startswith(WITHIN_REACH)]
        texts = [f"similar words: {READ_TEXTS}", *others]
    if claim.next_step == BY_NOTHING:
        texts = [
            f"{WITHIN_REACH}: {BY_NOTHING}" if text.startswith(WITHIN_REACH) else text
            for text in texts
        ]
    return list(dict.fromkeys(texts))


def _supply(control: Control, audited: bool) -> str:
    name = control.name
    # The longest beginning wins: "spread of clean models" is not "spread".
    required: Sequence[RequiredControl] = [
        requirement for requirement in REQUIRED if name.startswith(requirement.control)
    ]
    if not required:
        return ""
    best = max(required, key=lambda required: len(required.control))
    if control.outcome == "failed" and FIRES_ALONE in control.reason:
        return "it fires by itself and may have seen the benchmark: name another baseline"
    if best.control == REWORDINGS and TOO_FEW in control.reason:
        return READ_FEW
    if control.outcome == "failed" and best.control == REWORDINGS:
        return after_failed_rewordings(control.reason)
    if control.outcome == "failed" and best.control in _FAILED:
        return _FAILED[best.control]
    if control.outcome == "missing" and name != best.control == BASELINE:
        return (
            "ask or score it about the same items in the same way, or name another baseline that cannot have "
            "seen the benchmark"
        )
    return best.supply if audited or not best.by_hand else best.by_hand


def as_markdown() -> str:
    lines = [
        "| control | of | asks | where it is missing | without an audit file |",
        "|---|---|---|---|---|",
    ]
    for required in REQUIRED:
        cells = [
            required.control,
            ", ".join(required.kinds),
            required.asks,
            required.supply,
            required.by_hand or "the same",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
