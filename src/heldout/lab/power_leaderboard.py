"""The leaderboard as tables: pooled, by benchmark, and the three requirements."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import polars as pl

from heldout.lab.power_answers import area_text
from heldout.lab.power_board import Area, Place, Standing, models_by_role
from heldout.lab.power_models import CLEAN, OTHER_SEEDS, RAW, SAME_BASE, WAYS, About
from heldout.lab.power_requirements import Requirements
from heldout.lab.power_share import Share

TOLD = {
    RAW: "the detector by itself",
    OTHER_SEEDS: "less clean models of other seeds, which is what a user may have",
    SAME_BASE: "less clean arms of the same base, which only a lab has",
}


def boards(rows: pl.DataFrame, board: Sequence[Standing], about: About) -> Iterator[str]:
    clean = [counts[CLEAN] for counts in models_by_role(rows).values()]
    yield "## Leaderboard"
    yield ""
    yield (
        "AUC: effects of contaminated against clean models of the same benchmark, with a bootstrap over "
        "bases and then their models (below ten models on a side never narrower than that many trials). "
        "*AUC over* says which arms: contaminated models with their doses / clean models. **Areas over "
        "other arms are no ranking**: detectors are listed by what they work on (answers, order, cohort, "
        "membership) and by area within that alone. Answers and order are measured on every arm, weak "
        "doses, paraphrases and pre-training included; membership only on arms that saw half of the "
        "pictures, since it needs items that cannot have been seen, with clean models once per split, and "
        "with references only on splits of the largest dose: its area there is over the easiest arms."
    )
    yield ""
    yield (
        "TPR at 1 % and 5 %: contaminated models above a threshold that at most this share of a "
        f"benchmark's clean models exceeds; with {min(clean)} to {max(clean)} clean models a benchmark, "
        "1 % means *none of them*, and so does 5 % below 20. FPR: clean models on which the test itself "
        "fires. Smallest dose: from it on, at least four of five of the arms that differ in dose alone "
        "fire. Rates carry 95 % Clopper–Pearson intervals with as many observations as there are models, "
        "named where a model is tested more than once (on several splits, or clean on two benchmarks); "
        "arms of one base share most weights, so the truth is wider still."
    )
    yield ""
    for way in WAYS:
        part = [one for one in board if one.way == way]
        if not part:
            continue
        yield f"### {way.capitalize()}: {TOLD[way]}"
        yield ""
        yield from table(
            ("detector", "works on", "AUC", "AUC over", "TPR at 1 %", "TPR at 5 %",
             "fires, contaminated", "FPR, clean", "FPR, outsiders", "smallest dose", "tokens"),
            (_standing(one) for one in part),
        )  # fmt: skip
        names = list(dict.fromkeys(name for one in part for name in one.places))
        yield (
            "By benchmark: AUC; fires on contaminated; fires on clean models (bases with a clean model "
            "that fires)."
        )
        yield ""
        yield from table(
            ("detector", *names),
            ([one.detector, *(_place(one.places.get(name)) for name in names)] for one in part),
        )
    cost = (
        "counted in what was put to them"
        if about.counted
        else "prompts of answers are counted, those of scores and order tests are taken to be as long "
        "as the same question asked (with and without its picture)"
    )
    yield (
        "**off**: the interval of the false-positive rate lies above 5 %, pooled or on one benchmark, "
        "which is then named; what such a detector says is at most *qualified* in a "
        "[verdict](verdict.md). Looking at every benchmark calls a detector off a little more often than "
        "one look would, and models of one base are counted as if they were independent: both err on the "
        "side of capping. Tokens are what the model and its references read "
        f"for one audit: {cost}."
    )
    yield ""


def required_page(required: Sequence[Requirements]) -> Iterator[str]:
    yield "## Three requirements"
    yield ""
    places = list(dict.fromkeys(name for one in required for name in one.tested_on))
    few = max((share for one in required for share in one.modes.values()), key=lambda one: one.n,
              default=Share(0, 0))  # fmt: skip
    width = Share(max(0, few.n - 1), few.n)
    yield (
        "*Practical*: by answers alone and with no clean model at hand, it tells contaminated from clean "
        "models (an interval of the area above .5) and is not off, on every benchmark where it was "
        "tested; on some is *partly*. *Reliable* has two halves. Fine-tuning: at doses 3 and 10 it fires "
        "on more than half of the models of every mode (full, language model only, LoRA). Pre-training: it "
        "fires on more than half of the arms with the leak in pre-training. Either needs a "
        "false-positive rate that is not off, and either is measured on "
        f"{', '.join(places) or 'no benchmark'} alone, the one world with these arms, with up to {few.n} "
        f"models a mode, where {width} is wide. *Consistent*: its effect rises with the "
        "dose (Jonckheere–Terpstra within bases, clean arms first; concordance from -1 to 1)."
    )
    yield ""
    yield from table(
        ("detector", "reads", "practical", "way", "reliable: fine-tuning", "full", "language", "LoRA",
         "reliable: pre-training", "fires", "consistent", "concordance"),
        (_requirement(one) for one in required),
    )  # fmt: skip


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _standing(one: Standing) -> list[str]:
    return [
        one.detector, one.group, area_text(one), _over(one.area), _rate(one.at_1), _rate(one.at_5),
        str(one.power), f"{one.false_positives}{_off(one)}", str(one.outsiders),
        one.detectable, "–" if one.tokens is None else f"{one.tokens:,}",
    ]  # fmt: skip


def _off(one: Standing) -> str:
    if not one.off:
        return ""
    return f" **off** ({', '.join(one.off_in)})" if one.off_in else " **off**"


def _over(area: Area | None) -> str:
    if area is None:
        return "–"
    doses = ", ".join(map(str, area.doses))
    return f"{area.contaminated} (dose {doses}) / {area.clean}"


def _place(one: Place | None) -> str:
    if one is None:
        return "–"
    area = "–" if one.area is None else f"{one.area.value:.2f}"
    if not one.false_positives.n:
        return f"{area}; no test"
    off = " **off**" if one.false_positives.off else ""
    bases = f" ({_rate(one.bases)})" if one.false_positives.hits else ""
    return f"{area}; {_rate(one.power)}; {_rate(one.false_positives)}{bases}{off}"


def _requirement(one: Requirements) -> list[str]:
    trend = "–" if one.dose is None else f"{one.dose.concordance:+.2f} (p {one.dose.p:.2g})"
    testable = any(share.n for share in one.modes.values())
    return [
        one.detector, one.reads, f"{one.practical}: {one.practical_why}", one.way,
        _yes(one.tuning_seen) if testable else "not tested",
        *(_rate(share) for share in one.modes.values()),
        _yes(one.pretraining_seen) if one.pretraining.n else "not tested", _rate(one.pretraining),
        "not tested" if one.dose is None else _yes(one.consistent), trend,
    ]  # fmt: skip


def _rate(share: Share) -> str:
    return f"{share.hits}/{share.n}" if share.n else "–"


def _yes(value: bool) -> str:
    return "yes" if value else "no"
