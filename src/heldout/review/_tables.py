"""Tables of judgements: agreement of raters, and Tables 8 and 9 of MedVLSynther for items."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from heldout.errors import counted, percent
from heldout.review.card import FORMS, SCALES, Kind, ReviewCard
from heldout.stats import (
    RaterAgreement,
    agreement,
    cluster_rate_interval,
    krippendorff_alpha,
    subset_mean,
)
from heldout.store import Judgement

Said = Mapping[tuple[str, str], Judgement]
ByItem = Mapping[str, Sequence[Judgement]]
_NONE = "–"
_ALPHA = "Krippendorff's alpha"


@dataclass(frozen=True)
class Table:
    title: str
    columns: list[str]
    rows: list[list[str]]
    note: str = ""


def agreement_tables(kind: Kind, cards: Sequence[ReviewCard], judgements: Said) -> list[Table]:
    known = {card.subject: card for card in cards}
    here = {key: judgement for key, judgement in judgements.items() if key[0] in known}
    tables = [_raters(kind, here), _agreements(kind, known, here)]
    if kind == "items":
        by_item: dict[str, list[Judgement]] = defaultdict(list)
        for (subject, _), judgement in here.items():
            by_item[subject].append(judgement)
        tables += [_quality(known, by_item), _rejected(known, by_item), _gates(known, by_item)]
    if kind == "twins":
        tables.append(_against_verifier(known, here))
    return [table for table in tables if table.rows]


def _raters(kind: Kind, judgements: Said) -> Table:
    verdicts = [verdict.value for verdict in FORMS[kind].verdicts]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    looks: dict[str, list[float]] = defaultdict(list)
    for (_, rater), judgement in judgements.items():
        counts[rater][str(judgement.verdict)] += 1
        if judgement.seconds is not None:
            looks[rater].append(judgement.seconds)
    rows = [
        [
            rater,
            str(sum(verdict_counts.values())),
            *(str(verdict_counts[verdict]) for verdict in verdicts),
            *([f"{median(looks[rater]):.0f}" if looks[rater] else _NONE] if looks else []),
        ]
        for rater, verdict_counts in sorted(counts.items())
    ]
    columns = ["rater", "judged", *verdicts, *(["seconds per card (median)"] if looks else [])]
    return Table("What each rater said", columns, rows)


def _agreements(kind: Kind, cards: Mapping[str, ReviewCard], judgements: Said) -> Table:
    codes = {verdict.value: float(code) for code, verdict in enumerate(FORMS[kind].verdicts)}

    def verdict(judgement: Judgement) -> float | None:
        return codes.get(judgement.verdict or "")

    first = _agreed(cards, judgements, verdict)
    rows = [_agreement("verdict", first)]
    if first.coefficient != _ALPHA:  # of any number of raters: what papers report
        units, clusters = _units(cards, judgements, verdict)
        rows.append(_agreement("verdict", krippendorff_alpha(units, clusters)))
    for scale in FORMS[kind].scales:
        agreement = _agreed(cards, judgements, functools.partial(_rating, scale.name), "ordinal")
        rows.append(_agreement(scale.label, agreement))
    several = len({rater for _, rater in judgements}) > 1
    note = "95 % intervals leave out one benchmark picture after the other (jackknife)"
    if FORMS[kind].scales:
        note += "; alpha of the scales is ordinal: 3 is nearer to 4 than to 1"
    columns = ["of", "coefficient", "value", "interval", "equal", "judged by several"]
    return Table("Agreement", columns, rows if several else [], note)


def _rating(scale: str, judgement: Judgement) -> float | None:
    return judgement.ratings.get(scale)


def _agreed(
    cards: Mapping[str, ReviewCard],
    judgements: Said,
    code: Callable[[Judgement], float | None],
    scale: str = "nominal",
) -> RaterAgreement:
    units, clusters = _units(cards, judgements, code)
    return agreement(units, clusters, scale=scale)  # type: ignore[arg-type]


def _units(
    cards: Mapping[str, ReviewCard],
    judgements: Said,
    code: Callable[[Judgement], float | None],
) -> tuple[list[dict[str, float]], list[str]]:
    """What each rater said of each card, and the picture that each card is about."""
    units: dict[str, dict[str, float]] = defaultdict(dict)
    for (subject, rater), judgement in judgements.items():
        value = code(judgement)
        if value is not None:
            units[subject][rater] = float(value)
    return list(units.values()), [cards[subject].cluster for subject in units]


def _agreement(name: str, agreement: RaterAgreement) -> list[str]:
    interval = agreement.interval
    return [
        name,
        agreement.coefficient,
        _NONE if agreement.value is None else f"{agreement.value:.2f}",
        _NONE if interval is None else f"{interval.low:.2f} to {interval.high:.2f}",
        _NONE if agreement.observed is None else f"{percent(agreement.observed, 0)}",
        str(agreement.units),
    ]


def _subsets(cards: Mapping[str, ReviewCard], by_item: ByItem) -> dict[str, list[str]]:
    named = {True: "verifier-accepted", False: "verifier-rejected", None: "no verifier"}
    subsets: dict[str, list[str]] = defaultdict(list)
    for subject in by_item:
        subsets[named[cards[subject].hint.get("accepted")]].append(subject)
    return {name: subsets[name] for name in named.values() if subsets[name]}


def _quality(cards: Mapping[str, ReviewCard], by_item: ByItem) -> Table:
    """Table 8: how many items people accept, and the mean of each scale over items."""
    rows = []
    for name, subjects in _subsets(cards, by_item).items():
        raters = {judgement.rater for subject in subjects for judgement in by_item[subject]}
        passed = [float(_accepted(by_item[subject])) for subject in subjects]
        clusters = [cards[subject].cluster for subject in subjects]
        interval = cluster_rate_interval(passed, clusters)
        rate = f"{percent(sum(passed) / len(passed), 0)}; {percent(interval.low, 0)} to {percent(interval.high, 0)}"
        means = [_mean(cards, by_item, subjects, scale.name) for scale in SCALES]
        message = f"{sum(passed):.0f} / {len(passed)} ({rate})"
        rows.append([name, str(len(subjects)), str(len(raters)), message, *means])
    scales = [f"mean {scale.label.lower()}" for scale in SCALES]
    note = "an item is accepted if more raters accept than reject it; a scale's mean is over items"
    columns = ["subset", "items", "raters", "people accept", *scales]
    return Table("Quality as people see it", columns, rows, note)


def _accepted(judgements: Sequence[Judgement]) -> bool:
    votes = Counter(judgement.verdict for judgement in judgements)
    return votes["accept"] > votes["reject"]


def _mean(
    cards: Mapping[str, ReviewCard], by_item: ByItem, subjects: Sequence[str], scale: str
) -> str:
    values, clusters = [], []
    for subject in subjects:
        own = [
            judgement.ratings[scale] for judgement in by_item[subject] if scale in judgement.ratings
        ]
        if own:
            values.append(sum(own) / len(own))
            clusters.append(cards[subject].cluster)
    estimate = subset_mean(values, [True] * len(values), clusters) if values else None
    if estimate is None:
        return _NONE
    message = f"{estimate.value:.2f}"
    if estimate.interval is not None:
        low, high = (
            min(max(end, 1.0), 4.0) for end in estimate.interval[:2]
        )  # means cannot lie beyond
        message += f" ({low:.2f} to {high:.2f})"
    return message


def _rejected(cards: Mapping[str, ReviewCard], by_item: ByItem) -> Table:
    """Table 9: of the items a verifier rejected, by the essential criterion, where people agree."""
    agreed: dict[str, list[bool]] = defaultdict(list)
    for subject in _subsets(cards, by_item).get("verifier-rejected", []):
        for title in cards[subject].hint.get("failed", []):
            agreed[title].append(not _accepted(by_item[subject]))
    rows = [
        [title, str(len(outcomes)), f"{sum(outcomes)} of {len(outcomes)}"]
        for title, outcomes in sorted(agreed.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    ]
    columns = ["essential criterion that failed", "items", "people reject them, too"]
    return Table("Where people agree with a rejection", columns, rows)


def _gates(cards: Mapping[str, ReviewCard], by_item: ByItem) -> Table:
    """Items that failed an essential criterion: whether code or the verifier saw the fault, and how many of
    them people reject as well."""
    gates: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for subject, judgements in by_item.items():
        for line in cards[subject].hint.get("rubric", []):
            if line.get("category") != "essential" or line.get("met") is not False:
                continue
            seen = [who for who in ("code", "verifier") if line.get(who) is False]
            who = "both" if len(seen) == 2 else seen[0] if seen else "both"
            gates[line["title"]][who].append(not _accepted(judgements))
    rows = [
        [title, *(_share(by_who[who]) for who in ("both", "verifier", "code"))]
        for title, by_who in sorted(gates.items())
    ]
    columns = ["essential criterion", "code and verifier", "only the verifier", "only code"]
    note = (
        "people reject, of the items that were judged and fell at the criterion, by who saw a fault"
    )
    return Table("Disputed gates", columns, rows, note)


def _share(agreed: Sequence[bool]) -> str:
    return f"{sum(agreed)} of {len(agreed)}" if agreed else _NONE


def _against_verifier(cards: Mapping[str, ReviewCard], judgements: Said) -> Table:
    pairs: Counter[tuple[str, str]] = Counter()
    for (subject, _), judgement in judgements.items():
        if decision := cards[subject].hint.get("verifier"):
            pairs[str(decision), str(judgement.verdict)] += 1
    rows = [
        [decision, verdict, counted(count, "judgement", "judgements")]
        for (decision, verdict), count in sorted(pairs.items())
    ]
    return Table("People and the verifier", ["verifier", "people", "how often"], rows)
