"""``heldout.overlap``: search corpora for a benchmark, then findings, claims and report, in one run."""

from __future__ import annotations

import contextlib
import dataclasses
import html
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from heldout import __version__
from heldout.audit.conclusion import PART, Conclusion, conclude
from heldout.benchmark import (
    Benchmark,
    CheckSettings,
    benchmark_identity,
    check,
    is_frame,
    open_verb_run,
    read_benchmark,
)
from heldout.corpus import Corpus, corpus_fingerprint, is_recipe, open_corpus, open_recipe
from heldout.engine import Engine, open_engine, progress
from heldout.errors import HeldoutError, InputError, counted, require
from heldout.evidence import leaks
from heldout.model import ChatEndpoint, open_endpoint
from heldout.overlap import (
    NO_OPENCV,
    CalibrationPlan,
    ControlSet,
    Domain,
    Judge,
    JudgeEndpoint,
    ModelJudge,
    NearSearch,
    OverlapSettings,
    Part,
    TextSearch,
    calibrate,
    can_register,
    forget_texts,
    judge_texts,
    parse_bounds,
    read_matches,
    read_text_matches,
    scan,
    scan_part,
    scan_text_part,
    scan_texts,
)
from heldout.remote import use_cache
from heldout.report import forget_sources, note_sources, read_sources
from heldout.store import Run, empty_table, is_path, without_credentials
from heldout.verdict import claims_frame, claims_html, findings_frame

CorpusSource = Corpus | str | Path
_DOMAINS: dict[str, Domain] = {"in-domain": "in domain", "out-of-domain": "out of domain"}


@dataclass(frozen=True)
class OverlapResult:
    """What ``heldout.overlap`` returns: the run, and its tables as data frames."""

    run: Run
    conclusion: Conclusion

    @property
    def report(self) -> Path:
        """The page."""
        return self.conclusion.report

    @property
    def matches(self) -> pl.DataFrame:
        """Images of the benchmark in the corpora; people's judgements included."""
        return read_matches(self.run)

    @property
    def text_matches(self) -> pl.DataFrame:
        """Texts of the benchmark in the corpora; empty without a text search."""
        if not self.run.table_path("text_matches").exists():
            return pl.DataFrame(empty_table("text_matches"))
        return read_text_matches(self.run)

    @property
    def leaks(self) -> pl.DataFrame:
        """One row per item and corpus: what leaked, and how it is known."""
        return leaks(self.run)

    @property
    def sources(self) -> pl.DataFrame:
        """Of a search against a recipe: its sources, their weights, and what of the benchmark each holds."""
        return read_sources(self.run)

    @property
    def claims(self) -> pl.DataFrame:
        """What the run concludes, with a status each."""
        return claims_frame(self.conclusion.claims)

    @property
    def findings(self) -> pl.DataFrame:
        """The numbers that claims rest on."""
        return findings_frame(self.conclusion.findings)

    def as_json(self) -> dict[str, Any]:
        return self.conclusion.as_json()

    def __repr__(self) -> str:
        return f"<Overlap of {self.conclusion.summary}>"

    def _repr_html_(self) -> str:
        page = html.escape(str(self.report))
        return f"{claims_html(self.conclusion.claims)}<p>report: {page}</p>"


@dataclass(frozen=True)
class PartResult(OverlapResult):
    """What ``heldout.overlap`` returns of one part: no claims yet, and what was searched."""

    part: Part
    shards: int
    failed: Mapping[str, str]  # shards without a result, and why; merging tries them again

    def as_json(self) -> dict[str, Any]:
        return {
            "run": str(self.run.path),
            "part": str(self.part),
            "shards": self.shards,
            "failed": dict(self.failed),
        }

    def __repr__(self) -> str:
        pieces = counted(self.shards, "piece", "pieces")
        return f"<Part {self.part} of a search: {pieces} of the corpus, run {self.run.path}>"

    def _repr_html_(self) -> str:
        return f"<p>part {self.part}: {counted(self.shards, 'piece', 'pieces')} of the corpus searched</p>"


