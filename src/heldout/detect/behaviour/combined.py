"""combined: several weak signs in the answers to changed items, added up.

A model that remembers a little loses a little on twins and by reordered options (also by confused choices and
masked words, where the first two are not recorded); each test alone may miss it. Here the paired differences of all
of them are added up, each in units of its own spread, image by image. One sign is flipped for all tests of an image
together, so that p holds however the tests depend on one another: what is exchanged under the null is the model and
its references, with everything they answered about a picture. Of each change one test takes part, by probabilities
where they are recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl

from heldout.detect.behaviour import choice_confusion, margins, option_order, slot_guess, twin_drop
from heldout.detect.behaviour.compare import FEW, liked_record, probe_detector, test_record
from heldout.detect.behaviour.probe import (
    ORIGINAL,
    Arms,
    Probe,
    liked_places,
    pairs_missing,
    pairs_recorded,
    unlike_templates,
    without_liked,
)
from heldout.detect.behaviour.twin_drop import TWIN, of_twins, twins_of
from heldout.detect.detector import PARK, SONG, YAO
from heldout.detect.finding import NotRecorded, Outcome, model_finding, not_testable
from heldout.detect.settings import DetectSettings
from heldout.detect.tables import Floats, ScoreTables
from heldout.stats import PairedTest, cluster_mean, flip_test, paired_test, within_places

NAME = "combined"
LEAST = 2  # changes that have to be recorded
TOO_FEW = NotRecorded(
    "needs answers to twins and to reordered options: heldout ask --variants original,twin=…,shuffle-3"
)
# All clean models of the lab do worse by these two (docs/measured/rates.md). With them in the sum every reference
# drops, too, which leaves a claim at most qualified; and they see the least.
DROPPED_BY_CLEAN_MODELS = (choice_confusion.PROBE, slot_guess.PROBE)
METHOD = "sign flips of whole images, all changes together"
EFFECT = "mean drop over all kinds of change, in standard deviations of single images"
BLIND_TO = [
    "memory that none of the changes touches",
    "a model that one change marks clearly and the others do not: the single test sees more",
    "changed items that are wrong or harder for this model alone: they look like memory in all of them",
]


def _probes(tables: ScoreTables, settings: DetectSettings, model: str) -> list[Probe]:
    """One of each change. Those that every reference answered, too, if that leaves two of them; and of those the
    ones by which clean models do not drop, if that does."""
    twin = twins_of(tables, model)[0]
    changes = (
        (margins.probe_for(twin), twin_drop.probe_for(twin)),
        (margins.OPTION_PROBE, option_order.PROBE),
        (choice_confusion.PROBE,),
        (slot_guess.PROBE,),
    )
    references = [name for name in settings.baselines if name != model]
    shared, mine = [], []
    for choices in changes:
        counted = choices[-1]
        for probe in choices:
            arms = probe.read(tables, settings, model)
            everybody = all(
                isinstance(probe.read(tables, settings, name), Arms) for name in references
            )
            # A margin is of choice items alone: right and wrong of all items may be worth more.
            if probe is not counted and not (
                everybody and _covers(arms, counted, tables, settings, model)
            ):
                continue
            if isinstance(arms, Arms):
                mine.append(probe)
                shared += [probe] if everybody else []
            break
    answered = shared if len(shared) >= LEAST else mine
    telling = [probe for probe in answered if probe not in DROPPED_BY_CLEAN_MODELS]
    return telling if len(telling) >= LEAST else answered


def _covers(
    arms: Arms | str, counted: Probe, tables: ScoreTables, settings: DetectSettings, model: str
) -> bool:
    other = counted.read(tables, settings, model)
    if isinstance(arms, str) or isinstance(other, str):
        return False
    return arms.rows["benchmark_id"].n_unique() >= 0.9 * other.rows["benchmark_id"].n_unique()


# One change: what each image adds to its difference.


def _sums(
    tables: ScoreTables, rows: Sequence[pl.DataFrame], placed: bool
) -> dict[str, float] | None:
    """By image: drop of the first model less the others' average; ``placed``: adjusted for answer position."""
    joined = rows[0]
    keys = ["benchmark_id", "variant", "released"]
    for index, other in enumerate(rows[1:]):
        theirs = other.select(*keys, pl.col("right").alias(f"r{index}"))
        joined = joined.join(theirs, on=keys)
    if len(rows) > 1:
        average = pl.mean_horizontal([f"r{index}" for index in range(len(rows) - 1)])
        joined = joined.with_columns(right=pl.col("right") - average)
    known = tables.items.select("benchmark_id", "cluster", "position")
    joined = known.join(joined, on="benchmark_id").sort("position", "variant")
    sides = pl.col("released").n_unique().over("benchmark_id")
    joined = joined.filter(sides == 2)
    if joined["cluster"].n_unique() < FEW:
        return None
    if placed:
        if joined["place"].null_count() or (joined["place"] == "open").all():
            return None
        left = within_places(
            joined["right"].to_numpy(),
            joined["released"].to_numpy(),
            joined["benchmark_id"].to_list(),
            joined["place"].to_list(),
        )
        if left is None:
            return None
        joined = joined.with_columns(value=pl.Series(left[0] * left[1]))
    else:
        side = pl.col("released")
        within = ["benchmark_id", "released"]
        share = pl.col("right") / pl.len().over(within)
        joined = joined.with_columns(value=pl.when(side).then(share).otherwise(-share))
    totals = joined.group_by("cluster", maintain_order=True).agg(pl.col("value").sum())
    return dict(totals.iter_rows())


