"""twin-memory: of the wrong replies to a twin, how many give the answer that was right on the original?

A twin that nobody can answer makes every model wrong, and the best one loses most; it does not say which wrong
answer they give. So the old answer is counted among wrong replies, with all other wrong options as its control,
and compared with references: their wrong replies to items of the same kind (number of options, or open) show how
far the old answer attracts models that never saw it. An item is left out if its twin no longer offers the old
answer, or offers no other wrong one (two options, yes or no).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import Any

import numpy as np
import polars as pl

from heldout.benchmark import grade, letter, same
from heldout.detect.behaviour.compare import FEW, liked_record, probe_detector, test_record
from heldout.detect.behaviour.probe import (
    ORIGINAL,
    POLES,
    Arms,
    ArmsOf,
    Probe,
    asked,
    liked_places,
    none_readable,
    pairs_missing,
    pairs_recorded,
    readable,
    unlike_templates,
    unread,
)
from heldout.detect.behaviour.twin_drop import TWIN, of_twins, twins_of
from heldout.detect.detector import PARK
from heldout.detect.finding import NotRecorded, Outcome, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables
from heldout.stats import PairedTest, paired_test

NAME = "twin-memory"
OPEN = "open"
LEAST_OPTIONS = 3  # with two, whoever is wrong gives the old answer
ROUNDS = 30  # of fitting how much a model likes each place
LACKING = NotRecorded("needs answers to twins: heldout ask --variants original,twin=…")
NOT_OFFERED = NotRecorded(
    "no twin offers the original's answer beside another wrong one (with two options, or yes and no, "
    "whoever is wrong gives the old answer)"
)
NO_REPLIES = NotRecorded("what was replied is not recorded, only whether it is right")
BLIND_TO = [
    "memory of the picture or the question without the answer",
    "remembered items whose twin is answered right all the same",
    "items with two options, or yes and no: whoever is wrong gives the old answer",
    "twins that still look like their original: a model that sees well gives the old answer",
]


@cache
def probe_for(twin: str = TWIN) -> Probe:
    return Probe(
        name=NAME,
        first="old answer",
        second=twin,
        effect=f"share of wrong replies to {twin} that give the original's answer",
        arms=_arms(twin),
        blind_to=BLIND_TO,
        known=lambda tables: tables.twin_items.get(twin, frozenset()) - _left_out(tables, twin),
        counted="twins that offer the old answer",
        zero_is_clean=False,
    )


# Replies to twins, one row per item: the shares of draws that are right, wrong, and the old answer.


def _arms(twin: str) -> ArmsOf:
    def arms(
        tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool
    ) -> Arms | str:
        everything = asked(tables, model, lambda name: name == twin)
        if everything.is_empty():
            return LACKING
        left_out = list(_left_out(tables, twin))
        offered = everything.filter(~pl.col("benchmark_id").is_in(left_out))
        if offered.is_empty():
            return NOT_OFFERED
        if "parsed" not in offered.columns:
            return NO_REPLIES
        is_wrong = pl.col("outcome") == "wrong"
        # A wrong reply that is not recorded may or may not be the old answer.
        known = offered.filter(~is_wrong | (pl.col("parsed").fill_null("") != ""))
        if len(known) < len(offered) and known.filter(is_wrong).is_empty():
            return NO_REPLIES
        if readable(known).is_empty():
            return none_readable(known)
        kept = readable(known) if leave_out else known
        draws = _draws(kept, old_answers(tables)).with_columns(released=pl.lit(False))
        rows = draws.group_by("benchmark_id", "variant", "released", maintain_order=True).agg(
            pl.col("kind", "place", "old_place").first(),
            pl.col("right", "wrong", "old", "excess").mean(),
        )
        unpaired = everything["benchmark_id"].n_unique() - len(rows)
        changed = frozenset(offered["benchmark_id"])
        return Arms(rows, unpaired, unread(offered), len(offered), offered, changed)

    return arms


def old_answers(tables: ScoreTables) -> dict[str, str]:
    """By item the text that is right on the original: as it was asked, else as the benchmark has it."""
    key = "answers to the originals"
    if key not in tables.memo:
        texts: dict[str, str] = {}
        if "answer" in tables.items.columns:
            known = tables.items.select("benchmark_id", "answer").drop_nulls()
            texts = dict(known.iter_rows())
        if tables.answers is not None:
            shown = tables.answers.filter(pl.col("variant") == ORIGINAL).unique("benchmark_id")
            for item, gold, options in shown.select("benchmark_id", "gold", "options").iter_rows():
                places = {letter(place): option for place, option in enumerate(options or ())}
                texts[item] = places.get(gold, gold)
        tables.memo[key] = texts
    answers: dict[str, str] = tables.memo[key]
    return answers


def _left_out(tables: ScoreTables, twin: str) -> frozenset[str]:
    """Twins that are the original, do not offer the old answer, or no other wrong one."""
    key = ("twins without the old answer", twin)
    if key not in tables.memo and tables.answers is not None:
        old = old_answers(tables)
        shown = tables.answers.filter(pl.col("variant") == twin).unique("benchmark_id")
        tables.memo[key] = tables.unchanged.get(twin, frozenset()) | {
            item
            for item, gold, options in shown.select("benchmark_id", "gold", "options").iter_rows()
            if not _offers(old.get(item), gold, options or ())
        }
    left_out: frozenset[str] = tables.memo.get(key, frozenset())
    return left_out


def _offers(old: str | None, gold: str | None, options: Sequence[str]) -> bool:
    if old is None or gold is None:
        return False
    if options:
        place = place_of(old, tuple(options))
        return len(options) >= LEAST_OPTIONS and place is not None and letter(place) != gold
    closed = {same(old), same(gold)} <= set(POLES)
    return not closed and grade(old, gold).outcome == "wrong"


@lru_cache(maxsize=16_384)
def place_of(text: str, options: tuple[str, ...]) -> int | None:
    """Of the one option that has this text."""
    places = [place for place, option in enumerate(options) if same(option) == same(text)]
    return places[0] if len(places) == 1 else None


def _draws(kept: pl.DataFrame, old: dict[str, str]) -> pl.DataFrame:
    """``excess``: 1 or 0 for the old answer, less its chance among the model's other wrong replies."""
    kept = kept.sort("benchmark_id", "draw")
    columns = kept.select("benchmark_id", "gold", "options", "parsed", "outcome")
    kinds, places, hits = [], np.full((len(kept), 3), -1), np.zeros(len(kept))
    for row, (item, gold, options, parsed, outcome) in enumerate(columns.iter_rows()):
        kinds.append(f"{len(options)} options" if options else OPEN)
        if options:
            where = {letter(place): place for place in range(len(options))}
            place = place_of(old[item], tuple(options))
            places[row] = where.get(gold, -1), -1 if place is None else place, where.get(parsed, -1)
            hits[row] = outcome == "wrong" and places[row, 1] == places[row, 2]
        else:
            hits[row] = outcome == "wrong" and grade(parsed, old[item]).outcome == "right"
    right = kept["right"].to_numpy()
    read = (kept["outcome"] == "wrong").to_numpy()
    expected = np.zeros(len(kept))
    labels = np.asarray(kinds)
    for kind in sorted(set(kinds) - {OPEN}):
        rows = (labels == kind) & read
        expected[rows] = _chance(places[rows], int(kind.split()[0]))
    return kept.select("benchmark_id", "variant", "right", "place").with_columns(
        kind=pl.Series(kinds),
        old_place=pl.Series(
            [_place(old, kind) for old, kind in zip(places[:, 1], kinds, strict=True)]
        ),
        wrong=pl.Series(1.0 - right),
        old=pl.Series(hits),
        excess=pl.Series(hits - expected),
    )