def audit_overlap(
    benchmark: Benchmark | str | Path,
    against: CorpusSource | Sequence[CorpusSource],
    run: Run | str | Path | None = None,
    engine: Engine | str = "local",
    *,
    settings: OverlapSettings | None = None,
    null: CorpusSource | None = None,
    controls: Sequence[ControlSet | str] = (),
    judge: Judge | JudgeEndpoint | Mapping[str, Any] | str | None = None,
    workers: int | None = None,
    seed: int = 0,
    map: Mapping[str, str] | None = None,
    replace: bool = False,
    quiet: bool = False,
    command: Sequence[str] | None = None,
    notify: Callable[[str], None] | None = None,
    **values: Any,
) -> OverlapResult:
    """Find the images and texts of a benchmark in corpora; every copy is verified.

    ``heldout.overlap(...)`` is this function, too. A killed call continues where it was when it is
    made again with the same ``run``.

    Args:
        benchmark: What is protected: a benchmark, where one is read from, a data frame (pandas, Polars) or a
            ``datasets.Dataset``.
        against: What it may have leaked into: corpora, where they are read from (a path, an address, or a
            recipe of a training mixture, ``corpora.yaml``), or data frames; ``{"name": source}`` and ``NAME=SOURCE``
            give one a name.
        run: Run folder, new or of the same benchmark; default: a new one below ``heldout-runs``.
        engine: Where the search runs: ``local``, ``ray``, ``ray://HOST:PORT``, or an opened engine.
        settings: All settings; or give them by name as further arguments.
        null: Images that are known not to be in the corpora, to calibrate nearness on; default: each
            corpus against itself.
        controls: Images that cannot be in the corpora and must not be flagged: control sets, or
            ``NAME=SOURCE:in-domain`` and ``NAME=SOURCE:out-of-domain``.
        judge: The setting of this name, or a judge of your own.
        workers: Processes; default: one per core.
        seed: Seed of every random draw.
        map: Columns of the benchmark by field: ``{"question": "stem"}``.
        replace: Allow the results of this search to replace those of a wider one in the run folder.
        quiet: Show no progress.
        command: What the run records as its command; default: this call.
        notify: Receives warnings before the search; default: standard error.
        **values: Fields of ``heldout.overlap.OverlapSettings``.

    Returns:
        The run, with matches, leaks, claims and findings as data frames.
    """
    own = judge if isinstance(judge, Judge) else None
    if own is None and judge is not None:
        values["judge"] = judge
    settings = OverlapSettings.choose(settings, values)
    use_cache(settings.cache, settings.cache_gb)
    notify = notify or _to_standard_error
    calibration = _calibration(settings, null, controls)
    asker = open_judge(settings)
    if not isinstance(benchmark, Benchmark):
        benchmark = read_benchmark(benchmark, mapping=map)
    several = _several(against)
    if not several:
        raise InputError(
            "against: no corpus was given: give what the benchmark may have leaked into"
        )
    corpora = [corpus for source in several for corpus in opened_corpora(source)]
    recipes = [source for source in several if not isinstance(source, Corpus) and is_recipe(source)]
    opened = (
        open_engine(engine, workers) if isinstance(engine, str) else contextlib.nullcontext(engine)
    )
    null_source = calibration.null.source if calibration.null is not None else None
    listed = [
        f"{control.corpus.name}={control.corpus.source}:{control.domain.replace(' ', '-')}"
        for control in calibration.controls
    ]
    run = open_verb_run(
        "overlap",
        benchmark,
        settings,
        run,
        seed=seed,
        command=command,
        against=[f"{corpus.name}={corpus.source}" for corpus in corpora],
        null=null_source,
        controls=listed,
    )
    if lost := _lost_by(run, corpora, settings):
        holds = f"{run.path} holds {', '.join(lost)}"
        if not replace:
            raise InputError(
                f"{holds}, which this search would lose: use another folder, or the setting replace to lose "
                "them"
            )
        notify(f"{holds}; they will be replaced by the results of this search")
    title = f"reading the images of {benchmark.name}"
    with progress(title, len(benchmark.images), "images", disabled=quiet) as step:
        benchmark.identify(step)
    if run.manifest().get(PART) and settings.part is None:
        raise InputError(f"{run.path} holds a part of a search: use another folder for the whole")
    if not settings.exact and settings.near_encoder is None and not can_register():
        notify(f"pairs that look alike will be listed, not verified: {NO_OPENCV}")
    with contextlib.ExitStack() as stack:
        working = stack.enter_context(opened)
        stack.enter_context(run.writing())
        if settings.part is not None:
            return search_part(
                benchmark,
                corpora,
                run,
                working,
                settings,
                sources=[_named_source(source) for source in several] if recipes else None,
                null=null_source,
                controls=listed,
                quiet=quiet,
            )
        ended = search_corpora(
            benchmark,
            corpora,
            run,
            working,
            settings,
            calibration,
            judge=ModelJudge.of(run, asker, quiet=quiet) if asker is not None else own,
            quiet=quiet,
        )
        if recipes:
            note_sources(run, corpora)
        else:
            forget_sources(run)
        conclusion = conclude(run, quiet=quiet)
    if ended is not None:  # tables and report hold what the judge said by then; the rest is unsure
        raise ended
    return OverlapResult(run, conclusion)