@dataclass(frozen=True)
class Combination:
    """``values``: by image, the mean over the changes in units of each change's spread."""

    values: dict[str, float]
    scales: dict[str, float]
    z: dict[str, float]  # of each change alone

    def tested(self, settings: DetectSettings) -> PairedTest:
        images, numbers = list(self.values), np.asarray(list(self.values.values()))
        test = flip_test(numbers, permutations=settings.permutations, seed=settings.seed)
        mean, error, interval = cluster_mean(numbers, images)
        return PairedTest(
            mean,
            error,
            interval,
            test.p,
            test.p_tied,
            METHOD,
            len(images),
            len(images),
            1.0,
            test.least,
            test.evaluated,
        )


def combine(
    parts: dict[str, dict[str, float] | None], scales: dict[str, float] | None = None
) -> Combination | None:
    """``scales``: of another combination, in whose units this one is."""
    known = {name: sums for name, sums in parts.items() if sums is not None}
    if len(known) < LEAST and scales is None:
        return None
    images = sorted({image for sums in known.values() for image in sums})
    values: Floats = np.zeros(len(images))
    own: dict[str, float] = {}
    z: dict[str, float] = {}
    places = {image: place for place, image in enumerate(images)}
    for name, sums in known.items():
        array = np.zeros(len(images))
        for image, value in sums.items():
            array[places[image]] = value
        size = float(np.sqrt((array**2).sum()))
        own[name] = size / np.sqrt(len(images))
        z[name] = float(array.sum() / size) if size > 0 else 0.0
        scale = own[name] if scales is None else scales.get(name, 0.0)
        if scale > 0:
            values += array / scale / len(known)
    return Combination(dict(zip(images, values.tolist(), strict=True)), own, z)


# All of them, for one model.


@dataclass(frozen=True)
class CombinedSigns:
    probes: list[Probe]
    main: Combination
    own: Combination | None = None
    placed: Combination | None = None
    references: dict[str, Combination] = field(default_factory=dict)
    reference_own: dict[str, Combination] = field(default_factory=dict)
    unusable: dict[str, str] = field(default_factory=dict)
    arms: dict[str, Arms] = field(default_factory=dict)
    liked: tuple[str, ...] = ()
    unliked: Combination | None = None
    all_read: bool = True  # True if no reply was unreadable, the references' included