def _place(place: int, kind: str) -> str:
    """Named as probes name the place of the right option."""
    return "open" if place < 0 else f"{letter(place)}/{kind.split()[0]}"


def _chance(places: Any, count: int) -> Floats:
    """Of wrong replies, by right, old and chosen place: the chance of the old answer among wrong options.

    How much the model likes each place is fitted to its other wrong replies (Luce's choice model), with
    half a reply of either kind added, so that few replies leave every place alike.
    """
    gold, old, reply = places.T
    shown = np.ones((len(places), count))
    shown[np.arange(len(places)), gold] = 0.0
    others = shown.copy()
    others[np.arange(len(places)), old] = 0.0
    control = others[reply != old]
    chosen = np.bincount(reply[(reply != old) & (reply >= 0)], minlength=count) + 0.5
    liked = np.ones(count)
    for _ in range(ROUNDS):
        liked = chosen / ((control / (control @ liked)[:, None]).sum(0) + 0.5)
    return np.asarray(liked[old] / (shown @ liked), dtype=np.float64)


# The comparison: shares of wrong replies, standardised to the kinds of item that the model gets wrong.


@dataclass(frozen=True)
class OldAnswers:
    """``above``: the share of the old answer among wrong replies, less the references'; ``own``: less its
    chance among the other wrong options."""

    arms: Arms
    own: PairedTest
    above: PairedTest | None = None
    placed: PairedTest | None = None
    both_wrong: PairedTest | None = None
    liked: tuple[str, ...] = ()
    unliked: PairedTest | None = (
        None  # without items whose old answer stands at a place that is liked
    )
    references: dict[str, PairedTest] = field(default_factory=dict)
    reference_own: dict[str, PairedTest] = field(default_factory=dict)
    ahead: dict[str, PairedTest] = field(default_factory=dict)
    shares: dict[str, float] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    all_read: bool = True