def search_corpora(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    settings: OverlapSettings,
    calibration: CalibrationPlan | None = None,
    *,
    judge: Judge | None = None,
    checked: CheckSettings | None = None,
    quiet: bool = False,
) -> HeldoutError | None:
    """The tables that ``conclude`` reads, and check.json. Call inside run.writing().

    Returns:
        Why the judge stopped before it had read all candidates; None if it read all.
    """
    use_cache(settings.cache, settings.cache_gb)
    _forget_what_rested_on_others(run, corpora)
    near, text = near_search(settings), text_search(settings)
    run.update("reading", {"allow_unread": list(settings.allow_unread)}, replace=True)
    scanned = scan(
        benchmark, corpora, run, engine, near=near, hashes=not settings.exact, quiet=quiet
    )
    plan = calibration or calibration_plan(settings)
    # Only for an encoder that was named: the default search looks for copies.
    calibrated = near if settings.calibrated_encoder is not None else None
    calibrate(benchmark, corpora, run, engine, near=calibrated, plan=plan, quiet=quiet)
    ended = None
    if text is not None:
        scan_texts(benchmark, corpora, run, engine, text, scanned=scanned, quiet=quiet)
        if judge is not None:
            ended = judge_texts(run, judge, every=settings.judge_all).ended
    else:
        forget_texts(run)
    run.write_json("check.json", check(benchmark, settings=checked).model_dump(mode="json"))
    return ended


def search_part(
    benchmark: Benchmark,
    corpora: Sequence[Corpus],
    run: Run,
    engine: Engine,
    settings: OverlapSettings,
    *,
    sources: Sequence[str] | None = None,
    null: str | None = None,
    controls: Sequence[str] = (),
    quiet: bool = False,
) -> PartResult:
    """Compare the shards of the part that ``settings`` name. Call inside run.writing().

    ``sources``: what the corpora were opened from, where a recipe names them: they are opened by it again.
    """
    use_cache(settings.cache, settings.cache_gb)
    part = Part.read(settings.part)
    known = run.manifest().get(PART, {}).get("part")
    if known is not None and known != str(part):
        raise InputError(f"{run.path} holds part {known}, not {part}: use a folder for each part")
    if known is None and run.manifest()["stages"]:
        raise InputError(f"{run.path} holds a search in one piece: use another folder for a part")
    record = {
        "part": str(part),
        "finished": False,
        "heldout": __version__,
        "settings": settings.model_dump(mode="json", exclude={"part"}),
        "corpora": [
            {
                "name": corpus.name,
                "source": without_credentials(corpus.source),
                "fingerprint": corpus_fingerprint(corpus),
            }
            for corpus in corpora
        ],
        "sources": list(sources) if sources is not None else None,
        "null": null,
        "controls": list(controls),
    }
    run.claim_benchmark(benchmark_identity(benchmark))
    run.update(PART, record, replace=True)
    near = near_search(settings)
    exact = settings.exact
    scanned = scan_part(
        benchmark, corpora, run, engine, part, near=near, hashes=not exact, quiet=quiet
    )
    failed = {shard: why for result in scanned for shard, why in result.failed.items()}
    text = text_search(settings)
    if text is not None:
        failed |= scan_text_part(benchmark, corpora, run, engine, text, part, quiet=quiet)
    shards = sum(result.shards for result in scanned)
    run.update(PART, {"finished": True, "shards": shards, "failed": failed})
    nothing = Conclusion(run, [], [], run.path / "report.html")
    return PartResult(run, nothing, part, shards, failed)


def near_search(settings: OverlapSettings) -> NearSearch | None:
    """How ``settings`` look beyond exact copies and hashes; None where they do not."""
    if settings.near_encoder is None:
        return None
    require("cv2", "vision", "telling copies from look-alikes")
    return NearSearch(
        settings.near_encoder,
        settings.nearest,
        Path(settings.embeddings) if settings.embeddings is not None else None,
        parse_bounds(settings.degrees) if settings.degrees is not None else None,
        named=settings.calibrated_encoder is not None,
    )


def text_search(settings: OverlapSettings) -> TextSearch | None:
    if not settings.text:
        return None
    return dataclasses.replace(
        TextSearch.installed(settings.text_encoder, settings.text_reader),
        fdr=settings.text_fdr,
        threshold=settings.text_threshold,
        ocr=settings.ocr,
    )