def measure(
    tables: ScoreTables,
    settings: DetectSettings,
    model: str,
    *,
    leave_out: bool = False,
) -> CombinedSigns | str:
    probes = _probes(tables, settings, model)
    if len(probes) < LEAST:
        return TOO_FEW
    mine = {probe.name: probe.read(tables, settings, model, leave_out) for probe in probes}
    arms = {name: side for name, side in mine.items() if isinstance(side, Arms)}
    if len(arms) < LEAST:
        return next(str(side) for side in mine.values() if isinstance(side, str))
    rows = {name: side.rows for name, side in arms.items()}
    kept = [probe for probe in probes if probe.name in arms]
    usable: dict[str, dict[str, pl.DataFrame]] = {}
    unusable: dict[str, str] = {}
    all_read = not any(side.unread for side in arms.values())
    for name in settings.baselines:
        if name == model:
            continue
        theirs = {probe.name: probe.read(tables, settings, name, leave_out) for probe in kept}
        reason = _why_unusable(name, arms, theirs)
        if reason:
            unusable[name] = reason
        else:
            sides = {key: side for key, side in theirs.items() if isinstance(side, Arms)}
            usable[name] = {key: side.rows for key, side in sides.items()}
            all_read = all_read and not any(side.unread for side in sides.values())

    def sums(
        others: Iterable[dict[str, pl.DataFrame]],
        first: dict[str, pl.DataFrame] = rows,
        adjust: bool = False,
    ) -> dict[str, dict[str, float] | None]:
        listed = list(others)
        return {
            probe.name: _sums(
                tables,
                [first[probe.name], *(other[probe.name] for other in listed)],
                probe.placed or adjust,
            )
            for probe in kept
        }

    plain = sums(usable.values())
    main = combine(plain)
    if main is None:
        return f"fewer than {FEW} images were answered in two of the changes"
    own = combine(sums([]), main.scales)
    adjusted = sums(usable.values(), adjust=True)
    placed = {name: adjusted[name] or value for name, value in plain.items()}
    single = {name: combine(sums([theirs])) for name, theirs in usable.items()}
    alone = {name: combine(sums([], theirs), main.scales) for name, theirs in usable.items()}
    liked = {name: liked_places(side) for name, side in rows.items()}
    fewer = {name: without_liked(side, liked[name]) for name, side in rows.items()}
    unliked = sums(usable.values(), fewer) if usable and any(liked.values()) else {}
    return CombinedSigns(
        kept,
        main,
        own,
        combine(placed),
        {name: value for name, value in single.items() if value is not None},
        {name: value for name, value in alone.items() if value is not None},
        unusable,
        arms,
        tuple(sorted({place for places in liked.values() for place in places})),
        combine(unliked, main.scales) if any(unliked.values()) else None,
        all_read,
    )


def _why_unusable(name: str, mine: dict[str, Arms], theirs: dict[str, Arms | str]) -> str:
    for probe, side in theirs.items():
        if isinstance(side, str):
            return f"{name}, {probe}: {side}"
        if unlike_templates(mine[probe].answers, side.answers) is not None:
            return f"{name} was asked with another template ({probe})"
    return ""


def find(tables: ScoreTables, settings: DetectSettings) -> Iterator[Outcome]:
    for model in tables.tested:
        yield _outcome(tables, settings, model)


def _outcome(tables: ScoreTables, settings: DetectSettings, model: str) -> Outcome:
    measured = measure(tables, settings, model)
    if isinstance(measured, str):
        return not_testable(NAME, tables.benchmark, model, measured)
    test = measured.main.tested(settings)
    names = [probe.name for probe in measured.probes]
    items = {item for side in measured.arms.values() for item in side.rows["benchmark_id"]}
    compared = ", minus that of the references" if measured.references else ""
    unread: dict[str, dict[str, int]] = {}
    for side in measured.arms.values():
        unread |= side.unread
    finding = model_finding(
        NAME,
        tables.benchmark,
        model,
        unit="questions",
        statistic=(f"sum of {len(names)} standardised drops", sum(measured.main.z.values())),
        effect=(f"{EFFECT}{compared}", test.value, test.interval),
        error=test.error,
        p=test.p,
        n=len(items),
        clusters=test.clusters,
        blind_to=BLIND_TO,
        seed=settings.seed,
        table="answers",
        details={
            "p_tied": test.p_tied,
            "permutations": test.permutations or None,
            "least_p": test.least,
            "test": test.method,
            "combined": {"of": names, "z": measured.main.z},
            "own": _record(measured.own, settings),
            "place_taken_out": _record(measured.placed, settings),
            "options": True,
            "references": {
                name: test_record(part.tested(settings))
                for name, part in measured.references.items()
            },
            "references_own": {
                name: test_record(part.tested(settings))
                for name, part in measured.reference_own.items()
            },
            "references_ahead": _ahead(tables, settings, model, measured),
            "references_ahead_first": _ahead(tables, settings, model, measured, first=True),
            "liked_places": liked_record(
                measured.liked,
                None if measured.unliked is None else measured.unliked.tested(settings),
            ),
            "references_unusable": measured.unusable,
            "unread": unread,
            "replies": sum(side.replies for side in measured.arms.values()),
            "unpaired": max(side.unpaired for side in measured.arms.values()),
            "pairs": "changed items",
            "pairs_recorded": _recorded(tables, settings, model, measured),
            "missing_may_hide": _missing(tables, settings, model, measured),
            "without_unread": _without_unread(tables, settings, model, measured.all_read),
        },
    )
    twin = next((p.second for p in measured.probes if p.second.startswith(TWIN)), TWIN)
    named = of_twins(finding, tables, twin)
    return named.model_copy(update={"id": finding.id})