def measure(
    probe: Probe, tables: ScoreTables, settings: DetectSettings, model: str, leave_out: bool = False
) -> OldAnswers | str:
    mine = probe.read(tables, settings, model, leave_out)
    if isinstance(mine, str):
        return mine
    own = _own(tables, mine.rows, settings)
    if own is None:
        return f"fewer than {FEW} images have a wrong reply to their twin"
    others: dict[str, Arms] = {}
    unusable: dict[str, str] = {}
    single: dict[str, PairedTest] = {}
    reference_own: dict[str, PairedTest] = {}
    for name in settings.baselines:
        if name == model:
            continue
        theirs = probe.read(tables, settings, name, leave_out)
        if isinstance(theirs, str):
            unusable[name] = theirs
            continue
        test = _above(tables, mine.rows, [theirs.rows], settings)
        alone = _own(tables, theirs.rows, settings)
        if unlike_templates(mine.answers, theirs.answers) is not None:
            unusable[name] = f"{name} was asked with another template"
        elif test is None or alone is None:
            unusable[name] = f"{name} has wrong replies to fewer than {FEW} images of these"
        else:
            others[name], single[name], reference_own[name] = theirs, test, alone
    rows = [arms.rows for arms in others.values()]
    liked = liked_places(mine.rows)
    fewer = mine.rows.filter(~pl.col("old_place").is_in(liked))
    return OldAnswers(
        mine,
        own,
        _above(tables, mine.rows, rows, settings) if rows else None,
        _above(tables, mine.rows, rows, settings, "excess") if rows else None,
        _both_wrong(tables, mine.rows, rows, settings) if rows else None,
        tuple(liked),
        _above(tables, fewer, rows, settings) if rows and liked else None,
        single,
        reference_own,
        {name: _ahead(tables, mine.rows, arms.rows, settings) for name, arms in others.items()},
        {name: _share(arms.rows) for name, arms in ((model, mine), *others.items())},
        unusable,
        not any(arms.unread for arms in (mine, *others.values())),
    )


