"""``heldout lab transforms``: studies of encoders, and their page, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path

from heldout.benchmark import Benchmark
from heldout.corpus import open_corpus
from heldout.engine import open_engine
from heldout.errors import InputError, percent, require
from heldout.lab.settings import TransformSettings
from heldout.lab.transforms.cascade import PairJudge, judge_by_registration
from heldout.lab.transforms.queries import collect
from heldout.lab.transforms.result import (
    AreaEstimate,
    CountedRate,
    TransformRates,
    TransformStudy,
    keep_robustness,
    refuse_another_encoder,
)
from heldout.lab.transforms.study import study_transforms
from heldout.overlap import Encoder, degrees_of, open_encoder, parts
from heldout.report import Curve, OperatingPoint, RateBar, rate_chart, roc_chart, standalone
from heldout.store import Run, write_atomic, write_json

# The study's two figures, as in the seed: R@1 by transform, ROC with the operating points.


def recall_figure(studies: Sequence[TransformStudy]) -> str:
    """One dot per encoder, one more per cascade; rows are the transforms all of them share."""
    rows = [
        entry.name
        for entry in studies[0].transforms
        if all(any(e.name == entry.name for e in study.transforms) for study in studies)
    ]
    dots = []
    for name in rows:
        for study in studies:
            entry, label = study.measured(name), study_label(study, studies)
            dots.append(RateBar(name, entry.recall_at_1.value or 0.0, series=label))
            if study.judge:
                share = (entry.verified.found.value or 0.0) if entry.verified else 0.0
                dots.append(RateBar(name, share, series=f"{label} + {study.judge}"))
    title, label = (
        "Copies found, by transform",
        "share of copies that are nearest, or called copies",
    )
    return standalone(rate_chart(dots, title=title, label=label))


def roc_figure(study: TransformStudy) -> str:
    curves = [
        Curve(
            name, [p.fpr for p in points], [p.tpr for p in points], study.measured(name).auc.value
        )
        for name, points in study.roc.items()
    ]
    pooled = study.pools[0] if study.pools else study.measured("original")
    points = [
        OperatingPoint(point.threshold, point.fpr or 0.0, point.tpr.value or 0.0)
        for point in pooled.operating
    ]
    pairs = max((point.pairs for point in pooled.operating), default=1_000_000)
    return standalone(
        roc_chart(
            curves,
            points=points,
            smallest=1.0 / max(pairs, 10),
            title=f"{short_name(study)} on {study.collection}",
        )
    )


def study_label(study: TransformStudy, studies: Sequence[TransformStudy]) -> str:
    """The encoder, with whatever else tells the studies apart."""
    label = short_name(study)
    if len({other.encoder for other in studies}) > len({short_name(other) for other in studies}):
        label = study.encoder
    if len({other.views for other in studies}) > 1:
        label += f", {study.views} view{'s' if study.views > 1 else ''}"
    if len({other.side for other in studies}) > 1:
        label += f", {study.side} transformed"
    if len({other.collection for other in studies}) > 1:
        label += f" ({study.collection})"
    return label


def short_name(study: TransformStudy) -> str:
    """The encoder without its pre-processing, which its identity puts after a bar."""
    return study.encoder.split(" | ")[0]


def write_studies(
    studies: Sequence[TransformStudy], folder: Path, *, command: str = ""
) -> list[Path]:
    """``transforms.md``, its figures, ``transforms.csv`` and ``transforms.json`` in ``folder``."""
    if not studies:
        raise InputError("there is no study to write")
    figures = {"transforms-recall.svg": recall_figure(studies)}
    figures |= {_roc_name(index): roc_figure(study) for index, study in enumerate(studies)}
    for name, figure in figures.items():
        write_atomic(folder / "figures" / name, figure)
    paths = [folder / f"transforms.{suffix}" for suffix in ("md", "csv", "json")]
    write_atomic(paths[0], study_page(studies, command=command))
    write_atomic(paths[1], study_csv(studies))
    write_json(paths[2], [study.model_dump(mode="json") for study in studies])
    return [*paths, *(folder / "figures" / name for name in figures)]


def _roc_name(index: int) -> str:
    return f"transforms-roc-{index + 1}.svg"


def study_csv(studies: Sequence[TransformStudy]) -> str:
    """Long form: collection, encoder, transform, measure, value, low, high, hits, n, method."""
    buffer = io.StringIO()
    table = csv.writer(buffer, lineterminator="\n")
    table.writerow(
        [
            "collection",
            "side",
            "encoder",
            "views",
            "judge",
            "transform",
            "measure",
            "value",
            "low",
            "high",
            "hits",
            "n",
            "method",
        ]
    )
    for study in studies:
        for entry in [*study.pools, *study.transforms]:
            for measure, rate in _numbers(entry):
                counts = [rate.hits, rate.n] if isinstance(rate, CountedRate) else ["", ""]
                table.writerow(
                    [
                        study.collection,
                        study.side,
                        study.encoder,
                        study.views,
                        study.judge or "",
                        entry.name,
                        measure,
                        _or_empty(rate.value),
                        rate.low,
                        rate.high,
                        *counts,
                        rate.method,
                    ]
                )
    return buffer.getvalue()


def study_page(studies: Sequence[TransformStudy], *, command: str = "") -> str:
    """What was done, one table per measure with a column per encoder, what to look at."""
    lines = ["# Finding pictures again after a transform", ""]
    lines += [
        "Pictures of a collection are looked for in it. Either the query is transformed, as in the",
        "seed's study, or the copy in the corpus is, as in an audit. R@1 is the share of queries whose",
        "copy is more similar than every other picture of the collection (a tie is a miss),",
        "R@k the share whose copy is among the k most similar (the shortlist), both with the query's",
        "views and the parts of corpus pictures that an audit uses. The cascade shows the shortlist to",
        "the judge: *found* is what is on it and accepted as a copy, *left to people* what is on it and",
        "undecided or changed in part, *judge alone* what is accepted, shortlisted or not. Pairs of",
        "different pictures that are judged are each query's with its most similar ones (of its own",
        "group, where one is named), every pair once.",
        "AUC is over all pairs of a query and a picture (ties count half), TPR is the share of",
        "queries whose copy reaches a threshold. Brackets are 95 % intervals: exact over",
        "pictures, by picture (or patient, where the benchmark names one) where transforms are pooled.",
        "",
    ]
    if command:
        lines += ["```", command, "```", ""]
    lines += _setting(studies)
    lines += ["![R@1 of every transform and encoder](figures/transforms-recall.svg)", ""]
    for study in studies:
        lines += _measures(study, studies)
    for index, study in enumerate(studies):
        lines += _thresholds(study)
        lines += [f"![ROC curves](figures/{_roc_name(index)})", ""]
        lines += _pairs("Different pictures the judge accepted", study, accepted=True)
        lines += _pairs("Most similar different pictures", study, accepted=False)
    lines += ["## The transforms", "", "| transform | family | what it does |", "|---|---|---|"]
    described = {entry.name: entry for study in studies for entry in study.transforms}
    lines += [f"| {e.name} | {e.family} | {e.description} |" for e in described.values()]
    return "\n".join(lines) + "\n"


def _setting(studies: Sequence[TransformStudy]) -> list[str]:
    lines = [
        "| collection | transformed | encoder | views | judge | k | judged pairs share | pictures "
        "| of other sources | copies left out | unusable | kept for figures | queries | clusters | seed |",
        "|---|---|---|--:|---|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for s in studies:
        lines.append(
            f"| {s.collection} | {s.side} | {_safe(s.encoder)} | {s.views} "
            f"| {s.judge or 'none'} | {s.shortlist} | {_safe(s.group or 'nothing')} | {s.pictures} "
            f"| {s.searched_only} | {s.duplicates} | {s.unusable} | {s.strangers} "
            f"| {s.queries} | {s.clusters} | {s.seed} |"
        )
    return [*lines, ""]


def _measures(study: TransformStudy, studies: Sequence[TransformStudy]) -> list[str]:
    """One row per transform: what the encoder does, what the cascade makes of it."""
    heads = ["R@1", f"R@{study.shortlist}", "AUC"]
    if study.judge:
        heads += ["found", "found, of copies with half the area", "left to people", "judge alone"]
    lines = [f"## {_safe(study_label(study, studies))}", ""]
    lines += [f"| transform | copies | {' | '.join(heads)} |", "|---|--:|" + "--:|" * len(heads)]
    for entry in [*study.transforms, *study.pools]:
        cells = [_shown(entry.recall_at_1), _shown(entry.recall_at_k), _shown(entry.auc, digits=5)]
        if (verified := entry.verified) is not None:
            half = verified.found_of_half
            cells += [
                _shown(verified.found),
                f"{_shown(half)} of {half.n}" if half is not None else "",
                _shown(verified.undecided),
                _shown(verified.accepted),
            ]
        label = f"*{entry.name} pooled*" if entry in study.pools else entry.name
        if entry.area_kept is not None:
            label += f" (keeps {percent(entry.area_kept, 0)} of the area)"
        lines.append(f"| {label} | {entry.queries} | {' | '.join(cells)} |")
    return [*lines, "", *_false_alarms(study)]


def _false_alarms(study: TransformStudy) -> list[str]:
    alarms = [e.verified.false_alarms for e in study.transforms if e.verified is not None]
    if not alarms:
        return []
    accepted, judged = sum(alarm.hits for alarm in alarms), sum(alarm.n for alarm in alarms)
    sharing = f" that share their {study.group}" if study.group else ""
    bound = f", at most {alarms[0].high:.5f} by query (95 %)" if not accepted else ""
    return [
        f"Pairs of different pictures{sharing} judged: {judged:,}; accepted: {accepted}{bound}.",
        "",
    ]


def _thresholds(study: TransformStudy) -> list[str]:
    """TPR at every threshold; the FPR of the same queries beside it."""
    known = [threshold for threshold in study.thresholds if threshold.value is not None]
    lines = [f"## Operating thresholds: {study.collection}, {short_name(study)}", ""]
    lines += [f"{t.name}: not given, {t.reason}." for t in study.thresholds if t.value is None]
    if not known:
        return [*lines, ""]
    heads = [f"{threshold.name} (≥ {threshold.value:g})" for threshold in known]
    lines += ["", f"| TPR · FPR | {' | '.join(heads)} |", "|---|" + "--:|" * len(heads)]
    for entry in [*study.transforms, *study.pools]:
        cells = [
            f"{_shown(point.tpr)} · {point.false_pairs:,}/{point.pairs:,}"
            for point in entry.operating
        ]
        lines.append(f"| {entry.name} | {' | '.join(cells)} |")
    return [*lines, ""]


def _pairs(title: str, study: TransformStudy, *, accepted: bool) -> list[str]:
    pairs = study.wrongly_accepted if accepted else study.closest
    if not pairs:
        return []
    lines = [f"## {title}: {study.collection}, {short_name(study)}", ""]
    lines += ["Look at them: a copy that slipped in would count as an error.", ""]
    lines += ["| one | other | similarity |", "|---|---|--:|"]
    lines += [f"| {_safe(p.one)} | {_safe(p.other)} | {p.similarity:.5f} |" for p in pairs]
    return [*lines, ""]


def _numbers(entry: TransformRates) -> Iterator[tuple[str, CountedRate | AreaEstimate]]:
    yield "R@1", entry.recall_at_1
    yield "R@k", entry.recall_at_k
    yield "AUC", entry.auc
    for point in entry.operating:
        yield f"TPR at {point.threshold}", point.tpr
        bounds = (point.fpr_low, point.fpr_high)
        if point.fpr is not None and bounds[0] is not None and bounds[1] is not None:
            yield (
                f"FPR at {point.threshold}",
                CountedRate(
                    hits=point.false_pairs,
                    n=point.pairs,
                    value=point.fpr,
                    low=bounds[0],
                    high=bounds[1],
                    level=0.95,
                    method="by query",
                ),
            )
    if entry.verified is not None:
        for name in ("shortlisted", "accepted", "found", "undecided", "false_alarms"):
            yield f"cascade {name.replace('_', ' ')}", getattr(entry.verified, name)
        if entry.verified.found_of_half is not None:
            yield "cascade found of half", entry.verified.found_of_half


def _shown(rate: CountedRate | AreaEstimate, digits: int = 3) -> str:
    if rate.value is None:
        return "–"
    return f"{rate.value:.{digits}f} [{rate.low:.{digits}f}, {rate.high:.{digits}f}]"


def _safe(name: str) -> str:
    return name.replace("|", "\\|").replace("\n", " ")


def _or_empty(value: float | None) -> float | str:
    return "" if value is None else value


# ``heldout lab transforms``: the study of every encoder, its page, and its part of a report.


def run_transforms(
    benchmark: Benchmark,
    out: Path,
    settings: TransformSettings | None = None,
    *,
    run: Run | None = None,
    engine: str = "local",
    workers: int | None = None,
    command: str = "",
    quiet: bool = False,
) -> tuple[list[TransformStudy], Path]:
    """How well copies are found after every transform.

    Args:
        benchmark: Its images are the queries.
        out: Folder for the page and its tables.
        settings: What is studied.
        run: A run of ``heldout overlap`` whose report is to show the result.
        engine: Where the work runs.
        workers: Processes; default: one per core.
        command: The command that the page names.
        quiet: Show no progress.

    Returns:
        A study of each encoder, and the page.
    """
    if out.exists() and not out.is_dir():
        raise InputError(f"out {out}: it is a file; expected the name of a folder")
    settings = settings or TransformSettings()
    judge = _judge() if settings.verify else None
    others = [open_corpus(source) for source in settings.among]
    collection = collect(benchmark, among=others, group=settings.group)
    with open_engine(engine, workers) as chosen:
        studies = [
            study_transforms(
                collection,
                encoder,
                settings.model_copy(update={"degrees": _degrees(encoder, settings)}),
                views=encoder.encode_views,
                parts=parts,
                judge=judge,
                engine=chosen,
                quiet=quiet,
            )
            for encoder in _opened(settings.encoders, run)
        ]
    paths = write_studies(studies, out, command=command)
    for folder in (out, *([run.path] if run is not None else [])):
        keep_robustness(studies, folder, command)
    return studies, paths[0]


def _judge() -> PairJudge:
    require("cv2", "vision", "judging pairs by registration")
    from heldout.overlap import cheap_features, register

    return judge_by_registration(register, prepare=cheap_features)


def _degrees(encoder: Encoder, settings: TransformSettings) -> dict[str, float] | None:
    """The degrees to measure: those of the settings, or those measured for the encoder."""
    if settings.degrees is not None:
        return settings.degrees
    degrees = degrees_of(encoder.identity)
    return None if degrees is None else {"hard": degrees.hard, "soft": degrees.soft}


def _opened(names: Sequence[str], run: Run | None) -> Iterator[Encoder]:
    """One encoder at a time: some fill the memory."""
    for name in names:
        encoder = open_encoder(name)
        if run is not None:
            refuse_another_encoder(run, encoder.identity)
        yield encoder