def _record(part: Combination | None, settings: DetectSettings) -> dict[str, Any] | None:
    return None if part is None else test_record(part.tested(settings))


def _recorded(
    tables: ScoreTables, settings: DetectSettings, model: str, measured: CombinedSigns
) -> dict[str, dict[str, int]]:
    """By model the change of which the least is recorded."""
    least: dict[str, dict[str, int]] = {}
    for probe in measured.probes:
        counts = pairs_recorded(probe, tables, settings, [model, *measured.references])
        for name, count in counts.items():
            share = count["recorded"] / max(1, count["possible"])
            known = least.get(name)
            if known is None or share < known["recorded"] / max(1, known["possible"]):
                least[name] = count
    return least


def _missing(
    tables: ScoreTables, settings: DetectSettings, model: str, measured: CombinedSigns
) -> float:
    """What a whole drop on every pair that is not recorded would add to the effect, in its units."""
    models, main, added = [model, *measured.references], measured.main, 0.0
    for probe in measured.probes:
        share, scale = pairs_missing(probe, tables, settings, models), main.scales.get(probe.name)
        items = measured.arms[probe.name].rows["benchmark_id"].n_unique()
        if share and scale:
            lacking = items * share / max(1e-9, 1.0 - share)
            added += lacking / scale / len(main.scales) / len(main.values)
    return added


def _ahead(
    tables: ScoreTables,
    settings: DetectSettings,
    model: str,
    measured: CombinedSigns,
    *,
    first: bool = False,
) -> dict[str, Any]:
    """How much better than each reference the model answers twins, which may be wrong; or their originals."""
    probe = next((p for p in measured.probes if p.second_may_be_wrong), None)
    if probe is None:
        return {}
    records = {}
    form = pl.col("released") if first else ~pl.col("released")
    twins = measured.arms[probe.name].rows.filter(form)
    for name in measured.references:
        arms = probe.read(tables, settings, name)
        assert isinstance(arms, Arms)  # it was compared
        theirs = arms.rows.filter(form).select("benchmark_id", their="right")
        known = tables.items.select("benchmark_id", "cluster", "position")
        both = known.join(twins, on="benchmark_id").join(theirs, on="benchmark_id").sort("position")
        records[name] = test_record(
            paired_test(
                (both["right"] - both["their"]).to_numpy(),
                both["cluster"].to_list(),
                permutations=settings.permutations,
                seed=settings.seed,
            )
        )
    return records


def _without_unread(
    tables: ScoreTables, settings: DetectSettings, model: str, all_read: bool
) -> dict[str, Any] | None:
    """The same with unreadable replies left out; None if all were read."""
    if all_read:
        return None
    other = measure(tables, settings, model, leave_out=True)
    if isinstance(other, str):
        return {"not_testable": other}
    return {
        **(_record(other.main, settings) or {}),
        "own": _record(other.own, settings),
        "references_own": {
            name: _record(part, settings) for name, part in other.reference_own.items()
        },
    }


_PROBE = replace(twin_drop.probe_for(), name=NAME)
DETECTOR = probe_detector(
    _PROBE,
    "twins, option order and other changes together: do weak signs add up?",
    variants=(ORIGINAL, f"{TWIN}|{TWIN}-*", "shuffle-*|rotation-[!0]*"),
    find=find,
    citations=(PARK, SONG, YAO),
)