def _share(rows: pl.DataFrame) -> float:
    return float(rows["old"].sum()) / max(float(rows["wrong"].sum()), 1e-9)


def _tested(
    tables: ScoreTables, values: pl.DataFrame, settings: DetectSettings
) -> PairedTest | None:
    """``values``: one per item. None for too few images."""
    known = tables.items.select("benchmark_id", "cluster", "position")
    ordered = known.join(values, on="benchmark_id").sort("position")
    if ordered["cluster"].n_unique() < FEW:
        return None
    return paired_test(
        ordered["value"].to_numpy(),
        ordered["cluster"].to_list(),
        permutations=settings.permutations,
        seed=settings.seed,
    )


def _own(tables: ScoreTables, rows: pl.DataFrame, settings: DetectSettings) -> PairedTest | None:
    wrong = rows.filter(pl.col("wrong") > 0)
    value = pl.col("excess") / pl.col("wrong").mean()
    return _tested(tables, wrong.select("benchmark_id", value=value), settings)


def _joined(
    mine: pl.DataFrame, others: Sequence[pl.DataFrame], column: str = "old"
) -> pl.DataFrame:
    """Items that all answered: ``wrong`` and ``hit`` of the model, and the references' averages."""
    joined = mine.select("benchmark_id", "kind", "wrong", "right", hit=pl.col(column))
    for index, rows in enumerate(others):
        theirs = rows.select(
            "benchmark_id",
            "kind",
            pl.col("wrong").alias(f"wrong{index}"),
            pl.col(column).alias(f"hit{index}"),
        )
        joined = joined.join(theirs, on=["benchmark_id", "kind"])
    places = range(len(others))
    return joined.with_columns(
        their_wrong=pl.mean_horizontal([f"wrong{index}" for index in places]),
        their_hit=pl.mean_horizontal([f"hit{index}" for index in places]),
    )


def _above(
    tables: ScoreTables,
    mine: pl.DataFrame,
    others: Sequence[pl.DataFrame],
    settings: DetectSettings,
    column: str = "old",
) -> PairedTest | None:
    """Share among the model's wrong replies, less that among the references' to items of the same kinds.

    The mean of ``value`` is that difference; each value is what one item adds to it, with shares centred at
    the middle of both, which is what they have in common if there is no difference.
    """
    joined = _joined(mine, others, column)
    total, theirs = (pl.col(name).sum().over("kind") for name in ("wrong", "their_wrong"))
    counted = (total > 0) & (theirs > 0) & (pl.col("wrong") + pl.col("their_wrong") > 0)
    joined = joined.filter(counted)
    shared = (
        pl.col("hit").sum().over("kind") / total + pl.col("their_hit").sum().over("kind") / theirs
    ) / 2
    value = (
        (pl.col("hit") - shared * pl.col("wrong"))
        - (pl.col("their_hit") - shared * pl.col("their_wrong")) * total / theirs
    ) / pl.col("wrong").mean()
    return _tested(tables, joined.select("benchmark_id", value=value), settings)


def _both_wrong(
    tables: ScoreTables,
    mine: pl.DataFrame,
    others: Sequence[pl.DataFrame],
    settings: DetectSettings,
) -> PairedTest | None:
    """On items that the model and a reference answer wrong: item by item, so that no item's own pull counts."""
    joined = _joined(mine, others).filter(pl.col("wrong") > 0, pl.col("their_wrong") > 0)
    value = pl.col("hit") / pl.col("wrong") - pl.col("their_hit") / pl.col("their_wrong")
    return _tested(tables, joined.select("benchmark_id", value=value), settings)


