"""What `heldout lab power` writes: the leaderboard's page, its figure and its rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import polars as pl

from heldout.errors import percent
from heldout.lab.power._answers import Requirements, answers, area_text, by_arm
from heldout.lab.power._clean_bases import clean_bases
from heldout.lab.power.board import (
    CLEAN_DATA,
    LEVEL,
    RATES,
    Area,
    BenchmarkStanding,
    FiringShare,
    Standing,
    dose_arms,
    fired,
    measured_rates,
    models_by_role,
)
from heldout.lab.power.models import CLEAN, OTHER_SEEDS, RAW, SAME_BASE, WAYS, About
from heldout.report import DoseCurve, DosePanel, power_chart, standalone
from heldout.store import replacing, write_atomic, write_json
from heldout.verdict import INTRACLASS

# The leaderboard as tables: pooled, by benchmark, and the three requirements.


TOLD = {
    RAW: "the detector by itself",
    OTHER_SEEDS: "compared with clean models of other seeds, which is what a user may have",
    SAME_BASE: "compared with clean arms of the same base, which only a lab has",
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
        "fire. Rates carry 95 % Clopper–Pearson intervals. Models are named where one is tested more than once (on "
        "several splits, or clean on two benchmarks). Models of one base that did not see the benchmark are alike: m "
        f"of b bases count as m / (1 + (m / b - 1) × {INTRACLASS:g}) observations. A rate is *off* where it would be "
        "above the level with every model counted for itself, which caps more claims."
    )
    yield ""
    for way in WAYS:
        part = [standing for standing in board if standing.way == way]
        if not part:
            continue
        yield f"### {way.capitalize()}: {TOLD[way]}"
        yield ""
        yield from table(
            (
                "detector",
                "works on",
                "AUC",
                "AUC over",
                "TPR at 1 %",
                "TPR at 5 %",
                "fires, contaminated",
                "FPR, clean",
                "FPR, outsiders",
                "smallest dose",
                "tokens",
            ),
            (_standing(standing) for standing in part),
        )
        names = list(dict.fromkeys(name for standing in part for name in standing.places))
        yield (
            "By benchmark: AUC; fires on contaminated; fires on clean models (bases with a clean model "
            "that fires)."
        )
        yield ""
        yield from table(
            ("detector", *names),
            (
                [standing.detector, *(_place(standing.places.get(name)) for name in names)]
                for standing in part
            ),
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
    places = list(
        dict.fromkeys(name for requirements in required for name in requirements.tested_on)
    )
    few = max(
        (share for requirements in required for share in requirements.modes.values()),
        key=lambda share: share.n,
        default=FiringShare(0, 0),
    )
    width = FiringShare(max(0, few.n - 1), few.n)
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
        (
            "detector",
            "reads",
            "practical",
            "way",
            "reliable: fine-tuning",
            "full",
            "language",
            "LoRA",
            "reliable: pre-training",
            "fires",
            "consistent",
            "concordance",
        ),
        (_requirement(requirements) for requirements in required),
    )


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|---" * len(head) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
    yield ""


def _standing(standing: Standing) -> list[str]:
    return [
        standing.detector,
        standing.group,
        area_text(standing),
        _over(standing.area),
        _rate(standing.at_1),
        _rate(standing.at_5),
        str(standing.power),
        f"{standing.false_positives}{_off(standing)}",
        str(standing.outsiders),
        standing.detectable,
        "–" if standing.tokens is None else f"{standing.tokens:,}",
    ]


def _off(standing: Standing) -> str:
    if not standing.off:
        return ""
    return f" **off** ({', '.join(standing.off_in)})" if standing.off_in else " **off**"


def _over(area: Area | None) -> str:
    if area is None:
        return "–"
    doses = ", ".join(map(str, area.doses))
    return f"{area.contaminated} (dose {doses}) / {area.clean}"


def _place(place: BenchmarkStanding | None) -> str:
    if place is None:
        return "–"
    area = "–" if place.area is None else f"{place.area.value:.2f}"
    if not place.false_positives.n:
        return f"{area}; no test"
    off = " **off**" if place.false_positives.off else ""
    bases = f" ({_rate(place.bases)})" if place.false_positives.hits else ""
    return f"{area}; {_rate(place.power)}; {_rate(place.false_positives)}{bases}{off}"


def _requirement(requirements: Requirements) -> list[str]:
    trend = (
        "–"
        if requirements.dose is None
        else f"{requirements.dose.concordance:+.2f} (p {requirements.dose.p:.2g})"
    )
    testable = any(share.n for share in requirements.modes.values())
    return [
        requirements.detector,
        requirements.reads,
        f"{requirements.practical}: {requirements.practical_why}",
        requirements.way,
        _yes(requirements.tuning_seen) if testable else "not tested",
        *(_rate(share) for share in requirements.modes.values()),
        _yes(requirements.pretraining_seen) if requirements.pretraining.n else "not tested",
        _rate(requirements.pretraining),
        "not tested" if requirements.dose is None else _yes(requirements.consistent),
        trend,
    ]


def _rate(share: FiringShare) -> str:
    return f"{share.hits}/{share.n}" if share.n else "–"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


PAGE, DATA = "detector-power.md", "detector-power.parquet"


def write_power(
    rows: pl.DataFrame,
    board: Sequence[Standing],
    required: Sequence[Requirements],
    folder: Path,
    command: str,
    about: About = About(),  # noqa: B008 - frozen
) -> list[Path]:
    """Last of the paths: the rates that the verdict reads. Clean bases of further seeds, where the folder has rows
    of them, get their section."""
    page, data, rates = folder / PAGE, folder / "data" / DATA, folder / "data" / RATES
    more = folder / "data" / CLEAN_DATA
    further = pl.read_parquet(more) if more.is_file() else None
    with replacing(data) as temporary:
        rows.write_parquet(temporary, compression="zstd", compression_level=19)
    drawn = []
    for name in _tested(rows)["benchmark"].unique(maintain_order=True):
        drawn.append(folder / "figures" / _figure_name(name))
        write_atomic(drawn[-1], standalone(power_figure(rows, name)))
    write_json(rates, measured_rates(data, command, about.weights).model_dump(mode="json"))
    write_atomic(page, power_page(rows, board, required, command, about, further))
    return [page, *drawn, data, rates]


def power_page(
    rows: pl.DataFrame,
    board: Sequence[Standing],
    required: Sequence[Requirements],
    command: str,
    about: About = About(),  # noqa: B008 - frozen
    further: pl.DataFrame | None = None,
) -> str:
    return (
        "\n".join(
            [
                *_head(rows, command, about.earlier),
                *boards(rows, board, about),
                *(clean_bases(rows, further) if further is not None else ()),
                *required_page(required),
                "## Power against dose",
                "",
                "Share of models that fire, with Clopper–Pearson bands; clean models at the left. "
                "The red line is the level of the test.",
                "",
                *_figures(rows),
                "## Answers",
                "",
                *answers(rows, board),
                *_arms(rows),
                *_limits(rows, about.weights),
            ]
        )
        + "\n"
    )


def power_figure(rows: pl.DataFrame, benchmark: str) -> str:
    tested = _tested(rows).filter(pl.col("benchmark") == benchmark)
    panels = []
    for name in tested["detector"].unique(maintain_order=True):
        of_detector = tested.filter(pl.col("detector") == name)
        curves = [
            curve
            for way in (RAW, OTHER_SEEDS)
            if (curve := _curve(of_detector.filter(pl.col("way") == way), TOLD[way])) is not None
        ]
        if curves:
            panels.append(DosePanel(name, curves))
    title = f"Share of models that fire, by dose: {benchmark}"
    return str(power_chart(panels, level=LEVEL, title=title))


def _tested(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("p").is_not_null() & (pl.col("split") == ""))


def _figure_name(benchmark: str) -> str:
    plain = "".join(letter if letter.isalnum() else "-" for letter in benchmark)
    return f"detector-power-{plain}.svg"


def _figures(rows: pl.DataFrame) -> Iterator[str]:
    for name in _tested(rows)["benchmark"].unique(maintain_order=True):
        yield f"![power against dose, {name}](figures/{_figure_name(name)})"
        yield ""


def _curve(frame: pl.DataFrame, name: str) -> DoseCurve | None:
    arms = dose_arms(frame)
    doses = sorted(arms["dose"].unique().to_list())
    if not doses:
        return None
    shares = [fired(frame.filter(pl.col("role") == CLEAN))]
    shares += [fired(arms.filter(pl.col("dose") == dose)) for dose in doses]
    return DoseCurve(
        name,
        [0, *doses],
        [share.value for share in shares],
        [share.interval.low for share in shares],
        [share.interval.high for share in shares],
    )


def _head(rows: pl.DataFrame, command: str, earlier: Sequence[str]) -> Iterator[str]:
    yield "# What detectors can see: power and false positives on models whose contamination is known"
    yield ""
    yield (
        f"Written by `{command}` from the grid of [lab.md](lab.md); the rows are in `data/{DATA}`, the "
        f"rates that the [verdict](verdict.md) reads in `data/{RATES}`."
        + (f" Rows of {', '.join(earlier)} were not counted anew." if earlier else "")
    )
    yield ""
    counted = models_by_role(rows)
    yield from table(
        ("benchmark", "contaminated", "clean", "outsiders"),
        ([name, *map(str, counts.values())] for name, counts in counted.items()),
    )
    yield (
        "*Clean* models know the benchmark's world and none of its items (bases count, too); *outsiders* "
        "were trained on another world. A detector *fires* when its two-sided p is at most .05 and it "
        "points to memory. Every detector runs in up to three ways: "
        + "; ".join(f"**{way}**, {message}" for way, message in TOLD.items())
        + ". Behaviour detectors are compared with the references' average, order and membership with "
        "every reference in turn and the largest p counts, as in the verdict. A model is never its own "
        "reference."
    )
    yield ""


def _arms(rows: pl.DataFrame) -> Iterator[str]:
    yield "## Arm by arm"
    yield ""
    yield f"Models that fire compared with clean models of other seeds; the other ways are in `data/{DATA}`."
    yield ""
    for benchmark in rows["benchmark"].unique(maintain_order=True):
        lines = by_arm(rows, benchmark, OTHER_SEEDS)
        yield from [*lines, ""] if lines else []


def _limits(rows: pl.DataFrame, weights: int | None) -> Iterator[str]:
    yield "## What this cannot show"
    yield ""
    clean = rows.filter((pl.col("role") == CLEAN) & (pl.col("split") == ""))
    count = clean.select("benchmark", "model").n_unique()
    none = FiringShare(0, count, clean["model"].n_unique(), clean["base"].n_unique())
    size = (
        "Models this small" if weights is None else f"Models of {weights / 1e6:.1f} million weights"
    )
    yield (
        f"- **False-positive rates below a few per cent.** Not one of {count} clean cells of {none.units} "
        f"models of {none.bases} bases firing would still allow a rate of {percent(none.interval.high, 0)}."
    )
    yield (
        f"- **Large models.** {size} learn answers and hardly sequences of questions: that the order tests "
        "see little here says little about a model that memorises its documents. The verdict lets these "
        "rates cap a claim, and never strengthen one."
    )
    yield (
        "- **Calibration between seeds.** Clean models of other seeds have other weak spots, and a "
        "detector that fires on them finds those. Published models may differ by more."
    )
    yield "- **What no table holds:**"
    missing = pl.col("effect").is_null() & (pl.col("reason") != "") & (pl.col("role") != "doses")
    reasons = rows.filter(missing)
    listed = reasons.select("benchmark", "detector", "reason").unique(maintain_order=True)
    limits: dict[tuple[str, str], list[str]] = {}
    for benchmark, detector, reason in listed.iter_rows():
        short = reason.split(" (")[0].split(":")[0]
        places = limits.setdefault((detector, short), [])
        if benchmark not in places:
            places.append(benchmark)
    for (detector, reason), places in limits.items():
        yield f"  - {detector} ({', '.join(places)}): {reason}"
    yield "  - top-k-overlap: it speaks of pairs of models, not of models"