def open_judge(settings: OverlapSettings) -> ChatEndpoint | None:
    """The judge's endpoint; an unreachable one is an error before anything is searched."""
    if settings.judge is None:
        return None
    return open_endpoint(settings.judge, None, "judge")


def calibration_plan(
    settings: OverlapSettings,
    null: Corpus | None = None,
    controls: Sequence[ControlSet] = (),
) -> CalibrationPlan:
    others = tuple(spec for spec in settings.second_encoders if spec != settings.calibrated_encoder)
    return CalibrationPlan(
        settings.alpha, null, tuple(controls), others, column=settings.cluster_column
    )


def _calibration(
    settings: OverlapSettings, null: CorpusSource | None, controls: Sequence[ControlSet | str]
) -> CalibrationPlan:
    for name, value in (("null", null), ("controls", controls)):
        if value and settings.calibrated_encoder is None:
            raise InputError(f"{name}: calibrates a near search, which needs the setting encoder")
    return calibration_plan(
        settings,
        opened_corpus(null) if null is not None else None,
        [_control(entry) if isinstance(entry, str) else entry for entry in controls],
    )


def _control(text: str) -> ControlSet:
    source, colon, domain = text.rpartition(":")
    if not colon or domain not in _DOMAINS:
        raise InputError(
            f"controls: {text}: expected NAME=SOURCE:in-domain or NAME=SOURCE:out-of-domain, for "
            f"example rad=data/vqa_rad/images:in-domain"
        )
    return ControlSet(opened_corpus(source), _DOMAINS[domain])


def _named_source(source: CorpusSource) -> str:
    text = f"{source.name}={source.source}" if isinstance(source, Corpus) else str(source)
    return without_credentials(text)


def _several(against: Any) -> list[Any]:
    """What is searched, one by one; of ``{"name": source}`` opened, under its name."""
    if isinstance(against, Mapping) and not is_frame(against):
        return [open_corpus(source, name=name) for name, source in against.items()]
    whole = isinstance(against, str) or not isinstance(against, Sequence) or is_frame(against)
    return [against] if whole else list(against)


def opened_corpora(source: CorpusSource) -> list[Corpus]:
    """The corpora at a source: one, or all that a recipe names."""
    if isinstance(source, Corpus) or not is_recipe(source):
        return [opened_corpus(source)]
    name, location = _name_and_location(source)
    return open_recipe(location, f"{name}-" if name else "")


def opened_corpus(source: CorpusSource) -> Corpus:
    """An opened corpus as it is, or the one at ``NAME=SOURCE`` or ``SOURCE``."""
    if isinstance(source, Corpus):
        return source
    name, location = _name_and_location(source)
    return open_corpus(location, name=name)


def _name_and_location(source: str | Path) -> tuple[str | None, str | Path]:
    """An existing path is never split at "="; a name may be of any language and has no slash."""
    named = re.fullmatch(r"([\w. -]+)=(.+)", str(source)) if isinstance(source, str) else None
    return (None, source) if named is None or is_path(source) else (named[1], named[2])


def replaced_by(run: Run, corpora: Sequence[Corpus]) -> list[str]:
    """Corpora whose results ``run`` holds now and will not hold after a scan of these: name and source."""
    kept = {(corpus.name, corpus.source) for corpus in corpora}
    known = [(stage["corpus"], stage["source"]) for stage in run.manifest()["stages"].values()]
    return [f"{name} ({source})" for name, source in known if (name, source) not in kept]


def _lost_by(run: Run, corpora: Sequence[Corpus], settings: OverlapSettings) -> list[str]:
    """What ``run`` holds now and would not hold after a search of these corpora with these settings."""
    lost = [f"results for {corpus}" for corpus in replaced_by(run, corpora)]
    manifest = run.manifest()
    stages = manifest["stages"].values()
    if settings.exact and any(stage.get("hashes") for stage in stages):
        lost.append("copies that were re-encoded, resized or turned")
    if settings.near_encoder is None and any(stage.get("encoder") for stage in stages):
        lost.append("copies that were cropped, framed or marked")
    if not settings.text and manifest.get("text"):
        lost.append("texts")
    return lost


def _forget_what_rested_on_others(run: Run, corpora: Sequence[Corpus]) -> None:
    """Remove the gate and the impact studies of corpora that the run no longer holds: they would be taken for
    those of the new ones."""
    if replaced_by(run, corpora):
        run.remove("gate")
        for study in run.path.glob("impact*.json"):
            run.remove(study.name)


def _to_standard_error(message: str) -> None:
    sys.stderr.write(f"heldout: {message}\n")