def _ahead(
    tables: ScoreTables, mine: pl.DataFrame, theirs: pl.DataFrame, settings: DetectSettings
) -> PairedTest:
    """How much better than the reference the model answers the twins."""
    value = pl.col("their_wrong") - pl.col("wrong")
    joined = _joined(mine, [theirs]).select("benchmark_id", value=value)
    test = _tested(tables, joined, settings)
    assert test is not None  # the comparison with this reference has as many images
    return test


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.tested:
        for twin in twins_of(tables, model):
            yield _outcome(twin, tables, settings, model)


def _outcome(twin: str, tables: ScoreTables, settings: DetectSettings, model: str) -> Outcome:
    probe = probe_for(twin)
    measured = measure(probe, tables, settings, model)
    if isinstance(measured, str):
        return not_testable(NAME, tables.benchmark, model, measured)
    above, main = measured.above, measured.above or measured.own
    compared = "minus that of the references" if above else "minus what chance gives"
    rows = measured.arms.rows
    finding = model_finding(
        NAME,
        tables.benchmark,
        model,
        unit="questions",
        statistic=(
            f"share of wrong replies to {twin} that give the original's answer",
            _share(rows),
        ),
        effect=(f"{probe.effect}, {compared}", main.value, main.interval),
        error=main.error,
        p=above.p if above else None,
        n=main.n,
        clusters=main.clusters,
        blind_to=BLIND_TO,
        seed=settings.seed,
        table="answers",
        details={
            "p_tied": main.p_tied,
            "permutations": main.permutations or None,
            "least_p": main.least,
            "test": main.method if above else "none: the old answer may attract a clean model, too",
            "old_answer": {
                "twins": len(rows),
                "left_out": len(_left_out(tables, twin)),
                "wrong": float(rows["wrong"].sum()),
                "old": float(rows["old"].sum()),
                "of_all_replies": float(rows["old"].mean() or 0.0),  # type: ignore[arg-type]
                "among_wrong": measured.shares,
            },
            "own": test_record(measured.own, False),
            "place_taken_out": test_record(measured.placed),
            "liked_places": liked_record(measured.liked, measured.unliked),
            "both_wrong": test_record(measured.both_wrong),
            "options": bool((rows["kind"] != OPEN).any()),
            "references": {name: test_record(test) for name, test in measured.references.items()},
            "references_own": {
                name: test_record(test, False) for name, test in measured.reference_own.items()
            },
            "references_ahead": {name: test_record(test) for name, test in measured.ahead.items()},
            "references_unusable": measured.unusable,
            "unread": measured.arms.unread,
            "replies": measured.arms.replies,
            "unpaired": measured.arms.unpaired,
            "pairs": probe.counted,
            "pairs_recorded": pairs_recorded(
                probe, tables, settings, [model, *measured.references]
            ),
            "missing_may_hide": _missing(
                rows, pairs_missing(probe, tables, settings, [model, *measured.references])
            ),
            "without_unread": _without_unread(probe, tables, settings, model, measured),
        },
    )
    return of_twins(finding, tables, twin)


def _missing(rows: pl.DataFrame, share: float) -> float:
    """Of all wrong replies those that are not recorded, if each were wrong: they may all give the old answer."""
    lacking = share * len(rows) / max(1e-9, 1.0 - share)
    return lacking / max(1e-9, lacking + float(rows["wrong"].sum()))


def _without_unread(
    probe: Probe, tables: ScoreTables, settings: DetectSettings, model: str, measured: OldAnswers
) -> dict[str, Any] | None:
    """The same with unreadable replies left out; None if all were read."""
    if measured.all_read:
        return None
    other = measure(probe, tables, settings, model, leave_out=True)
    if isinstance(other, str):
        return {"not_testable": other}
    if other.above is None:
        return {"not_testable": "; ".join(other.unusable.values()) or "there is no reference"}
    return test_record(other.above)


DETECTOR = probe_detector(
    probe_for(),
    "wrong on the twin: is it the old answer more often than for references?",
    variants=(f"{TWIN}|{TWIN}-*",),
    find=find,
    citations=(PARK,),
)
